//! Work on several threads, which ends for all of them when one cannot go on.

use crate::error::SelfPlayError;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use tandem_search::STACK_SIZE;

/// Does `work` on so many threads with the stack that a search needs, and hands each its number. The first failure cancels
/// the others, for what they have is safe, and is returned. `path` is what the work is for.
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
