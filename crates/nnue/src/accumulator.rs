//! The first layer's values for each side, kept along a line of play.
//!
//! A move is only noted when it is made. When an evaluation asks, the values are brought up to date from the nearest
//! position whose values are known, one pass for each move between; where a king's move gave a side another view of
//! the board, they start from the last position that was seen in that view.

use crate::architecture::PSQT_BUCKETS;
use crate::features::{FeatureSet, View};
use crate::inputs::Inputs;
use crate::kernels::Rows;
use crate::network::{Evaluation, Network, Scratch};
use tandem_chess::{BitBoard, Board, Changes, Color, Piece};
use tandem_memory::Block;

/// One side's values of the first layer: what a network of any inputs makes of those that are on.
#[derive(Clone, Debug)]
pub struct Accumulator {
    pub(crate) hidden: Block<i16>,
    pub(crate) psqt: [i32; PSQT_BUCKETS],
}

impl Accumulator {
    /// With nothing on.
    pub fn new<I: Inputs>(network: &Network<I>) -> Self {
        Self { hidden: network.first.bias.clone(), psqt: [0; PSQT_BUCKETS] }
    }

    /// Becomes `from` with some rows more and some less, in one pass. A step that is taken back needs no second one: `from`
    /// is still there.
    ///
    /// Both accumulators are of this network: with those of another it may panic, or come to nonsense.
    ///
    /// # Panics
    /// Where the network has no such row.
    #[inline]
    pub fn follow<I: Inputs>(&mut self, network: &Network<I>, from: &Self, added: &[u32], removed: &[u32]) {
        let first = &network.first;
        let all = Rows { weights: &first.weights, width: first.width };
        network.kernels.update(&mut self.hidden, &from.hidden, all, added, removed);
        if let Some(psqt) = &first.psqt {
            let row = |index: u32| &psqt[index as usize * PSQT_BUCKETS..][..PSQT_BUCKETS];
            self.psqt = from.psqt;
            for &index in added {
                self.psqt
                    .iter_mut()
                    .zip(row(index))
                    .for_each(|(sum, weight)| *sum = sum.wrapping_add(*weight));
            }
            for &index in removed {
                self.psqt
                    .iter_mut()
                    .zip(row(index))
                    .for_each(|(sum, weight)| *sum = sum.wrapping_sub(*weight));
            }
        }
    }
}

/// Rows that come and go.
#[derive(Default)]
struct RowLists {
    added: Vec<u32>,
    removed: Vec<u32>,
}

impl RowLists {
    /// Those of a move.
    #[inline]
    fn fill(&mut self, features: &FeatureSet, side: Color, view: View, changes: &Changes) {
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

/// What is known of one position of the line.
#[derive(Clone, Debug)]
struct Frame {
    values: [Accumulator; 2],
    views: [View; 2],
    ready: [bool; 2],
    /// The move that led here.
    changes: Changes,
}

/// The last position that one side saw in one view.
#[derive(Clone, Debug)]
struct Seen {
    values: Accumulator,
    pieces: [[BitBoard; 6]; 2],
}

/// The accumulators of a line of play.
pub struct Accumulators {
    frames: Vec<Frame>,
    top: usize,
    /// By side and view.
    seen: Vec<Option<Box<Seen>>>,
    scratch: Scratch,
    rows: RowLists,
}

impl Accumulators {
    /// For the starting position, and for one network: every call must name the same.
    pub fn new(network: &Network) -> Self {
        let mut accumulators = Self {
            frames: Vec::new(),
            top: 0,
            seen: vec![None; 2 * network.features.views()],
            scratch: network.scratch(),
            rows: RowLists::default(),
        };
        accumulators.reset(network, &Board::default());
        accumulators
    }

    /// Starts anew from a position.
    pub fn reset(&mut self, network: &Network, board: &Board) {
        let views = Color::ALL.map(|side| network.features.view(side, board.king(side)));
        self.top = 0;
        match self.frames.first_mut() {
            Some(frame) => (frame.views, frame.ready) = (views, [false; 2]),
            None => self.frames.push(Frame {
                values: [Accumulator::new(network), Accumulator::new(network)],
                views,
                ready: [false; 2],
                changes: Changes::NONE,
            }),
        }
    }

    /// A move was made.
    #[inline]
    pub fn push(&mut self, network: &Network, changes: &Changes) {
        let mut views = self.frames[self.top].views;
        for come in changes.added() {
            if come.piece == Piece::King {
                views[come.color as usize] = network.features.view(come.color, come.square);
            }
        }
        self.top += 1;
        if self.top == self.frames.len() {
            self.frames.push(self.frames[self.top - 1].clone());
        }
        let frame = &mut self.frames[self.top];
        frame.views = views;
        frame.ready = [false; 2];
        frame.changes = *changes;
    }

    /// The last move was taken back. The first position stays.
    #[inline]
    pub fn pop(&mut self) {
        self.top = self.top.saturating_sub(1);
    }

    /// Judges the position that the moves led to.
    #[inline]
    pub fn evaluate(&mut self, network: &Network, board: &Board) -> Evaluation {
        for side in Color::ALL {
            self.make_ready(network, board, side);
        }
        let us = board.side_to_move();
        let [own, other] = [us, !us].map(|side| &self.frames[self.top].values[side as usize]);
        network.judge(&[own, other], network.bucket(board.occupied().len() as usize), &mut self.scratch)
    }

    /// The accumulator of one side, as an evaluation reads it: what the network's later layers see of the position.
    pub fn values(&mut self, network: &Network, board: &Board, side: Color) -> &[i16] {
        self.make_ready(network, board, side);
        let len = network.first.outputs;
        let start = if side == board.side_to_move() { 0 } else { network.first.width - len };
        &self.frames[self.top].values[side as usize].hidden[start..start + len]
    }

    #[inline]
    fn make_ready(&mut self, network: &Network, board: &Board, side: Color) {
        let index = side as usize;
        let mut known = self.top;
        while !self.frames[known].ready[index] {
            if known == 0 || self.frames[known].views[index] != self.frames[known - 1].views[index] {
                return self.refresh(network, board, side);
            }
            known -= 1;
        }
        for ply in known + 1..=self.top {
            let (before, after) = self.frames.split_at_mut(ply);
            let (before, after) = (&before[ply - 1], &mut after[0]);
            self.rows.fill(&network.features, side, after.views[index], &after.changes);
            after.values[index].follow(network, &before.values[index], &self.rows.added, &self.rows.removed);
            after.ready[index] = true;
        }
    }

    /// Starts from the last position that this side saw as it sees this one.
    fn refresh(&mut self, network: &Network, board: &Board, side: Color) {
        let frame = &mut self.frames[self.top];
        let view = frame.views[side as usize];
        let number = side as usize * network.features.views() + network.features.view_number(view);
        let seen = self.seen[number].get_or_insert_with(|| {
            Box::new(Seen { values: Accumulator::new(network), pieces: [[BitBoard::EMPTY; 6]; 2] })
        });
        self.rows.added.clear();
        self.rows.removed.clear();
        for color in Color::ALL {
            for piece in Piece::ALL {
                let now = board.colored_pieces(color, piece);
                let then = std::mem::replace(&mut seen.pieces[color as usize][piece as usize], now);
                let row = |square| {
                    let index = network.features.index(view, color == side, piece, square);
                    index.map(|index| index as u32)
                };
                self.rows.added.extend((now & !then).into_iter().filter_map(row));
                self.rows.removed.extend((then & !now).into_iter().filter_map(row));
            }
        }
        let values = &mut frame.values[side as usize];
        values.follow(network, &seen.values, &self.rows.added, &self.rows.removed);
        seen.values.hidden.copy_from_slice(&values.hidden);
        seen.values.psqt = values.psqt;
        frame.ready[side as usize] = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::tests::all_sets;
    use crate::test_nets;
    use crate::{Architecture, FloatNetwork, Quantisation};
    use tandem_chess::Position;

    /// Plays at random, forth and back, with null moves, and asks for an evaluation now and then: what was kept must
    /// equal what is computed from nothing.
    fn walk(network: &Network, start: &str, plies: usize, seed: u64) {
        let mut state = seed | 1;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % below
        };
        let mut position = Position::from_fen(start).unwrap();
        let mut kept = Accumulators::new(network);
        kept.reset(network, position.board());
        for _ in 0..plies {
            let moves = position.legal_moves();
            let choice = random(20);
            if moves.is_empty() || position.ply() > 150 || choice < 3 {
                for _ in 0..=random(3) {
                    if position.undo() {
                        kept.pop();
                    }
                }
            } else if choice == 3 && position.play_null() {
                kept.push(network, position.changes());
            } else {
                position.play(moves[random(moves.len())]);
                kept.push(network, position.changes());
            }
            if random(3) > 0 {
                let expected = network.evaluate(position.board());
                assert_eq!(kept.evaluate(network, position.board()), expected, "{}", position.fen());
            }
        }
    }

    #[test]
    fn kept_equals_computed_from_nothing() {
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

    /// The same for longer.
    #[test]
    #[ignore = "takes half a minute in a release build and many in another: scripts/long_tests.sh runs it"]
    fn kept_equals_computed_from_nothing_on_100_000_plies() {
        for set in all_sets() {
            for network in [test_nets::flat(set.clone(), 32, 1), test_nets::stacks(set.clone(), 64, 2)] {
                walk(&network, "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", 70_000, 15);
                walk(&network, "1rk1r3/pppppppp/8/8/8/8/PPPPPPPP/1RK1R3 w EBeb - 0 1", 30_000, 17);
            }
            println!("{}: 100,000 plies, two networks", set.name());
        }
    }

    #[test]
    fn perspectives_may_have_weights_of_their_own() {
        let network = test_nets::untied(FeatureSet::half_kp(), 32, 3);
        walk(&network, "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", 1500, 9);
    }

    /// Things that are on or off and mean nothing.
    #[derive(Clone, Debug, PartialEq)]
    struct Switches(usize);

    impl Inputs for Switches {
        const SIDES: usize = 1;

        fn name(&self) -> &str {
            "switches"
        }

        fn inputs(&self) -> usize {
            self.0
        }

        fn max_active(&self) -> usize {
            self.0
        }
    }

    #[test]
    fn one_side_of_no_chess_is_kept_as_well() {
        for chess in
            [test_nets::flat(FeatureSet::plain(), 32, 4), test_nets::stacks(FeatureSet::plain(), 64, 5)]
        {
            let Architecture { outputs, head, .. } = chess.architecture();
            let features = Switches(60);
            let architecture = Architecture { features, outputs, tied: true, psqt: false, head };
            let mut float = FloatNetwork::zeroed(architecture, 600, 100);
            let mut state = 7u64;
            let mut random = move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 40) as f32 / (1 << 24) as f32 - 0.5
            };
            for numbers in float.numbers_mut() {
                numbers.iter_mut().for_each(|number| *number = random());
            }
            let (network, _) = float.quantise(Quantisation::default()).unwrap();
            // What the integers stand for, plainly computed, apart from their rounding.
            let float = network.to_float();
            let (mut kept, mut spare) = (Accumulator::new(&network), Accumulator::new(&network));
            let (mut on, mut scratch) = (Vec::<u32>::new(), network.scratch());
            for step in 0..200u32 {
                let row = step * 37 % 60;
                let was_on = on.contains(&row);
                let (added, removed) = if was_on { (vec![], vec![row]) } else { (vec![row], vec![]) };
                spare.follow(&network, &kept, &added, &removed);
                std::mem::swap(&mut kept, &mut spare);
                if was_on {
                    on.retain(|&other| other != row);
                } else {
                    on.push(row);
                }
                let mut anew = Accumulator::new(&network);
                anew.follow(&network, &Accumulator::new(&network), &on, &[]);
                let bucket = step as usize % 8;
                let value = network.judge(&[&kept], bucket, &mut scratch);
                assert_eq!(value, network.judge(&[&anew], bucket, &mut scratch));
                let sides: Vec<usize> = on.iter().map(|&row| row as usize).collect();
                let expected = float.judge(&[&sides], bucket);
                assert!((f64::from(value.value()) - expected).abs() < 0.05 * expected.abs() + 30.0);
            }
        }
    }
}
