//! Selection of the records of a block that become samples: by filters, by held-out games, and by what the
//! network can learn from. Broken records are found here, so that later stages need not check.

use super::samples::{SampleShape, board_of};
use crate::pool::{LoadDataError, SelectRecords, SelectedRecords, Skipped};
use crate::recipe::OnInvalid;
use rayon::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tandem_data::{Filter, Games, Record, RecordBlock, Source, Split, Subset};

/// Rules that select the records of a source, applied block by block.
pub(super) struct Selection {
    pub(super) shape: SampleShape,
    /// Filters that the recipe sets for the source, such as `no-chess960`.
    pub(super) filter: Filter,
    /// Split of the games and the part wanted, if some are held out.
    pub(super) part: Option<(Split, Subset)>,
    pub(super) broken: OnInvalid,
    /// Number of records seen, whether selected or not, for the message if none is useful.
    pub(super) seen: Arc<AtomicU64>,
    /// Broken records that were skipped, with the first few as examples.
    pub(super) skipped: Arc<Skipped>,
}

impl Selection {
    pub(super) fn choose(self) -> SelectRecords {
        Arc::new(move |block, file, first_epoch| self.choose_from(block, file, first_epoch))
    }

    fn choose_from(
        &self,
        block: RecordBlock,
        file: &Source,
        first_epoch: bool,
    ) -> Result<SelectedRecords, LoadDataError> {
        let RecordBlock { mut records, cursor } = block;
        self.seen.fetch_add(records.len() as u64, Ordering::Relaxed);
        let wanted = self.part.map(|(split, part)| mark_part(&records, cursor.record == 0, split, part));
        let mut random = self.filter.block_rng(cursor);
        let kept = (0..records.len() as u32).filter(|&at| {
            // The generator advances with every record, so that filters select the same ones in every part.
            self.filter.keeps(&records[at as usize], &mut random)
                && wanted.as_ref().is_none_or(|wanted| wanted[at as usize])
        });
        let kept: Vec<u32> = kept.collect();
        let checked: Vec<Result<bool, String>> =
            kept.par_iter().with_min_len(64).map(|&at| self.is_useful(&records[at as usize])).collect();
        let mut useful = Vec::with_capacity(kept.len());
        for (at, outcome) in kept.into_iter().zip(checked) {
            match outcome {
                Ok(true) => useful.push(at),
                Ok(false) => {}
                Err(problem) => {
                    let record = cursor.record + u64::from(at) + 1;
                    let error = LoadDataError::InvalidRecord { path: file.path.clone(), record, problem };
                    match self.broken {
                        OnInvalid::Stop => return Err(error),
                        OnInvalid::Skip if first_epoch => self.skipped.add(1, [error.to_string()]),
                        OnInvalid::Skip => {}
                    }
                }
            }
        }
        if !self.shape.uses_game_context() {
            // Without game context the other records are never read, so they need not be kept.
            records = useful.iter().map(|&at| records[at as usize]).collect();
            return Ok(SelectedRecords { records, ..SelectedRecords::default() });
        }
        if let Some(wanted) = wanted {
            // Games of other parts are not even needed as context.
            retain_wanted(&wanted, &mut records, &mut useful);
        }
        Ok(SelectedRecords { records, useful: Some(useful), ends_game: file.format.ends_with_a_game() })
    }

    fn is_useful(&self, record: &Record) -> Result<bool, String> {
        Ok(self.shape.can_learn_from(record, &board_of(record)?))
    }
}

/// Removes the unwanted records, and adjusts the indices of useful ones.
fn retain_wanted(wanted: &[bool], records: &mut Vec<Record>, useful: &mut [u32]) {
    let mut new_index = Vec::with_capacity(wanted.len());
    let mut kept = 0;
    for (at, &wanted) in wanted.iter().enumerate() {
        new_index.push(kept as u32);
        if wanted {
            records[kept] = records[at];
            kept += 1;
        }
    }
    records.truncate(kept);
    useful.iter_mut().for_each(|at| *at = new_index[*at as usize]);
}

/// Marks the records of a block that belong to a part of the split, game by game.
///
/// A game that began in an earlier block belongs to no part, because its first position, which decides, is
/// not known here. A position outside a game is assigned by itself, so that all labelled moves of it go to
/// the same part.
fn mark_part(records: &[Record], begins_file: bool, split: Split, part: Subset) -> Vec<bool> {
    let cut = !begins_file && records.first().is_some_and(|first| !first.starts_game);
    let mut wanted = Vec::with_capacity(records.len());
    for (number, game) in Games::new(records.iter().copied().map(Ok)).enumerate() {
        // The iterator reads from memory and cannot fail.
        let game = game.unwrap_or_default();
        let assigned = match game.as_slice() {
            [alone] => split.subset_of(&[Record { mv: None, ..*alone }]),
            game => split.subset_of(game),
        };
        wanted.resize(wanted.len() + game.len(), assigned == part && !(cut && number == 0));
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::super::samples::test_games::games;
    use super::*;
    use tandem_data::{Cursor, Options};
    use tandem_transformer::Preset;

    const SPLIT: Split = Split { validation: 0.3, test: 0.0, seed: 1 };

    fn selection(preset: Preset, filter: &str, broken: OnInvalid) -> Selection {
        Selection {
            shape: SampleShape::of(&preset.architecture()),
            filter: filter.parse().unwrap(),
            part: None,
            broken,
            seen: Arc::default(),
            skipped: Arc::default(),
        }
    }

    fn file() -> Source {
        Source::parse("games.pgn", &Options::default()).unwrap().remove(0)
    }

    fn block(records: &[Record]) -> RecordBlock {
        RecordBlock { records: records.to_vec(), cursor: Cursor { source: 0, byte: 10, record: 100 } }
    }

    #[test]
    fn each_game_is_in_one_part_and_cut_ones_in_none() {
        let records = games(60, 2);
        let [train, validation] =
            [Subset::Train, Subset::Validation].map(|part| mark_part(&records, true, SPLIT, part));
        assert!(train.iter().zip(&validation).all(|(train, validation)| train != validation));
        assert!(validation.iter().any(|&validation| validation));
        let within = records.windows(2).zip(train.windows(2)).filter(|(pair, _)| !pair[1].starts_game);
        assert!(within.into_iter().all(|(_, sides)| sides[0] == sides[1]));
        // The same records in two blocks, of which the second starts within a game.
        let cut = records.iter().enumerate().filter(|(_, record)| record.starts_game).nth(30).unwrap().0 + 5;
        let [first, second] =
            [Subset::Train, Subset::Validation].map(|part| mark_part(&records[cut..], false, SPLIT, part));
        let end = records[cut..].iter().position(|record| record.starts_game).unwrap();
        assert!(!first[..end].contains(&true) && !second[..end].contains(&true));
        assert_eq!(first[end..], train[cut + end..]);
    }

    #[test]
    fn games_of_another_part_are_not_kept() {
        let records = games(30, 2);
        let part = Some((SPLIT, Subset::Validation));
        let selection = Selection { part, ..selection(Preset::BtSmall, "min-ply=8", OnInvalid::Stop) };
        let chosen = selection.choose_from(block(&records), &file(), true).unwrap();
        let wanted = mark_part(&records, false, SPLIT, Subset::Validation);
        let kept = records.iter().zip(&wanted).filter(|(_, wanted)| **wanted).map(|(record, _)| record);
        assert!(chosen.records.iter().eq(kept));
        let useful = chosen.useful.unwrap();
        assert!(useful.iter().all(|&at| chosen.records[at as usize].ply >= 8));
        assert_eq!(useful.len(), chosen.records.iter().filter(|record| record.ply >= 8).count());
    }

    #[test]
    fn all_moves_of_a_position_are_in_one_part() {
        let mut records = Vec::new();
        for record in games(20, 9).iter().step_by(7) {
            let board = record.position.board().unwrap();
            for mv in tandem_chess::Position::from(board).legal_moves() {
                records.push(Record { mv: Some(mv), starts_game: false, ..*record });
            }
        }
        let sides = mark_part(&records, true, SPLIT, Subset::Train);
        let pairs = records.windows(2).zip(sides.windows(2));
        let mut same = pairs.filter(|(pair, _)| pair[0].position.hash() == pair[1].position.hash());
        assert!(same.all(|(_, sides)| sides[0] == sides[1]));
        assert!(sides.contains(&true) && sides.contains(&false));
    }

    #[test]
    fn broken_records_are_named_or_skipped() {
        let mut records = games(2, 7);
        records[11].mv = Some("a1h5".parse().unwrap());
        let stopped =
            selection(Preset::Byte, "", OnInvalid::Stop).choose_from(block(&records), &file(), true);
        let message = stopped.unwrap_err().to_string();
        assert!(message.starts_with("games.pgn: record 112: a1h5 is not a legal move in "), "{message}");
        let skipping = selection(Preset::Byte, "", OnInvalid::Skip);
        let chosen = skipping.choose_from(block(&records), &file(), true).unwrap();
        assert_eq!((chosen.records.len(), chosen.useful), (records.len() - 1, None));
        assert_eq!((skipping.skipped.count(), skipping.skipped.examples().len()), (1, 1));
    }

    #[test]
    fn filtered_records_stay_where_they_are_history() {
        let records = games(5, 7);
        let chosen = selection(Preset::BtSmall, "skip=0.9", OnInvalid::Stop);
        let chosen = chosen.choose_from(block(&records), &file(), true).unwrap();
        assert_eq!(chosen.records.len(), records.len());
        assert!(chosen.useful.unwrap().len() < records.len() / 4);
        let alone = selection(Preset::Byte, "skip=0.9", OnInvalid::Stop);
        assert!(alone.choose_from(block(&records), &file(), true).unwrap().records.len() < records.len() / 4);
        let mut silent = records.clone();
        silent.iter_mut().for_each(|record| record.mv = None);
        let useless = selection(Preset::Byte, "", OnInvalid::Stop);
        assert!(useless.choose_from(block(&silent), &file(), true).unwrap().records.is_empty());
        assert_eq!(useless.seen.load(Ordering::Relaxed), records.len() as u64);
    }
}
