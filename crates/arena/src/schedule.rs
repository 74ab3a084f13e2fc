//! The schedule of a match: pairings, colours and openings for every game number.

use serde::{Deserialize, Serialize};

/// Selection of the pairs of engines that play each other in a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TournamentFormat {
    /// Every engine plays every other one.
    #[default]
    RoundRobin,
    /// Each of the first `n` engines plays each of the others, but those do not play among themselves.
    Gauntlet(usize),
}

/// One game of the schedule: its number, its players with their colours, and its opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairing {
    /// Number of the game in the match, from 0.
    pub index: usize,
    /// Index of the engine with the white pieces.
    pub white: usize,
    /// Index of the engine with the black pieces.
    pub black: usize,
    /// Number of this pair of games among those of the same two engines, from 0, which selects the opening.
    pub round: usize,
}

/// Order of all games of a match. Games come in pairs with the same opening and swapped colours, and all
/// meetings (pairs of engines) play one such pair before any plays its next. A match that ends early, or is
/// extended later, is therefore balanced.
#[derive(Clone, Debug)]
pub struct Schedule {
    meetings: Vec<(usize, usize)>,
    rounds: usize,
}

impl Schedule {
    /// Creates a schedule for `engines` engines with at least `games` games for each meeting (pair of
    /// engines); an odd number is rounded up to whole pairs of games.
    pub fn new(engines: usize, format: TournamentFormat, games: usize) -> Self {
        let seeds = match format {
            TournamentFormat::RoundRobin => engines,
            TournamentFormat::Gauntlet(seeds) => seeds,
        };
        let all = (0..engines).flat_map(|a| (a + 1..engines).map(move |b| (a, b)));
        let meets = |&(a, b): &(usize, usize)| match format {
            TournamentFormat::RoundRobin => true,
            TournamentFormat::Gauntlet(_) => a < seeds && b >= seeds,
        };
        Self { meetings: all.filter(meets).collect(), rounds: games.div_ceil(2) }
    }

    /// Total number of games of the match.
    pub fn len(&self) -> usize {
        2 * self.meetings.len() * self.rounds
    }

    /// True if the schedule has no games, for example with fewer than two engines.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pairs of engines that play each other, by their indices in the list of engines.
    pub fn meetings(&self) -> &[(usize, usize)] {
        &self.meetings
    }

    /// Players and opening of the game with this number, from 0 and below [`Schedule::len`]. They do not
    /// depend on the length of the match.
    pub fn game(&self, index: usize) -> Pairing {
        let (pair, turned) = (index / 2, index % 2 == 1);
        let (first, second) = self.meetings[pair % self.meetings.len()];
        let (white, black) = if turned { (second, first) } else { (first, second) };
        Pairing { index, white, black, round: pair / self.meetings.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_swaps_colours_and_keeps_its_opening() {
        let schedule = Schedule::new(2, TournamentFormat::RoundRobin, 5);
        assert_eq!(schedule.len(), 6);
        let games: Vec<_> = (0..6).map(|index| schedule.game(index)).collect();
        assert!(games.chunks(2).all(|pair| {
            pair[0].white == pair[1].black && pair[0].black == pair[1].white && pair[0].round == pair[1].round
        }));
        assert_eq!(games.iter().map(|game| game.round).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn everyone_meets_everyone_or_only_the_seeds() {
        assert_eq!(Schedule::new(4, TournamentFormat::RoundRobin, 2).meetings().len(), 6);
        assert_eq!(Schedule::new(4, TournamentFormat::Gauntlet(1), 2).meetings(), [(0, 1), (0, 2), (0, 3)]);
        assert_eq!(
            Schedule::new(4, TournamentFormat::Gauntlet(2), 2).meetings(),
            [(0, 2), (0, 3), (1, 2), (1, 3)]
        );
        let longer = Schedule::new(3, TournamentFormat::RoundRobin, 20);
        let shorter = Schedule::new(3, TournamentFormat::RoundRobin, 10);
        assert!((0..shorter.len()).all(|index| shorter.game(index) == longer.game(index)));
    }
}
