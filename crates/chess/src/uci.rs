//! Moves in the notation of the UCI protocol, such as e2e4 and e7e8q.

use crate::{Board, File, Move, Piece, Square, position::castling_targets, text::clip};
use thiserror::Error;

/// Reason for which a text is not a move of the position.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UciMoveError {
    /// The text does not have the form e2e4 or e7e8q.
    #[error("'{0}' is not a move in UCI notation (such as e2e4 or e7e8q)")]
    Syntax(String),
    /// The text is a move, but not a legal one in the position.
    #[error("{0} is not a legal move here")]
    Illegal(String),
}

/// Parses a move of `board` and checks that it is legal. Castling may be written as the king's own move
/// (e1g1) or, as Chess960 needs it, as the king taking the rook (e1h1).
///
/// # Errors
///
/// Fails if the text is not a move, or not a legal one.
pub fn parse(board: &Board, text: &str) -> Result<Move, UciMoveError> {
    // cozy_chess ignores what follows the squares, and treats an invalid promotion as none.
    let ends = matches!(text.as_bytes(), [_, _, _, _] | [_, _, _, _, b'n' | b'b' | b'r' | b'q']);
    let mv = text.parse::<Move>().ok().filter(|_| ends).ok_or_else(|| UciMoveError::Syntax(clip(text)))?;
    legal(board, mv).ok_or_else(|| UciMoveError::Illegal(clip(text)))
}

/// The legal move for two squares, with castling written either way.
pub(crate) fn legal(board: &Board, mv: Move) -> Option<Move> {
    if board.is_legal(mv) {
        return Some(mv);
    }
    castling_by_king_move(board, mv).filter(|&castling| board.is_legal(castling))
}

/// The castling move for a king that moves two squares from the e-file.
fn castling_by_king_move(board: &Board, mv: Move) -> Option<Move> {
    let us = board.side_to_move();
    let aside = mv.from.rank() == mv.to.rank() && mv.promotion.is_none();
    if mv.from != board.king(us) || mv.from.file() != File::E || !aside {
        return None;
    }
    let rights = board.castle_rights(us);
    let rook = match mv.to.file() {
        File::G => rights.short?,
        File::C => rights.long?,
        _ => return None,
    };
    Some(Move { from: mv.from, to: Square::new(rook, mv.from.rank()), promotion: None })
}

/// Formats a legal move of `board`. Castling is the king's own move, or, with `chess960`, the king taking the
/// rook.
pub fn format(board: &Board, mv: Move, chess960: bool) -> String {
    if !chess960 && board.colors(board.side_to_move()).has(mv.to) && board.pieces(Piece::King).has(mv.from) {
        let [king, _] = castling_targets(mv);
        return Move { to: king, ..mv }.to_string();
    }
    mv.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn castling_is_read_both_ways_and_written_as_asked() {
        let board: Board = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1".parse().unwrap();
        for (king_move, king_takes_rook) in [("e1g1", "e1h1"), ("e1c1", "e1a1")] {
            let mv = parse(&board, king_move).unwrap();
            assert_eq!(mv, parse(&board, king_takes_rook).unwrap());
            assert_eq!(format(&board, mv, false), king_move);
            assert_eq!(format(&board, mv, true), king_takes_rook);
        }
    }

    #[test]
    fn a_king_that_only_walks_does_not_castle() {
        let board: Board = "4k3/8/8/8/8/8/8/4K2R w - - 0 1".parse().unwrap();
        assert_eq!(parse(&board, "e1g1"), Err(UciMoveError::Illegal("e1g1".into())));
        assert!(parse(&board, "e1f1").is_ok());
    }

    #[test]
    fn nonsense_is_named() {
        let board = Board::default();
        assert!(matches!(parse(&board, "castle"), Err(UciMoveError::Syntax(_))));
        assert!(matches!(parse(&board, "e2e5"), Err(UciMoveError::Illegal(_))));
        assert!(matches!(parse(&board, "ß2e4"), Err(UciMoveError::Syntax(_))));
        for text in ["e2e4k", "e2e4p", "e2e4é", "e2e4 ", "e2e4e5", "e7e8queen"] {
            assert_eq!(parse(&board, text), Err(UciMoveError::Syntax(text.into())));
        }
        assert!(matches!(parse(&board, "e2e4q"), Err(UciMoveError::Illegal(_))));
        let castling: Board = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1".parse().unwrap();
        assert_eq!(parse(&castling, "e1g1q"), Err(UciMoveError::Illegal("e1g1q".into())));
    }
}
