//! Formats of entries in a journal.

use crate::checksum::{checksum, crc32c};
use std::io::{self, BufRead, ErrorKind};

/// Bytes before each block: its length with a checksum of the length, and the checksum of its content.
const FRAME: usize = 16;
/// Largest block in bytes; a larger length is taken for damage.
pub const MAX_BLOCK: u64 = 1 << 24;
/// End of a line: its checksum as the last member of the JSON object, between these two texts.
const LINE_CHECKSUM: (&[u8], &[u8]) = (b",\"checksum\":\"", b"\"}");
/// Hexadecimal digits of the checksum of a line.
const DIGITS: usize = 16;

/// Format of the entries in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalFormat {
    /// Lines of text, each a JSON object that ends with a line break. A line without one is incomplete. The
    /// last member of each object is its checksum, which this module adds and removes; earlier versions wrote
    /// none.
    Lines {
        /// Text with which each header begins, so that a file of another kind is not taken for an incomplete
        /// journal.
        start: &'static [u8],
    },
    /// Blocks of bytes, each after its length and its checksum. Earlier versions wrote lengths without a
    /// checksum of their own.
    Blocks {
        /// First bytes of the file, which tell its kind.
        magic: &'static [u8; 8],
    },
}

/// Result of reading the next entry.
pub(super) enum NextEntry {
    /// A complete entry, with a correct checksum if there is one.
    Entry(FramedEntry),
    /// The end of the file, or an entry that was not written completely.
    End,
    /// An entry whose content differs from what was written.
    Damaged,
}

/// An entry as it was read.
pub(super) struct FramedEntry {
    pub(super) bytes: Vec<u8>,
    /// Length in the file, in bytes.
    pub(super) framed_len: u64,
    /// False for entries of earlier versions, in which some damage may go unnoticed.
    pub(super) is_checked: bool,
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
            Self::Lines { .. } => {
                let object = entry.strip_suffix(b"}").unwrap_or(entry);
                let sum = format!("{:016x}", checksum(object));
                [object, LINE_CHECKSUM.0, sum.as_bytes(), LINE_CHECKSUM.1, b"\n"].concat()
            }
            Self::Blocks { .. } => {
                let (len, sum) = (entry.len() as u64, block_checksum(entry));
                let checked = len | u64::from(length_checksum(len as u32)) << 32;
                [&checked.to_le_bytes(), &sum.to_le_bytes(), entry].concat()
            }
        }
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
            Self::Lines { .. } if entry.contains(&b'\n') => Some("a line with a line break in it".into()),
            Self::Lines { .. } => (!entry.ends_with(b"}")).then(|| "a line that is not a JSON object".into()),
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
    let framed_len = line.len() as u64;
    if line.pop() != Some(b'\n') {
        return Ok(NextEntry::End);
    }
    let Some((object, stated)) = split_checksum(&line) else {
        if resembles_checksum(&line) {
            return Ok(NextEntry::Damaged);
        }
        return Ok(NextEntry::Entry(FramedEntry { bytes: line, framed_len, is_checked: false }));
    };
    if stated != format!("{:016x}", checksum(object)).as_bytes() {
        return Ok(NextEntry::Damaged);
    }
    let bytes = [object, b"}"].concat();
    Ok(NextEntry::Entry(FramedEntry { bytes, framed_len, is_checked: true }))
}

/// A line without its checksum and its closing brace, and the digits of the checksum.
fn split_checksum(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_suffix(LINE_CHECKSUM.1)?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    Some((rest.strip_suffix(LINE_CHECKSUM.0)?, digits))
}

/// True if the end of a line is almost that of one with a checksum, so that it is not a line of an earlier version.
fn resembles_checksum(line: &[u8]) -> bool {
    let expected = [LINE_CHECKSUM.0, &[b'0'; DIGITS], LINE_CHECKSUM.1].concat();
    let Some((_, end)) = line.split_at_checked(line.len().saturating_sub(expected.len())) else {
        return false;
    };
    let differing =
        end.iter().zip(&expected).filter(|(found, expected)| **expected != b'0' && found != expected);
    end.len() == expected.len() && differing.count() <= 3
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
    let (len, len_sum, sum) = (number(0) as u32, (number(0) >> 32) as u32, number(8));
    let is_checked = len_sum != 0;
    if u64::from(len) > MAX_BLOCK || is_checked && len_sum != length_checksum(len) {
        return Ok(NextEntry::Damaged);
    }
    let mut bytes = vec![0; len as usize];
    Ok(match full(&mut bytes)? {
        false => NextEntry::End,
        true if block_checksum(&bytes) == sum => {
            let framed_len = FRAME as u64 + u64::from(len);
            NextEntry::Entry(FramedEntry { bytes, framed_len, is_checked })
        }
        true => NextEntry::Damaged,
    })
}

/// Checksum of a block's length, which tells a length that was changed from that of a block which is cut short.
/// It is never zero, because earlier versions wrote zeros in its place.
fn length_checksum(len: u32) -> u32 {
    crc32c(&len.to_le_bytes()) | 1
}

/// Checksum of a block; not zero for an empty one, because a file system may fill the end of a file with
/// zeros, which must not pass for a block.
fn block_checksum(bytes: &[u8]) -> u64 {
    !checksum(bytes)
}
