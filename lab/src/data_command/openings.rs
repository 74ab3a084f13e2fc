//! `tandem-lab data openings`: makes a book of random openings for matches.

use crate::error::LabError;
use crate::evaluator::evaluator;
use crate::interrupt;
use crate::plural::counted;
use crate::progress::Progress;
use clap::Args;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use tandem_selfplay::{Openings, draw_book};
use tandem_util::output::write_atomically;

/// Make a book of random openings for matches
///
/// Plays random moves from the starting position, or from those of a book, and keeps positions that a short
/// search finds balanced. Each position is written once, as a line of FEN. The same options give the same book.
#[derive(Args, Debug)]
pub(crate) struct OpeningsArgs {
    /// Number of openings
    #[arg(long, default_value_t = 500, value_name = "N")]
    count: usize,
    /// EPD file to write
    #[arg(short, long)]
    out: PathBuf,
    /// Seed of the random moves
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Start from random positions of this book, a file of EPD or FEN lines (default: from the standard
    /// position)
    #[arg(long, value_name = "FILE")]
    book: Option<PathBuf>,
    /// Start from random positions of double Chess960, in which White and Black have different back ranks
    #[arg(long, conflicts_with = "book")]
    dfrc: bool,
    /// Number of random plies, and one more in half of the openings, so that both sides begin
    #[arg(long, default_value_t = 8, value_name = "N")]
    random_plies: usize,
    /// Largest absolute score of an opening, in centipawns
    #[arg(long, default_value_t = 150, value_name = "CENTIPAWNS")]
    max_score: i32,
    /// Nodes of the search that checks the balance of an opening
    #[arg(long, default_value_t = 5000, value_name = "N")]
    nodes: u64,
    /// NNUE file to evaluate with, or `bootstrap` for the hand-written evaluation (default: the built-in
    /// network)
    #[arg(long)]
    net: Option<String>,
}

pub(super) fn run(args: &OpeningsArgs) -> Result<(), LabError> {
    if args.count == 0 {
        return Err(LabError::Usage("--count 0: a book needs at least one opening".into()));
    }
    let (factory, description) = evaluator(args.net.as_deref())?;
    let mut openings = Openings {
        chess960: args.dfrc,
        random_plies: args.random_plies,
        max_score: args.max_score,
        ..Openings::default()
    };
    if let Some(book) = &args.book {
        openings.read_book(book)?;
    }
    let mut progress = Progress::new("openings", Some(args.count as u64));
    let cancel = interrupt::flag();
    let book =
        draw_book(&openings, &factory, args.count, args.nodes.max(1), args.seed, &cancel, &mut |done| {
            progress.set(done as u64);
        })?;
    let summary = progress.finish();
    if cancel.load(Relaxed) {
        return Err(LabError::Interrupted("interrupted; no file was written".into()));
    }
    let text: String = book.iter().map(|fen| format!("{fen}\n")).collect();
    write_atomically(&args.out, text.as_bytes()).map_err(LabError::file(&args.out))?;
    let count = counted(book.len() as u64, "opening", "openings");
    outln!("{}: {count}, balanced by {description} ({summary})", args.out.display());
    Ok(())
}
