//! Lines to the outside.

use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Writes one line to standard output. If nobody reads it any more, there is nobody left to play for.
pub(crate) fn say(line: impl Display) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Tells the user something in the one form that every GUI passes on: one line, whatever a file put into the message.
pub(crate) fn complain(message: impl Display) {
    let message = message.to_string();
    say(format_args!("info string {}", message.trim_end().replace(char::is_control, " ")));
}

/// Whether a command failed, for those who only read how the program ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<AtomicBool>);

impl Faults {
    /// Tells the user why a command failed.
    pub(crate) fn tell(&self, why: impl Display) {
        complain(why);
        self.0.store(true, Relaxed);
    }

    /// Whether any did.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Relaxed)
    }
}
