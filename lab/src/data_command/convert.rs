//! `tandem-lab data convert`.

use super::{FormatArgs, InputArgs, refuse_lost, tell_skips};
use crate::error::LabError;
use crate::progress::Progress;
use clap::Args;
use tandem_data::{DataError, OnError, Outcome, Record, Score, Unique, Writer};

/// Turn data of one format into another
///
/// What a format has no place for is lost, and `tandem-lab data formats` tells what that is; a record that does not fit at all is an
/// error, or left out and counted with --on-error skip. The output appears whole or not at all.
#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    input: InputArgs,
    /// The file to write
    #[arg(short, long)]
    out: String,
    /// A result for positions that have none: win, draw or loss for the side to move
    #[arg(long)]
    fill_result: Option<String>,
    /// A score in centipawns for positions that have none
    #[arg(long, allow_negative_numbers = true)]
    fill_score: Option<i16>,
    /// Write every position once
    #[arg(long)]
    unique: bool,
    /// Where a position has several records that stand together, as with `label --all-moves`, write the one with the best
    /// score: what a policy learns from
    #[arg(long)]
    best_moves: bool,
    /// After each record, write it as the other side would see it
    #[arg(long)]
    add_flipped: bool,
    /// After each record, write its mirror image where nobody may castle
    #[arg(long)]
    add_mirrored: bool,
}

pub(super) fn run(args: &ConvertArgs) -> Result<(), LabError> {
    let fill_result = args.fill_result.as_deref().map(outcome).transpose()?;
    let target = FormatArgs::target(&args.input.options, &args.out)?;
    let mut reader = args.input.reader()?;
    let mut writer = Writer::create(target.clone())?;
    let on_error = args.input.on_error.choice();
    let mut unique = args.unique.then(Unique::default);
    let mut progress = Progress::new("records", None);
    let (mut unfit, mut example) = (0u64, None);
    let mut best = args.best_moves.then(Best::default);
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
                    Err(error @ DataError::Unfit { .. }) if on_error == OnError::Skip => {
                        unfit += 1;
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
    let told = progress.finish();
    tell_skips(reader.skips());
    if let Some(example) = example {
        tellln!("{unfit} records have no place in {}; the first of them: {example}", target.format);
    }
    sayln!("{}: {told}", target.path.display());
    refuse_lost(reader.skips().lost_files)
}

/// Chooses of records of one position that stand together the one with the best score; the first of equals.
#[derive(Default)]
struct Best {
    last: Option<Record>,
}

impl Best {
    /// One more record; the best of the position before it, once that is known.
    fn next(&mut self, record: Record) -> Option<Record> {
        let chance = |record: &Record| record.score.map_or(f64::NEG_INFINITY, Score::win_chance);
        match &mut self.last {
            Some(last) if last.position == record.position => {
                if chance(&record) > chance(last) {
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
        _ => Err(LabError::Usage(format!("{text:?} is none of win, draw, loss"))),
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
            records.extend(scores.iter().zip(&moves).map(|(&chance, &mv)| {
                let score = Some(Score::WinChance(chance));
                Record { mv: Some(mv), score, ..Record::new(packed) }
            }));
            position.play(moves[0]);
        }
        let mut best = Best::default();
        let mut kept: Vec<Record> = records.iter().filter_map(|&record| best.next(record)).collect();
        kept.extend(best.last);
        assert_eq!(kept, [records[1], records[3]]);
    }
}
