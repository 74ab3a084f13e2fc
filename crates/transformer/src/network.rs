//! Networks for inference: weights packed for an instruction set, and the forward pass through all blocks.

mod builder;
mod embedding;
mod heads;
mod inputs;
mod norm;
mod observer;
mod scratch;

pub use inputs::{InputError, Inputs};
pub use observer::{AttentionObserver, AttentionView};
pub use scratch::Scratch;

pub(crate) use builder::Builder;
pub(crate) use norm::NormLayer;
pub(crate) use scratch::{Sequence, TokenBatch};

use crate::aligned::Aligned;
use crate::blocks::{AttentionLayer, FeedForwardLayer};
use crate::kernels::{Epilogue, Kernels};
use crate::linear::Precision;
use crate::{Architecture, Isa, NormPlace, Outputs, Weights};
use embedding::EmbeddingLayer;
use heads::HeadLayers;
use scratch::Cursor;

/// A network for inference on CPUs.
///
/// Sensitive layers that take little time stay in full precision in any [`Precision`], as they do in int8
/// files: see [`crate::is_quantised`]. A network is immutable, so threads share it, each with a [`Scratch`]
/// of its own.
#[derive(Debug)]
pub struct Network {
    architecture: Architecture,
    precision: Precision,
    isa: Isa,
    embedding: EmbeddingLayer,
    blocks: Vec<Block>,
    last_norm: Option<NormLayer>,
    heads: HeadLayers,
}

/// A transformer block: attention and a feed-forward layer, with their norms.
#[derive(Debug)]
struct Block {
    attention: AttentionLayer,
    attention_norm: NormLayer,
    feed_forward: FeedForwardLayer,
    feed_forward_norm: NormLayer,
}

impl Network {
    /// Packs weights for an instruction set, or for the best one below it if this CPU does not have it.
    pub fn new(weights: &Weights, precision: Precision, isa: Isa) -> Self {
        let builder = Builder::new(weights, precision);
        let architecture = weights.architecture().clone();
        let generator = builder.generator();
        let block = |layer: usize| {
            let name = format!("layers.{layer}");
            Block {
                attention: AttentionLayer::new(&builder, &name, generator.clone()),
                attention_norm: builder.norm(&format!("{name}.attention_norm")),
                feed_forward: FeedForwardLayer::new(&builder, &name),
                feed_forward_norm: builder.norm(&format!("{name}.feed_forward_norm")),
            }
        };
        Self {
            precision,
            isa: Kernels::start(isa).isa(),
            embedding: EmbeddingLayer::new(&builder),
            blocks: (0..architecture.body.layers).map(block).collect(),
            last_norm: architecture.body.norm.last.then(|| builder.norm("last_norm")),
            heads: HeadLayers::new(&builder),
            architecture,
        }
    }

    /// The architecture of the weights that were packed.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// Precision of the matrix products, except in sensitive layers.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Instruction set in use, which may be lower than the one that was asked for.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Runs the forward pass of a batch and returns the outputs of each position; with an action-value head, those of each
    /// move, position after position. Allocates only if the input is larger than any before it with the same
    /// scratch.
    ///
    /// # Errors
    /// If the inputs are of another kind or length than the network reads, or contain an unknown token.
    pub fn run<'a>(
        &self,
        inputs: &Inputs<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<&'a [Outputs], InputError> {
        self.run_observed(inputs, scratch, &mut ())
    }

    /// Runs the forward pass as [`Self::run`] does, and passes the attention weights of each head to
    /// `observer`.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_observed<'a>(
        &self,
        inputs: &Inputs<'_>,
        scratch: &'a mut Scratch,
        observer: &mut impl AttentionObserver,
    ) -> Result<&'a [Outputs], InputError> {
        let positions = inputs.check(&self.architecture)?;
        let kernels = Kernels::start(self.isa);
        let Scratch { batch, outputs } = scratch;
        let (mut cursor, mut done) = (Cursor::default(), 0);
        while cursor.position < positions {
            cursor = batch.plan(inputs, &self.architecture, cursor, positions);
            self.embedding.apply(&kernels, inputs, batch);
            self.forward_blocks(&kernels, batch, observer);
            let count = batch.num_outputs();
            if outputs.len() < done + count {
                outputs.resize_with(done + count, Outputs::default);
            }
            self.heads.apply(&kernels, batch, &mut outputs[done..done + count]);
            done += count;
        }
        Ok(&outputs[..done])
    }

    fn forward_blocks(
        &self,
        kernels: &Kernels,
        batch: &mut TokenBatch,
        observer: &mut impl AttentionObserver,
    ) {
        let factor = self.architecture.branch_factor();
        let before = self.architecture.body.norm.place == NormPlace::Pre;
        for (index, block) in self.blocks.iter().enumerate() {
            observer.layer(index);
            // 1. Attention. In the last layer of a network that reads text, only the tokens that heads read are queries.
            let input = batch.branch(before.then_some(&block.attention_norm), kernels);
            let only_read = batch.text && index + 1 == self.blocks.len();
            block.attention.attend(kernels, batch, input, only_read, observer);
            if only_read {
                batch.keep_read_tokens();
            }
            block.attention.project_output(kernels, batch, Epilogue::AddScaled(factor));
            if !before {
                block.attention_norm.apply(kernels, batch.x_mut());
            }
            // 2. The feed-forward layer, on each token separately.
            let input = batch.branch(before.then_some(&block.feed_forward_norm), kernels);
            block.feed_forward.apply(kernels, batch, input, factor);
            if !before {
                block.feed_forward_norm.apply(kernels, batch.x_mut());
            }
        }
        if let Some(norm) = &self.last_norm {
            norm.apply(kernels, batch.x_mut());
        }
    }
}

/// Input of a residual branch: the stream itself (post-norm), or its normalised copy (pre-norm).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Stream,
    Normed,
}

fn copied(values: &[f32]) -> Aligned<f32> {
    Aligned::from(values)
}
