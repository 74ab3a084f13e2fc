//! `tandem-lab data split`: deals whole games to a training, a validation and a test set.

use super::{InputArgs, fail_on_lost_files, report_skips};
use crate::error::LabError;
use crate::progress::Progress;
use clap::Args;
use tandem_data::*;
use tandem_util::random::SplitMix;

/// Split games into training, validation and test sets
///
/// Each game goes to one set as a whole, by a hash of its contents: the order of the input does not matter,
/// and the same game is never in two sets. If a format does not mark games, a new one begins where a position
/// does not follow from the one before.
#[derive(Args, Debug)]
pub(crate) struct SplitArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Output file for the training set, which gets the games that no other set gets
    #[arg(long)]
    train: String,
    /// Output file for the validation set (default: none)
    #[arg(long)]
    validation: Option<String>,
    /// Output file for the test set (default: none)
    #[arg(long)]
    test: Option<String>,
    /// Fraction of the games that goes to the validation set, from 0 to 1
    #[arg(long, alias = "validation-share", default_value_t = 0.05, requires = "validation")]
    validation_fraction: f64,
    /// Fraction of the games that goes to the test set, from 0 to 1
    #[arg(long, alias = "test-share", default_value_t = 0.05, requires = "test")]
    test_fraction: f64,
    /// Seed of the hash that assigns games to sets; another seed gives another split
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(super) fn run(args: &SplitArgs) -> Result<(), LabError> {
    let fraction = |file: &Option<String>, fraction: f64| if file.is_some() { fraction } else { 0.0 };
    let split = Split {
        validation: fraction(&args.validation, args.validation_fraction),
        test: fraction(&args.test, args.test_fraction),
        seed: args.seed,
    };
    let is_valid = (0.0..=1.0).contains(&split.validation) && (0.0..=1.0).contains(&split.test);
    if !is_valid || split.validation + split.test > 1.0 {
        return Err(LabError::Usage("the fractions must be from 0 to 1, and add up to 1 at most".into()));
    }
    let outputs = [Some(&args.train), args.validation.as_ref(), args.test.as_ref()];
    let mut paths = Vec::new();
    for path in outputs.into_iter().flatten() {
        let path = args.input.options.target(path)?.path;
        if paths.contains(&path) {
            return Err(LabError::Usage(format!("{} would be written twice", path.display())));
        }
        paths.push(path);
    }
    let writer = |path: &String| -> Result<RecordWriter, LabError> {
        Ok(RecordWriter::create(args.input.options.target(path)?)?)
    };
    let mut train = writer(&args.train)?;
    let mut validation = args.validation.as_ref().map(writer).transpose()?;
    let mut test = args.test.as_ref().map(writer).transpose()?;
    // Whole games are dealt first, and only then are records dropped: otherwise a game would fall into
    // pieces, which could end up in different sets.
    let filter = args.input.filter()?;
    let mut random = SplitMix::new(filter.seed);
    let mut reader = args.input.whole_reader()?;
    let mut progress = Progress::new("records", None);
    let mut counts = [[0u64; 2]; 3];
    let mut unsupported = 0;
    for game in Games::new(reader.records()) {
        let game = game?;
        let part = split.subset_of(&game);
        let out = match part {
            Subset::Train => &mut train,
            Subset::Validation => validation.as_mut().unwrap_or(&mut train),
            Subset::Test => test.as_mut().unwrap_or(&mut train),
        };
        counts[part as usize][0] += 1;
        for record in game.iter().filter(|record| filter.keeps(record, &mut random)) {
            match out.write(record) {
                Ok(()) => counts[part as usize][1] += 1,
                Err(DataError::Unsupported { .. }) if args.input.on_error.choice() == OnError::Skip => {
                    unsupported += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        progress.add(game.len() as u64);
    }
    for writer in [Some(train), validation, test].into_iter().flatten() {
        writer.finish()?;
    }
    progress.finish();
    report_skips(reader.skips());
    if unsupported > 0 {
        errln!("{unsupported} records cannot be stored in the output format and were skipped");
    }
    for (name, [games, records]) in ["train", "validation", "test"].into_iter().zip(counts) {
        outln!("{name:>10}: {games} games, {records} records");
    }
    fail_on_lost_files(reader.skips().lost_files)
}
