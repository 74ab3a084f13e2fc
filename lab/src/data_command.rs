//! `tandem-lab data`: reading, converting, checking, shuffling, splitting and making training data.
//!
//! This file holds the arguments that the subcommands share; each group of subcommands has a module of its
//! own.

mod convert;
mod inspect;
mod make;
mod openings;
mod relabel;
mod report;
mod shuffle;
mod split;

use crate::error::LabError;
use crate::plural;
use clap::{Args, Subcommand, ValueEnum};
use std::sync::Arc;
use tandem_data::*;

/// Convert, inspect, check, shuffle, split and make training data
///
/// Formats are recognised by file extension (csv, pgn, epd, plain, bin, binpack, bf, vf, tar or a folder of
/// lc0 games, bag, bagz; each also compressed, with .zst or .gz after it), or named before the path:
/// FORMAT:PATH.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    Convert(convert::ConvertArgs),
    /// List the formats, their file endings, and the fields of a record that each of them cannot store
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
    Openings(openings::OpeningsArgs),
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
            outln!(
                "Every format is read and written. FORMAT:PATH names the format of a file with another ending.\n"
            );
            outln!("{:<9}{:<25}not stored, or stored in another form", "format", "file endings");
            for format in Format::ALL {
                let endings: Vec<String> = format.extensions().iter().map(|end| format!(".{end}")).collect();
                outln!("{:<9}{:<25}{}", format.name(), endings.join(" "), format.cannot_carry());
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
        DataCommand::Openings(args) => openings::run(args),
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

    /// The input files, which the filter's rules suit.
    fn sources(&self) -> Result<Vec<Source>, LabError> {
        let sources = self.options.sources(&self.inputs)?;
        self.filter()?.check(&sources)?;
        Ok(sources)
    }

    /// A reader of the records that the filter keeps.
    fn reader(&self) -> Result<RecordReader, LabError> {
        Ok(self.counting_reader(self.sources()?)?.0)
    }

    /// A reader of the records that the filter keeps, and the numbers of those that it drops.
    fn counting_reader(&self, sources: Vec<Source>) -> Result<(RecordReader, Arc<FilterCounts>), LabError> {
        let counts = Arc::default();
        Ok((self.reader_with(sources, self.filter()?.counting_filter(&counts)), counts))
    }

    /// A reader of all records, whatever the filter says.
    fn whole_reader(&self, sources: Vec<Source>) -> RecordReader {
        self.reader_with(sources, None)
    }

    fn reader_with(&self, sources: Vec<Source>, filter: Option<RecordFilter>) -> RecordReader {
        let threads = self.threads.unwrap_or_else(default_threads);
        RecordReader::new(sources, threads, self.on_error.choice(), filter, Cursor::default())
    }
}

/// The arguments that write a field where the input has none.
#[derive(Args, Debug)]
struct FillArgs {
    /// Result to write for positions that have none: win, draw or loss, as the side to move sees it (default:
    /// they stay without)
    #[arg(long, value_name = "RESULT")]
    fill_result: Option<String>,
    /// Score in centipawns, as the side to move sees it, to write for positions that have none (default: they
    /// stay without)
    #[arg(long, allow_negative_numbers = true, value_name = "CENTIPAWNS")]
    fill_score: Option<i16>,
}

/// Fields to write where a record has none, with the numbers of records that got them.
struct Fill {
    result: Option<Outcome>,
    score: Option<Score>,
    results: u64,
    scores: u64,
}

impl FillArgs {
    fn fill(&self) -> Result<Fill, LabError> {
        let outcome = |text: &String| match text.as_str() {
            "win" => Ok(Outcome::Win),
            "draw" => Ok(Outcome::Draw),
            "loss" => Ok(Outcome::Loss),
            _ => Err(LabError::Usage(format!("{text:?} is not one of win, draw, loss"))),
        };
        let result = self.fill_result.as_ref().map(outcome).transpose()?;
        Ok(Fill { result, score: self.fill_score.map(Score::Centipawns), results: 0, scores: 0 })
    }
}

impl Fill {
    fn apply(&mut self, record: &mut Record) {
        if let (None, Some(result)) = (record.result, self.result) {
            record.result = Some(result);
            self.results += 1;
        }
        if let (None, Some(score)) = (record.score, self.score) {
            record.score = Some(score);
            self.scores += 1;
        }
    }

    /// Reports the invented fields.
    fn report(&self) {
        for (count, field) in [(self.results, "result"), (self.scores, "score")] {
            if count > 0 {
                let records = plural::counted(count, "record", "records");
                errln!("--fill-{field} gave {records} a {field} that the data does not have");
            }
        }
    }
}

/// Fails if some files could not be read to their end: the output exists, but it is incomplete.
pub(crate) fn fail_on_lost_files(files: u64) -> Result<(), LabError> {
    match files {
        0 => Ok(()),
        lost => Err(LabError::Usage(format!(
            "{} could not be read to the end; the output comes from the rest",
            plural::counted(lost, "file", "files")
        ))),
    }
}

/// Reports the records and files that were skipped, with examples.
pub(crate) fn report_skips(skips: &Skips) {
    if skips.lost_files > 0 {
        errln!("{} could not be read to the end", plural::counted(skips.lost_files, "file", "files"));
    }
    if skips.count > 0 {
        errln!(
            "{} skipped{}; the first of them:",
            plural::counted(skips.count, "broken record was", "broken records were"),
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
