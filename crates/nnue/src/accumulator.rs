//! The accumulators of both sides, updated lazily along a line of play.
//!
//! [`Accumulators::push`] only records a move. An evaluation then brings the accumulators up to date from the
//! nearest ancestor that is already computed, in one pass per move. If a king move changed a side's king
//! bucket or mirroring, the side is refreshed instead, from the last position seen with the same king bucket
//! (a cache known as Finny tables).

use crate::features::{FeatureSet, KingView};
use crate::first_layer::Accumulator;
use crate::inputs::Inputs;
use crate::network::{Evaluation, Network, Scratch};
use tandem_chess::{BitBoard, Board, Changes, Color, Piece};

impl Accumulator {
    /// The accumulator with no active inputs, which is the bias alone.
    pub fn new<I: Inputs>(network: &Network<I>) -> Self {
        network.first.empty()
    }

    /// Sets this accumulator to `from` plus the rows `added` minus the rows `removed`, in one pass. Undoing a
    /// step is free, because `from` is left unchanged.
    ///
    /// Both accumulators must come from this network; those of another one may cause a panic or meaningless
    /// values.
    ///
    /// # Panics
    /// If the network has no row of that index.
    #[inline]
    pub fn update_from<I: Inputs>(
        &mut self,
        network: &Network<I>,
        from: &Self,
        added: &[u32],
        removed: &[u32],
    ) {
        network.first.update(&network.kernels, self, from, added, removed);
    }
}

/// Feature indices that a step adds and removes; kept to reuse the allocation.
#[derive(Default)]
struct FeatureDelta {
    added: Vec<u32>,
    removed: Vec<u32>,
}

impl FeatureDelta {
    /// Fills in the features that a move changes from one side's point of view.
    #[inline]
    fn fill(&mut self, features: &FeatureSet, side: Color, view: KingView, changes: &Changes) {
        let row = |placed: &tandem_chess::Placed| {
            let index = features.index(view, placed.color == side, placed.piece, placed.square);
            index.map(|index| index as u32)
        };
        self.added.clear();
        self.removed.clear();
        self.added.extend(changes.added().iter().filter_map(row));
        self.removed.extend(changes.removed().iter().filter_map(row));
    }
}

/// The accumulators of one position on the line.
#[derive(Clone, Debug)]
struct StackEntry {
    values: [Accumulator; 2],
    views: [KingView; 2],
    ready: [bool; 2],
    /// The pieces that the move to this position added and removed.
    changes: Changes,
}

/// A cache entry: the last position that one side saw with one king bucket, and its accumulator.
#[derive(Clone, Debug)]
struct CachedView {
    values: Accumulator,
    pieces: [[BitBoard; 6]; 2],
}

/// A stack of accumulators for one line of play, as a search makes and takes back its moves.
pub struct Accumulators {
    stack: Vec<StackEntry>,
    top: usize,
    /// Refresh cache (Finny table), by side and king view.
    cache: Vec<Option<Box<CachedView>>>,
    scratch: Scratch,
    delta: FeatureDelta,
}

impl Accumulators {
    /// A stack that stands at the initial position of chess. Every later call must be given the same network.
    pub fn new(network: &Network) -> Self {
        let mut accumulators = Self {
            stack: Vec::new(),
            top: 0,
            cache: vec![None; 2 * network.features.num_views()],
            scratch: network.scratch(),
            delta: FeatureDelta::default(),
        };
        accumulators.reset(network, &Board::default());
        accumulators
    }

    /// Makes `board` the current position and forgets the recorded moves. Cached accumulators stay, because
    /// they depend on the network alone.
    pub fn reset(&mut self, network: &Network, board: &Board) {
        let views = Color::ALL.map(|side| network.features.view(side, board.king(side)));
        self.top = 0;
        match self.stack.first_mut() {
            Some(entry) => (entry.views, entry.ready) = (views, [false; 2]),
            None => self.stack.push(StackEntry {
                values: [Accumulator::new(network), Accumulator::new(network)],
                views,
                ready: [false; 2],
                changes: Changes::NONE,
            }),
        }
    }

    /// Records a move that was played on the board; nothing is computed yet.
    #[inline]
    pub fn push(&mut self, network: &Network, changes: &Changes) {
        let mut views = self.stack[self.top].views;
        for placed in changes.added() {
            if placed.piece == Piece::King {
                views[placed.color as usize] = network.features.view(placed.color, placed.square);
            }
        }
        self.top += 1;
        if self.top == self.stack.len() {
            self.stack.push(self.stack[self.top - 1].clone());
        }
        let entry = &mut self.stack[self.top];
        entry.views = views;
        entry.ready = [false; 2];
        entry.changes = *changes;
    }

    /// Undoes the last [`Self::push`]. At the start of the line it does nothing.
    #[inline]
    pub fn pop(&mut self) {
        self.top = self.top.saturating_sub(1);
    }

    /// Evaluates the current position. `board` must be the position that the recorded moves lead to.
    #[inline]
    pub fn evaluate(&mut self, network: &Network, board: &Board) -> Evaluation {
        for side in Color::ALL {
            self.make_ready(network, board, side);
        }
        let us = board.side_to_move();
        let [own, other] = [us, !us].map(|side| &self.stack[self.top].values[side as usize]);
        network.forward(&[own, other], network.bucket(board.occupied().len() as usize), &mut self.scratch)
    }

    /// The accumulator of one side in the current position,
    /// [`Architecture::outputs`](crate::Architecture::outputs) values: the input of every later layer.
    /// `board` must be that position.
    pub fn values(&mut self, network: &Network, board: &Board, side: Color) -> &[i16] {
        self.make_ready(network, board, side);
        let len = network.first.outputs;
        let start = if side == board.side_to_move() { 0 } else { network.first.width - len };
        &self.stack[self.top].values[side as usize].hidden[start..start + len]
    }

    #[inline]
    fn make_ready(&mut self, network: &Network, board: &Board, side: Color) {
        let index = side as usize;
        let mut known = self.top;
        while !self.stack[known].ready[index] {
            if known == 0 || self.stack[known].views[index] != self.stack[known - 1].views[index] {
                return self.refresh(network, board, side);
            }
            known -= 1;
        }
        for ply in known + 1..=self.top {
            let (before, after) = self.stack.split_at_mut(ply);
            let (before, after) = (&before[ply - 1], &mut after[0]);
            self.delta.fill(&network.features, side, after.views[index], &after.changes);
            after.values[index].update_from(
                network,
                &before.values[index],
                &self.delta.added,
                &self.delta.removed,
            );
            after.ready[index] = true;
        }
    }

    /// Recomputes a side's accumulator from the cached position with the same king view.
    fn refresh(&mut self, network: &Network, board: &Board, side: Color) {
        let entry = &mut self.stack[self.top];
        let view = entry.views[side as usize];
        let index = side as usize * network.features.num_views() + network.features.view_index(view);
        let cached = self.cache[index].get_or_insert_with(|| {
            Box::new(CachedView { values: Accumulator::new(network), pieces: [[BitBoard::EMPTY; 6]; 2] })
        });
        self.delta.added.clear();
        self.delta.removed.clear();
        for color in Color::ALL {
            for piece in Piece::ALL {
                let now = board.colored_pieces(color, piece);
                let then = std::mem::replace(&mut cached.pieces[color as usize][piece as usize], now);
                let row = |square| {
                    let index = network.features.index(view, color == side, piece, square);
                    index.map(|index| index as u32)
                };
                self.delta.added.extend((now & !then).into_iter().filter_map(row));
                self.delta.removed.extend((then & !now).into_iter().filter_map(row));
            }
        }
        let values = &mut entry.values[side as usize];
        values.update_from(network, &cached.values, &self.delta.added, &self.delta.removed);
        cached.values.hidden.copy_from_slice(&values.hidden);
        cached.values.psqt = values.psqt;
        entry.ready[side as usize] = true;
    }
}

impl Network {
    /// Evaluates a position without earlier results, by adding about 30 weight rows per side. Use
    /// [`Accumulators`] for many positions of one line of play, because they update only what changed.
    pub fn evaluate(&self, board: &Board) -> Evaluation {
        let mut accumulators = Accumulators::new(self);
        accumulators.reset(self, board);
        accumulators.evaluate(self, board)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::tests::all_sets;
    use crate::test_nets;
    use crate::{Architecture, FloatNetwork, Quantisation};
    use tandem_chess::Position;
    use tandem_util::random::SplitMix;

    /// Plays random moves, null moves and undos, and compares incremental evaluations with those from
    /// scratch.
    fn walk(network: &Network, start: &str, plies: usize, seed: u64) {
        let mut random = SplitMix::new(seed);
        let mut position = Position::from_fen(start).unwrap();
        let mut kept = Accumulators::new(network);
        kept.reset(network, position.board());
        for _ in 0..plies {
            let moves = position.legal_moves();
            let choice = random.below(20);
            if moves.is_empty() || position.ply() > 150 || choice < 3 {
                for _ in 0..=random.below(3) {
                    if position.undo() {
                        kept.pop();
                    }
                }
            } else if choice == 3 && position.play_null() {
                kept.push(network, position.changes());
            } else {
                position.play(moves[random.below(moves.len() as u32) as usize]);
                kept.push(network, position.changes());
            }
            if random.below(3) > 0 {
                let expected = network.evaluate(position.board());
                assert_eq!(kept.evaluate(network, position.board()), expected, "{}", position.fen());
            }
        }
    }

    #[test]
    fn incremental_updates_equal_evaluation_from_scratch() {
        for set in all_sets() {
            for network in [test_nets::flat(set.clone(), 32, 1), test_nets::stacks(set.clone(), 64, 2)] {
                walk(&network, "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", 1500, 5);
                walk(&network, "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1", 500, 6);
                walk(&network, "1rk1r3/8/8/8/8/8/8/1RK1R3 w EBeb - 0 1", 500, 7);
                walk(
                    &network,
                    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
                    500,
                    8,
                );
            }
        }
    }

    /// The same property over many more plies.
    #[test]
    #[ignore = "takes half a minute in a release build and many in another: scripts/long_tests.sh runs it"]
    fn incremental_updates_equal_evaluation_from_scratch_on_100_000_plies() {
        for set in all_sets() {
            for network in [test_nets::flat(set.clone(), 32, 1), test_nets::stacks(set.clone(), 64, 2)] {
                walk(&network, "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", 70_000, 15);
                walk(&network, "1rk1r3/pppppppp/8/8/8/8/PPPPPPPP/1RK1R3 w EBeb - 0 1", 30_000, 17);
            }
            println!("{}: 100,000 plies, two networks", set.name());
        }
    }

    #[test]
    fn incremental_updates_are_exact_with_separate_weights() {
        let network = test_nets::untied(FeatureSet::half_kp(), 32, 3);
        walk(&network, "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", 1500, 9);
    }

    /// Inputs that are on or off and have no further meaning.
    #[derive(Clone, Debug, PartialEq)]
    struct Switches(usize);

    impl Inputs for Switches {
        const SIDES: usize = 1;

        fn name(&self) -> &str {
            "switches"
        }

        fn num_inputs(&self) -> usize {
            self.0
        }

        fn max_active(&self) -> usize {
            self.0
        }
    }

    #[test]
    fn incremental_updates_are_exact_for_inputs_outside_chess() {
        for chess in
            [test_nets::flat(FeatureSet::plain(), 32, 4), test_nets::stacks(FeatureSet::plain(), 64, 5)]
        {
            let Architecture { outputs, head, .. } = chess.architecture();
            let features = Switches(60);
            let architecture = Architecture { features, outputs, tied: true, psqt: false, head };
            let mut float = FloatNetwork::zeroed(architecture, 600, 100);
            let mut random = SplitMix::new(7);
            for numbers in float.parameters_mut() {
                numbers.iter_mut().for_each(|number| *number = random.unit() as f32 - 0.5);
            }
            let (network, _) = float.quantise(Quantisation::default()).unwrap();
            // The float network of the same parameters, as a reference up to rounding.
            let float = network.to_float();
            let (mut kept, mut spare) = (Accumulator::new(&network), Accumulator::new(&network));
            let (mut on, mut scratch) = (Vec::<u32>::new(), network.scratch());
            for step in 0..200u32 {
                let row = step * 37 % 60;
                let was_on = on.contains(&row);
                let (added, removed) = if was_on { (vec![], vec![row]) } else { (vec![row], vec![]) };
                spare.update_from(&network, &kept, &added, &removed);
                std::mem::swap(&mut kept, &mut spare);
                if was_on {
                    on.retain(|&other| other != row);
                } else {
                    on.push(row);
                }
                let mut anew = Accumulator::new(&network);
                anew.update_from(&network, &Accumulator::new(&network), &on, &[]);
                let bucket = step as usize % 8;
                let value = network.forward(&[&kept], bucket, &mut scratch);
                assert_eq!(value, network.forward(&[&anew], bucket, &mut scratch));
                let sides: Vec<usize> = on.iter().map(|&row| row as usize).collect();
                let expected = float.forward(&[&sides], bucket);
                assert!((f64::from(value.value()) - expected).abs() < 0.05 * expected.abs() + 30.0);
            }
        }
    }
}
