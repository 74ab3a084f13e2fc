//! Work on several threads that stops on all of them as soon as one fails.

use crate::error::SelfPlayError;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use tandem_search::STACK_SIZE;

/// Runs `work` on `count` threads with the stack size that a search needs, and passes each its index. The
/// first failure cancels the others, whose finished work is already on the disk, and is returned. `path`
/// names the file of the work in errors.
pub(crate) fn on_threads(
    count: usize,
    path: &Path,
    cancel: &AtomicBool,
    work: &(dyn Fn(usize) -> Result<(), SelfPlayError> + Sync),
) -> Result<(), SelfPlayError> {
    let failure = Mutex::new(None);
    let fail = |error: SelfPlayError| {
        cancel.store(true, Relaxed);
        failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    };
    std::thread::scope(|scope| {
        for number in 0..count {
            let fail = &fail;
            let builder = std::thread::Builder::new().stack_size(STACK_SIZE);
            let spawned = builder.spawn_scoped(scope, move || {
                if let Err(error) = work(number) {
                    fail(error);
                }
            });
            if let Err(source) = spawned {
                fail(SelfPlayError::Io { path: path.into(), source });
            }
        }
    });
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
