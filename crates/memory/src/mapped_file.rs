//! Files mapped into memory.

use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// A whole file, mapped into memory for reading. It dereferences to its bytes, and pages are read from the disk
/// when they are first used.
///
/// The file must not change while it is mapped: if it is truncated, an access behind its new end ends the program
/// (SIGBUS on Unix), and if it is overwritten, the bytes change. Users must check whatever they read, each time.
#[derive(Debug)]
pub struct MappedFile(Mmap);

impl MappedFile {
    /// Maps a file.
    ///
    /// # Errors
    ///
    /// If the path is not a file, or the operating system cannot open or map it.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Checked before opening, because opening a pipe would block.
        if !path.metadata()?.is_file() {
            return Err(io::Error::other("not a file"));
        }
        let file = File::open(path)?;
        // SAFETY: the bytes are only read, and any bytes are valid. The documentation above says what follows if
        // another program changes the file in place, as with every mapped file.
        Ok(Self(unsafe { Mmap::map(&file)? }))
    }

    /// Tells the operating system that accesses are scattered, so that reading ahead is a waste. Without effect
    /// where this is not supported.
    pub fn advise_random_access(&self) {
        #[cfg(unix)]
        // If the advice is refused, only speed is lost.
        let _ = self.0.advise(memmap2::Advice::Random);
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_has_the_bytes_of_the_file() {
        let path = std::env::temp_dir().join(format!("tandem-mapped-{}", std::process::id()));
        std::fs::write(&path, b"some bytes").unwrap();
        let mapped = MappedFile::open(&path).unwrap();
        mapped.advise_random_access();
        // A removed file stays mapped.
        std::fs::remove_file(&path).unwrap();
        assert_eq!(&mapped[..], b"some bytes");
    }

    #[test]
    fn folders_and_missing_files_are_refused() {
        assert!(MappedFile::open(&std::env::temp_dir()).is_err());
        assert!(MappedFile::open(Path::new("/no/such/file")).is_err());
    }
}
