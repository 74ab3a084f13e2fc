//! The attention layer of a block, with optional logit biases for pairs of squares: its description, checks,
//! tensors, forward pass and ONNX operators.

use super::smolgen::{Smolgen, SmolgenLayer, SmolgenScratch};
use crate::Mask;
use crate::aligned::Aligned;
use crate::architecture::{ArchitectureError, Body, List, SQUARES, impossible};
use crate::files::onnx::graph::{Attribute, Graph, Value};
use crate::kernels::{Epilogue, Kernels, PANEL};
use crate::linear::Linear;
use crate::network::{AttentionObserver, AttentionView, Builder, Sequence, Source, TokenBatch};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Multi-head attention. The variants differ in the logits that are added to the products of queries and keys
/// before the softmax.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Attention {
    /// Scaled dot products of queries and keys, without a bias of the logits. The only kind for text.
    Plain {
        /// Adds biases to the query, key, value and output projections.
        biases: bool,
    },
    /// With a learned logit for each pair of squares and each head, added to the products.
    Bias {
        /// Adds biases to the query, key, value and output projections.
        biases: bool,
    },
    /// With smolgen: logits for each pair of squares and each head, which small layers generate from the
    /// position itself.
    Smolgen(Smolgen),
}

impl Attention {
    /// True if the query, key, value and output projections have biases.
    pub fn biases(&self) -> bool {
        match self {
            Self::Plain { biases } | Self::Bias { biases } => *biases,
            Self::Smolgen(smolgen) => smolgen.biases,
        }
    }

    /// Checks the sizes, and that a network of text has no logits for pairs of squares.
    pub(crate) fn check(&self, text: bool) -> Result<(), ArchitectureError> {
        match self {
            Self::Plain { .. } => Ok(()),
            _ if text => impossible("body.attention.kind", "pairs of squares need a token for each square"),
            Self::Bias { .. } => Ok(()),
            Self::Smolgen(smolgen) => smolgen.check(),
        }
    }

    /// Lists the tensors of the block with this name.
    pub(crate) fn list(&self, body: &Body, block: &str, list: &mut List) {
        for part in ["query", "key", "value", "out"] {
            list.layer(&format!("{block}.attention.{part}"), body.width, body.width, self.biases());
        }
        match self {
            Self::Plain { .. } => {}
            Self::Bias { .. } => {
                list.add(format!("{block}.attention.pairs"), &[body.heads, SQUARES, SQUARES]);
            }
            Self::Smolgen(smolgen) => smolgen.list(body, &format!("{block}.smolgen"), list),
        }
    }

    /// Lists the tensors that all blocks share.
    pub(crate) fn list_shared(&self, list: &mut List) {
        if let Self::Smolgen(smolgen) = self {
            list.layer("smolgen.generator", smolgen.generated, SQUARES * SQUARES, false);
        }
    }

    /// Adds the operators of the block with this name to an ONNX graph.
    pub(crate) fn onnx(&self, graph: &mut Graph<'_>, rows: &Value, name: &str) -> Value {
        let architecture = graph.weights.architecture();
        let (body, tokens) = (&architecture.body, architecture.tokens());
        let depth = body.width / body.heads;
        let mut of_heads = |part: &str, order: &[i64]| {
            let made = graph.linear(rows, &format!("{name}.attention.{part}"));
            let made = graph.reshape(&made, &[tokens, body.heads, depth]);
            graph.transpose(&made, order)
        };
        let query = of_heads("query", &[0, 2, 1, 3]);
        let key = of_heads("key", &[0, 2, 3, 1]);
        let value = of_heads("value", &[0, 2, 1, 3]);
        let query = graph.scale(&query, 1.0 / (depth as f32).sqrt());
        let mut logits = graph.op("MatMul", &[&query, &key], &[]);
        let added = match self {
            Self::Plain { .. } => None,
            Self::Bias { .. } => Some(graph.tensor(&format!("{name}.attention.pairs"))),
            Self::Smolgen(smolgen) => Some(smolgen.onnx(graph, rows, &format!("{name}.smolgen"))),
        };
        let attention_mask = (body.mask == Mask::Prefix).then(|| graph.attention_mask(tokens));
        for more in added.iter().chain(&attention_mask) {
            logits = graph.op("Add", &[&logits, more], &[]);
        }
        let weights = graph.op("Softmax", &[&logits], &[Attribute::Int("axis", -1)]);
        let attended = graph.op("MatMul", &[&weights, &value], &[]);
        let attended = graph.transpose(&attended, &[0, 2, 1, 3]);
        let attended = graph.reshape(&attended, &[tokens, body.width]);
        graph.linear(&attended, &format!("{name}.attention.out"))
    }
}

/// Kind and sizes in words, for example `plain, biases`.
impl fmt::Display for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain { .. } => f.write_str("plain")?,
            Self::Bias { .. } => f.write_str("a learned bias for each pair of squares")?,
            Self::Smolgen(smolgen) => write!(f, "smolgen {smolgen}")?,
        }
        f.write_str(if self.biases() { ", biases" } else { "" })
    }
}

#[derive(Debug, Default)]
pub(crate) struct AttentionScratch {
    pub(crate) projected: Aligned<f32>,
    pub(crate) attended: Aligned<f32>,
    pub(crate) keys: Aligned<f32>,
    pub(crate) values: Aligned<f32>,
    pub(crate) scores: Aligned<f32>,
    pub(crate) sums: Aligned<f32>,
    pub(crate) factors: Aligned<f32>,
    pub(super) smolgen: SmolgenScratch,
}

/// Queries that are processed at a time, so that their scores stay in cache.
const QUERIES: usize = 64;

#[derive(Debug)]
pub(crate) struct AttentionLayer {
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

impl AttentionLayer {
    pub(crate) fn new(builder: &Builder<'_>, block: &str, generator: Option<Arc<Linear>>) -> Self {
        let body = &builder.architecture().body;
        let name = format!("{block}.attention");
        let factor = 1.0 / ((body.width / body.heads) as f32).sqrt();
        let parts = [("query", factor), ("key", 1.0), ("value", 1.0)]
            .map(|(part, factor)| builder.unpacked(&format!("{name}.{part}"), body.width, factor));
        let bias = match (&body.attention, generator) {
            (Attention::Smolgen(smolgen), Some(generator)) => {
                LogitBias::Smolgen(Box::new(SmolgenLayer::new(builder, block, smolgen, generator)))
            }
            (Attention::Bias { .. }, _) => {
                LogitBias::Pairs(Aligned::from(builder.tensor(&format!("{name}.pairs"))))
            }
            _ => LogitBias::None,
        };
        let out = builder.linear(&format!("{name}.out"), body.width);
        Self { project: builder.joined(&format!("{name}.query"), &parts), out, heads: body.heads, bias }
    }

    /// Computes attention of each token over its sequence, or only of the tokens that heads read. The results
    /// stay in the scratch until [`Self::project_output`] projects them.
    pub(crate) fn attend(
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
            smolgen.apply(kernels, input, prepared, &mut scratch.smolgen);
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
    pub(crate) fn project_output(&self, kernels: &Kernels, batch: &mut TokenBatch, epilogue: Epilogue) {
        let len = batch.count * batch.width;
        let TokenBatch { x, prepared, attention, .. } = batch;
        self.out.apply(kernels, &attention.attended[..len], prepared, epilogue, &mut x[..len]);
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
            let AttentionScratch { scores, factors, smolgen, .. } = &mut *scratch;
            let pair_logits = pairs.unwrap_or(&smolgen.logits);
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
