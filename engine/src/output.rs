//! Lines to the outside.

use std::fmt::Display;
use std::io::Write;

/// Writes one line to standard output. If nobody reads it any more, there is nobody left to play for.
pub(crate) fn say(line: impl Display) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Tells the user something in the one form that every GUI passes on.
pub(crate) fn complain(message: impl Display) {
    say(format_args!("info string {message}"));
}
