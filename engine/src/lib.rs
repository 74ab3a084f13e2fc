//! The Tandem chess engine: the UCI protocol around `tandem-search`.
//!
//! The program calls [`run`]. The library exists so that the protocol can be tested and fuzzed without a
//! process; to search from Rust, use `tandem-search` instead.
//!
//! ```
//! use tandem::{Next, Uci};
//!
//! let mut engine = Uci::new();
//! assert_eq!(engine.execute("position startpos moves e2e4"), Next::Line);
//! assert_eq!(engine.execute("go depth 2"), Next::Line);
//! engine.finish_work();
//! assert_eq!(engine.execute("quit"), Next::Quit);
//! ```

mod bench;
mod board_text;
mod command_queue;
mod eval_text;
mod genfens;
mod go;
mod help;
#[cfg(feature = "strategist")]
mod hybrid_options;
mod input;
mod old_options;
mod options;
mod output;
mod perft;
mod position_text;
mod positions;
mod searcher_thread;
#[cfg(feature = "strategist")]
mod searchless;
#[cfg_attr(not(feature = "strategist"), path = "no_strategist.rs")]
mod strategist;
mod uci;
mod uci_output;

pub use uci::{Next, Uci};

use std::process::ExitCode;

/// Runs the engine: on standard input without arguments, otherwise on the commands in the arguments. The exit
/// status is 1 if one of those fails.
pub fn run(arguments: &[String]) -> ExitCode {
    match arguments.first().map(String::as_str) {
        None => Uci::new().run(std::io::BufReader::new(std::io::stdin())),
        // Arguments with spaces are whole lines, as OpenBench sends them: "genfens 8 seed 1 book None"
        // "quit".
        Some(first) if first.contains(' ') => Uci::new().run_lines(arguments),
        Some(_) => Uci::new().run_lines(&[arguments.join(" ")]),
    }
}
