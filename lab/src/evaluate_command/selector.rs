//! What the selector of a hybrid is worth on some positions.

use super::EvaluateArgs;
use super::contender::{Joined, is_hybrid};
use crate::data_command::tell_skips;
use crate::error::LabError;
use crate::interrupt;
use crate::progress::Progress;
use crate::selector_report::{ERRORS, FIRSTS, curves_of, facts_of, figures_of, firsts_of};
use std::path::Path;
use tandem_chess::output;
use tandem_data::{Reader, Record};
use tandem_hybrid::Hybrid;
use tandem_train::selector::Judges;

/// Judges the selector of the one hybrid that is named.
pub(super) fn run(args: &EvaluateArgs, mut reader: Reader, pool: &rayon::ThreadPool) -> Result<(), LabError> {
    let mut hybrids = args.nets.iter().filter(|name| is_hybrid(Path::new(name)));
    let (Some(name), None) = (hybrids.next(), hybrids.next()) else {
        let problem = "--selector judges one hybrid: name its file, and beside it both its networks";
        return Err(LabError::Usage(problem.into()));
    };
    let path = Path::new(name);
    let hybrid = Hybrid::load(path)?;
    if hybrid.selector.is_none() {
        let problem = "it has no selector: recipes/hybrid-phase2.toml teaches one";
        return Err(LabError::Usage(format!("{name}: {problem}")));
    }
    let Joined { nnue, transformer, hybrid } = Joined::load(path, hybrid, &args.nets)?;
    let judges = Judges::new(nnue, transformer, hybrid);
    let judges = judges.map_err(|error| LabError::Usage(format!("{name}: {error}")))?;

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
    tell_skips(reader.skips());
    if unscored > 0 {
        tellln!("{unscored} records have no score");
    }
    let is_same = |pair: &&[Record]| pair[0].position == pair[1].position && pair[0].mv != pair[1].mv;
    // Once in a while two games meet in a position.
    if records.windows(2).filter(is_same).count() > records.len() / 2 {
        let problem = "positions come with several of their moves, whose scores are not the position's: \
                       `tandem-lab data convert --best-moves` keeps one for each";
        return Err(LabError::Usage(problem.into()));
    }

    let mut progress = Progress::new("positions", Some(records.len() as u64));
    let stop = interrupt::flag();
    let mut done = |count: usize| progress.add(count as u64);
    let report = pool.install(|| judges.judge(&records, args.margin, &stop, &mut done))?;
    tellln!("{}", progress.finish());
    say!("{}\n{ERRORS}:\n\n{}", figures_of(&report).text(), curves_of(&report).text());
    say!("\n{FIRSTS}:\n\n{}", firsts_of(&report).text());
    if let Some(path) = &args.json {
        let mut facts = facts_of(&report);
        facts["hybrid"] = name.as_str().into();
        facts["data"] = args.data.as_slice().into();
        facts["filter"] = args.filter.as_str().into();
        facts["margin"] = args.margin.into();
        let text = format!("{facts:#}\n");
        output::write_whole(path, text.as_bytes()).map_err(LabError::file(path))?;
    }
    Ok(())
}
