//! Writing games as text, in the export format of the standard.

use super::tokens::is_name_byte;
use super::{Game, Ply, ROSTER, start_tags};
use crate::{Board, Color, IllegalMove, san};
use arrayvec::ArrayString;
use std::fmt::{self, Write as _};
use std::io::{self, Write};

/// Limit of the line length: lines of moves are shorter than this.
const COLUMNS: usize = 80;

/// Writes a game: the seven tags that every game should have, the others, and the moves in lines of less than
/// 80 characters. Braces within comments become brackets, since PGN cannot escape them, and line breaks
/// become spaces.
///
/// # Errors
///
/// Fails if the output cannot be written. A move that is not legal is an error of kind
/// [`io::ErrorKind::InvalidInput`], and nothing is written.
pub fn write(out: &mut impl Write, game: &Game) -> io::Result<()> {
    let mut text = String::with_capacity(1024);
    write_tags(&mut text, game);
    text.push('\n');
    let mut writer = MoveWriter { text, column: 0 };
    if let Some(comment) = &game.comment {
        writer.comment(comment);
    }
    writer
        .line(&game.moves, game.start.clone())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    writer.word(game.result.as_str());
    writer.text.push_str("\n\n");
    out.write_all(writer.text.as_bytes())
}

/// The seven standard tags first, then the others in their order. The game's own fields override its tags.
fn write_tags(text: &mut String, game: &Game) {
    for (name, unknown) in ROSTER {
        let value = if name == "Result" { game.result.as_str() } else { game.tag(name).unwrap_or(unknown) };
        write_tag(text, name, value);
    }
    let derived = start_tags(&game.start);
    let derived_value = |name: &str| derived.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
    for (name, value) in &game.tags {
        match (name.as_str(), derived_value(name)) {
            ("FEN" | "SetUp", Some(value)) => write_tag(text, name, value),
            ("FEN" | "SetUp", None) => {}
            _ if ROSTER.iter().any(|(known, _)| known == name) => {}
            _ => write_tag(text, name, value),
        }
    }
    for (name, value) in &derived {
        if game.tag(name).is_none() {
            write_tag(text, name, value);
        }
    }
}

fn write_tag(text: &mut String, name: &str, value: &str) {
    text.push('[');
    // A name that a reader would not accept gets a letter in front.
    if !name.starts_with(|letter: char| letter.is_ascii_alphanumeric()) {
        text.push('X');
    }
    text.extend(name.chars().map(|letter| match u8::try_from(letter) {
        Ok(byte) if is_name_byte(byte) => letter,
        _ => '_',
    }));
    text.push_str(" \"");
    for letter in value.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            letter if letter.is_control() => text.push(' '),
            letter => text.push(letter),
        }
    }
    text.push_str("\"]\n");
}

struct MoveWriter {
    text: String,
    /// Number of characters in the current line.
    column: usize,
}

impl MoveWriter {
    /// Writes a line of moves that starts from `board`.
    fn line(&mut self, plies: &[Ply], mut board: Board) -> Result<(), IllegalMove> {
        // The number of a Black move is written only after an interruption.
        let mut number_due = true;
        let mut before = None;
        let mut san = String::with_capacity(8);
        for ply in plies {
            if !board.is_legal(ply.mv) {
                return Err(IllegalMove(ply.mv));
            }
            if !ply.variations.is_empty() {
                before = Some(board.clone());
            }
            self.move_number(&board, number_due);
            san.clear();
            san::write_and_play(&mut board, ply.mv, &mut san);
            self.word(&san);
            for nag in &ply.nags {
                self.number(format_args!("${nag}"));
            }
            if let Some(comment) = &ply.comment {
                self.comment(comment);
            }
            for variation in &ply.variations {
                if let Some(before) = before.clone().filter(|_| !variation.is_empty()) {
                    self.word("(");
                    self.line(variation, before)?;
                    self.word(")");
                }
            }
            number_due = ply.comment.is_some() || !ply.variations.is_empty();
        }
        Ok(())
    }

    fn move_number(&mut self, board: &Board, due: bool) {
        let number = board.fullmove_number();
        match board.side_to_move() {
            Color::White => self.number(format_args!("{number}.")),
            Color::Black if due => self.number(format_args!("{number}...")),
            Color::Black => {}
        }
    }

    fn comment(&mut self, comment: &str) {
        let mut words = comment.split_ascii_whitespace().peekable();
        if words.peek().is_none() {
            return;
        }
        self.word("{");
        for word in words {
            // At the start of a line `%` would hide it, and what looks like a tag would begin the next game.
            let risky = matches!(word.as_bytes(), [b'%', ..] | [b'[', b'A'..=b'Z' | b'a'..=b'z', ..]);
            let length = word.chars().count();
            if risky {
                self.text.push(' ');
                self.column += 1;
            } else {
                self.space(length);
            }
            for letter in word.chars() {
                self.text.push(match letter {
                    '{' => '(',
                    '}' => ')',
                    letter => letter,
                });
            }
            self.column += length;
        }
        self.word("}");
    }

    /// Writes a word of ASCII, on the next line if it does not fit into this one.
    fn word(&mut self, word: &str) {
        self.space(word.len());
        self.text.push_str(word);
        self.column += word.len();
    }

    /// Writes a move number with its dots: eight characters at most.
    fn number(&mut self, number: fmt::Arguments<'_>) {
        let mut word = ArrayString::<8>::new();
        let _ = word.write_fmt(number);
        self.word(&word);
    }

    /// Writes the space before a word of this length: a line break if the word does not fit, nothing at the
    /// start.
    fn space(&mut self, length: usize) {
        if self.column == 0 {
            return;
        }
        if self.column + 1 + length < COLUMNS {
            self.text.push(' ');
            self.column += 1;
        } else {
            self.text.push('\n');
            self.column = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgn::{GameReader, GameResult};
    use crate::{fen, uci};

    fn written(game: &Game) -> String {
        let mut out = Vec::new();
        write(&mut out, game).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn read(text: &str) -> Game {
        let mut reader = GameReader::new(text.as_bytes());
        let game = reader.next_game().unwrap().unwrap();
        assert!(reader.next_game().is_none(), "{text}");
        game
    }

    fn game(start: Board, moves: &str) -> Game {
        let mut game = Game::from_start(start);
        let mut board = game.start.clone();
        for text in moves.split_whitespace() {
            let mv = uci::parse(&board, text).unwrap();
            game.push(mv);
            board.play(mv);
        }
        game
    }

    #[test]
    fn a_game_with_everything() {
        let mut game = game(Board::default(), "e2e4 e7e5 g1f3 b8c6");
        game.set_tag("White", r#"the "great" \ one"#);
        game.set_tag("Opening", "Open\ngame");
        game.set_tag("% ß", "a name that cannot be");
        game.result = GameResult::Draw;
        game.comment = Some("before {all}".into());
        game.moves[0].nags = vec![1, 14];
        game.moves[1].comment = Some("[%eval 0.2]".into());
        game.moves[1].variations = vec![vec![Ply::new("c7c5".parse().unwrap())], vec![]];
        let text = written(&game);
        let expected = r#"[Event "?"]
[Site "?"]
[Date "????.??.??"]
[Round "?"]
[White "the \"great\" \\ one"]
[Black "?"]
[Result "1/2-1/2"]
[Opening "Open game"]
[X___ "a name that cannot be"]

{ before (all) } 1. e4 $1 $14 e5 { [%eval 0.2] } ( 1... c5 ) 2. Nf3 Nc6 1/2-1/2

"#;
        assert_eq!(text, expected);
        assert_eq!(written(&read(&text)), expected);
    }

    #[test]
    fn the_start_is_written_as_tags() {
        let start = fen::parse("1rk1r3/8/8/8/8/8/8/1RK1R3 b EBeb - 2 9").unwrap();
        let mut game = game(start, "c8b8 c1b1");
        let text = written(&game);
        assert!(text.contains("[Variant \"Chess960\"]\n[SetUp \"1\"]\n[FEN \"1rk1r3/"), "{text}");
        assert!(text.contains("\n9... O-O-O 10. O-O-O *\n"), "{text}");
        assert_eq!(read(&text), game);
        // Tags that contradict the game are overridden.
        game.start = Board::default();
        game.moves.clear();
        assert!(!written(&game).contains("FEN"));
    }

    #[test]
    fn lines_are_short_and_comments_survive_being_broken() {
        let mut game = game(Board::default(), "g1f3 g8f6 f3g1 f6g8");
        let start = "%hidden [Event \"x\"] ; { (1... e5) [%clk 0:01:02] $1 1-0 é";
        game.moves[1].comment = Some(format!("{start} ").repeat(20).trim().to_owned());
        for _ in 0..30 {
            let again: Vec<Ply> = game.moves[..4].iter().map(|ply| Ply::new(ply.mv)).collect();
            game.moves.extend(again);
        }
        let text = written(&game);
        let (_, moves) = text.split_once("\n\n").unwrap();
        let is_short = |line: &str| line.chars().count() < COLUMNS;
        assert!(moves.lines().all(|line| is_short(line) || line.contains("%hidden")), "{moves}");
        assert!(!moves.contains("\n%") && !moves.contains("\n[Event"), "{moves}");
        game.moves[1].comment = game.moves[1].comment.take().map(|comment| comment.replace('{', "("));
        assert_eq!(read(&text), game);
    }

    #[test]
    fn a_move_that_is_not_legal_is_an_error() {
        let mut game = Game::from_start(Board::default());
        game.push("e2e5".parse().unwrap());
        let error = write(&mut Vec::new(), &game).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), "e2e5 is not a legal move here");
    }
}
