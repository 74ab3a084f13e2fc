//! Options of the hybrid: if, how and with which networks the search queries the strategist.

use crate::output::info_string;
use crate::searchless::score;
use std::fmt::Write;
use std::sync::Arc;
use tandem_chess::{Color, Position, uci};
use tandem_hybrid::{
    ClientSettings, FeatureContext, Features, Fingerprint, Hybrid, HybridError, HybridNetworks, QueryMode,
    StrategistClient, StrategistEvaluator, Threshold,
};
use tandem_nets::EvaluatorChoice;
use tandem_search::{Centipawns, StrategistEval, Wdl};
use tandem_transformer::Network;

/// Search depth that `eval` passes to the selector, typical of a query.
const DEPTH_SHOWN: i32 = 12;

/// Value of the option `Strategist`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum QueryPolicy {
    /// Never queries; the search runs alone.
    #[default]
    Off,
    /// Queries positions of sufficient depth that the selector selects.
    Auto,
    /// Queries all positions of sufficient depth.
    Always,
}

/// The options `Strategist`, `StrategistThreads`, `SelectorThreshold`, `StrategistBlend` and `HybridFile`.
#[derive(Clone, Debug, Default)]
pub(crate) struct HybridOptions {
    policy: QueryPolicy,
    threads: usize,
    threshold: Option<Threshold>,
    blend: Option<f32>,
    /// The hybrid, with the path of its file for messages.
    hybrid: Option<(String, Hybrid)>,
    /// The networks combined with the hybrid, or the reason why they do not fit together.
    networks: Option<Result<Arc<HybridNetworks>, String>>,
    client: Option<Arc<StrategistClient>>,
}

/// The networks in use, with the fingerprints of their files.
pub(crate) struct BaseNetworks<'a> {
    pub(crate) evaluator: &'a EvaluatorChoice,
    /// `None` if the evaluator is not a network, or is the one built in.
    pub(crate) eval_file: Option<Fingerprint>,
    pub(crate) transformer: Option<(Fingerprint, &'a Arc<Network>)>,
}

impl HybridOptions {
    /// Sets the option `Strategist`, which takes effect at the next [`Self::rebuild`].
    pub(crate) fn set_policy(&mut self, value: &str) {
        self.policy = match value {
            "always" => QueryPolicy::Always,
            "auto" => QueryPolicy::Auto,
            _ => QueryPolicy::Off,
        };
    }

    /// True if a strategist is wanted.
    pub(crate) fn is_enabled(&self) -> bool {
        self.policy != QueryPolicy::Off
    }

    /// Sets the option `StrategistThreads`; with 0 the search threads run the network themselves.
    pub(crate) fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
        self.restart_client();
    }

    /// Sets the option `SelectorThreshold` as a probability; `None` uses that of the hybrid's file.
    pub(crate) fn set_threshold(&mut self, probability: Option<f32>) {
        self.threshold = probability.map(Threshold::new);
        self.restart_client();
    }

    /// Sets the option `StrategistBlend` as a weight from 0 to 1; `None` uses that of the hybrid's file.
    pub(crate) fn set_blend(&mut self, blend: Option<f32>) {
        self.blend = blend;
        self.restart_client();
    }

    /// Sets the option `HybridFile`; an empty path removes the hybrid.
    ///
    /// # Errors
    /// If the file cannot be read or is not a hybrid; the old one stays.
    pub(crate) fn set_file(&mut self, path: &str) -> Result<(), HybridError> {
        self.hybrid = match path {
            "" => None,
            path => Some((path.into(), Hybrid::load(path)?)),
        };
        Ok(())
    }

    /// Combines the networks in use, and reports if the hybrid does not fit them.
    pub(crate) fn rebuild(&mut self, bases: &BaseNetworks<'_>) {
        self.networks = bases.transformer.map(|(file, network)| {
            let networks = self.networks_of(bases, file, network);
            if let (Err(why), Some(_)) = (&networks, &self.hybrid) {
                info_string(why);
            }
            networks.map(Arc::new)
        });
        self.restart_client();
    }

    fn networks_of(
        &self,
        bases: &BaseNetworks<'_>,
        transformer: Fingerprint,
        network: &Arc<Network>,
    ) -> Result<HybridNetworks, String> {
        let tactician = match bases.evaluator {
            EvaluatorChoice::Bootstrap => None,
            EvaluatorChoice::Network(network) => Some(Arc::clone(network)),
        };
        let networks =
            HybridNetworks::new(Arc::clone(network), tactician).map_err(|error| error.to_string())?;
        let Some((file, hybrid)) = &self.hybrid else { return Ok(networks) };
        let problem = |error: &dyn std::fmt::Display| format!("HybridFile {file}: {error}");
        let nnue = match bases.evaluator {
            EvaluatorChoice::Bootstrap => None,
            EvaluatorChoice::Network(_) => {
                Some(bases.eval_file.unwrap_or_else(|| Fingerprint::of(tandem_nets::built_in_bytes())))
            }
        };
        hybrid.check(nnue, Some(transformer)).map_err(|error| problem(&error))?;
        networks.with_hybrid(hybrid.clone()).map_err(|error| problem(&error))
    }

    /// Replaces the client by one with the present settings, or by none.
    fn restart_client(&mut self) {
        self.client = None;
        if self.policy == QueryPolicy::Off {
            return;
        }
        let Some(Ok(networks)) = &self.networks else { return };
        let mode = match self.threads {
            0 => ClientSettings::IN_SEARCH,
            threads => QueryMode::Threads(threads),
        };
        let settings = ClientSettings {
            always: self.policy == QueryPolicy::Always,
            threshold: self.threshold,
            blend: self.blend,
            ..ClientSettings::new(mode)
        };
        self.client = Some(Arc::new(StrategistClient::new(Arc::clone(networks), settings)));
    }

    /// The client for the search, if the strategist is enabled and its networks fit together.
    pub(crate) fn client(&self) -> Option<&Arc<StrategistClient>> {
        self.client.as_ref()
    }

    /// Message for a search that has no strategist although the options ask for one.
    pub(crate) fn missing_reason(&self) -> Option<String> {
        if self.policy == QueryPolicy::Off {
            return None;
        }
        let alone = "the search goes on without a strategist";
        match &self.networks {
            Some(Ok(_)) => None,
            Some(Err(why)) => Some(format!("{why}; {alone}")),
            None => Some(format!("Strategist needs a transformer; set TransformerFile to one; {alone}")),
        }
    }

    /// Output of `eval` about both networks, if there is a transformer. `blend_eval` blends the tactician's
    /// value with an evaluation by a weight, as the search does.
    pub(crate) fn describe(
        &self,
        position: &Position,
        tactician: Centipawns,
        evaluator: &EvaluatorChoice,
        chess960: bool,
        blend_eval: impl FnOnce(&StrategistEval, f32) -> Centipawns,
    ) -> Option<String> {
        let networks = match self.networks.as_ref()? {
            Ok(networks) => networks,
            Err(why) => return Some(format!("Strategist: {why}")),
        };
        let is_white = position.side_to_move() == Color::White;
        let for_white = |Centipawns(value)| {
            let value = if is_white { value } else { -value };
            format!("{:+.2} (White's side)", f64::from(value) / 100.0)
        };
        let output = StrategistEvaluator::new(Arc::clone(networks)).evaluate(position);
        let eval = output.eval();
        let mut text = format!("Tactician: {}\n", for_white(tactician));
        match (eval.centipawns(), output.value_estimate().map(score)) {
            (Some(value), Some((_, wdl))) => {
                let _ = write!(text, "Strategist: {}", for_white(value));
                if let Some(Wdl { win, draw, loss }) = wdl {
                    let (win, loss) = if is_white { (win, loss) } else { (loss, win) };
                    let _ = write!(text, ", win {win} draw {draw} loss {loss} of 1000");
                    // The figures above it in `eval` have another origin.
                    text += ", as its value head predicts for games like those it was trained on";
                }
                text.push('\n');
            }
            _ => text += "Strategist: no value output\n",
        }
        if let Some(entropy) = eval.entropy() {
            let moves = eval.policy().take(5).map(|(mv, probability)| {
                let mv = uci::format(position.board(), mv, chess960);
                format!("{mv} {:.1} %", 100.0 * probability.get())
            });
            let _ = writeln!(
                text,
                "Its moves: {}; entropy {entropy:.2} nats",
                moves.collect::<Vec<_>>().join(", ")
            );
        }
        let threshold = self.threshold.unwrap_or(networks.threshold()).probability();
        match networks.selector() {
            Some(selector) => {
                let psqt_positional_gap = match evaluator {
                    EvaluatorChoice::Network(network) => {
                        network.evaluate(position.board()).psqt_positional_gap()
                    }
                    EvaluatorChoice::Bootstrap => 0,
                };
                let context = FeatureContext {
                    depth: DEPTH_SHOWN,
                    psqt_positional_gap: psqt_positional_gap as f32 / 100.0,
                };
                let probability = selector.probability(&Features::of(position, context));
                let _ = writeln!(
                    text,
                    "Selector: {probability:.3} at depth {DEPTH_SHOWN}, queried from {threshold:.3} on"
                );
            }
            None => text += "Selector: none, depth alone decides\n",
        }
        let blend = self.blend.unwrap_or(networks.blend());
        let value = for_white(blend_eval(eval, blend));
        let _ = write!(text, "Blend: {blend:.2} of the strategist, {value} where a search queries it");
        Some(text)
    }
}
