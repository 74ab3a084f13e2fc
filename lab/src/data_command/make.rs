//! Commands that make data with our own search and our own networks.

use super::{ErrorChoice, FormatArgs, and_rest, default_threads, refuse_lost, relabel};
use crate::device::Device;
use crate::error::LabError;
use crate::interrupt;
use crate::judge::{judge, judges};
use crate::progress::Progress;
use clap::Args;
use std::path::{Path, PathBuf};
use tandem_data::BagKind;
use tandem_selfplay::*;

/// Play games of the engine against itself
///
/// Each worker writes a file of its own, STEM-W-of-N.vf, with .part at its end until all games are played. Killed or
/// interrupted, the same command goes on where it was: at most the game in hand is lost. The same seed gives the same
/// games.
#[derive(Args, Debug)]
pub(crate) struct SelfplayArgs {
    /// How the files are to be called
    stem: PathBuf,
    /// Games to play, of all workers together
    #[arg(long, default_value_t = 1000)]
    games: u64,
    /// Nodes after which a search begins no new iteration
    #[arg(long, default_value_t = 5000)]
    nodes: u64,
    /// What chance starts from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Evaluate with this network, or by hand-written rules if it is `bootstrap`, instead of the network built in
    #[arg(long)]
    net: Option<String>,
    /// Games at a time
    #[arg(long)]
    workers: Option<usize>,
    /// MiB of hash table for each worker
    #[arg(long, default_value_t = 4)]
    hash: usize,
    /// Start from positions of this book (EPD or FEN lines)
    #[arg(long)]
    book: Option<PathBuf>,
    /// Start from positions of double Chess960
    #[arg(long, conflicts_with = "book")]
    dfrc: bool,
    /// Random plies after the start, and one more for half of the games
    #[arg(long, default_value_t = 8)]
    random_plies: usize,
    /// Do not play openings that are further from even than this
    #[arg(long, default_value_t = 400)]
    max_opening_score: i32,
    /// A side that is ahead by so much for four plies has won
    #[arg(long, default_value_t = Adjudication::default().win_score)]
    win_score: i32,
}

/// Shows how far the work has come; what was there at first does not count for the rate.
pub(super) struct Shown {
    progress: Progress,
    begun: bool,
}

impl Shown {
    pub(super) fn new(what: &'static str, total: Option<u64>) -> Self {
        Self { progress: Progress::new(what, total), begun: false }
    }

    /// So many are done, of which so many were done just now.
    pub(super) fn set(&mut self, done: u64, now: u64) {
        if !std::mem::replace(&mut self.begun, true) {
            self.progress.resume(done.saturating_sub(now));
        }
        self.progress.set(done);
    }

    /// Says what came of labelling.
    pub(super) fn finish(self, judge: &str, target: &Path, report: &LabelReport) -> Result<(), LabError> {
        sayln!("{}; {judge}", self.progress.finish());
        if !report.finished {
            return Err(LabError::interrupted());
        }
        let rest = and_rest(report.with_rest);
        sayln!("{}: {} records, {} left out{rest}", target.display(), report.written, report.skipped);
        refuse_lost(report.lost_files)
    }
}

impl Watch for Shown {
    fn played(&mut self, games: u64, _: u64, _: u64) {
        self.set(games, 1);
    }
}

pub(super) fn selfplay(args: &SelfplayArgs) -> Result<(), LabError> {
    let (factory, told) = judge(args.net.as_deref())?;
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
        judge: told.clone(),
        games: args.games,
        seed: args.seed,
        soft_nodes: args.nodes.max(1),
        hash: args.hash.max(1),
        workers: args.workers.unwrap_or_else(default_threads),
        openings,
        adjudication: Adjudication { win_score: args.win_score, ..Adjudication::default() },
    };
    let mut watch = Shown::new("games", Some(args.games));
    let report = play(&settings, &args.stem, &interrupt::flag(), &mut watch)?;
    let rate = watch.progress.finish();
    let share = 100.0 * report.searching.as_secs_f64() / report.time.as_secs_f64().max(1e-9);
    sayln!("{rate}; judged by {told}");
    sayln!(
        "{} games are there ({} of them from before), {} new positions; {share:.1} % of the time was spent in the search",
        report.games,
        report.earlier,
        report.positions
    );
    if !report.finished {
        return Err(LabError::interrupted());
    }
    Ok(())
}

/// Score the positions of a data set with our own search, or with a transformer
///
/// Results stay, and so do moves; where there is none, a search adds its own. Scores are replaced. What is done is kept
/// beside the output in a journal: killed or interrupted, the same command goes on where it was.
#[derive(Args, Debug)]
pub(crate) struct LabelArgs {
    /// Files to read, in any format
    #[arg(required = true)]
    pub(super) inputs: Vec<String>,
    #[command(flatten)]
    pub(super) options: FormatArgs,
    /// The file to write
    #[arg(short, long)]
    pub(super) out: String,
    /// Nodes after which the search of a position begins no new iteration; of each move with --all-moves
    #[arg(long, default_value_t = 500)]
    nodes: u64,
    /// Score every legal move and write a record for each, with the chance to win after it: what a bag of action values
    /// holds
    #[arg(long)]
    all_moves: bool,
    /// Score, instead of each position, so many of those that a search of it evaluates: what a network is asked in play.
    /// Takes twice the nodes
    #[arg(long, conflicts_with = "all_moves", value_name = "COUNT")]
    leaves: Option<usize>,
    /// Give leaves what they were evaluated at for a score, without a search of each and without a move: four times as fast
    /// at 16 nodes, for a teacher that judges them anew. Only for formats that need no move: .bin, .bf, .csv
    #[arg(long, requires = "leaves")]
    unsearched: bool,
    /// Evaluate with this network, or by hand-written rules if it is `bootstrap`, instead of the network built in. Given
    /// several times, with the mean of them: a teacher for one network
    #[arg(long)]
    net: Vec<String>,
    /// Score with the opinion of this transformer (.ttn, .safetensors) instead of a search
    #[arg(long, value_name = "FILE", conflicts_with_all = ["all_moves", "leaves", "net", "nodes", "hash"])]
    transformer: Option<PathBuf>,
    /// The share of the score that is there already, where there is one; the rest is the transformer's. Both are mixed as
    /// chances to win. Mates stay
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", requires = "transformer")]
    pub(super) keep: f64,
    /// So many centipawns are one in the curve from scores to chances: what the scores that are there mean, and those
    /// that are written
    #[arg(long, default_value_t = 400.0, value_name = "CENTIPAWNS", requires = "transformer")]
    pub(super) scale: f64,
    /// What computes the transformer: cpu, or with libtorch cuda, cuda:1, mps
    #[arg(long, default_value = "cpu", requires = "transformer")]
    pub(super) device: Device,
    /// Threads
    #[arg(long)]
    threads: Option<usize>,
    /// MiB of hash table for each thread
    #[arg(long, default_value_t = 4)]
    hash: usize,
    /// What to do about a broken record
    #[arg(long, value_enum, default_value = "stop")]
    pub(super) on_error: ErrorChoice,
}

impl LabelArgs {
    /// Threads that work.
    pub(super) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(default_threads).max(1)
    }
}

pub(super) fn label_command(args: &LabelArgs) -> Result<(), LabError> {
    if let Some(path) = &args.transformer {
        return relabel::run(args, path);
    }
    let (factory, told) = judges(&args.net)?;
    let settings = LabelSettings {
        factory,
        judge: told,
        nodes: args.nodes.max(1),
        hash: args.hash.max(1),
        threads: args.threads(),
        labels: match args.leaves {
            Some(count) if args.unsearched => Labels::Unsearched(count.max(1)),
            Some(count) => Labels::Leaves(count.max(1)),
            None if args.all_moves => Labels::AllMoves,
            None => Labels::Positions,
        },
        on_error: args.on_error.choice(),
    };
    let sources = args.options.sources(&args.inputs)?;
    let target = args.options.target(&args.out)?;
    let mut shown = Shown::new("positions", None);
    if args.unsearched && target.format.needs_moves() {
        let problem = "--unsearched gives no moves, and that format needs them: write .bin, .bf or .csv";
        return Err(LabError::Usage(format!("{}: {problem}", target.path.display())));
    }
    if args.all_moves && target.kind_of_bag().is_some_and(|kind| kind != BagKind::ActionValue) {
        let problem = "--all-moves gives every move a chance to win, and this bag has no place for it: call it \
                       action_value….bag, or say --bag action-value";
        return Err(LabError::Usage(format!("{}: {problem}", target.path.display())));
    }
    let report = label(sources, &target, &settings, &interrupt::flag(), &mut |done| shown.set(done, 256))?;
    shown.finish(&format!("judged by {}", settings.judge), &target.path, &report)
}
