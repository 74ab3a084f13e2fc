//! The hand-written evaluation (HCE): material and squares, pawn structure, mobility, threats and king
//! safety, tapered between middlegame and endgame.
//!
//! The engine plays with it if it has no network, and it scored the first self-play games. Its weights in
//! [`tables`] were fitted to games by `scripts/fit_bootstrap.py`, from the terms that
//! `examples/bootstrap_features.rs` writes.

mod endgame;
mod pawns;
mod pieces;
mod tables;

use crate::{Centipawns, Evaluator};
use pawns::PawnCache;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};
use tables::term;
use tandem_chess::{Board, Changes, Color, File, Piece, Placed, Position, Square};

/// A middlegame and an endgame value packed into one integer, so that one addition adds both: the endgame
/// value in the upper half, less one where the lower half borrows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pair(i32);

impl Pair {
    pub(crate) const fn new(midgame: i16, endgame: i16) -> Self {
        Self(((endgame as i32) << 16) + midgame as i32)
    }

    #[inline]
    fn midgame(self) -> i32 {
        i32::from(self.0 as i16)
    }

    #[inline]
    fn endgame(self) -> i32 {
        (self.0 + 0x8000) >> 16
    }
}

impl Add for Pair {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Pair {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Mul<i32> for Pair {
    type Output = Self;

    #[inline]
    fn mul(self, count: i32) -> Self {
        Self(self.0 * count)
    }
}

impl AddAssign for Pair {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Pair {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// Receives the terms that a side has: to add up their values in the engine, or to list them for the fit of
/// the weights.
pub(crate) trait Ledger {
    /// Enters a term, an index of [`tables::WEIGHTS`], `count` times.
    fn enter(&mut self, term: usize, count: i32);
}

/// Adds up the values of the terms entered.
#[derive(Clone, Copy, Default)]
struct Sum(Pair);

impl Ledger for Sum {
    #[inline]
    fn enter(&mut self, term: usize, count: i32) {
        self.0 += tables::WEIGHTS[term] * count;
    }
}

/// Contribution of each piece to the game phase; 24 with all pieces on the board.
const PHASE: [u8; 6] = [0, 1, 1, 2, 4, 0];
const FULL_PHASE: i32 = 24;

/// Number of arrangements of the kings for the piece-square tables: each king is on files a to d or on files
/// e to h. The index is twice White's bit plus Black's.
const KING_SIDES: usize = 4;

#[inline]
const fn is_west(square: Square) -> bool {
    (square.file() as usize) < File::E as usize
}

#[inline]
fn king_sides(board: &Board) -> usize {
    usize::from(is_west(board.king(Color::White))) * 2 + usize::from(is_west(board.king(Color::Black)))
}

/// Index of the piece-square term: seen from the piece's own side, mirrored so that its king is on files e to
/// h; one set of tables for kings on the same side of the board, one for kings on opposite sides.
pub(crate) const fn square_term(color: Color, piece: usize, square: usize, king_sides: usize) -> usize {
    let [own_west, same] = match color {
        Color::White => [king_sides >= 2, king_sides == 0 || king_sides == 3],
        Color::Black => [king_sides % 2 == 1, king_sides == 0 || king_sides == 3],
    };
    let flip = if matches!(color, Color::White) { 0 } else { 56 } ^ if own_west { 7 } else { 0 };
    term::SQUARES + (if same { 0 } else { 6 * 64 }) + piece * 64 + (square ^ flip)
}

/// Material plus square of a piece, for each arrangement of the kings; negative for Black.
static PLACED: [[[[Pair; KING_SIDES]; 64]; 6]; 2] = placed_values();

const fn placed_values() -> [[[[Pair; KING_SIDES]; 64]; 6]; 2] {
    let mut values = [[[[Pair(0); KING_SIDES]; 64]; 6]; 2];
    let mut index = 0;
    while index < 6 * 64 * KING_SIDES {
        let (piece, square, sides) = (index / 256, index / 4 % 64, index % 4);
        let material = tables::WEIGHTS[term::MATERIAL + piece].0;
        let white = tables::WEIGHTS[square_term(Color::White, piece, square, sides)].0;
        let black = tables::WEIGHTS[square_term(Color::Black, piece, square, sides)].0;
        values[Color::White as usize][piece][square][sides] = Pair(material + white);
        values[Color::Black as usize][piece][square][sides] = Pair(-material - black);
        index += 1;
    }
    values
}

/// Sums of [`PLACED`], updated incrementally. The sums of all four arrangements of the kings are kept, so
/// that a king may cross the board at no cost.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Sums {
    squares: [Pair; KING_SIDES],
    phase: u8,
}

impl Sums {
    #[inline]
    fn add(&mut self, placed: Placed) {
        let values = &PLACED[placed.color as usize][placed.piece as usize][placed.square as usize];
        for (sum, &value) in self.squares.iter_mut().zip(values) {
            *sum += value;
        }
        self.phase += PHASE[placed.piece as usize];
    }

    #[inline]
    fn remove(&mut self, placed: Placed) {
        let values = &PLACED[placed.color as usize][placed.piece as usize][placed.square as usize];
        for (sum, &value) in self.squares.iter_mut().zip(values) {
            *sum -= value;
        }
        self.phase -= PHASE[placed.piece as usize];
    }

    fn of(board: &Board) -> Self {
        let mut sums = Self::default();
        for color in Color::ALL {
            for piece in Piece::ALL {
                for square in board.colored_pieces(color, piece) {
                    sums.add(Placed { piece, color, square });
                }
            }
        }
        sums
    }
}

/// The hand-written evaluator. It caches pawn structures, so each thread needs one of its own.
pub struct Bootstrap {
    stack: Vec<Sums>,
    pawns: PawnCache,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { stack: vec![Sums::of(&Board::default())], pawns: PawnCache::default() }
    }
}

impl Evaluator for Bootstrap {
    fn reset(&mut self, position: &Position) {
        self.stack.clear();
        self.stack.push(Sums::of(position.board()));
    }

    #[inline]
    fn push(&mut self, changes: &Changes) {
        let mut sums = self.stack.last().copied().unwrap_or_default();
        for &gone in changes.removed() {
            sums.remove(gone);
        }
        for &come in changes.added() {
            sums.add(come);
        }
        self.stack.push(sums);
    }

    #[inline]
    fn pop(&mut self) {
        self.stack.pop();
    }

    fn evaluate(&mut self, position: &Position) -> Centipawns {
        let board = position.board();
        let sums = self.stack.last().copied().unwrap_or_default();
        let pawns = self.pawns.get(position);
        let [mut white, mut black] = [Sum::default(); 2];
        moving_terms(position, pawns, &mut white, &mut black);
        let total = sums.squares[king_sides(board)] + pawns.value + white.0 - black.0;

        let phase = i32::from(sums.phase).min(FULL_PHASE);
        let strong = if total.endgame() >= 0 { Color::White } else { Color::Black };
        let endgame = total.endgame() * endgame::winnable(board, strong) / endgame::FULL_SCALE;
        let mut value = (total.midgame() * phase + endgame * (FULL_PHASE - phase)) / FULL_PHASE;
        match strong {
            Color::White => value += endgame::mop_up(board, strong),
            Color::Black => value -= endgame::mop_up(board, strong),
        }
        Centipawns(match position.side_to_move() {
            Color::White => value,
            Color::Black => -value,
        })
    }
}

/// Enters the terms that any move may change, and that are therefore not cached.
#[inline]
fn moving_terms<L: Ledger>(position: &Position, pawns: &pawns::PawnEntry, white: &mut L, black: &mut L) {
    let board = position.board();
    let white_attacks = pieces::piece_terms(board, Color::White, pawns, white);
    let black_attacks = pieces::piece_terms(board, Color::Black, pawns, black);
    pieces::attack_terms(board, Color::White, &white_attacks, &black_attacks, white);
    pieces::attack_terms(board, Color::Black, &black_attacks, &white_attacks, black);
    pieces::passed_terms(board, Color::White, pawns.passed, &black_attacks, white);
    pieces::passed_terms(board, Color::Black, pawns.passed, &white_attacks, black);
    match position.side_to_move() {
        Color::White => white.enter(term::TEMPO, 1),
        Color::Black => black.enter(term::TEMPO, 1),
    }
}

/// Values on which an evaluation depends besides its terms.
#[allow(dead_code, reason = "for examples/bootstrap_features.rs, which includes this file")]
pub(crate) struct EvalContext {
    pub(crate) phase: u8,
    /// [`endgame::winnable`] for each side, White first.
    pub(crate) winnable: [u8; 2],
}

/// Enters all terms of a position, without incremental state, for the fit.
#[allow(dead_code, reason = "for examples/bootstrap_features.rs, which includes this file")]
pub(crate) fn collect_terms<L: Ledger>(position: &Position, white: &mut L, black: &mut L) -> EvalContext {
    let board = position.board();
    let sums = Sums::of(board);
    let sides = king_sides(board);
    for (color, ledger) in [(Color::White, &mut *white), (Color::Black, &mut *black)] {
        for piece in Piece::ALL {
            for square in board.colored_pieces(color, piece) {
                ledger.enter(term::MATERIAL + piece as usize, 1);
                ledger.enter(square_term(color, piece as usize, square as usize, sides), 1);
            }
        }
        pawns::pawn_terms(board, color, ledger);
        pawns::king_terms(board, color, ledger);
    }
    moving_terms(position, &pawns::pawn_entry(board), white, black);
    EvalContext {
        phase: sums.phase.min(FULL_PHASE as u8),
        winnable: Color::ALL.map(|color| endgame::winnable(board, color) as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_util::random::SplitMix;

    fn evaluate(fen: &str) -> i32 {
        let position = Position::from_fen(fen).unwrap();
        let mut evaluator = Bootstrap::default();
        evaluator.reset(&position);
        evaluator.evaluate(&position).0
    }

    #[test]
    fn both_sides_are_evaluated_alike() {
        for (white, black) in [
            (
                "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w - - 0 1",
                "r3k2r/pppbbppp/2n2q1P/1P2p3/3pn3/BN2PNP1/P1PPQPB1/R3K2R b - - 0 1",
            ),
            ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", "8/4p1p1/8/1r3P1K/kp5R/3P4/2P5/8 b - - 0 1"),
        ] {
            assert_eq!(evaluate(white), evaluate(black));
        }
    }

    #[test]
    fn an_extra_piece_raises_the_value() {
        let level = evaluate("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1");
        let mut least = level + 50;
        for odds in [
            "rnbqkbnr/ppppp1pp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            "rnbqkb1r/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            "rnbqkbn1/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQq - 0 1",
            "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
        ] {
            let value = evaluate(odds);
            assert!(value > least, "{odds}: {value}");
            least = value;
        }
    }

    #[test]
    fn incremental_sums_equal_fresh_ones() {
        let mut position =
            Position::from_fen("r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1").unwrap();
        let mut evaluator = Bootstrap::default();
        evaluator.reset(&position);
        let mut random = SplitMix::new(1);
        for _ in 0..200 {
            let moves = position.legal_moves();
            if moves.is_empty() {
                break;
            }
            position.play(moves[random.below(moves.len() as u32) as usize]);
            evaluator.push(position.changes());
            assert_eq!(evaluator.stack.last(), Some(&Sums::of(position.board())), "{}", position.fen());
        }
    }

    #[test]
    fn the_value_is_the_sum_of_the_terms() {
        let board = "r2q1rk1/pp1b1ppp/2n1pn2/3p4/1b1P4/2NBPN2/PPQ2PPP/R1B1K2R w KQ - 0 1";
        let position = Position::from_fen(board).unwrap();
        let [mut white, mut black] = [Sum::default(); 2];
        let context = collect_terms(&position, &mut white, &mut black);
        let total = white.0 - black.0;
        assert_eq!((context.phase, context.winnable), (24, [64, 64]));
        assert_eq!(evaluate(board), total.midgame());
    }

    #[test]
    fn a_mirrored_board_has_the_same_value() {
        for (board, mirrored) in [
            ("8/5pk1/6p1/3R3p/8/1P4P1/r4PKP/8 w - - 0 1", "8/1kp5/1p6/p3R3/8/1P4P1/PKP4r/8 w - - 0 1"),
            ("1k6/pp6/8/2n5/8/8/5PPP/3R2K1 b - - 0 1", "6k1/6pp/8/5n2/8/8/PPP5/1K2R3 b - - 0 1"),
        ] {
            assert_eq!(evaluate(board), evaluate(mirrored));
        }
    }

    #[test]
    fn a_bare_king_is_driven_to_the_edge() {
        let centre = evaluate("8/8/8/3k4/8/8/8/KR6 w - - 0 1");
        let edge = evaluate("3k4/8/8/8/8/8/8/KR6 w - - 0 1");
        assert!(edge > centre, "{edge} {centre}");
        let pawnless = evaluate("3k4/8/3b4/8/8/8/8/KR6 w - - 0 1");
        assert!(pawnless < 80, "{pawnless}");
    }

    #[test]
    fn pairs_add_both_halves() {
        let sum = Pair::new(-5, 300) + Pair::new(-7, -320) * 2 - Pair::new(1, -1);
        assert_eq!((sum.midgame(), sum.endgame()), (-20, -339));
    }
}
