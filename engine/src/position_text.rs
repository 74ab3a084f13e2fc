//! Parsing of the words after `position`.

use tandem_chess::fen::FenError;
use tandem_chess::{Position, uci};

/// A position that was sent.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) position: Position,
    /// Letters of the castling rights that were left out, because king or rook is not in place for them.
    pub(crate) dropped_rights: String,
}

/// Parses the words after `position`. Impossible castling rights are left out, because some GUIs and databases
/// keep them after the rook has gone.
///
/// # Errors
/// If they are neither `startpos` nor a valid FEN, or a move is illegal; the text names the move.
pub(crate) fn parse(arguments: &str) -> Result<Parsed, String> {
    let (setup, moves) = match arguments.split_once("moves") {
        Some((setup, moves)) => (setup.trim(), moves),
        None => (arguments, ""),
    };
    let mut parsed = match setup.split_once(|c: char| c.is_ascii_whitespace()) {
        _ if setup == "startpos" => Parsed { position: Position::startpos(), dropped_rights: String::new() },
        Some(("fen", text)) => parse_fen(text).map_err(|error| format!("position: {error}"))?,
        _ => return Err("usage: position startpos | fen <fen> [moves <move>...]".into()),
    };
    for (index, text) in moves.split_ascii_whitespace().enumerate() {
        let mv = uci::parse(parsed.position.board(), text)
            .map_err(|error| format!("position: move {}: {error}", index + 1))?;
        parsed.position.play(mv);
    }
    Ok(parsed)
}

fn parse_fen(text: &str) -> Result<Parsed, FenError> {
    let mut fields: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
    let mut dropped_rights = String::new();
    loop {
        match Position::from_fen(&fields.join(" ")) {
            Ok(position) => return Ok(Parsed { position, dropped_rights }),
            Err(FenError::Castling(letter @ ('K' | 'Q' | 'k' | 'q' | 'A'..='H' | 'a'..='h'))) => {
                let rights = &mut fields[2];
                rights.retain(|other| other != letter);
                if rights.is_empty() {
                    rights.push('-');
                }
                dropped_rights.push(letter);
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn castling_rights_without_king_or_rook_are_dropped() {
        for (fen, dropped, read_as) in [
            ("4k3/8/8/8/8/8/8/4K2R w KQkq - 3 9", "Qkq", "4k3/8/8/8/8/8/8/4K2R w K - 3 9"),
            ("4k3/8/8/8/8/8/8/4K3 w KQkq -", "KQkq", "4k3/8/8/8/8/8/8/4K3 w - - 0 1"),
            ("1k6/8/8/8/8/8/8/R3K2R b HAha - 0 1", "ha", "1k6/8/8/8/8/8/8/R3K2R b KQ - 0 1"),
            ("4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1", "", "4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1"),
            ("4k3/8/8/8/8/8/8/RR2K3 w BA - 0 1", "A", "4k3/8/8/8/8/8/8/RR2K3 w B - 0 1"),
        ] {
            let parsed = parse(&format!("fen {fen}")).unwrap();
            assert_eq!((&*parsed.dropped_rights, &*parsed.position.fen()), (dropped, read_as), "{fen}");
        }
        for refused in ["4k3/8/8/8/8/8/8/4K2R w KX - 0 1", "4k3/8/8/8/8/8/8/4K2R w K-- - 0 1"] {
            assert!(parse(&format!("fen {refused}")).is_err(), "{refused}");
        }
    }
}
