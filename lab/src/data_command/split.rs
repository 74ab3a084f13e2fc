//! `tandem-lab data split`: deals whole games to a training, a validation and a test set.

use super::{FillArgs, InputArgs, fail_on_lost_files, report, report_skips};
use crate::error::LabError;
use crate::plural::counted;
use crate::progress::Progress;
use clap::Args;
use std::sync::atomic::Ordering::Relaxed;
use tandem_data::*;
use tandem_util::random::SplitMix;

/// Split games into training, validation and test sets
///
/// Each game goes to one set as a whole, by a hash of its contents: the order of the input does not matter,
/// and the same game is never in two sets. If a format does not mark games, a new one begins where a position
/// does not follow from the one before by its move, or, if the data has no moves, by any legal move. If the data
/// has gaps as well, games cannot be recognised, and --blocks-of keeps neighbouring records together.
#[derive(Args, Debug)]
pub(crate) struct SplitArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    fill: FillArgs,
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
    /// Treat every N consecutive records as one game, for data in which games cannot be recognised (default:
    /// recognise games)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    blocks_of: Option<u32>,
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
    let target = |path: &String| args.input.options.target(path);
    let train = target(&args.train)?;
    let validation = args.validation.as_ref().map(target).transpose()?;
    let test = args.test.as_ref().map(target).transpose()?;
    let targets: Vec<&Source> =
        [Some(&train), validation.as_ref(), test.as_ref()].into_iter().flatten().collect();
    let sources = args.input.sources()?;
    report::check_outputs(&sources, &targets)?;
    report::announce_size(&sources, &train, " by all sets together");
    let first = train.path.clone();
    let mut fill = args.fill.fill()?;
    let mut sets = [
        Some(Set::new("train", train)?),
        validation.map(|target| Set::new("validation", target)).transpose()?,
        test.map(|target| Set::new("test", target)).transpose()?,
    ];
    // Whole games are dealt first, and only then are records dropped: otherwise a game would fall into
    // pieces, which could end up in different sets.
    let filter = args.input.filter()?;
    let filtered = FilterCounts::default();
    let mut random = SplitMix::new(filter.seed);
    let mut reader = args.input.whole_reader(sources.clone());
    let (bytes, read) = (reader.bytes(), reader.read_counter());
    let mut progress = Progress::of_bytes("records", bytes);
    let mut unsupported = 0;
    let (mut games, mut lone) = (0u64, 0u64);
    let records = reader.records();
    let all: Box<dyn Iterator<Item = Result<Vec<Record>, DataError>>> = match args.blocks_of {
        Some(length) => Box::new(Blocks { records, length: length as usize }),
        None => Box::new(Games::new(records)),
    };
    for game in all {
        let game = game?;
        games += 1;
        lone += u64::from(args.blocks_of.is_none() && game.len() == 1 && game[0].mv.is_none());
        let at = match split.subset_of(&game) {
            Subset::Train => 0,
            Subset::Validation => 1,
            Subset::Test => 2,
        };
        let at = if sets[at].is_some() { at } else { 0 };
        let Some(set) = &mut sets[at] else { continue };
        set.games += 1;
        for record in &game {
            let broken = filter.broken_rule(record, &mut random);
            filtered.add(&filter, record, broken);
            if broken.is_some() {
                continue;
            }
            let mut record = *record;
            fill.apply(&mut record);
            match set.writer.write(&record) {
                Ok(()) => set.records += 1,
                Err(DataError::Unsupported { .. }) if args.input.on_error.choice() == OnError::Skip => {
                    unsupported += 1;
                }
                Err(error) => return Err(report::with_remedy(error)),
            }
        }
        progress.add_read(game.len() as u64, read.load(Relaxed));
    }
    progress.finish();
    report_skips(reader.skips());
    report::report_columns(&sources)?;
    report::report_filter(&filtered);
    fill.report();
    if unsupported > 0 {
        errln!(
            "{} cannot be stored in the output format, and left out",
            counted(unsupported, "record", "records")
        );
    }
    let is_leaky = sets[1..].iter().any(Option::is_some) && 2 * lone > games;
    if is_leaky {
        errln!(
            "{lone} of {} are single positions without a move, each dealt as a game of its own. If neighbouring \
             positions come from one game, they are in both sets, and the validation loss comes out too low: \
             --blocks-of 1000 keeps them together",
            counted(games, "game", "games")
        );
    }
    let written: u64 = sets.iter().flatten().map(|set| set.records).sum();
    report::fail_if_empty(&first, written, &filtered)?;
    if let Some(set) = sets.iter().flatten().find(|set| set.records == 0) {
        return Err(LabError::Usage(format!(
            "the {} set would be empty: {} of {written} fell to it. No file was written; use a larger fraction or \
             another --seed",
            set.name,
            counted(set.games, "game", "games")
        )));
    }
    for set in sets.into_iter().flatten() {
        set.finish()?;
    }
    let changes = reader.changes();
    if !changes.is_empty() {
        errln!("{}: {changes}", args.input.inputs.join(", "));
    }
    fail_on_lost_files(reader.skips().lost_files)
}

/// A set that is being written.
struct Set {
    name: &'static str,
    target: Source,
    writer: RecordWriter,
    games: u64,
    records: u64,
}

impl Set {
    fn new(name: &'static str, target: Source) -> Result<Self, LabError> {
        let writer = RecordWriter::create(target.clone())?;
        Ok(Self { name, target, writer, games: 0, records: 0 })
    }

    /// Completes the file and prints its size.
    fn finish(self) -> Result<(), LabError> {
        let changes = self.writer.finish()?;
        report::report_changes(&self.target, &changes);
        let (games, records) =
            (counted(self.games, "game", "games"), counted(self.records, "record", "records"));
        outln!("{:>10}: {games}, {records}", self.name);
        Ok(())
    }
}

/// Iterator over groups of consecutive records of a fixed length; the last one may be shorter.
struct Blocks<I> {
    records: I,
    length: usize,
}

impl<I: Iterator<Item = Result<Record, DataError>>> Iterator for Blocks<I> {
    type Item = Result<Vec<Record>, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let block: Result<Vec<Record>, DataError> = self.records.by_ref().take(self.length).collect();
        block.map(|block| (!block.is_empty()).then_some(block)).transpose()
    }
}
