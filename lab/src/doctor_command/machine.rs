//! Checks of the machine: instruction sets, cores, memory, disk, and the libraries that a GPU needs.

use super::{Finding, size};
use std::path::{Path, PathBuf};
use tandem_nnue::Isa;

/// Minimum of available memory in bytes (1 GiB); less is too little to shuffle data or to train a network.
const MIN_MEMORY: u64 = 1 << 30;
/// Minimum of free disk space in bytes (1 GiB); less is soon full.
const MIN_DISK: u64 = 1 << 30;

/// Checks what every command needs.
pub(super) fn machine() -> Vec<Finding> {
    let sets: Vec<&str> = Isa::available().map(Isa::name).collect();
    let chosen = Isa::best();
    let detail = format!("{}; {} evaluates networks", sets.join(", "), chosen.name());
    let instructions = match chosen {
        Isa::Portable => Finding::missing("instructions", format!("{detail}: correct, but slow")),
        _ => Finding::ok("instructions", detail),
    };
    let cores = match std::thread::available_parallelism() {
        Ok(cores) => Finding::ok("cores", cores.to_string()),
        Err(error) => Finding::missing("cores", format!("cannot be counted ({error}); give --threads N")),
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
        return Finding::missing("memory", "this system does not report it");
    };
    let detail = format!("{} of {} are free", size(free), size(total));
    if free < MIN_MEMORY {
        return Finding::broken("memory", format!("{detail}: at least 1 GB is needed; close other programs"));
    }
    Finding::ok("memory", detail)
}

fn disk() -> Finding {
    match free_disk(Path::new(".")) {
        None => Finding::missing("disk", "this system does not report the free space"),
        Some(free) if free < MIN_DISK => Finding::broken(
            "disk",
            format!("{} are free here: free some space, or work in another folder", size(free)),
        ),
        Some(free) => Finding::ok("disk", format!("{} are free here", size(free))),
    }
}

/// Free space in bytes in the file system of a path; `None` if the system does not report it.
#[cfg(unix)]
#[allow(clippy::unnecessary_cast, reason = "some systems count blocks with 32 bits")]
fn free_disk(path: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut facts = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path is a string that ends with a zero, and `facts` has space for the result.
    let failed = unsafe { libc::statvfs(path.as_ptr(), facts.as_mut_ptr()) } != 0;
    // SAFETY: initialised by the call above, which did not fail.
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
        Err(error) => Finding::broken("this folder", format!("{error}: work in another folder")),
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
                "{choice}: the search is a few per cent slower; write madvise to \
                     /sys/kernel/mm/transparent_hugepage/enabled"
            ),
        ),
        None => Finding::missing("huge pages", "this system does not report it"),
    }
}

/// Checks what training on an NVIDIA GPU needs; everything else works without.
pub(super) fn gpu() -> Vec<Finding> {
    let library =
        |name: &str, files: &[&str], advice: &str| match files.iter().find(|file| can_be_opened(file)) {
            Some(file) => Finding::ok(name, *file),
            None => Finding::missing(name, advice),
        };
    let gpus = match tandem_train::gpus() {
        Ok(names) => Finding::ok("GPUs", names.join(", ")),
        Err(error) => Finding::missing("GPUs", error.to_string()),
    };
    vec![
        gpus,
        library("NVIDIA driver", &["libcuda.so.1"], "install NVIDIA's driver, if there is an NVIDIA GPU"),
        library(
            "NVRTC",
            &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
            "install the CUDA toolkit 12 or 13, or NVRTC alone (pip install nvidia-cuda-nvrtc)",
        ),
    ]
}

/// True if a shared library of this name can be loaded.
#[cfg(unix)]
fn can_be_opened(name: &str) -> bool {
    let Ok(name) = std::ffi::CString::new(name) else { return false };
    // SAFETY: the name is a string that ends with a zero. The libraries run the same initialisers as in every
    // program that loads them.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    // The library is never closed: if it starts threads, they must not outlive it, and this program ends
    // soon.
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
    fn libraries_and_disk_space_are_queried() {
        assert!(can_be_opened("libc.so.6"));
        assert!(!can_be_opened("libtandem-is-not-there.so.9") && !can_be_opened("a\0b"));
        assert!(free_disk(Path::new("/")).is_some_and(|free| free > 0));
        assert_eq!(free_disk(Path::new("/no/such/folder")), None);
    }
}
