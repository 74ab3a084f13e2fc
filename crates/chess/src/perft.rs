//! Perft: counting the leaves of the tree of legal moves, the standard test of a move generator.

use crate::{Board, Position};

/// Perft: number of legal move sequences of `depth` plies (moves of one side), for checking a move generator.
///
/// The moves of the last ply are counted without being played, and those of the ply before it are played on a
/// bare board, because the keys of these positions are not needed.
pub fn perft(position: &mut Position, depth: u32) -> u64 {
    if depth <= 2 {
        return bare_perft(position.board(), depth);
    }
    // The moves are played while they are generated, so they are generated from a copy.
    let board = position.board().clone();
    let mut nodes = 0;
    board.generate_moves(|moves| {
        for mv in moves {
            position.play(mv);
            nodes += perft(position, depth - 1);
            position.undo();
        }
        false
    });
    nodes
}

fn bare_perft(board: &Board, depth: u32) -> u64 {
    if depth == 0 {
        return 1;
    }
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
