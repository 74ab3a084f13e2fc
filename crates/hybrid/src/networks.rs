//! Both networks with what was learnt between them, and the evaluation of positions by the strategist.

use crate::bridge::{AccumulatorReader, Bridge, BridgeForm};
use crate::file::Hybrid;
use crate::selector::{Selector, Threshold};
use crate::strategist_output::{DEFAULT_SCALE, StrategistOutput};
use std::sync::Arc;
use tandem_chess::{Move, Position};
use tandem_transformer::encoding::text;
use tandem_transformer::legal::{Temperature, probabilities, softmax_in_place};
use tandem_transformer::{Input, Inputs, Method, Network, Outputs, PositionBatch, Scratch, ValueEstimate};
use thiserror::Error;

/// Weight of the strategist in a blended value, unless a file or a user sets another one.
pub(crate) const DEFAULT_BLEND: f32 = 0.7;
/// Probability of the selector from which a position is queried, unless a file or a user sets another one.
pub(crate) const DEFAULT_THRESHOLD: f32 = 0.5;

/// Softmax temperature that turns the win probabilities after each move into a policy: a win probability
/// higher by this much makes a move e times as probable.
const WIN_PROBABILITY_TEMPERATURE: f32 = 0.05;

/// An NNUE, a transformer, and what was trained between them: bridge, selector, blend, threshold and scale.
/// It is immutable, so threads share it behind an [`Arc`].
#[derive(Debug)]
pub struct HybridNetworks {
    strategist: Arc<Network>,
    tactician: Option<Arc<tandem_nnue::Network>>,
    bridge: Option<Bridge>,
    selector: Option<Selector>,
    blend: f32,
    threshold: Threshold,
    scale: f32,
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

/// Evaluates positions with the transformer, through the bridge if there is one. Owns the scratch memory, so
/// each thread needs one of its own.
pub struct StrategistEvaluator {
    networks: Arc<HybridNetworks>,
    scratch: Scratch,
    batch: PositionBatch,
    /// Reads the NNUE's accumulators for the bridge.
    accumulator_reader: Option<AccumulatorReader>,
    accumulators: Vec<f32>,
    code: Vec<f32>,
}

impl StrategistEvaluator {
    /// Creates an evaluator, which evaluates positions on one thread, with scratch memory for these networks.
    pub fn new(networks: Arc<HybridNetworks>) -> Self {
        let tactician = networks.tactician.as_ref().filter(|_| networks.bridge.is_some());
        Self {
            scratch: Scratch::default(),
            batch: PositionBatch::new(networks.strategist.architecture().input),
            accumulator_reader: tactician.map(|network| AccumulatorReader::new(Arc::clone(network))),
            accumulators: Vec::new(),
            code: vec![0.0; networks.bridge.as_ref().map_or(0, Bridge::outputs)],
            networks,
        }
    }

    /// Evaluates a position. One forward pass for a network with policy or value head; one over all legal
    /// moves for a network with action values.
    pub fn evaluate(&mut self, position: &Position) -> StrategistOutput {
        if self.networks.strategist.architecture().heads.action_value.is_some() {
            self.evaluate_moves(position)
        } else {
            self.evaluate_position(position)
        }
    }

    /// One forward pass on the position itself.
    fn evaluate_position(&mut self, position: &Position) -> StrategistOutput {
        let Self { networks, scratch, batch, accumulator_reader, accumulators, code } = self;
        batch.of(position);
        let mut inputs = batch.inputs(&[]);
        if let (Some(bridge), Some(accumulator_reader)) = (&networks.bridge, accumulator_reader) {
            accumulator_reader.read(position.board(), accumulators);
            bridge.forward(accumulators, code);
            inputs = match bridge.form() {
                BridgeForm::Gated => batch.coded(code),
                BridgeForm::Plain => Inputs::Codes(code),
            };
        }
        let Some(output) = forward(&networks.strategist, &inputs, scratch).first() else {
            return StrategistOutput::default();
        };
        let policy = networks.strategist.architecture().heads.policy.as_ref();
        let moves =
            policy.map(|head| probabilities(position.board(), head.kind, &output.policy, Temperature::ONE));
        let value = ValueEstimate::from_outputs(output);
        StrategistOutput::new(value, &moves.unwrap_or_default(), networks.scale)
    }

    /// One forward pass with a token for each move. The better the win probability after a move, the more
    /// probable the move; the best one is the position's value.
    fn evaluate_moves(&mut self, position: &Position) -> StrategistOutput {
        let board = position.board();
        let legal = position.legal_moves();
        let numbered = legal.iter().filter_map(|&mv| Some((mv, text::action(board, mv)?)));
        let (moves, actions): (Vec<Move>, Vec<u16>) = numbered.unzip();
        let outputs = forward(
            &self.networks.strategist,
            &self.batch.of(position).inputs(&[&actions]),
            &mut self.scratch,
        );
        let win_probability = |output: &Outputs| {
            ValueEstimate::from_bucket_logits(&output.action_value).win_probability() as f32
        };
        let mut moves: Vec<(Move, f32)> =
            moves.into_iter().zip(outputs.iter().map(win_probability)).collect();
        let best = moves.iter().map(|&(_, probability)| probability).reduce(f32::max);
        if let Some(temperature) = Temperature::new(WIN_PROBABILITY_TEMPERATURE) {
            softmax_in_place(&mut moves, temperature);
        }
        let value = best.map(|probability| ValueEstimate::WinProbability(probability.into()));
        StrategistOutput::new(value, &moves, self.networks.scale)
    }
}

/// The network's outputs; empty if it cannot read the inputs, which [`HybridNetworks`] rules out.
fn forward<'a>(network: &Network, inputs: &Inputs<'_>, scratch: &'a mut Scratch) -> &'a [Outputs] {
    network.run(inputs, scratch).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_nets;
    use tandem_transformer::{Architecture, Isa, Precision, Preset, Weights};

    const FEN: &str = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 0 1";

    fn evaluated(networks: HybridNetworks) -> StrategistOutput {
        StrategistEvaluator::new(Arc::new(networks)).evaluate(&Position::from_fen(FEN).unwrap())
    }

    fn networks() -> HybridNetworks {
        HybridNetworks::new(test_nets::transformer(1), Some(Arc::new(test_nets::nnue(32, 2)))).unwrap()
    }

    #[test]
    fn a_closed_gate_changes_nothing_and_an_open_one_does() {
        let alone = evaluated(networks());
        let closed = Bridge::random(BridgeForm::Gated, 64, 512, 3);
        let with = |bridge: Bridge| evaluated(networks().with_hybrid(Hybrid::of_bridge(bridge)).unwrap());
        assert_eq!(with(closed), alone);
        let open = with(test_nets::open_bridge(BridgeForm::Gated, 64));
        let plain = with(test_nets::open_bridge(BridgeForm::Plain, 64));
        assert!(open != alone && plain != alone && plain != open);
        assert_eq!(open.eval().policy().count(), alone.eval().policy().count());
    }

    #[test]
    fn every_kind_of_network_is_evaluated() {
        for preset in [Preset::Byte, Preset::BtSmall] {
            let mut architecture = preset.architecture();
            architecture.body.layers = 1;
            let network = Network::new(&Weights::random(architecture, 1), Precision::F32, Isa::best());
            let output = evaluated(HybridNetworks::new(Arc::new(network), None).unwrap());
            assert!((0.0..=1.0).contains(&output.value_estimate().unwrap().win_probability()));
            let sum: f32 = output.eval().policy().map(|(_, probability)| probability.get()).sum();
            assert!((sum - 1.0).abs() < 0.01);
        }
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
