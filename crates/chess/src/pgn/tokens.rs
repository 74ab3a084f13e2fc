//! The tokens of a game's text: moves, comments, glyphs, brackets and results.

use super::GameResult;
use super::error::PgnErrorKind;
use crate::text::{clip_bytes, decode, without_bom};

/// A fault, with its byte offset in the text.
#[derive(Debug)]
pub(super) struct Failure {
    pub at: usize,
    pub kind: PgnErrorKind,
}

/// A token among the moves of a game.
pub(super) enum Token<'a> {
    Move(&'a [u8]),
    Comment(&'a [u8]),
    Nag(u8),
    Open,
    Close,
    Result(GameResult),
}

/// A position in the text of a game.
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    /// Byte offset at which the game begins.
    start: usize,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of a game, at byte `start`.
    pub(super) fn new(text: &'a [u8], start: usize) -> Self {
        Self { text, start, at: start }
    }

    /// Byte offset of the cursor in the text.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// True if the cursor is at the start of a line.
    fn at_start_of_line(&self) -> bool {
        self.at == 0 || self.text[self.at - 1] == b'\n'
    }

    /// Skips white space, and lines that `%` hides from readers.
    #[inline]
    pub(super) fn skip_space(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b'\x0B' | b'\x0C' => self.at += 1,
                b'%' if self.at_start_of_line() => self.skip_line(),
                _ => return,
            }
        }
    }

    /// Skips a byte order mark at the start of the text.
    pub(super) fn skip_bom(&mut self) {
        if self.at == 0 {
            self.at = self.text.len() - without_bom(self.text).len();
        }
    }

    /// Skips to the end of the line.
    pub(super) fn skip_line(&mut self) {
        let rest = &self.text[self.at..];
        self.at += find(rest, b'\n').unwrap_or(rest.len());
    }

    /// A failure in a tag that has been read already.
    pub(super) fn failure_at_tag(&self, name: &str, kind: PgnErrorKind) -> Failure {
        let tag = format!("[{name} ");
        let tags = &self.text[self.start..self.at];
        let at = tags.windows(tag.len()).position(|window| window == tag.as_bytes());
        Failure { at: self.start + at.unwrap_or(0), kind }
    }

    /// Parses the tag that begins here into its name and value.
    pub(super) fn tag(&mut self) -> Result<(String, String), Failure> {
        let at = self.at;
        self.name_and_value().ok_or_else(|| {
            let line = self.text[at..].split(|&byte| byte == b'\n').next().unwrap_or_default();
            Failure { at, kind: PgnErrorKind::Tag(clip_bytes(line.trim_ascii_end())) }
        })
    }

    /// Parses `[Name "value"]`. A quotation mark that is not followed by the bracket belongs to the value,
    /// because people forget to escape it; a tag ends at the latest with its line.
    fn name_and_value(&mut self) -> Option<(String, String)> {
        self.at += 1;
        self.take_while(is_blank);
        let name = self.take_while(is_name_byte);
        self.take_while(is_blank);
        if !name.first()?.is_ascii_alphanumeric() || self.peek() != Some(b'"') {
            return None;
        }
        self.at += 1;
        let mut value = Vec::with_capacity(16);
        loop {
            value.extend_from_slice(self.take_while(|byte| !matches!(byte, b'"' | b'\\' | b'\n')));
            let mark = self.peek().filter(|&mark| mark != b'\n')?;
            self.at += 1;
            if mark == b'"' {
                let behind = self.at;
                self.take_while(is_blank);
                if self.peek() == Some(b']') {
                    self.at += 1;
                    return Some((decode(name), decode(&value)));
                }
                self.at = behind;
                value.push(mark);
            } else if let Some(protected @ (b'"' | b'\\')) = self.peek() {
                self.at += 1;
                value.push(protected);
            } else {
                value.push(mark);
            }
        }
    }

    /// The next token and the offset at which it begins. After a failure the cursor is behind its cause, so
    /// that parsing can continue.
    pub(super) fn next_token(&mut self) -> Result<Option<(usize, Token<'a>)>, Failure> {
        loop {
            self.skip_space();
            let at = self.at;
            let Some(byte) = self.peek() else { return Ok(None) };
            let token = match byte {
                b'.' => {
                    self.at += 1;
                    continue;
                }
                b'0'..=b'9' => match self.number() {
                    Some(token) => token,
                    None => continue,
                },
                b'a'..=b'z' | b'A'..=b'Z' => match self.word() {
                    b"e.p." | b"ep" => continue,
                    word => Token::Move(word),
                },
                b'{' => Token::Comment(self.brace_comment()?),
                b';' => {
                    self.skip_line();
                    Token::Comment(&self.text[at + 1..self.at])
                }
                b'(' => self.one(Token::Open),
                b')' => self.one(Token::Close),
                b'*' => self.one(Token::Result(GameResult::Unknown)),
                b'$' => self.nag()?,
                b'!' | b'?' => self.suffix_glyph(),
                _ => {
                    let word = self.word();
                    let null = word == b"--";
                    let kind = if null { PgnErrorKind::NullMove } else { PgnErrorKind::Unexpected };
                    return Err(Failure { at, kind: kind(clip_bytes(word)) });
                }
            };
            return Ok(Some((at, token)));
        }
    }

    fn one(&mut self, token: Token<'a>) -> Token<'a> {
        self.at += 1;
        token
    }

    /// Skips bytes while a test holds, and returns them.
    #[inline]
    fn take_while(&mut self, test: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = &self.text[self.at..];
        let taken = &rest[..rest.iter().position(|&byte| !test(byte)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// A word: a move, as a rule. At least one byte is consumed, whatever it is.
    fn word(&mut self) -> &'a [u8] {
        let start = self.at;
        self.at += 1;
        self.take_while(is_word_byte);
        // A promotion may be in brackets, which would otherwise open a variation.
        if let [b'(', b'Q' | b'R' | b'B' | b'N', b')', ..] = self.text[self.at..] {
            self.at += 3;
            self.take_while(is_word_byte);
        }
        &self.text[start..self.at]
    }

    /// A token that begins with a digit: a result or castling; the number of a move is skipped.
    #[inline]
    fn number(&mut self) -> Option<Token<'a>> {
        let start = self.at;
        self.take_while(|byte| byte.is_ascii_digit());
        if !matches!(self.peek(), Some(b'-' | b'/')) {
            return None;
        }
        self.take_while(is_word_byte);
        let word = &self.text[start..self.at];
        Some(GameResult::from_bytes(word).map_or(Token::Move(word), Token::Result))
    }

    /// The text between braces.
    fn brace_comment(&mut self) -> Result<&'a [u8], Failure> {
        let at = self.at;
        let rest = &self.text[at + 1..];
        match find(rest, b'}') {
            Some(length) => {
                self.at += length + 2;
                Ok(&rest[..length])
            }
            None => {
                self.at = self.text.len();
                Err(Failure { at, kind: PgnErrorKind::UnclosedComment(clip_bytes(rest.trim_ascii())) })
            }
        }
    }

    /// A numeric glyph: `$` and a number.
    fn nag(&mut self) -> Result<Token<'a>, Failure> {
        let at = self.at;
        self.at += 1;
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        number.map(Token::Nag).ok_or_else(|| {
            let kind = PgnErrorKind::Nag(clip_bytes(&self.text[at..self.at]));
            Failure { at, kind }
        })
    }

    /// A glyph from `!`, `?` and their pairs; of a longer sequence the first two count.
    fn suffix_glyph(&mut self) -> Token<'a> {
        Token::Nag(match self.take_while(|byte| matches!(byte, b'!' | b'?')) {
            [b'!'] => 1,
            [b'?'] => 2,
            [b'!', b'!', ..] => 3,
            [b'?', b'?', ..] => 4,
            [b'!', ..] => 5,
            _ => 6,
        })
    }
}

/// True for bytes that may occur in the name of a tag.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+' | b'#' | b'=' | b':' | b'-')
}

#[inline]
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// True for bytes that continue a word. A comment, variation or glyph ends it even without a space.
#[inline]
fn is_word_byte(byte: u8) -> bool {
    !matches!(byte, b'\t'..=b'\r' | b' ' | b'{' | b'}' | b'(' | b')' | b'$' | b'!' | b'?' | b';' | b'*')
}

fn find(text: &[u8], wanted: u8) -> Option<usize> {
    text.iter().position(|&byte| byte == wanted)
}
