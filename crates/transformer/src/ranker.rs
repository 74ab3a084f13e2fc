//! Play without search: a network ranks the legal moves of a position.

mod batches;
mod method;
mod value_estimate;

pub use method::{Method, UnknownMethod, UnsupportedMethod};
pub use value_estimate::ValueEstimate;

use batches::Batches;

use crate::legal::{self, Temperature, allows_repetition};
use crate::{Mask, Network, Outputs, PositionBatch, Scratch};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tandem_chess::move_map::lc0;
use tandem_chess::{Move, Position};

/// Ranks moves with a network, without search.
///
/// A network that reads a single position cannot see that the game repeats. A move after which the opponent
/// can claim a draw by repetition is therefore scored as that draw, whatever the network says, as in
/// searchless chess. A policy head has no value for draws: with [`Method::Policy`] such a move is ranked
/// behind all others if the network's value head prefers the position to a draw, and keeps its rank if it
/// does not, or if there is no value head.
///
/// ```
/// use std::sync::Arc;
/// use tandem_chess::Position;
/// use tandem_transformer::{Isa, Method, MoveRanker, Network, Precision, Preset, Weights};
///
/// let weights = Weights::random(Preset::Byte.architecture(), 1);
/// let network = Arc::new(Network::new(&weights, Precision::F32, Isa::best()));
/// let mut ranker = MoveRanker::new(network, Method::ActionValue)?;
/// let mut game = Position::startpos();
/// let ranked = ranker.rank_moves(&mut game);
/// assert_eq!(ranked.moves.len(), 20);
/// assert!(ranked.moves.is_sorted_by(|better, worse| better.score >= worse.score));
/// # Ok::<(), tandem_transformer::UnsupportedMethod>(())
/// ```
#[derive(Debug)]
pub struct MoveRanker {
    network: Arc<Network>,
    method: Method,
    temperature: Temperature,
    scratch: Scratch,
    batch: PositionBatch,
    moves: Vec<ScoredMove>,
    /// Indices of the moves that the network evaluates.
    to_evaluate: Vec<usize>,
    /// For networks that read a move: the token of each move to evaluate.
    actions: Vec<u16>,
}

/// A legal move with the score by which [`RankedMoves`] are sorted, and its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoredMove {
    /// The move that is scored, legal in the position.
    pub mv: Move,
    /// From 0 to 1: the policy's probability, of which those of all legal moves add up to one, or else the
    /// win probability after the move.
    pub score: f32,
    /// Value for the side that plays the move; with [`Method::Policy`], that of the position before it.
    /// `None` if the network has no value head, or if the move was not evaluated.
    pub value: Option<ValueEstimate>,
}

/// Result of [`MoveRanker::rank_moves`]; it borrows the ranker until the next call.
#[derive(Clone, Copy, Debug)]
pub struct RankedMoves<'a> {
    /// The moves, best first. Moves that were not evaluated come last with score 0: the caller stopped
    /// before, or the network has no token for them, as for castling in Chess960 if it reads text.
    pub moves: &'a [ScoredMove],
    /// Number of positions or moves for which the network was run.
    pub num_evaluated: usize,
}

impl MoveRanker {
    /// Creates a ranker that scores moves by `method`, with one of the network's heads.
    ///
    /// # Errors
    /// If the network has no head for the method; the error lists the methods that it supports.
    pub fn new(network: Arc<Network>, method: Method) -> Result<Self, UnsupportedMethod> {
        method.check(&network.architecture().heads)?;
        Ok(Self {
            batch: PositionBatch::new(network.architecture().input),
            network,
            method,
            temperature: Temperature::ONE,
            scratch: Scratch::default(),
            moves: Vec::new(),
            to_evaluate: Vec::new(),
            actions: Vec::new(),
        })
    }

    /// Sets the temperature of the policy (1 by default). It flattens or sharpens the probabilities and
    /// leaves their order.
    #[must_use]
    pub fn with_temperature(self, temperature: Temperature) -> Self {
        Self { temperature, ..self }
    }

    /// The network that evaluates the moves, which other rankers may share.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// The method by which moves are scored, as it was given to [`Self::new`].
    pub fn method(&self) -> Method {
        self.method
    }

    /// Ranks all legal moves of the current position of a game. `game` is the same afterwards.
    pub fn rank_moves(&mut self, game: &mut Position) -> RankedMoves<'_> {
        self.rank_selected(game, &[], || false)
    }

    /// Ranks some of the legal moves, or all if `only` is empty. Once `stop` returns true the network is not
    /// called again; the first move is always evaluated, so that there is a move to play.
    pub fn rank_selected(
        &mut self,
        game: &mut Position,
        only: &[Move],
        mut stop: impl FnMut() -> bool,
    ) -> RankedMoves<'_> {
        self.rank_within(game, only, |_| !stop())
    }

    /// Ranks moves as [`Self::rank_selected`] does. `may_run` says if the network may be called for as long as it is
    /// expected to take; if not, fewer moves are evaluated at a time, or no more. A clock is then overstepped by the
    /// error of the expectation, not by a whole batch.
    pub fn rank_within(
        &mut self,
        game: &mut Position,
        only: &[Move],
        may_run: impl FnMut(Duration) -> bool,
    ) -> RankedMoves<'_> {
        let legal = game.legal_moves().into_iter().filter(|mv| only.is_empty() || only.contains(mv));
        self.moves.clear();
        self.moves.extend(legal.map(|mv| ScoredMove { mv, score: 0.0, value: None }));
        let num_evaluated = match self.method {
            _ if self.moves.is_empty() => 0,
            Method::Policy => self.rank_by_policy(game),
            Method::Value => self.rank_by_value(game, may_run),
            Method::ActionValue if self.reads_moves() => self.rank_by_action_value(game, may_run),
            Method::ActionValue => self.rank_by_move_value(game),
        };
        let class = |scored: &ScoredMove| match scored.value {
            // Ranks before any win probability.
            Some(ValueEstimate::Mate) => 0,
            // A policy's score is a preference, which does not account for the draw.
            Some(ValueEstimate::Draw) if self.method == Method::Policy => 2,
            // A move that surely loses is still better than one that was not evaluated.
            None if self.method != Method::Policy => 3,
            _ => 1,
        };
        // The sort is stable: equal scores stay in the board's order.
        self.moves.sort_by(|a, b| class(a).cmp(&class(b)).then(b.score.total_cmp(&a.score)));
        RankedMoves { moves: &self.moves, num_evaluated }
    }

    /// True if the network reads a move together with the position.
    fn reads_moves(&self) -> bool {
        self.network.architecture().heads.action_value.is_some()
    }

    /// Evaluates the position once.
    fn rank_by_policy(&mut self, game: &mut Position) -> usize {
        let Self { network, temperature, scratch, batch, moves, .. } = self;
        let Some(head) = &network.architecture().heads.policy else { return 0 };
        let output = &forward(network, batch.of(game), &[], scratch)[0];
        let probabilities = legal::probabilities(game.board(), head.kind, &output.policy, *temperature);
        let value = ValueEstimate::from_outputs(output);
        let better = value.is_some_and(|value| value.win_probability() > 0.5);
        for scored in moves {
            let found = probabilities.iter().find(|(mv, _)| *mv == scored.mv);
            scored.score = found.map_or(0.0, |&(_, probability)| probability);
            scored.value = value;
            if better && allows_repetition(game, scored.mv) {
                scored.value = Some(ValueEstimate::Draw);
            }
        }
        1
    }

    /// Evaluates the position after each move, except where the rules decide the value.
    fn rank_by_value(&mut self, game: &mut Position, may_run: impl FnMut(Duration) -> bool) -> usize {
        let Self { network, scratch, batch, moves, to_evaluate, .. } = self;
        to_evaluate.clear();
        for (index, scored) in moves.iter_mut().enumerate() {
            match ValueEstimate::by_rule(game, scored.mv) {
                Some(value) => scored.set_value(value),
                None => to_evaluate.push(index),
            }
        }
        let mut batches = Batches::growing(may_run);
        let mut num_evaluated = 0;
        while let Some(size) = batches.next(to_evaluate.len() - num_evaluated) {
            let start = Instant::now();
            let chunk = &to_evaluate[num_evaluated..num_evaluated + size];
            batch.clear();
            for &index in chunk {
                game.play(moves[index].mv);
                batch.push(game);
                game.undo();
            }
            for (&index, output) in chunk.iter().zip(forward(network, batch, &[], scratch)) {
                if let Some(value) = ValueEstimate::from_outputs(output) {
                    // The value is the opponent's, who is to move after the move.
                    moves[index].set_value(value.for_opponent());
                }
            }
            num_evaluated += size;
            batches.record(size, start.elapsed());
        }
        num_evaluated
    }

    /// Evaluates the position together with each move. Networks whose position tokens do not attend to the
    /// move compute those once.
    fn rank_by_action_value(&mut self, game: &mut Position, may_run: impl FnMut(Duration) -> bool) -> usize {
        let Self { network, scratch, batch, moves, to_evaluate, actions, .. } = self;
        to_evaluate.clear();
        actions.clear();
        for (index, scored) in moves.iter().enumerate() {
            if let Some(action) = crate::encoding::text::action(game.board(), scored.mv) {
                to_evaluate.push(index);
                actions.push(action);
            }
        }
        let mut batches = match network.architecture().body.mask {
            Mask::Full => Batches::growing(may_run),
            Mask::Prefix => Batches::single(may_run),
        };
        batch.of(game);
        let mut num_evaluated = 0;
        while let Some(size) = batches.next(to_evaluate.len() - num_evaluated) {
            let start = Instant::now();
            let chunk = &to_evaluate[num_evaluated..num_evaluated + size];
            let actions = &actions[num_evaluated..num_evaluated + size];
            for (&index, output) in chunk.iter().zip(forward(network, batch, &[actions], scratch)) {
                moves[index].set_value(ValueEstimate::from_bucket_logits(&output.action_value));
            }
            num_evaluated += size;
            batches.record(size, start.elapsed());
        }
        score_repetitions_as_draws(moves, game);
        num_evaluated
    }

    /// Evaluates the position once; its move-value head scores all moves.
    fn rank_by_move_value(&mut self, game: &mut Position) -> usize {
        let Self { network, scratch, batch, moves, .. } = self;
        let output = &forward(network, batch.of(game), &[], scratch)[0];
        for scored in moves.iter_mut() {
            let move_value = output.move_value[lc0::index_of(game.board(), scored.mv).get()];
            // Extreme weights can overflow to NaN, which scores nothing.
            if !move_value.is_nan() {
                scored.set_value(ValueEstimate::WinProbability((1.0 + f64::from(move_value)) / 2.0));
            }
        }
        score_repetitions_as_draws(moves, game);
        1
    }
}

/// Outputs for positions that were encoded for this network, or for each action of each position.
fn forward<'a>(
    network: &Network,
    batch: &PositionBatch,
    actions: &[&[u16]],
    scratch: &'a mut Scratch,
) -> &'a [Outputs] {
    network
        .run(&batch.inputs(actions), scratch)
        .expect("positions are encoded for the network that reads them")
}

/// Scores moves after which a draw can be claimed as that draw.
fn score_repetitions_as_draws(moves: &mut [ScoredMove], game: &mut Position) {
    for scored in moves {
        if allows_repetition(game, scored.mv) {
            scored.set_value(ValueEstimate::Draw);
        }
    }
}

impl ScoredMove {
    /// Sets the value, and the score to its win probability.
    fn set_value(&mut self, value: ValueEstimate) {
        self.score = value.win_probability() as f32;
        self.value = Some(value);
    }
}

#[cfg(test)]
mod tests;
