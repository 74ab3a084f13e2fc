//! History tables: how well moves did in earlier nodes, for move ordering, pruning and reductions, and how
//! far the static evaluation was off, for correction history.

use crate::params::*;
use crate::tt::prefetch;
use crate::value::Value;
use bytemuck::Zeroable;
use tandem_chess::{BitBoard, Color, Move, Piece, Position, Square, attacks_by_kind};
use tandem_memory::AlignedArray;

/// A value within ±`MAX` that moves towards its bonuses with "gravity": the nearer it is to a bound, the less
/// another bonus of the same sign moves it.
#[derive(Clone, Copy, Default, Zeroable)]
#[repr(transparent)]
pub(crate) struct HistoryEntry<const MAX: i32>(i16);

impl<const MAX: i32> HistoryEntry<MAX> {
    #[inline]
    pub(crate) fn get(self) -> i32 {
        i32::from(self.0)
    }

    #[inline]
    pub(crate) fn update(&mut self, bonus: i32) {
        let bonus = bonus.clamp(-MAX, MAX);
        let value = i32::from(self.0);
        self.0 = (value + bonus - value * bonus.abs() / MAX) as i16;
    }
}

/// A coloured piece and the square it moves to: index of the continuation histories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PieceTo(u16);

impl PieceTo {
    const COUNT: usize = 2 * 6 * 64;

    #[inline]
    pub(crate) fn new(color: Color, piece: Piece, to: Square) -> Self {
        Self((color as u16 * 6 + piece as u16) * 64 + to as u16)
    }

    #[inline]
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// First index of the continuation histories: a move made some plies ago, and if it was a capture or
/// promotion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Continuation {
    pub(crate) moved: PieceTo,
    pub(crate) noisy: bool,
}

impl Continuation {
    #[inline]
    fn index(self) -> usize {
        usize::from(self.noisy) * PieceTo::COUNT + self.moved.index()
    }
}

type QuietEntry = HistoryEntry<8192>;
type CaptureEntry = HistoryEntry<8192>;
type ContinuationEntry = HistoryEntry<16384>;
type CorrectionEntry = HistoryEntry<1024>;

const PAWN_STRUCTURES: usize = 1024;
const CORRECTIONS: usize = 16384;

/// All history tables of one search thread. Large ones are on huge pages; the others have a length known at
/// compile time, which saves bounds checks.
pub(crate) struct Histories {
    /// Butterfly history: by colour, by attacks on the origin and on the target square, by origin and by
    /// target.
    butterfly: Box<[[[[QuietEntry; 64]; 64]; 4]; 2]>,
    /// Capture history: by piece and target square, and by victim.
    capture: Box<[[CaptureEntry; 6]; PieceTo::COUNT]>,
    /// Continuation history: by an earlier move, then by piece and target square.
    continuation: AlignedArray<[ContinuationEntry; PieceTo::COUNT]>,
    /// Pawn history: by pawn structure, then by piece and target square.
    pawn: AlignedArray<[QuietEntry; PieceTo::COUNT]>,
    /// Correction histories: by key (pawns, minor pieces, major pieces, other pieces of each side) and by
    /// side to move; the second field is by the last two moves.
    corrections: Box<[[[CorrectionEntry; CORRECTIONS]; 2]; 5]>,
    correction_continuation: AlignedArray<[CorrectionEntry; PieceTo::COUNT]>,
}

impl Histories {
    pub(crate) fn new() -> Self {
        Self {
            butterfly: array_of([[[HistoryEntry::default(); 64]; 64]; 4]),
            capture: array_of([HistoryEntry::default(); 6]),
            continuation: AlignedArray::zeroed(2 * PieceTo::COUNT),
            pawn: AlignedArray::zeroed(PAWN_STRUCTURES),
            corrections: array_of([[HistoryEntry::default(); CORRECTIONS]; 2]),
            correction_continuation: AlignedArray::zeroed(PieceTo::COUNT),
        }
    }

    /// Clears all tables for a new game, in place, because memory that is allocated again may not get huge
    /// pages.
    pub(crate) fn clear(&mut self) {
        let Self { butterfly, capture, continuation, pawn, corrections, correction_continuation } = self;
        butterfly.fill(Zeroable::zeroed());
        capture.fill(Zeroable::zeroed());
        continuation.fill(Zeroable::zeroed());
        pawn.fill(Zeroable::zeroed());
        corrections.fill(Zeroable::zeroed());
        correction_continuation.fill(Zeroable::zeroed());
    }

    /// The parts of the tables that apply to all quiet moves of one position, looked up once.
    #[inline]
    pub(crate) fn quiet_tables<'a>(&'a self, context: &QuietContext<'_>) -> QuietTables<'a> {
        let continuation_table = |back: usize| {
            let earlier = context.earlier(back).filter(|_| use_continuation());
            earlier.map_or(&NO_CONTINUATION, |earlier| &self.continuation[earlier.index()])
        };
        QuietTables {
            color: context.color,
            threats: context.threats.all,
            butterfly: &self.butterfly[context.color as usize],
            pawn: &self.pawn[context.pawn_key as usize % PAWN_STRUCTURES],
            continuation_table: [
                continuation_table(0),
                continuation_table(1),
                continuation_table(3),
                continuation_table(5),
            ],
        }
    }

    /// History of a quiet move as pruning and reductions use it: butterfly history, plus half of the pawn
    /// history and of the continuation histories of the last two moves.
    #[inline]
    pub(crate) fn quiet_history(&self, context: &QuietContext<'_>, mv: Move, piece: Piece) -> i32 {
        let to = PieceTo::new(context.color, piece, mv.to);
        let mut score = 0;
        if use_butterfly() {
            score += self.butterfly[context.color as usize][threat_index(context.threats.all, mv)]
                [mv.from as usize][mv.to as usize]
                .get();
        }
        if use_continuation() {
            for back in [0, 1] {
                if let Some(earlier) = context.earlier(back) {
                    score += self.continuation[earlier.index()][to.index()].get() / 2;
                }
            }
        }
        if use_pawn_history() {
            score += self.pawn[context.pawn_key as usize % PAWN_STRUCTURES][to.index()].get() / 2;
        }
        score
    }

    #[inline]
    pub(crate) fn capture(&self, color: Color, piece: Piece, to: Square, victim: Piece) -> i32 {
        if !use_capture_history() {
            return 0;
        }
        self.capture[PieceTo::new(color, piece, to).index()][victim as usize].get()
    }

    pub(crate) fn update_quiet(&mut self, context: &QuietContext<'_>, mv: Move, piece: Piece, bonus: i32) {
        let to = PieceTo::new(context.color, piece, mv.to);
        self.butterfly[context.color as usize][threat_index(context.threats.all, mv)][mv.from as usize]
            [mv.to as usize]
            .update(bonus);
        self.pawn[context.pawn_key as usize % PAWN_STRUCTURES][to.index()]
            .update(bonus * pawn_bonus_percent() / 100);
        self.update_continuation(context.earlier, to, bonus * cont_bonus_percent() / 100);
    }

    /// Adds a bonus to the continuation histories of a move, for the moves 1, 2, 3, 4 and 6 plies before it.
    pub(crate) fn update_continuation(&mut self, earlier: &[Option<Continuation>], to: PieceTo, bonus: i32) {
        for (back, percent) in [(0, 100), (1, 100), (2, cont_third()), (3, cont_fourth()), (5, cont_sixth())]
        {
            if let Some(Some(earlier)) = earlier.len().checked_sub(1 + back).map(|index| earlier[index]) {
                self.continuation[earlier.index()][to.index()].update(bonus * percent / 100);
            }
        }
    }

    pub(crate) fn update_butterfly(&mut self, color: Color, threats: BitBoard, mv: Move, bonus: i32) {
        self.butterfly[color as usize][threat_index(threats, mv)][mv.from as usize][mv.to as usize]
            .update(bonus);
    }

    pub(crate) fn update_capture(
        &mut self,
        color: Color,
        piece: Piece,
        to: Square,
        victim: Piece,
        bonus: i32,
    ) {
        self.capture[PieceTo::new(color, piece, to).index()][victim as usize].update(bonus);
    }

    /// Correction of the static evaluation in centipawns, learnt from positions with the same structures.
    pub(crate) fn correction(&self, position: &Position, earlier: &[Option<Continuation>]) -> Value {
        if !use_correction() {
            return 0;
        }
        let side = position.side_to_move() as usize;
        let weights = [corr_pawn(), corr_minor(), corr_major(), corr_non_pawn(), corr_non_pawn()];
        let mut sum = 0;
        for ((table, key), weight) in self.corrections.iter().zip(correction_keys(position)).zip(weights) {
            sum += table[side][key].get() * weight;
        }
        if let Some((last, before)) = last_two(earlier) {
            sum += self.correction_continuation[before.moved.index()][last.moved.index()].get()
                * corr_continuation();
        }
        sum / (1024 * 12)
    }

    /// Prefetches the entries that [`Self::correction`] will read.
    #[inline]
    pub(crate) fn prefetch_correction(&self, position: &Position) {
        let side = position.side_to_move() as usize;
        for (table, key) in self.corrections.iter().zip(correction_keys(position)) {
            prefetch(&table[side][key]);
        }
    }

    /// Learns that the static evaluation was off by `error` centipawns, with a weight that grows with
    /// `depth`.
    pub(crate) fn update_correction(
        &mut self,
        position: &Position,
        earlier: &[Option<Continuation>],
        error: Value,
        depth: i32,
    ) {
        let bonus = (error * depth / corr_depth_div()).clamp(-corr_bonus_max(), corr_bonus_max());
        let side = position.side_to_move() as usize;
        for (table, key) in self.corrections.iter_mut().zip(correction_keys(position)) {
            table[side][key].update(bonus);
        }
        if let Some((last, before)) = last_two(earlier) {
            self.correction_continuation[before.moved.index()][last.moved.index()].update(bonus);
        }
    }
}

/// An array allocated on the heap directly, because the stack is too small for it.
fn array_of<T: Copy, const N: usize>(element: T) -> Box<[T; N]> {
    match vec![element; N].into_boxed_slice().try_into() {
        Ok(array) => array,
        Err(_) => unreachable!("a vector of N elements fills an array of N"),
    }
}

fn last_two(earlier: &[Option<Continuation>]) -> Option<(Continuation, Continuation)> {
    let [.., Some(before), Some(last)] = earlier else { return None };
    Some((*last, *before))
}

fn correction_keys(position: &Position) -> [usize; 5] {
    let keys = position.keys();
    [keys.pawn, keys.minor, keys.major, keys.non_pawn[0], keys.non_pawn[1]]
        .map(|key| key as usize % CORRECTIONS)
}

#[inline]
fn threat_index(threats: BitBoard, mv: Move) -> usize {
    usize::from(threats.has(mv.from)) * 2 + usize::from(threats.has(mv.to))
}

/// Used in place of the continuation history of a null move or of a move before the root.
static NO_CONTINUATION: [ContinuationEntry; PieceTo::COUNT] = [HistoryEntry(0); PieceTo::COUNT];

/// Result of [`Histories::quiet_tables`].
pub(crate) struct QuietTables<'a> {
    color: Color,
    threats: BitBoard,
    butterfly: &'a [[[QuietEntry; 64]; 64]; 4],
    pawn: &'a [QuietEntry; PieceTo::COUNT],
    continuation_table: [&'a [ContinuationEntry; PieceTo::COUNT]; 4],
}

impl QuietTables<'_> {
    /// Ordering score of a quiet move: twice butterfly and pawn history, plus the continuation histories.
    #[inline]
    pub(crate) fn score(&self, mv: Move, piece: Piece) -> i32 {
        let to = PieceTo::new(self.color, piece, mv.to).index();
        let mut score = 0;
        if use_butterfly() {
            score +=
                2 * self.butterfly[threat_index(self.threats, mv)][mv.from as usize][mv.to as usize].get();
        }
        if use_pawn_history() {
            score += 2 * self.pawn[to].get();
        }
        let [one, two, four, six] = self.continuation_table;
        score + one[to].get() + two[to].get() + (four[to].get() + six[to].get()) / 2
    }
}

/// Squares attacked by the opponent, by the value of the cheapest attacker.
#[derive(Clone, Copy, Default)]
pub(crate) struct Threats {
    /// Squares attacked by pawns.
    pub(crate) by_pawn: BitBoard,
    /// Squares attacked by pawns or minor pieces.
    pub(crate) by_minor: BitBoard,
    /// Squares attacked by any piece but queen and king.
    pub(crate) by_rook: BitBoard,
    pub(crate) all: BitBoard,
}

/// Used by searches of captures only, which need no threats.
pub(crate) static NO_THREATS: Threats = Threats {
    by_pawn: BitBoard::EMPTY,
    by_minor: BitBoard::EMPTY,
    by_rook: BitBoard::EMPTY,
    all: BitBoard::EMPTY,
};

impl Threats {
    pub(crate) fn of(position: &Position) -> Self {
        let (board, opponent) = (position.board(), !position.side_to_move());
        let by_pawn = attacks_by_kind(board, opponent, &[Piece::Pawn]);
        let by_minor = by_pawn | attacks_by_kind(board, opponent, &[Piece::Knight, Piece::Bishop]);
        let by_rook = by_minor | attacks_by_kind(board, opponent, &[Piece::Rook]);
        let all = by_rook | attacks_by_kind(board, opponent, &[Piece::Queen, Piece::King]);
        Self { by_pawn, by_minor, by_rook, all }
    }
}

/// Context of a quiet move: everything that the tables need besides the move itself.
pub(crate) struct QuietContext<'a> {
    pub(crate) color: Color,
    pub(crate) threats: &'a Threats,
    pub(crate) pawn_key: u64,
    /// Moves that led here, the last one at the end; `None` for null moves.
    pub(crate) earlier: &'a [Option<Continuation>],
}

impl QuietContext<'_> {
    /// The move made `back` plies before the last one; 0 is the last one.
    #[inline]
    fn earlier(&self, back: usize) -> Option<Continuation> {
        self.earlier.len().checked_sub(1 + back).and_then(|index| self.earlier[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_never_leaves_its_range() {
        let mut entry = HistoryEntry::<8192>::default();
        for _ in 0..100 {
            entry.update(3000);
        }
        assert!((8000..=8192).contains(&entry.get()), "{}", entry.get());
        for _ in 0..100 {
            entry.update(-100_000);
        }
        assert_eq!(entry.get(), -8192);
    }

    #[test]
    fn a_move_that_did_well_scores_higher_where_it_did() {
        let mut histories = Histories::new();
        let position = Position::startpos();
        let context = QuietContext {
            color: Color::White,
            threats: &Threats::default(),
            pawn_key: position.keys().pawn,
            earlier: &[],
        };
        let good = Move { from: Square::G1, to: Square::F3, promotion: None };
        let other = Move { from: Square::B1, to: Square::C3, promotion: None };
        histories.update_quiet(&context, good, Piece::Knight, 1000);
        assert!(histories.quiet_tables(&context).score(good, Piece::Knight) > 0);
        assert_eq!(histories.quiet_tables(&context).score(other, Piece::Knight), 0);
        let elsewhere = QuietContext { color: Color::Black, ..context };
        assert_eq!(histories.quiet_tables(&elsewhere).score(good, Piece::Knight), 0);
    }

    #[test]
    fn corrections_have_the_sign_of_the_error() {
        let mut histories = Histories::new();
        let position = Position::startpos();
        for _ in 0..50 {
            histories.update_correction(&position, &[], 80, 8);
        }
        let correction = histories.correction(&position, &[]);
        assert!(correction > 20, "{correction}");
    }
}
