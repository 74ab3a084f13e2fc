//! What a format must be able to do.
//!
//! A stream is cut into blocks that can be decoded alone, each on whatever thread is free. A [`Cut`] knows where blocks
//! end and nothing else; [`Codec::decode`] knows what is in them and keeps nothing between them; an [`Encode`] writes
//! records one after the other and may wait for the rest of a game.

use crate::record::Record;
use std::io::{self, BufRead};
use thiserror::Error;

/// What is wrong with a part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Where, counted from the start of the block.
    pub byte: usize,
    /// What.
    pub text: String,
    /// Whether the rest of a game or of a block is left out with it, of which nobody knows how many records it had.
    pub with_rest: bool,
}

impl Problem {
    pub(crate) fn new(byte: usize, text: impl Into<String>) -> Self {
        Self { byte, text: text.into(), with_rest: false }
    }
}

/// What a block holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Decoded {
    /// The records that could be read.
    pub records: Vec<Record>,
    /// What could not, each with the number of records before it.
    pub problems: Vec<(usize, Problem)>,
}

impl Decoded {
    /// Notes that a record could not be read.
    pub(crate) fn fail(&mut self, byte: usize, text: impl Into<String>) {
        self.problems.push((self.records.len(), Problem::new(byte, text)));
    }

    /// The same, where more than one record is left out.
    pub(crate) fn fail_with_rest(&mut self, byte: usize, text: impl Into<String>) {
        self.problems.push((self.records.len(), Problem { with_rest: true, ..Problem::new(byte, text) }));
    }
}

/// Blocks are about this long where a format leaves the choice.
pub(crate) const BLOCK: usize = 256 << 10;

/// Cuts a stream into blocks.
pub(crate) trait Cut: Send {
    /// Puts the next block into `block`, which is empty. False at the end of the stream. What comes before a problem is a
    /// block, and the problem comes with the next call; it is the end of the stream.
    fn next(&mut self, input: &mut dyn BufRead, block: &mut Vec<u8>) -> io::Result<Result<bool, Problem>>;

    /// How long a block is in the file.
    fn length(&self, block: &[u8]) -> u64 {
        block.len() as u64
    }

    /// Goes on so many bytes after the first block, where another block begins.
    fn skip_to(&mut self, input: &mut dyn BufRead, bytes: u64) -> io::Result<()> {
        let skipped = io::copy(&mut io::Read::take(input, bytes), &mut io::sink())?;
        if skipped == bytes { Ok(()) } else { Err(io::Error::other("the file is shorter than it was")) }
    }
}

/// A format that can be read.
pub(crate) trait Codec: Send + Sync {
    fn cut(&self) -> Box<dyn Cut>;
    fn decode(&self, block: &[u8], out: &mut Decoded);
}

/// A record that a format has no place for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Unfit(pub String);

/// Writes records in a format.
pub(crate) trait Encode: Send {
    /// Adds a record. What is ready to be written goes to `out`.
    fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unfit>;

    /// The end: writes what was still held back.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unfit> {
        let _ = out;
        Ok(())
    }
}

/// Blocks of whole records of one size.
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

/// Decodes a block of whole records of one size, each by itself.
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

/// Adds bytes until `block` has so many or the stream ends.
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

/// Leaves in `block` what comes before the byte where a problem begins, and keeps that for the next call. If there is
/// nothing before it, it is told at once.
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

/// Blocks of whole lines, or of whole groups of lines that end with a certain one.
pub(crate) struct LineCut {
    last: Option<&'static [u8]>,
    /// What is wrong behind the last block.
    problem: Option<Problem>,
}

impl LineCut {
    /// A block may end after this line, or after any.
    pub(crate) fn new(last: Option<&'static [u8]>) -> Self {
        Self { last, problem: None }
    }
}

/// A line that is longer is no line of any format.
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

/// The lines of a block with the byte where each begins; line ends are left out.
pub(crate) fn lines(block: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    block.split_inclusive(|&byte| byte == b'\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line.trim_ascii_end())
    })
}
