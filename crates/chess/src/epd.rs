//! EPD (Extended Position Description): a position with operations on each line, the format of test suites
//! and opening books.
//!
//! ```
//! use tandem_chess::{epd, san};
//!
//! let line = r#"6k1/5ppp/8/8/8/8/8/R5K1 w - - bm Ra8; dm 1; id "back rank";"#;
//! let epd = epd::parse(line)?;
//! assert_eq!(epd.id(), Some("back rank"));
//! assert_eq!(epd.dm(), Some(1));
//! assert_eq!(san::format(&epd.board, epd.bm()?[0]), "Ra8#");
//! assert_eq!(epd.to_string(), line);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::text::{clip, decode, without_bom};
use crate::{Board, Move, fen, san};
use std::fmt;
use std::io::{self, BufRead, Read};
use thiserror::Error;

/// Reason for which a line cannot be parsed as EPD.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EpdError {
    /// The position at the start of the line is malformed or not legal.
    #[error(transparent)]
    Position(#[from] fen::FenError),
    /// Operations begin before the four fields of the position are complete.
    #[error(
        "the position has {0} fields; placement, side to move, castling and en passant should come first"
    )]
    Fields(usize),
    /// A text that is opened by a quotation mark and never closed.
    #[error("the text of '{0}' lacks its closing quotation mark")]
    Unclosed(String),
    /// An operation that does not begin with an opcode.
    #[error("'{0}' is not an operation; it should begin with a word such as bm or id")]
    Opcode(String),
    /// The operand of a clock (`hmvc` or `fmvn`) is not a number.
    #[error("'{opcode}' is '{text}'; it should be a number")]
    Clock {
        /// Opcode of the clock: `hmvc` or `fmvn`.
        opcode: &'static str,
        /// Text that stands in place of the number.
        text: String,
    },
}

/// Reason for which a line of a file could not be read.
#[derive(Debug, Error)]
pub enum EpdFileError {
    /// The file itself could not be read; no lines follow.
    #[error("line {line}: {source}")]
    Io {
        /// Number of the line, counted from 1.
        line: u64,
        /// Error of the operating system or of the decompressor.
        source: io::Error,
    },
    /// The line is not EPD; reading continues with the next one.
    #[error("line {line}: {source}")]
    Line {
        /// Number of the line, counted from 1.
        line: u64,
        /// Reason for which the line was refused.
        source: EpdError,
    },
}

/// An operation on a position: an opcode (its name) and its operands (values).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Opcode, for example `bm` (best move) or `id`.
    pub opcode: String,
    /// Operands of the operation, without their quotation marks.
    pub operands: Vec<String>,
}

/// A position and its operations (named values). The clocks `hmvc` and `fmvn` are stored in the board instead
/// of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epd {
    /// Position of the line, with its clocks.
    pub board: Board,
    /// Operations in the order of the line.
    pub operations: Vec<Operation>,
}

/// Position of a line of EPD or FEN; operations are ignored.
///
/// # Errors
///
/// Fails if the line does not begin with a legal position.
pub fn parse_board(text: &str) -> Result<Board, EpdError> {
    // A FEN may lack fields at its end, which an EPD may not.
    fen::parse(text).or_else(|_| Ok(fen::parse(split_position(text)?.0)?))
}

/// Parses a line. The two clocks of a full FEN may follow the four fields of EPD; operations may begin, as
/// well as end, with a semicolon, as in perft suites.
///
/// # Errors
///
/// Fails if the position is not legal or an operation is malformed.
pub fn parse(text: &str) -> Result<Epd, EpdError> {
    let (position, mut rest) = split_position(text)?;
    let mut board = fen::parse(position)?;
    let mut operations = Vec::new();
    while let Some((operation, after)) = next_operation(rest)? {
        rest = after;
        match operation.opcode.as_str() {
            "hmvc" => board.set_halfmove_clock(clock("hmvc", &operation, 0, 100)? as u8),
            "fmvn" => board.set_fullmove_number(clock("fmvn", &operation, 1, u16::MAX)?),
            _ => operations.push(operation),
        }
    }
    Ok(Epd { board, operations })
}

/// Text of a line in UTF-8 or Latin-1, without a byte order mark and surrounding spaces; `None` if the line
/// is blank or begins with `#`.
pub fn decode_line(line: &[u8]) -> Option<String> {
    let line = without_bom(line).trim_ascii();
    (!line.is_empty() && !line.starts_with(b"#")).then(|| decode(line))
}

/// Longest line in bytes, because a file without line ends would fill the memory.
const MAX_LINE: u64 = 1 << 20;

/// The non-empty lines of a file, as [`decode_line`] gives them, with their line numbers from 1. An error of the
/// file, or a line of more than a mebibyte, ends the iteration.
pub fn lines(mut input: impl BufRead) -> impl Iterator<Item = (u64, io::Result<String>)> {
    let mut failed = false;
    let lines = std::iter::from_fn(move || {
        let line = if failed { None } else { next_line(&mut input).transpose() };
        failed |= line.as_ref().is_some_and(Result::is_err);
        line
    });
    (1..).zip(lines).filter_map(|(number, line)| match line {
        Ok(bytes) => Some((number, Ok(decode_line(&bytes)?))),
        Err(error) => Some((number, Err(error))),
    })
}

/// The next line with its line ending; `None` at the end.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.take(MAX_LINE + 1).read_until(b'\n', &mut line)?;
    if line.strip_suffix(b"\n").unwrap_or(&line).len() as u64 > MAX_LINE {
        return Err(io::Error::other("a line of more than a mebibyte: this is not a file of positions"));
    }
    Ok((!line.is_empty()).then_some(line))
}

/// Parses the [`lines`] of a file; broken lines are returned as errors between the others.
pub fn read(input: impl BufRead) -> impl Iterator<Item = Result<Epd, EpdFileError>> {
    lines(input).map(|(line, text)| {
        let text = text.map_err(|source| EpdFileError::Io { line, source })?;
        parse(&text).map_err(|source| EpdFileError::Line { line, source })
    })
}

/// Splits a line behind the fields of the position: four, and two more if they are numbers.
fn split_position(text: &str) -> Result<(&str, &str), EpdError> {
    let mut fields = 0;
    let mut end = 0;
    loop {
        let start = end + text[end..].len() - text[end..].trim_ascii_start().len();
        let length =
            text[start..].find(|c: char| c.is_ascii_whitespace() || c == ';').unwrap_or(text.len() - start);
        let field = &text[start..start + length];
        if fields < 4 && field.is_empty() {
            return Err(if fields == 0 { fen::FenError::Empty.into() } else { EpdError::Fields(fields) });
        }
        let is_clock = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
        if fields >= 4 && (fields == 6 || !is_clock) {
            return Ok((&text[..end], &text[end..]));
        }
        fields += 1;
        end = start + length;
    }
}

/// The first operation of a text and the remainder behind it; `None` if nothing is left.
fn next_operation(text: &str) -> Result<Option<(Operation, &str)>, EpdError> {
    let mut rest = text.trim_start_matches(|c: char| c == ';' || c.is_ascii_whitespace());
    if rest.is_empty() {
        return Ok(None);
    }
    let mut words = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() || rest.starts_with(';') {
            break;
        }
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let unclosed = || EpdError::Unclosed(clip(words.first().map_or("", String::as_str)));
                unquote(quoted).ok_or_else(unclosed)?
            }
            None => {
                let end = rest.find(|c: char| c == ';' || c.is_ascii_whitespace()).unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        words.push(word);
        rest = after;
    }
    let opcode = words.remove(0);
    if !opcode.starts_with(|c: char| c.is_ascii_alphabetic()) || !is_word(&opcode) {
        return Err(EpdError::Opcode(clip(&opcode)));
    }
    Ok(Some((Operation { opcode, operands: words }, rest)))
}

/// The text up to the closing quotation mark, and the remainder behind it. A backslash escapes a mark or
/// another backslash.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, letter)) = chars.next() {
        match letter {
            '"' => return Some((word, &text[at + 1..])),
            '\\' => match chars.next_if(|&(_, next)| next == '"' || next == '\\') {
                Some((_, protected)) => word.push(protected),
                None => word.push('\\'),
            },
            _ => word.push(letter),
        }
    }
    None
}

/// Value of a clock, clamped to its range.
fn clock(opcode: &'static str, operation: &Operation, min: u16, max: u16) -> Result<u16, EpdError> {
    let text = operation.operands.first().map_or("", String::as_str);
    let number: u32 = text.parse().map_err(|_| EpdError::Clock { opcode, text: clip(text) })?;
    Ok(number.clamp(min.into(), max.into()) as u16)
}

impl Epd {
    /// A line with this position and no operations.
    pub fn new(board: Board) -> Self {
        Self { board, operations: Vec::new() }
    }

    /// Appends an operation with its operands to the line.
    pub fn push(&mut self, opcode: &str, operands: &[&str]) {
        let operands = operands.iter().map(|&operand| operand.to_owned()).collect();
        self.operations.push(Operation { opcode: opcode.to_owned(), operands });
    }

    /// Operands of the first operation with an opcode; `None` if there is none.
    pub fn operands(&self, opcode: &str) -> Option<&[String]> {
        let operation = self.operations.iter().find(|operation| operation.opcode == opcode)?;
        Some(&operation.operands)
    }

    /// First operand of the first operation with an opcode, without quotation marks; `None` if there is none.
    pub fn operand(&self, opcode: &str) -> Option<&str> {
        self.operands(opcode)?.first().map(String::as_str)
    }

    /// Best moves (`bm`); empty if the line has none.
    ///
    /// # Errors
    ///
    /// Fails if an operand is not a legal move.
    pub fn bm(&self) -> Result<Vec<Move>, san::SanError> {
        self.moves("bm")
    }

    /// Moves to avoid (`am`); empty if the line has none.
    ///
    /// # Errors
    ///
    /// Fails if an operand is not a legal move.
    pub fn am(&self) -> Result<Vec<Move>, san::SanError> {
        self.moves("am")
    }

    /// Moves that an operation lists; empty if the line does not have it.
    ///
    /// # Errors
    ///
    /// Fails if an operand is not a legal move.
    pub fn moves(&self, opcode: &str) -> Result<Vec<Move>, san::SanError> {
        self.operands(opcode)
            .unwrap_or_default()
            .iter()
            // Old suites put a space before the suffix for check.
            .filter(|text| !text.trim_matches(['+', '#', '!', '?']).is_empty())
            .map(|text| san::parse(&self.board, text))
            .collect()
    }

    /// Name of the position, the operand of `id`, if there is one.
    pub fn id(&self) -> Option<&str> {
        self.operand("id")
    }

    /// Number of moves in which the side to move mates (`dm`); `None` if the line has none or it is not a
    /// number.
    pub fn dm(&self) -> Option<u32> {
        self.operand("dm")?.parse().ok()
    }

    /// Evaluation in centipawns for the side to move (`ce`); `None` if the line has none or it is not a
    /// number.
    pub fn ce(&self) -> Option<i32> {
        self.operand("ce")?.parse().ok()
    }

    /// Comment of the operation `c0` to `c9`, by its digit, if there is one.
    pub fn comment(&self, number: u8) -> Option<&str> {
        self.operand(&format!("c{number}"))
    }

    /// Perft counts (`D1` to `D9`): each a length in plies and the expected number of move sequences of that
    /// length.
    pub fn perft(&self) -> impl Iterator<Item = (u32, u64)> {
        self.operations.iter().filter_map(|operation| {
            let depth = operation.opcode.strip_prefix('D')?.parse().ok()?;
            Some((depth, operation.operands.first()?.parse().ok()?))
        })
    }
}

/// Writes one line without a line ending, unless an operand contains one. The clocks are written if they
/// differ from those of a new game.
impl fmt::Display for Epd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let position = fen::format(&self.board);
        for (index, field) in position.split(' ').take(4).enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            f.write_str(field)?;
        }
        for operation in &self.operations {
            write!(f, " {}", operation.opcode)?;
            for operand in &operation.operands {
                write_word(f, operand, is_text(&operation.opcode))?;
            }
            f.write_str(";")?;
        }
        if self.board.halfmove_clock() != 0 || self.board.fullmove_number() != 1 {
            write!(f, " hmvc {}; fmvn {};", self.board.halfmove_clock(), self.board.fullmove_number())?;
        }
        Ok(())
    }
}

/// True if an operation's operand is text by definition, and so is quoted even as a single word.
fn is_text(opcode: &str) -> bool {
    opcode == "id" || matches!(opcode.as_bytes(), [b'c' | b'v', b'0'..=b'9'])
}

fn write_word(f: &mut fmt::Formatter<'_>, word: &str, quoted: bool) -> fmt::Result {
    if quoted || !is_word(word) {
        write!(f, " \"{}\"", word.replace('\\', r"\\").replace('"', r#"\""#))
    } else {
        write!(f, " {word}")
    }
}

fn is_word(operand: &str) -> bool {
    !operand.is_empty()
        && !operand.starts_with('"')
        && !operand.contains([' ', '\t', '\r', '\n', '\x0C', ';'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sans(epd: &Epd, moves: Vec<Move>) -> Vec<String> {
        moves.into_iter().map(|mv| san::format(&epd.board, mv)).collect()
    }

    #[test]
    fn a_test_suite() {
        let line = concat!(
            "1kr5/3n4/q3p2p/p2n2p1/PppB1P2/5BP1/1P2Q2P/3R2K1 w - - bm f5 Be5+; am Bf2; ce -35; ",
            r#"id "STS(v1.0) Undermine.001"; c0 "f5=10; Be5+=2";"#
        );
        let epd = parse(line).unwrap();
        assert_eq!(sans(&epd, epd.bm().unwrap()), ["f5", "Be5+"]);
        assert_eq!(sans(&epd, epd.am().unwrap()), ["Bf2"]);
        assert_eq!(epd.ce(), Some(-35));
        assert_eq!(epd.id(), Some("STS(v1.0) Undermine.001"));
        assert_eq!(epd.comment(0), Some("f5=10; Be5+=2"));
        assert_eq!(epd.comment(1), None);
        assert_eq!(epd.dm(), None);
        assert_eq!(epd.to_string(), line);
    }

    #[test]
    fn an_old_suite_with_stray_semicolons_and_spaces() {
        let epd = parse("1k1r4/pp1b1R2/3q2pp/4p3/2B5/4Q3/PPP2B2/2K5 b - - ; bm Qd1 + ; id BK.01 ").unwrap();
        assert_eq!(sans(&epd, epd.bm().unwrap()), ["Qd1+"]);
        assert_eq!(epd.id(), Some("BK.01"));
    }

    #[test]
    fn a_perft_suite() {
        let line = "bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9 ;D1 21 ;D2 528";
        let epd = parse(line).unwrap();
        assert_eq!(epd.perft().collect::<Vec<_>>(), [(1, 21), (2, 528)]);
        assert_eq!((epd.board.halfmove_clock(), epd.board.fullmove_number()), (2, 9));
        let glued = parse("4k3/8/8/8/8/8/8/4K2R w K - 0 7;D1 15;D2 66").unwrap();
        assert_eq!(glued.board.fullmove_number(), 7);
        assert_eq!(glued.perft().collect::<Vec<_>>(), [(1, 15), (2, 66)]);
    }

    #[test]
    fn clocks_belong_to_the_board() {
        let epd = parse("4k3/8/8/8/8/8/8/4K2R w K - hmvc 12; fmvn 40; id \"x\";").unwrap();
        assert_eq!((epd.board.halfmove_clock(), epd.board.fullmove_number()), (12, 40));
        assert_eq!(epd.operations.len(), 1);
        assert_eq!(epd.to_string(), "4k3/8/8/8/8/8/8/4K2R w K - id \"x\"; hmvc 12; fmvn 40;");
        let beyond = parse("4k3/8/8/8/8/8/8/4K2R w K - hmvc 200; fmvn 0;").unwrap();
        assert_eq!((beyond.board.halfmove_clock(), beyond.board.fullmove_number()), (100, 1));
    }

    #[test]
    fn quotation_marks_survive() {
        let mut epd = Epd::new(Board::default());
        epd.push("c0", &[r#"the "best" \ move;"#]);
        epd.push("note", &["", "two words", "word", "\"", r"\"]);
        epd.push("noop", &[]);
        assert_eq!(parse(&epd.to_string()).as_ref(), Ok(&epd), "{epd}");
    }

    #[test]
    fn each_error_has_its_own_variant() {
        use EpdError::*;
        for (line, error) in [
            ("", Position(fen::FenError::Empty)),
            ("4k3/8/8/8/8/8/8/4K3 w ; id x", Fields(2)),
            ("4k3/8/8/8/8/8/8/4K3 w - x", Position(fen::FenError::EnPassant("x".into()))),
            ("4k3/8/8/8/8/8/8/4K3 w - - id \"x", Unclosed("id".into())),
            ("4k3/8/8/8/8/8/8/4K3 w - - 0 1 2;", Opcode("2".into())),
            ("4k3/8/8/8/8/8/8/4K3 w - - \"a b\" c;", Opcode("a b".into())),
            ("4k3/8/8/8/8/8/8/4K3 w - - hmvc x;", Clock { opcode: "hmvc", text: "x".into() }),
            ("4k3/8/8/8/8/8/8/4K3 w - - fmvn;", Clock { opcode: "fmvn", text: "".into() }),
        ] {
            assert_eq!(parse(line), Err(error), "{line}");
        }
        let epd = parse("4k3/8/8/8/8/8/8/4K3 w - - bm Qd1;").unwrap();
        assert_eq!(epd.bm(), Err(san::SanError::Illegal("Qd1".into())));
    }

    #[test]
    fn a_position_is_read_without_its_operations() {
        let board = fen::parse("4k3/8/8/8/8/8/4P3/4K3 w - - 7 9").unwrap();
        for text in ["4k3/8/8/8/8/8/4P3/4K3 w - - 7 9", "4k3/8/8/8/8/8/4P3/4K3 w - - 7 9;id \"unclosed"] {
            assert_eq!(parse_board(text), Ok(board.clone()), "{text}");
        }
        assert!(parse_board("4k3/8/8/8/8/8/4P3/4K3").is_ok());
        assert_eq!(parse_board("4k3/8/8/8/8/8/4P3/4K3 w - ; id"), Err(EpdError::Fields(3)));
    }

    #[test]
    fn a_line_is_bounded() {
        let longest = MAX_LINE as usize;
        let comment = |len: usize| [b"#".repeat(len), b"\n4k3/8/8/8/8/8/8/4K3 w - -\n".to_vec()].concat();
        let fits = comment(longest);
        assert_eq!(
            lines(&fits[..]).map(|(number, line)| (number, line.is_ok())).collect::<Vec<_>>(),
            [(2, true)]
        );
        let too_long = comment(longest + 1);
        let mut lines = lines(&too_long[..]);
        assert!(lines.next().is_some_and(|(number, line)| number == 1 && line.is_err()));
        assert!(lines.next().is_none() && lines.next().is_none(), "nothing comes after it");
    }

    #[test]
    fn a_file_names_the_line() {
        let text = "\u{FEFF}# a comment\n\n4k3/8/8/8/8/8/8/4K3 w - -\r\nnonsense\n4k3/8/8/8/8/8/8/4K3 b - -";
        let read: Vec<_> = read(text.as_bytes()).map(|epd| epd.map_err(|error| error.to_string())).collect();
        assert_eq!(read.len(), 3);
        assert!(read[0].is_ok() && read[2].is_ok());
        assert!(read[1].as_ref().unwrap_err().starts_with("line 4: "), "{:?}", read[1]);
    }

    #[test]
    fn lines_are_text_whatever_the_encoding() {
        let bytes = b"\xEF\xBB\xBFone\n \n#two\n\xEF\xBB\xBF# three\n R\xE9ti \r\nR\xC3\xA9ti";
        let lines: Vec<_> = lines(&bytes[..]).map(|(number, text)| (number, text.unwrap())).collect();
        let expected = [(1, "one"), (5, "Réti"), (6, "Réti")];
        assert_eq!(lines, expected.map(|(number, text)| (number, text.to_owned())));
    }
}
