//! Comparison with Stockfish itself, which loads a network that we wrote.

use super::TemporaryFile;
use crate::error::LabError;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use tandem_chess::{Color, Position};
use tandem_nnue::Network;

/// The version whose `eval` output can be parsed: it prints pawns of 361 units.
const VERSION: &str = "Stockfish 15.1";
const PAWN: f64 = 361.0;

/// Lets the program evaluate each position with the network, and compares with our evaluation to the
/// precision that it prints. Returns the number of positions compared.
///
/// # Errors
///
/// When the program cannot be run, is another version, fails, or evaluates a position differently.
pub(super) fn compare(program: &Path, network: &Network, positions: &[Position]) -> Result<usize, LabError> {
    let bytes = network.to_stockfish()?;
    let file = TemporaryFile::new("nnue", &bytes)?;
    // In check, its `eval` command prints no value.
    let positions: Vec<&Position> =
        positions.iter().filter(|position| position.board().checkers().is_empty()).collect();
    let mut lines = format!("setoption name EvalFile value {}\n", file.0.display());
    for position in &positions {
        lines += &format!("position fen {}\neval\n", position.fen());
    }
    let answer = talk(program, lines + "quit\n").map_err(LabError::file(program))?;
    if !answer.starts_with(VERSION) {
        let first = answer.lines().next().unwrap_or_default();
        return Err(LabError::Usage(format!("{}: {first:?} is not {VERSION}", program.display())));
    }
    let theirs: Vec<&str> = answer
        .lines()
        .filter_map(|line| line.strip_prefix("NNUE evaluation")?.split_whitespace().next())
        .collect();
    if theirs.len() != positions.len() {
        let last = answer.lines().rev().find(|line| !line.is_empty()).unwrap_or_default();
        let (found, asked) = (theirs.len(), positions.len());
        return Err(LabError::Usage(format!(
            "{VERSION} answered {found} of {asked} times; last line: {last}"
        )));
    }
    for (position, theirs) in positions.iter().zip(theirs) {
        let value = network.evaluate(position.board()).value();
        let white = if position.side_to_move() == Color::White { value } else { -value };
        let ours = format!("{:+.2}", f64::from(white) / PAWN);
        if !is_equal_as_printed(&ours, theirs) {
            let fen = position.fen();
            return Err(LabError::Usage(format!("{VERSION} evaluates {fen} as {theirs}, Tandem as {ours}")));
        }
    }
    Ok(positions.len())
}

/// True if two values are equal as printed; zero may have either sign.
fn is_equal_as_printed(ours: &str, theirs: &str) -> bool {
    let size = |text: &str| text.trim_start_matches(['+', '-']).to_owned();
    ours == theirs || size(ours) == "0.00" && size(theirs) == "0.00"
}

fn talk(program: &Path, lines: String) -> std::io::Result<String> {
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let stdin = child.stdin.take();
    // Written while the output is read, because otherwise both processes could wait for each other.
    let writer = std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(lines.as_bytes())));
    let output = child.wait_with_output()?;
    let _ = writer.join();
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_has_either_sign_and_ten_is_not_zero() {
        assert!(is_equal_as_printed("+0.00", "-0.00") && is_equal_as_printed("-1.25", "-1.25"));
        assert!(!is_equal_as_printed("+0.00", "+10.00") && !is_equal_as_printed("+1.25", "-1.25"));
    }
}
