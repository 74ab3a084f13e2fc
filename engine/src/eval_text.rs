//! Output of the command `eval`: the static evaluation, and the value of each piece, on a board.

use crate::board_text::letter;
use std::fmt::Write;
use tandem_chess::{Board, BoardBuilder, CastleRights, Color, File, Piece, Position, Rank, Square};
use tandem_nets::EvaluatorChoice;
use tandem_search::{Centipawns, Score, Wdl};

/// The board with the value of each piece to White, then the evaluation from White's side. `value` evaluates
/// a position for its side to move.
pub(crate) fn describe(
    evaluator: &EvaluatorChoice,
    position: &Position,
    mut value: impl FnMut(&Position) -> Centipawns,
) -> String {
    let mut for_white = |position: &Position| {
        let Centipawns(value) = value(position);
        if position.side_to_move() == Color::White { value } else { -value }
    };
    let whole = for_white(position);
    let mut text = String::from("Each piece with its value to White: the change if it is removed.\n\n");
    let line = format!("  +{}\n", "-------+".repeat(8));
    text += &line;
    for rank in Rank::ALL.into_iter().rev() {
        let (mut pieces, mut values) = (String::new(), String::new());
        for file in File::ALL {
            let square = Square::new(file, rank);
            let board = position.board();
            let (mark, worth) = match (board.piece_on(square), board.color_on(square)) {
                (Some(piece), Some(color)) => {
                    let worth = without(board, square).map(|less| whole - for_white(&less));
                    (letter(piece, color), worth)
                }
                _ => (' ', None),
            };
            let worth = worth.map_or(String::new(), |worth| format!("{:+.2}", f64::from(worth) / 100.0));
            let _ = write!(pieces, "   {mark}   |");
            let _ = write!(values, "{worth:^7}|");
        }
        let _ = write!(text, "{} |{pieces}\n  |{values}\n{line}", rank as usize + 1);
    }
    text += "      a       b       c       d       e       f       g       h\n\n";
    let _ = writeln!(text, "Evaluated by {}", evaluator.describe());
    if let EvaluatorChoice::Network(network) = evaluator {
        let evaluation = network.evaluate(position.board());
        let _ = writeln!(
            text,
            "For the side to move, in the network's units: {} (piece squares {}, positional {}, bucket {})",
            evaluation.value(),
            evaluation.psqt(),
            evaluation.positional(),
            evaluation.bucket()
        );
    }
    let own = if position.side_to_move() == Color::White { whole } else { -whole };
    let wdl = Wdl::from_score(Score::Centipawns(Centipawns(own)));
    let _ = writeln!(text, "Evaluation: {:+.2} (White's side)", f64::from(whole) / 100.0);
    let _ = write!(
        text,
        "For the side to move: win {} draw {} loss {} of 1000, as in this engine's own games at this evaluation",
        wdl.win, wdl.draw, wdl.loss
    );
    text
}

/// The position without a piece; `None` for kings and where the rest is not a legal position.
fn without(board: &Board, square: Square) -> Option<Position> {
    if board.piece_on(square) == Some(Piece::King) {
        return None;
    }
    let mut builder = BoardBuilder::from_board(board);
    *builder.square_mut(square) = None;
    // Rights that need the piece are removed with it; the evaluation does not read them.
    builder.castle_rights = [CastleRights::EMPTY; 2];
    builder.en_passant = None;
    builder.build().ok().map(Position::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_but_the_kings_has_a_value() {
        let position = Position::from_fen("4k3/8/8/3q4/8/8/8/R3K3 b - - 0 1").unwrap();
        let count = |position: &Position| {
            let worth = |color: Color| {
                let board = position.board();
                900 * board.colored_pieces(color, Piece::Queen).len() as i32
                    + 500 * board.colored_pieces(color, Piece::Rook).len() as i32
            };
            Centipawns(worth(Color::Black) - worth(Color::White))
        };
        let text = describe(&EvaluatorChoice::Bootstrap, &position, count);
        assert!(text.contains("-9.00"), "{text}");
        assert!(text.contains("+5.00"), "{text}");
        assert!(text.contains("Evaluation: -4.00"), "{text}");
    }
}
