//! Which records of a block are learnt from.

use super::recipe::Broken;
use super::samples::{SampleShape, board_of};
use crate::pool::{Choose, Chosen, LoadDataError, Skipped};
use rayon::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tandem_data::{Block, Filter, Format, Games, Part, Record, Source, Split};

/// Which records of a source are learnt from.
pub(super) struct Selection {
    pub(super) shape: SampleShape,
    /// The recipe's rules for them.
    pub(super) filter: Filter,
    /// Which part of the games, where a part is kept for something else.
    pub(super) part: Option<(Split, Part)>,
    pub(super) broken: Broken,
    /// Records that were looked at.
    pub(super) seen: Arc<AtomicU64>,
    /// Broken ones.
    pub(super) skipped: Arc<Skipped>,
}

impl Selection {
    pub(super) fn choose(self) -> Choose {
        Arc::new(move |block, file, first_reading| self.choose_from(block, file, first_reading))
    }

    fn choose_from(&self, block: Block, file: &Source, first_reading: bool) -> Result<Chosen, LoadDataError> {
        let Block { mut records, cursor } = block;
        self.seen.fetch_add(records.len() as u64, Ordering::Relaxed);
        let wanted = self.part.map(|(split, part)| belong(&records, cursor.record == 0, split, part));
        let mut chance = self.filter.chance(cursor);
        let kept = (0..records.len() as u32).filter(|&at| {
            // Chance is asked for every record, whatever else is known of it.
            self.filter.keeps(&records[at as usize], &mut chance)
                && wanted.as_ref().is_none_or(|wanted| wanted[at as usize])
        });
        let kept: Vec<u32> = kept.collect();
        let looked_at: Vec<Result<bool, String>> =
            kept.par_iter().with_min_len(64).map(|&at| self.is_useful(&records[at as usize])).collect();
        let mut useful = Vec::with_capacity(kept.len());
        for (at, outcome) in kept.into_iter().zip(looked_at) {
            match outcome {
                Ok(true) => useful.push(at),
                Ok(false) => {}
                Err(problem) => {
                    let record = cursor.record + u64::from(at) + 1;
                    let error = LoadDataError::Nonsense { path: file.path.clone(), record, problem };
                    match self.broken {
                        Broken::Stop => return Err(error),
                        Broken::Skip if first_reading => self.skipped.add(1, [error.to_string()]),
                        Broken::Skip => {}
                    }
                }
            }
        }
        if !self.shape.uses_neighbours() {
            // Nobody asks for the others: they only take room.
            records = useful.iter().map(|&at| records[at as usize]).collect();
            return Ok(Chosen { records, ..Chosen::default() });
        }
        if let Some(wanted) = wanted {
            // The others are games of another part, of which nobody here needs anything.
            keep(&wanted, &mut records, &mut useful);
        }
        Ok(Chosen { records, useful: Some(useful), ends_game: ends_with_a_game(file.format) })
    }

    fn is_useful(&self, record: &Record) -> Result<bool, String> {
        Ok(self.shape.can_learn_from(record, &board_of(record)?))
    }
}

/// Takes out the records that are not wanted; the places of useful ones follow.
fn keep(wanted: &[bool], records: &mut Vec<Record>, useful: &mut [u32]) {
    let mut places = Vec::with_capacity(wanted.len());
    let mut kept = 0;
    for (at, &wanted) in wanted.iter().enumerate() {
        places.push(kept as u32);
        if wanted {
            records[kept] = records[at];
            kept += 1;
        }
    }
    records.truncate(kept);
    useful.iter_mut().for_each(|at| *at = places[*at as usize]);
}

/// Whether blocks of a format hold whole games, and its games are whole.
fn ends_with_a_game(format: Format) -> bool {
    matches!(format, Format::Pgn | Format::Viri | Format::Lc0)
}

/// Which records of a block belong to a part, by the games that they are of.
///
/// A game that began in the block before belongs to no part: nobody knows here what it began with. A position that is no
/// game's is dealt out by itself, so that all moves that are judged in it go the same way.
fn belong(records: &[Record], begins_file: bool, split: Split, part: Part) -> Vec<bool> {
    let cut = !begins_file && records.first().is_some_and(|first| !first.starts_game);
    let mut wanted = Vec::with_capacity(records.len());
    for (number, game) in Games::new(records.iter().copied().map(Ok)).enumerate() {
        // Nothing of what is read here can fail.
        let game = game.unwrap_or_default();
        let dealt = match game.as_slice() {
            [alone] => split.part_of(&[Record { mv: None, ..*alone }]),
            game => split.part_of(game),
        };
        wanted.resize(wanted.len() + game.len(), dealt == part && !(cut && number == 0));
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

    fn selection(preset: Preset, filter: &str, broken: Broken) -> Selection {
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

    fn block(records: &[Record]) -> Block {
        Block { records: records.to_vec(), cursor: Cursor { source: 0, byte: 10, record: 100 } }
    }

    #[test]
    fn games_are_on_one_side_and_cut_ones_on_none() {
        let records = games(60, 2);
        let [learnt, watched] =
            [Part::Train, Part::Validation].map(|part| belong(&records, true, SPLIT, part));
        assert!(learnt.iter().zip(&watched).all(|(learnt, watched)| learnt != watched));
        assert!(watched.iter().any(|&watched| watched));
        let within = records.windows(2).zip(learnt.windows(2)).filter(|(pair, _)| !pair[1].starts_game);
        assert!(within.into_iter().all(|(_, sides)| sides[0] == sides[1]));
        // The same in two blocks, of which the second begins within a game.
        let cut = records.iter().enumerate().filter(|(_, record)| record.starts_game).nth(30).unwrap().0 + 5;
        let [first, second] =
            [Part::Train, Part::Validation].map(|part| belong(&records[cut..], false, SPLIT, part));
        let end = records[cut..].iter().position(|record| record.starts_game).unwrap();
        assert!(!first[..end].contains(&true) && !second[..end].contains(&true));
        assert_eq!(first[end..], learnt[cut + end..]);
    }

    #[test]
    fn games_of_another_part_take_no_room() {
        let records = games(30, 2);
        let part = Some((SPLIT, Part::Validation));
        let selection = Selection { part, ..selection(Preset::BtSmall, "min-ply=8", Broken::Stop) };
        let chosen = selection.choose_from(block(&records), &file(), true).unwrap();
        let wanted = belong(&records, false, SPLIT, Part::Validation);
        let kept = records.iter().zip(&wanted).filter(|(_, wanted)| **wanted).map(|(record, _)| record);
        assert!(chosen.records.iter().eq(kept));
        let useful = chosen.useful.unwrap();
        assert!(useful.iter().all(|&at| chosen.records[at as usize].ply >= 8));
        assert_eq!(useful.len(), chosen.records.iter().filter(|record| record.ply >= 8).count());
    }

    #[test]
    fn all_moves_of_a_position_go_the_same_way() {
        let mut records = Vec::new();
        for record in games(20, 9).iter().step_by(7) {
            let board = record.position.board().unwrap();
            for mv in tandem_chess::Position::from(board).legal_moves() {
                records.push(Record { mv: Some(mv), starts_game: false, ..*record });
            }
        }
        let sides = belong(&records, true, SPLIT, Part::Train);
        let pairs = records.windows(2).zip(sides.windows(2));
        let mut same = pairs.filter(|(pair, _)| pair[0].position.hash() == pair[1].position.hash());
        assert!(same.all(|(_, sides)| sides[0] == sides[1]));
        assert!(sides.contains(&true) && sides.contains(&false));
    }

    #[test]
    fn broken_records_are_named_or_skipped() {
        let mut records = games(2, 7);
        records[11].mv = Some("a1h5".parse().unwrap());
        let stopped = selection(Preset::Byte, "", Broken::Stop).choose_from(block(&records), &file(), true);
        let told = stopped.unwrap_err().to_string();
        assert!(told.starts_with("games.pgn: record 112: a1h5 is not a legal move in "), "{told}");
        let skipping = selection(Preset::Byte, "", Broken::Skip);
        let chosen = skipping.choose_from(block(&records), &file(), true).unwrap();
        assert_eq!((chosen.records.len(), chosen.useful), (records.len() - 1, None));
        assert_eq!((skipping.skipped.count(), skipping.skipped.examples().len()), (1, 1));
    }

    #[test]
    fn what_is_left_out_stays_where_it_is_history() {
        let records = games(5, 7);
        let chosen = selection(Preset::BtSmall, "skip=0.9", Broken::Stop);
        let chosen = chosen.choose_from(block(&records), &file(), true).unwrap();
        assert_eq!(chosen.records.len(), records.len());
        assert!(chosen.useful.unwrap().len() < records.len() / 4);
        let alone = selection(Preset::Byte, "skip=0.9", Broken::Stop);
        assert!(alone.choose_from(block(&records), &file(), true).unwrap().records.len() < records.len() / 4);
        let mut silent = records.clone();
        silent.iter_mut().for_each(|record| record.mv = None);
        let useless = selection(Preset::Byte, "", Broken::Stop);
        assert!(useless.choose_from(block(&silent), &file(), true).unwrap().records.is_empty());
        assert_eq!(useless.seen.load(Ordering::Relaxed), records.len() as u64);
    }
}
