//! Positions with remarks: EPD, one position a line, as test suites and opening books are written.
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

/// Why a line is not EPD.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EpdError {
    /// The position itself is wrong.
    #[error(transparent)]
    Position(#[from] fen::FenError),
    /// Operations begin before the position is complete.
    #[error(
        "the position has {0} fields; placement, side to move, castling and en passant should come first"
    )]
    Fields(usize),
    /// A text that is opened by a quotation mark and never closed.
    #[error("the text of '{0}' lacks its closing quotation mark")]
    Unclosed(String),
    /// An operation that does not begin with a word.
    #[error("'{0}' is not an operation; it should begin with a word such as bm or id")]
    Opcode(String),
    /// A clock that is no number.
    #[error("'{opcode}' is '{text}'; it should be a number")]
    Clock {
        /// `hmvc` or `fmvn`.
        opcode: &'static str,
        /// What stands there.
        text: String,
    },
}

/// Why a line of a file could not be read.
#[derive(Debug, Error)]
pub enum EpdFileError {
    /// The file itself failed.
    #[error("line {line}: {source}")]
    Io {
        /// Which line, from one.
        line: u64,
        /// What failed.
        source: io::Error,
    },
    /// The line is not EPD.
    #[error("line {line}: {source}")]
    Line {
        /// Which line, from one.
        line: u64,
        /// What is wrong with it.
        source: EpdError,
    },
}

/// A remark on a position: a word that says what it is, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What the remark is, such as `bm` or `id`.
    pub opcode: String,
    /// What it says, quotation marks removed.
    pub operands: Vec<String>,
}

/// A position and the remarks on it. The clocks `hmvc` and `fmvn` are no remarks: they belong to the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epd {
    /// The position.
    pub board: Board,
    /// The remarks, in their order.
    pub operations: Vec<Operation>,
}

/// The position of a line of EPD or FEN, whatever is said of it.
pub fn board_of(text: &str) -> Result<Board, EpdError> {
    // A FEN may lack fields at its end, which an EPD may not.
    fen::parse(text).or_else(|_| Ok(fen::parse(split_position(text)?.0)?))
}

/// Reads a line. The two clocks of a full FEN may follow the four fields of EPD; operations may begin, as well as
/// end, with a semicolon, as in perft suites.
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

/// The text of a line in UTF-8 or Latin-1, without a byte order mark and without spaces around it. None where the line is
/// blank or begins with `#`.
pub fn text_of(line: &[u8]) -> Option<String> {
    let line = without_bom(line).trim_ascii();
    (!line.is_empty() && !line.starts_with(b"#")).then(|| decode(line))
}

/// No line is longer; a file without line ends would fill the memory.
const LONGEST_LINE: u64 = 1 << 20;

/// The lines of a file that have a text, as [`text_of`] gives it, with their numbers from one. When the file itself fails,
/// or has a line of more than a mebibyte, nothing comes after the error.
pub fn lines(mut input: impl BufRead) -> impl Iterator<Item = (u64, io::Result<String>)> {
    let mut failed = false;
    let lines = std::iter::from_fn(move || {
        let line = if failed { None } else { next_line(&mut input).transpose() };
        failed |= line.as_ref().is_some_and(Result::is_err);
        line
    });
    (1..).zip(lines).filter_map(|(number, line)| match line {
        Ok(bytes) => Some((number, Ok(text_of(&bytes)?))),
        Err(error) => Some((number, Err(error))),
    })
}

/// The next line with its end; None where there is no more.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.take(LONGEST_LINE + 1).read_until(b'\n', &mut line)?;
    if line.strip_suffix(b"\n").unwrap_or(&line).len() as u64 > LONGEST_LINE {
        return Err(io::Error::other("a line of more than a mebibyte: this is no file of positions"));
    }
    Ok((!line.is_empty()).then_some(line))
}

/// Reads the [`lines`] of a file.
pub fn read(input: impl BufRead) -> impl Iterator<Item = Result<Epd, EpdFileError>> {
    lines(input).map(|(line, text)| {
        let text = text.map_err(|source| EpdFileError::Io { line, source })?;
        parse(&text).map_err(|source| EpdFileError::Line { line, source })
    })
}

/// Splits a line after the fields of the position: four, and two more where they are numbers.
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

/// The first operation of a text and what follows it, or `None` where nothing is left.
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

/// The text up to the closing quotation mark, and what follows the mark. A backslash protects a mark or another
/// backslash.
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

/// The number of a clock, brought within bounds.
fn clock(opcode: &'static str, operation: &Operation, least: u16, most: u16) -> Result<u16, EpdError> {
    let text = operation.operands.first().map_or("", String::as_str);
    let number: u32 = text.parse().map_err(|_| EpdError::Clock { opcode, text: clip(text) })?;
    Ok(number.clamp(least.into(), most.into()) as u16)
}

impl Epd {
    /// A position without remarks.
    pub fn new(board: Board) -> Self {
        Self { board, operations: Vec::new() }
    }

    /// Adds a remark.
    pub fn push(&mut self, opcode: &str, operands: &[&str]) {
        let operands = operands.iter().map(|&operand| operand.to_owned()).collect();
        self.operations.push(Operation { opcode: opcode.to_owned(), operands });
    }

    /// What a remark says; `None` where there is no such remark.
    pub fn operands(&self, opcode: &str) -> Option<&[String]> {
        let operation = self.operations.iter().find(|operation| operation.opcode == opcode)?;
        Some(&operation.operands)
    }

    /// The first word of a remark, or its text where it is quoted.
    pub fn operand(&self, opcode: &str) -> Option<&str> {
        self.operands(opcode)?.first().map(String::as_str)
    }

    /// The best moves; none where the line names none.
    pub fn bm(&self) -> Result<Vec<Move>, san::SanError> {
        self.moves("bm")
    }

    /// The moves to avoid; none where the line names none.
    pub fn am(&self) -> Result<Vec<Move>, san::SanError> {
        self.moves("am")
    }

    /// The moves that a remark lists.
    pub fn moves(&self, opcode: &str) -> Result<Vec<Move>, san::SanError> {
        self.operands(opcode)
            .unwrap_or_default()
            .iter()
            // Old suites put a space before the mark of check.
            .filter(|text| !text.trim_matches(['+', '#', '!', '?']).is_empty())
            .map(|text| san::parse(&self.board, text))
            .collect()
    }

    /// The name of the position.
    pub fn id(&self) -> Option<&str> {
        self.operand("id")
    }

    /// In how many moves the side to move mates.
    pub fn dm(&self) -> Option<u32> {
        self.operand("dm")?.parse().ok()
    }

    /// The evaluation in centipawns, for the side to move.
    pub fn ce(&self) -> Option<i32> {
        self.operand("ce")?.parse().ok()
    }

    /// A comment, `c0` to `c9`.
    pub fn comment(&self, number: u8) -> Option<&str> {
        self.operand(&format!("c{number}"))
    }

    /// The counts of a perft suite, as (depth, nodes).
    pub fn perft(&self) -> impl Iterator<Item = (u32, u64)> {
        self.operations.iter().filter_map(|operation| {
            let depth = operation.opcode.strip_prefix('D')?.parse().ok()?;
            Some((depth, operation.operands.first()?.parse().ok()?))
        })
    }
}

/// One line, without its end, unless an operand has several. The clocks are written where they are not those of a new game.
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

/// Whether a remark is text by definition, and so quoted even where it is a single word.
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
    fn each_mistake_has_its_name() {
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
    fn a_position_is_read_without_what_is_said_of_it() {
        let board = fen::parse("4k3/8/8/8/8/8/4P3/4K3 w - - 7 9").unwrap();
        for text in ["4k3/8/8/8/8/8/4P3/4K3 w - - 7 9", "4k3/8/8/8/8/8/4P3/4K3 w - - 7 9;id \"unclosed"] {
            assert_eq!(board_of(text), Ok(board.clone()), "{text}");
        }
        assert!(board_of("4k3/8/8/8/8/8/4P3/4K3").is_ok());
        assert_eq!(board_of("4k3/8/8/8/8/8/4P3/4K3 w - ; id"), Err(EpdError::Fields(3)));
    }

    #[test]
    fn a_line_has_an_end() {
        let longest = LONGEST_LINE as usize;
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
