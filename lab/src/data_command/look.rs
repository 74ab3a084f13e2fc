//! Commands that look at data and change nothing.

use super::{InputArgs, tell_skips};
use crate::error::LabError;
use crate::progress::Progress;
use clap::Args;
use std::path::PathBuf;
use tandem_data::*;

/// Count records, games and results
#[derive(Args, Debug)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Tell it as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn count(args: &CountArgs) -> Result<(), LabError> {
    let mut reader = args.input.reader()?;
    let mut progress = Progress::new("records", None);
    let (mut records, mut games, mut results) = (0u64, 0u64, [0u64; 3]);
    while let Some(block) = reader.next_block() {
        let block = block?.records;
        for record in &block {
            games += u64::from(record.starts_game);
            if let Some(result) = record.result {
                results[result as usize] += 1;
            }
        }
        records += block.len() as u64;
        progress.add(block.len() as u64);
    }
    let told = progress.finish();
    tell_skips(reader.skips());
    let [losses, draws, wins] = results;
    if args.json {
        let skipped = reader.skips().count;
        sayln!(
            "{}",
            serde_json::json!({
                "records": records, "games": games, "wins": wins, "draws": draws, "losses": losses, "skipped": skipped
            })
        );
    } else {
        sayln!("{told}");
        sayln!("{games} games begin in them; the side to move wins {wins}, draws {draws}, loses {losses}");
    }
    Ok(())
}

/// Show the first records
#[derive(Args, Debug)]
pub(crate) struct HeadArgs {
    #[command(flatten)]
    input: InputArgs,
    /// So many of them
    #[arg(short = 'n', long, default_value_t = 10)]
    lines: usize,
}

pub(super) fn head(args: &HeadArgs) -> Result<(), LabError> {
    let mut reader = args.input.reader()?;
    let target = Source { path: "-".into(), format: Format::Csv, options: Options::default() };
    let mut encoder = Encoder::new(&target);
    let mut text = Vec::new();
    for record in reader.records().take(args.lines) {
        if let Err(unfit) = encoder.push(&record?, &mut text) {
            text.extend(format!("(no position: {unfit})\n").as_bytes());
        }
    }
    say!("{}", String::from_utf8_lossy(&text));
    Ok(())
}

/// Show what a data set is like: results, scores, plies, pieces, phases, king squares
#[derive(Args, Debug)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Also write a page with histograms for a browser
    #[arg(long)]
    html: Option<PathBuf>,
}

pub(super) fn stats(args: &StatsArgs) -> Result<(), LabError> {
    let mut reader = args.input.reader()?;
    let mut progress = Progress::new("records", None);
    let mut stats = Stats::default();
    while let Some(block) = reader.next_block() {
        let block = block?.records;
        block.iter().for_each(|record| stats.add(record));
        progress.add(block.len() as u64);
    }
    progress.finish();
    tell_skips(reader.skips());
    say!("{}", stats.table());
    if let Some(path) = &args.html {
        let page = stats.page(&args.input.inputs.join(", "));
        tandem_chess::output::write_whole(path, page.as_bytes()).map_err(LabError::file(path))?;
        sayln!("\n{}: a page for a browser", path.display());
    }
    Ok(())
}

/// Check that every position and move is legal and that scores fit results
///
/// Ends with an error if a position or a move is illegal.
#[derive(Args, Debug)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Show so many of the worst records
    #[arg(long, default_value_t = 10)]
    worst: usize,
    /// A side that is so many centipawns ahead and loses contradicts its score
    #[arg(long, default_value_t = 600)]
    clear: i16,
}

pub(super) fn validate(args: &ValidateArgs) -> Result<(), LabError> {
    let mut reader = args.input.reader()?;
    let mut progress = Progress::new("records", None);
    let mut validator = Validator::new(args.worst, args.clear);
    while let Some(block) = reader.next_block() {
        let block = block?.records;
        block.iter().for_each(|record| validator.add(record));
        progress.add(block.len() as u64);
    }
    let told = progress.finish();
    tell_skips(reader.skips());
    sayln!("{told}");
    sayln!("{} positions are none, {} moves are not legal", validator.bad_positions, validator.bad_moves);
    if validator.comparable > 0 {
        let share = 100.0 * validator.contradictions as f64 / validator.comparable as f64;
        sayln!("{} clear scores ({share:.2} %) contradict the result", validator.contradictions);
    }
    for complaint in validator.worst() {
        sayln!("  record {}: {} ({})", complaint.record, complaint.problem, complaint.position);
    }
    if validator.is_legal() && reader.skips().count == 0 {
        Ok(())
    } else {
        Err(LabError::Usage("the data is not sound".into()))
    }
}
