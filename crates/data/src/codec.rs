//! The traits that a format implements: cutting a stream into blocks, decoding a block, encoding records.
//!
//! A stream is cut into blocks that can be decoded alone, each on whatever thread is free. A [`Cut`] knows
//! where blocks end and nothing else; [`Codec::decode`] knows what is in them and keeps nothing between them;
//! an [`Encode`] writes records one after the other and may wait for the rest of a game.

use crate::changes::Changes;
use crate::record::Record;
use std::io::{self, BufRead};
use thiserror::Error;

/// A fault in a part of a file, relative to the block in which it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Offset of the fault in bytes from the start of the block.
    pub byte: usize,
    /// Reason, without file and place, which the reader adds.
    pub text: String,
    /// True if the rest of a game or of a block is lost with it, because the number of records in it cannot
    /// be known.
    pub with_rest: bool,
}

impl Problem {
    /// A fault with its reason. Reasons quote the file, where a line may have a megabyte, so the middle of a long one
    /// is left out.
    pub(crate) fn new(byte: usize, text: impl Into<String>) -> Self {
        Self { byte, text: shortened(text.into()), with_rest: false }
    }
}

/// Text in which ... replaces the middle if it has more than [`MAX_REASON`] bytes.
fn shortened(mut text: String) -> String {
    if text.len() > MAX_REASON {
        let (start, end) =
            (text.floor_char_boundary(MAX_REASON / 2), text.ceil_char_boundary(text.len() - MAX_REASON / 2));
        text.replace_range(start..end, " ... ");
    }
    text
}

/// Largest length in bytes of a reason that is printed whole.
const MAX_REASON: usize = 400;

/// Result of decoding a block: its records, and the faults between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Decoded {
    /// Records that could be read, in file order.
    pub records: Vec<Record>,
    /// Faults, each with the number of records decoded before it, from which its record number follows.
    pub problems: Vec<(usize, Problem)>,
    /// Values that were rounded or clipped.
    pub changes: Changes,
}

impl Decoded {
    /// Notes that one record could not be read.
    pub(crate) fn fail(&mut self, byte: usize, text: impl Into<String>) {
        self.problems.push((self.records.len(), Problem::new(byte, text)));
    }

    /// Notes that a record could not be read and that an unknown number of records after it is lost as well.
    pub(crate) fn fail_with_rest(&mut self, byte: usize, text: impl Into<String>) {
        self.problems.push((self.records.len(), Problem { with_rest: true, ..Problem::new(byte, text) }));
    }
}

/// Approximate block length in bytes where a format leaves the choice: long enough to hide the cost of a
/// queue, short enough that all threads have work.
pub(crate) const BLOCK: usize = 256 << 10;

/// Cuts a stream into blocks that can be decoded independently of each other.
pub(crate) trait Cut: Send {
    /// Puts the next block into `block`, which must be empty; returns false at the end of the stream. What
    /// precedes a fault is returned as a block, and the fault follows with the next call, which ends the
    /// stream.
    fn next(&mut self, input: &mut dyn BufRead, block: &mut Vec<u8>) -> io::Result<Result<bool, Problem>>;

    /// Length of a block in the file in bytes, which differs from the buffer's where a cut adds or drops
    /// something.
    fn length(&self, block: &[u8]) -> u64 {
        block.len() as u64
    }

    /// Skips this number of bytes after the first block; another block must begin there.
    fn skip_to(&mut self, input: &mut dyn BufRead, bytes: u64) -> io::Result<()> {
        let skipped = io::copy(&mut io::Read::take(input, bytes), &mut io::sink())?;
        if skipped == bytes { Ok(()) } else { Err(io::Error::other("the file is shorter than it was")) }
    }
}

/// A format that can be read: a way to cut it and a way to decode one block.
pub(crate) trait Codec: Send + Sync {
    fn cut(&self) -> Box<dyn Cut>;
    fn decode(&self, block: &[u8], out: &mut Decoded);
}

/// Reason for which a record cannot be stored in a format: it has a field that the format has no place for,
/// or lacks one that it requires.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Unsupported(pub String);

/// Writes records in a format. A record is either appended at once or held back until its game is complete.
pub(crate) trait Encode: Send {
    /// Adds a record. Bytes that are ready to be written are appended to `out`.
    fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unsupported>;

    /// Ends the stream: appends everything that was held back.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        let _ = out;
        Ok(())
    }
}

/// Cuts a stream of fixed-size records into blocks of whole records.
pub(crate) struct FixedCut {
    pub(crate) size: usize,
}

impl Cut for FixedCut {
    fn next(&mut self, input: &mut dyn BufRead, block: &mut Vec<u8>) -> io::Result<Result<bool, Problem>> {
        let wanted = (BLOCK / self.size).max(1) * self.size;
        read_up_to(input, block, wanted)?;
        Ok(Ok(!block.is_empty()))
    }
}

/// Decodes a block of fixed-size records, each independently, so that a broken one does not affect its
/// neighbours.
pub(crate) fn decode_fixed<const SIZE: usize>(
    block: &[u8],
    out: &mut Decoded,
    decode: impl Fn(&[u8; SIZE]) -> Result<Record, &'static str>,
) {
    let (records, rest) = block.as_chunks::<SIZE>();
    out.records.reserve(records.len());
    for (number, record) in records.iter().enumerate() {
        match decode(record) {
            Ok(record) => out.records.push(record),
            Err(problem) => out.fail(number * SIZE, problem),
        }
    }
    if !rest.is_empty() {
        out.fail(block.len() - rest.len(), format!("{} bytes of a record of {SIZE}", rest.len()));
    }
}

/// Appends bytes until `block` has length `len` or the stream ends.
pub(crate) fn read_up_to(input: &mut dyn BufRead, block: &mut Vec<u8>, len: usize) -> io::Result<()> {
    while block.len() < len {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            break;
        }
        let taken = available.len().min(len - block.len());
        block.extend_from_slice(&available[..taken]);
        input.consume(taken);
    }
    Ok(())
}

/// Leaves in `block` what precedes the byte at which a fault begins, and keeps the fault for the next call.
/// If nothing precedes it, the fault is returned at once.
pub(crate) fn cut_before(
    block: &mut Vec<u8>,
    start: usize,
    text: String,
    next: &mut Option<Problem>,
) -> Result<bool, Problem> {
    let problem = Problem::new(0, text);
    if start == 0 {
        return Err(problem);
    }
    block.truncate(start);
    *next = Some(problem);
    Ok(true)
}

/// Cuts text into blocks of whole lines, or of whole groups of lines that end with a given one.
pub(crate) struct LineCut {
    last: Option<&'static [u8]>,
    /// Fault behind the last block, to be returned by the next call.
    problem: Option<Problem>,
}

impl LineCut {
    /// A block may end after this line; after any line if it is `None`.
    pub(crate) fn new(last: Option<&'static [u8]>) -> Self {
        Self { last, problem: None }
    }
}

/// Longest line in bytes; a longer one is taken for binary data, since no text format needs it.
const MAX_LINE: usize = 1 << 20;

impl Cut for LineCut {
    fn next(&mut self, input: &mut dyn BufRead, block: &mut Vec<u8>) -> io::Result<Result<bool, Problem>> {
        if let Some(problem) = self.problem.take() {
            return Ok(Err(problem));
        }
        loop {
            let start = block.len();
            let mut limited = io::Read::take(&mut *input, MAX_LINE as u64);
            if limited.read_until(b'\n', block)? == 0 {
                return Ok(Ok(!block.is_empty()));
            }
            let line = &block[start..];
            if line.len() == MAX_LINE && line.last() != Some(&b'\n') {
                let text = format!("a line of more than {MAX_LINE} bytes");
                return Ok(cut_before(block, start, text, &mut self.problem));
            }
            let may_end = self.last.is_none_or(|last| line.trim_ascii() == last);
            if block.len() >= BLOCK && (may_end || block.len() >= 64 * BLOCK) {
                return Ok(Ok(true));
            }
        }
    }
}

/// Lines of a block, each with the byte offset at which it begins and without its line ending.
pub(crate) fn lines(block: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    block.split_inclusive(|&byte| byte == b'\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line.trim_ascii_end())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_shortened() {
        assert_eq!(Problem::new(0, "short").text, "short");
        let long = Problem::new(0, format!("start {} end", "\u{e9}".repeat(40_000))).text;
        assert!(
            long.len() <= MAX_REASON + 10 && long.starts_with("start ") && long.ends_with(" end"),
            "{long}"
        );
        assert!(long.contains(" ... "), "{long}");
    }
}
