//! Refusal of requests for which there is not enough memory. An allocation that fails aborts the program, so large ones
//! are preceded by a look at the memory that is left.

use thiserror::Error;

/// Memory in bytes that must be left for everything else, for example lines and messages during a search.
const RESERVE: usize = 64 << 20;

/// Something needs more memory than there is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{what} would need about {mib} MiB of memory{address_space}, which this machine or a limit does not allow"
)]
pub struct NoRoom {
    what: String,
    mib: usize,
    address_space: String,
}

/// Checks that there is memory for `bytes` more, and address space for `reserved` more bytes that may never be used,
/// such as stacks. `what` begins the message.
///
/// # Errors
/// If there is not.
pub fn ensure_room(what: impl Into<String>, bytes: usize, reserved: usize) -> Result<(), NoRoom> {
    let needed = bytes.saturating_add(RESERVE);
    if tandem_memory::has_room(needed.saturating_add(reserved), needed) {
        return Ok(());
    }
    let address_space = match reserved >> 20 {
        0 => String::new(),
        mib => format!(" and {mib} MiB of address space for stacks"),
    };
    Err(NoRoom { what: what.into(), mib: bytes >> 20, address_space })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_fit_is_refused_by_name() {
        assert_eq!(ensure_room("a board", 1000, 0), Ok(()));
        let error = ensure_room("2 threads", 1 << 60, 64 << 20).unwrap_err().to_string();
        assert!(
            error.starts_with("2 threads would need about 1099511627776 MiB of memory and 64 MiB"),
            "{error}"
        );
    }
}
