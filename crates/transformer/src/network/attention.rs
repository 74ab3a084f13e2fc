//! How rows see each other.

use super::builder::Builder;
use super::norm::NormLayer;
use super::observer::{Look, Observer};
use super::scratch::{AttentionRoom, Rows, Sequence};
use super::{Source, copied};
use crate::aligned::Aligned;
use crate::architecture::{SMOLGEN_EPSILON, SQUARES};
use crate::kernels::{Kernels, PANEL, Store};
use crate::linear::{Linear, Prepared};
use crate::{Activation, Attention, NormKind};
use std::ops::Range;
use std::sync::Arc;

/// Queries at a time.
const QUERIES: usize = 64;

#[derive(Debug)]
pub(super) struct AttentionLayer {
    /// Queries, divided by the root of a head's width already; keys; values.
    project: Linear,
    out: Linear,
    heads: usize,
    added: Added,
}

/// What is added to the logits of pairs of squares.
#[derive(Debug)]
enum Added {
    Nothing,
    Pairs(Aligned<f32>),
    Smolgen(Box<SmolgenLayer>),
}

#[derive(Debug)]
struct SmolgenLayer {
    squares: Linear,
    board: Linear,
    board_norm: NormLayer,
    heads: Linear,
    heads_norm: NormLayer,
    generator: Arc<Linear>,
    activation: Activation,
}

impl AttentionLayer {
    /// That of a block.
    pub(super) fn new(builder: &Builder<'_>, block: &str, generator: Option<Arc<Linear>>) -> Self {
        let body = &builder.architecture().body;
        let name = format!("{block}.attention");
        let factor = 1.0 / ((body.width / body.heads) as f32).sqrt();
        let parts = [("query", factor), ("key", 1.0), ("value", 1.0)]
            .map(|(part, factor)| builder.plain(&format!("{name}.{part}"), body.width, factor));
        let added = match (&body.attention, generator) {
            (Attention::Smolgen(smolgen), Some(generator)) => {
                let name = format!("{block}.smolgen");
                let norm =
                    |part: &str| builder.norm_of(&format!("{name}.{part}"), NormKind::Layer, SMOLGEN_EPSILON);
                Added::Smolgen(Box::new(SmolgenLayer {
                    squares: builder.linear(&format!("{name}.squares"), body.width),
                    board: builder.linear(&format!("{name}.board"), SQUARES * smolgen.compressed),
                    board_norm: norm("board_norm"),
                    heads: builder.linear(&format!("{name}.heads"), smolgen.hidden),
                    heads_norm: norm("heads_norm"),
                    generator,
                    activation: smolgen.activation,
                }))
            }
            (Attention::Bias { .. }, _) => Added::Pairs(copied(builder.tensor(&format!("{name}.pairs")))),
            _ => Added::Nothing,
        };
        let out = builder.linear(&format!("{name}.out"), body.width);
        Self { project: builder.joined(&format!("{name}.query"), &parts), out, heads: body.heads, added }
    }

    /// Lets each row see the others of its sequence, or only those rows that heads read. What they saw waits to be
    /// joined to them.
    pub(super) fn look(
        &self,
        kernels: &Kernels,
        rows: &mut Rows,
        source: Source,
        only_read: bool,
        observer: &mut impl Observer,
    ) {
        let len = rows.count * rows.width;
        let Rows { x, normed, prepared, attention: room, sequences, width, count, .. } = rows;
        let input = if source == Source::Normed { &normed[..len] } else { &x[..len] };
        if let Added::Smolgen(smolgen) = &self.added {
            smolgen.apply(kernels, input, prepared, room);
        }
        let projected = room.projected.room(*count * 3 * *width);
        self.project.apply(kernels, input, prepared, Store::Set, projected);
        room.attended.room(len);
        let mut next = 0;
        for (index, sequence) in sequences.iter().enumerate() {
            let queries = if only_read { sequence.read.clone() } else { sequence.tokens.clone() };
            // Where all rows are kept, they stay where they are.
            let outs =
                if only_read { [next, next + queries.len()] } else { [queries.start, sequence.moves.start] };
            next = outs[1] + sequence.moves.len();
            for head in 0..self.heads {
                let depth = *width / self.heads;
                let head = Head { at: head * depth, depth, width: *width };
                head.pack(kernels, sequence, room);
                let added = match &self.added {
                    Added::Nothing => None,
                    Added::Pairs(_) => Some(head.at / depth),
                    Added::Smolgen(_) => Some(index * self.heads + head.at / depth),
                };
                let pairs = if let Added::Pairs(pairs) = &self.added { Some(&pairs[..]) } else { None };
                head.look(kernels, sequence, (queries.clone(), outs[0]), (pairs, added), room, observer);
                head.look_from_moves(kernels, sequence, outs[1], room, observer);
            }
        }
    }

    /// Adds what the rows saw to them.
    pub(super) fn join(&self, kernels: &Kernels, rows: &mut Rows, store: Store) {
        let len = rows.count * rows.width;
        let Rows { x, prepared, attention, .. } = rows;
        self.out.apply(kernels, &attention.attended[..len], prepared, store, &mut x[..len]);
    }
}

impl SmolgenLayer {
    /// Makes logits for each position, head and pair of squares.
    fn apply(&self, kernels: &Kernels, input: &[f32], prepared: &mut Prepared, room: &mut AttentionRoom) {
        let AttentionRoom { pressed, board, made, logits, .. } = room;
        let squares = input.len() / self.squares.inputs();
        let positions = squares / SQUARES;
        let bent = Store::Activate(self.activation);
        let pressed = pressed.room(squares * self.squares.outputs());
        self.squares.apply(kernels, input, prepared, Store::Set, pressed);
        let board = board.room(positions * self.board.outputs());
        self.board.apply(kernels, pressed, prepared, bent, board);
        self.board_norm.apply(kernels, board);
        // One norm over the numbers of all heads, as lc0 has it.
        let made = made.room(positions * self.heads.outputs());
        self.heads.apply(kernels, board, prepared, bent, made);
        self.heads_norm.apply(kernels, made);
        let heads = made.len() / self.generator.inputs();
        let logits = logits.room(heads * SQUARES * SQUARES);
        self.generator.apply(kernels, made, prepared, Store::Set, logits);
    }
}

/// A head: so many numbers of each row, from `at` on.
#[derive(Clone, Copy)]
struct Head {
    at: usize,
    depth: usize,
    width: usize,
}

impl Head {
    /// The numbers of a query (0), a key (1) or a value (2), from a row on.
    fn part<'a>(&self, projected: &'a [f32], row: usize, part: usize) -> &'a [f32] {
        &projected[row * 3 * self.width + part * self.width + self.at..]
    }

    /// Columns of a row of scores: one for each token, and one more for a move itself.
    fn columns(sequence: &Sequence) -> usize {
        (sequence.tokens.len() + 1).next_multiple_of(PANEL)
    }

    /// Packs keys and values of a position for products.
    fn pack(&self, kernels: &Kernels, sequence: &Sequence, room: &mut AttentionRoom) {
        let AttentionRoom { projected, keys, values, .. } = room;
        let (first, count) = (sequence.tokens.start, sequence.tokens.len());
        let keys = keys.room(count.next_multiple_of(PANEL) * self.depth);
        kernels.turn(keys, self.part(projected, first, 1), 3 * self.width, count, self.depth);
        let values = values.room(self.depth.next_multiple_of(PANEL) * count);
        for (panel, column) in values.chunks_exact_mut(count * PANEL).zip((0..self.depth).step_by(PANEL)) {
            let columns = PANEL.min(self.depth - column);
            for (index, to) in panel.chunks_exact_mut(PANEL).enumerate() {
                let value = &self.part(projected, first + index, 2)[column..][..columns];
                to[..columns].copy_from_slice(value);
            }
        }
    }

    /// Tokens of the position see each other.
    fn look(
        &self,
        kernels: &Kernels,
        sequence: &Sequence,
        (queries, out): (Range<usize>, usize),
        (pairs, added): (Option<&[f32]>, Option<usize>),
        room: &mut AttentionRoom,
        observer: &mut impl Observer,
    ) {
        let tokens = sequence.tokens.len();
        for (first, out) in queries.clone().step_by(QUERIES).zip((out..).step_by(QUERIES)) {
            let count = QUERIES.min(queries.end - first);
            self.score(kernels, sequence, first, count, room);
            let AttentionRoom { scores, factors, logits, .. } = &mut *room;
            let pair_logits = pairs.unwrap_or(logits);
            let at = (first - sequence.tokens.start) * tokens;
            let added = added.map(|table| &pair_logits[table * tokens * tokens + at..]);
            let factors = &mut factors.room(QUERIES)[..count];
            kernels.softmax(scores, Self::columns(sequence), tokens, added, factors);
            observer.look(&Look {
                first: first - sequence.tokens.start,
                added,
                ..self.seen(sequence, tokens, scores, factors)
            });
            self.gather(kernels, sequence, out, count, room);
        }
    }

    /// Each move sees the position and itself.
    fn look_from_moves(
        &self,
        kernels: &Kernels,
        sequence: &Sequence,
        out: usize,
        room: &mut AttentionRoom,
        observer: &mut impl Observer,
    ) {
        let (tokens, columns) = (sequence.tokens.len(), Self::columns(sequence));
        for (first, out) in sequence.moves.clone().step_by(QUERIES).zip((out..).step_by(QUERIES)) {
            let count = QUERIES.min(sequence.moves.end - first);
            self.score(kernels, sequence, first, count, room);
            let AttentionRoom { scores, factors, projected, .. } = &mut *room;
            for (index, scores) in scores.chunks_exact_mut(columns).take(count).enumerate() {
                let query = &self.part(projected, first + index, 0)[..self.depth];
                let key = &self.part(projected, first + index, 1)[..self.depth];
                scores[tokens] = query.iter().zip(key).map(|(query, key)| query * key).sum();
            }
            let factors = &mut factors.room(QUERIES)[..count];
            kernels.softmax(scores, columns, tokens + 1, None, factors);
            observer.look(&Look {
                first: tokens + first - sequence.moves.start,
                ..self.seen(sequence, tokens + 1, scores, factors)
            });
            self.gather(kernels, sequence, out, count, room);
            let AttentionRoom { scores, factors, projected, attended, .. } = &mut *room;
            for index in 0..count {
                let weight = scores[index * columns + tokens] * factors[index];
                let value = &self.part(projected, first + index, 2)[..self.depth];
                let to = &mut attended[(out + index) * self.width + self.at..][..self.depth];
                for (to, value) in to.iter_mut().zip(value) {
                    *to += weight * value;
                }
            }
        }
    }

    /// What an observer is told: each of some queries sees so many tokens.
    fn seen<'a>(&self, sequence: &Sequence, seen: usize, scores: &'a [f32], factors: &'a [f32]) -> Look<'a> {
        let (position, action, head) = (sequence.position, sequence.action, self.at / self.depth);
        let columns = Self::columns(sequence);
        Look { position, action, head, first: 0, seen, scores, columns, factors, added: None }
    }

    /// Products of queries and keys.
    fn score(
        &self,
        kernels: &Kernels,
        sequence: &Sequence,
        first: usize,
        count: usize,
        room: &mut AttentionRoom,
    ) {
        let AttentionRoom { projected, keys, scores, .. } = room;
        let columns = Self::columns(sequence);
        let scores = scores.room(QUERIES * columns);
        let queries = self.part(projected, first, 0);
        let panels = sequence.tokens.len().div_ceil(PANEL);
        for (panel, keys) in keys.chunks_exact(self.depth * PANEL).take(panels).enumerate() {
            kernels.multiply(&mut scores[panel * PANEL..], columns, queries, 3 * self.width, count, keys);
        }
    }

    /// Values weighted by the scores, to rows from `out` on.
    fn gather(
        &self,
        kernels: &Kernels,
        sequence: &Sequence,
        out: usize,
        count: usize,
        room: &mut AttentionRoom,
    ) {
        let AttentionRoom { values, scores, sums, factors, attended, .. } = room;
        let columns = Self::columns(sequence);
        let sums = sums.room(QUERIES * PANEL);
        let panel_len = sequence.tokens.len() * PANEL;
        for (values, column) in values.chunks_exact(panel_len).zip((0..self.depth).step_by(PANEL)) {
            kernels.multiply(sums, PANEL, scores, columns, count, values);
            let width = PANEL.min(self.depth - column);
            for index in 0..count {
                let to = &mut attended[(out + index) * self.width + self.at + column..][..width];
                for (to, sum) in to.iter_mut().zip(&sums[index * PANEL..]) {
                    *to = sum * factors[index];
                }
            }
        }
    }
}
