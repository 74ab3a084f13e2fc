//! The evaluation of positions by the strategist.

use crate::bridge::{AccumulatorReader, Bridge, BridgeForm};
use crate::networks::HybridNetworks;
use crate::strategist_output::StrategistOutput;
use std::sync::Arc;
use tandem_chess::{Move, Position};
use tandem_transformer::encoding::text;
use tandem_transformer::legal::{Temperature, probabilities, softmax_in_place};
use tandem_transformer::{Inputs, Network, Outputs, PositionBatch, Scratch, ValueEstimate};

/// Softmax temperature that turns the win probabilities after each move into a policy: a win probability
/// higher by this much makes a move e times as probable.
const WIN_PROBABILITY_TEMPERATURE: f32 = 0.05;

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
    use crate::file::Hybrid;
    use crate::test_nets;
    use tandem_transformer::{Isa, Precision, Preset, Weights};

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
}
