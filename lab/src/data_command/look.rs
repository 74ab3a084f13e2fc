//! Commands that look at data and change nothing.

use super::{InputArgs, refuse_lost, tell_skips};
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
    refuse_lost(reader.skips().lost_files)
}

/// Compare two data sets record by record
///
/// Tells in how many records each field differs; ends with an error if any does that is not named by --except.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// One file
    left: String,
    /// Another
    right: String,
    #[command(flatten)]
    options: super::FormatArgs,
    /// Fields that may differ: position, move, score, result, ply, game
    #[arg(long, value_delimiter = ',')]
    except: Vec<String>,
}

pub(super) fn compare(args: &CompareArgs) -> Result<(), LabError> {
    const FIELDS: [&str; 6] = ["position", "move", "score", "result", "ply", "game"];
    if let Some(other) = args.except.iter().find(|name| !FIELDS.contains(&name.as_str())) {
        return Err(LabError::Usage(format!("{other:?} is none of {}", FIELDS.join(", "))));
    }
    let open = |path: &String| -> Result<Reader, LabError> {
        let sources = args.options.sources(std::slice::from_ref(path))?;
        Ok(Reader::new(sources, 1, OnError::Stop, None, Cursor::default()))
    };
    let (mut left, mut right) = (open(&args.left)?, open(&args.right)?);
    let (mut left, mut right) = (left.records(), right.records());
    let mut progress = Progress::new("records", None);
    let mut counts = [0u64; 6];
    let mut first = None;
    let mut number = 0u64;
    let (more_left, more_right) = loop {
        let (a, b) = match (left.next().transpose()?, right.next().transpose()?) {
            (Some(a), Some(b)) => (a, b),
            (a, b) => break (a.is_some(), b.is_some()),
        };
        number += 1;
        if number.is_multiple_of(1 << 16) {
            progress.set(number);
        }
        let differ = [
            a.position != b.position,
            a.mv != b.mv,
            a.score.map(Score::centipawns) != b.score.map(Score::centipawns),
            a.result != b.result,
            a.ply != b.ply,
            a.starts_game != b.starts_game,
        ];
        for (count, differs) in counts.iter_mut().zip(differ) {
            *count += u64::from(differs);
        }
        let counted = differ
            .iter()
            .zip(FIELDS)
            .any(|(differs, name)| *differs && !args.except.iter().any(|e| e == name));
        if counted && first.is_none() {
            first = Some((number, a, b));
        }
    };
    progress.set(number);
    sayln!("{}", progress.finish());
    for (name, count) in FIELDS.into_iter().zip(counts).filter(|(_, count)| *count > 0) {
        sayln!("{name} differs in {count} records");
    }
    if more_left || more_right {
        let longer = if more_left { &args.left } else { &args.right };
        return Err(LabError::Usage(format!("{longer} has more than {number} records, the other has not")));
    }
    match first {
        None => Ok(()),
        Some((number, a, b)) => Err(LabError::Usage(format!("record {number} differs: {a:?} and {b:?}"))),
    }
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
    refuse_lost(reader.skips().lost_files)
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
    if validator.clear_scores > 0 {
        let (wrong, clear) = (validator.contradictions, validator.clear_scores);
        let share = 100.0 * wrong as f64 / clear as f64;
        sayln!("{wrong} of {clear} clear scores ({share:.2} %) contradict the result");
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
