//! Perft counts against published numbers: any fault in the rules shows here.

use std::fs::File;
use std::io::BufReader;
use tandem_chess::epd::{self, Epd};
use tandem_chess::{Position, perft};
use tandem_util::test_data;

/// Well-known positions: the start, two that are rich in special moves, two endgames, and Chess960.
const KNOWN: [&str; 8] = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1 ;D1 20 ;D2 400 ;D3 8902 ;D4 197281",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1 ;D1 48 ;D2 2039 ;D3 97862",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1 ;D1 14 ;D2 191 ;D3 2812 ;D4 43238 ;D5 674624",
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1 ;D1 6 ;D2 264 ;D3 9467 ;D4 422333",
    "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8 ;D1 44 ;D2 1486 ;D3 62379",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1 ;D1 24 ;D2 496 ;D3 9483 ;D4 182838",
    "bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9 ;D1 21 ;D2 528 ;D3 12189 ;D4 326672",
    "2nnrbkr/p1qppppp/8/1ppb4/6PP/3PP3/PPP2P2/BQNNRBKR w HEhe - 1 9 ;D1 21 ;D2 807 ;D3 18002",
];

/// The suite with this name, from the test data.
fn suite(name: &str) -> Vec<Epd> {
    let file = File::open(test_data::path(&format!("suites/{name}"))).unwrap();
    epd::read(BufReader::new(file))
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn check(epd: &Epd, depth: u32, nodes: u64) {
    let mut position = Position::from(epd.board.clone());
    assert_eq!(perft(&mut position, depth), nodes, "depth {depth} of {epd}");
}

/// Counts every line to depth four, or to the first depth that the line gives if that is deeper.
fn check_to_depth_four(suite: &[Epd]) {
    for epd in suite {
        let mut counts = epd.perft().peekable();
        let (first, _) = *counts.peek().unwrap_or_else(|| panic!("nothing to count in {epd}"));
        for (depth, nodes) in counts.take_while(|&(depth, _)| depth <= first.max(4)) {
            check(epd, depth, nodes);
        }
    }
}

#[test]
fn known_positions() {
    let known: Vec<Epd> = KNOWN.iter().map(|line| epd::parse(line).unwrap()).collect();
    check_to_depth_four(&known);
}

#[test]
#[ignore = "needs data"]
fn standard_suite_to_depth_four() {
    check_to_depth_four(&suite("perft_standard.epd"));
}

#[test]
#[ignore = "needs data"]
fn chess960_suite_to_depth_four() {
    check_to_depth_four(&suite("perft_chess960.epd"));
}

/// For each line the first depth that has at least ten million nodes, or the deepest one given.
#[test]
#[ignore = "counts 62 billion nodes, which takes minutes in a release build: scripts/long_tests.sh runs it"]
fn both_suites_to_ten_million_nodes_each() {
    for epd in [suite("perft_standard.epd"), suite("perft_chess960.epd")].concat() {
        let counts: Vec<_> = epd.perft().collect();
        let enough = counts.iter().find(|&&(_, nodes)| nodes >= 10_000_000).or(counts.last());
        let &(depth, nodes) = enough.unwrap_or_else(|| panic!("nothing to count in {epd}"));
        check(&epd, depth, nodes);
    }
}
