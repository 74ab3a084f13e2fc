//! Printing to standard output and standard error without panics.
//!
//! The standard `println!` panics when the pipe is closed. Here a closed pipe is ignored, so that a match
//! goes on after its reader has left; any other error, such as a full disk, is kept and reported when the
//! command ends.

use std::io::{Error, ErrorKind, Result, Write, stdout};
use std::sync::OnceLock;

/// The first error of writing to standard output, other than a closed pipe.
static FIRST_ERROR: OnceLock<Error> = OnceLock::new();

/// Prints to standard output like `print!`, but never panics: the first error is kept for the end of the
/// command.
macro_rules! out {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        $crate::output::keep_error(write!(std::io::stdout(), $($arg)*));
    }};
}

/// Prints a line to standard output like `println!`, but never panics: the first error is kept for the end of
/// the command.
macro_rules! outln {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        $crate::output::keep_error(writeln!(std::io::stdout(), $($arg)*));
    }};
}

/// Prints to standard error like `eprint!`, but never panics: errors are ignored, because there is no other
/// place to report them.
macro_rules! err {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), $($arg)*);
    }};
}

/// Prints a line to standard error like `eprintln!`, but never panics: errors are ignored.
macro_rules! errln {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($arg)*);
    }};
}

/// Keeps the first error of a write to standard output, except that of a closed pipe.
pub(crate) fn keep_error(outcome: Result<()>) {
    if let Err(error) = outcome
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = FIRST_ERROR.set(error);
    }
}

/// Flushes standard output and returns the first error of all writes to it. Call it once, when everything is
/// printed.
pub(crate) fn first_error() -> Option<&'static Error> {
    keep_error(stdout().flush());
    FIRST_ERROR.get()
}
