//! Formats of entries in a journal.

use crate::checksum::checksum;
use std::io::{self, BufRead, ErrorKind};

/// Bytes before each block: its length and its checksum.
const FRAME: usize = 16;
/// Largest block in bytes; a larger length is taken for damage.
pub const MAX_BLOCK: u64 = 1 << 24;

/// Format of the entries in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalFormat {
    /// Lines of text, each of which ends with a line break. A line without one is incomplete.
    Lines {
        /// Text with which each header begins, so that a file of another kind is not taken for an incomplete
        /// journal.
        start: &'static [u8],
    },
    /// Blocks of bytes, each after its length and its checksum.
    Blocks {
        /// First bytes of the file, which tell its kind.
        magic: &'static [u8; 8],
    },
}

/// Result of reading the next entry.
pub(super) enum NextEntry {
    /// A complete entry, with a correct checksum if there is one.
    Entry(Vec<u8>),
    /// The end of the file, or an entry that was not written completely.
    End,
    /// An entry whose content differs from what was written.
    Damaged,
}

impl JournalFormat {
    /// Bytes before the first entry.
    pub(super) fn magic(&self) -> &'static [u8] {
        match self {
            Self::Lines { .. } => b"",
            Self::Blocks { magic } => *magic,
        }
    }

    /// An entry as bytes of the file.
    pub(super) fn framed(&self, entry: &[u8]) -> Vec<u8> {
        match self {
            Self::Lines { .. } => [entry, b"\n"].concat(),
            Self::Blocks { .. } => {
                let (len, sum) = (entry.len() as u64, block_checksum(entry));
                [&len.to_le_bytes(), &sum.to_le_bytes(), entry].concat()
            }
        }
    }

    /// Length of an entry in the file, in bytes.
    pub(super) fn framed_len(&self, entry: &[u8]) -> u64 {
        let frame = match self {
            Self::Lines { .. } => 1,
            Self::Blocks { .. } => FRAME,
        };
        (frame + entry.len()) as u64
    }

    /// Maximum length of an entry in the file, if there is one.
    pub(super) fn max_framed_len(&self) -> Option<u64> {
        match self {
            Self::Lines { .. } => None,
            Self::Blocks { .. } => Some(FRAME as u64 + MAX_BLOCK),
        }
    }

    /// Reason for which an entry could not be read again, if there is one.
    pub(super) fn refuses(&self, entry: &[u8]) -> Option<String> {
        match self {
            Self::Lines { .. } => entry.contains(&b'\n').then(|| "a line with a line break in it".into()),
            Self::Blocks { .. } => (entry.len() as u64 > MAX_BLOCK)
                .then(|| format!("a block of {} bytes, where {MAX_BLOCK} are the most", entry.len())),
        }
    }

    /// True if the contents of a file without a header can be what a killed process left of `start`, the
    /// beginning of a journal. An empty file can.
    pub(super) fn is_torn_start(&self, found: &[u8], start: &[u8]) -> bool {
        match self {
            // The rest of the line may differ, because the settings of the work may have changed.
            Self::Lines { start } => {
                let len = found.len().min(start.len());
                found[..len] == start[..len]
            }
            Self::Blocks { .. } => start.starts_with(found),
        }
    }

    pub(super) fn next(&self, input: &mut impl BufRead) -> io::Result<NextEntry> {
        match self {
            Self::Lines { .. } => next_line(input),
            Self::Blocks { .. } => next_block(input),
        }
    }
}

fn next_line(input: &mut impl BufRead) -> io::Result<NextEntry> {
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line)?;
    Ok(if line.pop() == Some(b'\n') { NextEntry::Entry(line) } else { NextEntry::End })
}

fn next_block(input: &mut impl BufRead) -> io::Result<NextEntry> {
    let mut frame = [0; FRAME];
    let mut full = |bytes: &mut [u8]| match input.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    };
    if !full(&mut frame)? || frame == [0; FRAME] {
        return Ok(NextEntry::End);
    }
    let number = |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().unwrap_or_default());
    let (len, sum) = (number(0), number(8));
    if len > MAX_BLOCK {
        return Ok(NextEntry::Damaged);
    }
    let mut bytes = vec![0; len as usize];
    Ok(match full(&mut bytes)? {
        false => NextEntry::End,
        true if block_checksum(&bytes) == sum => NextEntry::Entry(bytes),
        true => NextEntry::Damaged,
    })
}

/// Checksum of a block; not zero for an empty one, because a file system may fill the end of a file with
/// zeros, which must not pass for a block.
fn block_checksum(bytes: &[u8]) -> u64 {
    !checksum(bytes)
}
