//! Positions of a step as a transformer reads them, and what it is taught of them, in plain arrays.

use super::neighbours::{following, plies_left, with_history};
use crate::loss::sigmoid;
use crate::metrics::Phase;
use tandem_chess::move_map::{lc0, searchless};
use tandem_chess::{BitBoard, Board, Move};
use tandem_data::{Outcome, Record, Score};
use tandem_transformer::encoding::outcomes::chances_of_outcomes;
use tandem_transformer::encoding::{planes, squares, text};
use tandem_transformer::{Architecture, Input, PolicyKind, PolicyTarget};

/// In place of the number of a move that is not known.
pub const NO_MOVE: u16 = u16::MAX;

/// What is known of neither win, draw nor loss.
const UNKNOWN: [f32; 3] = [f32::NAN; 3];

/// Each ply of the near future counts for so much of the one before it.
const NEAR_FUTURE: f64 = 5.0 / 6.0;
/// Plies of it that are looked at: what comes later counts for a twentieth.
const NEAR_PLIES: usize = 16;

/// What a network reads and is taught, and so which arrays it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleShape {
    /// What it reads.
    pub input: Input,
    /// It reads a move too.
    pub actions: bool,
    /// How its policy numbers moves, if it has one.
    pub moves: Option<PolicyKind>,
    /// It is taught the chance to win.
    pub chances: bool,
    /// It is taught how the game ends.
    pub ends: bool,
    /// It is taught the opponent's answer.
    pub opponent: bool,
    /// It is taught what a search finds.
    pub search: bool,
    /// It is taught how the next moves go.
    pub short_term: bool,
    /// It is taught how many plies are left.
    pub moves_left: bool,
    /// Numbers that an NNUE sees of a position, for a bridge to read.
    pub seen: usize,
}

impl SampleShape {
    /// A position and what it is worth, and nothing of moves.
    pub(crate) const VALUES: Self = Self {
        input: Input::Squares,
        actions: false,
        moves: None,
        chances: true,
        ends: true,
        opponent: false,
        search: false,
        short_term: false,
        moves_left: false,
        seen: 0,
    };

    /// What the heads of a network need.
    pub fn of(architecture: &Architecture) -> Self {
        let heads = &architecture.heads;
        let policy = heads.policy.as_ref();
        Self {
            input: architecture.input,
            actions: heads.action_value.is_some(),
            // The value after a move has the numbers of lc0's policy.
            moves: policy.map(|head| head.kind).or(heads.move_value.map(|_| PolicyKind::Attention)),
            chances: heads.action_value.is_some()
                || heads.state_value.is_some()
                || heads.move_value.is_some(),
            ends: heads.value.is_some(),
            opponent: policy.is_some_and(|head| head.beside.contains(&PolicyTarget::Opponent)),
            search: heads.search_value.is_some(),
            short_term: heads.short_term.is_some(),
            moves_left: heads.moves_left.is_some(),
            seen: 0,
        }
    }

    /// Tokens of a position, without the move.
    pub fn tokens(&self) -> usize {
        if self.input == Input::Text { text::TOKENS } else { 0 }
    }

    /// Masks and levels of a position.
    pub fn channels(&self) -> usize {
        self.input.channels().unwrap_or(0)
    }

    /// Moves that the policy numbers.
    pub fn policy_moves(&self) -> usize {
        match self.moves {
            None => 0,
            Some(PolicyKind::Attention) => lc0::COUNT,
            Some(PolicyKind::Actions) => searchless::COUNT,
        }
    }

    /// Words of the set of legal moves.
    pub fn legal_words(&self) -> usize {
        self.policy_moves().div_ceil(64)
    }

    /// Whether the records around one say something of it: its game before and after.
    pub(super) fn uses_neighbours(&self) -> bool {
        self.input == Input::Planes || self.opponent || self.short_term || self.moves_left
    }

    /// The number of a legal move in the policy, or as it is read.
    fn number(&self, board: &Board, mv: Move) -> Option<u16> {
        match self.moves {
            Some(PolicyKind::Attention) => Some(lc0::index_of(board, mv).get() as u16),
            Some(PolicyKind::Actions) => text::action(board, mv),
            None if self.actions => text::action(board, mv),
            None => None,
        }
    }

    /// Whether anything can be learnt from a record, whose position is the board and whose move is legal.
    pub(super) fn can_learn_from(&self, record: &Record, board: &Board) -> bool {
        let judged = record.score.is_some() || record.result.is_some();
        let numbered = || record.mv.is_some_and(|mv| self.number(board, mv).is_some());
        if self.actions { judged && numbered() } else { judged || (self.moves.is_some() && numbered()) }
    }

    /// What a record needs for that, for messages.
    pub(super) fn needed(&self) -> String {
        let needed = match (self.actions, self.moves) {
            (true, _) => "a move is needed, and a score or a result",
            (false, Some(_)) => "a move, a score or a result is needed",
            (false, None) => "a score or a result is needed",
        };
        needed.into()
    }
}

/// What the chance to win, and win, draw and loss, are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aim {
    /// Centipawns that stand for one before the sigmoid.
    pub scale: f64,
    /// The share of the game's result in the chance to win.
    pub result_share: f64,
    /// The same in win, draw and loss.
    pub value_result_share: f64,
}

impl Default for Aim {
    /// The curve of searchless chess; chances are the scores', and games end as they ended.
    fn default() -> Self {
        Self { scale: 271.6, result_share: 0.0, value_result_share: 1.0 }
    }
}

impl Aim {
    /// The chance to win that a record tells of. Where it has a score or a result alone, that is all that counts.
    pub fn chance(&self, record: &Record) -> Option<f64> {
        let score = record.score.map(|score| match score {
            Score::Centipawns(value) => sigmoid(f64::from(value) / self.scale),
            other => other.win_chance().clamp(0.0, 1.0),
        });
        let points = record.result.map(|result| f64::from(result.points()));
        match (score, points) {
            (Some(score), Some(points)) => {
                Some((1.0 - self.result_share) * score + self.result_share * points)
            }
            (one, other) => one.or(other),
        }
    }

    /// Win, draw and loss that a record tells of. Where it has a score or a result alone, that is all that counts.
    pub fn end(&self, record: &Record) -> Option<[f64; 3]> {
        let by_score = record.score.map(|score| chances_of_outcomes(score.centipawns().into()));
        let share = self.value_result_share;
        match (by_score, record.result.map(end_of)) {
            (Some(score), Some(result)) => {
                Some(std::array::from_fn(|end| (1.0 - share) * score[end] + share * result[end]))
            }
            (one, other) => one.or(other),
        }
    }
}

/// How a position is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// With colours exchanged.
    pub flipped: bool,
    /// With left and right exchanged, if nobody may castle.
    pub mirrored: bool,
}

/// Positions of a step. Each array has as many entries for each position as [`SampleShape`] says, the first position's first;
/// what a network does not need is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// 78 tokens of text, the zero among them.
    pub tokens: Vec<u16>,
    /// The token of the move that is judged.
    pub actions: Vec<u16>,
    /// For each channel the squares that are on, as the side to move sees the board: a1 is the lowest bit.
    pub masks: Vec<u64>,
    /// For each channel the number that stands on those squares.
    pub levels: Vec<f32>,
    /// The number of the move, or [`NO_MOVE`].
    pub policy: Vec<u16>,
    /// The legal moves: bit `i % 64` of word `i / 64` is the move with number `i`.
    pub legal: Vec<u64>,
    /// The number of the opponent's answer as the opponent sees the board, or [`NO_MOVE`].
    pub opponent: Vec<u16>,
    /// The chance to win of the side to move; NaN where it is not known.
    pub chance: Vec<f32>,
    /// Win, draw and loss, by the result and the score; NaN where there is neither.
    pub wdl: Vec<[f32; 3]>,
    /// Win, draw and loss by the score; NaN where there is none.
    pub search: Vec<[f32; 3]>,
    /// Win, draw and loss by the scores of the next plies; NaN where there are none.
    pub short_term: Vec<[f32; 3]>,
    /// Plies that are left; NaN where the data does not tell.
    pub moves_left: Vec<f32>,
    /// What an NNUE sees of the position, in 255ths. Who makes samples for a bridge adds it, by the board that
    /// [`Samples::push`] hands out.
    pub seen: Vec<u8>,
    /// How much of the game is left, for figures.
    pub phases: Vec<Phase>,
    /// A number for each position: the same one, the same position.
    pub keys: Vec<u64>,
}

impl Samples {
    /// How many positions there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Takes everything out; the room stays.
    pub fn clear(&mut self) {
        let Self { tokens, actions, masks, levels, policy, legal, opponent, .. } = self;
        [tokens, actions, policy, opponent].into_iter().for_each(Vec::clear);
        [masks, legal, &mut self.keys].into_iter().for_each(Vec::clear);
        [levels, &mut self.chance, &mut self.moves_left].into_iter().for_each(Vec::clear);
        [&mut self.wdl, &mut self.search, &mut self.short_term].into_iter().for_each(Vec::clear);
        self.seen.clear();
        self.phases.clear();
    }

    /// Adds a record, one of several that were read together: those around it may be its game, which ends with the last of
    /// them or not. Hands out the board as it is shown, or says what is wrong with the record; then nothing is added.
    pub fn push(
        &mut self,
        shape: &SampleShape,
        (records, at): (&[Record], usize),
        ends_game: bool,
        view: View,
        aim: &Aim,
    ) -> Result<Board, String> {
        let record = &records[at];
        let turned = if view.flipped { record.flipped() } else { *record };
        let mirrored = if view.mirrored { turned.mirrored() } else { None };
        let seen = mirrored.unwrap_or(turned);
        let board = board_of(&seen)?;
        let number = seen.mv.and_then(|mv| shape.number(&board, mv));
        if shape.actions && number.is_none() {
            return Err("a move that has a number is needed".into());
        }
        let history = match shape.input {
            Input::Planes => Some(with_history(records, at, view.flipped)?),
            Input::Text | Input::Squares | Input::LonePlanes => None,
        };
        // Nothing fails from here on.
        match shape.input {
            Input::Text => text::encode(&board, more(&mut self.tokens, text::TOKENS)),
            Input::Squares | Input::Planes | Input::LonePlanes => {
                let channels = shape.channels();
                let masks = more(&mut self.masks, channels);
                let levels = more(&mut self.levels, channels);
                match &history {
                    None if shape.input == Input::LonePlanes => {
                        planes::encode_lone_masks(&board, masks, levels);
                    }
                    None => squares::encode_masks(&board, masks, levels),
                    Some((position, fill)) => {
                        planes::encode_masks(position, *fill, masks, levels);
                        if mirrored.is_some() {
                            masks.iter_mut().for_each(|mask| *mask = BitBoard(*mask).flip_files().0);
                        }
                    }
                }
            }
        }
        if shape.actions {
            self.actions.extend(number);
        }
        if shape.moves.is_some() {
            self.policy.push(number.unwrap_or(NO_MOVE));
            let words = more(&mut self.legal, shape.legal_words());
            board.generate_moves(|generated| {
                for number in generated.into_iter().filter_map(|mv| shape.number(&board, mv)) {
                    words[usize::from(number) / 64] |= 1 << (number % 64);
                }
                false
            });
        }
        if shape.opponent {
            self.opponent.push(answer(shape, records, at, mirrored.is_some()));
        }
        let by_score = record.score.map(|score| chances_of_outcomes(score.centipawns().into()));
        let narrow = |chances: [f64; 3]| chances.map(|chance| chance as f32);
        self.wdl.push(aim.end(record).map_or(UNKNOWN, narrow));
        if shape.search {
            self.search.push(by_score.map_or(UNKNOWN, narrow));
        }
        if shape.short_term {
            self.short_term.push(near_future(records, at).map_or(UNKNOWN, narrow));
        }
        if shape.moves_left {
            self.moves_left.push(plies_left(records, at, ends_game).map_or(f32::NAN, f32::from));
        }
        self.chance.push(aim.chance(record).map_or(f32::NAN, |chance| chance as f32));
        self.phases.push(Phase::of(&record.position));
        self.keys.push(seen.position.hash());
        Ok(board)
    }
}

/// Win, draw and loss of a game that is over.
fn end_of(result: Outcome) -> [f64; 3] {
    [Outcome::Win, Outcome::Draw, Outcome::Loss].map(|end| f64::from(u8::from(end == result)))
}

/// The board of a record whose move, if it has one, is legal on it; or what is wrong with it.
pub(super) fn board_of(record: &Record) -> Result<Board, String> {
    let board = record.position.board().map_err(|bad| bad.to_string())?;
    match record.mv {
        Some(mv) if !board.is_legal(mv) => Err(format!("{mv} is not a legal move in {board}")),
        _ => Ok(board),
    }
}

/// Adds so many zeros, and hands them out to be written over.
fn more<T: Copy + Default>(numbers: &mut Vec<T>, count: usize) -> &mut [T] {
    let start = numbers.len();
    numbers.resize(start + count, T::default());
    &mut numbers[start..]
}

/// The opponent's answer, which is the same whoever has which colour.
fn answer(shape: &SampleShape, records: &[Record], at: usize, mirrored: bool) -> u16 {
    let next = following(records, at).next().copied();
    let seen = if mirrored { next.and_then(|next| next.mirrored()) } else { next };
    let number = seen.and_then(|next| shape.number(&board_of(&next).ok()?, next.mv?));
    number.unwrap_or(NO_MOVE)
}

/// Win, draw and loss as the scores of this ply and the next ones have it, each ply counting for less than the one before.
fn near_future(records: &[Record], at: usize) -> Option<[f64; 3]> {
    let (mut sums, mut total) = ([0.0; 3], 0.0);
    let mut weight = 1.0;
    let line = [&records[at]].into_iter().chain(following(records, at));
    for (ply, record) in line.take(NEAR_PLIES).enumerate() {
        if let Some(score) = record.score {
            let mut chances = chances_of_outcomes(score.centipawns().into());
            if ply % 2 == 1 {
                chances.reverse();
            }
            sums.iter_mut().zip(chances).for_each(|(sum, chance)| *sum += weight * chance);
            total += weight;
        }
        weight *= NEAR_FUTURE;
    }
    (total > 0.0).then(|| sums.map(|sum| sum / total))
}

#[cfg(test)]
pub(super) mod test_games {
    use tandem_chess::Position;
    use tandem_chess::random::SplitMix;
    use tandem_data::{Outcome, Packed, Record, Score};

    /// Games by chance from the usual start, with everything known; pieces go back often, so that positions repeat.
    pub(in super::super) fn games(count: usize, seed: u64) -> Vec<Record> {
        let mut random = SplitMix::new(seed);
        let mut records = Vec::new();
        for _ in 0..count {
            let mut position = Position::startpos();
            let end = [Outcome::Loss, Outcome::Draw, Outcome::Win][random.below(3) as usize];
            for ply in 0..30 + random.below(90) {
                let moves = position.legal_moves();
                if moves.is_empty() {
                    break;
                }
                let back = moves.iter().find(|mv| {
                    records.iter().rev().nth(1).is_some_and(|before: &Record| {
                        ply > 1 && before.mv.is_some_and(|old| (old.from, old.to) == (mv.to, mv.from))
                    })
                });
                let any = moves[random.below(moves.len() as u32) as usize];
                let mv = back.copied().filter(|_| random.below(3) == 0).unwrap_or(any);
                let packed = Packed::new(position.board()).unwrap();
                records.push(Record {
                    position: packed,
                    mv: Some(mv),
                    score: Some(Score::Centipawns(random.below(2000) as i16 - 1000)),
                    result: Some(end.seen_by(position.side_to_move())),
                    ply: packed.ply(),
                    starts_game: ply == 0,
                });
                position.play(mv);
            }
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use super::test_games::games;
    use super::*;
    use tandem_chess::Position;
    use tandem_transformer::Preset;
    use tandem_transformer::encoding::Masks;

    const AIM: Aim = Aim { scale: 300.0, result_share: 0.25, value_result_share: 1.0 };

    fn shape(preset: Preset) -> SampleShape {
        SampleShape::of(&preset.architecture())
    }

    fn all(shape: &SampleShape, records: &[Record], view: View) -> Samples {
        let mut samples = Samples::default();
        for at in 0..records.len() {
            samples.push(shape, (records, at), true, view, &AIM).unwrap();
        }
        samples
    }

    #[test]
    fn masks_stand_for_what_the_network_reads() {
        let records = games(4, 3);
        for input in [Input::Squares, Input::Planes, Input::LonePlanes] {
            let shape = SampleShape { input, ..shape(Preset::BtSmall) };
            let samples = all(&shape, &records, View::default());
            let channels = shape.channels();
            let (mut rows, mut expanded) = (vec![0.0; 64 * channels], vec![0.0; 64 * channels]);
            let mut position = Position::startpos();
            for (at, record) in records.iter().enumerate() {
                if record.starts_game {
                    position = Position::startpos();
                }
                match input {
                    Input::Squares => squares::encode(position.board(), &mut rows),
                    Input::LonePlanes => planes::encode_lone(position.board(), &mut rows),
                    _ => planes::encode(&position, planes::HistoryFill::FenOnly, &mut rows),
                }
                let place = at * channels..(at + 1) * channels;
                Masks::expand(&samples.masks[place.clone()], &samples.levels[place], &mut expanded);
                assert!(expanded == rows, "{input:?} {}", position.fen());
                position.play(record.mv.unwrap());
            }
        }
    }

    #[test]
    fn targets_are_those_of_the_records() {
        let records = games(3, 8);
        let shape = shape(Preset::BtSmall);
        let shape = SampleShape { opponent: true, search: true, short_term: true, moves_left: true, ..shape };
        let samples = all(&shape, &records, View::default());
        for (at, record) in records.iter().enumerate() {
            let board = record.position.board().unwrap();
            let mv = lc0::index_of(&board, record.mv.unwrap()).get();
            assert_eq!(usize::from(samples.policy[at]), mv);
            let words = &samples.legal[at * 30..(at + 1) * 30];
            let legal = Position::from(board).legal_moves().len() as u32;
            assert_eq!(words.iter().map(|word| word.count_ones()).sum::<u32>(), legal);
            assert!(words[mv / 64] >> (mv % 64) & 1 == 1);
            let next = records.get(at + 1).filter(|next| !next.starts_game);
            let answer = next.map_or(NO_MOVE, |next| {
                lc0::index_of(&next.position.board().unwrap(), next.mv.unwrap()).get() as u16
            });
            assert_eq!(samples.opponent[at], answer);
            let points = record.result.unwrap().points();
            assert_eq!(samples.wdl[at][0] + samples.wdl[at][1] / 2.0, points);
            let score = f64::from(record.score.unwrap().centipawns());
            let chance = 0.75 * sigmoid(score / 300.0) + 0.25 * f64::from(points);
            assert!((f64::from(samples.chance[at]) - chance).abs() < 1e-6);
            for wdl in [samples.search[at], samples.short_term[at]] {
                assert!((wdl.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            }
            assert!(samples.moves_left[at] >= 1.0);
        }
        // At the end of a game the near future is the last score.
        assert_eq!(samples.short_term.last(), samples.search.last());
        let mut bare = records[5];
        (bare.mv, bare.score, bare.result) = (None, None, None);
        let unknown = all(&shape, &[bare], View::default());
        assert_eq!(unknown.policy, [NO_MOVE]);
        assert!(
            unknown.chance[0].is_nan() && unknown.wdl[0][0].is_nan() && unknown.short_term[0][0].is_nan()
        );
    }

    #[test]
    fn turned_positions_are_positions_too() {
        let mut records = games(6, 4);
        let without = |shape: SampleShape| SampleShape { moves_left: false, ..shape };
        let shape = without(shape(Preset::BtSmall));
        let plain = all(&shape, &records, View::default());
        let flipped = all(&shape, &records, View { flipped: true, mirrored: false });
        assert_eq!(
            (&flipped.policy, &flipped.legal, &flipped.chance),
            (&plain.policy, &plain.legal, &plain.chance)
        );
        let mirrored = all(&shape, &records, View { flipped: false, mirrored: true });
        let changed = (0..records.len()).filter(|&at| mirrored.policy[at] != plain.policy[at]).count();
        assert!(changed > 20, "{changed}");
        let count = |samples: &Samples| samples.legal.iter().map(|word| word.count_ones()).sum::<u32>();
        assert_eq!(count(&mirrored), count(&plain));
        // What is mirrored and colour-flipped as text is what the other player reads in a mirror.
        records.retain(|record| record.position.mirrored().is_some());
        let text = SampleShape::of(&Preset::Byte.architecture());
        let both = View { flipped: true, mirrored: true };
        let twice: Vec<Record> = records.iter().map(|record| record.flipped().mirrored().unwrap()).collect();
        let (once, twice) = (all(&text, &records, both), all(&text, &twice, View::default()));
        assert_eq!((once.tokens, once.actions), (twice.tokens, twice.actions));
    }

    #[test]
    fn an_end_is_known_by_result_and_score() {
        let both =
            Record { score: Some(Score::Centipawns(120)), result: Some(Outcome::Loss), ..games(1, 6)[0] };
        let close = |found: [f64; 3], expected: [f64; 3]| {
            found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6)
        };
        let by_score = chances_of_outcomes(120.0);
        let half = Aim { value_result_share: 0.5, ..AIM };
        assert_eq!(AIM.end(&both), Some([0.0, 0.0, 1.0]));
        let [win, draw, loss] = by_score.map(|share| share / 2.0);
        assert!(close(half.end(&both).unwrap(), [win, draw, loss + 0.5]));
        for aim in [AIM, half] {
            assert_eq!(aim.end(&Record { result: None, ..both }), Some(by_score));
            assert_eq!(aim.end(&Record { score: None, ..both }), Some([0.0, 0.0, 1.0]));
            assert_eq!(aim.end(&Record { score: None, result: None, ..both }), None);
        }
    }

    #[test]
    fn text_has_tokens_and_an_action() {
        let records = games(2, 6);
        let shape = shape(Preset::Byte);
        assert_eq!((shape.tokens(), shape.channels(), shape.legal_words()), (78, 0, 0));
        let mut samples = all(&shape, &records, View::default());
        assert_eq!((samples.tokens.len(), samples.actions.len()), (78 * records.len(), records.len()));
        assert!(samples.policy.is_empty() && samples.masks.is_empty());
        let mut expected = [0; 78];
        text::encode(&records[7].position.board().unwrap(), &mut expected);
        assert_eq!(samples.tokens[7 * 78..8 * 78], expected);
        let room = samples.tokens.capacity();
        samples.clear();
        assert!(samples.is_empty() && samples.tokens.capacity() == room);
        assert_eq!(samples, Samples::default());
        let actions = SampleShape { actions: false, moves: Some(PolicyKind::Actions), ..shape };
        assert_eq!(actions.legal_words(), 31);
        assert_eq!(all(&actions, &records, View::default()).legal.len(), 31 * records.len());
    }

    #[test]
    fn nonsense_is_told_and_adds_nothing() {
        let records = games(1, 1);
        for preset in [Preset::Byte, Preset::BtSmall] {
            let shape = shape(preset);
            let mut samples = Samples::default();
            let mut told = |record: Record| {
                samples.push(&shape, (&[record], 0), false, View::default(), &AIM).unwrap_err()
            };
            let illegal = Record { mv: Some("e1e5".parse().unwrap()), ..records[3] };
            assert!(told(illegal).contains("e1e5 is not a legal move in"), "{}", told(illegal));
            assert_eq!(samples, Samples::default());
        }
        let mut samples = Samples::default();
        let silent = Record { mv: None, ..records[3] };
        let told = samples.push(&shape(Preset::Byte), (&[silent], 0), false, View::default(), &AIM);
        assert!(told.unwrap_err().contains("a move that has a number"));
    }
}
