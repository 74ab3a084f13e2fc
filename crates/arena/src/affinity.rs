//! CPU affinity: which processors each game runs on.
//!
//! A thread that is bound to a processor passes the binding on to the engines that it starts. With both
//! engines of a game and the thread between them on the same processors, they never run at the same time, and
//! never disturb another game.

use std::fs::File;

/// Processors of each game slot, reserved against other matches on this machine for the lifetime of the
/// value.
#[derive(Debug)]
pub(crate) struct CpuAssignment {
    slots: Vec<Vec<usize>>,
    _locks: Vec<File>,
}

impl CpuAssignment {
    /// Processors of one slot, or `None` beyond the last slot.
    pub(crate) fn of(&self, slot: usize) -> Option<&[usize]> {
        self.slots.get(slot).map(Vec::as_slice)
    }
}

/// Reserves `threads` processors for each slot, one hyperthread of every core before the second ones. Returns
/// `None` if there are not enough for all slots, or if other matches hold them, because two games bound to
/// one processor would be worse than none bound at all.
pub(crate) fn assign(slots: usize, threads: usize) -> Option<CpuAssignment> {
    let threads = threads.max(1);
    let needed = slots.checked_mul(threads)?;
    let mut locks = Vec::new();
    let mut free = Vec::new();
    for processor in in_order_of_cores(available()?) {
        if free.len() == needed {
            break;
        }
        if let Some(lock) = lock_processor(processor) {
            locks.push(lock);
            free.push(processor);
        }
    }
    let slots = free.chunks(threads).map(<[usize]>::to_vec).collect();
    (free.len() == needed).then_some(CpuAssignment { slots, _locks: locks })
}

/// Locks a file that represents one processor. The operating system releases the lock when this process ends,
/// including by a crash.
fn lock_processor(processor: usize) -> Option<File> {
    let path = std::env::temp_dir().join(format!("tandem-processor-{processor}.lock"));
    // A lock file that another user created can still be locked, but not opened for writing.
    let file = File::options().create(true).append(true).open(&path).or_else(|_| File::open(&path)).ok()?;
    file.try_lock().ok().map(|()| file)
}

/// Sorts processors so that the first hyperthread of every core precedes all second ones.
fn in_order_of_cores(processors: Vec<usize>) -> Vec<usize> {
    let mut seen = Vec::new();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for processor in processors {
        let path = format!("/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list");
        let core = std::fs::read_to_string(path).unwrap_or_else(|_| processor.to_string());
        if seen.contains(&core) {
            second.push(processor);
        } else {
            seen.push(core);
            first.push(processor);
        }
    }
    first.extend(second);
    first
}

#[cfg(target_os = "linux")]
fn available() -> Option<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None).ok()?;
    Some((0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

#[cfg(not(target_os = "linux"))]
fn available() -> Option<Vec<usize>> {
    None
}

/// Binds the calling thread, and every process it starts from now on, to `processors`. Returns true on
/// success.
#[cfg(target_os = "linux")]
pub(crate) fn bind(processors: &[usize]) -> bool {
    let mut set = rustix::thread::CpuSet::new();
    for &cpu in processors {
        set.set(cpu);
    }
    rustix::thread::sched_setaffinity(None, &set).is_ok()
}

/// Affinity is implemented on Linux only; elsewhere nothing is bound and the result is `false`.
#[cfg(not(target_os = "linux"))]
pub(crate) fn bind(_: &[usize]) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn slots_and_matches_do_not_share_processors() {
        let all = available().unwrap();
        // Other matches on this machine may hold some processors, so the test only checks those that it gets.
        if let Some(assignment) = assign(1, all.len()) {
            let mut used = assignment.of(0).unwrap().to_vec();
            used.sort_unstable();
            assert_eq!(used, all);
            assert!(assign(1, 1).is_none());
            drop(assignment);
            assert!(assign(1, 1).is_some());
        }
        assert!(assign(all.len() + 1, 1).is_none());
        assert!(assign(2, usize::MAX).is_none());
    }

    #[test]
    fn a_bound_thread_stays() {
        let first = available().unwrap()[0];
        std::thread::spawn(move || {
            assert!(bind(&[first]));
            assert_eq!(available(), Some(vec![first]));
        })
        .join()
        .unwrap();
    }
}
