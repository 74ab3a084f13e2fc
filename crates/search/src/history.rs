//! What the search remembers of moves that did well or badly, to try the good ones first, and of evaluations that
//! turned out wrong, to correct the next ones.

use crate::params::*;
use crate::tt::prefetch;
use crate::value::Value;
use bytemuck::Zeroable;
use tandem_chess::{BitBoard, Color, Move, Piece, Position, Square, attacks_by_kind};
use tandem_memory::Block;

/// A number that drifts towards the bonuses it gets and never leaves ±`MAX`: the nearer it is to the end, the less
/// another bonus of the same sign moves it.
#[derive(Clone, Copy, Default, Zeroable)]
#[repr(transparent)]
pub(crate) struct Gauge<const MAX: i32>(i16);

impl<const MAX: i32> Gauge<MAX> {
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

/// A piece of some colour arriving on a square: what continuation tables are indexed by.
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

/// Index of a continuation table: the move made some plies ago, and whether it took something.
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

type Quiet = Gauge<8192>;
type Capture = Gauge<8192>;
type Follow = Gauge<16384>;
type Correction = Gauge<1024>;

const PAWN_STRUCTURES: usize = 1024;
const CORRECTIONS: usize = 16384;

/// All tables of one search thread. The large ones lie on huge pages; of the others the compiler knows the length, and spares
/// the checks.
pub(crate) struct Histories {
    /// By colour, whether the enemy attacks the square left and the square reached, from and to.
    butterfly: Box<[[[[Quiet; 64]; 64]; 4]; 2]>,
    /// By piece, square and victim.
    capture: Box<[[Capture; 6]; PieceTo::COUNT]>,
    /// By an earlier move, then by piece and square.
    continuation: Block<[Follow; PieceTo::COUNT]>,
    /// By pawn structure, then by piece and square.
    pawn: Block<[Quiet; PieceTo::COUNT]>,
    /// Corrections of the evaluation by side to move and each key, and by the last two moves.
    corrections: Box<[[[Correction; CORRECTIONS]; 2]; 5]>,
    correction_continuation: Block<[Correction; PieceTo::COUNT]>,
}

impl Histories {
    pub(crate) fn new() -> Self {
        Self {
            butterfly: array_of([[[Gauge::default(); 64]; 64]; 4]),
            capture: array_of([Gauge::default(); 6]),
            continuation: Block::zeroed(2 * PieceTo::COUNT),
            pawn: Block::zeroed(PAWN_STRUCTURES),
            corrections: array_of([[Gauge::default(); CORRECTIONS]; 2]),
            correction_continuation: Block::zeroed(PieceTo::COUNT),
        }
    }

    /// Forgets everything, for a new game. In place: memory that is used again gets no huge pages.
    pub(crate) fn clear(&mut self) {
        let Self { butterfly, capture, continuation, pawn, corrections, correction_continuation } = self;
        butterfly.fill(Zeroable::zeroed());
        capture.fill(Zeroable::zeroed());
        continuation.fill(Zeroable::zeroed());
        pawn.fill(Zeroable::zeroed());
        corrections.fill(Zeroable::zeroed());
        correction_continuation.fill(Zeroable::zeroed());
    }

    /// The tables' rows that apply to every quiet move of one position, found once.
    #[inline]
    pub(crate) fn quiet_rows<'a>(&'a self, context: &QuietContext<'_>) -> QuietRows<'a> {
        let follow = |back: usize| {
            let earlier = context.earlier(back).filter(|_| use_continuation() != 0);
            earlier.map_or(&NO_FOLLOW, |earlier| &self.continuation[earlier.index()])
        };
        QuietRows {
            color: context.color,
            threats: context.threats.all,
            butterfly: &self.butterfly[context.color as usize],
            pawn: &self.pawn[context.pawn_key as usize % PAWN_STRUCTURES],
            follow: [follow(0), follow(1), follow(3), follow(5)],
        }
    }

    /// The part of a quiet move's record that pruning and reductions read: how it did here and as an answer.
    #[inline]
    pub(crate) fn quiet_record(&self, context: &QuietContext<'_>, mv: Move, piece: Piece) -> i32 {
        let to = PieceTo::new(context.color, piece, mv.to);
        let mut score = 0;
        if use_butterfly() != 0 {
            score += self.butterfly[context.color as usize][threat_index(context.threats.all, mv)]
                [mv.from as usize][mv.to as usize]
                .get();
        }
        if use_continuation() != 0 {
            for back in [0, 1] {
                if let Some(earlier) = context.earlier(back) {
                    score += self.continuation[earlier.index()][to.index()].get() / 2;
                }
            }
        }
        if use_pawn_history() != 0 {
            score += self.pawn[context.pawn_key as usize % PAWN_STRUCTURES][to.index()].get() / 2;
        }
        score
    }

    #[inline]
    pub(crate) fn capture(&self, color: Color, piece: Piece, to: Square, victim: Piece) -> i32 {
        if use_capture_history() == 0 {
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

    /// Credits a move as an answer to the moves before it.
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

    /// How far the evaluation has been off in positions like this one, in centipawns.
    pub(crate) fn correction(&self, position: &Position, earlier: &[Option<Continuation>]) -> Value {
        if use_correction() == 0 {
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

    /// Asks for what [`Self::correction`] will read.
    #[inline]
    pub(crate) fn prefetch_correction(&self, position: &Position) {
        let side = position.side_to_move() as usize;
        for (table, key) in self.corrections.iter().zip(correction_keys(position)) {
            prefetch(&table[side][key]);
        }
    }

    /// The search found the evaluation off by `error` at `depth`.
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

/// An array on the heap that was never on the stack, where it would not fit.
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

/// Stands in for the record of a move that was never made.
static NO_FOLLOW: [Follow; PieceTo::COUNT] = [Gauge(0); PieceTo::COUNT];

/// See [`Histories::quiet_rows`].
pub(crate) struct QuietRows<'a> {
    color: Color,
    threats: BitBoard,
    butterfly: &'a [[[Quiet; 64]; 64]; 4],
    pawn: &'a [Quiet; PieceTo::COUNT],
    follow: [&'a [Follow; PieceTo::COUNT]; 4],
}

impl QuietRows<'_> {
    /// How promising a quiet move is.
    #[inline]
    pub(crate) fn score(&self, mv: Move, piece: Piece) -> i32 {
        let to = PieceTo::new(self.color, piece, mv.to).index();
        let mut score = 0;
        if use_butterfly() != 0 {
            score +=
                2 * self.butterfly[threat_index(self.threats, mv)][mv.from as usize][mv.to as usize].get();
        }
        if use_pawn_history() != 0 {
            score += 2 * self.pawn[to].get();
        }
        let [one, two, four, six] = self.follow;
        score + one[to].get() + two[to].get() + (four[to].get() + six[to].get()) / 2
    }
}

/// Squares that the enemy attacks, with what.
#[derive(Clone, Copy, Default)]
pub(crate) struct Threats {
    /// Pawns.
    pub(crate) by_pawn: BitBoard,
    /// Pawns and minor pieces.
    pub(crate) by_minor: BitBoard,
    /// All but queen and king.
    pub(crate) by_rook: BitBoard,
    pub(crate) all: BitBoard,
}

/// For searches that look at captures only.
pub(crate) static NO_THREATS: Threats = Threats {
    by_pawn: BitBoard::EMPTY,
    by_minor: BitBoard::EMPTY,
    by_rook: BitBoard::EMPTY,
    all: BitBoard::EMPTY,
};

impl Threats {
    pub(crate) fn of(position: &Position) -> Self {
        let (board, enemy) = (position.board(), !position.side_to_move());
        let by_pawn = attacks_by_kind(board, enemy, &[Piece::Pawn]);
        let by_minor = by_pawn | attacks_by_kind(board, enemy, &[Piece::Knight, Piece::Bishop]);
        let by_rook = by_minor | attacks_by_kind(board, enemy, &[Piece::Rook]);
        let all = by_rook | attacks_by_kind(board, enemy, &[Piece::Queen, Piece::King]);
        Self { by_pawn, by_minor, by_rook, all }
    }
}

/// Where a quiet move is tried: what the tables need besides the move.
pub(crate) struct QuietContext<'a> {
    pub(crate) color: Color,
    pub(crate) threats: &'a Threats,
    pub(crate) pawn_key: u64,
    /// Moves that led here, the last one at the end; `None` for null moves.
    pub(crate) earlier: &'a [Option<Continuation>],
}

impl QuietContext<'_> {
    /// The move made `back` plies before the last one.
    #[inline]
    fn earlier(&self, back: usize) -> Option<Continuation> {
        self.earlier.len().checked_sub(1 + back).and_then(|index| self.earlier[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_never_leaves_its_range() {
        let mut gauge = Gauge::<8192>::default();
        for _ in 0..100 {
            gauge.update(3000);
        }
        assert!((8000..=8192).contains(&gauge.get()), "{}", gauge.get());
        for _ in 0..100 {
            gauge.update(-100_000);
        }
        assert_eq!(gauge.get(), -8192);
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
        assert!(histories.quiet_rows(&context).score(good, Piece::Knight) > 0);
        assert_eq!(histories.quiet_rows(&context).score(other, Piece::Knight), 0);
        let elsewhere = QuietContext { color: Color::Black, ..context };
        assert_eq!(histories.quiet_rows(&elsewhere).score(good, Piece::Knight), 0);
    }

    #[test]
    fn corrections_go_the_way_of_the_error() {
        let mut histories = Histories::new();
        let position = Position::startpos();
        for _ in 0..50 {
            histories.update_correction(&position, &[], 80, 8);
        }
        let correction = histories.correction(&position, &[]);
        assert!(correction > 20, "{correction}");
    }
}
