//! Parsing a single game from its text.

use super::error::PgnErrorKind;
use super::tokens::{Cursor, Failure, Token};
use super::{Game, GameResult, Ply};
use crate::text::{clip_bytes, decode};
use crate::{Board, Move, fen, san};

/// Largest nesting depth of variations; annotators stay far below it.
const MAX_DEPTH: usize = 100;

/// Parses the game that begins at byte `at` of a text, and moves `at` behind it. `None` if only white space
/// and comments are left.
pub(super) fn next_game(text: &[u8], at: &mut usize, usual_start: &Board) -> Option<Result<Game, Failure>> {
    let mut cursor = Cursor::new(text, *at);
    let outcome = read_game(&mut cursor, usual_start);
    if outcome.is_err() {
        skip_game(&mut cursor);
    }
    *at = cursor.at();
    outcome.transpose()
}

fn read_game(cursor: &mut Cursor<'_>, usual_start: &Board) -> Result<Option<Game>, Failure> {
    let tags = read_tags(cursor)?;
    let mut game = Game {
        start: start_of(&tags)
            .map_err(|(name, kind)| cursor.failure_at_tag(name, kind))?
            .unwrap_or_else(|| usual_start.clone()),
        tags,
        moves: Vec::new(),
        result: GameResult::Unknown,
        comment: None,
    };
    let result = read_moves(cursor, &mut game)?;
    if game.tags.is_empty() && game.moves.is_empty() && result.is_none() {
        return Ok(None);
    }
    game.result = result.or_else(|| GameResult::parse(game.tag("Result")?)).unwrap_or_default();
    Ok(Some(game))
}

/// Start position from the tags, or the name of the invalid tag. `None` is the standard start.
fn start_of(tags: &[(String, String)]) -> Result<Option<Board>, (&'static str, PgnErrorKind)> {
    let value = |name: &str| tags.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    if let Some(variant) = value("Variant").filter(|variant| !is_known_variant(variant)) {
        return Err(("Variant", PgnErrorKind::Variant(clip_bytes(variant.as_bytes()))));
    }
    match value("FEN") {
        Some(text) => fen::parse(text).map(Some).map_err(|error| ("FEN", error.into())),
        None => Ok(None),
    }
}

/// True if a variant of this name follows the rules of chess or Chess960, for which programs use many names.
fn is_known_variant(name: &str) -> bool {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    let name: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    if matches!(name.as_str(), "" | "standard" | "chess" | "normal" | "fromposition" | "wildfr") {
        return true;
    }
    // "Chess960" and "Double Fischer Random" are accepted; "Atomic960" is another game.
    let named = ["960", "fischer", "frc", "freestyle"].iter().any(|part| name.contains(part));
    let words = ["fischerandom", "freestyle", "fischer", "double", "random", "chess", "dfrc", "frc", "960"];
    named && words.iter().fold(name, |rest, word| rest.replace(word, "")).is_empty()
}

fn read_tags(cursor: &mut Cursor<'_>) -> Result<Vec<(String, String)>, Failure> {
    let mut tags = Vec::new();
    cursor.skip_bom();
    loop {
        cursor.skip_space();
        match cursor.peek() {
            Some(b'[') => {
                if tags.is_empty() {
                    tags.reserve(12);
                }
                tags.push(cursor.tag()?);
            }
            _ => return Ok(tags),
        }
    }
}

/// A line of moves while it is parsed: the main line, or a variation.
struct Line {
    plies: Vec<Ply>,
    board: Board,
    /// Board before the last move, where a variation begins.
    before: Board,
    /// Comment before the first move.
    comment: Option<String>,
    /// Byte offset at which the line was opened.
    at: usize,
}

impl Line {
    fn new(board: Board, at: usize) -> Self {
        Self { plies: Vec::new(), before: board.clone(), board, comment: None, at }
    }

    fn push(&mut self, mv: Move) {
        self.before.clone_from(&self.board);
        self.board.play_unchecked(mv);
        self.plies.push(Ply::new(mv));
    }

    fn add_comment(&mut self, text: String) {
        let comment = match self.plies.last_mut() {
            Some(ply) => &mut ply.comment,
            None => &mut self.comment,
        };
        join(comment, text);
    }
}

/// Appends a comment to an earlier one.
fn join(comment: &mut Option<String>, text: String) {
    match comment {
        Some(earlier) => {
            earlier.push(' ');
            earlier.push_str(&text);
        }
        None => *comment = Some(text),
    }
}

/// Parses the moves up to and including the result, which is returned if there is one.
fn read_moves(cursor: &mut Cursor<'_>, game: &mut Game) -> Result<Option<GameResult>, Failure> {
    let mut line = Line::new(game.start.clone(), cursor.at());
    line.plies.reserve(100);
    // The enclosing lines of the variation `line`, the main line first.
    let mut outer: Vec<Line> = Vec::new();
    let mut result = None;
    while let Some((at, token)) = cursor.next_token()? {
        let fail = |kind| Err(Failure { at, kind });
        match token {
            Token::Move(text) => match san::parse_bytes(&line.board, text) {
                Ok(mv) => line.push(mv),
                Err(_) if text == b"Z0" => return fail(PgnErrorKind::NullMove("Z0".to_owned())),
                Err(error) => return fail(error.into()),
            },
            Token::Comment(text) => {
                let text = tidy(text);
                if !text.is_empty() {
                    line.add_comment(text);
                }
            }
            Token::Nag(nag) => {
                if let Some(ply) = line.plies.last_mut() {
                    ply.nags.push(nag);
                }
            }
            Token::Open if line.plies.is_empty() => return fail(PgnErrorKind::VariationWithoutMove),
            Token::Open if outer.len() == MAX_DEPTH => return fail(PgnErrorKind::TooDeep(MAX_DEPTH)),
            Token::Open => {
                let variation = Line::new(line.before.clone(), at);
                outer.push(std::mem::replace(&mut line, variation));
            }
            Token::Close => {
                let Some(enclosing) = outer.pop() else { return fail(PgnErrorKind::UnopenedVariation) };
                close_variation(std::mem::replace(&mut line, enclosing), &mut line);
            }
            // Some annotators end a variation with the result it would have led to.
            Token::Result(_) if !outer.is_empty() => {}
            Token::Result(found) => {
                result = Some(found);
                break;
            }
        }
    }
    if !outer.is_empty() {
        return Err(Failure { at: line.at, kind: PgnErrorKind::UnclosedVariation });
    }
    game.moves = line.plies;
    game.comment = line.comment;
    Ok(result)
}

/// Attaches a variation to the last move of its line.
fn close_variation(mut variation: Line, line: &mut Line) {
    match (variation.plies.first_mut(), variation.comment.take()) {
        // A variation has no place for a comment before its first move, so it is put behind that move.
        (Some(first), Some(before)) => match &mut first.comment {
            Some(comment) => *comment = format!("{before} {comment}"),
            none => *none = Some(before),
        },
        (None, Some(only)) => line.add_comment(only),
        _ => {}
    }
    if let Some(ply) = line.plies.last_mut()
        && !variation.plies.is_empty()
    {
        // Most variations are short, and there can be many.
        variation.plies.shrink_to_fit();
        ply.variations.push(variation.plies);
    }
}

/// The text of a comment on one line. Line breaks occur anywhere, so all white space is reduced to single
/// spaces.
fn tidy(comment: &[u8]) -> String {
    let comment = decode(comment);
    let mut text = String::with_capacity(comment.len());
    for word in comment.split_ascii_whitespace() {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

/// After a failure: skips to the end of the game's result, or of the text.
fn skip_game(cursor: &mut Cursor<'_>) {
    let mut depth = 0_usize;
    loop {
        cursor.skip_space();
        if cursor.peek() == Some(b'[') {
            // A tag may contain what looks like a result.
            cursor.skip_line();
            continue;
        }
        match cursor.next_token() {
            Ok(None) => return,
            Ok(Some((_, Token::Open))) => depth += 1,
            Ok(Some((_, Token::Close))) => depth = depth.saturating_sub(1),
            Ok(Some((_, Token::Result(_)))) if depth == 0 => return,
            Ok(Some(_)) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Game, Failure> {
        next_game(text.as_bytes(), &mut 0, &Board::default()).expect("a game")
    }

    /// The game's moves and variations with their annotations, as compact text.
    fn outline(line: &[Ply]) -> String {
        let mut text = String::new();
        for ply in line {
            text += &format!("{}", ply.mv);
            for nag in &ply.nags {
                text += &format!("${nag}");
            }
            if let Some(comment) = &ply.comment {
                text += &format!("{{{comment}}}");
            }
            for variation in &ply.variations {
                text += &format!("({})", outline(variation));
            }
            text.push(' ');
        }
        text.trim_end().to_owned()
    }

    #[test]
    fn all_tokens_of_the_move_text_are_parsed() {
        for (text, expected) in [
            ("1.e4 e5 2.Nf3 *", "e2e4 e7e5 g1f3"),
            ("1. e4 1... e5 2 Nf3 *", "e2e4 e7e5 g1f3"),
            ("e4!e5?Nf3!!Nc6??Bb5!?a6?!Ba4!!!", "e2e4$1 e7e5$2 g1f3$3 b8c6$4 f1b5$5 a7a6$6 b5a4$3"),
            ("1. e4 $1 $255 e5$14 *", "e2e4$1$255 e7e5$14"),
            (
                "1. e4 { good\r\n move } {yes} e5 ; to the end } (\n2. Nf3",
                "e2e4{good move yes} e7e5{to the end } (} g1f3",
            ),
            ("1. e4 (1. d4 d5 (1... Nf6)) (1. c4) e5", "e2e4(d2d4 d7d5(g8f6))(c2c4) e7e5"),
            ("1. e4 ({first} 1. d4 {then}) ({only}) e5", "e2e4{only}(d2d4{first then}) e7e5"),
            ("1. e4 (1. d4 1-0) e5", "e2e4(d2d4) e7e5"),
            ("1. e4\n% hidden ) } 1-0\ne5", "e2e4 e7e5"),
            ("1. e4 {} e5", "e2e4 e7e5"),
            ("$1 1. e4", "e2e4"),
        ] {
            assert_eq!(outline(&read(text).unwrap().moves), expected, "{text}");
        }
    }

    #[test]
    fn castling_with_zeros_is_not_a_result() {
        let game = read("[FEN \"r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1\"]\n1.0-0 0-0-0+ 2. Kg2 0-1").unwrap();
        assert_eq!(outline(&game.moves), "e1h1 e8a8 g1g2");
        assert_eq!(game.result, GameResult::BlackWins);
    }

    #[test]
    fn a_promotion_in_brackets_is_not_a_variation() {
        let game = read("[FEN \"7k/4P3/8/8/8/8/8/4K3 w - - 0 1\"]\n1.e8(Q)+ Kg7 (1... Kh7) *").unwrap();
        assert_eq!(outline(&game.moves), "e7e8q h8g7(h8h7)");
    }

    #[test]
    fn en_passant_may_be_marked() {
        let game = read("[FEN \"4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1\"]\n1.exd6 e.p. Kd7 *").unwrap();
        assert_eq!(outline(&game.moves), "e5d6 e8d7");
    }

    #[test]
    fn results_come_from_the_moves_or_else_from_the_tag() {
        for (text, result) in [
            ("1. e4 1-0", GameResult::WhiteWins),
            ("1. e4 0-1", GameResult::BlackWins),
            ("1. e4 1/2-1/2", GameResult::Draw),
            ("1. e4 1/2", GameResult::Draw),
            ("1. e4 *", GameResult::Unknown),
            ("1. e4", GameResult::Unknown),
            ("[Result \"1-0\"]\n\n1. e4", GameResult::WhiteWins),
            ("[Result \"1-0\"]\n\n1. e4 0-1", GameResult::BlackWins),
            ("[Result \"unknown\"]\n\n1. e4", GameResult::Unknown),
        ] {
            assert_eq!(read(text).unwrap().result, result, "{text}");
        }
    }

    #[test]
    fn tags() {
        let text = concat!(
            "\u{FEFF}[Event \"a \\\"b\\\" \\\\ c\"]\r\n  [ Site  \"x\" ] [Round \"\"]\n% [Hidden \"x\"]\n",
            "[White \"the \"great\" one\"]\n\n[Black \"a\\b\"]\n\n{before} 1. e4 *"
        );
        let game = read(text).unwrap();
        let expected = [
            ("Event", r#"a "b" \ c"#),
            ("Site", "x"),
            ("Round", ""),
            ("White", "the \"great\" one"),
            ("Black", r"a\b"),
        ];
        let tags: Vec<_> = game.tags.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(tags, expected);
        assert_eq!(game.comment.as_deref(), Some("before"));
    }

    #[test]
    fn latin_1_is_read_field_by_field() {
        let text = b"[White \"R\xE9ti\"]\n[Black \"R\xC3\xA9ti\"]\n\n1. e4 {tr\xE8s bien} *";
        let game = next_game(text, &mut 0, &Board::default()).unwrap().unwrap();
        assert_eq!((game.tag("White"), game.tag("Black")), (Some("Réti"), Some("Réti")));
        assert_eq!(game.moves[0].comment.as_deref(), Some("très bien"));
    }

    #[test]
    fn start_positions() {
        let fen = "1rk1r3/8/8/8/8/8/8/1RK1R3 w KQkq - 2 9";
        let game =
            read(&format!("[Variant \"Fischer Random\"]\n[SetUp \"1\"]\n[FEN \"{fen}\"]\n\n9. O-O-O *"))
                .unwrap();
        assert_eq!(game.start, fen::parse(fen).unwrap());
        assert_eq!(outline(&game.moves), "c1b1");
        for name in ["Standard", "From Position", "chess 960", "fischerandom"] {
            assert!(read(&format!("[Variant \"{name}\"]\n\n1. e4 *")).is_ok(), "{name}");
        }
    }

    #[test]
    fn games_that_share_a_line() {
        let text = "1. e4 e5 1-0 1. Zz9 (1. d4 1-0) 0-1 1. d4 d5 0-1 {the end}";
        let (mut at, start) = (0, Board::default());
        let mut next = || next_game(text.as_bytes(), &mut at, &start);
        assert_eq!(outline(&next().unwrap().unwrap().moves), "e2e4 e7e5");
        assert_eq!(next().unwrap().unwrap_err().at, 16);
        assert_eq!(outline(&next().unwrap().unwrap().moves), "d2d4 d7d5");
        assert!(next().is_none());
    }

    #[test]
    fn a_result_in_a_broken_tag_does_not_end_the_game() {
        let text = "[Event \"* 1-0]\n[Site \"x\"]\n\n1. e4 * 1. d4 *";
        let (mut at, start) = (0, Board::default());
        let mut next = || next_game(text.as_bytes(), &mut at, &start);
        assert!(next().unwrap().is_err());
        assert_eq!(outline(&next().unwrap().unwrap().moves), "d2d4");
        assert!(next().is_none());
    }

    #[test]
    fn each_error_has_its_own_kind_and_place() {
        let deep = format!("1. e4 {}", "(1. d4 ".repeat(200));
        for (text, at, message) in [
            ("1. e4 e5 2. Ke3", 12, "'Ke3' is not a legal move here"),
            ("1. e4 hm", 6, "'hm' is not a move in algebraic notation (such as Nf3, exd5, O-O or e8=Q)"),
            ("1. e4 -- 2. d4", 6, "'--' is a null move, which is not legal"),
            ("1. e4 Z0 2. d4", 6, "'Z0' is a null move, which is not legal"),
            ("1. e4 { what", 6, "the comment that begins with 'what' is not closed by '}'"),
            ("1. e4 (1. d4", 6, "a variation is not closed by ')'"),
            ("1. e4 ) e5", 6, "')' closes a variation that was not opened"),
            ("(1. e4)", 0, "a variation begins before there is a move to replace"),
            ("1. e4 $256", 6, "'$256' is not a numeric annotation glyph ($0 to $255)"),
            ("1. e4 $ e5", 6, "'$' is not a numeric annotation glyph ($0 to $255)"),
            ("1. e4 <x> e5", 6, "'<x>' has no meaning among the moves"),
            ("1. e4 } e5", 6, "'}' has no meaning among the moves"),
            (&deep, 706, "variations are nested more than 100 deep"),
            ("[:x \"b\"]\n\n*", 0, "'[:x \"b\"]' is not a tag; it should look like [Name \"value\"]"),
            ("[Event]\n\n1. e4", 0, "'[Event]' is not a tag; it should look like [Name \"value\"]"),
            (
                "[A \"b\"]\n[Event \"x]\n\n",
                8,
                "'[Event \"x]' is not a tag; it should look like [Name \"value\"]",
            ),
            (
                "[A \"b\"]\n[FEN \"x\"]\n\n*",
                8,
                "in the tag FEN: the board has 1 ranks; it should have 8, separated by '/'",
            ),
            ("[Variant \"Atomic\"]\n\n*", 0, "the variant 'Atomic' is not chess or Chess960"),
            ("[Variant \"Atomic960\"]\n\n*", 0, "the variant 'Atomic960' is not chess or Chess960"),
        ] {
            let failure = read(text).unwrap_err();
            assert_eq!((failure.at, failure.kind.to_string().as_str()), (at, message), "{text}");
        }
    }

    #[test]
    fn blank_text_is_not_a_game() {
        for text in ["", " \n", "{only a comment}\n", "% hidden\n", "\u{FEFF}"] {
            assert!(next_game(text.as_bytes(), &mut 0, &Board::default()).is_none(), "{text}");
        }
        assert!(read("*").unwrap().moves.is_empty());
    }
}
