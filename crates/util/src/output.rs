//! Writing files atomically: a file appears complete or not at all.
//!
//! Networks, data sets and checkpoints take minutes to write, so an interrupted program must not leave half
//! of one under its final name. A killed program leaves its temporary file, which the next one that writes the
//! same file removes.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A file that is written beside its final path and moved there by [`Self::commit`]. If it is dropped before
/// that, nothing is left.
///
/// A symbolic link stays one: its target is replaced. A device or a pipe is written directly, because it
/// cannot be replaced.
#[derive(Debug)]
pub struct AtomicFile {
    file: Option<File>,
    /// `None` for devices and pipes, which are written directly.
    paths: Option<Paths>,
}

/// Number of temporary files that this process has created, which is part of their names.
static CREATED: AtomicU64 = AtomicU64::new(0);

/// Temporary and final path of a file.
#[derive(Debug)]
struct Paths {
    temporary: PathBuf,
    path: PathBuf,
}

impl Paths {
    /// A temporary name that no other file of this process or another one uses.
    fn new(path: PathBuf) -> io::Result<Self> {
        let name = path.file_name().ok_or_else(|| io::Error::other("not the name of a file"))?;
        let mut temporary = name.to_owned();
        temporary.push(format!(".{}-{}.part", std::process::id(), CREATED.fetch_add(1, Relaxed)));
        Ok(Self { temporary: path.with_file_name(temporary), path })
    }

    fn discard(&self) {
        let _ = fs::remove_file(&self.temporary);
    }
}

impl AtomicFile {
    /// Creates a temporary file beside `path`, which replaces the file at `path` when it is committed.
    ///
    /// # Errors
    ///
    /// Fails if `path` is a folder, or if its folder is missing or not writable.
    pub fn create(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => {
                let file = File::options().write(true).open(path)?;
                return Ok(Self { file: Some(file), paths: None });
            }
            _ => {}
        }
        let path = end_of_links(path)?;
        remove_stale_parts(&path);
        let paths = Paths::new(path)?;
        let file = File::create(&paths.temporary)?;
        // The lock says that the file is in use. On a file system without locks, the process id has to suffice.
        let _ = file.try_lock();
        Ok(Self { file: Some(file), paths: Some(paths) })
    }

    /// Flushes the file to the disk and moves it to its final path.
    ///
    /// # Errors
    ///
    /// Fails if the disk is full or the file cannot be renamed; then the temporary file is removed.
    pub fn commit(mut self) -> io::Result<()> {
        let (Some(file), Some(paths)) = (self.file.take(), &self.paths) else { return Ok(()) };
        let synced = file.sync_all();
        drop(file);
        let moved = synced.and_then(|()| fs::rename(&paths.temporary, &paths.path));
        moved.inspect_err(|_| paths.discard())?;
        // The directory entry must reach the disk too.
        sync_folder(folder_of(&paths.path))
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if self.file.take().is_some()
            && let Some(paths) = &self.paths
        {
            paths.discard();
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or_else(|| Err(io::Error::other("the file is done")), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

/// Waits until the names of the files in a folder are on the disk: those that were created, renamed and removed.
/// Does nothing on systems and file systems that do not support it.
///
/// # Errors
///
/// Fails if the disk reports an error.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    let Ok(folder) = File::open(folder) else { return Ok(()) };
    match folder.sync_all() {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        synced => synced,
    }
}

/// Removes temporary files that killed processes have left beside `path` and for it. Those of running processes
/// stay, and so do files whose lock another process holds, for example one on another machine.
fn remove_stale_parts(path: &Path) {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
    let entries = fs::read_dir(folder_of(path)).into_iter().flatten().flatten();
    for part in
        entries.filter(|entry| entry.file_name().to_str().is_some_and(|part| is_stale_name(part, name)))
    {
        let is_free = File::options().write(true).open(part.path()).is_ok_and(|file| file.try_lock().is_ok());
        if is_free {
            // A file that stays does no harm.
            let _ = fs::remove_file(part.path());
        }
    }
}

/// True if `part` is the name of a temporary file for `name` by a process that has ended.
fn is_stale_name(part: &str, name: &str) -> bool {
    let numbers = || part.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".part")?.split_once('-');
    let Some((Ok(process), Ok(number))) = numbers().map(|(a, b)| (a.parse::<u32>(), b.parse::<u64>())) else {
        return false;
    };
    if process == std::process::id() {
        // An earlier process had the same id, as in containers.
        return number >= CREATED.load(Relaxed);
    }
    // Where there is no /proc, the lock decides alone.
    !Path::new("/proc").join(process.to_string()).exists()
}

/// Creates a file without a name in a folder, for temporary data: the operating system removes it when it is closed,
/// however the program ends.
///
/// # Errors
///
/// Fails if the folder is missing or not writable.
pub fn unnamed_file(folder: &Path) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let unnamed = File::options().read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder);
        // Some file systems do not support it.
        if unnamed.is_ok() {
            return unnamed;
        }
    }
    let number = CREATED.fetch_add(1, Relaxed);
    let path = folder.join(format!(".tandem-{}-{number}.part", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Folder that contains a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Target of a chain of symbolic links; it need not exist yet.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    /// Limit of the Linux kernel.
    const MAX_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = fs::read_link(&path) else { return Ok(path) };
        path = path.with_file_name("").join(target);
    }
    Err(io::Error::other("more links than can be followed"))
}

/// Writes a whole file atomically: readers see the old contents or the new, never a part.
///
/// # Errors
///
/// Fails as [`AtomicFile::create`] and [`AtomicFile::commit`] do; then the old file, if there was one, is
/// unchanged.
pub fn write_atomically(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(contents)?;
    file.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("tandem-aside-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_file_appears_only_when_it_is_complete() {
        let dir = directory("whole");
        let path = dir.join("x");
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        assert!(write_atomically(&dir.join("no/such/x"), b"").is_err());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn only_parts_of_ended_processes_are_removed() {
        let dir = directory("stale");
        let path = dir.join("x.csv");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = child.id();
        child.wait().unwrap();
        let own = std::process::id();
        let stale = [format!("x.csv.{ended}-0.part"), format!("x.csv.{own}-{}.part", u64::MAX)];
        let others = [
            "x.csv.1-0.part".to_owned(),
            format!("y.csv.{ended}-0.part"),
            format!("x.csv.{ended}-0.part.bak"),
            format!("x.csv.{ended}.part"),
            format!("x.csv.{ended}-x.part"),
            format!("x.csv.{ended}-1.part"),
        ];
        for name in stale.iter().chain(&others) {
            fs::write(dir.join(name), b"half").unwrap();
        }
        let held = File::open(dir.join(&others[5])).unwrap();
        held.lock().unwrap();
        let in_use = AtomicFile::create(&path).unwrap();
        write_atomically(&path, b"whole").unwrap();
        let in_use_path = in_use.paths.as_ref().unwrap().temporary.clone();
        assert!(in_use_path.exists(), "another thread writes it");
        drop(in_use);
        let mut left: Vec<String> = fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = [&["x.csv".to_owned()][..], &others].concat();
        expected.sort();
        assert_eq!(left, expected);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_without_a_name_leaves_nothing() {
        use io::{Read, Seek};
        let dir = directory("unnamed");
        let mut file = unnamed_file(&dir).unwrap();
        file.write_all(b"data").unwrap();
        file.rewind().unwrap();
        let mut read = String::new();
        file.read_to_string(&mut read).unwrap();
        assert_eq!(read, "data");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        assert!(unnamed_file(&dir.join("none")).is_err());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn concurrent_writers_of_a_file_do_not_interfere() {
        let dir = directory("two");
        let path = dir.join("x");
        let (mut one, mut two) = (AtomicFile::create(&path).unwrap(), AtomicFile::create(&path).unwrap());
        one.write_all(b"the first").unwrap();
        two.write_all(b"second").unwrap();
        one.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"the first");
        two.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn links_are_followed_and_special_files_stay() {
        use std::os::unix::fs::{FileTypeExt, symlink};
        let dir = directory("links");
        fs::create_dir(dir.join("real")).unwrap();
        write_atomically(&dir.join("real/x"), b"old").unwrap();
        symlink("real/x", dir.join("link")).unwrap();
        write_atomically(&dir.join("link"), b"new").unwrap();
        assert!(fs::symlink_metadata(dir.join("link")).unwrap().is_symlink());
        assert_eq!(fs::read(dir.join("real/x")).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.join("real")).unwrap().count(), 1);
        // Through two links to a file that does not exist yet, and along a circle of links.
        symlink("real/new", dir.join("first")).unwrap();
        symlink(dir.join("first"), dir.join("second")).unwrap();
        write_atomically(&dir.join("second"), b"made").unwrap();
        assert!(fs::symlink_metadata(dir.join("second")).unwrap().is_symlink());
        assert_eq!(fs::read(dir.join("real/new")).unwrap(), b"made");
        symlink("circle", dir.join("circle")).unwrap();
        assert!(write_atomically(&dir.join("circle"), b"").is_err());
        assert!(write_atomically(&dir.join("real"), b"").is_err());
        // A socket stands in for devices, since a test should not risk any: it cannot be written, and must
        // not be replaced.
        let _socket = std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap();
        assert!(write_atomically(&dir.join("socket"), b"").is_err());
        assert!(fs::metadata(dir.join("socket")).unwrap().file_type().is_socket());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_pipe_is_written_directly() {
        use std::os::fd::AsRawFd;
        let (mut reader, writer) = io::pipe().unwrap();
        write_atomically(Path::new(&format!("/proc/self/fd/{}", writer.as_raw_fd())), b"news").unwrap();
        drop(writer);
        let mut read = String::new();
        io::Read::read_to_string(&mut reader, &mut read).unwrap();
        assert_eq!(read, "news");
    }
}
