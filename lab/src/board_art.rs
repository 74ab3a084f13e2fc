//! A chess board drawn with characters, for `tandem-lab play`.

use tandem_chess::{Board, Color, File, Move, Piece, Rank, Square};

/// The style in which the board is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Style {
    /// Coloured squares, for terminals that support 256 colours
    Colour,
    /// Unicode chess figurines within a frame, without colours
    Unicode,
    /// ASCII letters only: upper case for White's pieces, lower case for Black's
    Ascii,
}

/// Draws a board as seen by `side`, with the squares of the last move marked.
pub(crate) fn draw(board: &Board, style: Style, side: Color, last: Option<Move>) -> String {
    let ranks: Vec<Rank> = match side {
        Color::White => Rank::ALL.into_iter().rev().collect(),
        Color::Black => Rank::ALL.into(),
    };
    let files: Vec<File> = match side {
        Color::White => File::ALL.into(),
        Color::Black => File::ALL.into_iter().rev().collect(),
    };
    let mut text = String::new();
    if style == Style::Unicode {
        text += "  ┌─────────────────┐\n";
    }
    for &rank in &ranks {
        text += &format!("{} ", rank as usize + 1);
        text += match style {
            Style::Unicode => "│ ",
            _ => "",
        };
        for &file in &files {
            let square = Square::new(file, rank);
            let piece = board.piece_on(square).zip(board.color_on(square));
            let marked = last.is_some_and(|mv| mv.from == square || mv.to == square);
            text += &cell(piece, square, style, marked);
        }
        text += if style == Style::Unicode { "│\n" } else { "\n" };
    }
    if style == Style::Unicode {
        text += "  └─────────────────┘\n";
    }
    let letters: Vec<String> = files.iter().map(ToString::to_string).collect();
    text += &match style {
        Style::Colour => format!("   {}\n", letters.join("  ")),
        Style::Unicode => format!("    {}\n", letters.join(" ")),
        Style::Ascii => format!("   {}\n", letters.join("  ")),
    };
    text
}

fn cell(piece: Option<(Piece, Color)>, square: Square, style: Style, marked: bool) -> String {
    let is_dark = (square.file() as usize + square.rank() as usize).is_multiple_of(2);
    match style {
        Style::Colour => {
            // Browns for the board, greens for the squares of the last move.
            let background = match (marked, is_dark) {
                (false, false) => 180,
                (false, true) => 137,
                (true, false) => 150,
                (true, true) => 107,
            };
            // Filled figurines for both sides, because outlines vanish on a coloured background.
            let (glyph, ink) = piece.map_or((' ', 16), |(piece, color)| {
                (figurine(piece, Color::Black), if color == Color::White { 231 } else { 16 })
            });
            format!("\x1b[48;5;{background}m\x1b[38;5;{ink}m {glyph} \x1b[0m")
        }
        Style::Unicode => {
            let glyph = match piece {
                Some((piece, color)) => figurine(piece, color),
                None if is_dark => '·',
                None => ' ',
            };
            format!("{glyph}{}", if marked { '*' } else { ' ' })
        }
        Style::Ascii => {
            let letter = match piece {
                Some((piece, Color::White)) => char::from(piece).to_ascii_uppercase(),
                Some((piece, Color::Black)) => char::from(piece),
                None => '.',
            };
            if marked { format!("[{letter}]") } else { format!(" {letter} ") }
        }
    }
}

fn figurine(piece: Piece, color: Color) -> char {
    let (white, black) = match piece {
        Piece::King => ('♔', '♚'),
        Piece::Queen => ('♕', '♛'),
        Piece::Rook => ('♖', '♜'),
        Piece::Bishop => ('♗', '♝'),
        Piece::Knight => ('♘', '♞'),
        Piece::Pawn => ('♙', '♟'),
    };
    if color == Color::White { white } else { black }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_show_the_board_from_either_side() {
        let mut board = Board::default();
        let e4 = "e2e4".parse().unwrap();
        board.play(e4);
        let white = draw(&board, Style::Ascii, Color::White, Some(e4));
        assert!(white.starts_with("8  r  n  b  q  k  b  n  r \n"), "{white}");
        assert!(white.contains("4  .  .  .  . [P] .  .  . \n"), "{white}");
        assert!(white.ends_with("   a  b  c  d  e  f  g  h\n"), "{white}");
        let black = draw(&board, Style::Ascii, Color::Black, None);
        assert!(black.starts_with("1  R  N  B  K  Q  B  N  R \n"), "{black}");
    }

    #[test]
    fn figurines_have_a_frame_with_lines_of_equal_length() {
        let board = draw(&Board::default(), Style::Unicode, Color::White, None);
        let widths: Vec<usize> = board.lines().take(10).map(|line| line.chars().count()).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{board}");
        assert!(board.contains("♖ ♘ ♗ ♕ ♔ ♗ ♘ ♖"));
    }
}
