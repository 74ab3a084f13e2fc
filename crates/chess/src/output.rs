//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is written beside its place and moved there when it is done. Dropped before that, it leaves nothing.
#[derive(Debug)]
pub struct AsideFile {
    file: Option<File>,
    aside: PathBuf,
    path: PathBuf,
}

impl AsideFile {
    /// Begins a file that will be at `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or_else(|| io::Error::other("not the name of a file"))?;
        let mut aside = name.to_owned();
        aside.push(format!(".{}.part", std::process::id()));
        let aside = path.with_file_name(aside);
        Ok(Self { file: Some(File::create(&aside)?), aside, path: path.into() })
    }

    /// Moves the file into its place once it is safe on the disk.
    pub fn commit(mut self) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            file.sync_all().inspect_err(|_| self.discard())?;
        }
        fs::rename(&self.aside, &self.path).inspect_err(|_| self.discard())?;
        // The directory's entry must be safe too. Not every file system can do this, and the file is there already.
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let _ = File::open(parent.unwrap_or(Path::new("."))).and_then(|directory| directory.sync_all());
        Ok(())
    }

    fn discard(&self) {
        let _ = fs::remove_file(&self.aside);
    }
}

impl Drop for AsideFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            self.discard();
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

/// Writes a whole file.
pub fn write_whole(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = AsideFile::create(path)?;
    file.write_all(contents)?;
    file.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_whole() {
        let dir = std::env::temp_dir().join(format!("tandem-aside-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
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
}
