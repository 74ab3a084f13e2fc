//! A transformer that judges positions.

use crate::error::LabError;
use tandem_chess::{Move, Position};
use tandem_transformer::encoding::{buckets::Buckets, text};
use tandem_transformer::legal::{Temperature, probabilities};
use tandem_transformer::{Architecture, Batch, Network, Observer, Outputs, Prospect, Scratch};

/// A position as a network reads it.
#[derive(Debug)]
pub(crate) struct Reading {
    batch: Batch,
    actions: Option<Vec<u16>>,
}

impl Reading {
    /// A position, with these of its moves for a network that reads moves. Moves that have no number are left out.
    pub(crate) fn new(architecture: &Architecture, position: &Position, moves: &[Move]) -> Self {
        let mut batch = Batch::new(architecture.input);
        batch.push(position);
        let numbers = || moves.iter().filter_map(|&mv| text::action(position.board(), mv)).collect();
        Self { batch, actions: architecture.heads.action_value.map(|_| numbers()) }
    }

    /// Lets a network read it, and somebody look on.
    pub(crate) fn run<'a>(
        &self,
        network: &Network,
        scratch: &'a mut Scratch,
        observer: &mut impl Observer,
    ) -> Result<&'a [Outputs], LabError> {
        let actions: &[&[u16]] = match &self.actions {
            Some(actions) => &[actions],
            None => &[],
        };
        Ok(network.run_observed(&self.batch.inputs(actions), scratch, observer)?)
    }
}

/// What a network says of a position, for the side to move.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judgement {
    /// The chance to win, a draw counting half, if the network says it.
    pub(crate) chance: Option<f64>,
    /// The legal moves of which it says something: their probabilities, or the chance to win after each.
    pub(crate) moves: Vec<(Move, f32)>,
}

impl Judgement {
    /// The move that the network likes best.
    pub(crate) fn best(&self) -> Option<(Move, f32)> {
        self.moves.iter().copied().reduce(|best, next| if next.1 > best.1 { next } else { best })
    }
}

/// Judges a position.
pub(crate) fn judge(
    network: &Network,
    position: &Position,
    scratch: &mut Scratch,
) -> Result<Judgement, LabError> {
    let architecture = network.architecture();
    let board = position.board();
    let mut legal: Vec<Move> = position.legal_moves().to_vec();
    if architecture.heads.action_value.is_some() {
        legal.retain(|&mv| text::action(board, mv).is_some());
    }
    let said = Reading::new(architecture, position, &legal).run(network, scratch, &mut ())?;
    let chance = |logits: &[f32]| Buckets::new(logits.len()).map(|buckets| buckets.chance(logits));
    if architecture.heads.action_value.is_some() {
        let chances = said.iter().map(|outputs| chance(&outputs.action_value).unwrap_or(0.5) as f32);
        let mut judgement = Judgement { chance: None, moves: legal.into_iter().zip(chances).collect() };
        judgement.chance = judgement.best().map(|(_, chance)| chance.into());
        return Ok(judgement);
    }
    let Some(outputs) = said.first() else { return Ok(Judgement::default()) };
    let of_values =
        outputs.values.iter().flatten().next().map(|value| Prospect::of_outcomes(value.wdl).chance());
    let moves = architecture.heads.policy.as_ref();
    let moves = moves.map(|head| probabilities(board, head.kind, &outputs.policy, Temperature::ONE));
    Ok(Judgement {
        chance: of_values.or_else(|| chance(&outputs.state_value)),
        moves: moves.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_transformer::{Isa, Precision, Preset, Weights};

    #[test]
    fn every_kind_of_network_judges_every_legal_move() {
        for preset in [Preset::Byte, Preset::BtSmall] {
            let mut architecture = preset.architecture();
            architecture.body.layers = 1;
            let network = Network::new(&Weights::random(architecture, 1), Precision::F32, Isa::best());
            let mut scratch = Scratch::default();
            let fen = "r3k2r/8/8/8/8/8/P6p/R3K3 b Qkq - 5 40";
            let position = Position::from_fen(fen).unwrap();
            let judgement = judge(&network, &position, &mut scratch).unwrap();
            assert!((0.0..=1.0).contains(&judgement.chance.unwrap()));
            let moves: Vec<Move> = judgement.moves.iter().map(|&(mv, _)| mv).collect();
            assert_eq!(moves[..], position.legal_moves()[..]);
            let (_, best) = judgement.best().unwrap();
            assert!(judgement.moves.iter().all(|&(_, share)| (0.0..=best).contains(&share)));
        }
    }
}
