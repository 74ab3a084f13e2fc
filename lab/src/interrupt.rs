//! Handling of signals. The first Ctrl-C or SIGTERM asks long work to stop cleanly, the second ends the program at
//! once. A write beyond the limit of `ulimit -f` is an error like a full disk.

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

/// Lets writes beyond the shell's limit of the file size (`ulimit -f`) fail with an error. By default, SIGXFSZ would
/// end the program without a message and without removing its temporary files.
pub(crate) fn report_file_size_limit() {
    // The flag is not needed: a handler that returns makes the write fail.
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::signal::SIGXFSZ, Arc::default());
}
