//! Subcommands that make data: `selfplay` plays games with our search, `label` scores positions with our
//! search or a transformer.

use super::{ErrorChoice, FormatArgs, default_threads, fail_on_lost_files, relabel, with_rest_remark};
use crate::device::Device;
use crate::error::LabError;
use crate::evaluator::{ensemble, evaluator};
use crate::interrupt;
use crate::plural::counted;
use crate::progress::Progress;
use clap::Args;
use std::path::{Path, PathBuf};
use tandem_data::BagKind;
use tandem_selfplay::*;

/// Play games of the engine against itself, and save their positions as training data
///
/// Each worker (a thread that plays one game at a time) writes a viriformat file of its own, STEM-W-of-N.vf,
/// whose name ends in .part until all games are played. When killed or interrupted, the same command resumes;
/// at most the current game of each worker is lost. The same seed gives the same games.
#[derive(Args, Debug)]
pub(crate) struct SelfplayArgs {
    /// Path of the output files without the ending, for example data/run1 for data/run1-0-of-4.vf
    stem: PathBuf,
    /// Total number of games, over all workers
    #[arg(long, default_value_t = 1000)]
    games: u64,
    /// Soft node limit of each move: the search starts no new iteration after this number of nodes, so it
    /// finishes the one in progress
    #[arg(long, default_value_t = 5000)]
    nodes: u64,
    /// Seed of the random openings; the same one gives the same games
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// NNUE file to evaluate with, or `bootstrap` for the hand-written evaluation (default: the built-in
    /// network)
    #[arg(long)]
    net: Option<String>,
    /// Number of games played at the same time, each on a thread of its own (default: one per core)
    #[arg(long)]
    workers: Option<usize>,
    /// Size of each worker's hash table, in MiB
    #[arg(long, default_value_t = 4)]
    hash: usize,
    /// Start from random positions of this book, a file of EPD or FEN lines (default: from the standard
    /// position)
    #[arg(long)]
    book: Option<PathBuf>,
    /// Start from random positions of double Chess960, in which White and Black have different back ranks
    #[arg(long, conflicts_with = "book")]
    dfrc: bool,
    /// Number of random plies played after the start position, and one more in half of the games, so that
    /// both sides begin; 0 for none
    #[arg(long, default_value_t = 8)]
    random_plies: usize,
    /// Discard an opening if the score after its random plies is further from 0 than this, in centipawns
    #[arg(long, default_value_t = 400)]
    max_opening_score: i32,
    /// Score in centipawns from which a side is winning: the game ends if both sides' scores agree on it for
    /// four plies in a row
    #[arg(long, default_value_t = Adjudication::default().win_score)]
    win_score: i32,
}

/// Shows progress of work that may be resumed; earlier work does not count towards the speed.
pub(super) struct LabelProgress {
    progress: Progress,
    started: bool,
}

impl LabelProgress {
    pub(super) fn new(what: &'static str, total: Option<u64>) -> Self {
        Self { progress: Progress::new(what, total), started: false }
    }

    /// Sets the total that is done, `now` of which was done just now.
    pub(super) fn set(&mut self, done: u64, now: u64) {
        if !std::mem::replace(&mut self.started, true) {
            self.progress.resume(done.saturating_sub(now));
        }
        self.progress.set(done);
    }

    /// Prints the summary of labelling. Fails if it was interrupted or some files could not be read to their
    /// end.
    pub(super) fn finish(self, method: &str, target: &Path, report: &LabelReport) -> Result<(), LabError> {
        outln!("{}; {method}", self.progress.finish());
        report.notices.iter().for_each(|notice| errln!("{notice}"));
        if !report.finished {
            return Err(LabError::interrupted());
        }
        let rest = with_rest_remark(report.with_rest);
        if report.written == 0 {
            return Err(LabError::Usage(format!(
                "{}: no record is left to be written ({} skipped{rest}); the file was not created",
                target.display(),
                report.skipped
            )));
        }
        let records = counted(report.written, "record", "records");
        outln!("{}: {records}, {} skipped{rest}", target.display(), report.skipped);
        fail_on_lost_files(report.lost_files)
    }
}

impl PlayObserver for LabelProgress {
    fn on_game(&mut self, games: u64, _: u64, _: u64) {
        self.set(games, 1);
    }

    fn on_notice(&mut self, text: &str) {
        errln!("{text}");
    }
}

pub(super) fn selfplay(args: &SelfplayArgs) -> Result<(), LabError> {
    let (factory, description) = evaluator(args.net.as_deref())?;
    let mut openings = Openings {
        chess960: args.dfrc,
        random_plies: args.random_plies,
        max_score: args.max_opening_score,
        ..Openings::default()
    };
    if let Some(book) = &args.book {
        openings.read_book(book)?;
    }
    let settings = PlaySettings {
        factory,
        evaluator: description.clone(),
        games: args.games,
        seed: args.seed,
        soft_nodes: args.nodes.max(1),
        hash: args.hash.max(1),
        workers: args.workers.unwrap_or_else(default_threads),
        openings,
        adjudication: Adjudication { win_score: args.win_score, ..Adjudication::default() },
    };
    let mut watch = LabelProgress::new("games", Some(args.games));
    let report = play(&settings, &args.stem, &interrupt::flag(), &mut watch)?;
    let summary = watch.progress.finish();
    let percent = 100.0 * report.searching.as_secs_f64() / report.time.as_secs_f64().max(1e-9);
    outln!("{summary}; evaluated by {description}");
    outln!(
        "{} games ({} of them from earlier runs), {} new positions; {percent:.1} % of the time was spent in the search",
        report.games,
        report.earlier,
        report.positions
    );
    if !report.finished {
        return Err(LabError::interrupted());
    }
    Ok(())
}

/// Score the positions of a data set with Tandem's search or a transformer
///
/// Replaces the scores and keeps results and moves; where a record has no move, the search adds its best one.
/// Finished work is recorded in a journal next to the output: when killed or interrupted, the same command
/// resumes.
#[derive(Args, Debug)]
pub(crate) struct LabelArgs {
    /// Data files to read, in any format (see `tandem-lab data --help`); FORMAT:PATH names the format
    #[arg(required = true)]
    pub(super) inputs: Vec<String>,
    #[command(flatten)]
    pub(super) options: FormatArgs,
    /// Output file; its extension chooses the format, or FORMAT:PATH names it
    #[arg(short, long)]
    pub(super) out: String,
    /// Soft node limit of each search, after which it starts no new iteration; there is one search per
    /// position, per move (--all-moves) or per leaf (--leaves)
    #[arg(long, default_value_t = 500)]
    nodes: u64,
    /// Score every legal move of a position, and write a record for each with the win probability after it,
    /// as training data for networks of action values
    #[arg(long)]
    all_moves: bool,
    /// Search each position and score, instead of it, COUNT random leaves: positions within the search tree
    /// that the network evaluated
    ///
    /// Training on leaves matches the positions that a network evaluates in play. Finding those of one
    /// position takes COUNT times --nodes, and scoring each of them another --nodes.
    #[arg(long, conflicts_with = "all_moves", value_name = "COUNT")]
    leaves: Option<usize>,
    /// Score leaves with the network's static evaluation, without a search and without a move
    ///
    /// For leaves that a later `data label` scores again, with a transformer or a longer search. Four times
    /// as fast with --nodes 16. The output format must not need moves: .bin, .bf or .csv.
    #[arg(long, requires = "leaves")]
    unsearched: bool,
    /// NNUE file to evaluate with, or `bootstrap` for the hand-written evaluation (default: the built-in
    /// network); may be repeated
    ///
    /// The scores of several networks are averaged at every evaluation (an ensemble), for example to train
    /// one network from several teachers.
    #[arg(long)]
    net: Vec<String>,
    /// Score with this transformer (.ttn, .safetensors) instead of a search
    #[arg(long, value_name = "FILE", conflicts_with_all = ["all_moves", "leaves", "net", "nodes", "hash"])]
    transformer: Option<PathBuf>,
    /// With --transformer, weight of the existing score in the new one, from 0 (ignore it) to 1 (keep it)
    ///
    /// The remaining weight is the transformer's. Both scores are mixed as win probabilities. Mate scores are
    /// kept.
    #[arg(long, default_value_t = 0.0, value_name = "WEIGHT", requires = "transformer")]
    pub(super) keep: f64,
    /// With --transformer, centipawns that correspond to one unit of the sigmoid between scores and win
    /// probabilities, both for the existing scores and for the new ones
    #[arg(long, default_value_t = 400.0, value_name = "CENTIPAWNS", requires = "transformer")]
    pub(super) scale: f64,
    /// Device that runs the transformer: cpu, or in a build with libtorch cuda, cuda:N for GPU N, or mps
    #[arg(long, default_value = "cpu", requires = "transformer")]
    pub(super) device: Device,
    /// Number of threads that search or evaluate (default: all cores)
    #[arg(long)]
    threads: Option<usize>,
    /// Size of each thread's hash table, in MiB
    #[arg(long, default_value_t = 4)]
    hash: usize,
    /// Reaction to a record that cannot be decoded or stored
    #[arg(long, value_enum, default_value = "stop")]
    pub(super) on_error: ErrorChoice,
}

impl LabelArgs {
    /// The number of threads, at least 1.
    pub(super) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(default_threads).max(1)
    }
}

pub(super) fn label_command(args: &LabelArgs) -> Result<(), LabError> {
    if let Some(path) = &args.transformer {
        return relabel::run(args, path);
    }
    let (factory, description) = ensemble(&args.net)?;
    let settings = LabelSettings {
        factory,
        evaluator: description,
        nodes: args.nodes.max(1),
        hash: args.hash.max(1),
        threads: args.threads(),
        labels: match args.leaves {
            Some(count) if args.unsearched => LabelKind::Unsearched(count.max(1)),
            Some(count) => LabelKind::Leaves(count.max(1)),
            None if args.all_moves => LabelKind::AllMoves,
            None => LabelKind::Positions,
        },
        on_error: args.on_error.choice(),
    };
    let sources = args.options.sources(&args.inputs)?;
    let target = args.options.target(&args.out)?;
    super::report::check_outputs(&sources, &[&target])?;
    let mut progress = LabelProgress::new("positions", None);
    if args.unsearched && target.format.needs_moves() {
        let problem = "--unsearched gives no moves, but this format needs them: write .bin, .bf or .csv";
        return Err(LabError::Usage(format!("{}: {problem}", target.path.display())));
    }
    if args.all_moves && target.kind_of_bag().is_some_and(|kind| kind != BagKind::ActionValue) {
        let problem = "--all-moves gives every move a win probability, which this bag cannot store: name it \
                       action_value….bag, or give --bag action-value";
        return Err(LabError::Usage(format!("{}: {problem}", target.path.display())));
    }
    let report = label(sources, &target, &settings, &interrupt::flag(), &mut |done| progress.set(done, 256))?;
    progress.finish(&format!("evaluated by {}", settings.evaluator), &target.path, &report)
}
