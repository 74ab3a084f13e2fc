//! Adjudication: ending games whose result the scores of both sides already show.
//!
//! It saves the part of a game that teaches least, at the risk of a few wrong results, so the thresholds are
//! cautious.

use tandem_data::Outcome;

/// Rules by which a self-play game is ended early, applied to the searched score of every ply. Scores are in
/// centipawns, lengths in plies (moves of one side).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjudication {
    /// Smallest score in centipawns at which a side counts as winning; see [`Self::win_plies`].
    pub win_score: i32,
    /// A side wins once it has counted as winning for this many consecutive plies, that is by the scores of
    /// both sides.
    pub win_plies: u32,
    /// Largest absolute score in centipawns that counts as equal; see [`Self::draw_plies`].
    pub draw_score: i32,
    /// A game is drawn once the score has been equal (see [`Self::draw_score`]) for this many consecutive
    /// plies.
    pub draw_plies: u32,
    /// First ply of the game from which equal scores count towards a draw, because openings are often
    /// evaluated as equal.
    pub draw_from: usize,
    /// Length in plies at which a game is drawn in any case.
    pub max_plies: usize,
}

impl Default for Adjudication {
    fn default() -> Self {
        Self { win_score: 2000, win_plies: 4, draw_score: 5, draw_plies: 12, draw_from: 70, max_plies: 400 }
    }
}

/// Lengths of the current runs of winning, losing and equal scores of a game.
#[derive(Default)]
pub(crate) struct Tally {
    white: u32,
    black: u32,
    even: u32,
}

impl Tally {
    /// Takes in a score as White sees it; returns White's result once the game is decided.
    pub(crate) fn add(&mut self, rules: &Adjudication, score: i32, ply: usize) -> Option<Outcome> {
        let count = |runs: &mut u32, goes_on: bool| *runs = if goes_on { *runs + 1 } else { 0 };
        count(&mut self.white, score >= rules.win_score);
        count(&mut self.black, score <= -rules.win_score);
        count(&mut self.even, score.abs() <= rules.draw_score && ply >= rules.draw_from);
        if self.white >= rules.win_plies {
            Some(Outcome::Win)
        } else if self.black >= rules.win_plies {
            Some(Outcome::Loss)
        } else if self.even >= rules.draw_plies || ply >= rules.max_plies {
            Some(Outcome::Draw)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn games_end_when_both_sides_have_agreed_for_long_enough() {
        let rules = Adjudication::default();
        let mut tally = Tally::default();
        assert!((0..3).all(|_| tally.add(&rules, 2500, 10).is_none()));
        assert_eq!(tally.add(&rules, 100, 13), None);
        assert!((0..3).all(|_| tally.add(&rules, 2500, 14).is_none()));
        assert_eq!(tally.add(&rules, 2500, 17), Some(Outcome::Win));
        let mut tally = Tally::default();
        assert!((0..11).all(|at| tally.add(&rules, 0, 80 + at).is_none()));
        assert_eq!(tally.add(&rules, -3, 91), Some(Outcome::Draw));
        let mut tally = Tally::default();
        assert!((0..30).all(|at| tally.add(&rules, 0, at).is_none()), "too early for a draw");
        assert_eq!(Tally::default().add(&rules, 900, 400), Some(Outcome::Draw));
    }
}
