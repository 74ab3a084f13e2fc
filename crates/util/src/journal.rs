//! Append-only journals, from which work that was killed resumes: it loses no more than the entry that it was
//! writing.
//!
//! The first entry of a journal is its header, which identifies the work that the others belong to. Entries are
//! either lines of JSON or blocks of bytes, each with a checksum ([`JournalFormat`]). An entry at the end that is
//! incomplete or damaged, as after a crash, is removed with a notice, and its work is done again. Damage with further
//! entries behind it is an error. A journal is locked as long as it is open, and nothing in it is removed before its
//! user has accepted the header:
//!
//! ```
//! use tandem_util::journal::{Journal, JournalFormat, JournalError};
//!
//! let path = std::env::temp_dir().join(format!("tandem-journal-example-{}", std::process::id()));
//! const FORMAT: JournalFormat = JournalFormat::Lines { start: b"{\"squares\":" };
//!
//! let found = Journal::open(&path, FORMAT)?;
//! assert!(found.header().is_none(), "nothing was done before");
//! let mut journal = found.resume(b"{\"squares\":\"of numbers\"}")?;
//! for number in 0..3 {
//!     journal.append(format!("{{\"square\":{}}}", number * number).as_bytes())?;
//! }
//! drop(journal); // Killed.
//!
//! let found = Journal::open(&path, FORMAT)?;
//! assert_eq!(found.header(), Some(&b"{\"squares\":\"of numbers\"}"[..]));
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
    #[error("{}: {}", path.display(), describe_damage(*entries, *end))]
    Damaged {
        /// Path of the journal.
        path: PathBuf,
        /// Number of valid entries before the damage, the header included.
        entries: u64,
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

fn describe_damage(entries: u64, end: u64) -> String {
    match entries {
        0 => "no journal of this kind, or its beginning is damaged; move it away to begin anew".into(),
        _ => format!(
            "damaged at byte {end}, in entry {entries}, and more follows; `truncate -s {end}` keeps what is before it, or move \
             it away to begin anew"
        ),
    }
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
    notices: Vec<String>,
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
    /// True if the last valid entry has a checksum; later ones must have one too.
    is_checked: bool,
    /// True if an entry has none, because an earlier version wrote it.
    has_unchecked: bool,
}

impl Scan {
    /// Reads a journal up to a number of entries and passes every entry after the header to `sink`.
    fn run<E: From<JournalError>>(
        file: &File,
        path: &Path,
        format: JournalFormat,
        max_entries: u64,
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
        while found.header.is_none() || found.entries < max_entries {
            let entry = match format.next(&mut input).map_err(JournalError::io(path))? {
                // Damage to the name of a checksum would make an entry look like one of an earlier version.
                NextEntry::Entry(entry) if entry.is_checked || !found.is_checked => entry,
                NextEntry::End => return Ok(found),
                NextEntry::Entry(_) | NextEntry::Damaged => {
                    // The last entry may be incomplete, or filled with zeros by a file system that lost the rest.
                    let mut rest = Vec::new();
                    input.take(MAX_BLOCK).read_to_end(&mut rest).map_err(JournalError::io(path))?;
                    // The start of a block cannot be distinguished from damage until the header is known.
                    let is_header_line =
                        found.header.is_none() && matches!(format, JournalFormat::Lines { .. });
                    found.is_damaged = is_header_line || rest.iter().any(|byte| *byte != 0);
                    return Ok(found);
                }
            };
            found.end += entry.framed_len;
            found.is_checked = entry.is_checked;
            found.has_unchecked |= !entry.is_checked;
            if found.header.is_none() {
                found.header = Some(entry.bytes);
            } else {
                found.entries += 1;
                sink(&entry.bytes)?;
            }
        }
        Ok(found)
    }
}

impl Scan {
    fn damaged(&self, path: &Path) -> JournalError {
        let entries = self.entries + u64::from(self.header.is_some());
        JournalError::Damaged { path: path.into(), entries, end: self.end }
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
        Scan::run(self.file.file(), self.file.path(), self.format, u64::MAX, sink).map(|_| ())
    }

    /// Removes an incomplete last entry and continues after the entry before it. A new journal begins with
    /// `header`; an existing one keeps its own.
    ///
    /// # Errors
    ///
    /// Fails if the file has no header and holds something else than the beginning of one, or cannot be written.
    pub fn resume(self, header: &[u8]) -> Result<Journal, JournalError> {
        let Self { mut file, format, scan } = self;
        let mut notices = Vec::new();
        if scan.header.is_some() {
            if file.end() > scan.end {
                notices.push(format!(
                    "{}: the last entry is incomplete or damaged, as after a crash; its {} bytes are removed and its work is \
                     done again",
                    file.path().display(),
                    file.end() - scan.end
                ));
            }
            if scan.has_unchecked {
                notices.push(format!(
                    "{}: begun by an earlier version without checksums, so damage may go unnoticed",
                    file.path().display()
                ));
            }
            file.cut(scan.end)?;
        } else {
            let start = [format.magic(), &format.framed(header)].concat();
            let found = read_start(file.file()).map_err(JournalError::io(file.path()))?;
            if !format.is_torn_start(&found, &start) {
                return Err(scan.damaged(file.path()));
            }
            file.cut(0)?;
            file.append(&start)?;
        }
        Ok(Journal { file, format, entries: scan.entries, notices })
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
        let scan = Scan::run(file.file(), path, format, u64::MAX, |_| Ok::<(), JournalError>(()))?;
        // A killed process leaves less than one entry behind the last valid one. A longer rest was not written by
        // this program.
        if scan.is_damaged || format.max_framed_len().is_some_and(|most| file.end() - scan.end > most) {
            return Err(scan.damaged(path));
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
        let scan = Scan::run(&file, path, format, u64::MAX, sink)?;
        if scan.is_damaged {
            return Err(scan.damaged(path).into());
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

    /// Sentences for the user about the journal as it was found: an entry that was removed, missing checksums.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Appends an entry. After a failure the file ends with the entry before it.
    ///
    /// # Errors
    ///
    /// Fails if the disk is full, or if the entry is one that could not be read again: a line that is not a JSON
    /// object or has a line break in it, or a block of more than [`MAX_BLOCK`] bytes.
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

    /// Removes all but the first entries, for work that another file has lost.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or truncated.
    pub fn truncate(&mut self, entries: u64) -> Result<(), JournalError> {
        let kept =
            Scan::run(self.file.file(), self.path(), self.format, entries, |_| Ok::<(), JournalError>(()))?;
        self.entries = kept.entries;
        self.file.cut(kept.end)
    }

    /// Passes all entries after the header to `sink`, in order.
    ///
    /// # Errors
    ///
    /// Fails if an entry that was there before can no longer be read, and with the errors of `sink`.
    pub fn read<E: From<JournalError>>(&mut self, sink: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let found = Scan::run(self.file.file(), self.path(), self.format, u64::MAX, sink)?;
        if found.entries < self.entries {
            let problem = format!("damaged: {} of {} entries can be read", found.entries, self.entries);
            return Err(JournalError::Entry { path: self.path().into(), problem }.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
