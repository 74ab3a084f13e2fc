//! Append-only journals, from which work that was killed resumes: it loses no more than the entry that it was
//! writing.
//!
//! The first entry of a journal is its header, which identifies the work that the others belong to. Entries are either lines
//! of text or blocks of bytes with a checksum ([`JournalFormat`]). A journal is locked as long as it is open, and
//! nothing in it is removed before its user has accepted the header:
//!
//! ```
//! use tandem_util::journal::{Journal, JournalFormat, JournalError};
//!
//! let path = std::env::temp_dir().join(format!("tandem-journal-example-{}", std::process::id()));
//! const FORMAT: JournalFormat = JournalFormat::Lines { start: b"squares" };
//!
//! let found = Journal::open(&path, FORMAT)?;
//! assert!(found.header().is_none(), "nothing was done before");
//! let mut journal = found.resume(b"squares of numbers")?;
//! for number in 0..3 {
//!     journal.append(format!("{}", number * number).as_bytes())?;
//! }
//! drop(journal); // Killed.
//!
//! let found = Journal::open(&path, FORMAT)?;
//! assert_eq!(found.header(), Some(&b"squares of numbers"[..]));
//! assert_eq!(found.entries(), 3);
//! # std::fs::remove_file(path).unwrap();
//! # Ok::<(), JournalError>(())
//! ```

mod append_file;
mod format;

pub use append_file::AppendFile;
pub use format::{JournalFormat, MAX_BLOCK};

use format::NextEntry;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Reason for which a journal cannot be read or continued.
#[derive(Debug, Error)]
pub enum JournalError {
    /// A read or a write failed, for example because the disk is full.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the journal.
        path: PathBuf,
        /// Cause reported by the operating system.
        source: io::Error,
    },
    /// Another process has locked the file.
    #[error("{}: in use by another run", path.display())]
    InUse {
        /// Path of the file that is locked.
        path: PathBuf,
    },
    /// The file is of another kind, or its contents have changed since they were written.
    #[error("{}: no journal of this kind, or damaged at byte {end}; move it away to begin anew", path.display())]
    Damaged {
        /// Path of the journal.
        path: PathBuf,
        /// Offset at which the last valid entry ends; 0 if there is none.
        end: u64,
    },
    /// An entry that could not be read again.
    #[error("{}: {problem}", path.display())]
    Entry {
        /// Path of the journal.
        path: PathBuf,
        /// Description of the fault.
        problem: String,
    },
}

impl JournalError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.into(), source }
    }
}

/// A journal that is open for appending.
#[derive(Debug)]
pub struct Journal {
    file: AppendFile,
    format: JournalFormat,
    entries: u64,
}

/// Contents of a journal that is open and locked, but not changed yet.
#[derive(Debug)]
pub struct FoundJournal {
    file: AppendFile,
    format: JournalFormat,
    scan: Scan,
}

/// Result of reading a journal up to the first entry that is not valid.
#[derive(Debug, Default)]
struct Scan {
    header: Option<Vec<u8>>,
    /// Number of entries after the header.
    entries: u64,
    /// Offset at which the last valid entry ends.
    end: u64,
    /// True if the bytes behind that were written completely and have changed since.
    is_damaged: bool,
}

impl Scan {
    /// Reads a journal and passes every entry after the header to `sink`.
    fn run<E: From<JournalError>>(
        file: &File,
        path: &Path,
        format: JournalFormat,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut input = BufReader::new(file);
        let mut found = Self::default();
        input.seek(SeekFrom::Start(0)).map_err(JournalError::io(path))?;
        let magic = format.magic();
        let mut start = vec![0; magic.len()];
        if input.read_exact(&mut start).is_err() || start != magic {
            return Ok(found);
        }
        found.end = magic.len() as u64;
        loop {
            let entry = match format.next(&mut input).map_err(JournalError::io(path))? {
                NextEntry::Entry(entry) => entry,
                NextEntry::End => return Ok(found),
                NextEntry::Damaged => {
                    // The last entry may be incomplete, or filled with zeros by a file system that lost the rest.
                    let mut rest = Vec::new();
                    input.take(MAX_BLOCK).read_to_end(&mut rest).map_err(JournalError::io(path))?;
                    found.is_damaged = rest.iter().any(|byte| *byte != 0);
                    return Ok(found);
                }
            };
            found.end += format.framed_len(&entry);
            if found.header.is_none() {
                found.header = Some(entry);
            } else {
                found.entries += 1;
                sink(&entry)?;
            }
        }
    }
}

impl FoundJournal {
    /// Header of the journal; `None` if the file is new, or if its first write was cut short.
    pub fn header(&self) -> Option<&[u8]> {
        self.scan.header.as_deref()
    }

    /// Number of complete entries after the header.
    pub fn entries(&self) -> u64 {
        self.scan.entries
    }

    /// Passes all entries after the header to `sink`, in order.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, and with the errors of `sink`.
    pub fn read<E: From<JournalError>>(&self, sink: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        Scan::run(self.file.file(), self.file.path(), self.format, sink).map(|_| ())
    }

    /// Removes an incomplete last entry and continues after the entry before it. A new journal begins with
    /// `header`; an existing one keeps its own.
    ///
    /// # Errors
    ///
    /// Fails if the file has no header and holds something else than the beginning of one, or cannot be written.
    pub fn resume(self, header: &[u8]) -> Result<Journal, JournalError> {
        let Self { mut file, format, scan } = self;
        if scan.header.is_some() {
            file.cut(scan.end)?;
        } else {
            let start = [format.magic(), &format.framed(header)].concat();
            let found = read_start(file.file()).map_err(JournalError::io(file.path()))?;
            if !format.is_torn_start(&found, &start) {
                return Err(JournalError::Damaged { path: file.path().into(), end: scan.end });
            }
            file.cut(0)?;
            file.append(&start)?;
        }
        Ok(Journal { file, format, entries: scan.entries })
    }
}

/// Beginning of a file without the zeros at its end, which a file system may have put there.
fn read_start(mut file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(MAX_BLOCK).read_to_end(&mut bytes)?;
    bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    Ok(bytes)
}

impl Journal {
    /// Opens and locks a journal, or creates an empty file, and reads its header.
    ///
    /// # Errors
    ///
    /// Fails if the file is locked by another process, cannot be read, or is damaged.
    pub fn open(path: &Path, format: JournalFormat) -> Result<FoundJournal, JournalError> {
        let file = AppendFile::open(path)?;
        let scan = Scan::run(file.file(), path, format, |_| Ok::<(), JournalError>(()))?;
        // A killed process leaves less than one entry behind the last valid one. A longer rest was not written by
        // this program.
        if scan.is_damaged || format.max_framed_len().is_some_and(|most| file.end() - scan.end > most) {
            return Err(JournalError::Damaged { path: path.into(), end: scan.end });
        }
        Ok(FoundJournal { file, format, scan })
    }

    /// Reads a journal that another process may be writing. Passes its entries to `sink` and returns its header,
    /// or `None` if it is of another kind.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or an entry within it is damaged, and with the errors of `sink`.
    pub fn read_unlocked<E: From<JournalError>>(
        path: &Path,
        format: JournalFormat,
        sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Option<Vec<u8>>, E> {
        let file = File::open(path).map_err(JournalError::io(path))?;
        let scan = Scan::run(&file, path, format, sink)?;
        if scan.is_damaged {
            return Err(JournalError::Damaged { path: path.into(), end: scan.end }.into());
        }
        Ok(scan.header)
    }

    /// Path of the journal.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Number of entries after the header.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Appends an entry. After a failure the file ends with the entry before it.
    ///
    /// # Errors
    ///
    /// Fails if the disk is full, or if the entry is one that could not be read again: a line with a line break in
    /// it, or a block of more than [`MAX_BLOCK`] bytes.
    pub fn append(&mut self, entry: &[u8]) -> Result<(), JournalError> {
        if let Some(problem) = self.format.refuses(entry) {
            return Err(JournalError::Entry { path: self.path().into(), problem });
        }
        self.file.append(&self.format.framed(entry))?;
        self.entries += 1;
        Ok(())
    }

    /// Appends an entry as [`Self::append`] does and waits until it is on the disk.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::append`] does, and if the disk reports an error.
    pub fn append_synced(&mut self, entry: &[u8]) -> Result<(), JournalError> {
        self.append(entry)?;
        // A failure has cut the entry off again.
        self.file.sync().inspect_err(|_| self.entries -= 1)
    }

    /// Passes all entries after the header to `sink`, in order.
    ///
    /// # Errors
    ///
    /// Fails if an entry that was there before can no longer be read, and with the errors of `sink`.
    pub fn read<E: From<JournalError>>(&mut self, sink: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let found = Scan::run(self.file.file(), self.path(), self.format, sink)?;
        if found.entries < self.entries {
            let problem = format!("damaged: {} of {} entries can be read", found.entries, self.entries);
            return Err(JournalError::Entry { path: self.path().into(), problem }.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
