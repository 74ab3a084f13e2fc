//! `tandem-lab data`: training data in every format.

mod convert;
mod look;
mod make;
mod relabel;
mod shuffle;
mod split;

use crate::error::LabError;
use clap::{Args, Subcommand, ValueEnum};
use tandem_data::*;

/// Training data: convert, look at, shuffle, split, check and make it
///
/// Formats are known by the ends of file names (csv, pgn, epd, plain, bin, binpack, bf, vf, tar or a folder of lc0's
/// games, bag, bagz; each also with .zst or .gz) or named before them: FORMAT:PATH.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    Convert(convert::ConvertArgs),
    /// Say what each format cannot carry
    Formats,
    Count(look::CountArgs),
    Compare(look::CompareArgs),
    Head(look::HeadArgs),
    Stats(look::StatsArgs),
    Validate(look::ValidateArgs),
    Shuffle(shuffle::ShuffleArgs),
    Split(split::SplitArgs),
    Selfplay(make::SelfplayArgs),
    Label(make::LabelArgs),
}

/// Runs the command.
pub(crate) fn run(command: &DataCommand) -> Result<(), LabError> {
    match command {
        DataCommand::Convert(args) => convert::run(args),
        DataCommand::Formats => {
            for format in Format::ALL {
                sayln!("{:>8}  {}", format.name(), format.cannot_carry());
            }
            Ok(())
        }
        DataCommand::Count(args) => look::count(args),
        DataCommand::Compare(args) => look::compare(args),
        DataCommand::Head(args) => look::head(args),
        DataCommand::Stats(args) => look::stats(args),
        DataCommand::Validate(args) => look::validate(args),
        DataCommand::Shuffle(args) => shuffle::run(args),
        DataCommand::Split(args) => split::run(args),
        DataCommand::Selfplay(args) => make::selfplay(args),
        DataCommand::Label(args) => make::label_command(args),
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ErrorChoice {
    /// End with an error
    #[default]
    Stop,
    /// Leave it out and count it
    Skip,
}

/// What is read, and how.
#[derive(Args, Clone, Debug)]
struct InputArgs {
    /// Files to read, in any format
    #[arg(required = true)]
    inputs: Vec<String>,
    #[command(flatten)]
    options: FormatArgs,
    /// Rules for records, such as min-ply=16,no-checks,no-captures,max-score=3000,skip=0.5,seed=1
    #[arg(long, default_value = "")]
    filter: String,
    /// What to do about a broken record
    #[arg(long, value_enum, default_value = "stop")]
    on_error: ErrorChoice,
    /// Threads that decode
    #[arg(long)]
    threads: Option<usize>,
}

/// What formats must be told.
#[derive(Args, Clone, Debug)]
pub(crate) struct FormatArgs {
    /// Columns of a CSV file, where its header does not tell: fen=NAME,score=NAME,move=NAME,result=NAME,ply=NAME,
    /// view=white or side-to-move, unit=centipawns or pawns
    #[arg(long)]
    columns: Option<String>,
    /// What the records of a bag are: action-value, state-value or behavioral-cloning
    #[arg(long)]
    bag: Option<String>,
}

impl FormatArgs {
    fn options(&self) -> Result<Options, LabError> {
        let columns = self.columns.as_deref().map(str::parse).transpose().map_err(LabError::Usage)?;
        let bag = self.bag.as_deref().map(str::parse).transpose().map_err(LabError::Usage)?;
        Ok(Options { columns: columns.unwrap_or_default(), bag })
    }

    pub(crate) fn sources(&self, paths: &[String]) -> Result<Vec<Source>, LabError> {
        let options = self.options()?;
        let mut sources = Vec::new();
        for path in paths {
            sources.extend(Source::parse(path, &options)?);
        }
        Ok(sources)
    }

    /// A file to be written, which need not be there yet.
    fn target(&self, path: &str) -> Result<Source, LabError> {
        let named = path.split_once(':').and_then(|(name, path)| Some((name.parse().ok()?, path)));
        let (format, path) = match named {
            Some((format, path)) => (format, path),
            None => {
                let format = Format::of_path(path.as_ref());
                (format.map_err(|unknown| LabError::Usage(unknown.to_string()))?, path)
            }
        };
        Ok(Source { path: path.into(), format, options: self.options()? })
    }
}

impl ErrorChoice {
    fn choice(self) -> OnError {
        match self {
            Self::Stop => OnError::Stop,
            Self::Skip => OnError::Skip,
        }
    }
}

pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl InputArgs {
    fn filter(&self) -> Result<Filter, LabError> {
        self.filter.parse().map_err(|bad: BadFilter| LabError::Usage(bad.to_string()))
    }

    /// A reader of the records that keep the rules.
    fn reader(&self) -> Result<Reader, LabError> {
        self.reader_with(Filter::sieve)
    }

    /// A reader of all records.
    fn whole_reader(&self) -> Result<Reader, LabError> {
        self.reader_with(|_| None)
    }

    fn reader_with(&self, sieve: impl FnOnce(&Filter) -> Option<Sieve>) -> Result<Reader, LabError> {
        let filter = self.filter()?;
        let sources = self.options.sources(&self.inputs)?;
        filter.check(&sources)?;
        let threads = self.threads.unwrap_or_else(default_threads);
        Ok(Reader::new(sources, threads, self.on_error.choice(), sieve(&filter), Cursor::default()))
    }
}

/// An error if files could not be read to their end: what was made of them is there, and is not all.
pub(crate) fn refuse_lost(files: u64) -> Result<(), LabError> {
    match files {
        0 => Ok(()),
        lost => Err(LabError::Usage(format!(
            "{lost} files could not be read to their end; what there is comes from the rest"
        ))),
    }
}

/// Tells what was left out, if anything was.
pub(crate) fn tell_skips(skips: &Skips) {
    if skips.lost_files > 0 {
        tellln!("{} files could not be read to their end", skips.lost_files);
    }
    if skips.count > 0 {
        tellln!(
            "{} broken records were left out{}; the first of them:",
            skips.count,
            and_rest(skips.with_rest)
        );
        for error in &skips.examples {
            tellln!("  {error}");
        }
    }
}

/// What to add to a number of records that were left out, if there were more than it says.
pub(crate) fn and_rest(with_rest: u64) -> String {
    match with_rest {
        0 => String::new(),
        _ => format!(", {with_rest} of them with the rest of a game or of a block"),
    }
}
