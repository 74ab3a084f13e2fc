//! `perft`: counting the leaves of the tree of legal moves.

use crate::output::send;
use std::time::Instant;
use tandem_chess::{Position, perft, uci};
use tandem_search::{Signals, nodes_per_second};

/// Counts and prints the leaves behind each move. Returns a text with their sum, unless it is stopped.
pub(crate) fn count(mut position: Position, depth: u32, chess960: bool, signals: &Signals) -> String {
    let start = Instant::now();
    let mut total = u64::from(depth == 0);
    for mv in position.legal_moves() {
        if depth == 0 || signals.is_stopped() {
            break;
        }
        let text = uci::format(position.board(), mv, chess960);
        position.play(mv);
        let nodes = count_leaves(&mut position, depth - 1, signals);
        position.undo();
        total += nodes;
        if !signals.is_stopped() {
            send(format_args!("{text}: {nodes}"));
        }
    }
    if signals.is_stopped() {
        "info string perft stopped".into()
    } else {
        let nps = nodes_per_second(total, start.elapsed());
        format!("\nNodes searched: {total} ({nps} nodes/s)\n")
    }
}

/// Counts leaves; gives up when stopped.
fn count_leaves(position: &mut Position, depth: u32, signals: &Signals) -> u64 {
    if depth <= 3 {
        return perft(position, depth);
    }
    let mut nodes = 0;
    for mv in position.legal_moves() {
        if signals.is_stopped() {
            break;
        }
        position.play(mv);
        nodes += count_leaves(position, depth - 1, signals);
        position.undo();
    }
    nodes
}
