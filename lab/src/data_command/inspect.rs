//! Subcommands that only read data: `count`, `compare`, `head`, `stats` and `validate`.

use super::{InputArgs, fail_on_lost_files, report_skips};
use crate::error::LabError;
use crate::plural::counted;
use crate::progress::Progress;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use tandem_data::*;

/// Count the records and games of a data set, and the results for the side to move
#[derive(Args, Debug)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Print the counts as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn count(args: &CountArgs) -> Result<(), LabError> {
    let mut reader = args.input.reader()?;
    let mut progress = Progress::of_bytes("records", reader.bytes());
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
        progress.add_read(block.len() as u64, reader.bytes_read());
    }
    let summary = progress.finish();
    report_skips(reader.skips());
    let [losses, draws, wins] = results;
    if args.json {
        let skipped = reader.skips().count;
        outln!(
            "{}",
            json!({
                "records": records, "games": games, "wins": wins, "draws": draws, "losses": losses, "skipped": skipped
            })
        );
    } else {
        outln!("{summary}");
        let begin = counted(games, "game begins", "games begin");
        outln!("{begin} in them; the side to move wins {wins}, draws {draws}, loses {losses}");
    }
    fail_on_lost_files(reader.skips().lost_files)
}

/// Compare two data sets record by record
///
/// Prints the number of records in which each field differs. Fails if a field differs that --except does not
/// name, or if the numbers of records differ.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// First data file to compare, in any format
    left: String,
    /// Second data file, in the same or another format, with its records in the same order
    right: String,
    #[command(flatten)]
    options: super::FormatArgs,
    /// Fields that may differ without making the command fail, separated by commas: position, move, score,
    /// result, ply, game (default: none)
    #[arg(long, value_delimiter = ',')]
    except: Vec<String>,
}

pub(super) fn compare(args: &CompareArgs) -> Result<(), LabError> {
    const FIELDS: [&str; 6] = ["position", "move", "score", "result", "ply", "game"];
    if let Some(other) = args.except.iter().find(|name| !FIELDS.contains(&name.as_str())) {
        return Err(LabError::Usage(format!("{other:?} is not one of {}", FIELDS.join(", "))));
    }
    let open = |path: &String| -> Result<RecordReader, LabError> {
        let sources = args.options.sources(std::slice::from_ref(path))?;
        Ok(RecordReader::new(sources, 1, OnError::Stop, None, Cursor::default()))
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
        let is_error = differ
            .iter()
            .zip(FIELDS)
            .any(|(differs, name)| *differs && !args.except.iter().any(|e| e == name));
        if is_error && first.is_none() {
            first = Some((number, a, b));
        }
    };
    progress.set(number);
    outln!("{}", progress.finish());
    for (name, count) in FIELDS.into_iter().zip(counts).filter(|(_, count)| *count > 0) {
        outln!("{name} differs in {}", counted(count, "record", "records"));
    }
    if more_left || more_right {
        let longer = if more_left { &args.left } else { &args.right };
        return Err(LabError::Usage(format!(
            "{longer} has more than {number} records, the other one has not"
        )));
    }
    match first {
        None => Ok(()),
        Some((number, a, b)) => {
            let (a, b) = (described(&a), described(&b));
            Err(LabError::Usage(format!(
                "record {number} differs:\n  {}: {a}\n  {}: {b}",
                args.left, args.right
            )))
        }
    }
}

/// A record in words: position, move, score and result for the side to move, ply, and the start of a game.
fn described(record: &Record) -> String {
    let unknown = || "none".to_owned();
    let score = match record.score {
        None => unknown(),
        Some(Score::Centipawns(value)) => format!("{value} cp"),
        Some(Score::Mate(moves)) => format!("mate {moves}"),
        Some(Score::WinProbability(probability)) => format!("win probability {probability:.4}"),
    };
    let result = match record.result {
        None => "unknown",
        Some(Outcome::Win) => "win",
        Some(Outcome::Draw) => "draw",
        Some(Outcome::Loss) => "loss",
    };
    let (position, mv) = match record.position.board() {
        Ok(board) => {
            let mv = record
                .mv
                .map(|mv| tandem_chess::uci::format(&board, mv, tandem_chess::fen::is_chess960(&board)));
            (tandem_chess::fen::format(&board), mv.unwrap_or_else(unknown))
        }
        Err(error) => (format!("({error})"), record.mv.map_or_else(unknown, |mv| mv.to_string())),
    };
    let game = if record.starts_game { ", first of a game" } else { "" };
    format!("{position}, move {mv}, score {score}, result {result}, ply {}{game}", record.ply)
}

/// Print the first records of a data set as CSV
///
/// Scores are centipawns (mates as #-3, win probabilities as 0.52w) for the side to move; results are White's,
/// as in PGN.
#[derive(Args, Debug)]
pub(crate) struct HeadArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Number of records to print, from the start of the data
    #[arg(short = 'n', long, default_value_t = 10)]
    lines: usize,
}

pub(super) fn head(args: &HeadArgs) -> Result<(), LabError> {
    let mut reader = args.input.reader()?;
    let target = Source { path: "-".into(), format: Format::Csv, options: Options::default() };
    let mut encoder = Encoder::new(&target);
    let mut text = Vec::new();
    for record in reader.records().take(args.lines) {
        if let Err(unsupported) = encoder.push(&record?, &mut text) {
            text.extend(format!("(not a legal position: {unsupported})\n").as_bytes());
        }
    }
    out!("{}", String::from_utf8_lossy(&text));
    Ok(())
}

/// Print statistics of a data set: results, scores, plies, pieces, phases, king squares
#[derive(Args, Debug)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Also write an HTML page with histograms to this file
    #[arg(long)]
    html: Option<PathBuf>,
    /// Print the statistics as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn stats(args: &StatsArgs) -> Result<(), LabError> {
    let mut reader = args.input.reader()?;
    let mut progress = Progress::of_bytes("records", reader.bytes());
    let mut stats = Stats::default();
    while let Some(block) = reader.next_block() {
        let block = block?.records;
        block.iter().for_each(|record| stats.add(record));
        progress.add_read(block.len() as u64, reader.bytes_read());
    }
    progress.finish();
    report_skips(reader.skips());
    fail_without_records(stats.records)?;
    if args.json {
        let [moves, scores, mates] = stats.fields();
        let distributions: serde_json::Map<String, serde_json::Value> = stats
            .histograms()
            .map(|(name, bins)| {
                let bins: Vec<_> =
                    bins.iter().map(|(from, count)| json!({ "bin": from, "count": count })).collect();
                (name.to_owned(), bins.into())
            })
            .collect();
        let means = stats.mean_scores();
        outln!(
            "{:#}",
            json!({
                "records": stats.records, "games": stats.games, "with_move": moves, "with_score": scores,
                "mates": mates, "mean_score": means.map(|[mean, _]| mean),
                "mean_absolute_score": means.map(|[_, size]| size), "skipped": reader.skips().count,
                "distributions": distributions,
            })
        );
    } else {
        out!("{}", stats.table());
    }
    if let Some(path) = &args.html {
        let page = stats.page(&args.input.inputs.join(", "));
        tandem_util::output::write_atomically(path, page.as_bytes()).map_err(LabError::file(path))?;
        errln!("{}: HTML page", path.display());
    }
    fail_on_lost_files(reader.skips().lost_files)
}

/// Check that all positions and moves are legal, and that scores agree with results
///
/// Fails if a position or a move is illegal, or a record is broken. A game lost from a winning score is
/// counted but is not an error.
#[derive(Args, Debug)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Maximum number of faulty records to print, the most severe first: illegal positions, then illegal
    /// moves, then contradictions by score
    #[arg(long, default_value_t = 10)]
    worst: usize,
    /// Score in centipawns from which a side should not lose: a record with a larger score for the side that
    /// lost the game counts as a contradiction
    #[arg(long, default_value_t = 600)]
    clear: i16,
    /// Print the counts and the worst records as JSON
    #[arg(long)]
    json: bool,
}

/// Fails if there was no record to look at.
fn fail_without_records(records: u64) -> Result<(), LabError> {
    let problem = "there are no records, or the filter dropped all of them";
    if records > 0 { Ok(()) } else { Err(LabError::Usage(problem.into())) }
}

pub(super) fn validate(args: &ValidateArgs) -> Result<(), LabError> {
    let mut reader = args.input.reader()?;
    let mut progress = Progress::of_bytes("records", reader.bytes());
    let mut validator = Validator::new(args.worst, args.clear);
    while let Some(block) = reader.next_block() {
        let block = block?.records;
        block.iter().for_each(|record| validator.add(record));
        progress.add_read(block.len() as u64, reader.bytes_read());
    }
    let summary = progress.finish();
    report_skips(reader.skips());
    fail_without_records(validator.records + reader.skips().count)?;
    if args.json {
        let worst: Vec<_> = validator
            .worst()
            .iter()
            .map(|fault| json!({ "record": fault.record, "position": fault.position, "problem": fault.problem }))
            .collect();
        outln!(
            "{:#}",
            json!({
                "records": validator.records, "illegal_positions": validator.bad_positions,
                "illegal_moves": validator.bad_moves, "clear_scores": validator.clear_scores,
                "contradictions": validator.contradictions, "skipped": reader.skips().count, "worst": worst,
            })
        );
        return verdict(&validator, reader.skips().count);
    }
    outln!("{summary}");
    outln!(
        "{} illegal, {} illegal",
        counted(validator.bad_positions, "position is", "positions are"),
        counted(validator.bad_moves, "move is", "moves are")
    );
    if validator.clear_scores > 0 {
        let (wrong, clear) = (validator.contradictions, validator.clear_scores);
        let percent = 100.0 * wrong as f64 / clear as f64;
        outln!("{wrong} of {clear} clear scores ({percent:.2} %) contradict the result");
    }
    for violation in validator.worst() {
        outln!("  record {}: {} ({})", violation.record, violation.problem, violation.position);
    }
    verdict(&validator, reader.skips().count)
}

/// Fails if a record is illegal or broken.
fn verdict(validator: &Validator, skipped: u64) -> Result<(), LabError> {
    if validator.is_legal() && skipped == 0 {
        Ok(())
    } else {
        Err(LabError::Usage("the data is invalid".into()))
    }
}
