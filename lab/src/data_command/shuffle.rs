//! `tandem-lab data shuffle`: shuffles data sets that may be larger than memory.

use super::{ErrorChoice, FormatArgs, fail_on_lost_files, report, with_rest_remark};
use crate::error::LabError;
use crate::plural::counted;
use clap::Args;
use std::time::Instant;

/// Shuffle the records of a data set
///
/// The data may be larger than memory: what does not fit goes through temporary files next to the output,
/// which need as much disk space as the records. The same seed, files and --memory give the same order. From
/// .bf to .bf and from .bin to .bin, records are copied without being checked; `tandem-lab data validate`
/// checks them.
#[derive(Args, Debug)]
pub(crate) struct ShuffleArgs {
    /// Data files to read and mix, in any format (see `tandem-lab data --help`); FORMAT:PATH names the format
    #[arg(required = true)]
    inputs: Vec<String>,
    #[command(flatten)]
    options: FormatArgs,
    /// Output file; its extension chooses the format, or FORMAT:PATH names it
    #[arg(short, long)]
    out: String,
    /// Memory to use for records, in MiB; more means fewer temporary files
    #[arg(long, default_value_t = 1024)]
    memory: usize,
    /// Seed of the random order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Reaction to a record that cannot be decoded or stored
    #[arg(long, value_enum, default_value = "stop")]
    on_error: ErrorChoice,
}

pub(super) fn run(args: &ShuffleArgs) -> Result<(), LabError> {
    let sources = args.options.sources(&args.inputs)?;
    let target = args.options.target(&args.out)?;
    report::check_outputs(&sources, &[&target])?;
    report::announce_size(&sources, &target, ", and as much to temporary files beside it");
    let start = Instant::now();
    let memory = args.memory.saturating_mul(1 << 20);
    let report = tandem_data::shuffle(sources.clone(), &target, memory, args.seed, args.on_error.choice())
        .map_err(report::with_remedy)?;
    let seconds = start.elapsed().as_secs_f64();
    let rate = report.records as f64 / seconds.max(1e-3);
    report::report_columns(&sources)?;
    report::report_changes(&target, &report.changes);
    if report.records == 0 {
        let problem = format!("there are no records to shuffle ({} skipped)", report.skipped);
        return Err(LabError::Usage(format!(
            "{}: {problem}; the file was not created",
            target.path.display()
        )));
    }
    outln!(
        "{}: {} in {seconds:.1} s, {rate:.0} a second; {} skipped{}",
        target.path.display(),
        counted(report.records, "record", "records"),
        report.skipped,
        with_rest_remark(report.with_rest)
    );
    fail_on_lost_files(report.lost_files)
}
