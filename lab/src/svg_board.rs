//! A chess board as SVG: squares, pieces and coordinates, with White at the bottom.

use crate::svg::number;
use std::fmt::Write as _;
use tandem_chess::{Board, Color, File, Piece, Rank, Square};

const LIGHT: &str = "#f3efe6";
const DARK: &str = "#ddd5c5";
const INK: &str = "#2a2a2a";

/// The outline of a piece as SVG path data, within a box of 40 by 40.
fn outline(piece: Piece) -> &'static str {
    match piece {
        Piece::Pawn => {
            "M20 7.5a5.6 5.6 0 0 1 3.7 9.8c2.5 1.6 3.9 4.3 3.9 7.2 0 1.8-.5 3.3-1.4 4.5h4.8v5H9v-5h4.8c-.9-1.2-1.4-2.7-1.4-4.5 \
             0-2.9 1.4-5.6 3.9-7.2A5.6 5.6 0 0 1 20 7.5z"
        }
        Piece::Knight => {
            "M12 34v-3.5c0-4.5 3.5-7 6-10.5-2.5 1-4.3.8-5.8 2.3-1.2 1.2-2 2.7-3.7 2.7-1.8 0-3-1.6-3-3.3 0-1.5 1-2.7 1.9-4.2 \
             1.3-2.2 2.3-4.3 3.6-6.2.8-1.2 1.8-2 3-2.8L13.8 4l4.2 2.7C26.5 6.7 31 13 31 21.5V34zM13.8 13.5l1.8-.9M23 11.5c3 2.5 4 6.5 4 11"
        }
        Piece::Bishop => {
            "M20 4.5a2.5 2.5 0 0 1 1.6 4.4c3.7 2.5 6.6 6.4 6.6 10.4 0 2.5-1.2 4.6-2.9 6.1l1.3 3.6H32v5H8v-5h5.4l1.3-3.6c-1.7-1.5-2.9\
             -3.6-2.9-6.1 0-4 2.9-7.9 6.6-10.4A2.5 2.5 0 0 1 20 4.5zM20 13.5v7.5M16.5 17.2h7"
        }
        Piece::Rook => {
            "M9 34v-4.5h2.5V27l2-2v-8.5L10.5 14V7.5h4.3v2.7h3v-2.7h4.4v2.7h3V7.5h4.3V14l-3 2.5V25l2 2v2.5H31V34zM13.5 16.5h13M13.5 25h13"
        }
        Piece::Queen => {
            "M7.5 12.5l5.3 7 1.2-9.5 4.1 8.5L20 8l1.9 10.5L26 10l1.2 9.5 5.3-7-3 13.5-1 3H30v5H10v-5h1.5l-1-3zM11.5 29h17M5.6 11a1.9 1.9 0 1 0 \
             3.8 0 1.9 1.9 0 1 0-3.8 0zM12.1 8.4a1.9 1.9 0 1 0 3.8 0 1.9 1.9 0 1 0-3.8 0zM18.1 6.5a1.9 1.9 0 1 0 3.8 0 1.9 1.9 0 1 0-3.8 \
             0zM24.1 8.4a1.9 1.9 0 1 0 3.8 0 1.9 1.9 0 1 0-3.8 0zM30.6 11a1.9 1.9 0 1 0 3.8 0 1.9 1.9 0 1 0-3.8 0z"
        }
        Piece::King => {
            "M18.4 3.5h3.2v2.8h2.8v3.2h-2.8v3.6c1.2-.9 2.8-1.4 4.6-1.4 4.2 0 6.8 2.8 6.8 6.3 0 4-3 6.6-5.5 9v2H29v5H11v-5h1.5v-2C10 24.6 7 22 7 18c0-3.5 \
             2.6-6.3 6.8-6.3 1.8 0 3.4.5 4.6 1.4V9.5h-2.8V6.3h2.8zM20 26.5V17.5M12.5 29h15"
        }
    }
}

/// Column and row of a square in the drawing, from 0 to 7, counted from the top left corner (a8).
pub(crate) fn grid_position(square: Square) -> (usize, usize) {
    (square.file() as usize, 7 - square.rank() as usize)
}

/// Definitions that all boards of a picture reuse: `#board`, the empty board, and `#pieces`, the position,
/// both of size 8 by 8.
pub(crate) fn definitions(board: &Board) -> String {
    let dark: String = Square::ALL
        .into_iter()
        .filter(|square| (square.file() as usize + square.rank() as usize).is_multiple_of(2))
        .map(|square| {
            let (across, down) = grid_position(square);
            format!("M{across} {down}h1v1h-1z")
        })
        .collect();
    let mut text = format!(
        "<defs>\n<g id=\"board\"><rect width=\"8\" height=\"8\" fill=\"{LIGHT}\"/><path d=\"{dark}\" fill=\"{DARK}\"/></g>\n"
    );
    for piece in Piece::ALL {
        let _ = writeln!(text, "<path id=\"{piece}\" d=\"{}\"/>", outline(piece));
    }
    text +=
        "<g id=\"pieces\" transform=\"scale(.025)\" stroke-linejoin=\"round\" stroke-linecap=\"round\">\n";
    for color in Color::ALL {
        // White pieces have a dark edge and black ones a light edge, so that both are visible on any
        // background.
        let (fill, edge, width) = match color {
            Color::White => ("#fff", INK, 1.6),
            Color::Black => (INK, "#fff", 1.2),
        };
        let _ = write!(text, "<g fill=\"{fill}\" stroke=\"{edge}\" stroke-width=\"{width}\">");
        for piece in Piece::ALL {
            for square in board.colored_pieces(color, piece) {
                let (across, down) = grid_position(square);
                let _ = write!(
                    text,
                    "<use href=\"#{piece}\" transform=\"translate({} {})\"/>",
                    40 * across,
                    40 * down
                );
            }
        }
        text += "</g>\n";
    }
    text + "</g>\n</defs>\n"
}

/// The letters of the files below a board and the digits of the ranks to its left. `left`, `top` and `width`
/// are those of the board.
pub(crate) fn coordinates(left: f64, top: f64, width: f64) -> String {
    let step = width / 8.0;
    let size = (step * 0.3).clamp(6.0, 13.0);
    let mut text = format!("<g font-size=\"{}\" fill=\"#666\" text-anchor=\"middle\">", number(size));
    for (index, (file, rank)) in File::ALL.into_iter().zip(Rank::ALL).enumerate() {
        let middle = (index as f64 + 0.5) * step;
        let (below, beside) = (top + width + size * 1.15, left - size * 0.7);
        let _ = write!(text, "<text x=\"{}\" y=\"{}\">{file}</text>", number(left + middle), number(below));
        let down = top + width - middle + size * 0.35;
        let _ = write!(text, "<text x=\"{}\" y=\"{}\">{rank}</text>", number(beside), number(down));
    }
    text + "</g>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_drawn_on_its_square() {
        let text = definitions(&Board::default());
        assert_eq!(text.matches("<use href=\"#p\"").count(), 16);
        let [white, black] =
            [text.find("fill=\"#fff\"").unwrap(), text.rfind(&format!("fill=\"{INK}\"")).unwrap()];
        let king = "<use href=\"#k\" transform=\"translate(160 280)\"/>";
        assert!((white..black).contains(&text.find(king).unwrap()), "White's king is on e1");
        assert!(text[black..].contains("<use href=\"#k\" transform=\"translate(160 0)\"/>"));
        assert_eq!(grid_position(Square::A8), (0, 0));
        assert_eq!(coordinates(0.0, 0.0, 80.0).matches("<text").count(), 16);
    }
}
