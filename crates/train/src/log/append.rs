//! Files that grow by whole pieces.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// A file that is appended to. A piece goes to the system in one write, so it stays when the program is killed.
#[derive(Debug)]
pub(super) struct Appender {
    file: File,
    end: u64,
}

impl Appender {
    /// Goes on after what the file has.
    pub(super) fn new(mut file: File) -> io::Result<Self> {
        let end = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, end })
    }

    /// Appends a piece, or on an error nothing: half a piece would make all that comes after it unreadable.
    pub(super) fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(piece) {
            let _ = self.file.set_len(self.end).and_then(|()| self.file.seek(SeekFrom::Start(self.end)));
            return Err(error);
        }
        self.end += piece.len() as u64;
        Ok(())
    }
}
