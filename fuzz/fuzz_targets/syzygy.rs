//! Syzygy endgame tables. A table with a few bytes changed, or of random bytes, is either refused or answers, and
//! never twice with different results.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use tandem_chess::Position;
use tandem_fuzz::mutate;
use tandem_syzygy::Tables;

#[path = "../../crates/syzygy/tests/common/sample.rs"]
mod sample;

const POSITIONS: [&str; 6] = [
    "8/8/3k4/8/8/8/4Q3/K7 w - - 0 1",
    "8/8/3k4/8/8/8/4Q3/K7 b - - 0 1",
    "8/8/3k4/8/3q4/8/8/K7 w - - 30 1",
    "8/3q4/3k4/8/8/8/8/7K b - - 0 1",
    "7k/8/8/8/8/8/1Q6/K7 w - - 99 90",
    "8/8/3k4/8/8/8/8/KQ6 b - - 0 1",
];

/// Probes all positions in tables of these files.
fn probe(files: impl IntoIterator<Item = (PathBuf, Vec<u8>)>) {
    let tables = Tables::from_files(files);
    for fen in POSITIONS {
        let position = Position::from_fen(fen).expect("valid");
        let first = tables.wdl(position.board());
        let _ = (tables.dtz(position.board()), tables.rank_moves(&position));
        let second = tables.wdl(position.board());
        assert!(first == second || second.is_err(), "{fen}");
    }
    assert!(tables.take_broken().len() <= 2);
}

fuzz_target!(|bytes: &[u8]| {
    let [kind, rest @ ..] = bytes else { return };
    let mut files = sample::files();
    let changed = &mut files[usize::from(kind & 1)].1;
    *changed = if kind & 0x80 == 0 { mutate(changed.clone(), rest) } else { rest.to_vec() };
    probe(files);
});
