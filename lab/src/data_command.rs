//! `tandem-lab data`: reading, converting, checking, shuffling, splitting and making training data.
//!
//! This file holds the arguments that the subcommands share; each group of subcommands has a module of its
//! own.

mod convert;
mod inspect;
mod make;
mod relabel;
mod shuffle;
mod split;

use crate::error::LabError;
use clap::{Args, Subcommand, ValueEnum};
use tandem_data::*;

/// Convert, inspect, check, shuffle, split and make training data
///
/// Formats are recognised by file extension (csv, pgn, epd, plain, bin, binpack, bf, vf, tar or a folder of
/// lc0 games, bag, bagz; each also compressed, with .zst or .gz after it), or named before the path:
/// FORMAT:PATH.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    Convert(convert::ConvertArgs),
    /// List the formats and the fields of a record that each of them cannot store
    Formats,
    Count(inspect::CountArgs),
    Compare(inspect::CompareArgs),
    Head(inspect::HeadArgs),
    Stats(inspect::StatsArgs),
    Validate(inspect::ValidateArgs),
    Shuffle(shuffle::ShuffleArgs),
    Split(split::SplitArgs),
    Selfplay(make::SelfplayArgs),
    Label(make::LabelArgs),
}

/// Runs the subcommand.
///
/// # Errors
///
/// Those of the subcommand.
pub(crate) fn run(command: &DataCommand) -> Result<(), LabError> {
    match command {
        DataCommand::Convert(args) => convert::run(args),
        DataCommand::Formats => {
            for format in Format::ALL {
                outln!("{:>8}  {}", format.name(), format.cannot_carry());
            }
            Ok(())
        }
        DataCommand::Count(args) => inspect::count(args),
        DataCommand::Compare(args) => inspect::compare(args),
        DataCommand::Head(args) => inspect::head(args),
        DataCommand::Stats(args) => inspect::stats(args),
        DataCommand::Validate(args) => inspect::validate(args),
        DataCommand::Shuffle(args) => shuffle::run(args),
        DataCommand::Split(args) => split::run(args),
        DataCommand::Selfplay(args) => make::selfplay(args),
        DataCommand::Label(args) => make::label_command(args),
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ErrorChoice {
    /// Stop at the first broken record with an error
    #[default]
    Stop,
    /// Skip broken records, and report their number at the end
    Skip,
}

/// The arguments of subcommands that read records.
#[derive(Args, Clone, Debug)]
struct InputArgs {
    /// Data files to read, in any format (see `tandem-lab data --help`); FORMAT:PATH names the format
    #[arg(required = true)]
    inputs: Vec<String>,
    #[command(flatten)]
    options: FormatArgs,
    /// Use only the records that satisfy these rules, for example
    /// min-ply=16,no-checks,no-captures,max-score=3000,skip=0.5,seed=1 (default: all records); an unknown
    /// rule prints the list of them
    #[arg(long, default_value = "")]
    filter: String,
    /// Reaction to a record that cannot be decoded or stored
    #[arg(long, value_enum, default_value = "stop")]
    on_error: ErrorChoice,
    /// Number of threads that decode the input (default: all cores)
    #[arg(long)]
    threads: Option<usize>,
}

/// The arguments for formats that do not describe themselves.
#[derive(Args, Clone, Debug)]
pub(crate) struct FormatArgs {
    /// Description of a CSV file, items separated by commas. If its header does not name the columns:
    /// fen=NAME, score=NAME, move=NAME, result=NAME and ply=NAME name the column of each field. view=white or
    /// view=side-to-move: the side from whose view scores and results are given. unit=centipawns or
    /// unit=pawns: the unit of the scores
    #[arg(long)]
    columns: Option<String>,
    /// Kind of the records in a .bag or .bagz file: action-value (position, move, win probability),
    /// state-value (position, win probability) or behavioral-cloning (position, move); default: by the
    /// beginning of the file's name (action_value, state_value), else behavioral-cloning
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

    /// The description of a file to write, which need not exist.
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

    /// A reader of the records that the filter keeps.
    fn reader(&self) -> Result<RecordReader, LabError> {
        self.reader_with(Filter::record_filter)
    }

    /// A reader of all records, whatever the filter says.
    fn whole_reader(&self) -> Result<RecordReader, LabError> {
        self.reader_with(|_| None)
    }

    fn reader_with(
        &self,
        sieve: impl FnOnce(&Filter) -> Option<RecordFilter>,
    ) -> Result<RecordReader, LabError> {
        let filter = self.filter()?;
        let sources = self.options.sources(&self.inputs)?;
        filter.check(&sources)?;
        let threads = self.threads.unwrap_or_else(default_threads);
        Ok(RecordReader::new(sources, threads, self.on_error.choice(), sieve(&filter), Cursor::default()))
    }
}

/// Fails if some files could not be read to their end: the output exists, but it is incomplete.
pub(crate) fn fail_on_lost_files(files: u64) -> Result<(), LabError> {
    match files {
        0 => Ok(()),
        lost => Err(LabError::Usage(format!(
            "{lost} files could not be read to their end; the output comes from the rest"
        ))),
    }
}

/// Reports the records and files that were skipped, with examples.
pub(crate) fn report_skips(skips: &Skips) {
    if skips.lost_files > 0 {
        errln!("{} files could not be read to their end", skips.lost_files);
    }
    if skips.count > 0 {
        errln!(
            "{} broken records were skipped{}; the first of them:",
            skips.count,
            with_rest_remark(skips.lost_rest)
        );
        for error in &skips.examples {
            errln!("  {error}");
        }
    }
}

/// A remark for a number of skipped records, if some were skipped together with the rest of their game or
/// block, whose number of records is unknown.
pub(crate) fn with_rest_remark(with_rest: u64) -> String {
    match with_rest {
        0 => String::new(),
        _ => format!(", {with_rest} of them with the rest of a game or of a block"),
    }
}
