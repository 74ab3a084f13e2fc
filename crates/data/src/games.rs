//! Games as wholes, and data sets split by them.

use crate::error::DataError;
use crate::formats::Follower;
use crate::record::Record;
use std::str::FromStr;
use tandem_chess::random::SplitMix;

/// Gathers records into games: a new one begins where a format says so, or where a position does not follow from the one
/// before.
pub struct Games<I> {
    records: I,
    follower: Follower,
    /// The first record of the next game.
    next: Option<Record>,
    ended: bool,
}

impl<I: Iterator<Item = Result<Record, DataError>>> Games<I> {
    /// The games of a row of records.
    pub fn new(records: I) -> Self {
        Self { records, follower: Follower::default(), next: None, ended: false }
    }
}

impl<I: Iterator<Item = Result<Record, DataError>>> Iterator for Games<I> {
    type Item = Result<Vec<Record>, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut game: Vec<Record> = self.next.take().into_iter().collect();
        while !self.ended {
            match self.records.next() {
                None => self.ended = true,
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(record)) => {
                    let goes_on = self.follower.goes_on(&record);
                    // A record that is no position is a game of its own.
                    let _ = self.follower.follow(&record);
                    if !goes_on && !game.is_empty() {
                        self.next = Some(record);
                        return Some(Ok(game));
                    }
                    game.push(record);
                }
            }
        }
        (!game.is_empty()).then_some(Ok(game))
    }
}

/// A number that depends on what happens in a game and on nothing else: not on its place in a file, its scores or its
/// result.
pub(crate) fn hash_of_game(game: &[Record]) -> u64 {
    game.iter().fold(0, |hash, record| {
        let mv = tandem_chess::PackedMove::new(record.mv).bits();
        SplitMix::new(hash ^ record.position.hash() ^ u64::from(mv) << 48).next_u64()
    })
}

/// A part of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// To learn from.
    Train,
    /// To watch learning with.
    Validation,
    /// To judge with, once.
    Test,
}

/// How games are dealt out: each as a whole, by what happens in it, so that the order of a file does not matter and the
/// same game is never on two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// The share of the games to watch with.
    pub validation: f64,
    /// The share of the games to judge with.
    pub test: f64,
    /// Another seed, another deal.
    pub seed: u64,
}

impl Split {
    /// Where a game belongs.
    pub fn part_of(&self, game: &[Record]) -> Part {
        let place = SplitMix::new(hash_of_game(game) ^ self.seed).unit();
        if place < self.test {
            Part::Test
        } else if place < self.test + self.validation {
            Part::Validation
        } else {
            Part::Train
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "train" => Ok(Self::Train),
            "validation" => Ok(Self::Validation),
            "test" => Ok(Self::Test),
            _ => Err(format!("{text:?} is none of train, validation, test")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;

    fn games(records: &[Record]) -> Vec<Vec<Record>> {
        Games::new(records.iter().copied().map(Ok)).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn games_are_found_with_and_without_their_marks() {
        let mut records = samples::games(50);
        records.extend(samples::chess960_games(10));
        assert_eq!(games(&records).len(), 60);
        // Each game starts from a start position, which follows from nothing.
        records.iter_mut().for_each(|record| record.starts_game = false);
        assert_eq!(games(&records).len(), 60);
        assert_eq!(games(&[]).len(), 0);
    }

    #[test]
    fn a_split_is_stable_under_reordering_and_never_cuts_a_game() {
        let split = Split { validation: 0.2, test: 0.1, seed: 3 };
        let mut all = games(&samples::games(300));
        let parts: Vec<Part> = all.iter().map(|game| split.part_of(game)).collect();
        let share = parts.iter().filter(|part| **part == Part::Validation).count() as f64 / 300.0;
        assert!((0.12..0.28).contains(&share), "{share}");
        all.reverse();
        assert!(all.iter().rev().map(|game| split.part_of(game)).eq(parts.iter().copied()));
        for game in &mut all {
            game.iter_mut().for_each(|record| (record.score, record.result) = (None, None));
        }
        assert!(all.iter().rev().map(|game| split.part_of(game)).eq(parts));
    }
}
