//! Parsing of the words after `position`.

use tandem_chess::{Position, uci};

/// Parses the words after `position`.
///
/// # Errors
/// If they are neither `startpos` nor a valid FEN, or a move is illegal; the text names the move.
pub(crate) fn parse(arguments: &str) -> Result<Position, String> {
    let (setup, moves) = match arguments.split_once("moves") {
        Some((setup, moves)) => (setup.trim(), moves),
        None => (arguments, ""),
    };
    let mut position = match setup.split_once(|c: char| c.is_ascii_whitespace()) {
        _ if setup == "startpos" => Position::startpos(),
        Some(("fen", text)) => Position::from_fen(text).map_err(|error| format!("position: {error}"))?,
        _ => return Err("usage: position startpos | fen <fen> [moves <move>...]".into()),
    };
    for (index, text) in moves.split_ascii_whitespace().enumerate() {
        let mv = uci::parse(position.board(), text)
            .map_err(|error| format!("position: move {}: {error}; the old position stays", index + 1))?;
        position.play(mv);
    }
    Ok(position)
}
