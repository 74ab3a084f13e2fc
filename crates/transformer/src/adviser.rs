//! Moves without search: what a network thinks of each that can be played.

mod method;
mod prospect;

pub use method::{Method, UnfitMethod, UnknownMethod};
pub use prospect::Prospect;

use crate::legal::{self, Temperature, allows_repetition};
use crate::{Batch, Mask, Network, Outputs, Scratch};
use std::sync::Arc;
use tandem_chess::move_map::lc0;
use tandem_chess::{Move, Position};

/// Positions judged at a time. More would be no faster, and later to notice that nobody waits for the answer any more.
const AT_A_TIME: usize = 16;

/// A network that is asked for moves.
///
/// Who sees no game does not know that it repeats itself. So a move after which the opponent can claim a draw by
/// repetition is taken for that draw, whatever the network says, as in searchless chess. A policy knows no draws: there
/// such a move stands behind all others if the network thinks that the position is better than even, and stays where it
/// is if the network has no opinion of positions.
///
/// ```
/// use std::sync::Arc;
/// use tandem_chess::Position;
/// use tandem_transformer::{Adviser, Isa, Method, Network, Precision, Preset, Weights};
///
/// let weights = Weights::random(Preset::Byte.architecture(), 1);
/// let network = Arc::new(Network::new(&weights, Precision::F32, Isa::best()));
/// let mut adviser = Adviser::new(network, Method::ActionValue)?;
/// let mut game = Position::startpos();
/// let advice = adviser.weigh(&mut game);
/// assert_eq!(advice.moves.len(), 20);
/// assert!(advice.moves.is_sorted_by(|better, worse| better.weight >= worse.weight));
/// # Ok::<(), tandem_transformer::UnfitMethod>(())
/// ```
#[derive(Debug)]
pub struct Adviser {
    network: Arc<Network>,
    method: Method,
    temperature: Temperature,
    scratch: Scratch,
    batch: Batch,
    moves: Vec<WeighedMove>,
    /// Which of the moves the network is asked about.
    asked: Vec<usize>,
    /// For networks that read a move, its token for each that is asked about.
    actions: Vec<u16>,
}

/// A legal move, and what is thought of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeighedMove {
    /// The move.
    pub mv: Move,
    /// From 0 to 1: by policy its probability, and those of all legal moves add up to one; else the chance to win after it.
    pub weight: f32,
    /// What it promises to the side that plays it; by policy, what the position does. None where the network has no
    /// opinion.
    pub prospect: Option<Prospect>,
}

/// What an [`Adviser`] says.
#[derive(Clone, Copy, Debug)]
pub struct Advice<'a> {
    /// The moves, the one to be played first. Moves of which nothing is known come last and weigh nothing: there was no
    /// time to ask, or the network has no name for them, as for castling in Chess960 where it reads text.
    pub moves: &'a [WeighedMove],
    /// How often the network said what a position or a move is worth.
    pub judged: usize,
}

impl Adviser {
    /// Lets a network choose moves by a method, if it has a head for it.
    pub fn new(network: Arc<Network>, method: Method) -> Result<Self, UnfitMethod> {
        method.check(&network.architecture().heads)?;
        Ok(Self {
            batch: Batch::new(network.architecture().input),
            network,
            method,
            temperature: Temperature::ONE,
            scratch: Scratch::default(),
            moves: Vec::new(),
            asked: Vec::new(),
            actions: Vec::new(),
        })
    }

    /// With another temperature of the policy. It makes the weights more or less alike, and leaves their order.
    #[must_use]
    pub fn with_temperature(self, temperature: Temperature) -> Self {
        Self { temperature, ..self }
    }

    /// The network.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// How it is asked.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Weighs all legal moves of the position that a game has reached. The game stays as it is.
    pub fn weigh(&mut self, game: &mut Position) -> Advice<'_> {
        self.weigh_some(game, &[], || false)
    }

    /// Weighs some of the legal moves, or all if none are named. Once `stop` says so the network is asked no more; it is
    /// always asked about a few, so that there is a move to play.
    pub fn weigh_some(
        &mut self,
        game: &mut Position,
        only: &[Move],
        stop: impl FnMut() -> bool,
    ) -> Advice<'_> {
        let legal = game.legal_moves().into_iter().filter(|mv| only.is_empty() || only.contains(mv));
        self.moves.clear();
        self.moves.extend(legal.map(|mv| WeighedMove { mv, weight: 0.0, prospect: None }));
        let judged = match self.method {
            _ if self.moves.is_empty() => 0,
            Method::Policy => self.ask_policy(game),
            Method::Value => self.ask_values(game, stop),
            Method::ActionValue if self.reads_moves() => self.ask_actions(game, stop),
            Method::ActionValue => self.ask_move_values(game),
        };
        let class = |weighed: &WeighedMove| match weighed.prospect {
            // Better than any chance.
            Some(Prospect::Mate) => 0,
            // A policy weighs by what it likes, and knows nothing of the draw.
            Some(Prospect::Draw) if self.method == Method::Policy => 2,
            // Without hope is still more than not known.
            None if self.method != Method::Policy => 3,
            _ => 1,
        };
        // What is as good stays in the board's order.
        self.moves.sort_by(|a, b| class(a).cmp(&class(b)).then(b.weight.total_cmp(&a.weight)));
        Advice { moves: &self.moves, judged }
    }

    /// Whether the network reads a move with the position.
    fn reads_moves(&self) -> bool {
        self.network.architecture().heads.action_value.is_some()
    }

    /// One look at the position.
    fn ask_policy(&mut self, game: &mut Position) -> usize {
        let Self { network, temperature, scratch, batch, moves, .. } = self;
        let Some(head) = &network.architecture().heads.policy else { return 0 };
        let answer = &ask(network, batch.of(game), &[], scratch)[0];
        let probabilities = legal::probabilities(game.board(), head.kind, &answer.policy, *temperature);
        let prospect = Prospect::told(answer);
        let better = prospect.is_some_and(|prospect| prospect.chance() > 0.5);
        for weighed in moves {
            let found = probabilities.iter().find(|(mv, _)| *mv == weighed.mv);
            weighed.weight = found.map_or(0.0, |&(_, probability)| probability);
            weighed.prospect = prospect;
            if better && allows_repetition(game, weighed.mv) {
                weighed.prospect = Some(Prospect::Draw);
            }
        }
        1
    }

    /// A look at each position that a move leads to, unless the rules know what it is worth.
    fn ask_values(&mut self, game: &mut Position, mut stop: impl FnMut() -> bool) -> usize {
        let Self { network, scratch, batch, moves, asked, .. } = self;
        asked.clear();
        for (index, weighed) in moves.iter_mut().enumerate() {
            match Prospect::by_rule(game, weighed.mv) {
                Some(prospect) => weighed.promise(prospect),
                None => asked.push(index),
            }
        }
        let mut judged = 0;
        for some in asked.chunks(AT_A_TIME) {
            if judged > 0 && stop() {
                break;
            }
            batch.clear();
            for &index in some {
                game.play(moves[index].mv);
                batch.push(game);
                game.undo();
            }
            for (&index, answer) in some.iter().zip(ask(network, batch, &[], scratch)) {
                if let Some(prospect) = Prospect::told(answer) {
                    // What the opponent, who is to move there, can expect.
                    moves[index].promise(prospect.turned());
                }
            }
            judged += some.len();
        }
        judged
    }

    /// A look at the position with each move; at the position itself only once if it does not see the move.
    fn ask_actions(&mut self, game: &mut Position, mut stop: impl FnMut() -> bool) -> usize {
        let Self { network, scratch, batch, moves, asked, actions, .. } = self;
        asked.clear();
        actions.clear();
        for (index, weighed) in moves.iter().enumerate() {
            if let Some(action) = crate::encoding::text::action(game.board(), weighed.mv) {
                asked.push(index);
                actions.push(action);
            }
        }
        let at_a_time = match network.architecture().body.mask {
            Mask::Full => AT_A_TIME,
            Mask::Prefix => actions.len().max(1),
        };
        batch.of(game);
        let mut judged = 0;
        for (some, actions) in asked.chunks(at_a_time).zip(actions.chunks(at_a_time)) {
            if judged > 0 && stop() {
                break;
            }
            for (&index, answer) in some.iter().zip(ask(network, batch, &[actions], scratch)) {
                moves[index].promise(Prospect::of_buckets(&answer.action_value));
            }
            judged += some.len();
        }
        draw_repetitions(moves, game);
        judged
    }

    /// One look at the position, at all moves together.
    fn ask_move_values(&mut self, game: &mut Position) -> usize {
        let Self { network, scratch, batch, moves, .. } = self;
        let answer = &ask(network, batch.of(game), &[], scratch)[0];
        for weighed in moves.iter_mut() {
            let value = answer.move_value[lc0::index_of(game.board(), weighed.mv).get()];
            // Weights beyond all measure say nothing of some moves.
            if !value.is_nan() {
                weighed.promise(Prospect::Chance((1.0 + f64::from(value)) / 2.0));
            }
        }
        draw_repetitions(moves, game);
        1
    }
}

/// What a network says of positions that were encoded for it: of each, or of each action of each.
fn ask<'a>(network: &Network, batch: &Batch, actions: &[&[u16]], scratch: &'a mut Scratch) -> &'a [Outputs] {
    network
        .run(&batch.inputs(actions), scratch)
        .expect("positions are encoded for the network that reads them")
}

/// Takes moves after which a draw can be claimed for that draw.
fn draw_repetitions(moves: &mut [WeighedMove], game: &mut Position) {
    for weighed in moves {
        if allows_repetition(game, weighed.mv) {
            weighed.promise(Prospect::Draw);
        }
    }
}

impl WeighedMove {
    /// Weighs it by what it promises.
    fn promise(&mut self, prospect: Prospect) {
        self.weight = prospect.chance() as f32;
        self.prospect = Some(prospect);
    }
}

#[cfg(test)]
mod tests;
