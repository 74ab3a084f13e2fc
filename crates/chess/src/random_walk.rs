//! Random games without any purpose: openings for self-play and positions for tests.

use crate::{Board, Position};
use tandem_util::random::SplitMix;

/// Plays `plies` random legal moves from `start`; `None` if the game ends on the way, or if the last position
/// has no legal move.
pub fn random_walk(start: Board, plies: usize, random: &mut SplitMix) -> Option<Position> {
    let mut position = Position::from(start);
    for _ in 0..plies {
        let moves = position.legal_moves();
        if moves.is_empty() {
            return None;
        }
        position.play(moves[random.below(moves.len() as u32) as usize]);
    }
    position.has_legal_move().then_some(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_walk_has_the_requested_length_or_is_none() {
        let mut random = SplitMix::new(3);
        let walked = random_walk(Board::default(), 9, &mut random).unwrap();
        assert_eq!((walked.board().fullmove_number(), walked.has_legal_move()), (5, true));
        let mated = crate::fen::parse("7k/5KQ1/8/8/8/8/8/8 b - - 0 1").unwrap();
        assert!(
            random_walk(mated.clone(), 0, &mut random).is_none()
                && random_walk(mated, 1, &mut random).is_none()
        );
    }
}
