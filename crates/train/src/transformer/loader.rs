//! Batches of samples, built by background threads while a trainer works; see [`pool`](crate::pool) for the
//! order of the data and for resuming.

use super::bridge_setup::SampleSpec;
use super::recipe::TransformerRecipe;
use super::samples::{Augmentation, LabelConfig, SampleShape, Samples};
use super::selection::Selection;
use crate::pool::{
    BatchBuilder, BlockSlice, DataCursor, LoadDataError, Loader, OpenSource, PoolPlan, ProcessRank,
    RecordAddress, SampledRecord, Skipped, Streams,
};
use crate::recipe::{OnInvalid, SourceRecipe};
use crate::scores::check_scores;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tandem_data::{Record, Split, Subset};
use tandem_hybrid::AccumulatorReader;
use tandem_util::random::SplitMix;

/// Sources that are read, and the part of their games that is used.
#[derive(Clone)]
struct DataSelection {
    sources: Vec<SourceRecipe>,
    part: Option<(Split, Subset)>,
}

impl DataSelection {
    fn of_training(recipe: &TransformerRecipe) -> Self {
        Self { sources: read_sources(&recipe.data.train), part: part(recipe, Subset::Train) }
    }

    /// Validation sources, or the held-out part of the training data; empty if there is neither.
    fn of_validation(recipe: &TransformerRecipe) -> Self {
        match part(recipe, Subset::Validation) {
            Some(part) => Self { sources: read_sources(&recipe.data.train), part: Some(part) },
            None => Self { sources: read_sources(&recipe.data.validation), part: None },
        }
    }

    fn open_sources(
        &self,
        broken: OnInvalid,
        shape: SampleShape,
        skipped: &Arc<Skipped>,
    ) -> Result<Vec<OpenSource>, LoadDataError> {
        let open = |source: &SourceRecipe| {
            let (files, filter) = source.open()?;
            let seen = Arc::new(AtomicU64::new(0));
            let (part, skipped) = (self.part, Arc::clone(skipped));
            let selection = Selection {
                shape,
                filter,
                part,
                broken,
                seen: Arc::clone(&seen),
                skipped: Arc::clone(&skipped),
            };
            Ok(OpenSource {
                path: source.path.clone(),
                weight: source.weight,
                files,
                on_error: broken.into(),
                filter: None,
                select: Some(selection.choose()),
                seen,
                needed: source.needed(&shape.needed()),
                skipped,
            })
        };
        self.sources.iter().map(open).collect()
    }
}

fn read_sources(sources: &[SourceRecipe]) -> Vec<SourceRecipe> {
    sources.iter().filter(|source| source.weight > 0.0).cloned().collect()
}

/// A part of the training data, if some of it is held out. Games are assigned by a hash of their content.
fn part(recipe: &TransformerRecipe, part: Subset) -> Option<(Split, Subset)> {
    let validation = recipe.data.validation_fraction;
    let wanted = validation > 0.0 && recipe.data.validation.is_empty();
    wanted.then_some((Split { validation, test: 0.0, seed: recipe.seed }, part))
}

/// Turns the records that the pool hands out into samples with labels.
struct SampleMaker {
    recipe: TransformerRecipe,
    spec: SampleSpec,
    sources: Vec<SourceRecipe>,
    /// Applies random colour swaps and mirroring; false for validation data.
    flip: bool,
}

impl SampleMaker {
    /// Augmentation of a row of a step. It depends only on the seed, the step and the row, so every process
    /// draws the same.
    fn augmentation(&self, step: u64, row: usize) -> Augmentation {
        if !self.flip {
            return Augmentation::default();
        }
        let index = SplitMix::new(step).next_u64() ^ row as u64;
        let bits = SplitMix::new(self.recipe.seed ^ SplitMix::new(index).next_u64()).next_u64();
        Augmentation { flipped: bits & 1 == 1, mirrored: bits & 2 == 2 }
    }

    /// Label settings of each source at a step, because the weight of results may follow a schedule.
    fn label_configs(&self, step: u64) -> Vec<LabelConfig> {
        let (targets, steps) = (&self.recipe.targets, self.recipe.steps());
        let config = |source: &SourceRecipe| LabelConfig {
            scale: targets.scale,
            wdl: source.wdl_or(&targets.wdl).at(step, steps),
            // A source's own weight of the result holds for both targets.
            value_wdl: source.wdl.as_ref().map_or(targets.value_wdl, |wdl| wdl.at(step, steps)),
        };
        self.sources.iter().map(config).collect()
    }
}

impl BatchBuilder for SampleMaker {
    type Batch = Samples;

    fn check(&self, pieces: &[BlockSlice]) -> Result<(), LoadDataError> {
        if self.recipe.data.any_scores {
            return Ok(());
        }
        let SampleShape { win_probability, wdl, search, short_term, .. } = self.spec.shape;
        // Schedules count as using scores if they do so at any step, so that bad scores are found at the
        // start of the run.
        let targets = &self.recipe.targets;
        let blends_win_probability =
            |source: &SourceRecipe| win_probability && !source.wdl_or(&targets.wdl).is_always(1.0);
        let blends_wdl = |source: &SourceRecipe| {
            let own = source.wdl.as_ref();
            wdl && own.map_or(targets.value_wdl < 1.0, |wdl| !wdl.is_always(1.0))
        };
        let reads = |record: &Record, source: usize| {
            let source = &self.sources[source];
            let alone = record.result.is_none() && (win_probability || wdl);
            search || short_term || alone || blends_win_probability(source) || blends_wdl(source)
        };
        // A source with its own weight is fixed by its own key, so that key is named.
        let any_blends = |own: bool, blends: &dyn Fn(&SourceRecipe) -> bool| {
            self.sources.iter().any(|source| source.wdl.is_some() == own && blends(source))
        };
        let mut keys = Vec::new();
        if !(search || short_term) {
            keys.extend(any_blends(false, &blends_win_probability).then_some("targets.wdl"));
            keys.extend(any_blends(false, &blends_wdl).then_some("targets.value_wdl"));
            let own = any_blends(true, &blends_win_probability) || any_blends(true, &blends_wdl);
            keys.extend(own.then_some("data.train.wdl"));
        }
        check_scores(pieces, reads, &keys)
    }

    fn build<'a>(
        &self,
        step: u64,
        first_row: usize,
        records: impl Iterator<Item = SampledRecord<'a>>,
        batch: &mut Samples,
    ) -> Result<(), LoadDataError> {
        let label_configs = self.label_configs(step);
        let SampleSpec { shape, nnue } = &self.spec;
        let mut reader = nnue.clone().map(AccumulatorReader::new);
        batch.clear();
        for (row, taken) in (first_row..).zip(records) {
            let SampledRecord { records, at, ends_game, source } = taken;
            let pushed = batch.push(
                shape,
                (records, at),
                ends_game,
                self.augmentation(step, row),
                &label_configs[source],
            );
            // Records were checked when they were selected, so this fails only for a file that has changed.
            let board = pushed.map_err(|problem| LoadDataError::InvalidRecord {
                path: self.sources[source].path.clone().into(),
                record: at as u64 + 1,
                problem,
            })?;
            if let Some(reader) = &mut reader {
                reader.append_bytes(&board, &mut batch.bridge_inputs);
            }
        }
        Ok(())
    }
}

impl Loader<Samples> {
    /// Loads samples from the batch of a step on: reads from the place `cursor` that a checkpoint of the same run
    /// has saved, or from the beginning of the data if there is none.
    pub fn of_samples(
        recipe: &TransformerRecipe,
        spec: impl Into<SampleSpec>,
        process: ProcessRank,
        threads: usize,
        first_step: u64,
        cursor: Option<DataCursor>,
    ) -> Self {
        let plan = PoolPlan {
            batch: recipe.training.batch,
            rows: process.rows(recipe.training.batch),
            shuffle_buffer: recipe.data.shuffle_buffer,
            seed: recipe.seed,
            threads,
            ahead: 2 * threads.max(1),
            first_step,
        };
        let data = DataSelection::of_training(recipe);
        let sources = data.sources.clone();
        let spec = spec.into();
        let shape = spec.shape;
        let maker = SampleMaker { recipe: recipe.clone(), spec, sources, flip: recipe.data.flip };
        let skipped = Arc::<Skipped>::default();
        let (broken, counted) = (recipe.data.on_invalid, Arc::clone(&skipped));
        let open_sources = move || data.open_sources(broken, shape, &counted);
        Self::from_sources(plan, open_sources, maker, cursor.unwrap_or_default(), skipped)
    }
}

/// The first validation samples in the order of the data, without augmentation and with the targets of the
/// last step; empty if the recipe has no validation data.
///
/// Batches have the size that one process computes at a time. None ends between two records of one position,
/// because the moves of a position are ranked together; the processes take whole batches in turn. Broken
/// records are counted in `skipped`.
///
/// # Errors
/// If a source cannot be read or has no usable record.
pub(super) fn load_samples(
    recipe: &TransformerRecipe,
    spec: impl Into<SampleSpec>,
    process: ProcessRank,
    threads: usize,
    skipped: &Arc<Skipped>,
) -> Result<Vec<Samples>, LoadDataError> {
    let spec = spec.into();
    let data = DataSelection::of_validation(recipe);
    let sources = data.open_sources(recipe.data.on_invalid, spec.shape, skipped)?;
    let streams = Streams::new(sources, threads, &DataCursor::default());
    let first = streams.first(recipe.training.validation_positions)?;
    let keys: Vec<u64> =
        first.records(first.addresses()).map(|taken| taken.record().position.hash()).collect();
    let world_size = process.world_size.max(1);
    let size = (recipe.training.batch / recipe.training.gradient_accumulation_steps / world_size).max(1);
    let ranges = cut_between(&keys, size);
    let own: Vec<&[RecordAddress]> = ranges
        .into_iter()
        .skip(process.rank)
        .step_by(world_size)
        .map(|range| &first.addresses()[range])
        .collect();
    let maker = SampleMaker { recipe: recipe.clone(), spec, sources: data.sources, flip: false };
    let last_step = recipe.steps().saturating_sub(1);
    let make = |places: &&[RecordAddress]| {
        let mut samples = Samples::default();
        maker.build(last_step, 0, first.records(places), &mut samples).map(|()| samples)
    };
    own.par_iter().map(make).collect()
}

/// The first records with a score or a result, in the order of the sources; of a part of the games if one is
/// given.
pub(crate) fn first_records(
    sources: &[SourceRecipe],
    threads: usize,
    count: u64,
    part: Option<(Split, Subset)>,
) -> Result<Vec<Record>, LoadDataError> {
    let data = DataSelection { sources: read_sources(sources), part };
    let sources = data.open_sources(OnInvalid::Stop, SampleShape::VALUES, &Arc::default())?;
    let first = Streams::new(sources, threads, &DataCursor::default()).first(count)?;
    Ok(first.records(first.addresses()).map(|taken| *taken.record()).collect())
}

/// Cuts keys into ranges of at most `size`, between two different keys wherever that is possible.
fn cut_between(keys: &[u64], size: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    while start < keys.len() {
        let end = (start + size).min(keys.len());
        let between = |&end: &usize| end == keys.len() || keys[end - 1] != keys[end];
        let end = (start + 1..=end).rev().find(between).unwrap_or(end);
        ranges.push(start..end);
        start = end;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::super::samples::test_games::games;
    use super::*;
    use crate::pool::LoadedBatch;
    use crate::schedule::Schedule;
    use std::collections::{HashMap, HashSet};
    use std::path::{Path, PathBuf};
    use tandem_data::{Options, Record, RecordWriter, Source};
    use tandem_transformer::Preset;
    use tandem_util::test_data;

    /// A temporary folder, removed when the test ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tandem-samples-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, records: &[Record]) -> PathBuf {
            let path = self.0.join(name);
            let source = Source::parse(path.to_str().unwrap(), &Options::default()).unwrap().remove(0);
            let mut writer = RecordWriter::create(source).unwrap();
            records.iter().for_each(|record| writer.write(record).unwrap());
            writer.finish().unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn recipe(path: &Path, preset: Preset, more: &str) -> TransformerRecipe {
        let text = format!(
            "name = \"x\"\n[network]\npreset = \"{}\"\n[training]\nbatch = 60\npositions = 3600\n[data]\nshuffle_buffer = 300\ntrain = [{{ path = {:?} }}]\n{more}",
            preset.name(),
            path.to_str().unwrap()
        );
        let mut recipe = TransformerRecipe::parse(&text).unwrap();
        recipe.training.validation_positions = 500;
        recipe
    }

    fn shape(recipe: &TransformerRecipe) -> SampleShape {
        SampleShape::of(&recipe.network.architecture().unwrap())
    }

    type Found = Vec<LoadedBatch<Samples>>;

    fn batches(
        recipe: &TransformerRecipe,
        process: ProcessRank,
        threads: usize,
        first: u64,
        cursor: Option<DataCursor>,
    ) -> Found {
        let mut loader = Loader::of_samples(recipe, shape(recipe), process, threads, first, cursor);
        (first..40).map(|_| loader.next_batch().unwrap()).collect()
    }

    /// NaN is not equal to itself, so samples are compared as they are written.
    fn same(left: &Found, right: &Found) {
        assert_eq!(format!("{left:?}"), format!("{right:?}"));
    }

    #[test]
    fn samples_do_not_depend_on_threads_or_processes_and_resume_at_any_step() {
        let folder = Folder::new("same");
        let path = folder.write("games.pgn", &games(25, 3));
        for preset in [Preset::Byte, Preset::BtSmall, Preset::Bt3] {
            let mut recipe = recipe(&path, preset, "flip = true\nvalidation_share = 0.1\n");
            let wdl = Some(Schedule::Linear { start: 0.0, end: 1.0 });
            let second = SourceRecipe { weight: 2.0, wdl, ..recipe.data.train[0].clone() };
            recipe.data.train.push(second);
            let all = batches(&recipe, ProcessRank::SINGLE, 1, 0, None);
            assert!(all.iter().all(|loaded| loaded.batch.len() == 60));
            for step in [13, 30] {
                let text = serde_json::to_string(&*all[step].cursor).unwrap();
                let cursor = serde_json::from_str(&text).unwrap();
                same(
                    &batches(&recipe, ProcessRank::SINGLE, 3, step as u64, Some(cursor)),
                    &all[step..].to_vec(),
                );
            }
            // Three processes together build the rows of one.
            let thirds: Vec<Found> = (0..3)
                .map(|rank| batches(&recipe, ProcessRank { rank, world_size: 3 }, 2, 0, None))
                .collect();
            for (step, whole) in all.iter().enumerate() {
                let joint = thirds.iter().flat_map(|third| third[step].batch.keys.clone());
                assert!(joint.eq(whole.batch.keys.iter().copied()), "step {step}");
                let joint = thirds.iter().flat_map(|third| third[step].batch.masks.clone());
                assert!(joint.eq(whole.batch.masks.iter().copied()), "step {step}");
                let joint = thirds.iter().flat_map(|third| third[step].batch.tokens.clone());
                assert!(joint.eq(whole.batch.tokens.iter().copied()), "step {step}");
                assert!(thirds.iter().all(|third| third[step].cursor == whole.cursor));
            }
        }
    }

    #[test]
    fn validation_games_are_never_trained_on() {
        let folder = Folder::new("split");
        let records = games(40, 5);
        let path = folder.write("games.pgn", &records);
        let recipe = recipe(&path, Preset::BtSmall, "validation_fraction = 0.2\n");
        let validation =
            load_samples(&recipe, shape(&recipe), ProcessRank::SINGLE, 2, &Arc::default()).unwrap();
        let all: usize = validation.iter().map(Samples::len).sum();
        assert!(all > 100);
        // Positions that occur in a single game identify the games that were seen.
        let mut owners: HashMap<u64, Option<usize>> = HashMap::new();
        let mut game = 0;
        for record in &records {
            game += usize::from(record.starts_game);
            let owner = owners.entry(record.position.hash()).or_insert(Some(game));
            *owner = owner.filter(|owner| *owner == game);
        }
        let games_of = |samples: &Samples| -> HashSet<usize> {
            samples.keys.iter().filter_map(|key| owners[key]).collect()
        };
        let validation: HashSet<usize> = validation.iter().flat_map(games_of).collect();
        let trained = batches(&recipe, ProcessRank::SINGLE, 2, 0, None);
        let trained: HashSet<usize> = trained.iter().flat_map(|loaded| games_of(&loaded.batch)).collect();
        assert!(validation.len() > 2 && trained.len() > 20, "{validation:?} {trained:?}");
        assert!(validation.is_disjoint(&trained));
        // Two processes together validate the samples of one.
        let halves = [0, 1].map(|rank| {
            load_samples(&recipe, shape(&recipe), ProcessRank { rank, world_size: 2 }, 1, &Arc::default())
                .unwrap()
        });
        let count: usize = halves.iter().flatten().map(Samples::len).sum();
        assert_eq!(count, all);
    }

    #[test]
    fn moves_of_a_position_stay_in_one_batch() {
        assert_eq!(cut_between(&[1, 1, 2, 2, 2, 3], 3), [0..2, 2..5, 5..6]);
        assert_eq!(cut_between(&[7; 5], 2), [0..2, 2..4, 4..5]);
        assert_eq!(cut_between(&[], 2), []);
        let folder = Folder::new("actions");
        let mut records = Vec::new();
        for record in games(6, 9).iter().step_by(5) {
            let position = tandem_chess::Position::from(record.position.board().unwrap());
            records.extend(position.legal_moves().iter().map(|&mv| Record { mv: Some(mv), ..*record }));
        }
        let path = folder.write("action_value_data.bag", &records);
        let mut recipe = recipe(&path, Preset::Byte, "");
        recipe.data.validation = recipe.data.train.clone();
        let validation =
            load_samples(&recipe, shape(&recipe), ProcessRank::SINGLE, 1, &Arc::default()).unwrap();
        assert!(validation.windows(2).all(|pair| pair[0].keys.last() != pair[1].keys.first()));
    }

    /// Self-play games of lc0: masks, legal moves, moves and plies are equal to those that lc0 wrote.
    #[test]
    #[ignore = "needs data"]
    fn samples_are_those_that_lc0_writes() {
        const SIZE: usize = 8356;
        let folder = test_data::path("formats/lc0_v6");
        let mut recipe = recipe(&folder, Preset::Bt3, "");
        recipe.data.validation = recipe.data.train.clone();
        recipe.training.validation_positions = 10_000;
        let samples = load_samples(&recipe, shape(&recipe), ProcessRank::SINGLE, 2, &Arc::default()).unwrap();
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut bytes = Vec::new();
        for file in files {
            std::io::Read::read_to_end(&mut tandem_util::input::open(&file).unwrap(), &mut bytes).unwrap();
        }
        let rows = samples.iter().flat_map(|samples| (0..samples.len()).map(move |row| (samples, row)));
        let mut count = 0;
        for ((samples, row), record) in rows.zip(bytes.chunks_exact(SIZE)) {
            // Planes: one byte per rank, the highest bit is file a.
            let masks = &samples.masks[112 * row..][..104];
            for (plane, mask) in record[7440..8272].chunks_exact(8).zip(masks) {
                assert_eq!(mask.to_le_bytes().map(u8::reverse_bits), plane, "record {count}");
            }
            for (index, probability) in record[8..7440].chunks_exact(4).enumerate() {
                let is_legal = samples.legal[30 * row + index / 64] >> (index % 64) & 1 == 1;
                assert_eq!(
                    f32::from_le_bytes(probability.try_into().unwrap()) >= 0.0,
                    is_legal,
                    "record {count}"
                );
            }
            let value = |at: usize| f32::from_le_bytes(record[at..at + 4].try_into().unwrap());
            assert_eq!(samples.policy[row], u16::from_le_bytes([record[8344], record[8345]]));
            // lc0 stores the halfmove clock itself; networks read it divided by 99.
            assert_eq!(samples.levels[112 * row + 109], f32::from(record[8277]) / 99.0);
            let [win, _, loss] = samples.wdl[row];
            assert_eq!(win - loss, value(8308));
            assert!(samples.moves_left[row] >= 1.0);
            count += 1;
        }
        assert_eq!((count, bytes.len() / SIZE), (1796, 1796));
    }

    /// Real games: the move of every sample is among its legal moves.
    #[test]
    #[ignore = "needs data"]
    fn real_games_become_samples() {
        let path = test_data::path("games/otb2400.pgn.zst");
        let mut recipe = recipe(&path, Preset::BtSmall, "validation_fraction = 0.02\nflip = true\n");
        recipe.training.validation_positions = 2000;
        let validation =
            load_samples(&recipe, shape(&recipe), ProcessRank::SINGLE, 1, &Arc::default()).unwrap();
        assert_eq!(validation.iter().map(Samples::len).sum::<usize>(), 2000);
        let mut loader = Loader::of_samples(&recipe, shape(&recipe), ProcessRank::SINGLE, 1, 0, None);
        for samples in validation.into_iter().chain((0..30).map(|_| loader.next_batch().unwrap().batch)) {
            for (row, &index) in samples.policy.iter().enumerate() {
                assert!(samples.legal[30 * row + usize::from(index) / 64] >> (index % 64) & 1 == 1);
                assert!(
                    (0.0..=1.0).contains(&samples.win_probability[row]) && samples.moves_left[row] >= 1.0
                );
            }
        }
    }

    #[test]
    fn data_without_usable_labels_is_reported() {
        let folder = Folder::new("useless");
        let path = folder.0.join("x.csv");
        let rows = "4k3/8/8/8/8/8/8/4K3 w - - 0 1\n".repeat(30);
        std::fs::write(&path, format!("fen\n{rows}")).unwrap();
        let message_of = |recipe: &TransformerRecipe| {
            let mut loader = Loader::of_samples(recipe, shape(recipe), ProcessRank::SINGLE, 1, 0, None);
            let error = loader.next_batch().unwrap_err();
            (error.to_string(), loader.skipped().count())
        };
        let (message, _) = message_of(&recipe(&path, Preset::Byte, ""));
        assert!(message.contains("none of 30 records") && message.contains("a move is needed"), "{message}");
        let text = "fen,move,score\n4k3/8/8/8/8/8/8/4K3 w - - 0 1,e1e2,50\n4k3/8/8/8/8/8/8/4K3 w - - 0 1,e1e3,50\nnonsense,,\n";
        std::fs::write(&path, text).unwrap();
        let (message, _) = message_of(&recipe(&path, Preset::Byte, ""));
        assert!(message.contains("x.csv: record ") && !message.contains("none of"), "{message}");
        let recipe = recipe(&path, Preset::Byte, "broken = \"skip\"\n");
        let mut loader = Loader::of_samples(&recipe, shape(&recipe), ProcessRank::SINGLE, 1, 0, None);
        assert_eq!(loader.next_batch().unwrap().batch.len(), 60);
        assert_eq!(loader.skipped().count(), 2);
        assert_eq!(loader.skipped().examples().len(), 2);
        let mut validation = recipe.clone();
        (validation.data.validation, validation.data.validation_fraction) = (recipe.data.train.clone(), 0.0);
        load_samples(&validation, shape(&validation), ProcessRank::SINGLE, 1, loader.skipped()).unwrap();
        assert_eq!(loader.skipped().count(), 4, "those of the validation data count as well");
        let rows = "4k3/8/8/8/8/8/8/4K3 w - - 0 1,e1e2,0\n".repeat(300);
        std::fs::write(&path, format!("fen,move,score\n{rows}")).unwrap();
        // This network learns from results, and uses scores only if the result is unknown or if the recipe
        // blends them.
        let mut of_outcomes = self::recipe(&path, Preset::BtSmall, "");
        for recipe in [&recipe, &of_outcomes] {
            let (message, _) = message_of(recipe);
            assert!(message.starts_with("all scores are zero"), "{message}");
            assert!(message.contains("from them; label"), "{message}");
        }
        let rows = rows.replace(",0\n", ",0,1-0\n");
        std::fs::write(&path, format!("fen,move,score,result\n{rows}")).unwrap();
        let (message, _) = message_of(&recipe);
        assert!(message.contains("set `targets.wdl` to 1"), "{message}");
        let mut loader =
            Loader::of_samples(&of_outcomes, shape(&of_outcomes), ProcessRank::SINGLE, 1, 0, None);
        assert_eq!(loader.next_batch().unwrap().batch.len(), 60);
        of_outcomes.targets.value_wdl = 0.5;
        let (message, _) = message_of(&of_outcomes);
        assert!(message.contains("set `targets.value_wdl` to 1"), "{message}");
        of_outcomes.data.train[0].wdl = Some(Schedule::Constant { value: 0.5 });
        let (message, _) = message_of(&of_outcomes);
        assert!(message.contains("set `data.train.wdl` to 1"), "{message}");
        // Scores that are used only in the middle of the run.
        let part = |share, value| crate::schedule::SchedulePart {
            fraction: share,
            schedule: Schedule::Constant { value },
        };
        let parts = vec![part(0.4, 1.0), part(0.2, 0.5), part(0.4, 1.0)];
        of_outcomes.data.train[0].wdl = Some(Schedule::Sequence { parts });
        let (message, _) = message_of(&of_outcomes);
        assert!(message.contains("set `data.train.wdl` to 1"), "{message}");
    }
}
