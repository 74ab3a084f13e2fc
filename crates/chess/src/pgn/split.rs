//! Cutting a stream into the texts of single games, without parsing their moves.

use super::error::PgnErrorKind;
use crate::text::without_bom;
use std::io::{self, BufRead, Read};

/// Longest text of a game in bytes. Books of annotated games stay below a hundredth of it.
pub(super) const MAX_GAME_BYTES: usize = 16 << 20;

/// Cuts a stream where a game ends: before the tags of the next one, or after a line that ends with a result.
///
/// A text can hold more than one game if they share a line, and none if it is blank or only a comment.
pub(super) struct Splitter<R> {
    input: R,
    /// The current text, and behind it the first line of the next one if it was needed to find the end.
    buffer: Vec<u8>,
    /// Length of the current text in bytes.
    end: usize,
    /// Place in the stream at which the current text begins.
    place: StreamPosition,
    state: State,
    max_bytes: usize,
}

/// A place in the stream, for error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamPosition {
    /// Number of the line, counted from 1.
    pub line: u64,
    /// Number of bytes before it.
    pub offset: u64,
}

impl StreamPosition {
    /// The place behind a text that begins here.
    pub(super) fn after(self, text: &[u8]) -> Self {
        let lines = text.iter().filter(|&&byte| byte == b'\n').count() as u64;
        Self { line: self.line + lines, offset: self.offset + text.len() as u64 }
    }
}

#[derive(PartialEq, Eq)]
enum State {
    Reading,
    /// The text was too long, and its remainder has to be skipped.
    Lost,
    Ended,
}

impl<R: BufRead> Splitter<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            end: 0,
            place: StreamPosition { line: 1, offset: 0 },
            state: State::Reading,
            max_bytes: MAX_GAME_BYTES,
        }
    }

    /// The current text and the place at which it begins.
    pub(super) fn text(&self) -> (&[u8], StreamPosition) {
        (&self.buffer[..self.end], self.place)
    }

    /// Advances to the next text; false at the end of the stream. After an error the next call continues with
    /// the next game, or ends if the stream itself failed.
    pub(super) fn advance(&mut self) -> Result<bool, PgnErrorKind> {
        self.place = self.place.after(&self.buffer[..self.end]);
        self.buffer.drain(..self.end);
        self.end = 0;
        match self.state {
            State::Ended => return Ok(false),
            State::Lost => self.skip_to_tags().inspect_err(|_| self.state = State::Ended)?,
            State::Reading => {}
        }

        let mut outline = Outline::default();
        loop {
            self.complete_line().inspect_err(|_| self.state = State::Ended)?;
            if self.buffer.len() > self.max_bytes {
                self.state = State::Lost;
                return Err(PgnErrorKind::TooLong(self.max_bytes));
            }
            let line = &self.buffer[self.end..];
            if line.is_empty() {
                self.state = State::Ended;
                return Ok(self.end > 0);
            }
            let cut = outline.add(line);
            if cut == Boundary::Before {
                return Ok(true);
            }
            self.end = self.buffer.len();
            if cut == Boundary::After {
                return Ok(true);
            }
        }
    }

    /// Reads the line behind the current text. It stays empty at the end of the stream.
    fn complete_line(&mut self) -> io::Result<()> {
        if self.buffer.len() == self.end || self.buffer.last() != Some(&b'\n') {
            let remaining = self.max_bytes + 1 - self.buffer.len().min(self.max_bytes);
            self.input.by_ref().take(remaining as u64).read_until(b'\n', &mut self.buffer)?;
        }
        Ok(())
    }

    /// Drops everything up to a line that looks like a tag.
    fn skip_to_tags(&mut self) -> io::Result<()> {
        self.state = State::Reading;
        let mut at_start_of_line = false;
        loop {
            if at_start_of_line && is_tag(&self.buffer) {
                return Ok(());
            }
            at_start_of_line = self.buffer.last() == Some(&b'\n');
            self.place = self.place.after(&self.buffer);
            self.buffer.clear();
            if self.input.by_ref().take(1 << 16).read_until(b'\n', &mut self.buffer)? == 0 {
                return Ok(());
            }
        }
    }
}

/// True if a line begins with a tag. `[%clk` and the like, which a broken line can bring to the front, is not
/// one.
fn is_tag(line: &[u8]) -> bool {
    let inner = without_bom(line).trim_ascii_start().strip_prefix(b"[");
    inner.is_some_and(|inner| inner.trim_ascii_start().first().is_some_and(u8::is_ascii_alphanumeric))
}

/// State of a game after some of its lines, as far as it is needed to find the end.
#[derive(Default)]
struct Outline {
    part: Section,
    in_comment: bool,
    depth: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Section {
    #[default]
    Start,
    Tags,
    BlankAfterTags,
    Moves,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Boundary {
    No,
    Before,
    After,
}

impl Outline {
    fn add(&mut self, line: &[u8]) -> Boundary {
        if self.in_comment {
            // A comment that is never closed must not swallow the rest of the file.
            if line.starts_with(b"[Event \"") {
                return Boundary::Before;
            }
        } else if line.starts_with(b"%") {
            return Boundary::No;
        } else if line.trim_ascii().is_empty() {
            if self.part == Section::Tags {
                self.part = Section::BlankAfterTags;
            }
            return Boundary::No;
        } else if is_tag(line) {
            let next_game = match self.part {
                Section::Start | Section::Tags => false,
                // Either a gap among the tags, or a game without moves before this one.
                Section::BlankAfterTags => line.trim_ascii_start().starts_with(b"[Event "),
                Section::Moves => true,
            };
            if next_game {
                return Boundary::Before;
            }
            self.part = Section::Tags;
            // Some programs write a whole game on one line.
            return if ends_with_result(line) { Boundary::After } else { Boundary::No };
        }
        self.part = Section::Moves;
        let code = self.scan(line);
        if !self.in_comment && self.depth == 0 && ends_with_result(code) {
            Boundary::After
        } else {
            Boundary::No
        }
    }

    /// Follows comments and variations through a line. Returns the line up to a comment that extends to its
    /// end.
    fn scan<'a>(&mut self, line: &'a [u8]) -> &'a [u8] {
        for (at, byte) in line.iter().enumerate() {
            match byte {
                b'}' => self.in_comment = false,
                b'{' => self.in_comment = true,
                b'(' if !self.in_comment => self.depth += 1,
                b')' if !self.in_comment => self.depth = self.depth.saturating_sub(1),
                b';' if !self.in_comment => return &line[..at],
                _ => {}
            }
        }
        line
    }
}

fn ends_with_result(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let word = line.rsplit(|byte| byte.is_ascii_whitespace() || matches!(byte, b'}' | b')')).next();
    matches!(word, Some(b"1-0" | b"0-1" | b"1/2-1/2" | b"1/2" | b"*"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts, with "too long" for each error, and the places at which they begin.
    fn split(text: &str, max_bytes: usize) -> (Vec<String>, Vec<(u64, u64)>) {
        // A tiny buffer, so that every line crosses its boundary.
        let input = io::BufReader::with_capacity(3, text.as_bytes());
        let mut splitter = Splitter { max_bytes, ..Splitter::new(input) };
        let (mut texts, mut places) = (Vec::new(), Vec::new());
        loop {
            match splitter.advance() {
                Ok(false) => return (texts, places),
                Ok(true) => texts.push(String::from_utf8(splitter.text().0.to_vec()).unwrap()),
                Err(_) => texts.push("too long".into()),
            }
            let place = splitter.text().1;
            places.push((place.line, place.offset));
        }
    }

    #[test]
    fn games_end_at_a_result_or_at_the_next_tags() {
        let games = [
            "[Event \"a\"]\r\n[Site \"b\"]\n\n1. e4\n\ne5 1-0\n",
            "\n\n[White \"missing result\"]\n1. e4 e5\n",
            "[Event \"no moves\"]\n\n",
            "[Event \"blank among tags\"]\n\n[White \"x\"]\n\n1. d4 { [not a tag] *\n[neither \"\"] *\n} (1. e4 *\n) 2. c4 *\n",
            "1. e4 e5 0-1 ; no tags\n",
            "1. e4 e5 1-0 1. d4 d5 0-1\n",
            "[Event \"a line\"] [Result \"1-0\"] 1. e4 e5 1-0\n",
            "[Event \"another\"] 1. e4 *\n",
            "[Event \"unclosed\"]\n\n1. e4 { what 1-0\n\n",
            "[Event \"last\"]\n\n1. e4 *",
        ];
        let (texts, places) = split(&games.concat(), 1000);
        assert_eq!(texts, games);
        assert_eq!(places[1], (7, games[0].len() as u64));
    }

    #[test]
    fn a_text_too_long_is_dropped_up_to_the_next_tags() {
        let long = format!("[Event \"a\"]\n\n{}\n1. e4 *\n", "x".repeat(200));
        let next = "[Event \"b\"]\n\n1. e4 *\n";
        let (texts, places) = split(&(long.clone() + next), 100);
        assert_eq!(texts, ["too long", next]);
        assert_eq!(places, [(1, 0), (5, long.len() as u64)]);
        let (texts, _) = split(&"x".repeat(1000), 100);
        assert_eq!(texts, ["too long"]);
    }

    #[test]
    fn an_empty_stream_has_no_text() {
        assert_eq!(split("", 100).0, Vec::<String>::new());
    }
}
