//! The options of the strategist: playing by a transformer alone, and querying it from the search.
//!
//! They may be set in any order, before or after the networks that they need, so that each is stored by itself,
//! and what is missing is reported when a move is asked for.

use crate::hybrid_options::{BaseNetworks, HybridOptions};
use crate::options::{Options, Session, check_network_file};
use crate::output::{Faults, info_string};
use crate::searcher_thread::Task;
use crate::searchless::{self, Choice, Searchless};
use crate::uci_output::UciOutput;
use std::sync::Arc;
use tandem_chess::Position;
use tandem_hybrid::Fingerprint;
use tandem_nets::EvaluatorChoice;
use tandem_nnue::Isa;
use tandem_search::options::{Applied, UciOption};
use tandem_search::{Centipawns, Limits, NoRoom, Searcher, Strategist, StrategistEval, ensure_room};

/// Memory in bytes that a search thread needs to run a transformer, rounded up.
const THREAD_MEMORY: usize = 8 << 20;

/// Options of the strategist.
pub(crate) const TABLE: &[UciOption<Session>] = &[
    UciOption::combo(
        "SearchMode",
        &[searchless::ALPHABETA, "policy", "value", "action-value"],
        "method that chooses the move: `alphabeta` is the search with the NNUE; the others use one head of the \
         transformer without search ([below](#playing-by-a-transformer-alone))",
        |session, mode| {
            session.options.strategist.searchless.set_mode(mode);
            session.options.rebuild_hybrid();
            Ok(())
        },
    ),
    UciOption::text(
        "TransformerFile",
        "file, `none`",
        "transformer for `SearchMode` and `Strategist`: `.ttn`, `.safetensors`, or an lc0 network of the BT \
         family (`.pb.gz`). Empty means the embedded transformer, `none` means no transformer",
        |session, path| {
            check_network_file(path)?;
            session.options.strategist.searchless.set_file(path)?;
            session.options.rebuild_hybrid();
            Ok(())
        },
    ),
    UciOption::combo(
        "Strategist",
        &["off", "auto", "always"],
        "lets the search run the transformer on some positions. `auto`: where the remaining depth is large enough \
         and the selector agrees. `always`: wherever the remaining depth is large enough. The transformer's \
         output affects move ordering, reductions, static evaluation and time management. The command `eval` \
         prints the output of both networks ([hybrid](docs/hybrid.md#in-the-engine))",
        |session, policy| {
            session.options.strategist.hybrid.set_policy(policy);
            session.options.rebuild_hybrid();
            Ok(())
        },
    ),
    UciOption::spin(
        "StrategistThreads",
        0,
        0..=64,
        "",
        "number of threads that only run the transformer. With 0, the search thread runs it and waits for the result",
        |session, threads| {
            session.options.strategist.hybrid.set_threads(threads as usize);
            Ok(())
        },
    ),
    UciOption::spin(
        "SelectorThreshold",
        -1,
        -1..=1000,
        "‰",
        "selector output (a probability, in thousandths) from which a position is sent to the transformer; -1 \
         uses the value in the hybrid file",
        |session, thousandths| {
            session.options.strategist.hybrid.set_threshold(fraction(thousandths, 1000.0));
            Ok(())
        },
    ),
    UciOption::spin(
        "StrategistBlend",
        -1,
        -1..=100,
        "%",
        "weight of the transformer in the average of both networks' evaluations; -1 uses the value in the hybrid \
         file, or 70 without such a file",
        |session, percent| {
            session.options.strategist.hybrid.set_blend(fraction(percent, 100.0));
            Ok(())
        },
    ),
    UciOption::text(
        "HybridFile",
        "file",
        "file with the bridge and the selector; it must have been trained for the NNUE and the transformer in \
         use ([hybrid](docs/hybrid.md))",
        |session, path| {
            check_network_file(path)?;
            session.options.strategist.hybrid.set_file(path)?;
            session.options.rebuild_hybrid();
            Ok(())
        },
    ),
];

/// A fraction from an option in parts of `one`; `None` for a negative number, which selects the default.
fn fraction(number: i64, one: f32) -> Option<f32> {
    (number >= 0).then_some(number as f32 / one)
}

/// State of the options of the strategist.
#[derive(Clone, Debug, Default)]
pub(crate) struct StrategistOptions {
    searchless: Searchless,
    hybrid: HybridOptions,
    /// Fingerprint of the NNUE file in use; `None` if it is built in.
    eval_file: Option<Fingerprint>,
}

impl StrategistOptions {
    /// Combines the networks in use; called after each change of one of them.
    pub(crate) fn rebuild(&mut self, evaluator: &EvaluatorChoice) {
        if self.hybrid.is_enabled() {
            self.searchless.ensure_network();
        }
        let (eval_file, transformer) = (self.eval_file, self.searchless.network());
        self.hybrid.rebuild(&BaseNetworks { evaluator, eval_file, transformer });
    }

    /// Notes the content of the NNUE file in use; `None` if the evaluator is built in. It takes effect at the
    /// next [`Self::rebuild`].
    pub(crate) fn set_eval_file(&mut self, file: Option<&[u8]>) {
        self.eval_file = file.map(Fingerprint::of);
    }

    /// Sets the instruction set of the transformer, which takes effect at the next [`Self::rebuild`].
    ///
    /// # Errors
    /// If the transformer's file cannot be read again.
    pub(crate) fn set_isa(&mut self, isa: Isa) -> Applied {
        self.searchless.set_isa(isa)
    }

    /// Makes the search query the strategist from now on. An unchanged client is not set again, because each
    /// search thread allocates memory for it.
    ///
    /// # Errors
    /// If there is not enough memory; then nothing has changed.
    pub(crate) fn attach(&self, searcher: &mut Searcher) -> Result<(), NoRoom> {
        let client = self.hybrid.client().map(|client| Arc::clone(client) as Arc<dyn Strategist>);
        let same = match (&client, searcher.strategist()) {
            (Some(new), Some(old)) => Arc::ptr_eq(new, old),
            (new, old) => new.is_none() && old.is_none(),
        };
        if !same {
            if client.is_some() {
                ensure_room("the strategist", searcher.threads() * THREAD_MEMORY, 0)?;
            }
            searcher.set_strategist(client);
        }
        Ok(())
    }

    /// The choice of a move without search, if the options ask for it.
    pub(crate) fn player(
        &self,
        position: &Position,
        limits: &Limits,
        output: &UciOutput,
        faults: &Faults,
    ) -> Option<Task> {
        let (mut position, limits) = (position.clone(), limits.clone());
        match self.searchless.choice() {
            Choice::Search => None,
            Choice::Transformer(ranker) => {
                let output = output.clone();
                Some(Box::new(move |searcher| {
                    Ok(searchless::play(&ranker, searcher, &mut position, &limits, &output))
                }))
            }
            Choice::Unavailable(reason) => {
                let faults = faults.clone();
                Some(Box::new(move |searcher| {
                    faults.report(format_args!("no move: {reason}"));
                    searcher.wait_until_answer_allowed(&limits);
                    Ok("bestmove (none)".into())
                }))
            }
        }
    }

    /// The reason why no move can be chosen as the options ask; `None` if one can. The options may come in any order, so
    /// this is a question for `isready`, when all have been sent.
    pub(crate) fn problem(&self) -> Option<String> {
        match self.searchless.choice() {
            Choice::Unavailable(reason) => Some(reason),
            Choice::Search | Choice::Transformer(_) => None,
        }
    }

    /// Messages before and after a search: the reason for which it has no strategist although the options ask
    /// for one, and the statistics of the strategist.
    pub(crate) fn messages(&self) -> (impl FnOnce() + Send + use<>, impl FnOnce() + Send + use<>) {
        let (reason, client) = (self.hybrid.missing_reason(), self.hybrid.client().cloned());
        let before = || reason.into_iter().for_each(info_string);
        let after = || {
            if let Some(client) = client {
                info_string(format_args!("strategist: {}", client.statistics()));
            }
        };
        (before, after)
    }

    /// Output of `eval` about both networks, if there is a transformer.
    pub(crate) fn describe(
        &self,
        position: &Position,
        tactician: Centipawns,
        options: &Options,
        searcher: &Searcher,
    ) -> Option<String> {
        let blend = |eval: &StrategistEval, weight| searcher.blend_eval(tactician, eval, weight);
        self.hybrid.describe(position, tactician, &options.evaluator, options.chess960, blend)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_search::options::find;
    use tandem_transformer::Method;

    #[test]
    fn every_method_without_search_can_be_chosen() {
        let mode = find(TABLE, "SearchMode").unwrap().to_string();
        let names = Method::ALL.map(Method::name).join(" var ");
        assert!(mode.ends_with(&format!(" var {} var {names}", searchless::ALPHABETA)), "{mode}");
    }
}
