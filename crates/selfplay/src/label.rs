//! Positions of any data set, scored by our own search.

use crate::error::SelfPlayError;
use crate::game::score_of;
use crate::journal::{Journal, Magic};
use crate::leaves::SharedLeaves;
use crate::play::HARD;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use tandem_chess::{Move, Position};
use tandem_data::*;
use tandem_search::{EvaluatorFactory, Limits, STACK_SIZE, Searcher};

const MAGIC: Magic = *b"TLABELS1";

/// What labels are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// A score for each position; the move and the result stay.
    Positions,
    /// A record for each legal move, with the chance to win after it.
    AllMoves,
    /// So many records instead of each position, with the best move and its score: positions that the search of it
    /// has evaluated. Half of the nodes go into that search. The result is that of the game the position is from.
    Leaves(usize),
}

/// How labels are made.
pub struct LabelSettings {
    /// Makes the evaluators.
    pub factory: Arc<EvaluatorFactory>,
    /// What they are, in a few words.
    pub judge: String,
    /// Nodes after which the search of a position, or of a move, begins no new iteration.
    pub nodes: u64,
    /// MiB of hash table for each thread.
    pub hash: usize,
    /// Threads.
    pub threads: usize,
    /// What for.
    pub labels: Labels,
    /// What to do about a broken record.
    pub on_error: OnError,
}

/// What was labelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelReport {
    /// Positions that were looked at in this run.
    pub positions: u64,
    /// Blocks that an earlier run had done.
    pub earlier_blocks: u64,
    /// Records that were written.
    pub written: u64,
    /// Records that were left out: broken ones, and those that the output has no place for.
    pub skipped: u64,
    /// Whether all is done, and the output in its place.
    pub finished: bool,
}

/// Records that one thread labels together: the search starts afresh with each block, so that labels do not depend on
/// how many threads there are.
const BLOCK: usize = 256;

struct Job {
    records: Vec<Record>,
    done: Sender<Option<Labelled>>,
}

/// How many records were looked at, and what came of them.
type Labelled = (usize, Vec<Record>);

/// Labels data sets and writes the result, or goes on with what an earlier run has left beside it in `TARGET.journal`.
/// `watch` is told how many positions are done.
pub fn label(
    sources: Vec<Source>,
    target: &Source,
    settings: &LabelSettings,
    cancel: &AtomicBool,
    watch: &mut dyn FnMut(u64),
) -> Result<LabelReport, SelfPlayError> {
    let path = journal_of(target);
    let names: Vec<String> = sources.iter().map(described).collect();
    let about = format!(
        "{:?} of {}, errors {:?}, {} nodes, hash {} MiB, judged by {}",
        settings.labels,
        names.join(", "),
        settings.on_error,
        settings.nodes,
        settings.hash,
        settings.judge
    );
    let mut journal = Journal::open(&path, MAGIC, &about)?;
    let mut report = LabelReport { earlier_blocks: journal.blocks, finished: true, ..LabelReport::default() };
    let threads = settings.threads.max(1);
    // Before any thread: where there is no room for a hash table, that is said.
    let mut searchers = Vec::with_capacity(threads);
    for _ in 0..threads {
        let (mut factory, mut leaves) = (Arc::clone(&settings.factory), None);
        if let Labels::Leaves(count) = settings.labels {
            factory = leaves.insert(SharedLeaves::new(count)).listen(factory);
        }
        searchers.push((Searcher::new(factory, settings.hash)?, leaves));
    }
    let (jobs, waiting) = sync_channel::<Job>(threads);
    // The threads alone hold the other end: when the last of them is gone, nobody waits to hand them work.
    let mut waiting = Some(Arc::new(Mutex::new(waiting)));
    let (promises, in_order) = sync_channel::<Receiver<Option<Labelled>>>(4 * threads);
    let feeding = Mutex::new((0u64, None));

    std::thread::scope(|scope| -> Result<(), SelfPlayError> {
        for (searcher, leaves) in searchers {
            let Some(waiting) = waiting.clone() else { break };
            let builder = std::thread::Builder::new().stack_size(STACK_SIZE);
            let spawned =
                builder.spawn_scoped(scope, move || work(&waiting, searcher, leaves, settings, cancel));
            spawned.map_err(SelfPlayError::io(&path))?;
        }
        waiting = None;
        let (feeding, skip) = (&feeding, journal.blocks);
        scope.spawn(move || {
            let mut reader = Reader::new(sources, 1, settings.on_error, None, Cursor::default());
            let mut failure = None;
            let mut records = reader.records();
            let mut number = 0;
            loop {
                let mut block = Vec::with_capacity(BLOCK);
                while block.len() < BLOCK {
                    match records.next() {
                        None => break,
                        Some(Ok(record)) => block.push(record),
                        Some(Err(error)) => {
                            failure = Some(error);
                            break;
                        }
                    }
                }
                if block.is_empty() || failure.is_some() || cancel.load(Relaxed) {
                    break;
                }
                number += 1;
                if number <= skip {
                    continue;
                }
                let (done, promise) = channel();
                if promises.send(promise).is_err() || jobs.send(Job { records: block, done }).is_err() {
                    break;
                }
            }
            drop(records);
            *feeding.lock().unwrap_or_else(PoisonError::into_inner) = (reader.skips().count, failure);
        });
        for promise in in_order {
            // Nothing comes from a thread that was cancelled or could not get its memory.
            let Ok(Some((count, labelled))) = promise.recv() else {
                report.finished = false;
                break;
            };
            journal.add(&labelled.iter().flat_map(Record::pack).collect::<Vec<u8>>())?;
            report.positions += count as u64;
            watch((report.earlier_blocks * BLOCK as u64) + report.positions);
        }
        Ok(())
    })?;
    let (skipped, failure) = feeding.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = failure {
        return Err(error.into());
    }
    report.skipped = skipped;
    if !report.finished || cancel.load(Relaxed) {
        report.finished = false;
        return Ok(report);
    }
    let mut writer = Writer::create(target.clone())?;
    let mut write = |record: &Record| match writer.write(record) {
        Ok(()) => {
            report.written += 1;
            Ok(())
        }
        Err(DataError::Unfit { .. }) if settings.on_error == OnError::Skip => {
            report.skipped += 1;
            Ok(())
        }
        Err(error) => Err(error.into()),
    };
    journal.read(|block| {
        block.as_chunks::<{ Record::SIZE }>().0.iter().try_for_each(|record| write(&Record::unpack(record)))
    })?;
    writer.finish()?;
    drop(journal);
    std::fs::remove_file(&path).map_err(SelfPlayError::io(path))?;
    Ok(report)
}

/// A file by its name, its length and how it is read.
fn described(source: &Source) -> String {
    let len = std::fs::metadata(&source.path).map_or(0, |file| file.len());
    format!("{} ({}, {len} bytes, {:?})", source.path.display(), source.format, source.options)
}

fn journal_of(target: &Source) -> PathBuf {
    let mut name = target.path.clone().into_os_string();
    name.push(".journal");
    name.into()
}

/// Labels blocks until there are no more.
fn work(
    waiting: &Mutex<Receiver<Job>>,
    mut searcher: Searcher,
    leaves: Option<SharedLeaves>,
    settings: &LabelSettings,
    cancel: &AtomicBool,
) {
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { records, done }) = job else { return };
        searcher.clear(&AtomicBool::new(false));
        let mut labelled = Vec::with_capacity(records.len());
        for record in &records {
            if cancel.load(Relaxed) {
                let _ = done.send(None);
                return;
            }
            // What is no position stays as it was; `validate` finds it.
            let Ok(board) = record.position.board() else {
                labelled.push(*record);
                continue;
            };
            let position = Position::from(board);
            match settings.labels {
                Labels::Positions => {
                    let score = judged(&mut searcher, &position, settings.nodes).map(|(_, score)| score);
                    labelled.push(Record { score, ..*record });
                }
                Labels::AllMoves => {
                    all_moves(&mut searcher, &position, record, settings.nodes, &mut labelled);
                }
                Labels::Leaves(count) => {
                    let Some(leaves) = &leaves else { continue };
                    leaves.clear(position.key());
                    judged(&mut searcher, &position, settings.nodes.saturating_mul(count as u64));
                    let chosen = leaves.chosen();
                    labelled.extend(
                        chosen.iter().filter_map(|leaf| of_leaf(&mut searcher, leaf, record, settings.nodes)),
                    );
                }
            }
        }
        let _ = done.send(Some((records.len(), labelled)));
    }
}

/// The best move, and its score for the side to move. None where the game is over.
fn judged(searcher: &mut Searcher, position: &Position, nodes: u64) -> Option<(Move, Score)> {
    searcher.signals().arm(false);
    // An iteration that is broken off leaves a bound for a score: labels would lean to one side.
    let limits =
        Limits { soft_nodes: Some(nodes), nodes: Some(HARD.saturating_mul(nodes)), ..Limits::default() };
    let result = searcher.search(position, &limits, &mut |_| ());
    result.best.map(|mv| (mv, score_of(result.score)))
}

/// The record of a position that the search of another one has evaluated.
fn of_leaf(searcher: &mut Searcher, leaf: &Packed, root: &Record, nodes: u64) -> Option<Record> {
    let position = Position::from(leaf.board().ok()?);
    let (mv, score) = judged(searcher, &position, nodes)?;
    let turned = leaf.side_to_move() != root.position.side_to_move();
    let result = root.result.map(|result| if turned { result.flipped() } else { result });
    Some(Record { mv: Some(mv), score: Some(score), result, ..Record::new(*leaf) })
}

fn all_moves(
    searcher: &mut Searcher,
    position: &Position,
    record: &Record,
    nodes: u64,
    out: &mut Vec<Record>,
) {
    let mut position = position.clone();
    for mv in position.legal_moves() {
        position.play(mv);
        let chance = match judged(searcher, &position, nodes) {
            Some((_, score)) => 1.0 - score.win_chance(),
            // The game is over: won, if the other side is mated.
            None if position.in_check() => 1.0,
            None => 0.5,
        };
        position.undo();
        out.push(Record { mv: Some(mv), score: Some(Score::WinChance(chance)), ..*record });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_search::{Bootstrap, Evaluator};

    fn settings(threads: usize, labels: Labels) -> LabelSettings {
        LabelSettings {
            factory: Arc::new(|| Box::new(Bootstrap::default()) as Box<dyn Evaluator>),
            judge: "bootstrap".into(),
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
        let mut random = tandem_chess::random::SplitMix::new(3);
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
    fn labels_do_not_depend_on_threads_or_on_being_broken_off() {
        let dir = std::env::temp_dir().join(format!("tandem-label-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let input = dir.join("in.csv");
        write_positions(&input, 1000);
        let go = AtomicBool::new(false);
        let run = |name: &str,
                   threads: usize,
                   cancel: &AtomicBool,
                   labels: Labels,
                   watch: &mut dyn FnMut(u64)| {
            label(vec![source(&input)], &source(&dir.join(name)), &settings(threads, labels), cancel, watch)
        };
        let report = run("one.csv", 1, &go, Labels::Positions, &mut |_| ()).unwrap();
        assert_eq!((report.written, report.finished), (1000, true));
        run("two.csv", 2, &go, Labels::Positions, &mut |_| ()).unwrap();
        let whole = std::fs::read(dir.join("one.csv")).unwrap();
        assert_eq!(std::fs::read(dir.join("two.csv")).unwrap(), whole);
        assert!(String::from_utf8_lossy(&whole).lines().nth(1).unwrap().contains(",1/2-1/2,"));

        let cancel = AtomicBool::new(false);
        let mut stop = |done: u64| cancel.store(done >= 512, Relaxed);
        let report = run("three.csv", 1, &cancel, Labels::Positions, &mut stop).unwrap();
        assert!(!report.finished && !dir.join("three.csv").exists());
        // A killed run may leave half a block.
        let journal = dir.join("three.csv.journal");
        let mut torn = std::fs::read(&journal).unwrap();
        torn.extend([77; 100]);
        std::fs::write(&journal, torn).unwrap();
        let report = run("three.csv", 1, &go, Labels::Positions, &mut |_| ()).unwrap();
        assert!(report.earlier_blocks >= 2 && report.finished);
        assert_eq!(std::fs::read(dir.join("three.csv")).unwrap(), whole);
        assert!(!journal.exists());

        let mut other = settings(1, Labels::Positions);
        let target = source(&dir.join("four.csv"));
        let stopped = AtomicBool::new(true);
        label(vec![source(&input)], &target, &other, &stopped, &mut |_| ()).unwrap();
        other.nodes = 51;
        let error = label(vec![source(&input)], &target, &other, &go, &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("other settings"), "{error}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// With more blocks than the queues hold, a cancelled run must still come to its end.
    #[test]
    fn a_cancelled_run_ends() {
        let dir = std::env::temp_dir().join(format!("tandem-cancel-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        write_positions(&dir.join("in.csv"), 256 * 60);
        let cancel = AtomicBool::new(false);
        let mut settings = settings(2, Labels::Positions);
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
    fn every_move_gets_a_chance_and_a_mate_the_best() {
        let dir = std::env::temp_dir().join(format!("tandem-all-moves-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("in.epd"), "6k1/5ppp/8/8/8/8/8/K3R3 w - - 0 1\n").unwrap();
        let target = source(&dir.join("action_value_data.bag"));
        let report = label(
            vec![source(&dir.join("in.epd"))],
            &target,
            &settings(1, Labels::AllMoves),
            &AtomicBool::new(false),
            &mut |_| (),
        );
        assert_eq!(report.unwrap().written, 3 + 13);
        let mut reader = Reader::new(vec![target], 1, OnError::Stop, None, Cursor::default());
        let records: Vec<Record> = reader.records().collect::<Result<_, _>>().unwrap();
        let best = records.iter().max_by(|a, b| chance(a).total_cmp(&chance(b))).unwrap();
        assert_eq!(best.mv.unwrap().to_string(), "e1e8");
        assert_eq!(chance(best), 1.0);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn leaves_are_positions_of_the_search_with_a_move_and_the_games_result() {
        let dir = std::env::temp_dir().join(format!("tandem-leaves-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        write_positions(&dir.join("in.csv"), 600);
        let run = |name: &str, threads: usize| {
            let target = source(&dir.join(name));
            let settings = settings(threads, Labels::Leaves(3));
            label(
                vec![source(&dir.join("in.csv"))],
                &target,
                &settings,
                &AtomicBool::new(false),
                &mut |_| (),
            )
            .unwrap();
            let mut reader = Reader::new(vec![target], 1, OnError::Stop, None, Cursor::default());
            reader.records().collect::<Result<Vec<Record>, _>>().unwrap()
        };
        let (one, two) = (run("one.plain", 1), run("two.plain", 2));
        assert!(one == two && one.len() > 1500, "{}", one.len());
        let roots: Vec<Record> =
            Reader::new(vec![source(&dir.join("in.csv"))], 1, OnError::Stop, None, Cursor::default())
                .records()
                .collect::<Result<_, _>>()
                .unwrap();
        let new = one.iter().filter(|leaf| roots.iter().all(|root| root.position != leaf.position));
        assert!(new.count() > one.len() / 2, "most leaves are no roots");
        for leaf in &one {
            assert!(leaf.position.board().unwrap().is_legal(leaf.mv.unwrap()));
            assert_eq!(leaf.result, Some(Outcome::Draw));
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    fn chance(record: &Record) -> f64 {
        record.score.unwrap().win_chance()
    }
}
