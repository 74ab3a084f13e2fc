//! Output of the command `d`: the board as text.

use std::fmt::Write;
use tandem_chess::{Color, Piece, Position, Rank, Square};

/// The letter of a piece, upper case for White.
pub(crate) fn letter(piece: Piece, color: Color) -> char {
    let letter = match piece {
        Piece::Pawn => 'p',
        Piece::Knight => 'n',
        Piece::Bishop => 'b',
        Piece::Rook => 'r',
        Piece::Queen => 'q',
        Piece::King => 'k',
    };
    if color == Color::White { letter.to_ascii_uppercase() } else { letter }
}

/// The board with coordinates, then FEN, key and checking pieces.
pub(crate) fn describe(position: &Position) -> String {
    let board = position.board();
    let mut text = String::from(" +---+---+---+---+---+---+---+---+\n");
    for rank in Rank::ALL.into_iter().rev() {
        for file in tandem_chess::File::ALL {
            let square = Square::new(file, rank);
            let mark = match (board.piece_on(square), board.color_on(square)) {
                (Some(piece), Some(color)) => letter(piece, color),
                _ => ' ',
            };
            let _ = write!(text, " | {mark}");
        }
        let _ = writeln!(text, " | {}\n +---+---+---+---+---+---+---+---+", rank as usize + 1);
    }
    text.push_str("   a   b   c   d   e   f   g   h\n\n");
    let _ = writeln!(text, "Fen: {}", position.fen());
    let _ = writeln!(text, "Key: {:016X}", position.key());
    let checkers: Vec<String> = board.checkers().into_iter().map(|square| square.to_string()).collect();
    let _ = write!(text, "Checkers: {}", checkers.join(" "));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_shows_every_piece_where_it_stands() {
        let position = Position::from_fen("4k3/8/8/8/8/8/4q3/4K2R w - - 0 1").unwrap();
        let text = describe(&position);
        assert!(text.contains(" |   |   |   |   | K |   |   | R | 1"));
        assert!(text.contains("Checkers: e2"));
    }
}
