//! Batches for an NNUE, made by threads of their own while the trainer works: see [`pool`](crate::pool) for how.

use crate::batch::Batch;
use crate::loss::Target;
use crate::pool::{Batches, DataCursor, Feed, LoadDataError, Loaded, Maker, Piece, Plan, Streams, Taken};
use crate::recipe::{Recipe, SourceRecipe, TargetRecipe};
use crate::schedule::Schedule;
use crate::scores::check_scores;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tandem_data::{OnError, Record, Sieve};

/// What a record must have.
#[derive(Clone, Copy, Debug)]
struct Needs {
    score: bool,
    result: bool,
}

const NEEDED: &str = "a score is needed, and a result where `target.result_share` is above zero";

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

fn feed(source: &SourceRecipe, target: &TargetRecipe) -> Result<Feed, LoadDataError> {
    let (files, filter) = source.open()?;
    let seen = Arc::new(AtomicU64::new(0));
    let sieve = Needs::of(source.share(&target.result_share)).sieve(filter.sieve(), Arc::clone(&seen));
    Ok(Feed {
        path: source.path.clone(),
        weight: source.weight,
        files,
        on_error: OnError::Stop,
        sieve: Some(sieve),
        choose: None,
        seen,
        needed: source.needed(NEEDED),
        skipped: Arc::default(),
    })
}

/// The sources that are read at all.
fn read_sources(sources: &[SourceRecipe]) -> impl Iterator<Item = &SourceRecipe> {
    sources.iter().filter(|source| source.weight > 0.0)
}

fn feeds(sources: &[SourceRecipe], target: &TargetRecipe) -> Result<Vec<Feed>, LoadDataError> {
    read_sources(sources).map(|source| feed(source, target)).collect()
}

/// Puts positions together with their targets.
struct BatchMaker {
    recipe: Recipe,
    /// Where they come from.
    sources: Vec<SourceRecipe>,
}

impl BatchMaker {
    /// The share of the result in the targets of each source that is read, at a step.
    fn shares(&self, step: u64) -> Vec<f64> {
        let share = |source: &SourceRecipe| {
            source.share(&self.recipe.target.result_share).at(step, self.recipe.steps())
        };
        read_sources(&self.sources).map(share).collect()
    }
}

impl Maker for BatchMaker {
    type Batch = Batch;

    fn look(&self, pieces: &[Piece]) -> Result<(), LoadDataError> {
        if self.recipe.data.any_scores {
            return Ok(());
        }
        // Scores that are read later are looked at now.
        let reads_scores =
            |source: &SourceRecipe| Needs::of(source.share(&self.recipe.target.result_share)).score;
        let reads: Vec<bool> = read_sources(&self.sources).map(reads_scores).collect();
        // Where a source has a share of its own, that is what would have to change.
        let mixed = |own: bool| {
            let mut sources = read_sources(&self.sources).zip(&reads);
            sources.any(|(source, reads)| source.result_share.is_some() == own && *reads)
        };
        let keys = [(false, "target.result_share"), (true, "data.train.result_share")];
        let keys: Vec<&str> = keys.into_iter().filter(|(own, _)| mixed(*own)).map(|(_, key)| key).collect();
        check_scores(pieces, |_, source| reads[source], &keys)
    }

    fn make<'a>(
        &self,
        step: u64,
        _first_row: usize,
        records: impl Iterator<Item = Taken<'a>>,
        batch: &mut Batch,
    ) -> Result<(), LoadDataError> {
        let shares = self.shares(step);
        batch.clear();
        for taken in records {
            let record = taken.record();
            batch.push(record.position, Target::new(record, self.recipe.target.scale, shares[taken.source]));
        }
        Ok(())
    }
}

/// Batches without end. The same recipe gives the same batches.
pub struct Loader {
    batches: Batches<Batch>,
}

impl Loader {
    /// Begins with the batch of a step, in the pool that a cursor of that run led to, or from the start of the data.
    pub fn new(recipe: &Recipe, threads: usize, first_step: u64, cursor: Option<DataCursor>) -> Self {
        let plan = Plan {
            batch: recipe.training.batch,
            rows: 0..recipe.training.batch,
            shuffle_buffer: recipe.data.shuffle_buffer,
            seed: recipe.seed,
            threads,
            ahead: 4 * threads.max(1),
            first_step,
        };
        let maker = BatchMaker { recipe: recipe.clone(), sources: recipe.data.train.clone() };
        let (sources, target) = (recipe.data.train.clone(), recipe.target.clone());
        let feeds = move || feeds(&sources, &target);
        Self { batches: Batches::new(plan, feeds, maker, cursor.unwrap_or_default()) }
    }

    /// Takes back a batch that nobody needs any more: the next is made in its place.
    pub fn recycle(&mut self, batch: Batch) {
        self.batches.recycle(batch);
    }

    /// The next batch.
    pub fn next_batch(&mut self) -> Result<Loaded, LoadDataError> {
        self.batches.next_batch()
    }

    /// The time that was spent in waiting for batches.
    pub fn waited(&self) -> Duration {
        self.batches.waited()
    }
}

/// The first positions of some sources as batches, in their order, for validation: with the targets of the last step.
pub fn load_some(
    sources: &[SourceRecipe],
    recipe: &Recipe,
    threads: usize,
    positions: u64,
) -> Result<Vec<(Batch, Vec<Record>)>, LoadDataError> {
    let streams = Streams::new(feeds(sources, &recipe.target)?, threads, &DataCursor::default());
    let first = streams.first(positions)?;
    let maker = BatchMaker { recipe: recipe.clone(), sources: sources.to_vec() };
    let last_step = recipe.steps().saturating_sub(1);
    let batches = first.batches(recipe.training.batch).map(|places| {
        let mut batch = Batch::default();
        maker.make(last_step, 0, first.records(places), &mut batch)?;
        Ok((batch, first.records(places).map(|taken| *taken.record()).collect()))
    });
    batches.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Position;
    use tandem_chess::random::SplitMix;

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
    fn every_pool_has_its_share_of_every_source() {
        let path = std::env::temp_dir().join(format!("tandem-shares-{}.csv", std::process::id()));
        write(&path, "fen,score,result", |score| format!(",{},1-0", score + 10));
        let mut recipe = recipe(&path, "[target]\nresult_share = 1.0\n");
        let result_share = Some(Schedule::Constant { value: 0.0 });
        let second = SourceRecipe { weight: 2.0, result_share, ..recipe.data.train[0].clone() };
        recipe.data.train.push(second);
        let mut loader = Loader::new(&recipe, 1, 0, None);
        // Three batches are a pool, and a block has more records than that.
        for pool in 0..4 {
            let batches: Vec<Loaded> = (0..3).map(|_| loader.next_batch().unwrap()).collect();
            let chances = batches.iter().flat_map(|loaded| &loaded.batch.targets).map(|target| target.chance);
            let first = chances.filter(|chance| *chance == 0.0 || *chance == 1.0).count();
            assert!((90..=110).contains(&first), "{first} of 300 in pool {pool}");
        }
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
        assert!(error.starts_with("all scores are zero") && error.contains("from them; label"), "{error}");
        write(&path, "fen,score,result", |_| ",0,1-0".into());
        let error = told(&recipe(&path, ""));
        assert!(error.contains("set `target.result_share` to 1 to learn from results, or label"), "{error}");
        // Scores that are read later are looked at now.
        let later = "[target]\nresult_share = { kind = \"linear\", start = 1.0, end = 0.0 }\n";
        assert!(told(&recipe(&path, later)).starts_with("all scores are zero"));
        write(&path, "fen,score", |score| format!(",{}", score / 100));
        let error = told(&recipe(&path, ""));
        assert!(error.contains("are they pawns?"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(told(&recipe(&path, "")).contains("No such file"));
    }
}
