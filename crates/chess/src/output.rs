//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A file that is written beside its place and moved there when it is done. Dropped before that, it leaves nothing. A link
/// stays one: the file that it leads to is written. A device or a pipe is written straight, for nothing may take its place.
#[derive(Debug)]
pub struct AsideFile {
    file: Option<File>,
    /// None where the file is written straight.
    places: Option<Places>,
}

/// Where a file is written, and where it will be.
#[derive(Debug)]
struct Places {
    aside: PathBuf,
    path: PathBuf,
}

impl Places {
    /// Nobody else in this process or another one writes there.
    fn new(path: PathBuf) -> io::Result<Self> {
        static BEGUN: AtomicU64 = AtomicU64::new(0);
        let name = path.file_name().ok_or_else(|| io::Error::other("not the name of a file"))?;
        let mut aside = name.to_owned();
        aside.push(format!(".{}-{}.part", std::process::id(), BEGUN.fetch_add(1, Relaxed)));
        Ok(Self { aside: path.with_file_name(aside), path })
    }

    fn discard(&self) {
        let _ = fs::remove_file(&self.aside);
    }
}

impl AsideFile {
    /// Begins a file that will be at `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => {
                let file = File::options().write(true).open(path)?;
                return Ok(Self { file: Some(file), places: None });
            }
            _ => {}
        }
        let places = Places::new(end_of_links(path)?)?;
        Ok(Self { file: Some(File::create(&places.aside)?), places: Some(places) })
    }

    /// Moves the file into its place once it is safe on the disk.
    pub fn commit(mut self) -> io::Result<()> {
        let (Some(file), Some(places)) = (self.file.take(), &self.places) else { return Ok(()) };
        let synced = file.sync_all();
        drop(file);
        let moved = synced.and_then(|()| fs::rename(&places.aside, &places.path));
        moved.inspect_err(|_| places.discard())?;
        // The directory's entry must be safe too. Not every file system can do this, and the file is there already.
        let parent = places.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let _ = File::open(parent.unwrap_or(Path::new("."))).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

impl Drop for AsideFile {
    fn drop(&mut self) {
        if self.file.take().is_some()
            && let Some(places) = &self.places
        {
            places.discard();
        }
    }
}

impl Write for AsideFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or_else(|| Err(io::Error::other("the file is done")), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

/// Where a path leads, so that links stay; there need be nothing yet.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    /// As many as Linux follows.
    const MOST_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs::read_link(&path) else { return Ok(path) };
        path = path.with_file_name("").join(target);
    }
    Err(io::Error::other("more links than can be followed"))
}

/// Writes a whole file.
pub fn write_whole(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = AsideFile::create(path)?;
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
    fn a_file_appears_when_it_is_whole() {
        let dir = directory("whole");
        let path = dir.join("x");
        let mut file = AsideFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        write_whole(&path, b"old").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        assert!(write_whole(&dir.join("no/such/x"), b"").is_err());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn two_writers_of_a_file_do_not_meet() {
        let dir = directory("two");
        let path = dir.join("x");
        let (mut one, mut two) = (AsideFile::create(&path).unwrap(), AsideFile::create(&path).unwrap());
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
    fn links_are_followed_and_what_is_no_file_stays() {
        use std::os::unix::fs::{FileTypeExt, symlink};
        let dir = directory("links");
        fs::create_dir(dir.join("real")).unwrap();
        write_whole(&dir.join("real/x"), b"old").unwrap();
        symlink("real/x", dir.join("link")).unwrap();
        write_whole(&dir.join("link"), b"new").unwrap();
        assert!(fs::symlink_metadata(dir.join("link")).unwrap().is_symlink());
        assert_eq!(fs::read(dir.join("real/x")).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.join("real")).unwrap().count(), 1);
        // Through two links to a file that is not there yet, and round in a circle.
        symlink("real/new", dir.join("first")).unwrap();
        symlink(dir.join("first"), dir.join("second")).unwrap();
        write_whole(&dir.join("second"), b"made").unwrap();
        assert!(fs::symlink_metadata(dir.join("second")).unwrap().is_symlink());
        assert_eq!(fs::read(dir.join("real/new")).unwrap(), b"made");
        symlink("circle", dir.join("circle")).unwrap();
        assert!(write_whole(&dir.join("circle"), b"").is_err());
        assert!(write_whole(&dir.join("real"), b"").is_err());
        // A socket stands for devices, of which a test should not risk any: it cannot be written, nor may it be replaced.
        let _socket = std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap();
        assert!(write_whole(&dir.join("socket"), b"").is_err());
        assert!(fs::metadata(dir.join("socket")).unwrap().file_type().is_socket());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_pipe_is_written_straight() {
        use std::os::fd::AsRawFd;
        let (mut reader, writer) = io::pipe().unwrap();
        write_whole(Path::new(&format!("/proc/self/fd/{}", writer.as_raw_fd())), b"news").unwrap();
        drop(writer);
        let mut read = String::new();
        io::Read::read_to_string(&mut reader, &mut read).unwrap();
        assert_eq!(read, "news");
    }
}
