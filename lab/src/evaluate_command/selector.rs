//! `evaluate --selector`: precision, recall and benefit of a hybrid's selector on given positions.

use super::EvaluateArgs;
use super::model::JoinedNetworks;
use crate::any_network::is_hybrid;
use crate::data_command::report_skips;
use crate::error::LabError;
use crate::interrupt;
use crate::progress::Progress;
use crate::selector_report::{
    ERROR_HEADING, THRESHOLD_HEADING, error_table, metrics_table, threshold_table, to_json,
};
use std::path::Path;
use tandem_data::{Record, RecordReader};
use tandem_hybrid::Hybrid;
use tandem_train::selector::EvaluatorPair;
use tandem_util::output;

/// Measures the selector of the one hybrid that is named.
///
/// # Errors
///
/// When there is not exactly one hybrid, it has no selector, its networks are missing, or the data has
/// several moves of a position.
pub(super) fn run(
    args: &EvaluateArgs,
    mut reader: RecordReader,
    pool: &rayon::ThreadPool,
) -> Result<(), LabError> {
    let mut hybrids = args.nets.iter().filter(|name| is_hybrid(Path::new(name)));
    let (Some(name), None) = (hybrids.next(), hybrids.next()) else {
        let problem = "--selector measures one hybrid: name its file and both of its networks";
        return Err(LabError::Usage(problem.into()));
    };
    let path = Path::new(name);
    let hybrid = Hybrid::load(path)?;
    if hybrid.selector.is_none() {
        let problem = "it has no selector: recipes/hybrid-phase2.toml trains one";
        return Err(LabError::Usage(format!("{name}: {problem}")));
    }
    let JoinedNetworks { nnue, transformer, hybrid } = JoinedNetworks::load(path, hybrid, &args.nets)?;
    let networks = EvaluatorPair::new(nnue, transformer, hybrid);
    let networks = networks.map_err(|error| LabError::Usage(format!("{name}: {error}")))?;

    let wanted = args.positions.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    let mut records: Vec<Record> = Vec::new();
    let mut unscored = 0u64;
    while records.len() < wanted
        && let Some(block) = reader.next_block().transpose()?
    {
        for record in block.records {
            match record.score {
                Some(_) => records.push(record),
                None => unscored += 1,
            }
        }
    }
    records.truncate(wanted);
    report_skips(reader.skips());
    if unscored > 0 {
        errln!("{unscored} records have no score");
    }
    let is_same = |pair: &&[Record]| pair[0].position == pair[1].position && pair[0].mv != pair[1].mv;
    // Occasionally, two games meet in a position.
    if records.windows(2).filter(is_same).count() > records.len() / 2 {
        let problem = "positions occur with several of their moves, whose scores are not the position's: \
                       `tandem-lab data convert --best-moves` keeps one for each";
        return Err(LabError::Usage(problem.into()));
    }

    let mut progress = Progress::new("positions", Some(records.len() as u64));
    let stop = interrupt::flag();
    let mut done = |count: usize| progress.add(count as u64);
    let report = pool.install(|| networks.evaluate_selector(&records, args.margin, &stop, &mut done))?;
    errln!("{}", progress.finish());
    out!("{}\n{ERROR_HEADING}:\n\n{}", metrics_table(&report).text(), error_table(&report).text());
    out!("\n{THRESHOLD_HEADING}:\n\n{}", threshold_table(&report).text());
    if let Some(path) = &args.json {
        let mut facts = to_json(&report);
        facts["hybrid"] = name.as_str().into();
        facts["data"] = args.data.as_slice().into();
        facts["filter"] = args.filter.as_str().into();
        facts["margin"] = args.margin.into();
        let text = format!("{facts:#}\n");
        output::write_atomically(path, text.as_bytes()).map_err(LabError::file(path))?;
    }
    Ok(())
}
