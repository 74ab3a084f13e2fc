//! Batches from data sets, made on a thread of their own while the trainer works.

use crate::batch::Batch;
use crate::loss::Target;
use crate::recipe::{Recipe, SourceRecipe};
use std::sync::mpsc::{Receiver, sync_channel};
use tandem_data::{Cursor, DataError, Filter, Mix, OnError, Options, Reader, Record, ShuffleBuffer, Source};
use tandem_nnue::Architecture;
use thiserror::Error;

/// Data that cannot be trained with.
#[derive(Debug, Error)]
pub enum LoadDataError {
    /// It cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// What a recipe says of it is wrong.
    #[error("data: {0}")]
    Recipe(String),
    /// There is nothing to learn from.
    #[error(
        "none of {0} records can be learnt from: a score is needed, and a result where `target.result_share` is above zero; \
         `tandem-lab data head` shows what they have"
    )]
    Useless(u64),
}

type Records = Box<dyn Iterator<Item = Result<Record, DataError>> + Send>;

/// One reading of all sources, mixed by their weights.
fn read_once(sources: &[SourceRecipe], threads: usize, seed: u64) -> Result<Records, LoadDataError> {
    let mut streams: Vec<(f64, Records)> = Vec::new();
    for source in sources {
        let columns = source.columns.as_deref().map(str::parse).transpose().map_err(LoadDataError::Recipe)?;
        let options = Options { columns: columns.unwrap_or_default(), bag: None };
        let files = Source::parse(&source.path, &options)?;
        let filter: Filter = source.filter.parse().map_err(|bad| LoadDataError::Recipe(format!("{bad}")))?;
        let reader = Reader::new(files, threads, OnError::Stop, filter.sieve(), Cursor::default());
        streams.push((source.weight, Box::new(reader)));
    }
    Ok(Box::new(Mix::new(streams, seed)))
}

/// Batches without end: the data is read again from the start as often as it takes. The same recipe gives the same batches.
pub struct Loader {
    batches: Receiver<Result<Batch, LoadDataError>>,
}

impl Loader {
    /// Begins with the batch of a step, as if those before it had been used.
    pub fn new(recipe: &Recipe, architecture: Architecture, threads: usize, first_step: u64) -> Self {
        let (sender, batches) = sync_channel(4);
        let recipe = recipe.clone();
        std::thread::spawn(move || {
            let mut send = |batch| sender.send(Ok(batch)).is_ok();
            if let Err(error) = fill(&recipe, &architecture, threads, first_step, &mut send) {
                let _ = sender.send(Err(error));
            }
        });
        Self { batches }
    }

    /// The next batch.
    pub fn next_batch(&mut self) -> Result<Batch, LoadDataError> {
        // The thread ends only after an error, which was the last that came.
        self.batches.recv().unwrap_or(Err(LoadDataError::Recipe("the loader has ended".into())))
    }
}

/// Makes batches until nobody takes them.
fn fill(
    recipe: &Recipe,
    architecture: &Architecture,
    threads: usize,
    first_step: u64,
    send: &mut dyn FnMut(Batch) -> bool,
) -> Result<(), LoadDataError> {
    let steps = recipe.steps();
    let mut buffer = ShuffleBuffer::new(recipe.data.shuffle_buffer, recipe.seed);
    let mut batch = Batch::default();
    let mut step = 0;
    for reading in 0.. {
        let (mut seen, mut used) = (0u64, 0u64);
        let mut records = read_once(&recipe.data.train, threads, recipe.seed.wrapping_add(reading))?;
        let mut rest: Option<std::vec::IntoIter<Record>> = None;
        loop {
            let record = match &mut rest {
                Some(rest) => rest.next(),
                None => match records.next() {
                    Some(record) => match buffer.push(record?) {
                        Some(record) => Some(record),
                        None => continue,
                    },
                    None => {
                        rest = Some(buffer.drain().into_iter());
                        continue;
                    }
                },
            };
            let Some(record) = record else { break };
            seen += 1;
            let share = recipe.target.result_share.at(step, steps);
            let Some(target) = Target::new(&record, recipe.target.scale, share) else { continue };
            used += u64::from(batch.push(architecture, &record, target));
            if batch.len() == recipe.training.batch {
                // Those of a run that goes on were used before: made the same, and passed over.
                let done = std::mem::take(&mut batch);
                if step >= first_step && !send(done) {
                    return Ok(());
                }
                step += 1;
            }
        }
        if used == 0 {
            return Err(LoadDataError::Useless(seen));
        }
    }
    Ok(())
}

/// The first positions of some sources as batches, in their order.
pub fn load_some(
    sources: &[SourceRecipe],
    recipe: &Recipe,
    architecture: &Architecture,
    threads: usize,
    positions: u64,
) -> Result<Vec<Batch>, LoadDataError> {
    let share = recipe.target.result_share.at(recipe.steps(), recipe.steps());
    let (mut batches, mut batch) = (Vec::new(), Batch::default());
    let mut seen = 0;
    let mut used = 0;
    for record in read_once(sources, threads, recipe.seed)? {
        let record = record?;
        seen += 1;
        let Some(target) = Target::new(&record, recipe.target.scale, share) else { continue };
        used += u64::from(batch.push(architecture, &record, target));
        if batch.len() == recipe.training.batch || used == positions {
            batches.push(std::mem::take(&mut batch));
        }
        if used == positions {
            break;
        }
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    if used == 0 && !sources.is_empty() {
        return Err(LoadDataError::Useless(seen));
    }
    Ok(batches)
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

    fn write(path: &std::path::Path, header: &str, tail: &str) {
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
            text += &format!("{}{tail}\n", position.fen());
        }
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn batches_are_the_same_and_go_on_from_any_step() {
        let path = std::env::temp_dir().join(format!("tandem-loader-{}.csv", std::process::id()));
        write(&path, "fen,score,result", ",12,1-0");
        let recipe =
            recipe(&path, "[target]\nresult_share = { kind = \"linear\", start = 0.0, end = 1.0 }\n");
        let architecture = recipe.network.architecture().unwrap();
        let batches = |threads: usize, first: u64, count: usize| -> Vec<Batch> {
            let mut loader = Loader::new(&recipe, architecture.clone(), threads, first);
            (0..count).map(|_| loader.next_batch().unwrap()).collect()
        };
        let all = batches(1, 0, 30);
        assert!(all.iter().all(|batch| batch.len() == 100));
        assert_eq!(batches(3, 17, 13), all[17..]);
        assert_ne!(all[0], all[10], "another reading, another order");
        let some = load_some(&recipe.data.train, &recipe, &architecture, 1, 250).unwrap();
        assert_eq!(some.iter().map(Batch::len).collect::<Vec<_>>(), [100, 100, 50]);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn data_without_what_is_needed_is_told() {
        let path = std::env::temp_dir().join(format!("tandem-useless-{}.csv", std::process::id()));
        write(&path, "fen", "");
        let recipe = recipe(&path, "");
        let architecture = recipe.network.architecture().unwrap();
        let mut loader = Loader::new(&recipe, architecture.clone(), 1, 0);
        let error = loader.next_batch().unwrap_err().to_string();
        assert!(error.starts_with("none of 950 records can be learnt from"), "{error}");
        std::fs::remove_file(&path).unwrap();
        let mut loader = Loader::new(&recipe, architecture, 1, 0);
        assert!(loader.next_batch().unwrap_err().to_string().contains("No such file"));
    }
}
