//! `tandem-lab tune`: tunes search parameters with SPSA over self-play games at fixed nodes.

mod chart;

use crate::data_command::default_threads;
use crate::error::LabError;
use crate::evaluator::evaluator;
use crate::interrupt;
use crate::progress::Progress;
use crate::table::Table;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tandem_search::params::{Param, TABLE};
use tandem_selfplay::{Adjudication, GameSettings, Openings, TunedParameter, Tuning, TuningPlan, tune};
use tandem_util::output;

/// Tune search parameters by self-play games (SPSA)
///
/// SPSA (simultaneous perturbation stochastic approximation) works in iterations. Each iteration perturbs all
/// parameters at once, each randomly up or down, and lets the two opposite settings play pairs of games; both
/// games of a pair have the same opening, with colours swapped. Then all parameters move towards those of the
/// setting that won more games. Needs a build with tunable parameters: cargo build --release -p tandem-lab
/// --features tune. When killed or interrupted, the same command resumes where it stopped.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct TuneArgs {
    /// Folder of this tuning, which is created if needed; it holds the journal of all iterations
    /// (tune.journal) and a chart of the parameters (tune.svg)
    folder: PathBuf,
    /// Print the current values of the tuning in this folder, and draw the chart, without playing games
    #[arg(long)]
    show: bool,
    /// Total number of games, rounded up to whole iterations of 2 x --pairs games
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=TuningPlan::MAX_GAMES / 2))]
    games: u64,
    /// Names of the parameters to tune, separated by commas; lmr_* stands for all whose names begin with lmr_
    ///
    /// By default, all parameters that have an effect at a fixed number of nodes: no switches of features,
    /// and no parameters of time management or of disabled features. crates/search/src/params.rs has the
    /// table of parameters.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// File with the names of the parameters to tune, the first word of each line; the rest of the line is
    /// ignored, so that rows copied from the table in crates/search/src/params.rs can be used
    #[arg(long, value_name = "FILE", conflicts_with = "only")]
    names: Option<PathBuf>,
    /// Exact number of nodes that each side searches per move
    #[arg(long, default_value_t = 2000)]
    nodes: u64,
    /// Pairs of games that each iteration plays with the same two settings
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pairs: u64,
    /// Learning rate at the end of the tuning: the change of a parameter for each game won more than lost, as
    /// a multiple of the parameter's step in the table of crates/search/src/params.rs; the rate is greater at
    /// the start
    #[arg(long, default_value_t = 0.002)]
    rate: f64,
    /// Seed of the random perturbations and of the choice of openings
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// NNUE file to evaluate with, or `bootstrap` for the hand-written evaluation (default: the built-in
    /// network)
    #[arg(long)]
    net: Option<String>,
    /// Number of games played at the same time (default: one per CPU core)
    #[arg(long)]
    workers: Option<usize>,
    /// Size of the hash table (transposition table) of each of the two players, in MiB
    #[arg(long, default_value_t = 4)]
    hash: usize,
    /// Opening book: EPD or FEN lines, plain or compressed with zstd or gzip (default: the standard start
    /// position with random plies)
    #[arg(long, value_name = "FILE")]
    openings: Option<PathBuf>,
    /// Number of random plies played after the opening (the start position or the position of --openings),
    /// and one more in half of the games (default: 8 without a book, 0 with one)
    #[arg(long)]
    random_plies: Option<usize>,
}

const EXAMPLES: &str = "Examples:
  tandem-lab tune tunings/1 --openings UHO_4060_v3.epd.zst --games 20000 --workers 2
  tandem-lab tune tunings/lmr --only 'lmr_*,deeper_base' --nodes 5000 --net net.tnn
  tandem-lab tune tunings/1 --show";

/// Prefixes of the parameters that games at fixed nodes cannot measure: switches, time management, and the
/// strategist, which is not queried.
const EXCLUDED: [&str; 3] = ["use_", "tm_", "strategist_"];
/// Time between two updates of the chart while games are played.
const PAUSE: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &TuneArgs) -> Result<(), LabError> {
    let journal = args.folder.join("tune.journal");
    if args.show {
        return show(&Tuning::read(&journal)?, &args.folder);
    }
    if !(args.rate.is_finite() && args.rate > 0.0) {
        return Err(LabError::Usage("--rate must be positive and finite".into()));
    }
    let (factory, description) = evaluator(args.net.as_deref())?;
    let mut openings = Openings::default();
    if let Some(book) = &args.openings {
        openings.read_book(book)?;
        openings.random_plies = 0;
    }
    openings.random_plies = args.random_plies.unwrap_or(openings.random_plies);
    let games = GameSettings {
        factory,
        evaluator: description,
        nodes: args.nodes.max(1),
        hash: args.hash.max(1),
        openings,
        adjudication: Adjudication { win_score: 1000, ..Adjudication::default() },
    };
    let plan = TuningPlan {
        parameters: args.parameters()?,
        iterations: args.games.div_ceil(2 * args.pairs),
        pairs: args.pairs,
        r_end: args.rate,
        seed: args.seed,
        conditions: games.conditions(),
    };
    std::fs::create_dir_all(&args.folder).map_err(LabError::file(&args.folder))?;
    let mut progress = Progress::new("games", Some(plan.games()));
    let (mut begun, mut drawn) = (false, Instant::now());
    let mut watch = |tuning: &Tuning| {
        let done = tuning.results().games();
        if !std::mem::replace(&mut begun, true) {
            tuning.notices().iter().for_each(|notice| errln!("{notice}"));
            progress.resume(done);
        }
        progress.set(done);
        if drawn.elapsed() >= PAUSE {
            drawn = Instant::now();
            // If the chart cannot be written now, the error is reported at the end.
            let _ = draw(tuning, &args.folder);
        }
    };
    let workers = args.workers.unwrap_or_else(default_threads);
    let tuning = tune(plan, &games, workers, &journal, &interrupt::flag(), &mut watch)?;
    outln!("{}; evaluated by {}", progress.finish(), games.evaluator);
    show(&tuning, &args.folder)?;
    if !tuning.is_finished() {
        return Err(LabError::interrupted());
    }
    Ok(())
}

impl TuneArgs {
    /// The entries of the parameter table that are to be tuned.
    fn parameters(&self) -> Result<Vec<TunedParameter>, LabError> {
        let names = match &self.names {
            Some(path) => names_of(&std::fs::read_to_string(path).map_err(LabError::file(path))?),
            None => self.only.clone(),
        };
        if names.is_empty() && self.names.is_none() {
            let is_tunable = |param: &&Param| !EXCLUDED.iter().any(|prefix| param.name.starts_with(prefix));
            return Ok(TABLE.iter().filter(is_tunable).map(TunedParameter::new).collect());
        }
        if let Some(unknown) = names.iter().find(|name| !TABLE.iter().any(|param| param.matches(name))) {
            return Err(LabError::Usage(format!("the search has no parameter '{unknown}'")));
        }
        let wanted = |param: &&Param| names.iter().any(|name| param.matches(name));
        let parameters: Vec<TunedParameter> = TABLE.iter().filter(wanted).map(TunedParameter::new).collect();
        if parameters.is_empty() {
            return Err(LabError::Usage("the file names no parameter to tune".into()));
        }
        Ok(parameters)
    }
}

/// The first word of each line that is not a comment.
fn names_of(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#') && !line.starts_with("//"));
    let name = |line: &str| line.split(|c: char| c.is_whitespace() || c == '=').next().map(String::from);
    lines.filter_map(name).filter(|name| !name.is_empty()).collect()
}

fn draw(tuning: &Tuning, folder: &Path) -> Result<PathBuf, LabError> {
    let path = folder.join("tune.svg");
    output::write_atomically(&path, chart::courses(tuning).as_bytes()).map_err(LabError::file(&path))?;
    Ok(path)
}

/// Prints the current values of the parameters, and draws their course.
fn show(tuning: &Tuning, folder: &Path) -> Result<(), LabError> {
    let (plan, points) = (tuning.plan(), tuning.results());
    let mut table = Table::new(&["parameter", "start", "now", "range", "steps"]);
    for (parameter, &value) in plan.parameters.iter().zip(tuning.values()) {
        table.push(vec![
            parameter.name.clone(),
            parameter.start.to_string(),
            format!("{value:.1}"),
            format!("{}..={}", parameter.min, parameter.max),
            format!("{:+.2}", parameter.steps_from_start(value)),
        ]);
    }
    out!("{}", table.text());
    outln!("\nfor crates/search/src/params.rs:");
    for (parameter, &value) in plan.parameters.iter().zip(tuning.values()) {
        outln!("    {}", parameter.table_row(value));
    }
    outln!(
        "\n{} of {} games; the plus side of the perturbations won {}, drew {} and lost {}",
        points.games(),
        plan.games(),
        points.wins,
        points.draws,
        points.losses
    );
    outln!("chart: {}", draw(tuning, folder)?.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: TuneArgs,
    }

    fn chosen(only: &str) -> Result<Vec<String>, LabError> {
        let cli = Cli::parse_from(["tune", "folder", only]);
        Ok(cli.args.parameters()?.into_iter().map(|parameter| parameter.name).collect())
    }

    #[test]
    fn parameters_are_chosen_by_name() {
        assert_eq!(chosen("--only=rfp_margin,asp_*").unwrap().len(), 4);
        assert!(chosen("--only=rfp_margins").unwrap_err().to_string().contains("'rfp_margins'"));
        let all = chosen("--games=2").unwrap();
        assert!(all.len() > 80 && all.iter().all(|name| !name.starts_with("tm_")));
    }

    #[test]
    fn a_part_of_the_table_names_its_parameters() {
        let text =
            "    // --- Late moves.\n    lmp_base = 3 in 1..=8, step 1;\n\n# more\nlmp_factor\nsee_*  x\n";
        assert_eq!(names_of(text), ["lmp_base", "lmp_factor", "see_*"]);
    }
}
