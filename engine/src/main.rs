//! The Tandem chess engine. Without arguments it speaks UCI on standard input and output.

mod bench;
mod board_text;
mod genfens;
mod go;
mod help;
mod options;
mod output;
mod positions;
mod uci;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        None => uci::Uci::new().run(std::io::BufReader::new(std::io::stdin())),
        // Arguments with spaces are whole lines, as OpenBench sends them: "genfens 8 seed 1 book None" "quit".
        Some(first) if first.contains(' ') => uci::Uci::new().run_lines(&arguments),
        Some(_) => uci::Uci::new().run_lines(&[arguments.join(" ")]),
    }
}
