//! Batches from data sets, made by threads of their own while the trainer works.
//!
//! Records are read into a pool, as many from each source as its weight says; a source that ends begins again. A full pool
//! is put in random order and cut into batches, while the next one fills. The same recipe gives the same batches, however
//! many threads there are, and a [`DataCursor`] says where a pool begins, so that a run can go on from any step without
//! reading everything before it.

use crate::batch::Batch;
use crate::loss::Target;
use crate::recipe::{Recipe, RecipeError, SourceRecipe, TargetRecipe};
use crate::schedule::Schedule;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tandem_chess::random::SplitMix;
use tandem_data::{Cursor, DataError, Filter, OnError, Options, Reader, Record, Score, Sieve, Source};
use thiserror::Error;

/// Data that cannot be trained with.
#[derive(Debug, Error)]
pub enum LoadDataError {
    /// It cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// What a recipe says of it is wrong.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// There is nothing to learn from.
    #[error(
        "{path}: none of {records} records can be learnt from: a score is needed, and a result where `target.result_share` \
         is above zero; `tandem-lab data head` shows what they have"
    )]
    Useless {
        /// The source.
        path: String,
        /// What it has.
        records: u64,
    },
    /// The scores mean nothing.
    #[error("{problem}; `data.any_scores = true` trains all the same")]
    Scores {
        /// What is wrong with them and what to change.
        problem: String,
    },
    /// The threads that load have ended.
    #[error("the loader has stopped")]
    Stopped,
}

/// Where a source stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceCursor {
    /// How often it has been read to its end.
    readings: u64,
    /// The block that comes next, or whose records come next.
    file: usize,
    byte: u64,
    record: u64,
    /// Useful records of that block that are gone.
    gone: usize,
    /// Records that were used so far.
    taken: u64,
}

/// Where a pool begins: everything that is needed to make it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataCursor {
    /// The step that its first batch is for.
    first_step: u64,
    sources: Vec<SourceCursor>,
}

/// Part of a block of records, which nobody copies.
#[derive(Clone, Debug, Default)]
struct Piece {
    block: Arc<Vec<Record>>,
    place: std::ops::Range<usize>,
    /// Which of the sources that are read it is from.
    source: usize,
}

impl Piece {
    fn records(&self) -> &[Record] {
        &self.block[self.place.clone()]
    }
}

/// A source that is read again and again.
struct Stream {
    recipe: SourceRecipe,
    files: Vec<Source>,
    sieve: Sieve,
    threads: usize,
    reader: Reader,
    block: Arc<Vec<Record>>,
    cursor: SourceCursor,
    /// Records that were read, useful or not.
    seen: Arc<AtomicU64>,
    /// Readings to the end since anything was taken.
    barren: u32,
}

/// What a record must have.
#[derive(Clone, Copy, Debug)]
struct Needs {
    score: bool,
    result: bool,
}

impl Needs {
    fn of(result_share: &Schedule) -> Self {
        Self { score: !result_share.is_always(1.0), result: !result_share.is_always(0.0) }
    }

    fn are_met_by(self, record: &Record) -> bool {
        (record.score.is_some() || !self.score)
            && (record.result.is_some() || !self.result)
            && record.position.has_kings()
    }

    /// Leaves out what cannot be learnt from, after a recipe's own rules, where records are decoded. All are counted.
    fn sieve(self, rules: Option<Sieve>, seen: Arc<AtomicU64>) -> Sieve {
        Arc::new(move |records, cursor| {
            seen.fetch_add(records.len() as u64, Ordering::Relaxed);
            if let Some(rules) = &rules {
                rules(records, cursor);
            }
            records.retain(|record| self.are_met_by(record));
        })
    }
}

impl Stream {
    fn new(
        recipe: &SourceRecipe,
        threads: usize,
        needs: Needs,
        cursor: SourceCursor,
    ) -> Result<Self, LoadDataError> {
        let wrong = |key, problem: String| RecipeError::Wrong { key, problem };
        let columns = recipe.columns.as_deref().map(str::parse).transpose();
        let columns = columns.map_err(|problem| wrong("data.columns", problem))?;
        let options = Options { columns: columns.unwrap_or_default(), bag: None };
        let files = Source::parse(&recipe.path, &options)?;
        let filter: Filter = recipe.filter.parse().map_err(|bad| wrong("data.filter", format!("{bad}")))?;
        let seen = Arc::new(AtomicU64::new(0));
        let sieve = needs.sieve(filter.sieve(), Arc::clone(&seen));
        let start = Cursor { source: cursor.file, byte: cursor.byte, record: cursor.record };
        let reader = Reader::new(files.clone(), threads, OnError::Stop, Some(Arc::clone(&sieve)), start);
        Ok(Self {
            recipe: recipe.clone(),
            files,
            sieve,
            threads,
            reader,
            block: Arc::default(),
            cursor,
            seen,
            barren: 0,
        })
    }

    /// Takes records of one block, at most so many.
    fn take(&mut self, most: usize) -> Result<Piece, LoadDataError> {
        if self.cursor.gone >= self.block.len() {
            let Some(block) = self.reader.next_block() else {
                self.begin_again()?;
                return Ok(Piece::default());
            };
            let block = block?;
            let start = block.cursor;
            // Only the block that a run goes on in has records that are gone.
            if !self.block.is_empty() || (self.cursor.file, self.cursor.byte) != (start.source, start.byte) {
                self.cursor.gone = 0;
            }
            (self.cursor.file, self.cursor.byte) = (start.source, start.byte);
            self.cursor.record = start.record;
            self.block = Arc::new(block.records);
        }
        let first = self.cursor.gone.min(self.block.len());
        let place = first..self.block.len().min(first + most);
        self.cursor.gone = place.end;
        self.cursor.taken += place.len() as u64;
        if !place.is_empty() {
            self.barren = 0;
        }
        Ok(Piece { block: Arc::clone(&self.block), place, source: 0 })
    }

    fn begin_again(&mut self) -> Result<(), LoadDataError> {
        self.barren += 1;
        // A run may go on at the very end of the data: the first end is none to worry about then.
        if self.cursor.taken == 0 || self.barren > 1 {
            let records = self.seen.load(Ordering::Relaxed);
            return Err(LoadDataError::Useless { path: self.recipe.path.clone(), records });
        }
        let (readings, taken) = (self.cursor.readings + 1, self.cursor.taken);
        self.cursor = SourceCursor { readings, taken, ..SourceCursor::default() };
        self.block = Arc::default();
        let (files, sieve) = (self.files.clone(), Arc::clone(&self.sieve));
        self.reader = Reader::new(files, self.threads, OnError::Stop, Some(sieve), Cursor::default());
        Ok(())
    }
}

/// The sources that are read at all.
fn read_sources(sources: &[SourceRecipe]) -> impl Iterator<Item = &SourceRecipe> {
    sources.iter().filter(|source| source.weight > 0.0)
}

/// The share of the result in the targets of each source that is read, at a step.
fn shares(sources: &[SourceRecipe], recipe: &Recipe, step: u64) -> Vec<f64> {
    read_sources(sources).map(|source| source.share(&recipe.target).at(step, recipe.steps())).collect()
}

/// All sources.
struct Streams {
    streams: Vec<Stream>,
}

impl Streams {
    fn new(
        sources: &[SourceRecipe],
        target: &TargetRecipe,
        threads: usize,
        start: &DataCursor,
    ) -> Result<Self, LoadDataError> {
        let streams = read_sources(sources).enumerate().map(|(number, source)| {
            let cursor = start.sources.get(number).copied().unwrap_or_default();
            Stream::new(source, threads, Needs::of(source.share(target)), cursor)
        });
        Ok(Self { streams: streams.collect::<Result<_, _>>()? })
    }

    fn cursors(&self) -> Vec<SourceCursor> {
        self.streams.iter().map(|stream| stream.cursor).collect()
    }

    /// Fills a pool: always from the source that is furthest behind its share.
    fn fill(&mut self, count: usize) -> Result<Vec<Piece>, LoadDataError> {
        let (mut pieces, mut len) = (Vec::new(), 0);
        while len < count {
            let behind = |stream: &Stream| stream.cursor.taken as f64 / stream.recipe.weight;
            let streams = self.streams.iter_mut().enumerate();
            let next = streams.min_by(|(_, left), (_, right)| behind(left).total_cmp(&behind(right)));
            let Some((source, stream)) = next else { return Err(LoadDataError::Stopped) };
            let piece = stream.take(count - len)?;
            if !piece.place.is_empty() {
                len += piece.place.len();
                pieces.push(Piece { source, ..piece });
            }
        }
        Ok(pieces)
    }
}

/// Where a record of a pool is.
#[derive(Clone, Copy, Debug)]
struct Place {
    piece: u32,
    /// Within the piece's block.
    at: u32,
}

/// Records of a pool in random order, and where it begins.
struct Pool {
    pieces: Vec<Piece>,
    order: Vec<Place>,
    cursor: Arc<DataCursor>,
}

/// A batch, and what is needed to make it again.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The batch.
    pub batch: Batch,
    /// Where its pool begins.
    pub cursor: Arc<DataCursor>,
}

/// Batches without end. The same recipe gives the same batches.
pub struct Loader {
    batches: Receiver<Result<Loaded, LoadDataError>>,
    used: SyncSender<Batch>,
    waited: Duration,
}

impl Loader {
    /// Begins with the batch of a step, in the pool that a cursor of that run led to, or from the start of the data.
    pub fn new(recipe: &Recipe, threads: usize, first_step: u64, cursor: Option<DataCursor>) -> Self {
        let (pools, waiting) = sync_channel(1);
        let (sender, batches) = sync_channel(4 * threads.max(1));
        let start = cursor.unwrap_or_default();
        let (used, empty) = sync_channel(8 * threads.max(1) + 64);
        let failed = sender.clone();
        let filler = recipe.clone();
        std::thread::spawn(move || {
            if let Err(error) = fill_pools(&filler, threads, start, &pools) {
                let _ = failed.send(Err(error));
            }
        });
        let recipe = recipe.clone();
        std::thread::spawn(move || cut_pools(&recipe, threads, first_step, &waiting, &empty, &sender));
        Self { batches, used, waited: Duration::ZERO }
    }

    /// Takes back a batch that nobody needs any more: the next is made in its place.
    pub fn recycle(&mut self, batch: Batch) {
        // Where there is no room for it, it goes the usual way.
        let _ = self.used.try_send(batch);
    }

    /// The next batch.
    pub fn next_batch(&mut self) -> Result<Loaded, LoadDataError> {
        let since = Instant::now();
        let next = self.batches.recv().unwrap_or(Err(LoadDataError::Stopped));
        self.waited += since.elapsed();
        next
    }

    /// The time that was spent in waiting for batches.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

fn fill_pools(
    recipe: &Recipe,
    threads: usize,
    start: DataCursor,
    pools: &SyncSender<Pool>,
) -> Result<(), LoadDataError> {
    let (data, batch) = (&recipe.data, recipe.training.batch);
    let mut streams = Streams::new(&data.train, &recipe.target, threads, &start)?;
    let batches = (data.shuffle_buffer / batch).max(1);
    let mut first_step = start.first_step;
    loop {
        let cursor = Arc::new(DataCursor { first_step, sources: streams.cursors() });
        let pieces = streams.fill(batches * batch)?;
        if first_step == start.first_step && !data.any_scores {
            check_scores(&pieces, &shares(&data.train, recipe, first_step))?;
        }
        let order = random_order(&pieces, recipe.seed ^ first_step.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        first_step += batches as u64;
        if pools.send(Pool { pieces, order, cursor }).is_err() {
            return Ok(());
        }
    }
}

/// Cuts each pool, several batches at a time, until nobody takes them.
fn cut_pools(
    recipe: &Recipe,
    threads: usize,
    first_step: u64,
    pools: &Receiver<Pool>,
    empty: &Receiver<Batch>,
    sender: &SyncSender<Result<Loaded, LoadDataError>>,
) {
    let size = recipe.training.batch;
    while let Ok(Pool { pieces, order, cursor }) = pools.recv() {
        let numbered: Vec<(u64, &[Place])> = (cursor.first_step..).zip(order.chunks_exact(size)).collect();
        let wanted: Vec<_> = numbered.into_iter().filter(|&(step, _)| step >= first_step).collect();
        for together in wanted.chunks(threads.max(1)) {
            let places: Vec<Batch> = together.iter().map(|_| empty.try_recv().unwrap_or_default()).collect();
            let make = |((step, order), mut batch): (&(u64, &[Place]), Batch)| {
                let shares = shares(&recipe.data.train, recipe, *step);
                batch.clear();
                for place in *order {
                    let piece = &pieces[place.piece as usize];
                    let record = &piece.block[place.at as usize];
                    batch.push(
                        record.position,
                        Target::new(record, recipe.target.scale, shares[piece.source]),
                    );
                }
                batch
            };
            let batches: Vec<Batch> = together.par_iter().zip(places).map(make).collect();
            for batch in batches {
                if sender.send(Ok(Loaded { batch, cursor: Arc::clone(&cursor) })).is_err() {
                    return;
                }
            }
        }
    }
}

fn random_order(pieces: &[Piece], seed: u64) -> Vec<Place> {
    let mut random = SplitMix::new(seed);
    let places = |(piece, number): (&Piece, u32)| {
        piece.place.clone().map(move |at| Place { piece: number, at: at as u32 })
    };
    let mut order: Vec<Place> = pieces.iter().zip(0..).flat_map(places).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u32 + 1) as usize);
    }
    order
}

/// Of a hundred scores by their size, ten are greater than this one.
const HIGH: f64 = 0.9;
/// In centipawns, that one is at least and at most so large in data of real games.
const PLAUSIBLE: std::ops::RangeInclusive<i32> = 10..=20_000;

/// Refuses scores that are all zero or in another unit, where anything is learnt from them.
fn check_scores(pieces: &[Piece], shares: &[f64]) -> Result<(), LoadDataError> {
    let plain = |record: &Record| match record.score {
        Some(Score::Centipawns(value)) => Some(i32::from(value).abs()),
        _ => None,
    };
    let mut sizes: Vec<i32> = pieces
        .iter()
        .filter(|piece| shares[piece.source] < 1.0)
        .flat_map(Piece::records)
        .filter_map(plain)
        .collect();
    if sizes.len() < 100 {
        return Ok(());
    }
    sizes.sort_unstable();
    let high = sizes[(sizes.len() as f64 * HIGH) as usize];
    let median = sizes[sizes.len() / 2];
    let told =
        format!("the median size of a score is {median} and nine in ten are at most {high} centipawns");
    let problem = if sizes.last() == Some(&0) {
        "all scores are zero: there is nothing to learn from them; set `target.result_share` to 1 to learn from results, or \
         label the positions with `tandem-lab data label`"
            .to_owned()
    } else if high < *PLAUSIBLE.start() {
        format!(
            "{told}: are they pawns? Say `columns = \"unit=pawns\"` beside the path of a CSV file, or convert the data"
        )
    } else if high > *PLAUSIBLE.end() {
        format!("{told}: are they in another unit? Convert the data so that a pawn is 100")
    } else {
        return Ok(());
    };
    Err(LoadDataError::Scores { problem })
}

/// The first positions of some sources as batches, in their order, for validation: with the targets of the last step.
pub fn load_some(
    sources: &[SourceRecipe],
    recipe: &Recipe,
    threads: usize,
    positions: u64,
) -> Result<Vec<(Batch, Vec<Record>)>, LoadDataError> {
    let shares = shares(sources, recipe, recipe.steps().saturating_sub(1));
    let mut streams = Streams::new(sources, &recipe.target, threads, &DataCursor::default())?;
    let mut records = Vec::new();
    let mut ends = Vec::new();
    // Every source once, or as many of each as their number allows.
    let each = positions.div_ceil(streams.streams.len().max(1) as u64) as usize;
    for stream in &mut streams.streams {
        let room = records.len() + each;
        while stream.cursor.readings == 0 && records.len() < room {
            records.extend_from_slice(stream.take(room - records.len())?.records());
        }
        ends.push(records.len());
    }
    let share_of = |at: usize| shares[ends.partition_point(|&end| end <= at)];
    let size = recipe.training.batch;
    let batches = records.chunks(size).enumerate().map(|(number, records)| {
        let mut batch = Batch::default();
        for (record, at) in records.iter().zip(number * size..) {
            batch.push(record.position, Target::new(record, recipe.target.scale, share_of(at)));
        }
        (batch, records.to_vec())
    });
    Ok(batches.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Position;

    fn recipe(path: &std::path::Path, more: &str) -> Recipe {
        let text = format!(
            "name = \"x\"\n[data]\nshuffle_buffer = 300\ntrain = [{{ path = {:?} }}]\n[network]\nfeatures = \"768\"\n\
             accumulator = 32\n[training]\nbatch = 100\npositions = 4000\n{more}",
            path.to_str().unwrap()
        );
        Recipe::parse(&text).unwrap()
    }

    fn write(path: &std::path::Path, header: &str, tail: impl Fn(u32) -> String) {
        let mut random = SplitMix::new(9);
        let mut text = format!("{header}\n");
        for _ in 0..950 {
            let mut position = Position::startpos();
            for _ in 0..random.below(40) {
                let moves = position.legal_moves();
                if moves.is_empty() {
                    break;
                }
                position.play(moves[random.below(moves.len() as u32) as usize]);
            }
            text += &format!("{}{}\n", position.fen(), tail(random.below(300)));
        }
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn batches_are_the_same_and_go_on_from_any_step() {
        let path = std::env::temp_dir().join(format!("tandem-loader-{}.csv", std::process::id()));
        write(&path, "fen,score,result", |score| format!(",{score},1-0"));
        let mut recipe =
            recipe(&path, "[target]\nresult_share = { kind = \"linear\", start = 0.0, end = 1.0 }\n");
        // Two sources, of which one is read twice as often, and learns from scores alone.
        let result_share = Some(Schedule::Constant { value: 0.0 });
        let second = SourceRecipe { weight: 2.0, result_share, ..recipe.data.train[0].clone() };
        recipe.data.train.push(second);
        let batches = |threads: usize, first: u64, cursor: Option<DataCursor>, count: usize| -> Vec<Loaded> {
            let mut loader = Loader::new(&recipe, threads, first, cursor);
            (0..count).map(|_| loader.next_batch().unwrap()).collect()
        };
        let all = batches(1, 0, None, 40);
        assert!(all.iter().all(|loaded| loaded.batch.len() == 100));
        assert_eq!(batches(3, 17, None, 23), all[17..]);
        for step in [17, 30] {
            let text = serde_json::to_string(&*all[step].cursor).unwrap();
            let cursor = serde_json::from_str(&text).unwrap();
            assert_eq!(batches(2, step as u64, Some(cursor), 40 - step), all[step..], "step {step}");
        }
        assert_ne!(all[0], all[30], "another reading, another order");
        // At the last step one learns from results alone, which are all won, the other from scores alone.
        let both = load_some(&recipe.data.train, &recipe, 1, 200).unwrap();
        let chances = both.iter().flat_map(|(batch, _)| &batch.targets).map(|target| target.chance);
        let sure = |chance: &f32| *chance == 0.0 || *chance == 1.0;
        let (first, second): (Vec<f32>, Vec<f32>) =
            (chances.clone().take(100).collect(), chances.skip(100).collect());
        assert!(first.iter().all(sure) && !second.iter().any(sure) && second.len() == 100);
        let some = load_some(&recipe.data.train[..1], &recipe, 1, 250).unwrap();
        assert_eq!(some.iter().map(|(batch, _)| batch.len()).collect::<Vec<_>>(), [100, 100, 50]);
        let some = load_some(&recipe.data.train[..1], &recipe, 1, 10_000).unwrap();
        assert_eq!(some.iter().map(|(batch, _)| batch.len()).sum::<usize>(), 950, "each record once");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn data_without_what_is_needed_is_told() {
        let path = std::env::temp_dir().join(format!("tandem-useless-{}.csv", std::process::id()));
        let told = |recipe: &Recipe| Loader::new(recipe, 1, 0, None).next_batch().unwrap_err().to_string();
        write(&path, "fen", |_| String::new());
        let error = told(&recipe(&path, ""));
        assert!(error.contains("none of 950 records can be learnt from"), "{error}");
        write(&path, "fen,score", |_| ",0".into());
        let error = told(&recipe(&path, ""));
        assert!(error.starts_with("all scores are zero"), "{error}");
        write(&path, "fen,score", |score| format!(",{}", score / 100));
        let error = told(&recipe(&path, ""));
        assert!(error.contains("are they pawns?"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(told(&recipe(&path, "")).contains("No such file"));
    }
}
