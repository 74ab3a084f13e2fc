//! The machine itself: processor, memory, disk, and what a GPU needs.

use super::{Finding, size};
use std::path::{Path, PathBuf};
use tandem_nnue::Isa;

/// Less memory than this is too little for a shuffle or a network's training.
const LEAST_MEMORY: u64 = 1 << 30;
/// Less room than this is soon full.
const LEAST_DISK: u64 = 1 << 30;

/// What everything needs.
pub(super) fn machine() -> Vec<Finding> {
    let sets: Vec<&str> = Isa::ALL.into_iter().filter(|isa| isa.is_available()).map(Isa::name).collect();
    let chosen = Isa::best();
    let told = format!("{}; {} evaluates networks", sets.join(", "), chosen.name());
    let instructions = match chosen {
        Isa::Portable => Finding::missing("instructions", format!("{told}: right, but slow")),
        _ => Finding::ok("instructions", told),
    };
    let cores = match std::thread::available_parallelism() {
        Ok(cores) => Finding::ok("cores", cores.to_string()),
        Err(error) => Finding::missing("cores", format!("cannot be counted ({error}); say --threads N")),
    };
    vec![instructions, cores, memory(), disk(), folder(), huge_pages()]
}

fn memory() -> Finding {
    let field = |text: &str, name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    };
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let (Some(total), Some(free)) = (field(&text, "MemTotal:"), field(&text, "MemAvailable:")) else {
        return Finding::missing("memory", "this system does not tell");
    };
    let told = format!("{} of {} are free", size(free), size(total));
    if free < LEAST_MEMORY {
        return Finding::wrong("memory", format!("{told}: at least 1 GB must be; end other programs"));
    }
    Finding::ok("memory", told)
}

fn disk() -> Finding {
    match free_disk(Path::new(".")) {
        None => Finding::missing("disk", "this system does not tell how much room is left here"),
        Some(free) if free < LEAST_DISK => Finding::wrong(
            "disk",
            format!("{} are left here: make room, or work in another folder", size(free)),
        ),
        Some(free) => Finding::ok("disk", format!("{} are left here", size(free))),
    }
}

/// Room in the file system of a path.
#[cfg(unix)]
#[allow(clippy::unnecessary_cast, reason = "some systems count blocks with 32 bits")]
fn free_disk(path: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut facts = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: a string with its zero, and room for what is written.
    let failed = unsafe { libc::statvfs(path.as_ptr(), facts.as_mut_ptr()) } != 0;
    // SAFETY: written by the call above, which did not fail.
    (!failed)
        .then(|| unsafe { facts.assume_init() })
        .map(|facts| facts.f_bavail as u64 * facts.f_frsize as u64)
}

#[cfg(not(unix))]
fn free_disk(_: &Path) -> Option<u64> {
    None
}

fn folder() -> Finding {
    let probe = PathBuf::from(format!(".tandem-doctor-{}", std::process::id()));
    let written = std::fs::write(&probe, b"");
    let _ = std::fs::remove_file(&probe);
    match written {
        Ok(()) => Finding::ok("this folder", "can be written to"),
        Err(error) => Finding::wrong("this folder", format!("{error}: work in another folder")),
    }
}

fn huge_pages() -> Finding {
    let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = text.split('[').nth(1).and_then(|rest| rest.split(']').next());
    match chosen {
        Some(choice @ ("always" | "madvise")) => Finding::ok("huge pages", choice),
        Some(choice) => Finding::missing(
            "huge pages",
            format!(
                "{choice}: the search is some per cent slower; write madvise into \
                     /sys/kernel/mm/transparent_hugepage/enabled"
            ),
        ),
        None => Finding::missing("huge pages", "this system does not tell"),
    }
}

/// What training on a GPU needs. The plain workshop does without.
pub(super) fn gpu() -> Vec<Finding> {
    let library =
        |name: &str, files: &[&str], advice: &str| match files.iter().find(|file| can_be_opened(file)) {
            Some(file) => Finding::ok(name, *file),
            None => Finding::missing(name, advice),
        };
    let cards = match tandem_train::cards() {
        Ok(names) => Finding::ok("cards", names.join(", ")),
        Err(error) => Finding::missing("cards", error.to_string()),
    };
    vec![
        cards,
        library("NVIDIA driver", &["libcuda.so.1"], "install NVIDIA's driver, if there is such a card"),
        library(
            "NVRTC",
            &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
            "install the CUDA toolkit 12 or 13, or NVRTC alone (pip install nvidia-cuda-nvrtc)",
        ),
    ]
}

/// Whether a shared library can be opened, by the name that programs ask for.
#[cfg(unix)]
fn can_be_opened(name: &str) -> bool {
    let Ok(name) = std::ffi::CString::new(name) else { return false };
    // SAFETY: a string with its zero. What these libraries do when they are opened is what they do for every program.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    // Never closed: libraries with threads of their own may not outlive it, and this program ends soon.
    !handle.is_null()
}

#[cfg(not(unix))]
fn can_be_opened(_: &str) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_system_is_asked() {
        assert!(can_be_opened("libc.so.6"));
        assert!(!can_be_opened("libtandem-is-not-there.so.9") && !can_be_opened("a\0b"));
        assert!(free_disk(Path::new("/")).is_some_and(|free| free > 0));
        assert_eq!(free_disk(Path::new("/no/such/folder")), None);
    }
}
