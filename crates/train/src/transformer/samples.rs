//! Samples: positions as a transformer reads them, with their labels, in plain arrays that a trainer copies
//! to its device.

use super::game_context::{following, plies_left, with_history};
use crate::loss::sigmoid;
use crate::metrics::Phase;
use tandem_chess::move_map::{lc0, searchless};
use tandem_chess::{BitBoard, Board, Move};
use tandem_data::{Outcome, Record, Score};
use tandem_transformer::encoding::wdl::wdl_of_centipawns;
use tandem_transformer::encoding::{planes, squares, text};
use tandem_transformer::{Architecture, Input, PolicyKind, PolicyTarget};

/// Policy index of a move that is not known, or that the policy has no index for.
pub const NO_MOVE: u16 = u16::MAX;

/// Label for an unknown outcome; losses and metrics skip samples whose label is NaN.
const UNKNOWN: [f32; 3] = [f32::NAN; 3];

/// Weight of each ply in the short-term value, relative to the ply before it.
const SHORT_TERM_DECAY: f64 = 5.0 / 6.0;
/// Plies in the short-term value; later ones would have less than a twentieth of the first one's weight.
const SHORT_TERM_PLIES: usize = 16;

/// Input encoding of a network and the labels that it is trained on. They determine which arrays of
/// [`Samples`] are filled, and with how many entries per position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleShape {
    /// Input encoding of the architecture: text, squares or planes.
    pub input: Input,
    /// True if the input includes a move, as for networks that predict action values.
    pub actions: bool,
    /// Move indexing of the policy and of the set of legal moves, if the network has a policy.
    pub policy: Option<PolicyKind>,
    /// True if there is a win probability label, which the action-value, state-value and move-value heads
    /// need.
    pub win_probability: bool,
    /// True if there is a label of win, draw and loss.
    pub wdl: bool,
    /// True if there is a label of the opponent's reply.
    pub opponent: bool,
    /// True if there is a label of win, draw and loss by the search's score alone.
    pub search: bool,
    /// True if there is a short-term label: win, draw and loss by the scores of the position and the next
    /// plies.
    pub short_term: bool,
    /// True if there is a label of the plies to the end of the game.
    pub moves_left: bool,
    /// Number of NNUE accumulator values per position, which the bridge of a hybrid projects into the
    /// transformer; 0 without a bridge.
    pub bridge_inputs: usize,
}

impl SampleShape {
    /// Accepts every record with a score or a result, with or without a move. For callers that select
    /// records as training does, but make no samples of them.
    pub(crate) const VALUES: Self = Self {
        input: Input::Squares,
        actions: false,
        policy: None,
        win_probability: true,
        wdl: true,
        opponent: false,
        search: false,
        short_term: false,
        moves_left: false,
        bridge_inputs: 0,
    };

    /// Input encoding and labels that an architecture needs: a label for each head that it has.
    /// `bridge_inputs` is 0, because the number of accumulator values depends on the NNUE; the caller sets it
    /// to train a bridge.
    pub fn of(architecture: &Architecture) -> Self {
        let heads = &architecture.heads;
        let policy = heads.policy.as_ref();
        Self {
            input: architecture.input,
            actions: heads.action_value.is_some(),
            // The move-value head uses the move indices of lc0's policy.
            policy: policy.map(|head| head.kind).or(heads.move_value.map(|_| PolicyKind::Attention)),
            win_probability: heads.action_value.is_some()
                || heads.state_value.is_some()
                || heads.move_value.is_some(),
            wdl: heads.value.is_some(),
            opponent: policy.is_some_and(|head| head.aux_targets.contains(&PolicyTarget::Opponent)),
            search: heads.search_value.is_some(),
            short_term: heads.short_term.is_some(),
            moves_left: heads.moves_left.is_some(),
            bridge_inputs: 0,
        }
    }

    /// Number of text tokens per position, the token of an input move not counted; 0 if the input is squares
    /// or planes.
    pub fn tokens(&self) -> usize {
        if self.input == Input::Text { text::TOKENS } else { 0 }
    }

    /// Number of channels per position; each is a set of squares in [`Samples::masks`] with one value in
    /// [`Samples::levels`]. 0 if the input is text.
    pub fn channels(&self) -> usize {
        self.input.channels().unwrap_or(0)
    }

    /// Number of moves that the policy distinguishes: 1858 for lc0's indexing; 0 without a policy.
    pub fn policy_moves(&self) -> usize {
        match self.policy {
            None => 0,
            Some(PolicyKind::Attention) => lc0::COUNT,
            Some(PolicyKind::Actions) => searchless::COUNT,
        }
    }

    /// 64-bit words per position in the set of legal moves, one bit for each policy move.
    pub fn legal_words(&self) -> usize {
        self.policy_moves().div_ceil(64)
    }

    /// True if a sample depends on the records around it, which are the moves before and after it.
    pub(super) fn uses_game_context(&self) -> bool {
        self.input == Input::Planes || self.opponent || self.short_term || self.moves_left
    }

    /// Index of a legal move in the policy, or as an input token.
    fn index(&self, board: &Board, mv: Move) -> Option<u16> {
        match self.policy {
            Some(PolicyKind::Attention) => Some(lc0::index_of(board, mv).get() as u16),
            Some(PolicyKind::Actions) => text::action(board, mv),
            None if self.actions => text::action(board, mv),
            None => None,
        }
    }

    /// True if a record has a label that this network learns from. `board` is its position, and its move is
    /// legal.
    pub(super) fn can_learn_from(&self, record: &Record, board: &Board) -> bool {
        let has_value = record.score.is_some() || record.result.is_some();
        let has_index = || record.mv.is_some_and(|mv| self.index(board, mv).is_some());
        if self.actions {
            has_value && has_index()
        } else {
            has_value || (self.policy.is_some() && has_index())
        }
    }

    /// The labels that a record needs for that, for messages.
    pub(super) fn needed(&self) -> String {
        let needed = match (self.actions, self.policy) {
            (true, _) => "a move is needed, and a score or a result",
            (false, Some(_)) => "a move, a score or a result is needed",
            (false, None) => "a score or a result is needed",
        };
        needed.into()
    }
}

/// Settings for computing a sample's labels from a record's score and game result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelConfig {
    /// Centipawns that a score is divided by before the sigmoid turns it into a win probability.
    pub scale: f64,
    /// Weight of the game result in the win probability, from 0 to 1; the rest is the score's.
    pub wdl: f64,
    /// Weight of the game result in the probabilities of win, draw and loss, from 0 to 1; the rest is the
    /// score's.
    pub value_wdl: f64,
}

impl Default for LabelConfig {
    /// The scale of searchless chess, win probabilities from scores, and outcomes from results.
    fn default() -> Self {
        Self { scale: 271.6, wdl: 0.0, value_wdl: 1.0 }
    }
}

impl LabelConfig {
    /// Win probability of the side to move, from 0 to 1: score and result mixed by the weight `wdl`, or the
    /// one of them that the record has. `None` if it has neither.
    pub fn win_probability(&self, record: &Record) -> Option<f64> {
        let score = record.score.map(|score| match score {
            Score::Centipawns(value) => sigmoid(f64::from(value) / self.scale),
            other => other.win_probability().clamp(0.0, 1.0),
        });
        let points = record.result.map(|result| f64::from(result.points()));
        match (score, points) {
            (Some(score), Some(points)) => Some((1.0 - self.wdl) * score + self.wdl * points),
            (score, result) => score.or(result),
        }
    }

    /// Probabilities of win, draw and loss for the side to move: score and result mixed by the weight
    /// `value_wdl`, or the one of them that the record has. `None` if it has neither.
    pub fn outcome(&self, record: &Record) -> Option<[f64; 3]> {
        let by_score = record.score.map(|score| wdl_of_centipawns(score.centipawns().into()));
        let wdl = self.value_wdl;
        match (by_score, record.result.map(one_hot)) {
            (Some(score), Some(result)) => {
                Some(std::array::from_fn(|i| (1.0 - wdl) * score[i] + wdl * result[i]))
            }
            (score, result) => score.or(result),
        }
    }
}

/// Augmentation of a position by the symmetries of chess, under which its labels stay the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Augmentation {
    /// Colours swapped, with the board turned, so that the side to move keeps its view.
    pub flipped: bool,
    /// Mirrored from left to right, unless a side may still castle.
    pub mirrored: bool,
}

/// Samples of a batch. Each array has the number of entries per position that [`SampleShape`] gives, the
/// first position's first; arrays that a network does not need are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// Text: 78 tokens per position, including the zero for the move.
    pub tokens: Vec<u16>,
    /// Token of the input move; empty for networks whose input has no move.
    pub actions: Vec<u16>,
    /// Occupied squares of each channel from the side to move's view; a1 is the lowest bit.
    pub masks: Vec<u64>,
    /// Value of each channel on those squares: 1 for pieces and flags, a fraction for the halfmove clock.
    pub levels: Vec<f32>,
    /// Index of the move of the record in the policy, or [`NO_MOVE`] if it has none.
    pub policy: Vec<u16>,
    /// Legal moves: bit `i % 64` of word `i / 64` is the move with index `i`.
    pub legal: Vec<u64>,
    /// Index of the opponent's reply from the opponent's view, or [`NO_MOVE`].
    pub opponent: Vec<u16>,
    /// Win probability of the side to move; NaN if unknown.
    pub win_probability: Vec<f32>,
    /// Probabilities of win, draw and loss for the side to move, mixed from game result and score; NaN if the
    /// record has neither.
    pub wdl: Vec<[f32; 3]>,
    /// Probabilities of win, draw and loss for the side to move, from the record's score alone; NaN if it has
    /// no score.
    pub search: Vec<[f32; 3]>,
    /// Probabilities of win, draw and loss for the side to move, as a weighted mean over the scores of this
    /// ply and the next 15; NaN if none of them has a score.
    pub short_term: Vec<[f32; 3]>,
    /// Plies to the end of the game; NaN if unknown.
    pub moves_left: Vec<f32>,
    /// Accumulator values of an NNUE, in units of 1/255, as input of a hybrid's bridge. The loader computes
    /// them from the board that [`Samples::push`] returns.
    pub bridge_inputs: Vec<u8>,
    /// Phase of the game by the number of pieces, by which metrics are grouped.
    pub phases: Vec<Phase>,
    /// Hash of each position after augmentation. Samples of one position with different moves have equal
    /// keys, by which metrics group them.
    pub keys: Vec<u64>,
}

impl Samples {
    /// Number of positions; every array that the network needs has entries for as many.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if there are no positions, as after [`Samples::clear`].
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Removes all positions and keeps the allocated memory for the next batch.
    pub fn clear(&mut self) {
        // Destructured without `..`, so that a new array cannot be forgotten: it would keep old positions.
        let Self {
            tokens,
            actions,
            masks,
            levels,
            policy,
            legal,
            opponent,
            win_probability,
            wdl,
            search,
            short_term,
            moves_left,
            bridge_inputs,
            phases,
            keys,
        } = self;
        [tokens, actions, policy, opponent].into_iter().for_each(Vec::clear);
        [masks, legal, keys].into_iter().for_each(Vec::clear);
        [levels, win_probability, moves_left].into_iter().for_each(Vec::clear);
        [wdl, search, short_term].into_iter().for_each(Vec::clear);
        bridge_inputs.clear();
        phases.clear();
    }

    /// Adds a sample for record `at` of `records`, a block of consecutive records of a file. Its neighbours
    /// in the block supply history, reply and game length; `ends_game` is true if the block's last record
    /// ends a game. Returns the board after augmentation.
    ///
    /// # Errors
    /// If the position or the move is not legal, or if the network needs a move and there is none; then
    /// nothing is added.
    pub fn push(
        &mut self,
        shape: &SampleShape,
        (records, at): (&[Record], usize),
        ends_game: bool,
        augmentation: Augmentation,
        labels: &LabelConfig,
    ) -> Result<Board, String> {
        let record = &records[at];
        let flipped = if augmentation.flipped { record.flipped() } else { *record };
        let mirrored = if augmentation.mirrored { flipped.mirrored() } else { None };
        let shown = mirrored.unwrap_or(flipped);
        let board = board_of(&shown)?;
        let index = shown.mv.and_then(|mv| shape.index(&board, mv));
        if shape.actions && index.is_none() {
            return Err("a move with a policy index is needed".into());
        }
        let history = match shape.input {
            Input::Planes => Some(with_history(records, at, augmentation.flipped)?),
            Input::Text | Input::Squares | Input::PlanesSingle => None,
        };
        // Nothing fails from here on, so all arrays grow together.
        match shape.input {
            Input::Text => text::encode(&board, append_zeros(&mut self.tokens, text::TOKENS)),
            Input::Squares | Input::Planes | Input::PlanesSingle => {
                let channels = shape.channels();
                let masks = append_zeros(&mut self.masks, channels);
                let levels = append_zeros(&mut self.levels, channels);
                match &history {
                    None if shape.input == Input::PlanesSingle => {
                        planes::encode_single_masks(&board, masks, levels);
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
            self.actions.extend(index);
        }
        if shape.policy.is_some() {
            self.policy.push(index.unwrap_or(NO_MOVE));
            let words = append_zeros(&mut self.legal, shape.legal_words());
            board.generate_moves(|generated| {
                for index in generated.into_iter().filter_map(|mv| shape.index(&board, mv)) {
                    words[usize::from(index) / 64] |= 1 << (index % 64);
                }
                false
            });
        }
        if shape.opponent {
            self.opponent.push(opponent_reply(shape, records, at, mirrored.is_some()));
        }
        let by_score = record.score.map(|score| wdl_of_centipawns(score.centipawns().into()));
        let narrow = |wdl: [f64; 3]| wdl.map(|p| p as f32);
        self.wdl.push(labels.outcome(record).map_or(UNKNOWN, narrow));
        if shape.search {
            self.search.push(by_score.map_or(UNKNOWN, narrow));
        }
        if shape.short_term {
            self.short_term.push(short_term_value(records, at).map_or(UNKNOWN, narrow));
        }
        if shape.moves_left {
            self.moves_left.push(plies_left(records, at, ends_game).map_or(f32::NAN, f32::from));
        }
        self.win_probability.push(labels.win_probability(record).map_or(f32::NAN, |p| p as f32));
        self.phases.push(Phase::of(&record.position));
        self.keys.push(shown.position.hash());
        Ok(board)
    }
}

/// One-hot win, draw and loss of a finished game, from the side to move's view.
fn one_hot(result: Outcome) -> [f64; 3] {
    [Outcome::Win, Outcome::Draw, Outcome::Loss].map(|outcome| f64::from(u8::from(outcome == result)))
}

/// The board of a record, after checking that its move is legal.
pub(super) fn board_of(record: &Record) -> Result<Board, String> {
    let board = record.position.board().map_err(|bad| bad.to_string())?;
    match record.mv {
        Some(mv) if !board.is_legal(mv) => Err(format!("{mv} is not a legal move in {board}")),
        _ => Ok(board),
    }
}

/// Appends `count` zeros to an array, and returns the new elements to be overwritten.
fn append_zeros<T: Copy + Default>(values: &mut Vec<T>, count: usize) -> &mut [T] {
    let start = values.len();
    values.resize(start + count, T::default());
    &mut values[start..]
}

/// Index of the opponent's reply, which does not depend on swapped colours.
fn opponent_reply(shape: &SampleShape, records: &[Record], at: usize, mirrored: bool) -> u16 {
    let next = following(records, at).next().copied();
    let shown = if mirrored { next.and_then(|next| next.mirrored()) } else { next };
    let index = shown.and_then(|next| shape.index(&board_of(&next).ok()?, next.mv?));
    index.unwrap_or(NO_MOVE)
}

/// Win, draw and loss as a weighted mean over the scores of this ply and the next ones.
fn short_term_value(records: &[Record], at: usize) -> Option<[f64; 3]> {
    let (mut sums, mut total) = ([0.0; 3], 0.0);
    let mut weight = 1.0;
    let line = [&records[at]].into_iter().chain(following(records, at));
    for (ply, record) in line.take(SHORT_TERM_PLIES).enumerate() {
        if let Some(score) = record.score {
            let mut wdl = wdl_of_centipawns(score.centipawns().into());
            if ply % 2 == 1 {
                wdl.reverse();
            }
            sums.iter_mut().zip(wdl).for_each(|(sum, p)| *sum += weight * p);
            total += weight;
        }
        weight *= SHORT_TERM_DECAY;
    }
    (total > 0.0).then(|| sums.map(|sum| sum / total))
}

#[cfg(test)]
pub(super) mod test_games {
    use tandem_chess::Position;
    use tandem_data::{Outcome, Packed, Record, Score};
    use tandem_util::random::SplitMix;

    /// Random games from the usual start with all labels. Pieces often go back, so that positions repeat.
    pub(in super::super) fn games(count: usize, seed: u64) -> Vec<Record> {
        let mut random = SplitMix::new(seed);
        let mut records = Vec::new();
        for _ in 0..count {
            let mut position = Position::startpos();
            let result = [Outcome::Loss, Outcome::Draw, Outcome::Win][random.below(3) as usize];
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
                    result: Some(result.from_view_of(position.side_to_move())),
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

    const LABELS: LabelConfig = LabelConfig { scale: 300.0, wdl: 0.25, value_wdl: 1.0 };

    fn shape(preset: Preset) -> SampleShape {
        SampleShape::of(&preset.architecture())
    }

    fn all(shape: &SampleShape, records: &[Record], augmentation: Augmentation) -> Samples {
        let mut samples = Samples::default();
        for at in 0..records.len() {
            samples.push(shape, (records, at), true, augmentation, &LABELS).unwrap();
        }
        samples
    }

    #[test]
    fn expanded_masks_are_the_planes_of_the_encoder() {
        let records = games(4, 3);
        for input in [Input::Squares, Input::Planes, Input::PlanesSingle] {
            let shape = SampleShape { input, ..shape(Preset::BtSmall) };
            let samples = all(&shape, &records, Augmentation::default());
            let channels = shape.channels();
            let (mut rows, mut expanded) = (vec![0.0; 64 * channels], vec![0.0; 64 * channels]);
            let mut position = Position::startpos();
            for (at, record) in records.iter().enumerate() {
                if record.starts_game {
                    position = Position::startpos();
                }
                match input {
                    Input::Squares => squares::encode(position.board(), &mut rows),
                    Input::PlanesSingle => planes::encode_single(position.board(), &mut rows),
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
        let samples = all(&shape, &records, Augmentation::default());
        for (at, record) in records.iter().enumerate() {
            let board = record.position.board().unwrap();
            let mv = lc0::index_of(&board, record.mv.unwrap()).get();
            assert_eq!(usize::from(samples.policy[at]), mv);
            let words = &samples.legal[at * 30..(at + 1) * 30];
            let legal = Position::from(board).legal_moves().len() as u32;
            assert_eq!(words.iter().map(|word| word.count_ones()).sum::<u32>(), legal);
            assert!(words[mv / 64] >> (mv % 64) & 1 == 1);
            let next = records.get(at + 1).filter(|next| !next.starts_game);
            let reply = next.map_or(NO_MOVE, |next| {
                lc0::index_of(&next.position.board().unwrap(), next.mv.unwrap()).get() as u16
            });
            assert_eq!(samples.opponent[at], reply);
            let points = record.result.unwrap().points();
            assert_eq!(samples.wdl[at][0] + samples.wdl[at][1] / 2.0, points);
            let score = f64::from(record.score.unwrap().centipawns());
            let expected = 0.75 * sigmoid(score / 300.0) + 0.25 * f64::from(points);
            assert!((f64::from(samples.win_probability[at]) - expected).abs() < 1e-6);
            for wdl in [samples.search[at], samples.short_term[at]] {
                assert!((wdl.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            }
            assert!(samples.moves_left[at] >= 1.0);
        }
        // In the last position of a game the short-term value is that of its own score.
        assert_eq!(samples.short_term.last(), samples.search.last());
        let mut bare = records[5];
        (bare.mv, bare.score, bare.result) = (None, None, None);
        let unknown = all(&shape, &[bare], Augmentation::default());
        assert_eq!(unknown.policy, [NO_MOVE]);
        assert!(
            unknown.win_probability[0].is_nan()
                && unknown.wdl[0][0].is_nan()
                && unknown.short_term[0][0].is_nan()
        );
    }

    #[test]
    fn augmented_positions_are_valid_positions() {
        let mut records = games(6, 4);
        let without = |shape: SampleShape| SampleShape { moves_left: false, ..shape };
        let shape = without(shape(Preset::BtSmall));
        let plain = all(&shape, &records, Augmentation::default());
        let flipped = all(&shape, &records, Augmentation { flipped: true, mirrored: false });
        assert_eq!(
            (&flipped.policy, &flipped.legal, &flipped.win_probability),
            (&plain.policy, &plain.legal, &plain.win_probability)
        );
        let mirrored = all(&shape, &records, Augmentation { flipped: false, mirrored: true });
        let changed = (0..records.len()).filter(|&at| mirrored.policy[at] != plain.policy[at]).count();
        assert!(changed > 20, "{changed}");
        let count = |samples: &Samples| samples.legal.iter().map(|word| word.count_ones()).sum::<u32>();
        assert_eq!(count(&mirrored), count(&plain));
        // Text with both augmentations is the text of the swapped and mirrored position.
        records.retain(|record| record.position.mirrored().is_some());
        let text = SampleShape::of(&Preset::Byte.architecture());
        let both = Augmentation { flipped: true, mirrored: true };
        let twice: Vec<Record> = records.iter().map(|record| record.flipped().mirrored().unwrap()).collect();
        let (once, twice) = (all(&text, &records, both), all(&text, &twice, Augmentation::default()));
        assert_eq!((once.tokens, once.actions), (twice.tokens, twice.actions));
    }

    #[test]
    fn the_outcome_blends_result_and_score() {
        let both =
            Record { score: Some(Score::Centipawns(120)), result: Some(Outcome::Loss), ..games(1, 6)[0] };
        let close = |found: [f64; 3], expected: [f64; 3]| {
            found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6)
        };
        let by_score = wdl_of_centipawns(120.0);
        let half = LabelConfig { value_wdl: 0.5, ..LABELS };
        assert_eq!(LABELS.outcome(&both), Some([0.0, 0.0, 1.0]));
        let [win, draw, loss] = by_score.map(|p| p / 2.0);
        assert!(close(half.outcome(&both).unwrap(), [win, draw, loss + 0.5]));
        for labels in [LABELS, half] {
            assert_eq!(labels.outcome(&Record { result: None, ..both }), Some(by_score));
            assert_eq!(labels.outcome(&Record { score: None, ..both }), Some([0.0, 0.0, 1.0]));
            assert_eq!(labels.outcome(&Record { score: None, result: None, ..both }), None);
        }
    }

    #[test]
    fn text_has_tokens_and_an_action() {
        let records = games(2, 6);
        let shape = shape(Preset::Byte);
        assert_eq!((shape.tokens(), shape.channels(), shape.legal_words()), (78, 0, 0));
        let mut samples = all(&shape, &records, Augmentation::default());
        assert_eq!((samples.tokens.len(), samples.actions.len()), (78 * records.len(), records.len()));
        assert!(samples.policy.is_empty() && samples.masks.is_empty());
        let mut expected = [0; 78];
        text::encode(&records[7].position.board().unwrap(), &mut expected);
        assert_eq!(samples.tokens[7 * 78..8 * 78], expected);
        let capacity = samples.tokens.capacity();
        samples.clear();
        assert!(samples.is_empty() && samples.tokens.capacity() == capacity);
        assert_eq!(samples, Samples::default());
        let actions = SampleShape { actions: false, policy: Some(PolicyKind::Actions), ..shape };
        assert_eq!(actions.legal_words(), 31);
        assert_eq!(all(&actions, &records, Augmentation::default()).legal.len(), 31 * records.len());
    }

    #[test]
    fn broken_records_are_reported_and_add_nothing() {
        let records = games(1, 1);
        for preset in [Preset::Byte, Preset::BtSmall] {
            let shape = shape(preset);
            let mut samples = Samples::default();
            let mut message = |record: Record| {
                samples.push(&shape, (&[record], 0), false, Augmentation::default(), &LABELS).unwrap_err()
            };
            let illegal = Record { mv: Some("e1e5".parse().unwrap()), ..records[3] };
            assert!(message(illegal).contains("e1e5 is not a legal move in"), "{}", message(illegal));
            assert_eq!(samples, Samples::default());
        }
        let mut samples = Samples::default();
        let silent = Record { mv: None, ..records[3] };
        let pushed =
            samples.push(&shape(Preset::Byte), (&[silent], 0), false, Augmentation::default(), &LABELS);
        assert!(pushed.unwrap_err().contains("a move with a policy index"));
    }
}
