//! Units of resampling: whole games, or groups of positions that do not belong to a game.

use tandem_data::{Cursor, DataError, Filter, Games, Record};
use tandem_util::random::SplitMix;

/// Positions outside games are grouped by this number; a group is longer if it would split the records of one
/// position.
const GROUP_SIZE: usize = 64;

/// A game, or a group of positions outside games.
#[derive(Debug, Default)]
pub(super) struct Unit {
    /// All records, because those that the filter drops may be the history of others.
    pub(super) records: Vec<Record>,
    /// Indices of the records that the filter keeps and that have a label.
    pub(super) kept: Vec<usize>,
}

impl Unit {
    /// True if a position occurs with several of its moves.
    pub(super) fn has_all_moves(&self) -> bool {
        self.records.windows(2).any(|pair| pair[0].position == pair[1].position)
    }
}

/// An iterator that gathers records into units.
pub(super) struct Units<I: Iterator<Item = Result<Record, DataError>>> {
    games: Games<I>,
    filter: Filter,
    random: SplitMix,
    /// The game that the next unit begins with.
    next: Option<Vec<Record>>,
}

impl<I: Iterator<Item = Result<Record, DataError>>> Units<I> {
    /// Gathers the units of a sequence of records; those that the filter keeps are evaluated.
    pub(super) fn new(records: I, filter: Filter) -> Self {
        let random = filter.block_rng(Cursor::default());
        Self { games: Games::new(records), filter, random, next: None }
    }

    fn unit(&mut self, records: Vec<Record>) -> Unit {
        let kept = records.iter().enumerate().filter(|(_, record)| {
            // The random number is drawn for every record, whatever else is known of it, so that the draws
            // stay the same.
            self.filter.keeps(record, &mut self.random)
                && (record.mv.is_some() || record.score.is_some() || record.result.is_some())
        });
        let kept = kept.map(|(at, _)| at).collect();
        Unit { records, kept }
    }
}

impl<I: Iterator<Item = Result<Record, DataError>>> Iterator for Units<I> {
    type Item = Result<Unit, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut records = self.next.take().unwrap_or_default();
        for game in self.games.by_ref() {
            let game = match game {
                Ok(game) => game,
                Err(error) => return Some(Err(error)),
            };
            let is_alone = game.len() == 1;
            let same_position =
                records.last().zip(game.first()).is_some_and(|(last, first)| last.position == first.position);
            let fits = is_alone && (records.len() < GROUP_SIZE || same_position);
            if !records.is_empty() && !fits {
                self.next = Some(game);
                return Some(Ok(self.unit(records)));
            }
            records.extend(game);
            if !is_alone {
                return Some(Ok(self.unit(records)));
            }
        }
        (!records.is_empty()).then(|| Ok(self.unit(records)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Position;
    use tandem_data::{Outcome, Packed};

    fn record(position: &Position) -> Record {
        let result = Some(Outcome::Draw);
        Record { result, ..Record::new(Packed::new(position.board()).unwrap()) }
    }

    fn game(plies: usize) -> Vec<Record> {
        let mut position = Position::startpos();
        let mut records = Vec::new();
        for _ in 0..plies {
            let mv = position.legal_moves()[0];
            records.push(Record { mv: Some(mv), ..record(&position) });
            position.play(mv);
        }
        records
    }

    fn units(records: Vec<Record>, filter: &str) -> Vec<Unit> {
        Units::new(records.into_iter().map(Ok), filter.parse().unwrap()).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn games_stay_whole_and_other_positions_are_grouped() {
        let mut records = game(30);
        records.extend(game(100));
        let alone: Vec<Record> = game(100).into_iter().step_by(2).collect();
        records.extend([&alone[..], &alone[..]].concat());
        records.extend(game(10));
        let found = units(records, "min-ply=20");
        let sizes: Vec<usize> = found.iter().map(|unit| unit.records.len()).collect();
        assert_eq!(sizes, [30, 100, 64, 36, 10]);
        assert_eq!(found[0].kept, (20..30).collect::<Vec<_>>());
        assert!(found.iter().all(|unit| !unit.has_all_moves()));
        assert!(units(Vec::new(), "").is_empty());
    }

    #[test]
    fn moves_of_a_position_stay_in_one_unit() {
        let mut records = Vec::new();
        for first in game(12).iter().step_by(2) {
            let moves = Position::from(first.position.board().unwrap()).legal_moves();
            records.extend(moves.iter().map(|&mv| Record { mv: Some(mv), ..*first }));
        }
        let all = records.len();
        let found = units(records, "");
        assert!(found.len() > 1 && found.iter().all(Unit::has_all_moves));
        assert_eq!(found.iter().map(|unit| unit.kept.len()).sum::<usize>(), all);
        let pairs = found.windows(2).map(|pair| [pair[0].records.last(), pair[1].records.first()]);
        assert!(pairs.into_iter().all(|[last, first]| last.unwrap().position != first.unwrap().position));
    }

    #[test]
    fn records_without_labels_are_not_evaluated() {
        let records = vec![Record::new(Packed::new(Position::startpos().board()).unwrap())];
        let found = units(records, "");
        assert!(found.len() == 1 && found[0].kept.is_empty());
    }
}
