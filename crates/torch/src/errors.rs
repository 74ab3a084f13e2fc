//! Errors and panics of libtorch as [`TrainError`].

use crate::device::Compute;
use crate::shim::TorchError;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use tandem_train::TrainError;

thread_local! {
    /// True while a panic of this thread will be returned as an error and must not be printed.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// The message of libtorch within a panic of tch, without the C++ location and the details of the allocator.
pub(crate) fn error_summary(panic: &str) -> &str {
    let message = panic
        .split_once("Torch(\"")
        .map_or(panic, |(_, message)| message.strip_suffix("\")").unwrap_or(message));
    // The debug format of the panic escapes line ends.
    let message = ["\\n", "\n"]
        .iter()
        .fold(message, |message, end| message.split_once(end).map_or(message, |(first, _)| first));
    let free = " is free";
    message.find(free).map_or(message, |at| &message[..at + free.len()])
}

/// Runs libtorch calls and returns their errors and panics as [`TrainError`], because tch panics where
/// libtorch throws.
pub(crate) fn catch_torch<T>(
    compute: &Compute,
    body: impl FnOnce() -> Result<T, TorchError>,
) -> Result<T, TrainError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !CATCHING.get() {
                default_hook(panic);
            }
        }));
    });
    CATCHING.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(body));
    CATCHING.set(false);
    let message = match outcome {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => error_summary(text).to_owned(),
            (None, Some(text)) => (*text).to_owned(),
            (None, None) => "libtorch panicked without a message".to_owned(),
        },
    };
    Err(TrainError(format!("{}: {message}", compute.name())))
}
