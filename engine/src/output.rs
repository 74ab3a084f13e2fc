//! Output lines, and the record of failed commands.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Writes one line to standard output. Ends the process if that is not possible: with exit status 0 if its reader is
/// gone, because no GUI is left to play for, and 1 otherwise, for example if the disk is full.
pub(crate) fn send(line: impl Display) {
    let mut out = std::io::stdout().lock();
    let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    // Without standard error too, the exit status says enough.
    let _ = writeln!(std::io::stderr(), "tandem: standard output: {error}");
    std::process::exit(1);
}

/// Sends a message as `info string`, the form that every GUI passes on. Control characters become spaces, so
/// that text from a file cannot add lines.
pub(crate) fn info_string(message: impl Display) {
    let message = message.to_string();
    send(format_args!("info string {}", message.trim_end().replace(char::is_control, " ")));
}

/// Records if a command failed, for the exit status.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<AtomicBool>);

impl Faults {
    /// Sends the error of a command, and records that it failed.
    pub(crate) fn report(&self, error: impl Display) {
        info_string(error);
        self.0.store(true, Relaxed);
    }

    /// True if any command failed.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Relaxed)
    }
}
