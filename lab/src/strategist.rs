//! Evaluation of single positions by a transformer, whichever inputs and heads it has.

use crate::error::LabError;
use tandem_chess::{Move, Position};
use tandem_transformer::encoding::{buckets::Buckets, text};
use tandem_transformer::legal::{Temperature, probabilities};
use tandem_transformer::{
    Architecture, AttentionObserver, Network, Outputs, PositionBatch, Scratch, ValueEstimate,
};

/// The input of a network for one position: its encoding, and the moves if the network has an action-value
/// head.
#[derive(Debug)]
pub(crate) struct EncodedPosition {
    batch: PositionBatch,
    actions: Option<Vec<u16>>,
}

impl EncodedPosition {
    /// Encodes a position; networks with an action-value head also get `moves`. Moves without an action
    /// index, such as castling in Chess960, are left out.
    pub(crate) fn new(architecture: &Architecture, position: &Position, moves: &[Move]) -> Self {
        let mut batch = PositionBatch::new(architecture.input);
        batch.push(position);
        let action_indices = || moves.iter().filter_map(|&mv| text::action(position.board(), mv)).collect();
        Self { batch, actions: architecture.heads.action_value.map(|_| action_indices()) }
    }

    /// Runs the forward pass. The observer sees the attention of every layer; pass `&mut ()` for none.
    ///
    /// # Errors
    ///
    /// When the network does not accept the input.
    pub(crate) fn run<'a>(
        &self,
        network: &Network,
        scratch: &'a mut Scratch,
        observer: &mut impl AttentionObserver,
    ) -> Result<&'a [Outputs], LabError> {
        let actions: &[&[u16]] = match &self.actions {
            Some(actions) => &[actions],
            None => &[],
        };
        Ok(network.run_observed(&self.batch.inputs(actions), scratch, observer)?)
    }
}

/// The evaluation of a position by a network, from the view of the side to move.
#[derive(Clone, Debug, Default)]
pub(crate) struct PositionEval {
    /// Win probability from 0 to 1, with a draw counting one half; `None` if the network has only a policy.
    pub(crate) win_probability: Option<f64>,
    /// The legal moves that the network scores, each with its policy probability, or with the win probability
    /// after it for networks of action values.
    pub(crate) moves: Vec<(Move, f32)>,
}

impl PositionEval {
    /// The move with the highest score; the first one among equals.
    pub(crate) fn best(&self) -> Option<(Move, f32)> {
        self.moves.iter().copied().reduce(|best, next| if next.1 > best.1 { next } else { best })
    }
}

/// Evaluates a position with all heads that the network has.
///
/// # Errors
///
/// When the network does not accept the input.
pub(crate) fn evaluate(
    network: &Network,
    position: &Position,
    scratch: &mut Scratch,
) -> Result<PositionEval, LabError> {
    let architecture = network.architecture();
    let board = position.board();
    let mut legal: Vec<Move> = position.legal_moves().to_vec();
    if architecture.heads.action_value.is_some() {
        legal.retain(|&mv| text::action(board, mv).is_some());
    }
    let outputs = EncodedPosition::new(architecture, position, &legal).run(network, scratch, &mut ())?;
    let from_buckets =
        |logits: &[f32]| Buckets::new(logits.len()).map(|buckets| buckets.win_probability(logits));
    if architecture.heads.action_value.is_some() {
        let win_probabilities =
            outputs.iter().map(|output| from_buckets(&output.action_value).unwrap_or(0.5) as f32);
        let mut evaluation =
            PositionEval { win_probability: None, moves: legal.into_iter().zip(win_probabilities).collect() };
        evaluation.win_probability = evaluation.best().map(|(_, score)| score.into());
        return Ok(evaluation);
    }
    let Some(output) = outputs.first() else { return Ok(PositionEval::default()) };
    let from_wdl = output
        .values
        .iter()
        .flatten()
        .next()
        .map(|value| ValueEstimate::from_wdl_logits(value.wdl).win_probability());
    let moves = architecture.heads.policy.as_ref();
    let moves = moves.map(|head| probabilities(board, head.kind, &output.policy, Temperature::ONE));
    Ok(PositionEval {
        win_probability: from_wdl.or_else(|| from_buckets(&output.state_value)),
        moves: moves.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_transformer::{Isa, Precision, Preset, Weights};

    #[test]
    fn every_kind_of_network_evaluates_every_legal_move() {
        for preset in [Preset::Byte, Preset::BtSmall] {
            let mut architecture = preset.architecture();
            architecture.body.layers = 1;
            let network = Network::new(&Weights::random(architecture, 1), Precision::F32, Isa::best());
            let mut scratch = Scratch::default();
            let fen = "r3k2r/8/8/8/8/8/P6p/R3K3 b Qkq - 5 40";
            let position = Position::from_fen(fen).unwrap();
            let evaluation = evaluate(&network, &position, &mut scratch).unwrap();
            assert!((0.0..=1.0).contains(&evaluation.win_probability.unwrap()));
            let moves: Vec<Move> = evaluation.moves.iter().map(|&(mv, _)| mv).collect();
            assert_eq!(moves[..], position.legal_moves()[..]);
            let (_, best) = evaluation.best().unwrap();
            assert!(evaluation.moves.iter().all(|&(_, score)| (0.0..=best).contains(&score)));
        }
    }
}
