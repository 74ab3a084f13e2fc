//! What the real Stockfish says of a network that we wrote.

use super::TemporaryFile;
use crate::error::LabError;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use tandem_chess::{Color, Position};
use tandem_nnue::Network;

/// The generation whose `eval` we know how to read: it prints pawns of 361 units.
const GENERATION: &str = "Stockfish 15.1";
const PAWN: f64 = 361.0;

/// Asks the program for the value of each position by the network, and compares it with ours to the precision that it
/// prints. Returns how many were compared.
pub(super) fn compare(program: &Path, network: &Network, positions: &[Position]) -> Result<usize, LabError> {
    let bytes = network.to_stockfish()?;
    let file = TemporaryFile::new("nnue", &bytes)?;
    // In check, its command has nothing to say.
    let positions: Vec<&Position> =
        positions.iter().filter(|position| position.board().checkers().is_empty()).collect();
    let mut lines = format!("setoption name EvalFile value {}\n", file.0.display());
    for position in &positions {
        lines += &format!("position fen {}\neval\n", position.fen());
    }
    let answer = talk(program, lines + "quit\n").map_err(LabError::file(program))?;
    if !answer.starts_with(GENERATION) {
        let first = answer.lines().next().unwrap_or_default();
        return Err(LabError::Usage(format!("{}: {first:?} is not {GENERATION}", program.display())));
    }
    let theirs: Vec<&str> = answer
        .lines()
        .filter_map(|line| line.strip_prefix("NNUE evaluation")?.split_whitespace().next())
        .collect();
    if theirs.len() != positions.len() {
        let last = answer.lines().rev().find(|line| !line.is_empty()).unwrap_or_default();
        let (found, asked) = (theirs.len(), positions.len());
        return Err(LabError::Usage(format!(
            "{GENERATION} answered {found} of {asked} times; at last: {last}"
        )));
    }
    for (position, theirs) in positions.iter().zip(theirs) {
        let value = network.evaluate(position.board()).value();
        let white = if position.side_to_move() == Color::White { value } else { -value };
        let ours = format!("{:+.2}", f64::from(white) / PAWN);
        if !says_the_same(&ours, theirs) {
            let fen = position.fen();
            return Err(LabError::Usage(format!("{GENERATION} says {theirs} of {fen}, we say {ours}")));
        }
    }
    Ok(positions.len())
}

/// Whether two values are one, as they are written. Nothing has either sign.
fn says_the_same(ours: &str, theirs: &str) -> bool {
    let size = |told: &str| told.trim_start_matches(['+', '-']).to_owned();
    ours == theirs || size(ours) == "0.00" && size(theirs) == "0.00"
}

fn talk(program: &Path, lines: String) -> std::io::Result<String> {
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let stdin = child.stdin.take();
    // Written while the answers are read, lest both wait for each other.
    let writer = std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(lines.as_bytes())));
    let output = child.wait_with_output()?;
    let _ = writer.join();
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_either_sign_and_ten_is_not_nothing() {
        assert!(says_the_same("+0.00", "-0.00") && says_the_same("-1.25", "-1.25"));
        assert!(!says_the_same("+0.00", "+10.00") && !says_the_same("+1.25", "-1.25"));
    }
}
