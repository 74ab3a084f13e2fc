//! Batches for NNUE training, made by background threads while the trainer works; [`pool`](crate::pool) does
//! the work.

use crate::batch::Batch;
use crate::loss::Target;
use crate::pool::{
    BatchBuilder, BlockSlice, DataCursor, LoadDataError, Loader, OpenSource, PoolPlan, SampledRecord, Streams,
};
use crate::recipe::{Recipe, SourceRecipe, TargetRecipe};
use crate::schedule::Schedule;
use crate::scores::check_scores;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tandem_data::{OnError, Record, RecordFilter};

/// Fields that a record must have to give a training target.
#[derive(Clone, Copy, Debug)]
struct NeededFields {
    score: bool,
    result: bool,
}

const NEEDED: &str = "a score is needed, and a result where `target.wdl` is above zero";

impl NeededFields {
    fn of(wdl: &Schedule) -> Self {
        Self { score: !wdl.is_always(1.0), result: !wdl.is_always(0.0) }
    }

    fn are_present(self, record: &Record) -> bool {
        (record.score.is_some() || !self.score)
            && (record.result.is_some() || !self.result)
            && record.position.has_kings()
    }

    /// Drops records without a usable target while they are decoded, after the recipe's own filter. All
    /// records are counted in `seen`.
    fn filter(self, rules: Option<RecordFilter>, seen: Arc<AtomicU64>) -> RecordFilter {
        Arc::new(move |records, cursor| {
            seen.fetch_add(records.len() as u64, Ordering::Relaxed);
            if let Some(rules) = &rules {
                rules(records, cursor);
            }
            records.retain(|record| self.are_present(record));
        })
    }
}

fn open_source(source: &SourceRecipe, target: &TargetRecipe) -> Result<OpenSource, LoadDataError> {
    let (files, filter) = source.open()?;
    let seen = Arc::new(AtomicU64::new(0));
    let record_filter =
        NeededFields::of(source.wdl_or(&target.wdl)).filter(filter.record_filter(), Arc::clone(&seen));
    Ok(OpenSource {
        path: source.path.clone(),
        weight: source.weight,
        files,
        on_error: OnError::Stop,
        filter: Some(record_filter),
        select: None,
        seen,
        needed: source.needed(NEEDED),
        skipped: Arc::default(),
    })
}

/// Sources with a weight above zero, the only ones that are read.
fn read_sources(sources: &[SourceRecipe]) -> impl Iterator<Item = &SourceRecipe> {
    sources.iter().filter(|source| source.weight > 0.0)
}

fn open_sources(sources: &[SourceRecipe], target: &TargetRecipe) -> Result<Vec<OpenSource>, LoadDataError> {
    read_sources(sources).map(|source| open_source(source, target)).collect()
}

/// Builds batches of positions with their targets.
struct NnueBatchBuilder {
    recipe: Recipe,
    /// Sources of the records, which have their own weights of the game result.
    sources: Vec<SourceRecipe>,
}

impl NnueBatchBuilder {
    /// Weight of the game result in the targets of each source that is read, at a step.
    fn wdl_weights(&self, step: u64) -> Vec<f64> {
        let wdl =
            |source: &SourceRecipe| source.wdl_or(&self.recipe.target.wdl).at(step, self.recipe.steps());
        read_sources(&self.sources).map(wdl).collect()
    }
}

impl BatchBuilder for NnueBatchBuilder {
    type Batch = Batch;

    fn check(&self, pieces: &[BlockSlice]) -> Result<(), LoadDataError> {
        if self.recipe.data.any_scores {
            return Ok(());
        }
        // Scores that only a later part of the schedule reads are checked as well.
        let reads_scores =
            |source: &SourceRecipe| NeededFields::of(source.wdl_or(&self.recipe.target.wdl)).score;
        let reads: Vec<bool> = read_sources(&self.sources).map(reads_scores).collect();
        // A source with its own weight of the result is reported under its own key.
        let mixed = |own: bool| {
            let mut sources = read_sources(&self.sources).zip(&reads);
            sources.any(|(source, reads)| source.wdl.is_some() == own && *reads)
        };
        let keys = [(false, "target.wdl"), (true, "data.train.wdl")];
        let keys: Vec<&str> = keys.into_iter().filter(|(own, _)| mixed(*own)).map(|(_, key)| key).collect();
        check_scores(pieces, |_, source| reads[source], &keys)
    }

    fn build<'a>(
        &self,
        step: u64,
        _first_row: usize,
        records: impl Iterator<Item = SampledRecord<'a>>,
        batch: &mut Batch,
    ) -> Result<(), LoadDataError> {
        let wdl_weights = self.wdl_weights(step);
        batch.clear();
        for sampled in records {
            let record = sampled.record();
            batch.push(
                record.position,
                Target::new(record, self.recipe.target.scale, wdl_weights[sampled.source]),
            );
        }
        Ok(())
    }
}

impl Loader<Batch> {
    /// Loads positions from the batch of step `first_step` on: reads from the place `cursor` that a checkpoint of
    /// the same run has saved, or from the start of the data if there is none.
    pub fn of_positions(
        recipe: &Recipe,
        threads: usize,
        first_step: u64,
        cursor: Option<DataCursor>,
    ) -> Self {
        let plan = PoolPlan {
            batch: recipe.training.batch,
            rows: 0..recipe.training.batch,
            shuffle_buffer: recipe.data.shuffle_buffer,
            seed: recipe.seed,
            threads,
            ahead: 4 * threads.max(1),
            first_step,
        };
        let maker = NnueBatchBuilder { recipe: recipe.clone(), sources: recipe.data.train.clone() };
        let (sources, target) = (recipe.data.train.clone(), recipe.target.clone());
        let open = move || open_sources(&sources, &target);
        Self::from_sources(plan, open, maker, cursor.unwrap_or_default(), Arc::default())
    }
}

/// The first records of some sources as validation batches in their order, with the targets of the last step.
///
/// # Errors
///
/// If the data cannot be read, or contains nothing to validate with.
pub(crate) fn load_validation(
    sources: &[SourceRecipe],
    recipe: &Recipe,
    threads: usize,
    positions: u64,
) -> Result<Vec<(Batch, Vec<Record>)>, LoadDataError> {
    let streams = Streams::new(open_sources(sources, &recipe.target)?, threads, &DataCursor::default());
    let first = streams.first(positions)?;
    let maker = NnueBatchBuilder { recipe: recipe.clone(), sources: sources.to_vec() };
    let last_step = recipe.steps().saturating_sub(1);
    let batches = first.batches(recipe.training.batch).map(|places| {
        let mut batch = Batch::default();
        maker.build(last_step, 0, first.records(places), &mut batch)?;
        Ok((batch, first.records(places).map(|sampled| *sampled.record()).collect()))
    });
    batches.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::LoadedBatch;
    use tandem_chess::Position;
    use tandem_util::random::SplitMix;

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
        let mut recipe = recipe(&path, "[target]\nwdl = { kind = \"linear\", start = 0.0, end = 1.0 }\n");
        // Two sources, of which one has twice the weight of the other and learns from scores alone.
        let wdl = Some(Schedule::Constant { value: 0.0 });
        let second = SourceRecipe { weight: 2.0, wdl, ..recipe.data.train[0].clone() };
        recipe.data.train.push(second);
        let batches =
            |threads: usize, first: u64, cursor: Option<DataCursor>, count: usize| -> Vec<LoadedBatch> {
                let mut loader = Loader::of_positions(&recipe, threads, first, cursor);
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
        assert_ne!(all[0], all[30], "another pass, another order");
        // At the last step the first source learns from results alone, which are all wins, the other from
        // scores alone.
        let both = load_validation(&recipe.data.train, &recipe, 1, 200).unwrap();
        let probabilities =
            both.iter().flat_map(|(batch, _)| &batch.targets).map(|target| target.win_probability);
        let is_result = |probability: &f32| *probability == 0.0 || *probability == 1.0;
        let (first, second): (Vec<f32>, Vec<f32>) =
            (probabilities.clone().take(100).collect(), probabilities.skip(100).collect());
        assert!(first.iter().all(is_result) && !second.iter().any(is_result) && second.len() == 100);
        let some = load_validation(&recipe.data.train[..1], &recipe, 1, 250).unwrap();
        assert_eq!(some.iter().map(|(batch, _)| batch.len()).collect::<Vec<_>>(), [100, 100, 50]);
        let some = load_validation(&recipe.data.train[..1], &recipe, 1, 10_000).unwrap();
        assert_eq!(some.iter().map(|(batch, _)| batch.len()).sum::<usize>(), 950, "each record once");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn every_pool_has_the_weighted_part_of_every_source() {
        let path = std::env::temp_dir().join(format!("tandem-wdl-weights-{}.csv", std::process::id()));
        write(&path, "fen,score,result", |score| format!(",{},1-0", score + 10));
        let mut recipe = recipe(&path, "[target]\nwdl = 1.0\n");
        let wdl = Some(Schedule::Constant { value: 0.0 });
        let second = SourceRecipe { weight: 2.0, wdl, ..recipe.data.train[0].clone() };
        recipe.data.train.push(second);
        let mut loader = Loader::of_positions(&recipe, 1, 0, None);
        // A pool holds three batches, and a block has more records than that.
        for pool in 0..4 {
            let batches: Vec<LoadedBatch> = (0..3).map(|_| loader.next_batch().unwrap()).collect();
            let probabilities =
                batches.iter().flat_map(|loaded| &loaded.batch.targets).map(|target| target.win_probability);
            let first =
                probabilities.filter(|probability| *probability == 0.0 || *probability == 1.0).count();
            assert!((90..=110).contains(&first), "{first} of 300 in pool {pool}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn data_without_the_needed_fields_is_reported() {
        let path = std::env::temp_dir().join(format!("tandem-useless-{}.csv", std::process::id()));
        let error_of =
            |recipe: &Recipe| Loader::of_positions(recipe, 1, 0, None).next_batch().unwrap_err().to_string();
        write(&path, "fen", |_| String::new());
        let error = error_of(&recipe(&path, ""));
        assert!(error.contains("none of 950 records can be learnt from"), "{error}");
        write(&path, "fen,score", |_| ",0".into());
        let error = error_of(&recipe(&path, ""));
        assert!(error.starts_with("all scores are zero") && error.contains("from them; label"), "{error}");
        write(&path, "fen,score,result", |_| ",0,1-0".into());
        let error = error_of(&recipe(&path, ""));
        assert!(error.contains("set `target.wdl` to 1 to learn from results, or label"), "{error}");
        // Scores that only a later part of the schedule reads are checked as well.
        let later = "[target]\nwdl = { kind = \"linear\", start = 1.0, end = 0.0 }\n";
        assert!(error_of(&recipe(&path, later)).starts_with("all scores are zero"));
        write(&path, "fen,score", |score| format!(",{}", score / 100));
        let error = error_of(&recipe(&path, ""));
        assert!(error.contains("are they pawns?"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(error_of(&recipe(&path, "")).contains("No such file"));
    }
}
