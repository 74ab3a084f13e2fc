//! Set-up shared by the tests of matches: engines, a match with generous timeouts, and temporary folders.

use std::path::PathBuf;
use std::time::Duration;
use tandem_arena::{Book, BookOrder, EngineSpec, GameRules, Timeouts, Tournament, TournamentFormat};

/// Describes the fake engine with the given faults; `rest` holds further items such as its limits.
pub(crate) fn spec(name: &str, faults: &str, rest: &str) -> EngineSpec {
    let mut spec = EngineSpec::parse(&format!("cmd=-,name={name},{rest}"), "").unwrap();
    spec.command = env!("CARGO_BIN_EXE_fake-engine").into();
    spec.args.extend(faults.split_ascii_whitespace().map(str::to_owned));
    spec
}

/// A match with longer timeouts than a busy machine needs; tests that wait for a timeout shorten it.
pub(crate) fn tournament(engines: &[EngineSpec], games: usize) -> Tournament {
    Tournament {
        engines: engines.to_vec(),
        format: TournamentFormat::RoundRobin,
        games,
        book: Book::standard(),
        book_path: None,
        book_order: BookOrder::Sequential,
        rules: GameRules::default(),
        concurrency: 2,
        affinity: false,
        timeouts: Timeouts {
            start: Duration::from_secs(20),
            ready: Duration::from_secs(20),
            untimed_move: Duration::from_secs(60),
            after_stop: Duration::from_secs(20),
        },
        pgn: None,
        state: None,
        event: "test".into(),
    }
}

/// Creates an empty temporary folder for one test.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tandem-arena-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}
