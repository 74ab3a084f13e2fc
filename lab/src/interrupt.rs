//! Ctrl-C: the first asks long work to stop cleanly, the second stops at once.

use std::sync::{Arc, atomic::AtomicBool};

/// What a command that was interrupted tells the shell, as shells do: 128 and the number of SIGINT.
pub(crate) const STATUS: u8 = 130;

/// A flag that the first SIGINT or SIGTERM sets.
pub(crate) fn flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The order matters: the shutdown must find the flag already set by an earlier signal, not by this one.
        // A system that refuses leaves us with the usual behaviour, which is to end at once.
        let _ = signal_hook::flag::register_conditional_shutdown(signal, STATUS.into(), Arc::clone(&flag));
        let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
    }
    flag
}
