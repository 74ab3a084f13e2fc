//! A locked file that grows by whole pieces.

use super::JournalError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time to wait for a lock. A child process holds the files of its parent until it has executed its own
/// program, so a lock may outlive the work that held it if another process is started at that moment on a busy
/// machine.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// A locked file to which only this process writes, and only whole pieces at its end.
#[derive(Debug)]
pub struct AppendFile {
    file: File,
    path: PathBuf,
    end: u64,
    /// Length before the last piece.
    last: u64,
}

impl AppendFile {
    /// Opens a file for appending, or creates it, and locks out other processes for the lifetime of the value.
    ///
    /// # Errors
    ///
    /// Fails if the file is locked by another process or cannot be opened for writing.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(JournalError::io(path))?;
        // A file system without locks cannot guard the file, which is not a reason to refuse the work.
        let started = Instant::now();
        while let Err(TryLockError::WouldBlock) = file.try_lock() {
            if started.elapsed() > LOCK_TIMEOUT {
                return Err(JournalError::InUse { path: path.into() });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let end = file.metadata().map_err(JournalError::io(path))?.len();
        Ok(Self { file, path: path.into(), end, last: end })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, for reading.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Length in bytes, at which the next piece will be written.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Truncates the file to `end` bytes and continues from there.
    ///
    /// # Errors
    ///
    /// Fails if the file is not one that can be truncated, for example a device.
    pub fn cut(&mut self, end: u64) -> Result<(), JournalError> {
        self.file.set_len(end).map_err(JournalError::io(&self.path))?;
        (self.end, self.last) = (end, end);
        Ok(())
    }

    /// Appends a piece in one write.
    ///
    /// # Errors
    ///
    /// Fails if the disk is full. The file then ends where it did before.
    pub fn append(&mut self, piece: &[u8]) -> Result<(), JournalError> {
        self.last = self.end;
        // A reader of the same file may have moved the position.
        let at_end = self.file.seek(SeekFrom::Start(self.end));
        if let Err(source) = at_end.and_then(|_| self.file.write_all(piece)) {
            return Err(self.undo(source));
        }
        self.end += piece.len() as u64;
        Ok(())
    }

    /// Waits until all pieces are on the disk.
    ///
    /// # Errors
    ///
    /// Fails if the disk reports an error. The last piece is removed then.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(|source| self.undo(source))
    }

    /// Removes the last piece, because half of one must not stay in the file. If even this fails, a later run
    /// will remove it.
    fn undo(&mut self, source: std::io::Error) -> JournalError {
        let _ = self.cut(self.last);
        JournalError::Io { path: self.path.clone(), source }
    }
}
