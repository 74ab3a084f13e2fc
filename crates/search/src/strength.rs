//! Playing at a limited rating.
//!
//! A weaker player searches fewer nodes, and its choice among the best lines is blurred by a random error
//! that grows as the rating falls.

use crate::root_move::RootMove;
use crate::value::Value;
use tandem_util::random::SplitMix;

/// A reduced playing strength, as a rating on the scale of Stockfish's option `UCI_Elo`, from
/// [`Strength::MIN`] to [`Strength::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strength {
    elo: u32,
}

/// Ratings on Stockfish's scale and the level that plays about as well as Stockfish at that rating, measured
/// by games at 1500, 2000 and 2500 (see the lab-book).
const LEVELS: [(f64, f64); 5] =
    [(1320.0, 0.0), (1500.0, 0.123), (2000.0, 0.442), (2500.0, 0.582), (3190.0, 1.0)];

impl Strength {
    /// Lowest rating that can be set, in Elo, as for Stockfish's option `UCI_Elo`.
    pub const MIN: u32 = 1320;
    /// Highest rating that can be set, in Elo. Even then a move has at most 2.4 million nodes or so; full
    /// strength has no such limit.
    pub const MAX: u32 = 3190;
    /// Number of lines among which a limited player chooses.
    pub(crate) const LINES: usize = 4;

    /// A strength of `elo` on Stockfish's `UCI_Elo` scale, clamped to 1320 to 3190 ([`Self::MIN`] to
    /// [`Self::MAX`]).
    pub fn new(elo: u32) -> Self {
        Self { elo: elo.clamp(Self::MIN, Self::MAX) }
    }

    /// Level from 0 for the lowest to 1 for the highest rating, interpolated linearly between the measured
    /// ratings.
    fn level(self) -> f64 {
        let elo = f64::from(self.elo);
        let above = LEVELS.iter().position(|&(rating, _)| elo < rating).unwrap_or(LEVELS.len() - 1).max(1);
        let ((low, from), (high, to)) = (LEVELS[above - 1], LEVELS[above]);
        (from + (elo - low) / (high - low) * (to - from)).clamp(0.0, 1.0)
    }

    /// Nodes per move, from 150 at the lowest to 2.4 million at the highest level, exponential in between.
    pub(crate) fn nodes(self) -> u64 {
        (150.0 * 10f64.powf(self.level() * 4.2)) as u64
    }

    /// Index of the line to play: the best after adding a random error to each score.
    pub(crate) fn choose(self, moves: &[RootMove], random: &mut SplitMix) -> usize {
        let noise = 220.0 * (1.0 - self.level()).powi(2);
        let mut choice = 0;
        let mut best = f64::MIN;
        for (index, root) in moves.iter().take(Self::LINES).enumerate() {
            let seen = f64::from(seen_value(root)) + random.unit() * noise;
            if seen > best {
                (choice, best) = (index, seen);
            }
        }
        choice
    }
}

fn seen_value(root: &RootMove) -> Value {
    root.value().max(-3000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::{Move, Square};

    fn moves(scores: &[Value]) -> Vec<RootMove> {
        let mv = Move { from: Square::A1, to: Square::A2, promotion: None };
        scores.iter().map(|&score| RootMove { score, ..RootMove::new(mv, None) }).collect()
    }

    #[test]
    fn the_strongest_always_takes_the_best_and_the_weakest_often_does_not() {
        let moves = moves(&[30, 0, -20, -40]);
        let mut random = SplitMix::new(42);
        let mut missed =
            |elo: u32| (0..1000).filter(|_| Strength::new(elo).choose(&moves, &mut random) != 0).count();
        assert_eq!(missed(Strength::MAX), 0);
        assert!(missed(Strength::MIN) > 300);
    }

    #[test]
    fn even_the_weakest_player_does_not_give_away_a_queen() {
        let moves = moves(&[500, -400]);
        let mut random = SplitMix::new(7);
        assert!((0..1000).all(|_| Strength::new(Strength::MIN).choose(&moves, &mut random) == 0));
    }

    #[test]
    fn more_rating_means_more_nodes() {
        let nodes: Vec<u64> = [1320, 1800, 2300, 2800, 3190].map(|elo| Strength::new(elo).nodes()).to_vec();
        assert!(nodes.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
