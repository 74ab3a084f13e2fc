//! Handling of Ctrl-C and SIGTERM: the first asks long work to stop cleanly, the second ends the program at
//! once.

use std::sync::{Arc, atomic::AtomicBool};

/// Exit status of an interrupted command, by the convention of shells: 128 plus the number of SIGINT.
pub(crate) const STATUS: u8 = 130;

/// Installs the signal handlers and returns a flag that the first SIGINT or SIGTERM sets. Long work polls it.
pub(crate) fn flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The order matters: the shutdown must find the flag set by an earlier signal, not by this one. If
        // the system refuses a handler, the usual behaviour remains, which is to end at once.
        let _ = signal_hook::flag::register_conditional_shutdown(signal, STATUS.into(), Arc::clone(&flag));
        let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
    }
    flag
}
