//! Both networks with what was learnt between them.

use crate::bridge::{AccumulatorReader, Bridge};
use crate::file::{DEFAULT_BLEND, DEFAULT_SCALE, DEFAULT_THRESHOLD, Hybrid};
use crate::selector::{Selector, Threshold};
use std::sync::Arc;
use tandem_transformer::{Input, Method, Network};
use thiserror::Error;

/// An NNUE, a transformer, and what was trained between them: bridge, selector, blend, threshold and scale.
/// It is immutable, so threads share it behind an [`Arc`].
#[derive(Debug)]
pub struct HybridNetworks {
    pub(crate) strategist: Arc<Network>,
    pub(crate) tactician: Option<Arc<tandem_nnue::Network>>,
    pub(crate) bridge: Option<Bridge>,
    selector: Option<Selector>,
    blend: f32,
    threshold: Threshold,
    /// NNUE centipawns per logit of the win probability.
    pub(crate) scale: f32,
}

/// Reason for which an NNUE, a transformer and the parts of a hybrid cannot be combined.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IncompatibleNetworks {
    /// The transformer has neither a policy nor a value nor an action-value head.
    #[error(
        "the transformer evaluates neither moves nor positions; a strategist needs a policy, a value or action values"
    )]
    NoPrediction,
    /// There is a bridge, but no NNUE whose accumulators it could read.
    #[error("the bridge needs an NNUE, and positions are evaluated without one")]
    NoNnue,
    /// The bridge belongs to an NNUE with accumulators of another width.
    #[error("the bridge reads {bridge} accumulator values, the NNUE has {nnue}")]
    Accumulators {
        /// Number of accumulator values that the bridge reads.
        bridge: usize,
        /// Number of accumulator values of the NNUE, both sides together.
        nnue: usize,
    },
    /// The bridge belongs to a transformer with another input embedding.
    #[error("the bridge outputs a board code of {bridge} values, and the transformer reads {}", or_none(.transformer))]
    Code {
        /// Number of values that the bridge outputs.
        bridge: usize,
        /// Width of the transformer's board code, if it has one.
        transformer: Option<usize>,
    },
}

fn or_none(code: &Option<usize>) -> String {
    code.map_or("none".into(), |code| format!("one of {code}"))
}

impl HybridNetworks {
    /// Combines a transformer with an NNUE, or with none, before anything is learnt between them.
    ///
    /// # Errors
    /// If the transformer has no head that evaluates moves or positions.
    pub fn new(
        strategist: Arc<Network>,
        tactician: Option<Arc<tandem_nnue::Network>>,
    ) -> Result<Self, IncompatibleNetworks> {
        let architecture = strategist.architecture();
        // Action values for pairs of squares are not used here.
        let has_head = architecture.heads.action_value.is_some()
            || [Method::Policy, Method::Value]
                .iter()
                .any(|method| method.is_supported_by(&architecture.heads));
        if !has_head {
            return Err(IncompatibleNetworks::NoPrediction);
        }
        let (threshold, scale) = (Threshold::new(DEFAULT_THRESHOLD), DEFAULT_SCALE);
        Ok(Self {
            strategist,
            tactician,
            bridge: None,
            selector: None,
            blend: DEFAULT_BLEND,
            threshold,
            scale,
        })
    }

    /// Adds bridge, selector, blend, threshold and scale of a hybrid file. Only shapes are checked here;
    /// [`Hybrid::check`] compares the hashes of the network files.
    ///
    /// # Errors
    /// If the bridge does not fit the NNUE's accumulators or the transformer's board code.
    pub fn with_hybrid(mut self, hybrid: Hybrid) -> Result<Self, IncompatibleNetworks> {
        let Hybrid { bridge, selector, blend, threshold, scale, .. } = hybrid;
        if let Some(bridge) = &bridge {
            let tactician = self.tactician.as_ref().ok_or(IncompatibleNetworks::NoNnue)?;
            let nnue = AccumulatorReader::width(tactician);
            if nnue != bridge.inputs() {
                return Err(IncompatibleNetworks::Accumulators { bridge: bridge.inputs(), nnue });
            }
            let transformer = self.strategist.architecture().board_code();
            if transformer != Some(bridge.outputs()) {
                return Err(IncompatibleNetworks::Code { bridge: bridge.outputs(), transformer });
            }
        }
        (self.bridge, self.selector) = (bridge, selector);
        (self.blend, self.threshold, self.scale) = (blend, Threshold::new(threshold), scale);
        Ok(self)
    }

    /// The selector, if one was trained for these networks.
    pub fn selector(&self) -> Option<&Selector> {
        self.selector.as_ref()
    }

    /// Weight of the transformer's value in the value of a queried position, from 0 to 1; the rest is the
    /// NNUE's.
    pub fn blend(&self) -> f32 {
        self.blend
    }

    /// Minimum output of the selector with which a position is queried.
    pub fn threshold(&self) -> Threshold {
        self.threshold
    }

    /// True if the transformer reads earlier positions of the game, so that a query must carry its history.
    pub(crate) fn reads_history(&self) -> bool {
        self.strategist.architecture().input == Input::Planes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::BridgeForm;
    use crate::test_nets;
    use tandem_transformer::{Architecture, Isa, Precision, Preset, Weights};

    fn networks() -> HybridNetworks {
        HybridNetworks::new(test_nets::transformer(1), Some(Arc::new(test_nets::nnue(32, 2)))).unwrap()
    }

    #[test]
    fn an_incompatible_network_is_reported() {
        let problem = |networks: HybridNetworks, inputs: usize, outputs: usize| {
            let bridge = Bridge::random(BridgeForm::Gated, inputs, outputs, 1);
            networks.with_hybrid(Hybrid::of_bridge(bridge)).unwrap_err().to_string()
        };
        assert_eq!(
            problem(networks(), 1024, 512),
            "the bridge reads 1024 accumulator values, the NNUE has 64"
        );
        assert_eq!(
            problem(networks(), 64, 256),
            "the bridge outputs a board code of 256 values, and the transformer reads one of 512"
        );
        let without = HybridNetworks::new(test_nets::transformer(1), None).unwrap();
        assert_eq!(
            problem(without, 64, 512),
            "the bridge needs an NNUE, and positions are evaluated without one"
        );
        let mut architecture: Architecture = Preset::BtSmall.architecture();
        architecture.body.layers = 1;
        (architecture.heads.policy, architecture.heads.value) = (None, None);
        let silent = Network::new(&Weights::random(architecture, 1), Precision::F32, Isa::Portable);
        assert_eq!(
            HybridNetworks::new(Arc::new(silent), None).unwrap_err(),
            IncompatibleNetworks::NoPrediction
        );
    }
}
