//! The choice of the evaluator (`--net`) for commands that run the search inside this program: `tune`, `data
//! selfplay`, `data label`.

use crate::any_network::{TACTICIAN, built_in};
use crate::error::LabError;
use std::path::Path;
use std::sync::Arc;
use tandem_nets::EvaluatorChoice;
use tandem_search::{Committee, EvaluatorFactory};
use tandem_util::random::SplitMix;

/// Like [`evaluator`], for any number of networks: several are combined into a committee, which returns the
/// mean of their scores.
///
/// # Errors
///
/// When a file is missing, damaged or not an NNUE.
pub(crate) fn ensemble(nets: &[String]) -> Result<(Arc<EvaluatorFactory>, String), LabError> {
    match nets {
        [] => evaluator(None),
        [net] => evaluator(Some(net)),
        _ => {
            let members = nets.iter().map(|net| evaluator(Some(net))).collect::<Result<Vec<_>, _>>()?;
            let (factories, descriptions): (Vec<_>, Vec<_>) = members.into_iter().unzip();
            Ok((Committee::of(factories), format!("the mean of {}", descriptions.join(", "))))
        }
    }
}

/// Loads the evaluator that `--net` names: a network file, `bootstrap` for the hand-written evaluation, or
/// the built-in network if it is `None`. The second value describes it in one line for logs and journals.
///
/// # Errors
///
/// When the file is missing, damaged or not an NNUE.
pub(crate) fn evaluator(net: Option<&str>) -> Result<(Arc<EvaluatorFactory>, String), LabError> {
    let net = net.filter(|net| built_in(Path::new(net)).is_none() || *net != TACTICIAN);
    let choice = EvaluatorChoice::named(net.unwrap_or_default())?;
    let description = match &choice {
        EvaluatorChoice::Bootstrap => choice.describe(),
        EvaluatorChoice::Network(network) => {
            // The description contains a hash of the weights, so that resumed work notices if the file was
            // replaced.
            let mut hash = 0;
            for word in network.to_bytes().chunks(8) {
                let word = word.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
                hash = SplitMix::new(hash ^ word).next_u64();
            }
            let name = net.unwrap_or("the network built in");
            format!("{name} ({}, hash {hash:016x})", network.architecture())
        }
    };
    Ok((choice.factory(), description))
}
