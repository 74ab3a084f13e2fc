//! Smolgen, lc0's generator of attention logits: its description, checks, tensors, forward pass and ONNX
//! operators.

use crate::aligned::Aligned;
use crate::architecture::{ArchitectureError, Body, List, SQUARES, sized};
use crate::files::onnx::graph::{Graph, Value};
use crate::kernels::{Epilogue, Kernels};
use crate::linear::{Linear, LinearScratch};
use crate::network::{Builder, NormLayer};
use crate::{Activation, NormKind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Epsilon that smolgen's layer norms add to the variance, fixed as in lc0.
pub const SMOLGEN_EPSILON: f32 = 1e-3;

/// Sizes of smolgen, lc0's generator of position-dependent attention logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Smolgen {
    /// Adds biases to the query, key, value and output projections of attention.
    pub biases: bool,
    /// Number of values that each square is compressed to, by a layer without biases.
    pub compressed: usize,
    /// Number of values that the compressed squares of the whole board are projected to.
    pub hidden: usize,
    /// Number of values for each head, from which one layer that all blocks share generates 64 × 64 logits.
    pub generated: usize,
    /// Activation function of smolgen's layers; SiLU by default.
    #[serde(default = "default_smolgen_activation")]
    pub activation: Activation,
}

fn default_smolgen_activation() -> Activation {
    Activation::Silu
}

impl Smolgen {
    pub(super) fn check(&self) -> Result<(), ArchitectureError> {
        sized("body.attention.compressed", self.compressed)?;
        sized("body.attention.hidden", self.hidden)?;
        sized("body.attention.generated", self.generated)
    }

    /// Lists the tensors of one block; `name` is their common prefix.
    pub(super) fn list(&self, body: &Body, name: &str, list: &mut List) {
        let made = body.heads * self.generated;
        list.layer(&format!("{name}.squares"), body.width, self.compressed, false);
        list.layer(&format!("{name}.board"), SQUARES * self.compressed, self.hidden, true);
        list.norm(&format!("{name}.board_norm"), NormKind::Layer, self.hidden);
        list.layer(&format!("{name}.heads"), self.hidden, made, true);
        list.norm(&format!("{name}.heads_norm"), NormKind::Layer, made);
    }

    pub(super) fn onnx(&self, graph: &mut Graph<'_>, rows: &Value, name: &str) -> Value {
        let heads = graph.weights.architecture().body.heads;
        let compressed = graph.linear(rows, &format!("{name}.squares"));
        let mut made = graph.reshape(&compressed, &[SQUARES * self.compressed]);
        for part in ["board", "heads"] {
            made = graph.linear(&made, &format!("{name}.{part}"));
            made = graph.activate(&made, self.activation);
            made = graph.norm_of(&made, &format!("{name}.{part}_norm"), NormKind::Layer, SMOLGEN_EPSILON);
        }
        let made = graph.reshape(&made, &[heads, self.generated]);
        let logits = graph.linear(&made, "smolgen.generator");
        graph.reshape(&logits, &[heads, SQUARES, SQUARES])
    }
}

/// Sizes and activation, for example `32/256/256, silu`.
impl fmt::Display for Smolgen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let activation = format!("{:?}", self.activation).to_lowercase();
        write!(f, "{}/{}/{}, {activation}", self.compressed, self.hidden, self.generated)
    }
}

/// Buffers of one layer, and the logits for each position, head and pair of squares.
#[derive(Debug, Default)]
pub(crate) struct SmolgenScratch {
    compressed: Aligned<f32>,
    board: Aligned<f32>,
    generated: Aligned<f32>,
    pub(super) logits: Aligned<f32>,
}

#[derive(Debug)]
pub(super) struct SmolgenLayer {
    squares: Linear,
    board: Linear,
    board_norm: NormLayer,
    heads: Linear,
    heads_norm: NormLayer,
    generator: Arc<Linear>,
    activation: Activation,
}

impl SmolgenLayer {
    pub(super) fn new(builder: &Builder<'_>, block: &str, smolgen: &Smolgen, generator: Arc<Linear>) -> Self {
        let body = &builder.architecture().body;
        let name = format!("{block}.smolgen");
        let norm = |part: &str| builder.norm_of(&format!("{name}.{part}"), NormKind::Layer, SMOLGEN_EPSILON);
        Self {
            squares: builder.linear(&format!("{name}.squares"), body.width),
            board: builder.linear(&format!("{name}.board"), SQUARES * smolgen.compressed),
            board_norm: norm("board_norm"),
            heads: builder.linear(&format!("{name}.heads"), smolgen.hidden),
            heads_norm: norm("heads_norm"),
            generator,
            activation: smolgen.activation,
        }
    }

    /// Generates the logits for each position, head and pair of squares.
    pub(super) fn apply(
        &self,
        kernels: &Kernels,
        input: &[f32],
        prepared: &mut LinearScratch,
        scratch: &mut SmolgenScratch,
    ) {
        let SmolgenScratch { compressed, board, generated, logits } = scratch;
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
