//! Records grouped into whole games, and data sets split game by game.
//!
//! Positions of one game resemble each other, so a validation set must not share games with the training set:
//! otherwise it measures memory instead of play.

use crate::error::DataError;
use crate::formats::GameTracker;
use crate::packed::Packed;
use crate::record::Record;
use std::str::FromStr;
use tandem_chess::Position;
use tandem_util::random::SplitMix;

/// Iterator that groups records into games, each returned as a list of its records: a new one begins where a
/// format marks it, or where a position does not follow from the previous record and its move. After a record
/// without a move, any legal move may lead to the next position.
pub struct Games<I> {
    records: I,
    tracker: GameTracker,
    /// Position of the last record if it had no move.
    unmoved: Option<Packed>,
    /// First record of the next game, read while looking for the end of the current one.
    next: Option<Record>,
    ended: bool,
}

impl<I: Iterator<Item = Result<Record, DataError>>> Games<I> {
    /// Groups a stream of records, for example that of [`crate::RecordReader::records`].
    pub fn new(records: I) -> Self {
        Self { records, tracker: GameTracker::default(), unmoved: None, next: None, ended: false }
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
                    let continues = self.tracker.continues_game(&record)
                        || !record.starts_game
                            && self.unmoved.is_some_and(|last| is_next_position(&last, &record.position));
                    self.unmoved = record.mv.is_none().then_some(record.position);
                    // A record without a legal position forms a game of its own.
                    let _ = self.tracker.advance(&record);
                    if !continues && !game.is_empty() {
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

/// True if a legal move leads from one position to the other, whatever their clocks.
fn is_next_position(last: &Packed, next: &Packed) -> bool {
    /// Squares that a move can empty or fill: castling changes four.
    const MAX_CHANGED: u32 = 4;
    let is_plausible = last.side_to_move() != next.side_to_move()
        && (last.occupied ^ next.occupied).count_ones() <= MAX_CHANGED
        && next.piece_count() <= last.piece_count();
    let (true, Ok(board)) = (is_plausible, last.board()) else { return false };
    let moves = Position::from(board.clone()).legal_moves();
    moves.into_iter().any(|mv| {
        let mut after = board.clone();
        after.play_unchecked(mv);
        Packed::new(&after)
            .is_some_and(|after| (after.occupied, after.pieces) == (next.occupied, next.pieces))
    })
}

/// Hash of a game's positions and moves alone: it does not depend on the place in a file, the scores or the
/// result.
pub(crate) fn hash_of_game(game: &[Record]) -> u64 {
    game.iter().fold(0, |hash, record| {
        let mv = tandem_chess::PackedMove::new(record.mv).bits();
        SplitMix::new(hash ^ record.position.hash() ^ u64::from(mv) << 48).next_u64()
    })
}

/// Subset of a data set: training, validation or test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subset {
    /// Games that the network is trained on.
    Train,
    /// Games for validation during training: for early stopping and for comparing runs.
    Validation,
    /// Games held out until the end, for one final measurement.
    Test,
}

/// Assignment of games to subsets by a hash of their positions and moves. The order of the file does not
/// matter, and the same game is never in two subsets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// Fraction of the games that go to [`Subset::Validation`], from 0 to 1.
    pub validation: f64,
    /// Fraction of the games that go to [`Subset::Test`], from 0 to 1; the rest, after validation, is for
    /// training.
    pub test: f64,
    /// Seed of the hash; another seed gives another split.
    pub seed: u64,
}

impl Split {
    /// Subset to which a game belongs, given all of its records. It depends only on their positions and moves
    /// and on the seed.
    pub fn subset_of(&self, game: &[Record]) -> Subset {
        let place = SplitMix::new(hash_of_game(game) ^ self.seed).unit();
        if place < self.test {
            Subset::Test
        } else if place < self.test + self.validation {
            Subset::Validation
        } else {
            Subset::Train
        }
    }
}

impl FromStr for Subset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "train" => Ok(Self::Train),
            "validation" => Ok(Self::Validation),
            "test" => Ok(Self::Test),
            _ => Err(format!("{text:?} is not one of train, validation, test")),
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
        // Each game begins with a start position, which does not follow from any other.
        records.iter_mut().for_each(|record| record.starts_game = false);
        assert_eq!(games(&records).len(), 60);
        assert_eq!(games(&[]).len(), 0);
    }

    /// Files of positions and evaluations alone often hold games in order.
    #[test]
    fn games_without_moves_are_found_by_their_positions() {
        let mut records = samples::games(30);
        let with_moves = games(&records).len();
        for record in &mut records {
            (record.mv, record.starts_game) = (None, false);
        }
        assert_eq!(games(&records).len(), with_moves);
        // Positions that do not follow from each other are games of their own.
        let sparse: Vec<Record> = records.iter().copied().step_by(2).collect();
        assert_eq!(games(&sparse).len(), sparse.len());
    }

    #[test]
    fn a_split_is_stable_under_reordering_and_never_cuts_a_game() {
        let split = Split { validation: 0.2, test: 0.1, seed: 3 };
        let mut all = games(&samples::games(300));
        let parts: Vec<Subset> = all.iter().map(|game| split.subset_of(game)).collect();
        let fraction = parts.iter().filter(|part| **part == Subset::Validation).count() as f64 / 300.0;
        assert!((0.12..0.28).contains(&fraction), "{fraction}");
        all.reverse();
        assert!(all.iter().rev().map(|game| split.subset_of(game)).eq(parts.iter().copied()));
        for game in &mut all {
            game.iter_mut().for_each(|record| (record.score, record.result) = (None, None));
        }
        assert!(all.iter().rev().map(|game| split.subset_of(game)).eq(parts));
    }
}
