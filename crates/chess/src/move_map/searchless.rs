//! The 1968 actions of DeepMind's searchless chess.
//!
//! The board is never flipped: a move has the same index for either side. Castling is the king's own move of
//! two squares, so that the castling of a Chess960 king that does not start on the e-file has no index.

use super::{IndexedMove, NO_INDEX, PAIRS, is_knight_move, is_queen_move};
use crate::{Board, Color, File, Move, Piece, Square, uci};

/// Number of moves in the list of searchless chess, which is the number of its action tokens.
pub const COUNT: usize = 1968;

/// Index of a move in the list of searchless chess, below [`COUNT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionIndex(u16);

impl ActionIndex {
    /// Checks that an index is below [`COUNT`]; `None` if it is not.
    pub fn new(index: usize) -> Option<Self> {
        (index < COUNT).then_some(Self(index as u16))
    }

    /// All indices from 0 to [`COUNT`] − 1, in ascending order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..COUNT as u16).map(Self)
    }

    /// The index as a number, for addressing an action vector.
    #[inline]
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

/// Promotions in the order of their indices.
const PROMOTIONS: [Piece; 4] = [Piece::Queen, Piece::Rook, Piece::Bishop, Piece::Knight];

struct Tables {
    moves: [IndexedMove; COUNT],
    /// Index by the two squares.
    plain: [[u16; 64]; 64],
    /// Index of the promotion to a queen by the side and the files of the two squares; the other pieces
    /// follow.
    promotion: [[[u16; 8]; 8]; 2],
}

static TABLES: Tables = Tables::build();

impl Tables {
    const fn build() -> Self {
        let mut tables = Self {
            moves: [IndexedMove::EMPTY; COUNT],
            plain: [[NO_INDEX; 64]; 64],
            promotion: [[[NO_INDEX; 8]; 8]; 2],
        };
        let mut index = 0;
        let mut from = 0;
        while from < 64 {
            // The queen's moves first, then the knight's.
            let mut target = 0;
            while target < 128 {
                let to = target % 64;
                if if target < 64 { is_queen_move(from, to) } else { is_knight_move(from, to) } {
                    tables.moves[index] = IndexedMove { from: from as u8, to: to as u8, promotion: None };
                    tables.plain[from][to] = index as u16;
                    index += 1;
                }
                target += 1;
            }
            from += 1;
        }
        assert!(index == PAIRS);
        // Black's pawns first; each goes straight, then left, then right as White sees it.
        let sides = [(Color::Black, 8, 0), (Color::White, 48, 56)];
        let mut side = 0;
        while side < 2 {
            let (color, from_rank, to_rank) = sides[side];
            let mut file = 0_usize;
            while file < 8 {
                let targets = [file, file.wrapping_sub(1), file + 1];
                let mut target = 0;
                while target < 3 {
                    let to_file = targets[target];
                    if to_file < 8 {
                        tables.promotion[color as usize][file][to_file] = index as u16;
                        let mut piece = 0;
                        while piece < PROMOTIONS.len() {
                            let (from, to) = (from_rank + file as u8, to_rank + to_file as u8);
                            tables.moves[index] =
                                IndexedMove { from, to, promotion: Some(PROMOTIONS[piece]) };
                            index += 1;
                            piece += 1;
                        }
                    }
                    target += 1;
                }
                file += 1;
            }
            side += 1;
        }
        assert!(index == COUNT);
        tables
    }
}

/// Index of a legal move; `None` for the castling of a king that does not start on the e-file.
pub fn index_of(board: &Board, mv: Move) -> Option<ActionIndex> {
    let us = board.side_to_move();
    let mut to = mv.to;
    if board.colors(us).has(mv.to) {
        if mv.from.file() != File::E {
            return None;
        }
        let file = if mv.to.file() > File::E { File::G } else { File::C };
        to = Square::new(file, mv.from.rank());
    }
    let index = match mv.promotion {
        None => TABLES.plain[mv.from as usize][to as usize],
        Some(promotion) => {
            let kind = PROMOTIONS.iter().position(|&piece| piece == promotion)?;
            TABLES.promotion[us as usize][mv.from.file() as usize][to.file() as usize]
                .saturating_add(kind as u16)
        }
    };
    ActionIndex::new(usize::from(index))
}

/// Move with an index; `None` if it is not legal on the board.
pub fn move_of(board: &Board, index: ActionIndex) -> Option<Move> {
    let numbered = TABLES.moves[index.get()];
    let mv = Move { from: numbered.from(), to: numbered.to(), promotion: numbered.promotion };
    // A king taking its rook castles too, but under the index of the squares between which the king moves.
    uci::legal(board, mv).filter(|&legal| index_of(board, legal) == Some(index))
}

/// The move with an index in UCI notation: `e2e4`, `e1g1`, `a7a8q`.
pub fn text(index: ActionIndex) -> String {
    TABLES.moves[index.get()].text()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{POSITIONS, checksum, golden};
    use super::*;
    use crate::{Position, fen};

    fn list() -> Vec<String> {
        ActionIndex::all().map(text).collect()
    }

    #[test]
    fn the_list_is_that_of_searchless_chess() {
        assert_eq!(checksum(&list()), "0c85cec259a31318539a7171623ab73b01e25cd6d71fd43475e54d6e14f02e09");
    }

    #[test]
    #[ignore = "needs reference values"]
    fn the_list_equals_the_golden_file() {
        assert_eq!(list(), golden("searchless_actions_1968.txt").lines().collect::<Vec<_>>());
    }

    #[test]
    fn well_known_indices() {
        for (fen, uci, index) in [
            ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", "e2e4", 317),
            ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "e1g1", 102),
            ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "e1c1", 99),
            ("r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1", "e8g8", 1714),
            ("8/7k/8/8/8/8/p6K/8 b - - 0 1", "a2a1q", 1792),
            ("6n1/7P/8/8/7k/8/7K/8 w - - 0 1", "h7g8n", 1967),
        ] {
            let board = fen::parse(fen).unwrap();
            let index = ActionIndex::new(index).unwrap();
            assert_eq!(text(index), uci);
            assert_eq!(move_of(&board, index), uci::parse(&board, uci).ok());
        }
    }

    #[test]
    fn legal_moves_and_indices_are_one_to_one() {
        for fen in POSITIONS {
            let position = Position::from_fen(fen).unwrap();
            let board = position.board();
            let mut numbered = 0;
            for mv in position.legal_moves() {
                match index_of(board, mv) {
                    Some(index) => assert_eq!(move_of(board, index), Some(mv), "{mv} in {fen}"),
                    None => {
                        assert!(position.is_castling(mv) && mv.from.file() != File::E, "{mv} in {fen}");
                        continue;
                    }
                }
                numbered += 1;
            }
            assert_eq!(
                ActionIndex::all().filter_map(|index| move_of(board, index)).count(),
                numbered,
                "{fen}"
            );
        }
    }
}
