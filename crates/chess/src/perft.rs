//! Counting the leaves of the tree of legal moves.

use crate::Position;

/// Number of move sequences of `depth` plies. The last ply is counted without being played.
pub fn perft(position: &mut Position, depth: u32) -> u64 {
    if depth == 0 {
        return 1;
    }
    let mut nodes = 0;
    if depth == 1 {
        position.board().generate_moves(|moves| {
            nodes += moves.len() as u64;
            false
        });
        return nodes;
    }
    for mv in position.legal_moves() {
        position.play(mv);
        nodes += perft(position, depth - 1);
        position.undo();
    }
    nodes
}
