//! `tandem-lab puzzles`.

use crate::strategist_player::Strategist;
use crate::{engine_args::Engine, error::LabError, interrupt, unanswered};
use clap::Args;
use serde_json::json;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::{Arc, atomic::AtomicBool};
use std::time::Duration;
use tandem_arena::{
    Analyst, Limits, SplitMix, StartError, TimeLimit,
    puzzles::{Band, PuzzleResult, bands, performance, read_puzzles, run_puzzles, wilson},
    report::{BarChart, bar_chart, simple_page},
    write_whole,
};
use tandem_transformer::Method;

/// Put Lichess puzzles to an engine or a transformer
///
/// A puzzle is solved when every move of the solver is the expected one, except that any mate counts.
#[derive(Args, Debug)]
pub(crate) struct PuzzlesArgs {
    /// Lichess CSV with PuzzleId, FEN, Moves and Rating, plain or compressed
    file: PathBuf,
    /// The engine, as in `match`; 0.1 s a move if it has no limit. Ours if not given
    #[arg(long, value_name = "SPEC")]
    engine: Option<String>,
    /// A transformer instead, which answers without search: .ttn, .safetensors or .pb.gz
    #[arg(long, value_name = "FILE", conflicts_with = "engine")]
    net: Option<PathBuf>,
    /// How it is asked: policy, value or action-value. The best that it can if not given, which is the last of these
    #[arg(long, value_name = "METHOD", requires = "net")]
    by: Option<Method>,
    /// Puzzles at once
    #[arg(long, default_value_t = 1, value_name = "N")]
    concurrency: usize,
    /// Only so many puzzles, drawn at random
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Seed of the draw
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Width of the rating bands
    #[arg(long, default_value_t = 200, value_name = "ELO")]
    band: u32,
    /// Say what came of every puzzle
    #[arg(long, short)]
    verbose: bool,
    /// Write the results for machines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with a plot
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &PuzzlesArgs) -> Result<(), LabError> {
    let mut puzzles = read_puzzles(&args.file)?;
    if let Some(limit) = args.limit {
        SplitMix::new(args.seed).shuffle(&mut puzzles);
        puzzles.truncate(limit);
    }
    let cancel = interrupt::flag();
    let solver = Solver::new(args, &cancel)?;
    let name = solver.name()?;
    let make = || solver.analyst();
    let mut progress = Progress::new(puzzles.len(), args.verbose);
    let (limits, threads) = (solver.limits(), solver.threads());
    let results = run_puzzles(&puzzles, &limits, args.concurrency, threads, &make, &cancel, |result| {
        progress.add(result);
    })?;
    progress.clear();

    let solved = results.iter().filter(|result| result.solved).count();
    let share = 100.0 * solved as f64 / results.len().max(1) as f64;
    let (low, high) = wilson(solved as u64, results.len() as u64);
    let title = format!("{name}, {}: {solved} of {} puzzles ({share:.2} %)", solver.how(), results.len());
    sayln!("{title}, 95 % [{:.2}, {:.2}]", 100.0 * low, 100.0 * high);
    let bands = bands(&results, args.band);
    for band in &bands {
        sayln!("{}", band_line(band));
    }
    let performance = performance(&results);
    if let Some(rating) = performance {
        sayln!("performance {rating:.0}");
    }
    if results.len() < puzzles.len() {
        let (done, all) = (results.len(), puzzles.len());
        return Err(LabError::Interrupted(format!(
            "stopped after {done} of {all} puzzles; no file is written"
        )));
    }
    let faults = results.iter().filter_map(|result| {
        let what = result.failure.as_ref().map_or("", |(_, what)| what);
        Some((result.unanswered?, result.id.as_str(), what))
    });
    unanswered::tell(results.len(), faults)?;
    if let Some(path) = &args.json {
        let value = json!({
            "engine": name, "limits": solver.how(), "solved": solved, "puzzles": results.len(),
            "low": low, "high": high, "performance": performance, "bands": bands, "results": results,
        });
        let text = format!("{value:#}\n");
        write_whole(path, text.as_bytes()).map_err(LabError::file(path))?;
    }
    if let Some(path) = &args.html {
        let bars = bands.iter().map(|band| {
            let name = format!("{}-{} ({})", band.from, band.to - 1, band.puzzles);
            (name, (1000.0 * band.accuracy()).round() / 10.0)
        });
        let chart = bar_chart("Solved by rating, in %", &BarChart { bars: bars.collect() });
        write_whole(path, simple_page(&title, &chart).as_bytes()).map_err(LabError::file(path))?;
    }
    Ok(())
}

/// Who solves puzzles.
enum Solver {
    /// An engine, which searches.
    Engine(Box<Engine>),
    /// A transformer, which does not.
    Network(Box<Strategist>),
}

impl Solver {
    fn new(args: &PuzzlesArgs, cancel: &Arc<AtomicBool>) -> Result<Self, LabError> {
        if let Some(path) = &args.net {
            return Ok(Self::Network(Box::new(Strategist::load(path, args.by, cancel)?)));
        }
        let limits = TimeLimit::PerMove(Duration::from_millis(100));
        Ok(Self::Engine(Box::new(Engine::new(args.engine.as_deref(), limits, cancel)?)))
    }

    fn name(&self) -> Result<String, LabError> {
        Ok(self.analyst()?.name().to_owned())
    }

    /// What it may spend on a move, or how it is asked.
    fn how(&self) -> String {
        match self {
            Self::Engine(engine) => engine.spec.limits.to_string(),
            Self::Network(strategist) => format!("by {} without search", strategist.method()),
        }
    }

    fn limits(&self) -> Limits {
        match self {
            Self::Engine(engine) => engine.spec.limits,
            Self::Network(_) => Limits::default(),
        }
    }

    fn threads(&self) -> usize {
        match self {
            Self::Engine(engine) => engine.spec.threads(),
            Self::Network(_) => 1,
        }
    }

    /// One of those who solve at once.
    fn analyst(&self) -> Result<Box<dyn Analyst>, StartError> {
        match self {
            Self::Engine(engine) => engine.analyst(),
            Self::Network(strategist) => {
                let twin = strategist.twin().map_err(|error| StartError::Inside {
                    engine: strategist.name().to_owned(),
                    what: error.to_string(),
                })?;
                Ok(Box::new(twin))
            }
        }
    }
}

fn band_line(band: &Band) -> String {
    let filled = (band.accuracy() * 40.0).round() as usize;
    format!(
        "{:>5}-{:<5} {}{} {:6.2} %  [{:5.1}, {:5.1}]  {}/{}",
        band.from,
        band.to - 1,
        "█".repeat(filled),
        "░".repeat(40 - filled.min(40)),
        100.0 * band.accuracy(),
        100.0 * band.low,
        100.0 * band.high,
        band.solved,
        band.puzzles
    )
}

/// A line that counts, on a terminal.
struct Progress {
    total: usize,
    done: usize,
    solved: usize,
    verbose: bool,
    terminal: bool,
}

impl Progress {
    fn new(total: usize, verbose: bool) -> Self {
        Self { total, done: 0, solved: 0, verbose, terminal: std::io::stderr().is_terminal() }
    }

    fn add(&mut self, result: &PuzzleResult) {
        self.done += 1;
        self.solved += usize::from(result.solved);
        if self.verbose {
            let how = match &result.failure {
                None => "solved".into(),
                Some((right, what)) => format!("failed after {right} right moves: {what}"),
            };
            sayln!("{} ({}) {how}", result.id, result.rating);
        } else if self.terminal {
            tell!("\r{}/{} puzzles, {} solved ", self.done, self.total, self.solved);
        } else if self.done.is_multiple_of(1000) {
            tellln!("{}/{} puzzles, {} solved", self.done, self.total, self.solved);
        }
    }

    fn clear(&self) {
        if self.terminal && !self.verbose {
            tell!("\r\x1b[K");
        }
    }
}
