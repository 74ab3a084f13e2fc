//! `tandem-lab data convert`: reads records in any format and writes them in another.

use super::{FormatArgs, InputArgs, fail_on_lost_files, report_skips};
use crate::error::LabError;
use crate::progress::Progress;
use clap::Args;
use tandem_data::{DataError, OnError, Outcome, Record, RecordWriter, Score, Unique};

/// Convert data from one format to another
///
/// Fields that the output format cannot store are lost (see `tandem-lab data formats`). A record that it
/// cannot store at all is an error, or with --on-error skip is left out and counted. The output file appears
/// only when it is complete.
#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Output file; its extension chooses the format, or FORMAT:PATH names it
    #[arg(short, long)]
    out: String,
    /// Result to write for positions that have none: win, draw or loss, as the side to move sees it (default:
    /// they stay without)
    #[arg(long)]
    fill_result: Option<String>,
    /// Score in centipawns, as the side to move sees it, to write for positions that have none (default: they
    /// stay without)
    #[arg(long, allow_negative_numbers = true)]
    fill_score: Option<i16>,
    /// Write each position only once, the first time it occurs; needs at least 8 bytes of memory per position
    #[arg(long)]
    unique: bool,
    /// If consecutive records have the same position, as `data label --all-moves` writes them, write only the
    /// one with the best score, as training data for a policy
    #[arg(long)]
    best_moves: bool,
    /// After each record, also write the same position with colours swapped
    #[arg(long)]
    add_flipped: bool,
    /// After each record, also write its mirror image (files a to h swapped), unless castling rights are left
    #[arg(long)]
    add_mirrored: bool,
}

pub(super) fn run(args: &ConvertArgs) -> Result<(), LabError> {
    let fill_result = args.fill_result.as_deref().map(outcome).transpose()?;
    let target = FormatArgs::target(&args.input.options, &args.out)?;
    let mut reader = args.input.reader()?;
    let mut writer = RecordWriter::create(target.clone())?;
    let on_error = args.input.on_error.choice();
    let mut unique = args.unique.then(Unique::default);
    let mut progress = Progress::new("records", None);
    let (mut unsupported, mut example) = (0u64, None);
    let mut best = args.best_moves.then(BestRecord::default);
    loop {
        let block = reader.next_block().transpose()?;
        let is_last = block.is_none();
        let mut written = 0;
        let mut records = block.map_or_else(Vec::new, |block| block.records);
        if let Some(best) = &mut best {
            records = records.into_iter().filter_map(|record| best.next(record)).collect();
            records.extend(best.last.take_if(|_| is_last));
        }
        for mut record in records {
            if unique.as_mut().is_some_and(|unique| !unique.is_new(&record)) {
                continue;
            }
            record.result = record.result.or(fill_result);
            record.score = record.score.or(args.fill_score.map(Score::Centipawns));
            let alone = Record { starts_game: true, ..record };
            let flipped = args.add_flipped.then(|| alone.flipped());
            let mirrored = if args.add_mirrored { alone.mirrored() } else { None };
            for record in [Some(record), flipped, mirrored].into_iter().flatten() {
                match writer.write(&record) {
                    Ok(()) => written += 1,
                    Err(error @ DataError::Unsupported { .. }) if on_error == OnError::Skip => {
                        unsupported += 1;
                        example.get_or_insert(error);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        progress.add(written);
        if is_last {
            break;
        }
    }
    writer.finish()?;
    let summary = progress.finish();
    report_skips(reader.skips());
    if let Some(example) = example {
        errln!("{unsupported} records cannot be stored as {}; the first of them: {example}", target.format);
    }
    outln!("{}: {summary}", target.path.display());
    fail_on_lost_files(reader.skips().lost_files)
}

/// Selects from consecutive records of one position the one with the best score; the first among equals.
#[derive(Default)]
struct BestRecord {
    last: Option<Record>,
}

impl BestRecord {
    /// Takes the next record; returns the best one of the previous position when that is complete.
    fn next(&mut self, record: Record) -> Option<Record> {
        let win_probability =
            |record: &Record| record.score.map_or(f64::NEG_INFINITY, Score::win_probability);
        match &mut self.last {
            Some(last) if last.position == record.position => {
                if win_probability(&record) > win_probability(last) {
                    *last = record;
                }
                None
            }
            last => last.replace(record),
        }
    }
}

fn outcome(text: &str) -> Result<Outcome, LabError> {
    match text {
        "win" => Ok(Outcome::Win),
        "draw" => Ok(Outcome::Draw),
        "loss" => Ok(Outcome::Loss),
        _ => Err(LabError::Usage(format!("{text:?} is not one of win, draw, loss"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Position;
    use tandem_data::Packed;

    #[test]
    fn the_best_move_of_each_position_is_kept() {
        let mut position = Position::startpos();
        let mut records = Vec::new();
        for scores in [[0.1, 0.7, 0.7], [0.5, 0.2, 0.3]] {
            let packed = Packed::new(position.board()).unwrap();
            let moves = position.legal_moves();
            records.extend(scores.iter().zip(&moves).map(|(&probability, &mv)| {
                let score = Some(Score::WinProbability(probability));
                Record { mv: Some(mv), score, ..Record::new(packed) }
            }));
            position.play(moves[0]);
        }
        let mut best = BestRecord::default();
        let mut kept: Vec<Record> = records.iter().filter_map(|&record| best.next(record)).collect();
        kept.extend(best.last);
        assert_eq!(kept, [records[1], records[3]]);
    }
}
