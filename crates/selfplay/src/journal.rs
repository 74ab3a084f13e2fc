//! An append-only file of checksummed blocks, from which a run resumes: a killed run loses no more than the
//! block it was working on.
//!
//! Labels and tunings use it. The first block describes the run in text, so that a run with other settings is
//! refused.

use crate::error::SelfPlayError;
use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes before each block: its length and its checksum.
const FRAME: usize = 16;
/// Largest block in bytes; a larger length is taken for damage.
pub(crate) const MAX_BLOCK: u64 = 1 << 24;

/// First bytes of a journal, which tell its kind.
pub(crate) type Magic = [u8; 8];

/// A journal that is open for appending. The first block describes the run. A file lock keeps other runs from
/// writing to it.
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    magic: Magic,
    /// Number of blocks after the description.
    pub(crate) blocks: u64,
}

/// Locks a file against other runs for as long as it is open.
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), SelfPlayError> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(SelfPlayError::File { path: path.into(), problem: "in use by another run".into() })
        }
        // A file system without locks cannot protect the file, which is not a reason to refuse the work.
        _ => Ok(()),
    }
}

/// Checksum of a block; not zero for an empty one, because a file system may fill the end of a file with
/// zeros, which must not pass for a block.
fn checksum(bytes: &[u8]) -> u64 {
    !tandem_util::checksum::checksum(bytes)
}

/// Result of reading the next block.
enum NextBlock {
    /// A complete block with a correct checksum.
    Block(Vec<u8>),
    /// The end of the file, or a block that was not written completely.
    End,
    /// A block whose content differs from what was written.
    Damaged,
}

fn read_block(input: &mut impl Read) -> io::Result<NextBlock> {
    let mut frame = [0; FRAME];
    let mut full = |bytes: &mut [u8]| match input.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    };
    if !full(&mut frame)? {
        return Ok(NextBlock::End);
    }
    let number = |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().unwrap_or_default());
    let (len, sum) = (number(0), number(8));
    if frame == [0; FRAME] {
        return Ok(NextBlock::End);
    }
    if len > MAX_BLOCK {
        return Ok(NextBlock::Damaged);
    }
    let mut bytes = vec![0; len as usize];
    Ok(match full(&mut bytes)? {
        false => NextBlock::End,
        true if checksum(&bytes) == sum => NextBlock::Block(bytes),
        true => NextBlock::Damaged,
    })
}

/// Result of scanning a journal.
#[derive(Default)]
struct ScanResult {
    about: Option<Vec<u8>>,
    blocks: u64,
    /// Offset at which the last valid block ends.
    end: u64,
    /// True if the bytes behind that were written completely and have changed since.
    is_damaged: bool,
}

/// Passes valid blocks to `sink`, up to the first that is not.
fn scan(
    file: &File,
    path: &Path,
    magic: Magic,
    mut sink: impl FnMut(&[u8]) -> Result<(), SelfPlayError>,
) -> Result<ScanResult, SelfPlayError> {
    let mut input = BufReader::new(file);
    input.seek(SeekFrom::Start(0)).map_err(SelfPlayError::io(path))?;
    let mut found = ScanResult::default();
    let mut start = Magic::default();
    if input.read_exact(&mut start).is_err() || start != magic {
        return Ok(found);
    }
    found.end = magic.len() as u64;
    loop {
        let bytes = match read_block(&mut input).map_err(SelfPlayError::io(path))? {
            NextBlock::Block(bytes) => bytes,
            NextBlock::End => return Ok(found),
            NextBlock::Damaged => {
                // The last block may be incomplete, or filled with zeros by a file system that lost the rest.
                let mut rest = Vec::new();
                input.take(MAX_BLOCK).read_to_end(&mut rest).map_err(SelfPlayError::io(path))?;
                found.is_damaged = rest.iter().any(|byte| *byte != 0);
                return Ok(found);
            }
        };
        found.end += (FRAME + bytes.len()) as u64;
        if found.about.is_none() {
            found.about = Some(bytes);
        } else {
            found.blocks += 1;
            sink(&bytes)?;
        }
    }
}

/// A block with its length and checksum.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(FRAME + bytes.len());
    block.extend((bytes.len() as u64).to_le_bytes());
    block.extend(checksum(bytes).to_le_bytes());
    block.extend(bytes);
    block
}

/// True if a file without a valid first block holds only the beginning of this journal, because its first
/// write was cut short.
fn is_truncated_start(mut file: &File, start: &[u8]) -> io::Result<bool> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(MAX_BLOCK).read_to_end(&mut bytes)?;
    // Zeros at the end were put there by the file system.
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    Ok(start.starts_with(&bytes[..len]))
}

/// Reads a journal that another run may be writing. Returns its description, or `None` if it is of another
/// kind.
///
/// # Errors
///
/// Fails if the file cannot be read or a block within it is damaged.
pub(crate) fn read_unlocked(
    path: &Path,
    magic: Magic,
    sink: impl FnMut(&[u8]) -> Result<(), SelfPlayError>,
) -> Result<Option<String>, SelfPlayError> {
    let file = File::open(path).map_err(SelfPlayError::io(path))?;
    let found = scan(&file, path, magic, sink)?;
    if found.is_damaged {
        return Err(SelfPlayError::File {
            path: path.into(),
            problem: format!(
                "damaged at byte {}; bring back a copy, or move it away to begin anew",
                found.end
            ),
        });
    }
    Ok(found.about.map(|about| String::from_utf8_lossy(&about).into_owned()))
}

impl Journal {
    /// Opens a journal for appending, or creates it.
    ///
    /// # Errors
    ///
    /// Fails if the file belongs to a run with another description, is locked, damaged, or not a journal.
    pub(crate) fn open(path: &Path, magic: Magic, about: &str) -> Result<Self, SelfPlayError> {
        let refuse = |problem: String| SelfPlayError::File { path: path.into(), problem };
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = opened.map_err(SelfPlayError::io(path))?;
        lock(&file, path)?;
        let len = file.metadata().map_err(SelfPlayError::io(path))?.len();
        let found = scan(&file, path, magic, |_| Ok(()))?;
        let fresh = found.about.is_none();
        let start = [&magic[..], &framed(about.as_bytes())].concat();
        // A killed run leaves less than one block behind the last valid one. Anything longer was not written
        // by this program.
        let torn = len.saturating_sub(found.end);
        let foreign = fresh && !is_truncated_start(&file, &start).map_err(SelfPlayError::io(path))?;
        if foreign || found.is_damaged || torn > FRAME as u64 + MAX_BLOCK {
            return Err(refuse(format!(
                "no journal of this kind, or damaged at byte {}; move it away to begin anew",
                found.end
            )));
        }
        if let Some(known) = &found.about
            && known != about.as_bytes()
        {
            let known = String::from_utf8_lossy(known);
            let (then, now) = difference(&known, about);
            return Err(refuse(format!(
                "begun with other settings (then {then}; now {now}); use those, or remove the file"
            )));
        }
        let end = if fresh { 0 } else { found.end };
        let cut = file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end)));
        cut.map_err(SelfPlayError::io(path))?;
        if fresh {
            file.write_all(&start).map_err(SelfPlayError::io(path))?;
        }
        Ok(Self { file, path: path.into(), magic, blocks: found.blocks })
    }

    /// Appends a block.
    ///
    /// # Errors
    ///
    /// Fails if the block is longer than [`MAX_BLOCK`] or the disk is full.
    pub(crate) fn add(&mut self, block: &[u8]) -> Result<(), SelfPlayError> {
        if block.len() as u64 > MAX_BLOCK {
            let problem = format!("a block of {} bytes, where {MAX_BLOCK} are the most", block.len());
            return Err(SelfPlayError::File { path: self.path.clone(), problem });
        }
        self.file.write_all(&framed(block)).map_err(SelfPlayError::io(&self.path))?;
        self.blocks += 1;
        Ok(())
    }

    /// Passes all blocks to `sink`, in order.
    ///
    /// # Errors
    ///
    /// Fails if a block that was there at opening can no longer be read.
    pub(crate) fn read(
        &mut self,
        sink: impl FnMut(&[u8]) -> Result<(), SelfPlayError>,
    ) -> Result<(), SelfPlayError> {
        let found = scan(&self.file, &self.path, self.magic, sink)?;
        if found.blocks < self.blocks {
            let problem = format!("damaged: {} of {} blocks can be read", found.blocks, self.blocks);
            return Err(SelfPlayError::File { path: self.path.clone(), problem });
        }
        self.file.seek(SeekFrom::Start(found.end)).map_err(SelfPlayError::io(&self.path))?;
        Ok(())
    }
}

/// First lines in which two texts differ.
fn difference<'a>(then: &'a str, now: &'a str) -> (&'a str, &'a str) {
    let (mut then, mut now) = (then.lines(), now.lines());
    loop {
        match (then.next(), now.next()) {
            (Some(then), Some(now)) if then == now => {}
            (then, now) => return (then.unwrap_or("nothing"), now.unwrap_or("nothing")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_could_not_be_read_is_not_written() {
        let path = std::env::temp_dir().join(format!("tandem-journal-{}", std::process::id()));
        let mut journal = Journal::open(&path, *b"A_TEST_1", "blocks").unwrap();
        let longest = vec![7u8; MAX_BLOCK as usize];
        journal.add(&longest).unwrap();
        let error = journal.add(&[&longest[..], &[7]].concat()).unwrap_err().to_string();
        assert!(error.contains("a block of 16777217 bytes"), "{error}");
        journal.add(b"short").unwrap();
        drop(journal);
        assert_eq!(Journal::open(&path, *b"A_TEST_1", "blocks").unwrap().blocks, 2);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn incomplete_blocks_are_dropped_and_foreign_files_are_kept() {
        let path = std::env::temp_dir().join(format!("tandem-torn-journal-{}", std::process::id()));
        let open = || Journal::open(&path, *b"A_TEST_1", "blocks");
        let mut journal = open().unwrap();
        for block in [&b"first"[..], b"", b"third"] {
            journal.add(block).unwrap();
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        // Truncated anywhere, or filled with zeros by a file system that lost the rest.
        for len in 0..whole.len() {
            for tail in [0, 1, 16, 100] {
                std::fs::write(&path, [&whole[..len], &vec![0; tail]].concat()).unwrap();
                let blocks = open().unwrap_or_else(|error| panic!("{len} and {tail}: {error}")).blocks;
                assert!(blocks < 3, "{len} and {tail}");
                assert!(whole.starts_with(&std::fs::read(&path).unwrap()));
            }
        }
        // Damage in complete blocks with others behind them: in the content of the first, and in its length.
        let [number, length] = [8 + 16 + 6 + 16, 8 + 16 + 6 + 7].map(|at| {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            damaged
        });
        for foreign in [&number[..], &length, b"x", b"A_TEST_2 and something short", &[7; 200]] {
            std::fs::write(&path, foreign).unwrap();
            let error = open().err().expect("refused").to_string();
            assert!(error.contains("move it away"), "{error}");
            let outcome = read_unlocked(&path, *b"A_TEST_1", |_| Ok(()));
            assert!(outcome.is_err() || outcome.unwrap().is_none());
            assert_eq!(std::fs::read(&path).unwrap(), foreign);
        }
        std::fs::remove_file(path).unwrap();
    }
}
