//! The PGN of a match can be read back by our reader and by python-chess.

use crate::setup::{directory, spec, tournament};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, atomic::AtomicBool};
use tandem_arena::{Book, BookOrder, MatchReport, Observer, Outcome};
use tandem_chess::pgn;

struct Silent;
impl Observer for Silent {}

/// Plays four games, two of them from a position of Chess960, and records them in `games.pgn`.
fn play(dir: &Path) -> MatchReport {
    let book = dir.join("book.epd");
    std::fs::write(
        &book,
        "rnbqkbnr/pp1ppppp/8/2p5/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2\n\
         bqnbnrkr/pppppppp/8/8/8/8/PPPPPPPP/BQNBNRKR w KQkq - 0 1\n",
    )
    .unwrap();
    let mut tournament = tournament(&[spec("a", "", "tc=9+0.1"), spec("b", "", "tc=9+0.1")], 4);
    tournament.book = Book::open(&book, BookOrder::Sequential, None).unwrap();
    tournament.rules.chess960 = true;
    tournament.pgn = Some(dir.join("games.pgn"));
    tournament.run(&Arc::new(AtomicBool::new(false)), &mut Silent).unwrap()
}

#[test]
fn games_are_read_back_with_clocks_and_evaluations() {
    let dir = directory("records");
    let report = play(&dir);
    let file = std::io::BufReader::new(std::fs::File::open(dir.join("games.pgn")).unwrap());
    let mut reader = pgn::GameReader::new(file);
    let games: Vec<pgn::Game> = std::iter::from_fn(|| reader.next_game()).map(Result::unwrap).collect();
    assert_eq!(games.len(), 4);
    for (game, result) in games.iter().zip(report.standings.in_order()) {
        assert_eq!(game.moves.len(), result.plies);
        assert!(game.moves.iter().all(|ply| ply.eval().is_some() && ply.clock().is_some()));
        assert_eq!(game.tag("White"), Some(["a", "b"][result.white]));
        let outcome = match game.result {
            pgn::GameResult::WhiteWins => Outcome::WhiteWins,
            pgn::GameResult::BlackWins => Outcome::BlackWins,
            _ => Outcome::Draw,
        };
        assert_eq!(outcome, result.outcome);
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
#[ignore = "needs python-chess"]
fn python_chess_reads_the_games() {
    const SCRIPT: &str = r#"
import sys, chess.pgn
counts = []
with open(sys.argv[1]) as file:
    while (game := chess.pgn.read_game(file)) is not None:
        assert not game.errors, game.errors
        nodes = list(game.mainline())
        assert all(node.eval() is not None and node.clock() is not None for node in nodes)
        assert all(node.eval_depth() == 1 for node in nodes)
        board = game.end().board()
        assert "checkmate" not in game.end().comment or board.is_checkmate()
        counts.append(str(len(nodes)))
print(" ".join(counts))
"#;
    let dir = directory("python-chess");
    let report = play(&dir);
    let plies: Vec<String> = report.standings.in_order().map(|result| result.plies.to_string()).collect();
    let python = std::env::var("TANDEM_PYTHON").unwrap_or_else(|_| "python3".into());
    let output = Command::new(python).args(["-c", SCRIPT]).arg(dir.join("games.pgn")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), plies.join(" "));
    std::fs::remove_dir_all(dir).unwrap();
}
