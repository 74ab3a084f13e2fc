//! The 1858 outputs of lc0's policy head.
//!
//! Moves are seen by the side to move: for Black the ranks are flipped, the files are not. Castling is the
//! king taking its rook; promotion to a knight has the index of the plain move.

use super::{IndexedMove, NO_INDEX, PAIRS, is_knight_move, is_queen_move};
use crate::{Board, Move, Piece, Rank, Square};

/// Number of moves in lc0's list, which is the number of outputs of its policy head.
pub const COUNT: usize = 1858;

/// Index of a move in lc0's list of moves, below [`COUNT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyIndex(u16);

impl PolicyIndex {
    /// Checks that an index is below [`COUNT`]; `None` if it is not.
    pub fn new(index: usize) -> Option<Self> {
        (index < COUNT).then_some(Self(index as u16))
    }

    /// All indices from 0 to [`COUNT`] − 1, in ascending order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..COUNT as u16).map(Self)
    }

    /// The index as a number, for addressing a policy vector.
    #[inline]
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

/// Promotions with indices of their own, in the order of these indices.
pub const PROMOTIONS: [Piece; 3] = [Piece::Queen, Piece::Rook, Piece::Bishop];

struct Tables {
    moves: [IndexedMove; COUNT],
    /// Index by the two squares.
    plain: [[u16; 64]; 64],
    /// Index of the promotion to a queen by the files of the two squares; rook and bishop follow.
    promotion: [[u16; 8]; 8],
}

static TABLES: Tables = Tables::build();

impl Tables {
    const fn build() -> Self {
        let mut tables = Self {
            moves: [IndexedMove::EMPTY; COUNT],
            plain: [[NO_INDEX; 64]; 64],
            promotion: [[NO_INDEX; 8]; 8],
        };
        let mut index = 0;
        let mut from = 0;
        while from < 64 {
            let mut to = 0;
            while to < 64 {
                if is_queen_move(from, to) || is_knight_move(from, to) {
                    tables.moves[index] = IndexedMove { from: from as u8, to: to as u8, promotion: None };
                    tables.plain[from][to] = index as u16;
                    index += 1;
                }
                to += 1;
            }
            from += 1;
        }
        assert!(index == PAIRS);
        let mut from = 0_usize;
        while from < 8 {
            let mut to = 0;
            while to < 8 {
                if from.abs_diff(to) <= 1 {
                    tables.promotion[from][to] = index as u16;
                    let mut piece = 0;
                    while piece < PROMOTIONS.len() {
                        let promotion = Some(PROMOTIONS[piece]);
                        tables.moves[index] =
                            IndexedMove { from: 48 + from as u8, to: 56 + to as u8, promotion };
                        index += 1;
                        piece += 1;
                    }
                }
                to += 1;
            }
            from += 1;
        }
        assert!(index == COUNT);
        tables
    }
}

/// Index of a legal move in lc0's policy output.
///
/// # Panics
///
/// Panics if no piece could make the move, for example a1 to b4.
pub fn index_of(board: &Board, mv: Move) -> PolicyIndex {
    let us = board.side_to_move();
    let (from, to) = (mv.from.relative_to(us), mv.to.relative_to(us));
    let kind = mv.promotion.and_then(|promotion| PROMOTIONS.iter().position(|&piece| piece == promotion));
    let index = match kind {
        None => TABLES.plain[from as usize][to as usize],
        Some(kind) => TABLES.promotion[from.file() as usize][to.file() as usize].saturating_add(kind as u16),
    };
    assert!(usize::from(index) < COUNT, "no piece moves like {mv}");
    PolicyIndex(index)
}

/// Move with an index; `None` if it is not legal on the board.
pub fn move_of(board: &Board, index: PolicyIndex) -> Option<Move> {
    let us = board.side_to_move();
    let numbered = TABLES.moves[index.get()];
    let from = numbered.from().relative_to(us);
    let pawn_arrives =
        numbered.to().rank() == Rank::Eighth && board.colored_pieces(us, Piece::Pawn).has(from);
    let promotion = numbered.promotion.or(pawn_arrives.then_some(Piece::Knight));
    let mv = Move { from, to: numbered.to().relative_to(us), promotion };
    board.is_legal(mv).then_some(mv)
}

/// The squares that the move with an index leaves and reaches, as White sees them, and its position in
/// [`PROMOTIONS`].
pub fn parts_of(index: PolicyIndex) -> (Square, Square, Option<usize>) {
    let numbered = TABLES.moves[index.get()];
    let kind =
        numbered.promotion.and_then(|promotion| PROMOTIONS.iter().position(|&piece| piece == promotion));
    (numbered.from(), numbered.to(), kind)
}

/// The move with an index in UCI notation with White to move: `e2e4`, `e1h1`, `a7a8q`.
pub fn text(index: PolicyIndex) -> String {
    TABLES.moves[index.get()].text()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{POSITIONS, checksum, golden};
    use super::*;
    use crate::{Position, fen, uci};

    fn list() -> Vec<String> {
        PolicyIndex::all().map(text).collect()
    }

    #[test]
    fn the_list_is_lc0s() {
        assert_eq!(checksum(&list()), "4a901f49851725496e39e34648dd58f240950fa6b72a0bbf6b2816b9af767cc7");
    }

    #[test]
    #[ignore = "needs reference values"]
    fn the_list_equals_the_golden_file() {
        assert_eq!(list(), golden("lc0_policy_1858.txt").lines().collect::<Vec<_>>());
    }

    /// Positions in which the golden moves can be played.
    const CASTLING: &str = "r3k2r/8/8/8/8/8/8/R3K2R";
    const PROMOTING: &str = "8/P6P/4k3/8/8/4K3/p6p/6N1";

    #[test]
    #[ignore = "needs reference values"]
    fn indices_equal_the_golden_file() {
        let cases: serde_json::Value = serde_json::from_str(&golden("golden_lc0_policy.json")).unwrap();
        for case in cases.as_array().unwrap() {
            let uci = case["uci"].as_str().unwrap();
            let placement = match uci {
                _ if case["castling"].as_bool().unwrap() => CASTLING,
                "e2e4" | "e7e5" | "g1f3" | "g8f6" => "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR",
                _ => PROMOTING,
            };
            let black = case["black"].as_bool().unwrap();
            let rights = if placement == PROMOTING { "-" } else { "KQkq" };
            let board =
                fen::parse(&format!("{placement} {} {rights} - 0 1", if black { 'b' } else { 'w' })).unwrap();
            let mv = uci::parse(&board, uci).unwrap();
            assert_eq!(index_of(&board, mv).get() as u64, case["index"].as_u64().unwrap(), "{uci}");
        }
    }

    #[test]
    fn well_known_indices() {
        for (fen, uci, index) in [
            ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", "e2e4", 322),
            ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR b KQkq - 0 1", "e7e5", 322),
            ("r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1", "e8g8", 103),
            ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "e1c1", 97),
            ("8/P6k/8/8/8/8/7K/8 w - - 0 1", "a7a8n", 1401),
            ("8/P6k/8/8/8/8/7K/8 w - - 0 1", "a7a8q", 1792),
        ] {
            let board = fen::parse(fen).unwrap();
            assert_eq!(index_of(&board, uci::parse(&board, uci).unwrap()).get(), index, "{uci}");
        }
    }

    #[test]
    fn legal_moves_and_indices_are_one_to_one() {
        for fen in POSITIONS {
            let position = Position::from_fen(fen).unwrap();
            let board = position.board();
            let moves = position.legal_moves();
            for &mv in &moves {
                assert_eq!(move_of(board, index_of(board, mv)), Some(mv), "{mv} in {fen}");
            }
            assert_eq!(
                PolicyIndex::all().filter_map(|index| move_of(board, index)).count(),
                moves.len(),
                "{fen}"
            );
        }
    }

    #[test]
    fn indices_beyond_the_list_are_none() {
        assert_eq!(PolicyIndex::new(1857).map(text).as_deref(), Some("h7h8b"));
        assert_eq!(PolicyIndex::new(1858), None);
    }
}
