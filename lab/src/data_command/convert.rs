//! `tandem-lab data convert`: reads records in any format and writes them in another.

use super::{FillArgs, FormatArgs, InputArgs, fail_on_lost_files, report, report_skips};
use crate::error::LabError;
use crate::plural::counted;
use crate::progress::Progress;
use clap::Args;
use tandem_data::{DataError, OnError, Record, RecordWriter, Score, Unique};

/// Convert data from one format to another
///
/// Fields that the output format cannot store are lost (see `tandem-lab data formats`), and counted at the end
/// like everything else that is left out, rounded or filled in. A record that it cannot store at all is an error,
/// or with --on-error skip is left out and counted. The filter sees records as they were read. The output file
/// appears only when it is complete and has at least one record.
#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Output file; its extension chooses the format, or FORMAT:PATH names it
    #[arg(short, long)]
    out: String,
    #[command(flatten)]
    fill: FillArgs,
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
    let mut fill = args.fill.fill()?;
    let target = FormatArgs::target(&args.input.options, &args.out)?;
    let sources = args.input.sources()?;
    report::check_outputs(&sources, &[&target])?;
    report::announce_size(&sources, &target, "");
    let (mut reader, filtered) = args.input.counting_reader(sources.clone())?;
    let mut writer = RecordWriter::create(target.clone())?;
    let on_error = args.input.on_error.choice();
    let mut unique = args.unique.then(Unique::default);
    let mut progress = Progress::of_bytes("records", reader.bytes());
    let (mut unsupported, mut example) = (0u64, None);
    let (mut written, mut repeated, mut worse) = (0, 0u64, 0);
    let mut best = args.best_moves.then(BestRecord::default);
    loop {
        let block = reader.next_block().transpose()?;
        let is_last = block.is_none();
        let before = written;
        let mut records = block.map_or_else(Vec::new, |block| block.records);
        if let Some(best) = &mut best {
            let all = records.len() as u64 + u64::from(best.last.is_some());
            records = records.into_iter().filter_map(|record| best.next(record)).collect();
            records.extend(best.last.take_if(|_| is_last));
            worse += all - records.len() as u64 - u64::from(best.last.is_some());
        }
        for mut record in records {
            if unique.as_mut().is_some_and(|unique| !unique.is_new(&record)) {
                repeated += 1;
                continue;
            }
            fill.apply(&mut record);
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
                    Err(error) => return Err(report::with_remedy(error)),
                }
            }
        }
        progress.add_read(written - before, reader.bytes_read());
        if is_last {
            break;
        }
    }
    let mut changes = reader.changes();
    if written > 0 {
        changes += writer.finish()?;
    }
    let summary = progress.finish();
    report_skips(reader.skips());
    report::report_columns(&sources)?;
    report::report_filter(&filtered);
    for (count, option, what) in
        [(repeated, "--unique", "that occurred before"), (worse, "--best-moves", "with another move")]
    {
        if count > 0 {
            errln!("{option} left out {} {what}", counted(count, "record", "records"));
        }
    }
    fill.report();
    report::report_changes(&target, &changes);
    if let Some(example) = example {
        let records = counted(unsupported, "record", "records");
        errln!("{records} cannot be stored as {}; the first of them: {example}", target.format);
    }
    report::fail_if_empty(&target.path, written, &filtered)?;
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
