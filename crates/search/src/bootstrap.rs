//! A small hand-written evaluation: material, squares and a few pawn terms, blended between middlegame and endgame.
//!
//! It is what the engine plays with when it has no network, and the judge of the first self-play games. Its numbers
//! in [`tables`] were fitted to engine games by `scripts/fit_bootstrap.py`.

mod tables;

use crate::{Centipawns, Evaluator};
use std::ops::{AddAssign, SubAssign};
use tandem_chess::{BitBoard, Board, Changes, Color, Piece, Placed, Position, Square};

/// A middlegame and an endgame value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pair(pub(crate) i16, pub(crate) i16);

impl AddAssign for Pair {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
        self.1 += other.1;
    }
}

impl SubAssign for Pair {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
        self.1 -= other.1;
    }
}

impl Pair {
    #[inline]
    fn times(self, count: u32) -> Self {
        Self(self.0 * count as i16, self.1 * count as i16)
    }
}

/// How much of the middlegame each piece stands for; 24 with all on the board.
const PHASE: [u8; 6] = [0, 1, 1, 2, 4, 0];
const FULL_PHASE: i32 = 24;

/// Material and square of a piece, in one number.
static PLACED: [[[Pair; 64]; 6]; 2] = placed_values();

const fn placed_values() -> [[[Pair; 64]; 6]; 2] {
    let mut values = [[[Pair(0, 0); 64]; 6]; 2];
    let mut piece = 0;
    while piece < 6 {
        let mut square = 0;
        while square < 64 {
            // The tables are written as White sees the board, rank 8 on top.
            let Pair(mg, eg) = tables::MATERIAL[piece];
            values[Color::White as usize][piece][square] =
                Pair(mg + tables::MIDGAME[piece][square ^ 56], eg + tables::ENDGAME[piece][square ^ 56]);
            values[Color::Black as usize][piece][square] =
                Pair(mg + tables::MIDGAME[piece][square], eg + tables::ENDGAME[piece][square]);
            square += 1;
        }
        piece += 1;
    }
    values
}

/// Sums of [`PLACED`], kept as pieces come and go: White's minus Black's.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Sums {
    squares: Pair,
    phase: u8,
}

impl Sums {
    #[inline]
    fn add(&mut self, placed: Placed) {
        let value = PLACED[placed.color as usize][placed.piece as usize][placed.square as usize];
        match placed.color {
            Color::White => self.squares += value,
            Color::Black => self.squares -= value,
        }
        self.phase += PHASE[placed.piece as usize];
    }

    #[inline]
    fn remove(&mut self, placed: Placed) {
        let value = PLACED[placed.color as usize][placed.piece as usize][placed.square as usize];
        match placed.color {
            Color::White => self.squares -= value,
            Color::Black => self.squares += value,
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

/// The pawn terms of one pawn structure, remembered because structures recur.
#[derive(Clone, Copy, Default)]
struct PawnEntry {
    key: u64,
    value: Pair,
}

const PAWN_ENTRIES: usize = 8192;

/// The evaluator.
pub struct Bootstrap {
    stack: Vec<Sums>,
    pawns: Box<[PawnEntry]>,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self {
            stack: vec![Sums::of(&Board::default())],
            pawns: vec![PawnEntry::default(); PAWN_ENTRIES].into_boxed_slice(),
        }
    }
}

impl Bootstrap {
    fn pawn_terms(&mut self, position: &Position) -> Pair {
        let key = position.keys().pawn;
        let entry = &mut self.pawns[key as usize % PAWN_ENTRIES];
        if entry.key != key {
            *entry = PawnEntry { key, value: pawn_terms(position.board()) };
        }
        entry.value
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
        let mut total = sums.squares;
        total += self.pawn_terms(position);
        total += piece_terms(board, Color::White);
        total -= piece_terms(board, Color::Black);
        match position.side_to_move() {
            Color::White => total += tables::TEMPO,
            Color::Black => total -= tables::TEMPO,
        }
        let phase = i32::from(sums.phase).min(FULL_PHASE);
        let white = (i32::from(total.0) * phase + i32::from(total.1) * (FULL_PHASE - phase)) / FULL_PHASE;
        Centipawns(match position.side_to_move() {
            Color::White => white,
            Color::Black => -white,
        })
    }
}

/// Bishop pair, rooks on open files, pawns before the king.
fn piece_terms(board: &Board, color: Color) -> Pair {
    let mut terms = Pair::default();
    let ours = board.colors(color);
    let pawns = board.pieces(Piece::Pawn);
    if (ours & board.pieces(Piece::Bishop)).len() >= 2 {
        terms += tables::BISHOP_PAIR;
    }
    for rook in ours & board.pieces(Piece::Rook) {
        let file = rook.file().bitboard();
        if (file & pawns).is_empty() {
            terms += tables::ROOK_OPEN;
        } else if (file & pawns & ours).is_empty() {
            terms += tables::ROOK_HALF_OPEN;
        }
    }
    terms += tables::KING_SHELTER
        .times((SHELTER[color as usize][board.king(color) as usize] & ours & pawns).len());
    terms
}

/// Passed, isolated and doubled pawns, White's minus Black's.
fn pawn_terms(board: &Board) -> Pair {
    let mut terms = Pair::default();
    for color in Color::ALL {
        let ours = board.colored_pieces(color, Piece::Pawn);
        let theirs = board.colored_pieces(!color, Piece::Pawn);
        let mut side = Pair::default();
        for pawn in ours {
            let file = pawn.file();
            let ahead = AHEAD[color as usize][pawn as usize];
            if (ahead & (file.bitboard() | file.adjacent()) & theirs).is_empty() {
                side += tables::PASSED[pawn.relative_to(color).rank() as usize];
            }
            if (file.adjacent() & ours).is_empty() {
                side += tables::ISOLATED;
            }
            if !(ahead & file.bitboard() & ours).is_empty() {
                side += tables::DOUBLED;
            }
        }
        match color {
            Color::White => terms += side,
            Color::Black => terms -= side,
        }
    }
    terms
}

/// Squares on higher ranks, as each side sees the board.
static AHEAD: [[BitBoard; 64]; 2] = ahead();

const fn ahead() -> [[BitBoard; 64]; 2] {
    let mut sets = [[BitBoard::EMPTY; 64]; 2];
    let mut square = 0;
    while square < 64 {
        let rank = square as u32 / 8;
        sets[Color::White as usize][square] = BitBoard(if rank == 7 { 0 } else { !0 << ((rank + 1) * 8) });
        sets[Color::Black as usize][square] = BitBoard(if rank == 0 { 0 } else { !0 >> ((8 - rank) * 8) });
        square += 1;
    }
    sets
}

/// Where pawns shelter a king: its own and the adjacent files, one and two ranks ahead.
static SHELTER: [[BitBoard; 64]; 2] = shelter();

const fn shelter() -> [[BitBoard; 64]; 2] {
    let mut sets = [[BitBoard::EMPTY; 64]; 2];
    let mut index = 0;
    while index < 64 {
        let square = Square::index_const(index);
        let files = square.file().bitboard().0 | square.file().adjacent().0;
        let rank = index as u32 / 8;
        sets[Color::White as usize][index] =
            BitBoard(if rank == 7 { 0 } else { files & (0xFFFFu64 << ((rank + 1) * 8)) });
        sets[Color::Black as usize][index] = BitBoard(match rank {
            0 => 0,
            1 => files & 0xFF,
            _ => files & (0xFFFFu64 << ((rank - 2) * 8)),
        });
        index += 1;
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::{File, Rank};

    fn evaluate(fen: &str) -> i32 {
        let position = Position::from_fen(fen).unwrap();
        let mut evaluator = Bootstrap::default();
        evaluator.reset(&position);
        evaluator.evaluate(&position).0
    }

    #[test]
    fn the_two_sides_are_judged_alike() {
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
    fn a_piece_more_is_worth_having() {
        let level = evaluate("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1");
        let mut least = level + 50;
        for odds in [
            "rnbqkbnr/pppp1ppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
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
        let mut state = 1u64;
        for _ in 0..200 {
            let moves = position.legal_moves();
            if moves.is_empty() {
                break;
            }
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            position.play(moves[(state >> 33) as usize % moves.len()]);
            evaluator.push(position.changes());
            assert_eq!(evaluator.stack.last(), Some(&Sums::of(position.board())), "{}", position.fen());
        }
    }

    #[test]
    fn shelter_and_ahead_are_where_they_should_be() {
        let file = |file: File, ranks: &[Rank]| -> BitBoard {
            ranks.iter().map(|&rank| Square::new(file, rank)).collect()
        };
        let g1 = SHELTER[0][Square::G1 as usize];
        let expected = [File::F, File::G, File::H]
            .into_iter()
            .fold(BitBoard::EMPTY, |set, f| set | file(f, &[Rank::Second, Rank::Third]));
        assert_eq!(g1, expected);
        assert_eq!(
            SHELTER[1][Square::A2 as usize],
            file(File::A, &[Rank::First]) | file(File::B, &[Rank::First])
        );
        assert_eq!(AHEAD[0][Square::E7 as usize], Rank::Eighth.bitboard());
        assert_eq!(AHEAD[1][Square::E2 as usize], Rank::First.bitboard());
    }
}
