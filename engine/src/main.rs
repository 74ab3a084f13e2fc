//! The Tandem chess engine. Without arguments it speaks UCI on standard input and output.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    let arguments: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    tandem::run(&arguments)
}
