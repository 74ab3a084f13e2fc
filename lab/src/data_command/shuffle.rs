//! `tandem-lab data shuffle`.

use super::{ErrorChoice, FormatArgs, and_rest, refuse_lost};
use crate::error::LabError;
use clap::Args;
use std::time::Instant;

/// Put records into a random order
///
/// Files may be larger than memory: what does not fit goes through parts beside the output, which need as much room as the
/// records do. The same seed gives the same order. From .bf to .bf and from .bin to .bin records are moved as they are, and nobody
/// looks whether they are sound: `tandem-lab data validate` does.
#[derive(Args, Debug)]
pub(crate) struct ShuffleArgs {
    /// Files to read, in any format
    #[arg(required = true)]
    inputs: Vec<String>,
    #[command(flatten)]
    options: FormatArgs,
    /// The file to write
    #[arg(short, long)]
    out: String,
    /// MiB of memory to use
    #[arg(long, default_value_t = 1024)]
    memory: usize,
    /// What chance starts from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What to do about a broken record
    #[arg(long, value_enum, default_value = "stop")]
    on_error: ErrorChoice,
}

pub(super) fn run(args: &ShuffleArgs) -> Result<(), LabError> {
    let sources = args.options.sources(&args.inputs)?;
    let target = args.options.target(&args.out)?;
    let start = Instant::now();
    let memory = args.memory.saturating_mul(1 << 20);
    let report = tandem_data::shuffle(sources, &target, memory, args.seed, args.on_error.choice())?;
    let seconds = start.elapsed().as_secs_f64();
    let rate = report.records as f64 / seconds.max(1e-3);
    sayln!(
        "{}: {} records in {seconds:.1} s, {rate:.0} a second; {} left out{}",
        target.path.display(),
        report.records,
        report.skipped,
        and_rest(report.with_rest)
    );
    refuse_lost(report.lost_files)
}
