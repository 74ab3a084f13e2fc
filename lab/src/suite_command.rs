//! `tandem-lab suite`: test suites of positions with known best moves, points, mates or perft counts.

use crate::{engine_args::Engine, error::LabError, interrupt, unanswered};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tandem_arena::{
    StartError, TimeLimit,
    suite::{ItemResult, SuiteItem, SuiteReport, Task, compare, read_suite, run_suite},
};
use tandem_util::output::write_atomically;

/// Run test suites on an engine: best moves, points, mates, perft
///
/// Reads EPD files with best moves (bm), moves to avoid (am), mates in N (dm), points for several moves as in
/// the Strategic Test Suite (c0, c8, c9), or perft counts (;D1 20 ;D2 400). Perft needs no engine: it tests
/// Tandem's own move generator.
#[derive(Args, Debug)]
pub(crate) struct SuiteArgs {
    /// Test suites: EPD files, plain or compressed with zstd or gzip
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Engine to test, in the syntax of `match --engine`, for example cmd=stockfish,nodes=100000; without a
    /// limit it thinks 1 s per position (default: Tandem's own engine)
    #[arg(long, value_name = "SPEC")]
    engine: Option<String>,
    /// Number of positions searched at the same time, each by its own copy of the engine
    #[arg(long, default_value_t = 1, value_name = "N")]
    concurrency: usize,
    /// Use only the first N positions of each file (default: all)
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Skip perft depths whose expected number of leaf nodes is larger than this
    #[arg(long, default_value_t = 10_000_000, value_name = "LEAVES")]
    max_leaves: u64,
    /// Print the result of every position, not only totals
    #[arg(long, short)]
    verbose: bool,
    /// Write the results of all positions as JSON to this file, for --baseline and other programs
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Compare the results with those of an earlier run, from a file that --save wrote: list the positions
    /// gained and lost; may be repeated
    #[arg(long, value_name = "FILE")]
    baseline: Vec<PathBuf>,
}

/// Runs the command.
///
/// # Errors
///
/// When a file cannot be read or written, the engine fails, a perft count differs, or the run is interrupted.
pub(crate) fn run(args: &SuiteArgs) -> Result<(), LabError> {
    let mut suites = Vec::new();
    for path in &args.files {
        let mut items = read_suite(path, args.max_leaves)?;
        items.truncate(args.limit.unwrap_or(usize::MAX));
        suites.push((path, items));
    }
    let baselines = args.baseline.iter().map(|path| read_reports(path)).collect::<Result<Vec<_>, _>>()?;
    let cancel = interrupt::flag();
    let needs_engine = |items: &[SuiteItem]| items.iter().any(|item| !matches!(item.task, Task::Perft(_)));
    let limits = TimeLimit::PerMove(Duration::from_secs(1));
    let engine = match suites.iter().any(|(_, items)| needs_engine(items)) {
        true => Some(Engine::new(args.engine.as_deref(), limits, &cancel)?),
        false => None,
    };
    let mut reports = Vec::new();
    for (path, items) in &suites {
        let report = match &engine {
            Some(engine) if needs_engine(items) => {
                let name = engine.analyst()?.name().to_owned();
                let make = || engine.analyst();
                let spec = &engine.spec;
                let results = run_suite(
                    items,
                    &spec.limits,
                    args.concurrency,
                    spec.threads(),
                    &make,
                    &cancel,
                    |result| print_result(result, args.verbose),
                )?;
                SuiteReport {
                    suite: stem(path),
                    engine: name,
                    limits: spec.limits.to_string(),
                    items: results,
                }
            }
            _ => count(path, items, args, &cancel)?,
        };
        let is_partial = report.items.len() < items.len();
        reports.push(report);
        if is_partial {
            break;
        }
    }
    table(&reports, &baselines);
    let asked: usize = suites.iter().map(|(_, items)| items.len()).sum();
    let answered: usize = reports.iter().map(|report| report.items.len()).sum();
    if answered < asked {
        // A partial run must not be mistaken for a complete one later, least of all as a baseline.
        return Err(LabError::Interrupted(format!(
            "stopped after {answered} of {asked} positions; nothing was saved"
        )));
    }
    let items = reports.iter().flat_map(|report| &report.items);
    let faults = items.filter_map(|item| Some((item.unanswered?, item.id.as_str(), item.played.as_str())));
    unanswered::report(answered, faults)?;
    if let Some(path) = &args.save {
        let json = serde_json::to_vec_pretty(&reports).map_err(|error| LabError::Usage(error.to_string()))?;
        write_atomically(path, &json).map_err(LabError::file(path))?;
    }
    let wrong = wrong_counts(suites.iter().flat_map(|(_, items)| items), &reports);
    if wrong > 0 {
        return Err(LabError::Usage(format!("perft counts of {wrong} positions are wrong")));
    }
    Ok(())
}

/// The number of positions whose perft count is wrong. Every item has its result, in the same order.
fn wrong_counts<'a>(items: impl Iterator<Item = &'a SuiteItem>, reports: &[SuiteReport]) -> usize {
    let results = reports.iter().flat_map(|report| &report.items);
    items.zip(results).filter(|(item, result)| matches!(item.task, Task::Perft(_)) && !result.solved).count()
}

/// Runs a perft suite, for which no engine is started.
fn count(
    path: &Path,
    items: &[SuiteItem],
    args: &SuiteArgs,
    cancel: &std::sync::atomic::AtomicBool,
) -> Result<SuiteReport, LabError> {
    struct NoEngine;
    impl tandem_arena::Analyst for NoEngine {
        fn name(&self) -> &str {
            "perft"
        }
        fn analyse(
            &mut self,
            _: &tandem_arena::GameSoFar,
            _: &tandem_arena::PlayerClock,
        ) -> Result<tandem_arena::Analysis, tandem_arena::Fault> {
            Err(tandem_arena::Fault::Cancelled)
        }
        fn reset(&mut self, _: bool) -> Result<(), tandem_arena::Fault> {
            Ok(())
        }
        fn is_usable(&self) -> bool {
            true
        }
    }
    let make = || -> Result<Box<dyn tandem_arena::Analyst>, StartError> { Ok(Box::new(NoEngine)) };
    let limits = tandem_arena::EngineLimits::default();
    let items = run_suite(items, &limits, args.concurrency, 1, &make, cancel, |result| {
        print_result(result, args.verbose);
    })?;
    let (nodes, seconds) = items
        .iter()
        .fold((0, 0.0), |(nodes, seconds), item| (nodes + item.nodes.unwrap_or(0), seconds + item.seconds));
    outln!("{}: {nodes} leaves, {:.1} M/s", stem(path), nodes as f64 / f64::max(seconds, 1e-9) / 1e6);
    Ok(SuiteReport { suite: stem(path), engine: "perft".into(), limits: String::new(), items })
}

fn print_result(result: &ItemResult, verbose: bool) {
    if !verbose {
        return;
    }
    let time = result.solved_in.map_or(String::new(), |seconds| format!(" in {seconds:.3} s"));
    let mark = if result.solved { "solved" } else { "failed" };
    outln!("{:30} {mark}{time}: {} ({}/{})", result.id, result.played, result.points, result.most);
}

fn table(reports: &[SuiteReport], baselines: &[Vec<SuiteReport>]) {
    outln!(
        "{:20} {:24} {:16} {:>11} {:>13} {:>9}",
        "suite",
        "engine",
        "limits",
        "solved",
        "points",
        "mean s"
    );
    for report in reports {
        row(report);
        let earlier = baselines.iter().flatten().filter(|old| old.suite == report.suite);
        for old in earlier {
            row(old);
            let change = compare(report, old);
            outln!("  against {}: {} gained, {} lost", old.engine, change.gained.len(), change.lost.len());
            for (word, ids) in [("gained", &change.gained), ("lost", &change.lost)] {
                if !ids.is_empty() {
                    outln!("    {word}: {}", ids.join(", "));
                }
            }
            if change.unmatched > 0 {
                outln!("    {} positions are in one run only", change.unmatched);
            }
        }
    }
}

fn row(report: &SuiteReport) {
    let (points, most) = report.points();
    outln!(
        "{:20} {:24} {:16} {:>5}/{:<5} {:>6}/{:<6} {:>9}",
        report.suite,
        report.engine,
        report.limits,
        report.solved(),
        report.items.len(),
        points,
        most,
        report.mean_seconds().map_or("-".into(), |seconds| format!("{seconds:.3}"))
    );
}

fn read_reports(path: &Path) -> Result<Vec<SuiteReport>, LabError> {
    let bytes = std::fs::read(path).map_err(LabError::file(path))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| LabError::Usage(format!("{}: not results of a suite: {error}", path.display())))
}

/// The file name without the extensions of compression and format.
fn stem(path: &Path) -> String {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let plain = name.strip_suffix(".zst").or_else(|| name.strip_suffix(".gz")).unwrap_or(&name);
    let stem = plain.rsplit_once('.').map_or(plain, |(stem, _)| stem);
    stem.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Board;

    #[test]
    fn wrong_perft_counts_are_counted_but_missed_moves_are_not() {
        let item = |task| SuiteItem { id: String::new(), board: Board::default(), task };
        let items = [item(Task::Mate(2)), item(Task::Perft(vec![(1, 21)])), item(Task::Perft(vec![(1, 20)]))];
        let result = |solved| ItemResult { solved, ..ItemResult::default() };
        let report =
            SuiteReport { items: [false, false, true].map(result).to_vec(), ..SuiteReport::default() };
        assert_eq!(wrong_counts(items.iter(), &[report]), 1);
    }
}
