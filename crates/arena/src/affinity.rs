//! Which processors a game runs on.
//!
//! A thread that is bound to a processor passes that on to the engines it starts. Bound together, the two engines of
//! a game and the thread between them never run at the same time, and never disturb another game.

use std::fs::File;

/// The processors of each game slot, kept from other matches on this machine for as long as this lives.
#[derive(Debug)]
pub(crate) struct Places {
    slots: Vec<Vec<usize>>,
    _locks: Vec<File>,
}

impl Places {
    /// The processors of a slot.
    pub(crate) fn of(&self, slot: usize) -> Option<&[usize]> {
        self.slots.get(slot).map(Vec::as_slice)
    }
}

/// Gives each slot `threads` processors, whole cores before their second hyperthreads. None if there are not enough
/// for all slots to have their own, or other matches have taken them: two games bound to one processor would be
/// worse than none bound at all.
pub(crate) fn assign(slots: usize, threads: usize) -> Option<Places> {
    let threads = threads.max(1);
    let wanted = slots.checked_mul(threads)?;
    let mut locks = Vec::new();
    let mut free = Vec::new();
    for processor in in_order_of_cores(available()?) {
        if free.len() == wanted {
            break;
        }
        if let Some(lock) = take(processor) {
            locks.push(lock);
            free.push(processor);
        }
    }
    let slots = free.chunks(threads).map(<[usize]>::to_vec).collect();
    (free.len() == wanted).then_some(Places { slots, _locks: locks })
}

/// Locks a file that stands for a processor. The system opens the lock when we end, however we end.
fn take(processor: usize) -> Option<File> {
    let path = std::env::temp_dir().join(format!("tandem-processor-{processor}.lock"));
    // One that another user has made can still be locked, though not written.
    let file = File::options().create(true).append(true).open(&path).or_else(|_| File::open(&path)).ok()?;
    file.try_lock().ok().map(|()| file)
}

/// Puts the first hyperthread of every core first.
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

/// Binds the calling thread, and what it starts from now on. Returns whether that worked.
#[cfg(target_os = "linux")]
pub(crate) fn bind(processors: &[usize]) -> bool {
    let mut set = rustix::thread::CpuSet::new();
    for &cpu in processors {
        set.set(cpu);
    }
    rustix::thread::sched_setaffinity(None, &set).is_ok()
}

/// Binding is only known on Linux.
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
        // Other matches on this machine may hold some: only what we get is looked at.
        if let Some(places) = assign(1, all.len()) {
            let mut used = places.of(0).unwrap().to_vec();
            used.sort_unstable();
            assert_eq!(used, all);
            assert!(assign(1, 1).is_none());
            drop(places);
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
