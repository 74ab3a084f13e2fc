//! Who plays whom, with which colours, from which opening.

use serde::{Deserialize, Serialize};

/// Which engines meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Everyone against everyone.
    #[default]
    RoundRobin,
    /// The first so many engines against the others.
    Gauntlet(usize),
}

/// One game to be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairing {
    /// Its number in the match, from 0.
    pub index: usize,
    /// Engine with the white pieces.
    pub white: usize,
    /// Engine with the black pieces.
    pub black: usize,
    /// The pair of games it belongs to within its meeting, and so its opening.
    pub round: usize,
}

/// The order of all games. Games come in pairs with one opening and colours swapped, and all meetings of a round
/// come before the next round; so a match that ends early, or is made longer later, is balanced as far as it went.
#[derive(Clone, Debug)]
pub struct Schedule {
    meetings: Vec<(usize, usize)>,
    rounds: usize,
}

impl Schedule {
    /// For some engines, with at least `games` games for each meeting; an odd number is rounded up to whole pairs.
    pub fn new(engines: usize, format: Format, games: usize) -> Self {
        let seeds = match format {
            Format::RoundRobin => engines,
            Format::Gauntlet(seeds) => seeds,
        };
        let all = (0..engines).flat_map(|a| (a + 1..engines).map(move |b| (a, b)));
        let meets = |&(a, b): &(usize, usize)| match format {
            Format::RoundRobin => true,
            Format::Gauntlet(_) => a < seeds && b >= seeds,
        };
        Self { meetings: all.filter(meets).collect(), rounds: games.div_ceil(2) }
    }

    /// Number of games.
    pub fn len(&self) -> usize {
        2 * self.meetings.len() * self.rounds
    }

    /// Whether nobody plays.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Who meets whom.
    pub fn meetings(&self) -> &[(usize, usize)] {
        &self.meetings
    }

    /// The game with a number.
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
        let schedule = Schedule::new(2, Format::RoundRobin, 5);
        assert_eq!(schedule.len(), 6);
        let games: Vec<_> = (0..6).map(|index| schedule.game(index)).collect();
        assert!(games.chunks(2).all(|pair| {
            pair[0].white == pair[1].black && pair[0].black == pair[1].white && pair[0].round == pair[1].round
        }));
        assert_eq!(games.iter().map(|game| game.round).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn everyone_meets_everyone_or_only_the_seeds() {
        assert_eq!(Schedule::new(4, Format::RoundRobin, 2).meetings().len(), 6);
        assert_eq!(Schedule::new(4, Format::Gauntlet(1), 2).meetings(), [(0, 1), (0, 2), (0, 3)]);
        assert_eq!(Schedule::new(4, Format::Gauntlet(2), 2).meetings(), [(0, 2), (0, 3), (1, 2), (1, 3)]);
        let longer = Schedule::new(3, Format::RoundRobin, 20);
        let shorter = Schedule::new(3, Format::RoundRobin, 10);
        assert!((0..shorter.len()).all(|index| shorter.game(index) == longer.game(index)));
    }
}
