//! Memory that is left for the program, so that a request can be refused in place of an abort.

use std::fs::read_to_string;
use std::path::Path;

/// Size of the blocks asked for, in bytes: larger than those that the C library keeps for later, so that each comes
/// from the system and goes back to it.
const BLOCK: usize = 64 << 20;

/// True if the program could allocate about `bytes` more, of which `touched` are written to. It tries the
/// allocations, which finds limits of the address space (`ulimit -v`), and on Linux compares with the free memory of
/// the machine and of the control groups (containers) that the program is in. Other programs may take the memory
/// afterwards, so the answer is a guess, but a good one.
pub fn has_room(bytes: usize, touched: usize) -> bool {
    can_reserve(bytes) && free_memory().is_none_or(|free| touched <= free)
}

/// Reserves the memory in blocks that are not written to, and gives it back.
fn can_reserve(bytes: usize) -> bool {
    let mut blocks = Vec::new();
    let mut left = bytes;
    while left > 0 {
        let mut block = Vec::<u8>::new();
        if block.try_reserve_exact(BLOCK).is_err() {
            return false;
        }
        blocks.push(std::hint::black_box(block));
        left = left.saturating_sub(BLOCK);
    }
    true
}

/// Memory in bytes that can be written to without swapping; `None` if the system does not say.
fn free_memory() -> Option<usize> {
    let of_machine = field(&read_to_string("/proc/meminfo").ok()?, "MemAvailable:").map(|kib| kib << 10);
    of_machine.into_iter().chain(free_in_groups()).min()
}

/// Free memory in bytes of each control group with a limit.
fn free_in_groups() -> Vec<usize> {
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut free = Vec::new();
    for line in groups.lines() {
        // Version 2 has one line, `0::/path`; version 1 has one for each controller, `4:memory:/path`.
        let (root, limit, used) = match line.splitn(3, ':').collect::<Vec<_>>()[..] {
            ["0", "", _] => ("/sys/fs/cgroup", "memory.max", "anon"),
            [_, controllers, _] if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "rss")
            }
            _ => continue,
        };
        let path = line.splitn(3, ':').nth(2).unwrap_or_default();
        for group in Path::new(path).ancestors() {
            let folder = Path::new(root).join(group.strip_prefix("/").unwrap_or(group));
            let number = |file: &str| read_to_string(folder.join(file)).ok();
            let limit = number(limit).and_then(|text| text.trim().parse::<usize>().ok());
            let used = number("memory.stat").and_then(|text| field(&text, used));
            free.extend(limit.zip(used).map(|(limit, used)| limit.saturating_sub(used)));
        }
    }
    free
}

/// The number after a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<usize> {
    let mut words =
        text.lines().map(str::split_ascii_whitespace).find(|words| words.clone().next() == Some(name))?;
    words.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_fits_and_too_much_does_not() {
        assert!(has_room(1 << 20, 1 << 20));
        assert!(!can_reserve(1 << 50));
        #[cfg(target_os = "linux")]
        {
            assert!(free_memory().is_some_and(|free| free > 1 << 20));
            assert!(!has_room(1 << 20, 1 << 50));
        }
    }

    #[test]
    fn numbers_are_found_by_their_names() {
        let text = "MemTotal:       24684096 kB\nMemAvailable:   23438684 kB\nrss 12\ntotal_rss 99\n";
        assert_eq!(field(text, "MemAvailable:"), Some(23_438_684));
        assert_eq!(field(text, "rss"), Some(12));
        assert_eq!(field(text, "anon"), None);
    }
}
