//! Multi-head attention, with optional logit biases for pairs of squares.

use super::builder::Builder;
use super::norm::NormLayer;
use super::observer::{AttentionObserver, AttentionView};
use super::scratch::{AttentionScratch, Sequence, TokenBatch};
use super::{Source, copied};
use crate::aligned::Aligned;
use crate::architecture::{SMOLGEN_EPSILON, SQUARES};
use crate::kernels::{Epilogue, Kernels, PANEL};
use crate::linear::{Linear, LinearScratch};
use crate::{Activation, Attention, NormKind};
use std::ops::Range;
use std::sync::Arc;

/// Queries that are processed at a time, so that their scores stay in cache.
const QUERIES: usize = 64;

#[derive(Debug)]
pub(super) struct AttentionLayer {
    /// Joined projections: queries, already divided by the square root of a head's width; keys; values.
    project: Linear,
    out: Linear,
    heads: usize,
    bias: LogitBias,
}

/// Bias that is added to the logits of pairs of squares.
#[derive(Debug)]
enum LogitBias {
    None,
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
    pub(super) fn new(builder: &Builder<'_>, block: &str, generator: Option<Arc<Linear>>) -> Self {
        let body = &builder.architecture().body;
        let name = format!("{block}.attention");
        let factor = 1.0 / ((body.width / body.heads) as f32).sqrt();
        let parts = [("query", factor), ("key", 1.0), ("value", 1.0)]
            .map(|(part, factor)| builder.unpacked(&format!("{name}.{part}"), body.width, factor));
        let bias = match (&body.attention, generator) {
            (Attention::Smolgen(smolgen), Some(generator)) => {
                let name = format!("{block}.smolgen");
                let norm =
                    |part: &str| builder.norm_of(&format!("{name}.{part}"), NormKind::Layer, SMOLGEN_EPSILON);
                LogitBias::Smolgen(Box::new(SmolgenLayer {
                    squares: builder.linear(&format!("{name}.squares"), body.width),
                    board: builder.linear(&format!("{name}.board"), SQUARES * smolgen.compressed),
                    board_norm: norm("board_norm"),
                    heads: builder.linear(&format!("{name}.heads"), smolgen.hidden),
                    heads_norm: norm("heads_norm"),
                    generator,
                    activation: smolgen.activation,
                }))
            }
            (Attention::Bias { .. }, _) => LogitBias::Pairs(copied(builder.tensor(&format!("{name}.pairs")))),
            _ => LogitBias::None,
        };
        let out = builder.linear(&format!("{name}.out"), body.width);
        Self { project: builder.joined(&format!("{name}.query"), &parts), out, heads: body.heads, bias }
    }

    /// Computes attention of each token over its sequence, or only of the tokens that heads read. The results
    /// stay in the scratch until [`Self::project_output`] projects them.
    pub(super) fn attend(
        &self,
        kernels: &Kernels,
        batch: &mut TokenBatch,
        source: Source,
        only_read: bool,
        observer: &mut impl AttentionObserver,
    ) {
        let len = batch.count * batch.width;
        let TokenBatch { x, normed, prepared, attention: scratch, sequences, width, count, .. } = batch;
        let input = if source == Source::Normed { &normed[..len] } else { &x[..len] };
        if let LogitBias::Smolgen(smolgen) = &self.bias {
            smolgen.apply(kernels, input, prepared, scratch);
        }
        let projected = scratch.projected.buffer(*count * 3 * *width);
        self.project.apply(kernels, input, prepared, Epilogue::Assign, projected);
        scratch.attended.buffer(len);
        let mut next = 0;
        for (index, sequence) in sequences.iter().enumerate() {
            let queries = if only_read { sequence.read.clone() } else { sequence.tokens.clone() };
            // If all tokens are kept, they keep their index.
            let outs =
                if only_read { [next, next + queries.len()] } else { [queries.start, sequence.moves.start] };
            next = outs[1] + sequence.moves.len();
            for head in 0..self.heads {
                let depth = *width / self.heads;
                let head = Head { offset: head * depth, depth, width: *width };
                head.pack(kernels, sequence, scratch);
                let added = match &self.bias {
                    LogitBias::None => None,
                    LogitBias::Pairs(_) => Some(head.offset / depth),
                    LogitBias::Smolgen(_) => Some(index * self.heads + head.offset / depth),
                };
                let pairs = if let LogitBias::Pairs(pairs) = &self.bias { Some(&pairs[..]) } else { None };
                head.attend(kernels, sequence, (queries.clone(), outs[0]), (pairs, added), scratch, observer);
                head.attend_from_moves(kernels, sequence, outs[1], scratch, observer);
            }
        }
    }

    /// Projects the attended values and stores them to the residual stream.
    pub(super) fn project_output(&self, kernels: &Kernels, batch: &mut TokenBatch, epilogue: Epilogue) {
        let len = batch.count * batch.width;
        let TokenBatch { x, prepared, attention, .. } = batch;
        self.out.apply(kernels, &attention.attended[..len], prepared, epilogue, &mut x[..len]);
    }
}

impl SmolgenLayer {
    /// Generates the logits for each position, head and pair of squares.
    fn apply(
        &self,
        kernels: &Kernels,
        input: &[f32],
        prepared: &mut LinearScratch,
        scratch: &mut AttentionScratch,
    ) {
        let AttentionScratch { compressed, board, generated, logits, .. } = scratch;
        let squares = input.len() / self.squares.inputs();
        let positions = squares / SQUARES;
        let activate = Epilogue::Activate(self.activation);
        let compressed = compressed.buffer(squares * self.squares.outputs());
        self.squares.apply(kernels, input, prepared, Epilogue::Assign, compressed);
        let board = board.buffer(positions * self.board.outputs());
        self.board.apply(kernels, compressed, prepared, activate, board);
        self.board_norm.apply(kernels, board);
        // One norm over all heads together, as in lc0.
        let generated = generated.buffer(positions * self.heads.outputs());
        self.heads.apply(kernels, board, prepared, activate, generated);
        self.heads_norm.apply(kernels, generated);
        let heads = generated.len() / self.generator.inputs();
        let logits = logits.buffer(heads * SQUARES * SQUARES);
        self.generator.apply(kernels, generated, prepared, Epilogue::Assign, logits);
    }
}

/// An attention head: `depth` values of each token, from `offset` on.
#[derive(Clone, Copy)]
struct Head {
    offset: usize,
    depth: usize,
    width: usize,
}

impl Head {
    /// Values of a token's query (0), key (1) or value (2), and those after them.
    fn part<'a>(&self, projected: &'a [f32], row: usize, part: usize) -> &'a [f32] {
        &projected[row * 3 * self.width + part * self.width + self.offset..]
    }

    /// Columns of a row of scores: one for each token and one for a move itself, rounded up to whole panels.
    fn columns(sequence: &Sequence) -> usize {
        (sequence.tokens.len() + 1).next_multiple_of(PANEL)
    }

    /// Packs keys and values of a position for matrix products.
    fn pack(&self, kernels: &Kernels, sequence: &Sequence, scratch: &mut AttentionScratch) {
        let AttentionScratch { projected, keys, values, .. } = scratch;
        let (first, count) = (sequence.tokens.start, sequence.tokens.len());
        let keys = keys.buffer(count.next_multiple_of(PANEL) * self.depth);
        kernels.transpose(keys, self.part(projected, first, 1), 3 * self.width, count, self.depth);
        let values = values.buffer(self.depth.next_multiple_of(PANEL) * count);
        for (panel, column) in values.chunks_exact_mut(count * PANEL).zip((0..self.depth).step_by(PANEL)) {
            let columns = PANEL.min(self.depth - column);
            for (index, to) in panel.chunks_exact_mut(PANEL).enumerate() {
                let value = &self.part(projected, first + index, 2)[column..][..columns];
                to[..columns].copy_from_slice(value);
            }
        }
    }

    /// Attention among the tokens of the position.
    fn attend(
        &self,
        kernels: &Kernels,
        sequence: &Sequence,
        (queries, out): (Range<usize>, usize),
        (pairs, added): (Option<&[f32]>, Option<usize>),
        scratch: &mut AttentionScratch,
        observer: &mut impl AttentionObserver,
    ) {
        let tokens = sequence.tokens.len();
        for (first, out) in queries.clone().step_by(QUERIES).zip((out..).step_by(QUERIES)) {
            let count = QUERIES.min(queries.end - first);
            self.score(kernels, sequence, first, count, scratch);
            let AttentionScratch { scores, factors, logits, .. } = &mut *scratch;
            let pair_logits = pairs.unwrap_or(logits);
            let at = (first - sequence.tokens.start) * tokens;
            let added = added.map(|table| &pair_logits[table * tokens * tokens + at..]);
            let factors = &mut factors.buffer(QUERIES)[..count];
            kernels.softmax(scores, Self::columns(sequence), tokens, added, factors);
            observer.attention(&AttentionView {
                first: first - sequence.tokens.start,
                added,
                ..self.view(sequence, tokens, scores, factors)
            });
            self.gather(kernels, sequence, out, count, scratch);
        }
    }

    /// Attention of each move over the position and itself.
    fn attend_from_moves(
        &self,
        kernels: &Kernels,
        sequence: &Sequence,
        out: usize,
        scratch: &mut AttentionScratch,
        observer: &mut impl AttentionObserver,
    ) {
        let (tokens, columns) = (sequence.tokens.len(), Self::columns(sequence));
        for (first, out) in sequence.moves.clone().step_by(QUERIES).zip((out..).step_by(QUERIES)) {
            let count = QUERIES.min(sequence.moves.end - first);
            self.score(kernels, sequence, first, count, scratch);
            let AttentionScratch { scores, factors, projected, .. } = &mut *scratch;
            for (index, scores) in scores.chunks_exact_mut(columns).take(count).enumerate() {
                let query = &self.part(projected, first + index, 0)[..self.depth];
                let key = &self.part(projected, first + index, 1)[..self.depth];
                scores[tokens] = query.iter().zip(key).map(|(query, key)| query * key).sum();
            }
            let factors = &mut factors.buffer(QUERIES)[..count];
            kernels.softmax(scores, columns, tokens + 1, None, factors);
            observer.attention(&AttentionView {
                first: tokens + first - sequence.moves.start,
                ..self.view(sequence, tokens + 1, scores, factors)
            });
            self.gather(kernels, sequence, out, count, scratch);
            let AttentionScratch { scores, factors, projected, attended, .. } = &mut *scratch;
            for index in 0..count {
                let weight = scores[index * columns + tokens] * factors[index];
                let value = &self.part(projected, first + index, 2)[..self.depth];
                let to = &mut attended[(out + index) * self.width + self.offset..][..self.depth];
                for (to, value) in to.iter_mut().zip(value) {
                    *to += weight * value;
                }
            }
        }
    }

    /// Attention weights of some queries as an observer receives them.
    fn view<'a>(
        &self,
        sequence: &Sequence,
        num_keys: usize,
        scores: &'a [f32],
        factors: &'a [f32],
    ) -> AttentionView<'a> {
        let (position, action, head) = (sequence.position, sequence.action, self.offset / self.depth);
        let columns = Self::columns(sequence);
        AttentionView { position, action, head, first: 0, num_keys, scores, columns, factors, added: None }
    }

    fn score(
        &self,
        kernels: &Kernels,
        sequence: &Sequence,
        first: usize,
        count: usize,
        scratch: &mut AttentionScratch,
    ) {
        let AttentionScratch { projected, keys, scores, .. } = scratch;
        let columns = Self::columns(sequence);
        let scores = scores.buffer(QUERIES * columns);
        let queries = self.part(projected, first, 0);
        let panels = sequence.tokens.len().div_ceil(PANEL);
        for (panel, keys) in keys.chunks_exact(self.depth * PANEL).take(panels).enumerate() {
            kernels.multiply(&mut scores[panel * PANEL..], columns, queries, 3 * self.width, count, keys);
        }
    }

    /// Writes the sums of values, weighted by the attention weights, to tokens from `out` on.
    fn gather(
        &self,
        kernels: &Kernels,
        sequence: &Sequence,
        out: usize,
        count: usize,
        scratch: &mut AttentionScratch,
    ) {
        let AttentionScratch { values, scores, sums, factors, attended, .. } = scratch;
        let columns = Self::columns(sequence);
        let sums = sums.buffer(QUERIES * PANEL);
        let panel_len = sequence.tokens.len() * PANEL;
        for (values, column) in values.chunks_exact(panel_len).zip((0..self.depth).step_by(PANEL)) {
            kernels.multiply(sums, PANEL, scores, columns, count, values);
            let width = PANEL.min(self.depth - column);
            for index in 0..count {
                let to = &mut attended[(out + index) * self.width + self.offset + column..][..width];
                for (to, sum) in to.iter_mut().zip(&sums[index * PANEL..]) {
                    *to = sum * factors[index];
                }
            }
        }
    }
}
