//! Which processors a game runs on.
//!
//! A thread that is bound to a processor passes that on to the engines it starts. Bound together, the two engines of
//! a game and the thread between them never run at the same time, and never disturb another game.

/// The processors of each game slot: `threads` for each, whole cores before their second hyperthreads. None if
/// there are not enough for all slots to have their own.
pub(crate) fn assign(slots: usize, threads: usize) -> Option<Vec<Vec<usize>>> {
    let processors = in_order_of_cores(available()?);
    (processors.len() >= slots * threads)
        .then(|| processors.chunks(threads).take(slots).map(<[usize]>::to_vec).collect())
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
    fn slots_do_not_share_processors() {
        let all = available().unwrap();
        let slots = assign(all.len(), 1).unwrap();
        let mut used: Vec<usize> = slots.concat();
        used.sort_unstable();
        assert_eq!(used, all);
        assert_eq!(assign(all.len() + 1, 1), None);
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
