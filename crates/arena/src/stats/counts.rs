//! Counts of results: single games by result, and pairs of games by points.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Wins, draws and losses of one player over a number of games.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wdl {
    /// Number of games won by the player.
    pub wins: u64,
    /// Number of games drawn.
    pub draws: u64,
    /// Number of games lost by the player.
    pub losses: u64,
}

impl Wdl {
    /// Adds a game by the player's points in halves: 0 for a loss, 1 for a draw, 2 or more for a win.
    pub fn add(&mut self, half_points: u8) {
        match half_points {
            0 => self.losses += 1,
            1 => self.draws += 1,
            _ => self.wins += 1,
        }
    }

    /// Total number of games.
    pub fn games(&self) -> u64 {
        self.wins + self.draws + self.losses
    }

    /// Points of the player: 1 for each win, 1/2 for each draw.
    pub fn points(&self) -> f64 {
        self.wins as f64 + 0.5 * self.draws as f64
    }

    /// Points per game, from 0 to 1; 0 without games.
    pub fn score(&self) -> f64 {
        self.points() / self.games().max(1) as f64
    }

    /// Fraction of the games that were drawn; 0 without games.
    pub fn draw_ratio(&self) -> f64 {
        self.draws as f64 / self.games().max(1) as f64
    }

    /// The same results from the view of the opponent.
    pub fn flipped(&self) -> Self {
        Self { wins: self.losses, draws: self.draws, losses: self.wins }
    }
}

impl fmt::Display for Wdl {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "+{} ={} -{}", self.wins, self.draws, self.losses)
    }
}

/// Numbers of game pairs by the points that a player made in their two games: 0, 1/2, 1, 1 1/2 and 2
/// (pentanomial counts). Stored as an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pentanomial(pub [u64; 5]);

impl Pentanomial {
    /// Adds a pair by the player's points in each of its two games, in halves: 2 for a win, 1 for a draw.
    pub fn add(&mut self, first: u8, second: u8) {
        self.0[usize::from(first.min(2) + second.min(2))] += 1;
    }

    /// Total number of pairs.
    pub fn pairs(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Points of the player over all games of the pairs.
    pub fn points(&self) -> f64 {
        self.0.iter().zip(0u64..).map(|(count, half_points)| count * half_points).sum::<u64>() as f64 / 2.0
    }

    /// Number of pairs with more than one point divided by that of pairs with less; `None` if there is no
    /// pair with less.
    pub fn pair_ratio(&self) -> Option<f64> {
        let lost = self.0[0] + self.0[1];
        (lost > 0).then(|| (self.0[3] + self.0[4]) as f64 / lost as f64)
    }

    /// The same pairs from the view of the opponent.
    pub fn flipped(&self) -> Self {
        let mut counts = self.0;
        counts.reverse();
        Self(counts)
    }
}

impl fmt::Display for Pentanomial {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
