//! Printing that a closed pipe cannot turn into a panic: a match goes on though nobody reads its lines any more. What a full disk
//! swallows is another matter, and is told at the end.

use std::io::{Error, ErrorKind, Result, Write, stdout};
use std::sync::OnceLock;

/// The first line that was lost, but for those that nobody wanted to read.
static LOST: OnceLock<Error> = OnceLock::new();

/// Like `print!`.
macro_rules! say {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        $crate::say::note(write!(std::io::stdout(), $($arg)*));
    }};
}

/// Like `println!`.
macro_rules! sayln {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        $crate::say::note(writeln!(std::io::stdout(), $($arg)*));
    }};
}

/// Like `eprint!`. What nobody reads there is lost, and nothing else.
macro_rules! tell {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), $($arg)*);
    }};
}

/// Like `eprintln!`, likewise.
macro_rules! tellln {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($arg)*);
    }};
}

/// Keeps what went wrong in printing.
pub(crate) fn note(outcome: Result<()>) {
    if let Err(error) = outcome
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error);
    }
}

/// Why something that was printed did not arrive, once all of it is printed.
pub(crate) fn lost() -> Option<&'static Error> {
    note(stdout().flush());
    LOST.get()
}
