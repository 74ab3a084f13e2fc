//! Labelling: scores for the positions of any data set, by our own search or by any other [`Labeller`].
//!
//! Blocks of records are labelled in parallel and stored in a journal beside the output, so that a killed run
//! resumes at the first block that is missing.

mod search;

pub use search::{LabelKind, LabelSettings};

use crate::error::SelfPlayError;
use crate::journal;
use search::SearchLabeller;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use tandem_data::*;
use tandem_search::STACK_SIZE;
use tandem_util::journal::{JournalFormat, MAX_BLOCK};

const FORMAT: JournalFormat = JournalFormat::Blocks { magic: b"TLABELS2" };

/// A source of labels (scores and moves for recorded positions), for example a search or a network on a GPU.
/// Each thread has one of its own.
pub trait Labeller: Send {
    /// Labels the records of a block. The result must depend on the records alone, because another thread may
    /// do the block after a restart; `None` if it was cancelled.
    ///
    /// # Errors
    ///
    /// Fails if labels cannot be made at all, which ends the run.
    fn label(
        &mut self,
        records: &[Record],
        cancel: &AtomicBool,
    ) -> Result<Option<Vec<Record>>, SelfPlayError>;
}

/// Description of a labelling run, which its journal stores. A resumed run must have an equal one, or it is
/// refused.
#[derive(Clone, Debug)]
pub struct LabelRun {
    /// Kind of labels, as short text for the journal, for example scores of positions or of all moves.
    pub kind: String,
    /// Method of labelling, as short text for the journal: for example the number of nodes and the network.
    pub method: String,
    /// Number of records in a block, the unit that one thread labels and the journal stores.
    pub block: usize,
    /// Reaction to an input record that cannot be decoded: stop or skip it.
    pub on_error: OnError,
}

/// Counts of a labelling run: positions labelled, and records written and left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelReport {
    /// Number of input positions that were labelled in this run; those of earlier runs are not counted.
    pub positions: u64,
    /// Number of blocks of [`LabelRun::block`] records whose labels were taken over from an earlier run's
    /// journal.
    pub earlier_blocks: u64,
    /// Number of records that were written to the output.
    pub written: u64,
    /// Number of records that were left out: broken ones, and those that the output format cannot store.
    pub skipped: u64,
    /// Number of faults among [`Self::skipped`] that made the rest of a game or block unreadable, so that the
    /// number of lost records is unknown.
    pub with_rest: u64,
    /// Number of files of which everything after a fault had to be given up.
    pub lost_files: u64,
    /// Sentences for the user about the journal as it was found, for example that a damaged block at its end was
    /// removed.
    pub notices: Vec<String>,
    /// True if everything is labelled and the output is complete; false if the run was cancelled and can be
    /// resumed.
    pub finished: bool,
}

/// Number of records that a search labels together.
const BLOCK: usize = 256;

/// Number of records in a block: [`BLOCK`], or fewer if their labels would not fit into a block of the
/// journal.
fn block_size(labels: LabelKind) -> Result<usize, SelfPlayError> {
    let (LabelKind::Leaves(count) | LabelKind::Unsearched(count)) = labels else { return Ok(BLOCK) };
    let most = MAX_BLOCK as usize / Record::SIZE;
    match most / count.max(1) {
        0 => Err(SelfPlayError::Labeller(format!("{count} leaves of each position are more than {most}"))),
        fit => Ok(fit.min(BLOCK)),
    }
}

struct Job {
    records: Vec<Record>,
    done: Sender<Answer>,
}

/// Number of input records and their labels; `None` if the block was cancelled.
type Answer = Result<Option<(usize, Vec<Record>)>, SelfPlayError>;

/// Labels data sets by our own search and writes the result to a file; see [`label_with`] for how it is run
/// and resumed.
///
/// # Errors
///
/// Fails as [`label_with`] does, and if the hash tables do not fit into memory.
pub fn label(
    sources: Vec<Source>,
    target: &Source,
    settings: &LabelSettings,
    cancel: &AtomicBool,
    watch: &mut dyn FnMut(u64),
) -> Result<LabelReport, SelfPlayError> {
    let LabelSettings { evaluator, nodes, hash, on_error, .. } = settings;
    let run = LabelRun {
        kind: format!("{:?}", settings.labels),
        method: format!("{nodes} nodes, hash {hash} MiB, judged by {evaluator}"), // language: old name
        block: block_size(settings.labels)?,
        on_error: *on_error,
    };
    // Created before any thread starts, so that a lack of memory is reported at once.
    let mut labellers: Vec<Box<dyn Labeller>> = Vec::new();
    for _ in 0..settings.threads.max(1) {
        labellers.push(Box::new(SearchLabeller::new(settings)?));
    }
    label_with(sources, target, &run, labellers, cancel, watch)
}

/// Labels data sets and writes the result, or resumes an earlier run from `TARGET.journal`. Each labeller
/// gets a thread of its own; `watch` receives the number of labelled positions. Without any record to write, no
/// file is written.
///
/// # Errors
///
/// Fails if the journal belongs to other settings, if a labeller fails, or if a record is broken or does not
/// fit the output format and `on_error` is [`OnError::Stop`].
pub fn label_with(
    sources: Vec<Source>,
    target: &Source,
    run: &LabelRun,
    labellers: Vec<Box<dyn Labeller>>,
    cancel: &AtomicBool,
    watch: &mut dyn FnMut(u64),
) -> Result<LabelReport, SelfPlayError> {
    let path = journal_of(target);
    let names: Vec<String> = sources.iter().map(described).collect();
    let LabelRun { kind, method, block, on_error } = run;
    let (block, on_error) = ((*block).max(1), *on_error);
    // The reaction to errors is left out: a run that stopped at a broken record may be resumed by skipping
    // it.
    let about = format!("{kind} of {}, {method}, {block} records a block", names.join(", "));
    let mut journal = journal::open(&path, FORMAT, &about)?;
    let mut report = LabelReport {
        earlier_blocks: journal.entries(),
        notices: journal.notices().to_vec(),
        finished: true,
        ..LabelReport::default()
    };
    let threads = labellers.len().max(1);
    let (jobs, job_queue) = sync_channel::<Job>(threads);
    // Only the threads hold the receiver: once the last of them has ended, sending fails instead of blocking.
    let mut job_queue = Some(Arc::new(Mutex::new(job_queue)));
    let (promises, in_order) = sync_channel::<Receiver<Answer>>(4 * threads);
    let feeding = Mutex::new((Skips::default(), None));
    let mut checked = 0;

    std::thread::scope(|scope| -> Result<(), SelfPlayError> {
        for labeller in labellers {
            let Some(job_queue) = job_queue.clone() else { break };
            let builder = std::thread::Builder::new().stack_size(STACK_SIZE);
            let spawned = builder.spawn_scoped(scope, move || label_blocks(&job_queue, labeller, cancel));
            spawned.map_err(SelfPlayError::io(&path))?;
        }
        job_queue = None;
        let (feeding, skip) = (&feeding, journal.entries());
        scope.spawn(move || {
            let mut reader = RecordReader::new(sources, 1, on_error, None, Cursor::default());
            let mut failure = None;
            let mut records = reader.records();
            let mut number = 0;
            loop {
                let mut gathered = Vec::with_capacity(block);
                while gathered.len() < block {
                    match records.next() {
                        None => break,
                        Some(Ok(record)) => gathered.push(record),
                        Some(Err(error)) => {
                            failure = Some(error);
                            break;
                        }
                    }
                }
                if gathered.is_empty() || failure.is_some() || cancel.load(Relaxed) {
                    break;
                }
                number += 1;
                if number <= skip {
                    continue;
                }
                let (done, promise) = channel();
                if promises.send(promise).is_err() || jobs.send(Job { records: gathered, done }).is_err() {
                    break;
                }
            }
            drop(records);
            let Skips { count, lost_rest: with_rest, lost_files, .. } = *reader.skips();
            let skips = Skips { count, lost_rest: with_rest, lost_files, examples: Vec::new() };
            *feeding.lock().unwrap_or_else(PoisonError::into_inner) = (skips, failure);
        });
        for promise in in_order {
            // A thread that was cancelled or could not get its memory returns nothing.
            let Some((count, labelled)) = promise.recv().unwrap_or(Ok(None))? else {
                report.finished = false;
                break;
            };
            if on_error == OnError::Stop {
                check(&labelled, target, &mut checked)?;
            }
            journal.append(&labelled.iter().flat_map(Record::pack).collect::<Vec<u8>>())?;
            report.positions += count as u64;
            watch((report.earlier_blocks * block as u64) + report.positions);
        }
        Ok(())
    })?;
    let (skips, failure) = feeding.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = failure {
        return Err(error.into());
    }
    let Skips { count, lost_rest: with_rest, lost_files, .. } = skips;
    (report.skipped, report.with_rest, report.lost_files) = (count, with_rest, lost_files);
    if !report.finished || cancel.load(Relaxed) {
        report.finished = false;
        return Ok(report);
    }
    let mut writer = RecordWriter::create(target.clone())?;
    let mut write = |record: &Record| match writer.write(record) {
        Ok(()) => {
            report.written += 1;
            Ok(())
        }
        Err(DataError::Unsupported { .. }) if on_error == OnError::Skip => {
            report.skipped += 1;
            Ok(())
        }
        Err(error) => Err(error.into()),
    };
    journal.read(|block| -> Result<(), SelfPlayError> {
        block.as_chunks::<{ Record::SIZE }>().0.iter().try_for_each(|record| write(&Record::unpack(record)))
    })?;
    if report.written > 0 {
        writer.finish()?;
    }
    drop(journal);
    std::fs::remove_file(&path).map_err(SelfPlayError::io(path))?;
    Ok(report)
}

/// Checks that the output format can carry the records, because it is better to know before hours of work
/// than after them. `checked` counts them for the error message.
fn check(records: &[Record], target: &Source, checked: &mut u64) -> Result<(), SelfPlayError> {
    let (mut encoder, mut out) = (Encoder::new(target), Vec::new());
    for record in records {
        *checked += 1;
        encoder.push(record, &mut out).map_err(|unsupported| DataError::Unsupported {
            path: target.path.clone(),
            record: *checked,
            problem: unsupported.0,
        })?;
        out.clear();
    }
    Ok(())
}

/// A file by its name, length and reading options, as text for the journal.
fn described(source: &Source) -> String {
    let len = std::fs::metadata(&source.path).map_or(0, |file| file.len());
    format!("{} ({}, {len} bytes, {:?})", source.path.display(), source.format, source.options)
}

fn journal_of(target: &Source) -> PathBuf {
    let mut name = target.path.clone().into_os_string();
    name.push(".journal");
    name.into()
}

/// Labels blocks until the queue is closed.
fn label_blocks(job_queue: &Mutex<Receiver<Job>>, mut labeller: Box<dyn Labeller>, cancel: &AtomicBool) {
    loop {
        let job = job_queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { records, done }) = job else { return };
        let labelled = labeller.label(&records, cancel);
        let goes_on = matches!(labelled, Ok(Some(_)));
        let _ = done.send(labelled.map(|labelled| labelled.map(|labelled| (records.len(), labelled))));
        if !goes_on {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Position;
    use tandem_search::{Bootstrap, Evaluator};

    fn settings(threads: usize, labels: LabelKind) -> LabelSettings {
        LabelSettings {
            factory: Arc::new(|| Box::new(Bootstrap::default()) as Box<dyn Evaluator>),
            evaluator: "bootstrap".into(),
            nodes: 50,
            hash: 1,
            threads,
            labels,
            on_error: OnError::Stop,
        }
    }

    fn source(path: &std::path::Path) -> Source {
        Source::parse(path.to_str().unwrap(), &Options::default()).unwrap().remove(0)
    }

    fn write_positions(path: &std::path::Path, count: usize) {
        let mut random = tandem_util::random::SplitMix::new(3);
        let mut text = String::from("fen,result\n");
        for _ in 0..count {
            let mut position = Position::startpos();
            for _ in 0..6 + random.below(30) {
                let moves = position.legal_moves();
                if moves.is_empty() {
                    break;
                }
                position.play(moves[random.below(moves.len() as u32) as usize]);
            }
            text += &format!("{},1/2-1/2\n", position.fen());
        }
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn labels_do_not_depend_on_threads_or_interruptions() {
        let dir = std::env::temp_dir().join(format!("tandem-label-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let input = dir.join("in.csv");
        write_positions(&input, 1000);
        let go = AtomicBool::new(false);
        let run = |name: &str,
                   threads: usize,
                   cancel: &AtomicBool,
                   labels: LabelKind,
                   watch: &mut dyn FnMut(u64)| {
            label(vec![source(&input)], &source(&dir.join(name)), &settings(threads, labels), cancel, watch)
        };
        let report = run("one.csv", 1, &go, LabelKind::Positions, &mut |_| ()).unwrap();
        assert_eq!((report.written, report.finished), (1000, true));
        run("two.csv", 2, &go, LabelKind::Positions, &mut |_| ()).unwrap();
        let whole = std::fs::read(dir.join("one.csv")).unwrap();
        assert_eq!(std::fs::read(dir.join("two.csv")).unwrap(), whole);
        assert!(String::from_utf8_lossy(&whole).lines().nth(1).unwrap().contains(",1/2-1/2,"));

        let cancel = AtomicBool::new(false);
        let mut stop = |done: u64| cancel.store(done >= 512, Relaxed);
        let report = run("three.csv", 1, &cancel, LabelKind::Positions, &mut stop).unwrap();
        assert!(!report.finished && !dir.join("three.csv").exists());
        // A killed run may leave an incomplete block.
        let journal = dir.join("three.csv.journal");
        let mut torn = std::fs::read(&journal).unwrap();
        torn.extend_from_within(8..40);
        std::fs::write(&journal, torn).unwrap();
        let report = run("three.csv", 1, &go, LabelKind::Positions, &mut |_| ()).unwrap();
        assert!(report.earlier_blocks >= 2 && report.finished);
        assert_eq!(std::fs::read(dir.join("three.csv")).unwrap(), whole);
        assert!(!journal.exists());

        let mut other = settings(1, LabelKind::Positions);
        let target = source(&dir.join("four.csv"));
        let stopped = AtomicBool::new(true);
        label(vec![source(&input)], &target, &other, &stopped, &mut |_| ()).unwrap();
        other.nodes = 51;
        let error = label(vec![source(&input)], &target, &other, &go, &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("other settings"), "{error}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// A cancelled run must end even with more blocks than the queues hold.
    #[test]
    fn a_cancelled_run_ends() {
        let dir = std::env::temp_dir().join(format!("tandem-cancel-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        write_positions(&dir.join("in.csv"), 256 * 60);
        let cancel = AtomicBool::new(false);
        let mut settings = settings(2, LabelKind::Positions);
        settings.nodes = 1;
        let mut stop = |done: u64| cancel.store(done >= 1024, Relaxed);
        let input = source(&dir.join("in.csv"));
        let target = source(&dir.join("out.csv"));
        let report = label(vec![input.clone()], &target, &settings, &cancel, &mut stop).unwrap();
        assert!(!report.finished);
        settings.hash = 1 << 40;
        let refused = label(vec![input], &source(&dir.join("x.csv")), &settings, &cancel, &mut |_| ());
        assert!(matches!(refused, Err(SelfPlayError::Memory(_))));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_search_adds_its_move_where_there_is_none() {
        let dir = std::env::temp_dir().join(format!("tandem-label-moves-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mate = "6k1/5ppp/8/8/8/8/8/K3R3 w - - 0 1";
        std::fs::write(dir.join("in.csv"), format!("fen,move\n{mate},\n{mate},a1a2\n")).unwrap();
        let target = source(&dir.join("out.csv"));
        let input = vec![source(&dir.join("in.csv"))];
        label(input, &target, &settings(1, LabelKind::Positions), &AtomicBool::new(false), &mut |_| ())
            .unwrap();
        let mut reader = RecordReader::new(vec![target], 1, OnError::Stop, None, Cursor::default());
        let records: Vec<Record> = reader.records().collect::<Result<_, _>>().unwrap();
        assert_eq!(
            records.iter().map(|record| record.mv.unwrap().to_string()).collect::<Vec<_>>(),
            ["e1e8", "a1a2"]
        );
        assert!(records.iter().all(|record| record.score == Some(Score::Mate(1))));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn every_move_gets_a_win_probability_and_a_mate_the_highest() {
        let dir = std::env::temp_dir().join(format!("tandem-all-moves-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("in.epd"), "6k1/5ppp/8/8/8/8/8/K3R3 w - - 0 1\n").unwrap();
        let target = source(&dir.join("action_value_data.bag"));
        let report = label(
            vec![source(&dir.join("in.epd"))],
            &target,
            &settings(1, LabelKind::AllMoves),
            &AtomicBool::new(false),
            &mut |_| (),
        );
        assert_eq!(report.unwrap().written, 3 + 13);
        let mut reader = RecordReader::new(vec![target], 1, OnError::Stop, None, Cursor::default());
        let records: Vec<Record> = reader.records().collect::<Result<_, _>>().unwrap();
        let best = records.iter().max_by(|a, b| win_probability(a).total_cmp(&win_probability(b))).unwrap();
        assert_eq!(best.mv.unwrap().to_string(), "e1e8");
        assert_eq!(win_probability(best), 1.0);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn leaves_are_positions_of_the_search_with_a_move_and_the_games_result() {
        let dir = std::env::temp_dir().join(format!("tandem-leaves-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        write_positions(&dir.join("in.csv"), 600);
        let run = |name: &str, threads: usize, labels: LabelKind| {
            let target = source(&dir.join(name));
            let settings = settings(threads, labels);
            label(
                vec![source(&dir.join("in.csv"))],
                &target,
                &settings,
                &AtomicBool::new(false),
                &mut |_| (),
            )
            .unwrap();
            let mut reader = RecordReader::new(vec![target], 1, OnError::Stop, None, Cursor::default());
            reader.records().collect::<Result<Vec<Record>, _>>().unwrap()
        };
        let (one, two) =
            (run("one.plain", 1, LabelKind::Leaves(3)), run("two.plain", 2, LabelKind::Leaves(3)));
        assert!(one == two && one.len() > 1500, "{}", one.len());
        let roots: Vec<Record> =
            RecordReader::new(vec![source(&dir.join("in.csv"))], 1, OnError::Stop, None, Cursor::default())
                .records()
                .collect::<Result<_, _>>()
                .unwrap();
        let new = one.iter().filter(|leaf| roots.iter().all(|root| root.position != leaf.position));
        assert!(new.count() > one.len() / 2, "most leaves are not roots");
        for leaf in &one {
            assert!(leaf.position.board().unwrap().is_legal(leaf.mv.unwrap()));
            assert_eq!(leaf.result, Some(Outcome::Draw));
        }
        let evaluated = run("evaluated.csv", 2, LabelKind::Unsearched(3));
        assert!(evaluated == run("again.csv", 1, LabelKind::Unsearched(3)) && evaluated.len() > 1500);
        for leaf in evaluated {
            assert_eq!(leaf.result, Some(Outcome::Draw));
            let position = Position::from(leaf.position.board().unwrap());
            let mut evaluator = Bootstrap::default();
            evaluator.reset(&position);
            let evaluation = evaluator.evaluate(&position).0.clamp(-30_000, 30_000) as i16;
            assert_eq!(
                (leaf.mv, leaf.score),
                (None, Some(Score::Centipawns(evaluation))),
                "{}",
                position.fen()
            );
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn leaves_of_a_block_fit_into_the_journal() {
        for count in [1, 16, 1365, 1366, 5000, 349_525] {
            let block = block_size(LabelKind::Leaves(count)).unwrap();
            assert!((block * count * Record::SIZE) as u64 <= MAX_BLOCK, "{block} times {count}");
            assert_eq!(block == BLOCK, count <= 1365, "{block} times {count}");
        }
        let error = block_size(LabelKind::Unsearched(349_526)).unwrap_err().to_string();
        assert!(error.contains("349526 leaves of each position are more than 349525"), "{error}");
    }

    fn win_probability(record: &Record) -> f64 {
        record.score.unwrap().win_probability()
    }
}
