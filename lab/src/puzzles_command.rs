//! `tandem-lab puzzles`: solves Lichess puzzles with an engine or a transformer, and estimates a puzzle
//! rating.

use crate::strategist_player::Strategist;
use crate::{engine_args::Engine, error::LabError, interrupt, unanswered};
use clap::Args;
use serde_json::json;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::{Arc, atomic::AtomicBool};
use std::time::Duration;
use tandem_arena::{
    Analyst, EngineLimits, StartError, TimeLimit,
    puzzles::{PuzzleResult, RatingBand, bands, performance_rating, read_puzzles, run_puzzles, wilson},
    report::{bar_chart, simple_page},
};
use tandem_transformer::Method;
use tandem_util::{output::write_atomically, random::SplitMix};

/// Solve Lichess puzzles with an engine or a transformer, and estimate a puzzle rating
///
/// A puzzle is solved if every move of the solver is the expected one; any move that mates counts too.
#[derive(Args, Debug)]
pub(crate) struct PuzzlesArgs {
    /// Puzzle file: CSV as Lichess publishes it, with the columns PuzzleId, FEN, Moves and Rating, plain or
    /// compressed
    file: PathBuf,
    /// Engine that solves the puzzles, in the syntax of `match --engine`, for example
    /// cmd=stockfish,nodes=10000; without a limit it thinks 0.1 s per move (default: Tandem's own engine)
    #[arg(long, value_name = "SPEC")]
    engine: Option<String>,
    /// Transformer that solves the puzzles instead of an engine, without search: a file in .ttn, .safetensors
    /// or .pb.gz format
    #[arg(long, value_name = "FILE", conflicts_with = "engine")]
    net: Option<PathBuf>,
    /// Output by which the transformer chooses moves: policy (probability of each move), value (of the
    /// position after each move) or action-value (of each move); default: the last of these that the network
    /// has
    #[arg(long, value_name = "METHOD", requires = "net")]
    by: Option<Method>,
    /// Number of puzzles solved at the same time, each by its own copy of the engine
    #[arg(long, default_value_t = 1, value_name = "N")]
    concurrency: usize,
    /// Number of puzzles to solve, drawn at random (default: all, in the order of the file)
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Seed of the random draw of --limit
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Width in Elo of the rating bands by which the results are listed
    #[arg(long, default_value_t = 200, value_name = "ELO")]
    band: u32,
    /// Print the result of every puzzle, with the first wrong move
    #[arg(long, short)]
    verbose: bool,
    /// Write the results of all puzzles as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write an HTML page with a plot of the fraction solved by rating band to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
///
/// When the puzzles cannot be read, the engine or the network fails, or the run is interrupted.
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
    let percentage = 100.0 * solved as f64 / results.len().max(1) as f64;
    let (low, high) = wilson(solved as u64, results.len() as u64);
    let title =
        format!("{name}, {}: {solved} of {} puzzles ({percentage:.2} %)", solver.settings(), results.len());
    outln!("{title}, 95 % [{:.2}, {:.2}]", 100.0 * low, 100.0 * high);
    let bands = bands(&results, args.band);
    for band in &bands {
        outln!("{}", band_line(band));
    }
    let performance = performance_rating(&results);
    if let Some(rating) = performance {
        outln!("performance {rating:.0}");
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
    unanswered::report(results.len(), faults)?;
    if let Some(path) = &args.json {
        let value = json!({
            "engine": name, "limits": solver.settings(), "solved": solved, "puzzles": results.len(),
            "low": low, "high": high, "performance": performance, "bands": bands, "results": results,
        });
        let text = format!("{value:#}\n");
        write_atomically(path, text.as_bytes()).map_err(LabError::file(path))?;
    }
    if let Some(path) = &args.html {
        let bars = bands.iter().map(|band| {
            let name = format!("{}-{} ({})", band.from, band.to - 1, band.puzzles);
            (name, (1000.0 * band.accuracy()).round() / 10.0)
        });
        let chart = bar_chart("Solved by rating, in %", &bars.collect::<Vec<_>>());
        write_atomically(path, simple_page(&title, &chart).as_bytes()).map_err(LabError::file(path))?;
    }
    Ok(())
}

/// The player that solves puzzles.
enum Solver {
    /// An engine, which searches.
    Engine(Box<Engine>),
    /// A transformer, which does not search.
    Network(Box<Strategist>),
}

impl Solver {
    fn new(args: &PuzzlesArgs, cancel: &Arc<AtomicBool>) -> Result<Self, LabError> {
        if let Some(path) = &args.net {
            let command = format!("puzzles {}", args.file.display());
            return Ok(Self::Network(Box::new(Strategist::load(path, args.by, &command, cancel)?)));
        }
        let limits = TimeLimit::PerMove(Duration::from_millis(100));
        Ok(Self::Engine(Box::new(Engine::new(args.engine.as_deref(), limits, cancel)?)))
    }

    fn name(&self) -> Result<String, LabError> {
        Ok(self.analyst()?.name().to_owned())
    }

    /// The limits of an engine, or the method of a transformer, for the report.
    fn settings(&self) -> String {
        match self {
            Self::Engine(engine) => engine.spec.limits.to_string(),
            Self::Network(strategist) => format!("by {} without search", strategist.method()),
        }
    }

    fn limits(&self) -> EngineLimits {
        match self {
            Self::Engine(engine) => engine.spec.limits,
            Self::Network(_) => EngineLimits::default(),
        }
    }

    fn threads(&self) -> usize {
        match self {
            Self::Engine(engine) => engine.spec.threads(),
            Self::Network(_) => 1,
        }
    }

    /// A new instance for one of the concurrent workers.
    fn analyst(&self) -> Result<Box<dyn Analyst>, StartError> {
        match self {
            Self::Engine(engine) => engine.analyst(),
            Self::Network(strategist) => {
                let player = strategist.try_clone().map_err(|error| StartError::InProcess {
                    engine: strategist.name().to_owned(),
                    what: error.to_string(),
                })?;
                Ok(Box::new(player))
            }
        }
    }
}

fn band_line(band: &RatingBand) -> String {
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

/// A counter on one line of the terminal, or a line every 1000 puzzles elsewhere.
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
            outln!("{} ({}) {how}", result.id, result.rating);
        } else if self.terminal {
            err!("\r{}/{} puzzles, {} solved ", self.done, self.total, self.solved);
        } else if self.done.is_multiple_of(1000) {
            errln!("{}/{} puzzles, {} solved", self.done, self.total, self.solved);
        }
    }

    fn clear(&self) {
        if self.terminal && !self.verbose {
            err!("\r\x1b[K");
        }
    }
}
