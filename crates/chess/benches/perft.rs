//! What the history, the keys and the change log of a [`Position`] cost, next to a bare board.
//!
//! `cargo bench -p tandem-chess --bench perft` counts the same trees with both, in turn and many times over, and
//! prints how fast each was at its best and the median of the ratios of neighbouring counts: what else the machine
//! does falls on both alike.

use cozy_chess::Board;
use std::hint::black_box;
use std::time::Instant;
use tandem_chess::{Position, fen, perft};

const POSITIONS: [(&str, u32); 4] = [
    ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", 4),
    ("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1", 3),
    ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", 5),
    ("r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10", 3),
];

const ROUNDS: usize = 101;

/// As [`perft`], on a board that is copied for each move.
fn bare_perft(board: &Board, depth: u32) -> u64 {
    let mut nodes = 0;
    if depth == 1 {
        board.generate_moves(|moves| {
            nodes += moves.len() as u64;
            false
        });
        return nodes;
    }
    board.generate_moves(|moves| {
        for mv in moves {
            let mut next = board.clone();
            next.play_unchecked(mv);
            nodes += bare_perft(&next, depth - 1);
        }
        false
    });
    nodes
}

fn seconds(count: impl FnOnce() -> u64) -> (f64, u64) {
    let started = Instant::now();
    let nodes = black_box(count());
    (started.elapsed().as_secs_f64(), nodes)
}

fn main() {
    println!("Position, Board: million nodes a second, and their ratio");
    let mut all_ratios = Vec::new();
    for (text, depth) in POSITIONS {
        let board = fen::parse(text).expect("the positions are sound");
        let mut position = Position::from(board.clone());
        let (mut best_bare, mut best_ours) = (f64::INFINITY, f64::INFINITY);
        let mut ratios = Vec::new();
        let mut nodes = 0;
        for _ in 0..ROUNDS {
            let (bare, count) = seconds(|| bare_perft(&board, depth));
            let (ours, same) = seconds(|| perft(&mut position, depth));
            assert_eq!(count, same, "{text}");
            nodes = count;
            best_bare = best_bare.min(bare);
            best_ours = best_ours.min(ours);
            ratios.push(bare / ours);
        }
        let speed = |time: f64| nodes as f64 / time / 1e6;
        println!("{:7.1} {:7.1} {:.3}  {text}", speed(best_ours), speed(best_bare), median(&mut ratios));
        all_ratios.append(&mut ratios);
    }
    println!("{:15} {:.3}  all", "", median(&mut all_ratios));
}

fn median(ratios: &mut [f64]) -> f64 {
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}
