//! Ranking the moves of a position.

use crate::Tables;
use crate::error::ProbeError;
use crate::result::{Dtz, Wdl};
use tandem_chess::{Move, Position};

/// A legal move with its distance and result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankedMove {
    /// The move.
    pub mv: Move,
    /// Rank among the moves, the better the higher: 1000 for a certain win, 0 for a draw, -1000 for a certain loss.
    /// Where the fifty-move rule or a repetition might spoil a win, shorter distances rank higher; where they might
    /// save a loss, longer ones.
    pub rank: i32,
}

/// Rank of a certain win.
const WIN: i32 = 1000;

impl Tables {
    /// Legal moves of a position with their ranks, by distances if the tables have them, otherwise by results. Without
    /// distances all wins are equal, and progress is left to a search.
    ///
    /// # Errors
    ///
    /// If the position has too many pieces or castling rights, or a table of results that is needed is missing or
    /// damaged.
    pub fn rank_moves(&self, position: &Position) -> Result<Vec<RankedMove>, ProbeError> {
        self.check_coverage(position.board())?;
        self.rank_by_distances(position).or_else(|_| self.rank_by_results(position))
    }

    fn rank_by_distances(&self, position: &Position) -> Result<Vec<RankedMove>, ProbeError> {
        let board = position.board();
        let clock = i32::from(board.halfmove_clock());
        let is_repeated = position.repetitions() > 0;
        // Without distances of the position itself, most of its moves have none either.
        self.dtz(board)?;
        let rank = |mv: Move| {
            let dtz = self.distance_after(board, mv)?;
            Ok(RankedMove { mv, rank: rank_of(dtz, clock, is_repeated) })
        };
        position.legal_moves().into_iter().map(rank).collect()
    }

    fn rank_by_results(&self, position: &Position) -> Result<Vec<RankedMove>, ProbeError> {
        let rank = |mv: Move| {
            let mut next = position.board().clone();
            next.play_unchecked(mv);
            let rank = match -self.wdl(&next)? {
                Wdl::Win => WIN,
                Wdl::Loss => -WIN,
                _ => 0,
            };
            Ok(RankedMove { mv, rank })
        };
        position.legal_moves().into_iter().map(rank).collect()
    }
}

/// Rank of a move after which the distance is `dtz`, if `clock` plies already count towards the fifty-move rule.
fn rank_of(dtz: Dtz, clock: i32, is_repeated: bool) -> i32 {
    let plies = dtz.0.abs();
    match Wdl::of_distance(dtz, clock) {
        // All wins that the fifty-move rule cannot spoil are equal, unless the position was repeated.
        Wdl::Win if plies + clock <= 99 && !is_repeated => WIN,
        Wdl::Win => WIN - (plies + clock),
        Wdl::CursedWin => 1,
        Wdl::Draw => 0,
        Wdl::BlessedLoss => -1,
        Wdl::Loss if 2 * plies + clock < 100 => -WIN,
        Wdl::Loss => plies + clock - WIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wins_rank_above_draws_and_draws_above_losses() {
        let ranks = [(-1, 0), (-60, 0), (-101, 0), (0, 0), (101, 0), (100, 0), (3, 0)];
        let ranks = ranks.map(|(dtz, clock)| rank_of(Dtz(dtz), clock, false));
        assert_eq!(ranks, [-1000, -940, -1, 0, 1, 900, 1000]);
        assert!(ranks.is_sorted());
    }

    #[test]
    fn a_win_that_may_be_spoilt_ranks_by_its_distance() {
        assert_eq!([rank_of(Dtz(40), 59, false), rank_of(Dtz(40), 60, false)], [1000, 900]);
        assert_eq!([rank_of(Dtz(40), 61, false), rank_of(Dtz(-40), 61, false)], [1, -1]);
        assert_eq!([rank_of(Dtz(4), 0, true), rank_of(Dtz(6), 0, true)], [996, 994]);
    }
}
