//! Who judges positions when the lab searches by itself.

use crate::error::LabError;
use std::path::Path;
use std::sync::Arc;
use tandem_chess::random::SplitMix;
use tandem_nnue::Network;
use tandem_search::{Bootstrap, Evaluator, EvaluatorFactory, Nnue};

/// A network from a file, or the hand-written evaluation; and what it is, in a few words.
pub(crate) fn judge(net: Option<&Path>) -> Result<(Arc<EvaluatorFactory>, String), LabError> {
    let Some(path) = net else {
        let factory = || Box::new(Bootstrap::default()) as Box<dyn Evaluator>;
        return Ok((Arc::new(factory), "the hand-written evaluation".into()));
    };
    let network = Arc::new(Network::load(path)?);
    // By what it holds, so that work that goes on later sees whether the file was replaced.
    let mut hash = 0;
    for word in network.to_bytes().chunks(8) {
        let word = word.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        hash = SplitMix::new(hash ^ word).next_u64();
    }
    let told = format!("{} ({}, hash {hash:016x})", path.display(), network.architecture());
    Ok((Arc::new(move || Box::new(Nnue::new(Arc::clone(&network))) as Box<dyn Evaluator>), told))
}
