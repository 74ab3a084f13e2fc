//! Every notation parses its own output, on positions of random games: standard starts, Chess960 and double
//! Chess960.

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashSet;
use tandem_chess::epd::{self, Epd};
use tandem_chess::move_map::{lc0, searchless};
use tandem_chess::pgn::{self, Game, GameReader, GameResult, Ply};
use tandem_chess::{Board, Move, Position, fen, san, uci};

/// Any start: half of them the standard one or positions rich in special moves, half of them Chess960.
fn start() -> impl Strategy<Value = Board> {
    let rich = [
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
        "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
        "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
        "k7/8/8/3QQQ2/3Q1Q2/3QQQ2/8/K7 b - - 0 1",
    ];
    prop_oneof![
        Just(Board::default()),
        prop::sample::select(rich.to_vec()).prop_map(|text| fen::parse(text).unwrap()),
        (0..960_u32).prop_map(Board::chess960_startpos),
        (0..960_u32, 0..960_u32).prop_map(|(white, black)| Board::double_chess960_startpos(white, black)),
    ]
}

/// A start and the moves of a random game, which ends early if there is no legal move.
fn random_game() -> impl Strategy<Value = (Board, Vec<Move>)> {
    (start(), vec(any::<prop::sample::Index>(), 0..120)).prop_map(|(start, choices)| {
        let mut position = Position::from(start.clone());
        let mut moves = Vec::new();
        for choice in choices {
            let legal = position.legal_moves();
            if legal.is_empty() {
                break;
            }
            let mv = *choice.get(&legal);
            position.play(mv);
            moves.push(mv);
        }
        (start, moves)
    })
}

/// Each position of a game.
fn boards(start: &Board, moves: &[Move]) -> Vec<Board> {
    let mut board = start.clone();
    let mut boards = vec![board.clone()];
    for &mv in moves {
        board.play(mv);
        boards.push(board.clone());
    }
    boards
}

fn legal_moves(board: &Board) -> Vec<Move> {
    let mut moves = Vec::new();
    board.generate_moves(|piece_moves| {
        moves.extend(piece_moves);
        false
    });
    moves
}

/// A comment as a reader returns it: any text without braces, with single spaces.
fn comment() -> impl Strategy<Value = Option<String>> {
    let text = prop_oneof![
        Just(String::new()),
        "[ -z|~é]{1,200}",
        "(\\[%[a-z]{1,5} [0-9:.]{1,9}\\] |%[a-z]{1,9} |\\[Event \"x\"\\] |; ){1,30}",
    ];
    text.prop_map(|text| {
        let text = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        (!text.is_empty()).then_some(text)
    })
}

fn result() -> impl Strategy<Value = GameResult> {
    prop::sample::select(vec![
        GameResult::WhiteWins,
        GameResult::BlackWins,
        GameResult::Draw,
        GameResult::Unknown,
    ])
}

/// Annotations of a move: its glyphs, its comment, and the move of a variation, if any.
type Remarks = (Vec<u8>, Option<String>, Option<prop::sample::Index>);

fn remarks() -> impl Strategy<Value = Remarks> {
    (vec(any::<u8>(), 0..3), comment(), prop::option::of(any::<prop::sample::Index>()))
}

/// A game with everything that PGN can express.
fn annotated_game() -> impl Strategy<Value = Game> {
    let parts = (random_game(), vec(remarks(), 0..120), comment(), result(), "[ -~éß]{0,30}");
    parts.prop_map(|((start, moves), remarks, comment, result, name)| {
        let mut game = Game::from_start(start);
        game.set_tag("White", &name);
        game.set_tag("Annotator", &name);
        game.set_tag("Result", result.as_str());
        game.result = result;
        game.comment = comment;
        let boards = boards(&game.start, &moves);
        game.moves = moves.into_iter().map(Ply::new).collect();
        for (ply, ((nags, comment, other), board)) in
            game.moves.iter_mut().zip(remarks.into_iter().zip(&boards))
        {
            if let Some(other) = other {
                let mv = *other.get(&legal_moves(board));
                let inner = Ply { comment: comment.clone(), nags: nags.clone(), ..Ply::new(mv) };
                let nested = Ply { variations: vec![vec![inner.clone()]], ..inner.clone() };
                ply.variations = vec![vec![inner], vec![nested]];
            }
            ply.nags = nags;
            ply.comment = comment;
        }
        game
    })
}

fn text_of(games: &[Game]) -> Vec<u8> {
    let mut text = Vec::new();
    for game in games {
        pgn::write(&mut text, game).unwrap();
    }
    text
}

/// Fragments of all notations, to be combined at random.
const WORDS: [&str; 36] = [
    " ",
    "\n",
    "\r\n",
    "1.",
    "e4",
    "e5",
    "Nf3",
    "O-O",
    "0-0",
    "e8=Q",
    "e8(Q)",
    "+",
    "!",
    "$1",
    "{",
    "}",
    "(",
    ")",
    ";",
    "%",
    "[",
    "]",
    "\"",
    "\\",
    "[Event \"x\"]",
    "FEN",
    "*",
    "1-0",
    "1/2",
    "-",
    "--",
    "é",
    "\u{FEFF}",
    "8/8",
    " w - - 0 1",
    "0",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn positions_and_moves((start, moves) in random_game()) {
        for board in boards(&start, &moves) {
            let text = fen::format(&board);
            prop_assert_eq!(&fen::parse(&text).unwrap(), &board);
            let mut names = HashSet::new();
            for mv in legal_moves(&board) {
                let name = san::format(&board, mv);
                prop_assert_eq!(san::parse(&board, &name), Ok(mv), "{} in {}", name, text);
                let long = uci::format(&board, mv, true);
                prop_assert_eq!(uci::parse(&board, &long), Ok(mv), "{} in {}", long, text);
                prop_assert_eq!(san::parse(&board, &long), Ok(mv), "{} in {}", long, text);
                if !fen::is_chess960(&board) {
                    let long = uci::format(&board, mv, false);
                    prop_assert_eq!(uci::parse(&board, &long), Ok(mv), "{} in {}", long, text);
                }
                prop_assert_eq!(lc0::move_of(&board, lc0::index_of(&board, mv)), Some(mv), "{} in {}", mv, text);
                if let Some(index) = searchless::index_of(&board, mv) {
                    prop_assert_eq!(searchless::move_of(&board, index), Some(mv), "{} in {}", mv, text);
                }
                prop_assert!(names.insert(name), "two moves of one name in {}", text);
            }
        }
    }

    #[test]
    fn remarks_on_positions((start, moves) in random_game(), words in vec("[ -~é]{0,20}", 0..4)) {
        for board in boards(&start, &moves) {
            let mut line = Epd::new(board);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            line.push("id", &words);
            line.push("note", &words);
            let best: Vec<String> = legal_moves(&line.board).iter().map(|&mv| san::format(&line.board, mv)).collect();
            line.push("bm", &best.iter().map(String::as_str).collect::<Vec<_>>());
            let text = line.to_string();
            prop_assert_eq!(&epd::parse(&text).unwrap(), &line, "{}", text);
            prop_assert_eq!(line.bm().unwrap(), legal_moves(&line.board));
        }
    }

    #[test]
    fn games(games in vec(annotated_game(), 1..4)) {
        let text = text_of(&games);
        let read: Vec<Game> = GameReader::new(text.as_slice()).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read, games, "{}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn no_text_panics(words in vec(prop::sample::select(WORDS.to_vec()), 0..40)) {
        let text = words.concat();
        let board = Board::default();
        let _ = (fen::parse(&text), epd::parse(&text), san::parse(&board, &text), uci::parse(&board, &text));
        for game in GameReader::new(text.as_bytes()).flatten() {
            // A parsed text can be written and parsed again. Braces in comments are lost the first time,
            // nothing the second time.
            let written = text_of(&[game]);
            let again: Vec<Game> = GameReader::new(written.as_slice()).collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(text_of(&again), written, "{}", text);
        }
    }
}
