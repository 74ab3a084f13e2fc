//! What the tests of matches share.

use std::path::PathBuf;
use std::time::Duration;
use tandem_arena::{Book, BookOrder, EngineSpec, Format, GameRules, Patience, Tournament};

/// The fake engine with some faults.
pub(crate) fn spec(name: &str, faults: &str, rest: &str) -> EngineSpec {
    let mut spec = EngineSpec::parse(&format!("cmd=-,name={name},{rest}"), "").unwrap();
    spec.command = env!("CARGO_BIN_EXE_fake-engine").into();
    spec.args.extend(faults.split_ascii_whitespace().map(str::to_owned));
    spec
}

/// A match with more patience than a busy machine needs; tests that wait for its end cut it short.
pub(crate) fn tournament(engines: &[EngineSpec], games: usize) -> Tournament {
    Tournament {
        engines: engines.to_vec(),
        format: Format::RoundRobin,
        games,
        book: Book::standard(),
        book_path: None,
        book_order: BookOrder::Sequential,
        rules: GameRules::default(),
        concurrency: 2,
        affinity: false,
        patience: Patience {
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

/// A directory of its own for a test.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tandem-arena-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}
