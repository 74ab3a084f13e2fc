//! Files that grow by complete pieces, such as lines or records.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// A file open for appending. Each piece is passed to the system in one write, so that it survives if the
/// process is killed.
#[derive(Debug)]
pub(super) struct Appender {
    file: File,
    end: u64,
}

impl Appender {
    /// Continues at the end of an existing file.
    pub(super) fn new(mut file: File) -> io::Result<Self> {
        let end = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, end })
    }

    /// Appends a piece, or nothing on an error, because half a piece would make everything after it
    /// unreadable.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, for example because the disk is full.
    pub(super) fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(piece) {
            let _ = self.file.set_len(self.end).and_then(|()| self.file.seek(SeekFrom::Start(self.end)));
            return Err(error);
        }
        self.end += piece.len() as u64;
        Ok(())
    }
}
