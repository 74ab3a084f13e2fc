//! The Tandem chess engine: UCI around `tandem-search`. The program is [`run`]; the library exists so that the
//! protocol can be tested and fuzzed.

mod bench;
mod board_text;
mod eval_text;
mod genfens;
mod go;
mod help;
mod options;
mod output;
mod perft;
mod position_text;
mod positions;
mod reader;
mod searchless;
mod second_mind;
mod speaker;
mod uci;

pub use uci::{Next, Uci};

use std::process::ExitCode;

/// Runs the engine: on standard input without arguments, else on the commands that the arguments hold.
pub fn run(arguments: &[String]) -> ExitCode {
    match arguments.first().map(String::as_str) {
        None => Uci::new().run(std::io::BufReader::new(std::io::stdin())),
        // Arguments with spaces are whole lines, as OpenBench sends them: "genfens 8 seed 1 book None" "quit".
        Some(first) if first.contains(' ') => Uci::new().run_lines(arguments),
        Some(_) => Uci::new().run_lines(&[arguments.join(" ")]),
    }
}
