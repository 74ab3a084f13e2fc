//! What is done so far, on the disk in whole blocks: a run that is killed loses no more than the block in hand.

use crate::error::SelfPlayError;
use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The length and the checksum of a block.
const FRAME: usize = 16;
/// No block is longer.
pub(crate) const MAX_BLOCK: u64 = 1 << 24;

/// What kind of journal a file is: its first bytes.
pub(crate) type Magic = [u8; 8];

/// Blocks, one after the other. The first says what they are about. Nobody else writes the file while this lives.
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    magic: Magic,
    /// Blocks that are there.
    pub(crate) blocks: u64,
}

/// Sees to it that nobody else writes a file while it is open.
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), SelfPlayError> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(SelfPlayError::File { path: path.into(), problem: "in use by another run".into() })
        }
        // A file system that knows no locks cannot guard the file; that is no reason to refuse the work.
        _ => Ok(()),
    }
}

/// Never zero for a block of nothing: what a file system fills a file up with is no block.
fn checksum(bytes: &[u8]) -> u64 {
    !tandem_chess::checksum(bytes)
}

/// What comes next in a journal.
enum Next {
    /// A whole block.
    Block(Vec<u8>),
    /// The end, or a block that was never written to its end.
    End,
    /// A block that is not what was written.
    Damaged,
}

fn read_block(input: &mut impl Read) -> io::Result<Next> {
    let mut frame = [0; FRAME];
    let mut full = |bytes: &mut [u8]| match input.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    };
    if !full(&mut frame)? {
        return Ok(Next::End);
    }
    let number = |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().unwrap_or_default());
    let (len, sum) = (number(0), number(8));
    if frame == [0; FRAME] {
        return Ok(Next::End);
    }
    if len > MAX_BLOCK {
        return Ok(Next::Damaged);
    }
    let mut bytes = vec![0; len as usize];
    Ok(match full(&mut bytes)? {
        false => Next::End,
        true if checksum(&bytes) == sum => Next::Block(bytes),
        true => Next::Damaged,
    })
}

/// What was found in a journal.
#[derive(Default)]
struct Found {
    about: Option<Vec<u8>>,
    blocks: u64,
    /// Where the last whole block ends.
    end: u64,
    /// What is behind it was written whole, and is no longer what it was.
    is_damaged: bool,
}

/// Hands out whole blocks up to the first that is not.
fn scan(
    file: &File,
    path: &Path,
    magic: Magic,
    mut sink: impl FnMut(&[u8]) -> Result<(), SelfPlayError>,
) -> Result<Found, SelfPlayError> {
    let mut input = BufReader::new(file);
    input.seek(SeekFrom::Start(0)).map_err(SelfPlayError::io(path))?;
    let mut found = Found::default();
    let mut start = Magic::default();
    if input.read_exact(&mut start).is_err() || start != magic {
        return Ok(found);
    }
    found.end = magic.len() as u64;
    loop {
        let bytes = match read_block(&mut input).map_err(SelfPlayError::io(path))? {
            Next::Block(bytes) => bytes,
            Next::End => return Ok(found),
            Next::Damaged => {
                // The last block may be half written, or filled up with zeros by a file system that lost the rest.
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

/// A block as it is written.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(FRAME + bytes.len());
    block.extend((bytes.len() as u64).to_le_bytes());
    block.extend(checksum(bytes).to_le_bytes());
    block.extend(bytes);
    block
}

/// Whether a file that has no whole first block was begun so, and never came further.
fn is_begun_so(mut file: &File, start: &[u8]) -> io::Result<bool> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(MAX_BLOCK).read_to_end(&mut bytes)?;
    // Zeros at its end are none of ours.
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    Ok(start.starts_with(&bytes[..len]))
}

/// Reads a journal that others may be writing. Returns what it is about; None if it is of another kind.
pub(crate) fn look(
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
    /// Opens a journal, or begins it. One that is about something else is refused.
    pub(crate) fn open(path: &Path, magic: Magic, about: &str) -> Result<Self, SelfPlayError> {
        let refuse = |problem: String| SelfPlayError::File { path: path.into(), problem };
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = opened.map_err(SelfPlayError::io(path))?;
        lock(&file, path)?;
        let len = file.metadata().map_err(SelfPlayError::io(path))?.len();
        let found = scan(&file, path, magic, |_| Ok(()))?;
        let fresh = found.about.is_none();
        let start = [&magic[..], &framed(about.as_bytes())].concat();
        // A run that was killed leaves less than a block behind the last whole one. Anything else was not left by us.
        let torn = len.saturating_sub(found.end);
        let foreign = fresh && !is_begun_so(&file, &start).map_err(SelfPlayError::io(path))?;
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

    /// Adds a block.
    pub(crate) fn add(&mut self, block: &[u8]) -> Result<(), SelfPlayError> {
        if block.len() as u64 > MAX_BLOCK {
            let problem = format!("a block of {} bytes, where {MAX_BLOCK} are the most", block.len());
            return Err(SelfPlayError::File { path: self.path.clone(), problem });
        }
        self.file.write_all(&framed(block)).map_err(SelfPlayError::io(&self.path))?;
        self.blocks += 1;
        Ok(())
    }

    /// Hands out all blocks.
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

/// The first line in which two texts differ.
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
    fn what_was_not_written_is_no_block_and_what_is_not_ours_stays() {
        let path = std::env::temp_dir().join(format!("tandem-torn-journal-{}", std::process::id()));
        let open = || Journal::open(&path, *b"A_TEST_1", "blocks");
        let mut journal = open().unwrap();
        for block in [&b"first"[..], b"", b"third"] {
            journal.add(block).unwrap();
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        // Cut short anywhere, or filled up with zeros by a file system that lost the rest.
        for len in 0..whole.len() {
            for tail in [0, 1, 16, 100] {
                std::fs::write(&path, [&whole[..len], &vec![0; tail]].concat()).unwrap();
                let blocks = open().unwrap_or_else(|error| panic!("{len} and {tail}: {error}")).blocks;
                assert!(blocks < 3, "{len} and {tail}");
                assert!(whole.starts_with(&std::fs::read(&path).unwrap()));
            }
        }
        // Blocks that were whole, and more behind them: a number of the first, and its length.
        let [number, length] = [8 + 16 + 6 + 16, 8 + 16 + 6 + 7].map(|at| {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            damaged
        });
        for foreign in [&number[..], &length, b"x", b"A_TEST_2 and something short", &[7; 200]] {
            std::fs::write(&path, foreign).unwrap();
            let error = open().err().expect("refused").to_string();
            assert!(error.contains("move it away"), "{error}");
            let looked = look(&path, *b"A_TEST_1", |_| Ok(()));
            assert!(looked.is_err() || looked.unwrap().is_none());
            assert_eq!(std::fs::read(&path).unwrap(), foreign);
        }
        std::fs::remove_file(path).unwrap();
    }
}
