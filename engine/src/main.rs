//! The Tandem chess engine. Without arguments it speaks UCI on standard input and output.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    tandem::run(&arguments)
}
