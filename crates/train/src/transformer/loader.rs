//! Batches of samples, made by threads of their own while a trainer works: see [`pool`](crate::pool) for how.

use super::join::Reading;
use super::recipe::{Broken, TransformerRecipe};
use super::samples::{Aim, SampleShape, Samples, View};
use super::select::Selection;
use crate::pool::{
    Batches, DataCursor, Feed, LoadDataError, Loaded, Maker, Piece, Place, Plan, Skipped, Streams, Taken,
};
use crate::recipe::SourceRecipe;
use crate::scores::check_scores;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tandem_chess::random::SplitMix;
use tandem_data::{Part, Record, Split};
use tandem_hybrid::Onlooker;

/// What one of several processes makes of each batch.
///
/// All of them read the same records and put them in the same order, which costs little beside training; each makes its own
/// rows of every batch. So together they see exactly what one process would see alone, and the same whatever their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which process, from zero.
    pub rank: usize,
    /// Of how many.
    pub ranks: usize,
}

impl Share {
    /// Everything: there is one process.
    pub const WHOLE: Self = Self { rank: 0, ranks: 1 };

    /// Its rows of a batch.
    pub fn rows(self, batch: usize) -> Range<usize> {
        let ranks = self.ranks.max(1);
        let start = |rank: usize| rank.min(ranks) * batch / ranks;
        start(self.rank)..start(self.rank + 1)
    }
}

/// Where samples come from: the sources that are read at all, and which part of their games.
#[derive(Clone)]
struct Origin {
    sources: Vec<SourceRecipe>,
    part: Option<(Split, Part)>,
}

impl Origin {
    fn of_training(recipe: &TransformerRecipe) -> Self {
        Self { sources: read_sources(&recipe.data.train), part: part(recipe, Part::Train) }
    }

    /// Validation data, or the part of the training data that is kept for it; nothing where there is neither.
    fn of_validation(recipe: &TransformerRecipe) -> Self {
        match part(recipe, Part::Validation) {
            Some(part) => Self { sources: read_sources(&recipe.data.train), part: Some(part) },
            None => Self { sources: read_sources(&recipe.data.validation), part: None },
        }
    }

    fn feeds(
        &self,
        broken: Broken,
        shape: SampleShape,
        skipped: &Arc<Skipped>,
    ) -> Result<Vec<Feed>, LoadDataError> {
        let feed = |source: &SourceRecipe| {
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
            Ok(Feed {
                path: source.path.clone(),
                weight: source.weight,
                files,
                on_error: broken.into(),
                sieve: None,
                choose: Some(selection.choose()),
                seen,
                needed: source.needed(&shape.needed()),
                skipped,
            })
        };
        self.sources.iter().map(feed).collect()
    }
}

fn read_sources(sources: &[SourceRecipe]) -> Vec<SourceRecipe> {
    sources.iter().filter(|source| source.weight > 0.0).cloned().collect()
}

/// A part of the training data, where some of it is kept to watch with. Games are dealt out by what happens in them.
fn part(recipe: &TransformerRecipe, part: Part) -> Option<(Split, Part)> {
    let validation = recipe.data.validation_share;
    let wanted = validation > 0.0 && recipe.data.validation.is_empty();
    wanted.then_some((Split { validation, test: 0.0, seed: recipe.seed }, part))
}

/// Makes samples of records.
struct SampleMaker {
    recipe: TransformerRecipe,
    reading: Reading,
    sources: Vec<SourceRecipe>,
    /// Positions are shown as they are, and turned, by chance.
    flip: bool,
}

impl SampleMaker {
    /// How the position in a row of a step is shown: the same whoever makes the row.
    fn view(&self, step: u64, row: usize) -> View {
        if !self.flip {
            return View::default();
        }
        let place = SplitMix::new(step).next_u64() ^ row as u64;
        let chance = SplitMix::new(self.recipe.seed ^ SplitMix::new(place).next_u64()).next_u64();
        View { flipped: chance & 1 == 1, mirrored: chance & 2 == 2 }
    }

    /// What the targets of each source are made of, at a step.
    fn aims(&self, step: u64) -> Vec<Aim> {
        let (targets, steps) = (&self.recipe.targets, self.recipe.steps());
        let aim = |source: &SourceRecipe| Aim {
            scale: targets.scale,
            result_share: source.share(&targets.result_share).at(step, steps),
            // What a source says of itself holds for everything that is taught.
            value_result_share: source
                .result_share
                .as_ref()
                .map_or(targets.value_result_share, |share| share.at(step, steps)),
        };
        self.sources.iter().map(aim).collect()
    }
}

impl Maker for SampleMaker {
    type Batch = Samples;

    fn look(&self, pieces: &[Piece]) -> Result<(), LoadDataError> {
        if self.recipe.data.any_scores {
            return Ok(());
        }
        let SampleShape { chances, ends, search, short_term, .. } = self.reading.shape;
        // Scores that are read later are looked at now.
        let targets = &self.recipe.targets;
        let mixed_chances =
            |source: &SourceRecipe| chances && !source.share(&targets.result_share).is_always(1.0);
        let mixed_ends = |source: &SourceRecipe| {
            let own = source.result_share.as_ref();
            ends && own.map_or(targets.value_result_share < 1.0, |share| !share.is_always(1.0))
        };
        let reads = |record: &Record, source: usize| {
            let source = &self.sources[source];
            let alone = record.result.is_none() && (chances || ends);
            search || short_term || alone || mixed_chances(source) || mixed_ends(source)
        };
        // Where a source has a share of its own, that is what would have to change.
        let mixed = |own: bool, is_mixed: &dyn Fn(&SourceRecipe) -> bool| {
            self.sources.iter().any(|source| source.result_share.is_some() == own && is_mixed(source))
        };
        let mut keys = Vec::new();
        if !(search || short_term) {
            keys.extend(mixed(false, &mixed_chances).then_some("targets.result_share"));
            keys.extend(mixed(false, &mixed_ends).then_some("targets.value_result_share"));
            let own = mixed(true, &mixed_chances) || mixed(true, &mixed_ends);
            keys.extend(own.then_some("data.train.result_share"));
        }
        check_scores(pieces, reads, &keys)
    }

    fn make<'a>(
        &self,
        step: u64,
        first_row: usize,
        records: impl Iterator<Item = Taken<'a>>,
        batch: &mut Samples,
    ) -> Result<(), LoadDataError> {
        let aims = self.aims(step);
        let Reading { shape, nnue } = &self.reading;
        let mut onlooker = nnue.clone().map(Onlooker::new);
        batch.clear();
        for (row, taken) in (first_row..).zip(records) {
            let Taken { records, at, ends_game, source } = taken;
            let pushed = batch.push(shape, (records, at), ends_game, self.view(step, row), &aims[source]);
            // Records were looked through when they were chosen.
            let board = pushed.map_err(|problem| LoadDataError::Nonsense {
                path: self.sources[source].path.clone().into(),
                record: at as u64 + 1,
                problem,
            })?;
            if let Some(onlooker) = &mut onlooker {
                onlooker.add_bytes(&board, &mut batch.seen);
            }
        }
        Ok(())
    }
}

/// Samples without end. The same recipe gives the same samples, however many threads and processes there are.
pub struct SampleLoader {
    batches: Batches<Samples>,
    skipped: Arc<Skipped>,
}

impl SampleLoader {
    /// Begins with the samples of a step, in the pool that a cursor of that run led to, or from the start of the data.
    pub fn new(
        recipe: &TransformerRecipe,
        reading: impl Into<Reading>,
        share: Share,
        threads: usize,
        first_step: u64,
        cursor: Option<DataCursor>,
    ) -> Self {
        let plan = Plan {
            batch: recipe.training.batch,
            rows: share.rows(recipe.training.batch),
            shuffle_buffer: recipe.data.shuffle_buffer,
            seed: recipe.seed,
            threads,
            ahead: 2 * threads.max(1),
            first_step,
        };
        let origin = Origin::of_training(recipe);
        let sources = origin.sources.clone();
        let reading = reading.into();
        let shape = reading.shape;
        let maker = SampleMaker { recipe: recipe.clone(), reading, sources, flip: recipe.data.flip };
        let skipped = Arc::<Skipped>::default();
        let (broken, counted) = (recipe.data.broken, Arc::clone(&skipped));
        let feeds = move || origin.feeds(broken, shape, &counted);
        Self { batches: Batches::new(plan, feeds, maker, cursor.unwrap_or_default()), skipped }
    }

    /// Takes back samples that nobody needs any more: the next are made in their place.
    pub fn recycle(&mut self, samples: Samples) {
        self.batches.recycle(samples);
    }

    /// The next samples.
    pub fn next_batch(&mut self) -> Result<Loaded<Samples>, LoadDataError> {
        self.batches.next_batch()
    }

    /// The time that was spent in waiting for samples.
    pub fn waited(&self) -> Duration {
        self.batches.waited()
    }

    /// Broken records that were left out so far.
    pub fn skipped(&self) -> &Arc<Skipped> {
        &self.skipped
    }
}

/// The first samples to watch learning with, in the order of the data, with the targets of the last step and nothing turned;
/// none where a recipe has no such data.
///
/// They come in batches of what one process computes at a time. A batch never ends between two records of one position, so
/// that its moves can be ranked; the processes take whole batches, in turns. Broken records are counted in `skipped`.
pub fn load_samples(
    recipe: &TransformerRecipe,
    reading: impl Into<Reading>,
    share: Share,
    threads: usize,
    skipped: &Arc<Skipped>,
) -> Result<Vec<Samples>, LoadDataError> {
    let reading = reading.into();
    let origin = Origin::of_validation(recipe);
    let feeds = origin.feeds(recipe.data.broken, reading.shape, skipped)?;
    let streams = Streams::new(feeds, threads, &DataCursor::default());
    let first = streams.first(recipe.training.validation_positions)?;
    let keys: Vec<u64> = first.records(first.places()).map(|taken| taken.record().position.hash()).collect();
    let ranks = share.ranks.max(1);
    let size = (recipe.training.batch / recipe.training.accumulate / ranks).max(1);
    let ranges = cut_between(&keys, size);
    let mine: Vec<&[Place]> =
        ranges.into_iter().skip(share.rank).step_by(ranks).map(|range| &first.places()[range]).collect();
    let maker = SampleMaker { recipe: recipe.clone(), reading, sources: origin.sources, flip: false };
    let last_step = recipe.steps().saturating_sub(1);
    let make = |places: &&[Place]| {
        let mut samples = Samples::default();
        maker.make(last_step, 0, first.records(places), &mut samples).map(|()| samples)
    };
    mine.par_iter().map(make).collect()
}

/// The first records of some sources, in their order, that have a score or a result; of a part of the games, if one is named.
pub(crate) fn first_records(
    sources: &[SourceRecipe],
    threads: usize,
    count: u64,
    part: Option<(Split, Part)>,
) -> Result<Vec<Record>, LoadDataError> {
    let origin = Origin { sources: read_sources(sources), part };
    let feeds = origin.feeds(Broken::Stop, SampleShape::VALUES, &Arc::default())?;
    let first = Streams::new(feeds, threads, &DataCursor::default()).first(count)?;
    Ok(first.records(first.places()).map(|taken| *taken.record()).collect())
}

/// Cuts a row of numbers into parts of at most so many, if that can be done between two that differ.
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
    use crate::schedule::Schedule;
    use std::collections::{HashMap, HashSet};
    use std::path::{Path, PathBuf};
    use tandem_data::{Options, Record, Source, Writer};
    use tandem_transformer::Preset;

    /// A folder for a test, gone when the test is.
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
            let mut writer = Writer::create(source).unwrap();
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
            "name = \"x\"\n[network]\npreset = \"{}\"\n[training]\nbatch = 60\npositions = 3600\n\
             validation_positions = 500\n[data]\nshuffle_buffer = 300\ntrain = [{{ path = {:?} }}]\n{more}",
            preset.name(),
            path.to_str().unwrap()
        );
        TransformerRecipe::parse(&text).unwrap()
    }

    fn shape(recipe: &TransformerRecipe) -> SampleShape {
        SampleShape::of(&recipe.network.architecture().unwrap())
    }

    type Found = Vec<Loaded<Samples>>;

    fn batches(
        recipe: &TransformerRecipe,
        share: Share,
        threads: usize,
        first: u64,
        cursor: Option<DataCursor>,
    ) -> Found {
        let mut loader = SampleLoader::new(recipe, shape(recipe), share, threads, first, cursor);
        (first..40).map(|_| loader.next_batch().unwrap()).collect()
    }

    /// NaN is not equal to itself, so samples are compared as they are written.
    fn same(left: &Found, right: &Found) {
        assert_eq!(format!("{left:?}"), format!("{right:?}"));
    }

    #[test]
    fn samples_are_the_same_whoever_makes_them_and_go_on_from_any_step() {
        let folder = Folder::new("same");
        let path = folder.write("games.pgn", &games(25, 3));
        for preset in [Preset::Byte, Preset::BtSmall, Preset::Bt3] {
            let mut recipe = recipe(&path, preset, "flip = true\nvalidation_share = 0.1\n");
            let result_share = Some(Schedule::Linear { start: 0.0, end: 1.0 });
            let second = SourceRecipe { weight: 2.0, result_share, ..recipe.data.train[0].clone() };
            recipe.data.train.push(second);
            let all = batches(&recipe, Share::WHOLE, 1, 0, None);
            assert!(all.iter().all(|loaded| loaded.batch.len() == 60));
            for step in [13, 30] {
                let text = serde_json::to_string(&*all[step].cursor).unwrap();
                let cursor = serde_json::from_str(&text).unwrap();
                same(&batches(&recipe, Share::WHOLE, 3, step as u64, Some(cursor)), &all[step..].to_vec());
            }
            // Three processes make what one makes.
            let thirds: Vec<Found> =
                (0..3).map(|rank| batches(&recipe, Share { rank, ranks: 3 }, 2, 0, None)).collect();
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
    fn games_to_watch_with_are_never_learnt_from() {
        let folder = Folder::new("split");
        let records = games(40, 5);
        let path = folder.write("games.pgn", &records);
        let recipe = recipe(&path, Preset::BtSmall, "validation_share = 0.2\n");
        let watched = load_samples(&recipe, shape(&recipe), Share::WHOLE, 2, &Arc::default()).unwrap();
        let all: usize = watched.iter().map(Samples::len).sum();
        assert!(all > 100);
        // Positions that one game alone has tell which games were seen.
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
        let watched: HashSet<usize> = watched.iter().flat_map(games_of).collect();
        let learnt = batches(&recipe, Share::WHOLE, 2, 0, None);
        let learnt: HashSet<usize> = learnt.iter().flat_map(|loaded| games_of(&loaded.batch)).collect();
        assert!(watched.len() > 2 && learnt.len() > 20, "{watched:?} {learnt:?}");
        assert!(watched.is_disjoint(&learnt));
        // Two processes watch what one watches.
        let halves = [0, 1].map(|rank| {
            load_samples(&recipe, shape(&recipe), Share { rank, ranks: 2 }, 1, &Arc::default()).unwrap()
        });
        let count: usize = halves.iter().flatten().map(Samples::len).sum();
        assert_eq!(count, all);
    }

    #[test]
    fn moves_of_a_position_stay_together() {
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
        let watched = load_samples(&recipe, shape(&recipe), Share::WHOLE, 1, &Arc::default()).unwrap();
        assert!(watched.windows(2).all(|pair| pair[0].keys.last() != pair[1].keys.first()));
    }

    /// A file of the data for tests, where it is at hand: set `TANDEM_DATA` to a folder that has it, or put it at
    /// `../shared/data` beside the repository.
    fn data(name: &str) -> Option<PathBuf> {
        let folder = std::env::var_os("TANDEM_DATA")
            .map(PathBuf::from)
            .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")));
        let path = folder.join(name);
        if !path.exists() {
            eprintln!("skipped: {} is missing", path.display());
            return None;
        }
        Some(path)
    }

    /// Games that lc0 played against itself: masks, legal moves, moves and plies are those that lc0 wrote.
    #[test]
    fn samples_are_those_that_lc0_writes() {
        const SIZE: usize = 8356;
        let Some(folder) = data("formats/lc0_v6") else { return };
        let mut recipe = recipe(&folder, Preset::Bt3, "");
        recipe.data.validation = recipe.data.train.clone();
        recipe.training.validation_positions = 10_000;
        let samples = load_samples(&recipe, shape(&recipe), Share::WHOLE, 2, &Arc::default()).unwrap();
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut bytes = Vec::new();
        for file in files {
            std::io::Read::read_to_end(&mut tandem_chess::input::open(&file).unwrap(), &mut bytes).unwrap();
        }
        let rows = samples.iter().flat_map(|samples| (0..samples.len()).map(move |row| (samples, row)));
        let mut count = 0;
        for ((samples, row), record) in rows.zip(bytes.chunks_exact(SIZE)) {
            // Planes: a byte is a rank, its highest bit the file a.
            let masks = &samples.masks[112 * row..][..104];
            for (plane, mask) in record[7440..8272].chunks_exact(8).zip(masks) {
                assert_eq!(mask.to_le_bytes().map(u8::reverse_bits), plane, "record {count}");
            }
            for (number, share) in record[8..7440].chunks_exact(4).enumerate() {
                let is_legal = samples.legal[30 * row + number / 64] >> (number % 64) & 1 == 1;
                assert_eq!(f32::from_le_bytes(share.try_into().unwrap()) >= 0.0, is_legal, "record {count}");
            }
            let number = |at: usize| f32::from_le_bytes(record[at..at + 4].try_into().unwrap());
            assert_eq!(samples.policy[row], u16::from_le_bytes([record[8344], record[8345]]));
            // lc0 keeps the bare number; networks read it divided.
            assert_eq!(samples.levels[112 * row + 109], f32::from(record[8277]) / 99.0);
            let [win, _, loss] = samples.wdl[row];
            assert_eq!(win - loss, number(8308));
            assert!(samples.moves_left[row] >= 1.0);
            count += 1;
        }
        assert_eq!((count, bytes.len() / SIZE), (1796, 1796));
    }

    /// Real games: every sample has a move among the legal ones.
    #[test]
    fn real_games_become_samples() {
        let Some(path) = data("games/otb2400.pgn.zst") else { return };
        let mut recipe = recipe(&path, Preset::BtSmall, "validation_share = 0.02\nflip = true\n");
        recipe.training.validation_positions = 2000;
        let watched = load_samples(&recipe, shape(&recipe), Share::WHOLE, 1, &Arc::default()).unwrap();
        assert_eq!(watched.iter().map(Samples::len).sum::<usize>(), 2000);
        let mut loader = SampleLoader::new(&recipe, shape(&recipe), Share::WHOLE, 1, 0, None);
        for samples in watched.into_iter().chain((0..30).map(|_| loader.next_batch().unwrap().batch)) {
            for (row, &number) in samples.policy.iter().enumerate() {
                assert!(samples.legal[30 * row + usize::from(number) / 64] >> (number % 64) & 1 == 1);
                assert!((0.0..=1.0).contains(&samples.chance[row]) && samples.moves_left[row] >= 1.0);
            }
        }
    }

    #[test]
    fn what_cannot_be_learnt_from_is_told() {
        let folder = Folder::new("useless");
        let path = folder.0.join("x.csv");
        let rows = "4k3/8/8/8/8/8/8/4K3 w - - 0 1\n".repeat(30);
        std::fs::write(&path, format!("fen\n{rows}")).unwrap();
        let told = |recipe: &TransformerRecipe| {
            let mut loader = SampleLoader::new(recipe, shape(recipe), Share::WHOLE, 1, 0, None);
            let error = loader.next_batch().unwrap_err();
            (error.to_string(), loader.skipped().count())
        };
        let (message, _) = told(&recipe(&path, Preset::Byte, ""));
        assert!(message.contains("none of 30 records") && message.contains("a move is needed"), "{message}");
        let text = "fen,move,score\n4k3/8/8/8/8/8/8/4K3 w - - 0 1,e1e2,50\n4k3/8/8/8/8/8/8/4K3 w - - 0 1,e1e3,50\nnonsense,,\n";
        std::fs::write(&path, text).unwrap();
        let (message, _) = told(&recipe(&path, Preset::Byte, ""));
        assert!(message.contains("x.csv: record ") && !message.contains("none of"), "{message}");
        let recipe = recipe(&path, Preset::Byte, "broken = \"skip\"\n");
        let mut loader = SampleLoader::new(&recipe, shape(&recipe), Share::WHOLE, 1, 0, None);
        assert_eq!(loader.next_batch().unwrap().batch.len(), 60);
        assert_eq!(loader.skipped().count(), 2);
        assert_eq!(loader.skipped().examples().len(), 2);
        let mut watched = recipe.clone();
        (watched.data.validation, watched.data.validation_share) = (recipe.data.train.clone(), 0.0);
        load_samples(&watched, shape(&watched), Share::WHOLE, 1, loader.skipped()).unwrap();
        assert_eq!(loader.skipped().count(), 4, "those of the validation data count as well");
        let rows = "4k3/8/8/8/8/8/8/4K3 w - - 0 1,e1e2,0\n".repeat(300);
        std::fs::write(&path, format!("fen,move,score\n{rows}")).unwrap();
        // This one learns how games end: by scores where nothing else is known, or where they are asked for.
        let mut of_ends = self::recipe(&path, Preset::BtSmall, "");
        for recipe in [&recipe, &of_ends] {
            let (message, _) = told(recipe);
            assert!(message.starts_with("all scores are zero"), "{message}");
            assert!(message.contains("from them; label"), "{message}");
        }
        let rows = rows.replace(",0\n", ",0,1-0\n");
        std::fs::write(&path, format!("fen,move,score,result\n{rows}")).unwrap();
        let (message, _) = told(&recipe);
        assert!(message.contains("set `targets.result_share` to 1"), "{message}");
        let mut loader = SampleLoader::new(&of_ends, shape(&of_ends), Share::WHOLE, 1, 0, None);
        assert_eq!(loader.next_batch().unwrap().batch.len(), 60);
        of_ends.targets.value_result_share = 0.5;
        let (message, _) = told(&of_ends);
        assert!(message.contains("set `targets.value_result_share` to 1"), "{message}");
        of_ends.data.train[0].result_share = Some(Schedule::Constant { value: 0.5 });
        let (message, _) = told(&of_ends);
        assert!(message.contains("set `data.train.result_share` to 1"), "{message}");
        // Scores that are read in the middle of a run alone.
        let part = |share, value| crate::schedule::Part { share, schedule: Schedule::Constant { value } };
        let parts = vec![part(0.4, 1.0), part(0.2, 0.5), part(0.4, 1.0)];
        of_ends.data.train[0].result_share = Some(Schedule::Sequence { parts });
        let (message, _) = told(&of_ends);
        assert!(message.contains("set `data.train.result_share` to 1"), "{message}");
    }
}
