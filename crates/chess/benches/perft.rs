//! The speed of [`perft`], and of a [`Position`] that plays every move, next to a bare board.
//!
//! `cargo bench -p tandem-chess --bench perft` counts the same trees with all three, alternately and many
//! times over, and prints the best speed of each and the median of the ratios of neighbouring counts, because
//! then other load on the machine affects all alike. The first ratio should be above 0.9; the second is the
//! cost of history, keys and the log of changes, as a search pays it.

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

/// Like [`perft`], on a board that is copied for each move.
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

/// Like [`perft`], with every move but the last played on the position.
fn full_perft(position: &mut Position, depth: u32) -> u64 {
    if depth == 1 {
        return bare_perft(position.board(), 1);
    }
    let board = position.board().clone();
    let mut nodes = 0;
    board.generate_moves(|moves| {
        for mv in moves {
            position.play(mv);
            nodes += full_perft(position, depth - 1);
            position.undo();
        }
        false
    });
    nodes
}

/// Seconds that a count takes.
fn seconds(nodes: u64, count: impl FnOnce() -> u64) -> f64 {
    let started = Instant::now();
    assert_eq!(black_box(count()), nodes);
    started.elapsed().as_secs_f64()
}

fn main() {
    println!("million nodes a second: bare board, perft, Position; ratios to the bare board");
    let mut all = [Vec::new(), Vec::new()];
    for (text, depth) in POSITIONS {
        let board = fen::parse(text).expect("the positions are sound");
        let mut position = Position::from(board.clone());
        let nodes = bare_perft(&board, depth);
        let mut best = [f64::INFINITY; 3];
        let mut ratios = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            let times = [
                seconds(nodes, || bare_perft(&board, depth)),
                seconds(nodes, || perft(&mut position, depth)),
                seconds(nodes, || full_perft(&mut position, depth)),
            ];
            best = [0, 1, 2].map(|i| best[i].min(times[i]));
            for (ratios, time) in ratios.iter_mut().zip(&times[1..]) {
                ratios.push(times[0] / time);
            }
        }
        let [bare, ours, full] = best.map(|time| nodes as f64 / time / 1e6);
        let [perft, play] = ratios.each_mut().map(|ratios| median(ratios));
        println!("{bare:7.1} {ours:7.1} {full:7.1}  {perft:.3} {play:.3}  {text}");
        for (all, ratios) in all.iter_mut().zip(ratios) {
            all.extend(ratios);
        }
    }
    let [perft, play] = all.each_mut().map(|ratios| median(ratios));
    println!("{:24} {perft:.3} {play:.3}  all", "");
}

fn median(ratios: &mut [f64]) -> f64 {
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}
