//! `tandem-lab compliance`: strict checks of a UCI engine.

use crate::{error::LabError, interrupt, table::Table};
use clap::Args;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tandem_arena::compliance::{Check, Compliance, Report};
use tandem_arena::{EngineLimits, EngineSpec, TimeLimit, Timeouts};
use tandem_util::output::write_atomically;

/// Check an engine strictly against the UCI protocol and itself
///
/// Starts the engine and asks it about random positions, finished games and Chess960, with little time, with
/// several lines (MultiPV), with `stop` at random moments and with options at their bounds; then it plays games
/// against itself. Every line that it prints is checked: moves and lines are legal, mates are mates, lines are
/// in order, the best move is that of the first line, `readyok` and moves come in time, memory does not grow.
/// Ends with exit status 1 if a check failed.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ComplianceArgs {
    /// Engine to check, in the syntax of `match --engine`; a path alone is short for cmd=PATH. Its limits are
    /// those of the games (default: tc=1+0.01)
    #[arg(value_name = "ENGINE")]
    engine: String,
    /// Number of searches of random positions
    #[arg(long, default_value_t = 500, value_name = "N")]
    searches: usize,
    /// Number of games of the engine against itself, a third of them Chess960 if it plays that
    #[arg(long, default_value_t = 20, value_name = "N")]
    games: usize,
    /// Number of games played at the same time
    #[arg(long, default_value_t = 1, value_name = "N")]
    concurrency: usize,
    /// Seed of positions, limits and option values
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Longest time until `readyok` during a search, in milliseconds
    #[arg(long, default_value_t = 100, value_name = "MS")]
    ready: u64,
    /// The engine is weakened on purpose by an option, so its move need not be that of its first line
    #[arg(long)]
    weakened: bool,
    /// Do not set this option, for example because one of its values needs a file; may be repeated
    #[arg(long, value_name = "NAME")]
    skip_option: Vec<String>,
    /// Write the results as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  tandem-lab compliance stockfish
  tandem-lab compliance cmd=./tandem,option.Threads=4,tc=1+0.01,margin=50 --games 1000 --concurrency 2";

/// Runs the command.
///
/// # Errors
///
/// When the engine cannot be started, when a check fails, or when the run is interrupted.
pub(crate) fn run(args: &ComplianceArgs) -> Result<(), LabError> {
    let text = if args.engine.contains('=') { args.engine.clone() } else { format!("cmd={}", args.engine) };
    let mut spec = EngineSpec::parse(&text, "")?;
    if spec.is_in_process() {
        return Err(LabError::Usage(
            "only an engine with a process of its own speaks UCI; give its path".into(),
        ));
    }
    if !spec.limits.is_bounded() {
        let time = TimeLimit::Clock {
            base: Duration::from_secs(1),
            increment: Duration::from_millis(10),
            moves: None,
        };
        spec.limits = EngineLimits { time, ..spec.limits };
    }
    let compliance = Compliance {
        margin: spec.limits.margin,
        spec,
        searches: args.searches,
        games: args.games,
        concurrency: args.concurrency,
        seed: args.seed,
        ready: Duration::from_millis(args.ready),
        timeouts: Timeouts::default(),
        weakened: args.weakened,
        skip_options: args.skip_option.clone(),
    };
    let cancel = interrupt::flag();
    let report = compliance.run(&cancel, &|report: &Report| {
        let (searches, games, failures) = (report.searches, report.games, report.failures());
        errln!("{searches} searches, {games} games, {failures} failures");
    })?;
    print(&report);
    if let Some(path) = &args.json {
        let json = serde_json::to_vec_pretty(&report).map_err(|error| LabError::Usage(error.to_string()))?;
        write_atomically(path, &json).map_err(LabError::file(path))?;
    }
    if cancel.load(Ordering::Relaxed) {
        return Err(LabError::Interrupted("stopped before the end; the checks so far are above".into()));
    }
    match report.failures() {
        0 => Ok(()),
        failures => Err(LabError::Usage(format!("{} failed {failures} checks", report.engine))),
    }
}

fn print(report: &Report) {
    let mut table = Table::new(&["check", "made", "failed", ""]);
    for check in Check::ALL {
        let Some(tally) = report.checks.get(&check) else { continue };
        let figure = match (tally.largest, check.unit()) {
            (Some(value), Some(unit)) => format!("{value:.1} {unit}"),
            _ if check.is_advice() && tally.failed > 0 => "advice, not counted".into(),
            _ => String::new(),
        };
        table.push(vec![check.title().into(), tally.made.to_string(), tally.failed.to_string(), figure]);
    }
    outln!(
        "{}: {} searches, {} info lines, {} games",
        report.engine,
        report.searches,
        report.infos,
        report.games
    );
    out!("{}", table.text());
    for (check, tally) in &report.checks {
        for example in &tally.examples {
            outln!("{}: {}", check.title(), example.trim_end().replace('\n', "; "));
        }
    }
}
