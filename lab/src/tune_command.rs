//! `tandem-lab tune`.

mod chart;

use crate::data_command::default_threads;
use crate::error::LabError;
use crate::interrupt;
use crate::judge::judge;
use crate::progress::Progress;
use crate::table::Table;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tandem_chess::output;
use tandem_search::params::{Param, TABLE};
use tandem_selfplay::{Adjudication, GameSettings, Openings, Plan, Tuned, Tuning, tune};

/// Tune the search's numbers by games of the engine against itself (SPSA)
///
/// Each pair of games is a trial: all numbers are moved at once, each up or down by chance, and the settings on either side
/// play one opening with colours swapped. The winner draws the numbers its way. Needs a program with numbers that can be
/// turned: cargo build --release -p tandem-lab --features tune. Killed or interrupted, the same command goes on where it was.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct TuneArgs {
    /// Folder for the journal (tune.journal) and the numbers' courses (tune.svg)
    folder: PathBuf,
    /// Show how far the tuning in this folder has come, and play nothing
    #[arg(long)]
    show: bool,
    /// Games to play, in whole trials
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=Plan::MOST_GAMES / 2))]
    games: u64,
    /// Numbers to tune, separated by commas; lmr_* is all whose names begin like that. All that matter at fixed nodes if
    /// not given: no switches, and nothing of time or of what is switched off
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Tune the numbers named in this file, one at the beginning of each line, as in the search's table
    #[arg(long, value_name = "FILE", conflicts_with = "only")]
    names: Option<PathBuf>,
    /// Nodes of each move
    #[arg(long, default_value_t = 2000)]
    nodes: u64,
    /// Pairs of games in a trial
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pairs: u64,
    /// How far a game moves the numbers at the end, in steps of the table
    #[arg(long, default_value_t = 0.002)]
    rate: f64,
    /// What chance starts from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Evaluate with this network, or by hand-written rules if it is `bootstrap`, instead of the network built in
    #[arg(long)]
    net: Option<String>,
    /// Games at a time
    #[arg(long)]
    workers: Option<usize>,
    /// MiB of hash table for each side
    #[arg(long, default_value_t = 4)]
    hash: usize,
    /// Opening book: lines of EPD or FEN, plain or compressed with zstd or gzip
    #[arg(long, value_name = "FILE")]
    openings: Option<PathBuf>,
    /// Random plies after the start; 8 without a book, none with one, and one more for half of the games
    #[arg(long)]
    random_plies: Option<usize>,
}

const EXAMPLES: &str = "Examples:
  tandem-lab tune tunings/1 --openings UHO_4060_v3.epd.zst --games 20000 --workers 2
  tandem-lab tune tunings/lmr --only 'lmr_*,deeper_base' --nodes 5000 --net net.tnn
  tandem-lab tune tunings/1 --show";

/// The numbers that games at fixed nodes say nothing of: switches, time, and the strategist, who is
/// not asked.
const MUTE: [&str; 3] = ["use_", "tm_", "counsel_"];
/// Time between two drawings while games are played.
const PAUSE: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &TuneArgs) -> Result<(), LabError> {
    let journal = args.folder.join("tune.journal");
    if args.show {
        return show(&Tuning::read(&journal)?, &args.folder);
    }
    if !(args.rate.is_finite() && args.rate > 0.0) {
        return Err(LabError::Usage("--rate must be a number above 0".into()));
    }
    let (factory, told) = judge(args.net.as_deref())?;
    let mut openings = Openings::default();
    if let Some(book) = &args.openings {
        openings.read_book(book)?;
        openings.random_plies = 0;
    }
    openings.random_plies = args.random_plies.unwrap_or(openings.random_plies);
    let games = GameSettings {
        factory,
        judge: told,
        nodes: args.nodes.max(1),
        hash: args.hash.max(1),
        openings,
        adjudication: Adjudication { win_score: 1000, ..Adjudication::default() },
    };
    let plan = Plan {
        numbers: args.numbers()?,
        iterations: args.games.div_ceil(2 * args.pairs),
        pairs: args.pairs,
        rate: args.rate,
        seed: args.seed,
        conditions: games.conditions(),
    };
    std::fs::create_dir_all(&args.folder).map_err(LabError::file(&args.folder))?;
    let mut progress = Progress::new("games", Some(plan.games()));
    let (mut begun, mut drawn) = (false, Instant::now());
    let mut watch = |tuning: &Tuning| {
        let done = tuning.points().games();
        if !std::mem::replace(&mut begun, true) {
            progress.resume(done);
        }
        progress.set(done);
        if drawn.elapsed() >= PAUSE {
            drawn = Instant::now();
            // Where it cannot be drawn now, the end will say so.
            let _ = draw(tuning, &args.folder);
        }
    };
    let workers = args.workers.unwrap_or_else(default_threads);
    let tuning = tune(plan, &games, workers, &journal, &interrupt::flag(), &mut watch)?;
    sayln!("{}; judged by {}", progress.finish(), games.judge);
    show(&tuning, &args.folder)?;
    if !tuning.is_finished() {
        return Err(LabError::interrupted());
    }
    Ok(())
}

impl TuneArgs {
    /// The rows of the table that are to be tuned.
    fn numbers(&self) -> Result<Vec<Tuned>, LabError> {
        let names = match &self.names {
            Some(path) => names_of(&std::fs::read_to_string(path).map_err(LabError::file(path))?),
            None => self.only.clone(),
        };
        if names.is_empty() && self.names.is_none() {
            let heard = |param: &&Param| !MUTE.iter().any(|mute| param.name.starts_with(mute));
            return Ok(TABLE.iter().filter(heard).map(Tuned::new).collect());
        }
        let is = |param: &Param, name: &str| match name.strip_suffix('*') {
            Some(beginning) => param.name.starts_with(beginning),
            None => param.name == name,
        };
        if let Some(unknown) = names.iter().find(|name| !TABLE.iter().any(|param| is(param, name))) {
            return Err(LabError::Usage(format!("the search has no number '{unknown}'")));
        }
        let wanted = |param: &&Param| names.iter().any(|name| is(param, name));
        let numbers: Vec<Tuned> = TABLE.iter().filter(wanted).map(Tuned::new).collect();
        if numbers.is_empty() {
            return Err(LabError::Usage("the file names no number to tune".into()));
        }
        Ok(numbers)
    }
}

/// The first word of each line that is no comment.
fn names_of(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#') && !line.starts_with("//"));
    let name = |line: &str| line.split(|c: char| c.is_whitespace() || c == '=').next().map(String::from);
    lines.filter_map(name).filter(|name| !name.is_empty()).collect()
}

fn draw(tuning: &Tuning, folder: &Path) -> Result<PathBuf, LabError> {
    let path = folder.join("tune.svg");
    output::write_whole(&path, chart::courses(tuning).as_bytes()).map_err(LabError::file(&path))?;
    Ok(path)
}

/// Tells where the numbers are, and draws how they came there.
fn show(tuning: &Tuning, folder: &Path) -> Result<(), LabError> {
    let (plan, points) = (tuning.plan(), tuning.points());
    let mut table = Table::new(&["number", "start", "now", "range", "steps"]);
    for (number, &value) in plan.numbers.iter().zip(tuning.values()) {
        table.push(vec![
            number.name.clone(),
            number.start.to_string(),
            format!("{value:.1}"),
            format!("{}..={}", number.min, number.max),
            format!("{:+.2}", number.steps(value)),
        ]);
    }
    say!("{}", table.text());
    sayln!("\nfor crates/search/src/params.rs:");
    for (number, &value) in plan.numbers.iter().zip(tuning.values()) {
        sayln!("    {}", number.row(value));
    }
    sayln!(
        "\n{} of {} games; sides moved up or down by chance won {}, drew {} and lost {} of them",
        points.games(),
        plan.games(),
        points.wins,
        points.draws,
        points.losses
    );
    sayln!("courses: {}", draw(tuning, folder)?.display());
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
        Ok(cli.args.numbers()?.into_iter().map(|number| number.name).collect())
    }

    #[test]
    fn numbers_are_chosen_by_name() {
        assert_eq!(chosen("--only=rfp_margin,asp_*").unwrap().len(), 4);
        assert!(chosen("--only=rfp_margins").unwrap_err().to_string().contains("'rfp_margins'"));
        let all = chosen("--games=2").unwrap();
        assert!(all.len() > 80 && all.iter().all(|name| !name.starts_with("tm_")));
    }

    #[test]
    fn a_piece_of_the_table_names_its_numbers() {
        let text =
            "    // --- Late moves.\n    lmp_base = 3 in 1..=8, step 1;\n\n# more\nlmp_factor\nsee_*  x\n";
        assert_eq!(names_of(text), ["lmp_base", "lmp_factor", "see_*"]);
    }
}
