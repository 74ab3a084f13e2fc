//! Counts of results.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Wins, draws and losses of one player.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wdl {
    /// Games won.
    pub wins: u64,
    /// Games drawn.
    pub draws: u64,
    /// Games lost.
    pub losses: u64,
}

impl Wdl {
    /// Counts a game by its half points.
    pub fn add(&mut self, half_points: u8) {
        match half_points {
            0 => self.losses += 1,
            1 => self.draws += 1,
            _ => self.wins += 1,
        }
    }

    /// Number of games.
    pub fn games(&self) -> u64 {
        self.wins + self.draws + self.losses
    }

    /// Points: one for a win, half for a draw.
    pub fn points(&self) -> f64 {
        self.wins as f64 + 0.5 * self.draws as f64
    }

    /// Points per game.
    pub fn score(&self) -> f64 {
        self.points() / self.games().max(1) as f64
    }

    /// Share of draws.
    pub fn draw_ratio(&self) -> f64 {
        self.draws as f64 / self.games().max(1) as f64
    }

    /// Results from the other side.
    pub fn turned(&self) -> Self {
        Self { wins: self.losses, draws: self.draws, losses: self.wins }
    }
}

impl fmt::Display for Wdl {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "+{} ={} -{}", self.wins, self.draws, self.losses)
    }
}

/// Pairs of games by their half points: 0, 1, 2, 3, 4 of four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pentanomial(pub [u64; 5]);

impl Pentanomial {
    /// Counts a pair by the half points of its games.
    pub fn add(&mut self, first: u8, second: u8) {
        self.0[usize::from(first.min(2) + second.min(2))] += 1;
    }

    /// Number of pairs.
    pub fn pairs(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Points of all games.
    pub fn points(&self) -> f64 {
        self.0.iter().zip(0u64..).map(|(count, half_points)| count * half_points).sum::<u64>() as f64 / 2.0
    }

    /// Pairs won over pairs lost; none when none was lost.
    pub fn pair_ratio(&self) -> Option<f64> {
        let lost = self.0[0] + self.0[1];
        (lost > 0).then(|| (self.0[3] + self.0[4]) as f64 / lost as f64)
    }

    /// Pairs from the other side.
    pub fn turned(&self) -> Self {
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
