//! Both minds: the networks, what joins them, and one who speaks for them.

use crate::bridge::{Bridge, BridgeForm, Onlooker};
use crate::file::Hybrid;
use crate::opinion::{Opinion, USUAL_SCALE};
use crate::selector::{Selector, Threshold};
use std::sync::Arc;
use tandem_chess::{Move, Position};
use tandem_transformer::encoding::text;
use tandem_transformer::legal::{Temperature, probabilities, share_out};
use tandem_transformer::{Batch, Input, Inputs, Method, Network, Outputs, Prospect, Scratch};
use thiserror::Error;

/// How much of a blended value is the strategist's, before a file or a user says otherwise.
pub(crate) const BLEND: f32 = 0.7;
/// From which probability on the strategist is asked, before a file or a user says otherwise.
pub(crate) const THRESHOLD: f32 = 0.5;

/// With which temperature chances to win after each move become probabilities of moves: a chance that is so much better
/// is e times as probable.
const CHANCE_TEMPERATURE: f32 = 0.05;

/// Both networks and what was learnt between them. It does not change, so threads share it.
#[derive(Debug)]
pub struct Minds {
    strategist: Arc<Network>,
    tactician: Option<Arc<tandem_nnue::Network>>,
    bridge: Option<Bridge>,
    selector: Option<Selector>,
    blend: f32,
    threshold: Threshold,
    scale: f32,
}

/// Why networks cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnfitMinds {
    /// The transformer says nothing of moves or positions.
    #[error(
        "the transformer has no opinion of moves or positions; a strategist needs a policy, a value or action values"
    )]
    NoOpinion,
    /// A bridge begins at an NNUE.
    #[error("the bridge needs an NNUE, and positions are judged without one")]
    NoTactician,
    /// It is another NNUE's.
    #[error("the bridge reads {bridge} numbers of accumulators, the NNUE has {nnue}")]
    Accumulators {
        /// What the bridge reads.
        bridge: usize,
        /// What the NNUE has.
        nnue: usize,
    },
    /// It leads to another transformer.
    #[error("the bridge makes a code of {bridge} numbers, and the transformer reads {}", or_none(.transformer))]
    Code {
        /// What the bridge makes.
        bridge: usize,
        /// What the transformer reads.
        transformer: Option<usize>,
    },
}

fn or_none(code: &Option<usize>) -> String {
    code.map_or("none".into(), |code| format!("one of {code}"))
}

impl Minds {
    /// A transformer beside an NNUE, if there is one, with nothing learnt between them.
    pub fn new(
        strategist: Arc<Network>,
        tactician: Option<Arc<tandem_nnue::Network>>,
    ) -> Result<Self, UnfitMinds> {
        let architecture = strategist.architecture();
        // Values of moves from pairs of squares are asked for by no one here.
        let speaks = architecture.heads.action_value.is_some()
            || [Method::Policy, Method::Value].iter().any(|method| method.fits(&architecture.heads));
        if !speaks {
            return Err(UnfitMinds::NoOpinion);
        }
        let (threshold, scale) = (Threshold::new(THRESHOLD), USUAL_SCALE);
        Ok(Self { strategist, tactician, bridge: None, selector: None, blend: BLEND, threshold, scale })
    }

    /// The same with what was learnt between them, if it was between networks of their shapes. Whether it was between
    /// these very networks is [`Hybrid::check`]'s business.
    pub fn with_hybrid(mut self, hybrid: Hybrid) -> Result<Self, UnfitMinds> {
        let Hybrid { bridge, selector, blend, threshold, scale, .. } = hybrid;
        if let Some(bridge) = &bridge {
            let tactician = self.tactician.as_ref().ok_or(UnfitMinds::NoTactician)?;
            let nnue = Onlooker::numbers(tactician);
            if nnue != bridge.inputs() {
                return Err(UnfitMinds::Accumulators { bridge: bridge.inputs(), nnue });
            }
            let transformer = self.strategist.architecture().board_code();
            if transformer != Some(bridge.outputs()) {
                return Err(UnfitMinds::Code { bridge: bridge.outputs(), transformer });
            }
        }
        (self.bridge, self.selector) = (bridge, selector);
        (self.blend, self.threshold, self.scale) = (blend, Threshold::new(threshold), scale);
        Ok(self)
    }

    /// Who says where it should be asked, if anyone.
    pub fn selector(&self) -> Option<&Selector> {
        self.selector.as_ref()
    }

    /// How much of a blended value is the strategist's.
    pub fn blend(&self) -> f32 {
        self.blend
    }

    /// From which probability of the selector's on it should be asked.
    pub fn threshold(&self) -> Threshold {
        self.threshold
    }

    /// Whether it reads more than the board: then a position must come with its game.
    pub(crate) fn reads_history(&self) -> bool {
        self.strategist.architecture().input == Input::Planes
    }
}

/// One who speaks for both minds, with the memory that takes.
pub struct Strategist {
    minds: Arc<Minds>,
    scratch: Scratch,
    batch: Batch,
    /// Who tells the bridge what the NNUE sees, where there is one.
    onlooker: Option<Onlooker>,
    seen: Vec<f32>,
    code: Vec<f32>,
}

impl Strategist {
    /// Speaks for these.
    pub fn new(minds: Arc<Minds>) -> Self {
        let tactician = minds.tactician.as_ref().filter(|_| minds.bridge.is_some());
        Self {
            scratch: Scratch::default(),
            batch: Batch::new(minds.strategist.architecture().input),
            onlooker: tactician.map(|network| Onlooker::new(Arc::clone(network))),
            seen: Vec::new(),
            code: vec![0.0; minds.bridge.as_ref().map_or(0, Bridge::outputs)],
            minds,
        }
    }

    /// What the strategist says of a position.
    pub fn judge(&mut self, position: &Position) -> Opinion {
        let opinion = if self.minds.strategist.architecture().heads.action_value.is_some() {
            self.judge_actions(position)
        } else {
            self.judge_position(position)
        };
        opinion.on_scale(self.minds.scale)
    }

    /// One look at the position.
    fn judge_position(&mut self, position: &Position) -> Opinion {
        let Self { minds, scratch, batch, onlooker, seen, code } = self;
        batch.of(position);
        let mut inputs = batch.inputs(&[]);
        if let (Some(bridge), Some(onlooker)) = (&minds.bridge, onlooker) {
            onlooker.read(position.board(), seen);
            bridge.forward(seen, code);
            inputs = match bridge.form() {
                BridgeForm::Gated => batch.coded(code),
                BridgeForm::Plain => Inputs::Codes(code),
            };
        }
        let Some(answer) = ask(&minds.strategist, &inputs, scratch).first() else {
            return Opinion::default();
        };
        let policy = minds.strategist.architecture().heads.policy.as_ref();
        let moves =
            policy.map(|head| probabilities(position.board(), head.kind, &answer.policy, Temperature::ONE));
        Opinion::new(Prospect::told(answer), &moves.unwrap_or_default())
    }

    /// A look at each move: the better its chance, the more probable it is, and the best chance is the position's.
    fn judge_actions(&mut self, position: &Position) -> Opinion {
        let board = position.board();
        let legal = position.legal_moves();
        let numbered = legal.iter().filter_map(|&mv| Some((mv, text::action(board, mv)?)));
        let (moves, actions): (Vec<Move>, Vec<u16>) = numbered.unzip();
        let answers =
            ask(&self.minds.strategist, &self.batch.of(position).inputs(&[&actions]), &mut self.scratch);
        let chance = |answer: &Outputs| Prospect::of_buckets(&answer.action_value).chance() as f32;
        let mut moves: Vec<(Move, f32)> = moves.into_iter().zip(answers.iter().map(chance)).collect();
        let best = moves.iter().map(|&(_, chance)| chance).reduce(f32::max);
        if let Some(temperature) = Temperature::new(CHANCE_TEMPERATURE) {
            share_out(&mut moves, temperature);
        }
        Opinion::new(best.map(|chance| Prospect::Chance(chance.into())), &moves)
    }
}

/// What the network says; nothing if it cannot read that, which [`Minds`] see to.
fn ask<'a>(network: &Network, inputs: &Inputs<'_>, scratch: &'a mut Scratch) -> &'a [Outputs] {
    network.run(inputs, scratch).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_nets;
    use tandem_transformer::{Architecture, Isa, Precision, Preset, Weights};

    const FEN: &str = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 0 1";

    fn judged(minds: Minds) -> Opinion {
        Strategist::new(Arc::new(minds)).judge(&Position::from_fen(FEN).unwrap())
    }

    fn minds() -> Minds {
        Minds::new(test_nets::transformer(1), Some(Arc::new(test_nets::nnue(32, 2)))).unwrap()
    }

    #[test]
    fn a_closed_gate_changes_nothing_and_an_open_one_does() {
        let alone = judged(minds());
        let closed = Bridge::random(BridgeForm::Gated, 64, 512, 3);
        let with = |bridge: Bridge| judged(minds().with_hybrid(Hybrid::of_bridge(bridge)).unwrap());
        assert_eq!(with(closed), alone);
        let open = with(test_nets::open_bridge(BridgeForm::Gated, 64));
        let plain = with(test_nets::open_bridge(BridgeForm::Plain, 64));
        assert!(open != alone && plain != alone && plain != open);
        assert_eq!(open.policy().count(), alone.policy().count());
    }

    #[test]
    fn every_kind_of_network_has_an_opinion() {
        for preset in [Preset::Byte, Preset::BtSmall] {
            let mut architecture = preset.architecture();
            architecture.body.layers = 1;
            let network = Network::new(&Weights::random(architecture, 1), Precision::F32, Isa::best());
            let opinion = judged(Minds::new(Arc::new(network), None).unwrap());
            assert!((0.0..=1.0).contains(&opinion.prospect().unwrap().chance()));
            let sum: f32 = opinion.policy().map(|(_, share)| share.get()).sum();
            assert!((sum - 1.0).abs() < 0.01);
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let told = |minds: Minds, inputs: usize, outputs: usize| {
            let bridge = Bridge::random(BridgeForm::Gated, inputs, outputs, 1);
            minds.with_hybrid(Hybrid::of_bridge(bridge)).unwrap_err().to_string()
        };
        assert_eq!(
            told(minds(), 1024, 512),
            "the bridge reads 1024 numbers of accumulators, the NNUE has 64"
        );
        assert_eq!(
            told(minds(), 64, 256),
            "the bridge makes a code of 256 numbers, and the transformer reads one of 512"
        );
        let without = Minds::new(test_nets::transformer(1), None).unwrap();
        assert_eq!(told(without, 64, 512), "the bridge needs an NNUE, and positions are judged without one");
        let mut architecture: Architecture = Preset::BtSmall.architecture();
        architecture.body.layers = 1;
        (architecture.heads.policy, architecture.heads.value) = (None, None);
        let silent = Network::new(&Weights::random(architecture, 1), Precision::F32, Isa::Portable);
        assert_eq!(Minds::new(Arc::new(silent), None).unwrap_err(), UnfitMinds::NoOpinion);
    }
}
