//! Who judges positions when the lab searches by itself.

use crate::error::LabError;
use std::sync::Arc;
use tandem_chess::random::SplitMix;
use tandem_nets::Judge;
use tandem_search::{Committee, EvaluatorFactory};

/// As [`judge`], of several networks that judge together.
pub(crate) fn judges(nets: &[String]) -> Result<(Arc<EvaluatorFactory>, String), LabError> {
    match nets {
        [] => judge(None),
        [net] => judge(Some(net)),
        _ => {
            let members = nets.iter().map(|net| judge(Some(net))).collect::<Result<Vec<_>, _>>()?;
            let (factories, told): (Vec<_>, Vec<_>) = members.into_iter().unzip();
            Ok((Committee::of(factories), format!("the mean of {}", told.join(", "))))
        }
    }
}

/// A network from a file, the hand-written evaluation by its name, or the network built in; and what it is, in a few
/// words.
pub(crate) fn judge(net: Option<&str>) -> Result<(Arc<EvaluatorFactory>, String), LabError> {
    let judge = Judge::named(net.unwrap_or_default())?;
    let told = match &judge {
        Judge::Bootstrap => judge.describe(),
        Judge::Network(network) => {
            // By what it holds, so that work that goes on later sees whether the file was replaced.
            let mut hash = 0;
            for word in network.to_bytes().chunks(8) {
                let word = word.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
                hash = SplitMix::new(hash ^ word).next_u64();
            }
            let name = net.unwrap_or("the network built in");
            format!("{name} ({}, hash {hash:016x})", network.architecture())
        }
    };
    Ok((judge.factory(), told))
}
