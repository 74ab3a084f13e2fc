//! Draws by repetition, for play without search: a network that reads a single position cannot see that the
//! game repeats.

use tandem_chess::{Move, Position};

/// True if a legal move lets the opponent claim a draw by repetition: the position after it occurs for the
/// third time, or a reply brings about one that does. Searchless chess scores such a move as a draw, a win
/// probability of one half, whatever the network says.
pub fn allows_repetition(position: &mut Position, mv: Move) -> bool {
    position.play(mv);
    // With ply 0 the search root is the position after the move, so that a reply counts only if it leads to a
    // position that has already occurred twice.
    let allows = position.repetitions() >= 2 || position.can_repeat(0);
    position.undo();
    allows
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::uci;
    use tandem_util::random::SplitMix;

    fn allows(position: &mut Position, text: &str) -> bool {
        let mv = uci::parse(position.board(), text).unwrap();
        allows_repetition(position, mv)
    }

    #[test]
    fn a_reply_that_completes_a_repetition_counts() {
        let mut position = Position::startpos();
        for text in ["g1f3", "g8f6", "f3g1", "f6g8", "g1f3", "g8f6"] {
            let mv = uci::parse(position.board(), text).unwrap();
            position.play(mv);
        }
        let before = position.key();
        // Black would return to the starting position for the third time.
        assert!(allows(&mut position, "f3g1"));
        assert!(!allows(&mut position, "f3e5"));
        assert_eq!(position.key(), before);
        let mv = uci::parse(position.board(), "f3g1").unwrap();
        position.play(mv);
        assert!(allows(&mut position, "f6g8"));
        assert!(!allows(&mut position, "f6h5"));
    }

    /// Compares with the slow definition, which tries every reply.
    #[test]
    fn agrees_with_trying_every_reply() {
        let mut random = SplitMix::new(3);
        let mut seen = [0, 0];
        for _ in 0..40 {
            let mut position = Position::from_fen("4k3/8/3n4/8/8/8/8/R3K3 w Q - 0 1").unwrap();
            for _ in 0..60 {
                let moves = position.legal_moves();
                if moves.is_empty() {
                    break;
                }
                for &mv in &moves {
                    let mut after = position.clone();
                    after.play(mv);
                    let slow = after.repetitions() >= 2
                        || after.legal_moves().into_iter().any(|reply| {
                            after.play(reply);
                            let third = after.repetitions() >= 2;
                            after.undo();
                            third
                        });
                    assert_eq!(allows_repetition(&mut position, mv), slow, "{mv} in {}", position.fen());
                    seen[usize::from(slow)] += 1;
                }
                // Plays one of few moves, so that pieces often return.
                position.play(moves[random.below(moves.len().min(2) as u32) as usize]);
            }
        }
        assert!(seen[0] > 100 && seen[1] > 100, "{seen:?}");
    }
}
