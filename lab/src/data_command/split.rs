//! `tandem-lab data split`.

use super::{InputArgs, refuse_lost, tell_skips};
use crate::error::LabError;
use crate::progress::Progress;
use clap::Args;
use tandem_chess::random::SplitMix;
use tandem_data::*;

/// Deal games out for training, validation and test
///
/// Each game goes as a whole, by what happens in it: the order of the input does not matter, and the same game is never on
/// two sides. Where a format does not mark games, a new one begins where a position does not follow from the one before.
#[derive(Args, Debug)]
pub(crate) struct SplitArgs {
    #[command(flatten)]
    input: InputArgs,
    /// The file for training
    #[arg(long)]
    train: String,
    /// The file for validation
    #[arg(long)]
    validation: Option<String>,
    /// The file for test
    #[arg(long)]
    test: Option<String>,
    /// The share of the games for validation
    #[arg(long, default_value_t = 0.05, requires = "validation")]
    validation_share: f64,
    /// The share of the games for test
    #[arg(long, default_value_t = 0.05, requires = "test")]
    test_share: f64,
    /// Another seed, another deal
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(super) fn run(args: &SplitArgs) -> Result<(), LabError> {
    let share = |file: &Option<String>, share: f64| if file.is_some() { share } else { 0.0 };
    let split = Split {
        validation: share(&args.validation, args.validation_share),
        test: share(&args.test, args.test_share),
        seed: args.seed,
    };
    let fair = (0.0..=1.0).contains(&split.validation) && (0.0..=1.0).contains(&split.test);
    if !fair || split.validation + split.test > 1.0 {
        return Err(LabError::Usage("the shares must be from 0 to 1, and together no more than 1".into()));
    }
    let outputs = [Some(&args.train), args.validation.as_ref(), args.test.as_ref()];
    let mut paths = Vec::new();
    for path in outputs.into_iter().flatten() {
        let path = args.input.options.target(path)?.path;
        if paths.contains(&path) {
            return Err(LabError::Usage(format!("{} is to be written twice", path.display())));
        }
        paths.push(path);
    }
    let writer =
        |path: &String| -> Result<Writer, LabError> { Ok(Writer::create(args.input.options.target(path)?)?) };
    let mut train = writer(&args.train)?;
    let mut validation = args.validation.as_ref().map(writer).transpose()?;
    let mut test = args.test.as_ref().map(writer).transpose()?;
    // Whole games are dealt out, and only then are records left out: else a game would fall apart, and its parts could
    // end up on different sides.
    let filter = args.input.filter()?;
    let mut random = SplitMix::new(filter.seed);
    let mut reader = args.input.whole_reader()?;
    let mut progress = Progress::new("records", None);
    let mut counts = [[0u64; 2]; 3];
    let mut unfit = 0;
    for game in Games::new(reader.records()) {
        let game = game?;
        let part = split.part_of(&game);
        let out = match part {
            Part::Train => &mut train,
            Part::Validation => validation.as_mut().unwrap_or(&mut train),
            Part::Test => test.as_mut().unwrap_or(&mut train),
        };
        counts[part as usize][0] += 1;
        for record in game.iter().filter(|record| filter.keeps(record, &mut random)) {
            match out.write(record) {
                Ok(()) => counts[part as usize][1] += 1,
                Err(DataError::Unfit { .. }) if args.input.on_error.choice() == OnError::Skip => unfit += 1,
                Err(error) => return Err(error.into()),
            }
        }
        progress.add(game.len() as u64);
    }
    for writer in [Some(train), validation, test].into_iter().flatten() {
        writer.finish()?;
    }
    progress.finish();
    tell_skips(reader.skips());
    if unfit > 0 {
        tellln!("{unfit} records have no place in the output and were left out");
    }
    for (name, [games, records]) in ["train", "validation", "test"].into_iter().zip(counts) {
        sayln!("{name:>10}: {games} games, {records} records");
    }
    refuse_lost(reader.skips().lost_files)
}
