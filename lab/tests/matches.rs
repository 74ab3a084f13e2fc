//! `tandem-lab match`, `sprt`, `elo`, `suite` and `puzzles` as a user runs them, with our search inside the
//! program and with an engine that fails.

mod common;

use common::{directory, run_err, run_ok};
use std::path::Path;

const NEW: &str = "cmd=@tandem,name=new,nodes=40";
const OLD: &str = "cmd=@tandem,name=old,nodes=20";

/// An engine that completes the UCI handshake and exits when it should search.
#[cfg(unix)]
fn failing(dir: &Path) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join("failing");
    let script = "#!/bin/sh\nwhile read line; do case $line in uci) echo uciok;; isready) echo readyok;; go*) exit 1;; esac; done\n";
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("cmd={},st=0.1", path.display())
}

#[test]
fn a_match_is_counted_and_unwritable_outputs_are_reported_before_it() {
    let dir = directory("match");
    let book = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1\n\
                rnbqkbnr/pppppppp/8/8/3P4/8/PPP1PPPP/RNBQKBNR b KQkq - 0 1\n";
    std::fs::write(dir.join("book.epd"), book).unwrap();
    // An editor has left the last line without a newline.
    std::fs::write(dir.join("games.pgn"), "[White \"new\"]\n[Black \"old\"]\n[Result \"1-0\"]\n\n1. e4 1-0")
        .unwrap();
    let play = [
        "match",
        "--engine",
        NEW,
        "--engine",
        OLD,
        "--openings",
        "book.epd",
        "--games",
        "4",
        "--max-moves",
        "6",
    ];
    let error = run_err(&[&play[..], &["--json", "no/such/x.json", "--pgn", "games.pgn"]].concat(), &dir);
    assert!(error.contains("no/such/x.json"), "{error}");
    assert_eq!(
        std::fs::read_to_string(dir.join("games.pgn")).unwrap().matches("[Event").count(),
        0,
        "no game was played"
    );

    let printed = run_ok(&[&play[..], &["--json", "x.json", "--pgn", "games.pgn"]].concat(), &dir);
    assert!(printed.contains("new vs old: ") && printed.contains("of 4 points"), "{printed}");
    assert!(dir.join("x.json").exists());
    let printed = run_ok(&["elo", "games.pgn"], &dir);
    assert!(printed.contains("new vs old: ") && printed.contains("of 5 points"), "{printed}");

    // More pairs than openings would repeat the same games.
    let test = ["sprt", "--engine", NEW, "--engine", OLD, "--openings", "book.epd", "--games", "40"];
    let error = run_err(&test, &dir);
    assert!(error.contains("2 openings for 20 pairs") && error.contains("--games 4"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn elo_is_computed_from_counts() {
    let dir = directory("elo");
    let printed = run_ok(&["elo", "--pairs", "5,28,64,26,7", "--sprt", "0,5"], &dir);
    assert!(printed.contains("LLR"), "{printed}");
    let error = run_err(&["elo", "--pairs", "5,28,64,26,7", "--sprt", "0,300"], &dir);
    assert!(error.contains("within"), "{error}");
    let printed = run_ok(&["elo", "--wdl", "10,0,0"], &dir);
    assert!(!printed.contains("[inf, inf]"), "{printed}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[cfg(unix)]
#[test]
fn an_engine_failure_is_not_counted_as_wrong_moves() {
    let dir = directory("failing");
    let engine = failing(&dir);
    std::fs::write(dir.join("mates.epd"), "6k1/5ppp/8/8/8/8/8/R5K1 w - - bm Ra8#; id \"a\";\n").unwrap();
    let puzzles = "PuzzleId,FEN,Moves,Rating\na,6k1/5ppp/8/8/8/7r/1R6/R5K1 b - - 0 1,h3h4 a1a8,900\n";
    std::fs::write(dir.join("puzzles.csv"), puzzles).unwrap();
    let error = run_err(&["suite", "mates.epd", "--engine", &engine, "--save", "x.json"], &dir);
    assert!(error.contains("the engine failed 1 times in 1"), "{error}");
    let error = run_err(&["puzzles", "puzzles.csv", "--engine", &engine, "--json", "x.json"], &dir);
    assert!(error.contains("the engine failed 1 times in 1"), "{error}");
    assert!(!dir.join("x.json").exists());
    let printed =
        run_ok(&["suite", "mates.epd", "--engine", "cmd=@tandem,nodes=2000", "--save", "x.json"], &dir);
    assert!(printed.contains("1/1") && dir.join("x.json").exists(), "{printed}");
    std::fs::remove_dir_all(dir).unwrap();
}
