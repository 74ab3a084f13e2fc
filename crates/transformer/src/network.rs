//! Networks that are run: weights packed for an instruction set, and the way of a position through them.

mod attention;
mod builder;
mod embedding;
mod feed_forward;
mod heads;
mod inputs;
mod norm;
mod observer;
mod scratch;

pub use inputs::{InputError, Inputs};
pub use observer::{Look, Observer};
pub use scratch::Scratch;

use crate::aligned::Aligned;
use crate::kernels::{Kernels, Store};
use crate::linear::Precision;
use crate::{Architecture, Isa, NormPlace, Outputs, Weights};
use attention::AttentionLayer;
use builder::Builder;
use embedding::EmbeddingLayer;
use feed_forward::FeedForwardLayer;
use heads::HeadLayers;
use norm::NormLayer;
use scratch::{Cursor, Rows};

/// A network that is run on processors.
///
/// Layers where little is computed and much depends on it stay in full precision whatever is asked for, as in files of
/// bytes: see [`crate::is_quantised`].
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

/// Attention and a feed-forward layer, with their norms.
#[derive(Debug)]
struct Block {
    attention: AttentionLayer,
    attention_norm: NormLayer,
    feed_forward: FeedForwardLayer,
    feed_forward_norm: NormLayer,
}

impl Network {
    /// Packs weights for an instruction set; where the machine does not have it, for the best one below it.
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

    /// What it is made of.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// In what numbers it computes.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// With which instructions.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// What the network says of each position; with a head of action values, of each move of each position, one
    /// position's moves after the other's. Takes no memory but where a larger input than any before needs it.
    pub fn run<'a>(
        &self,
        inputs: &Inputs<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<&'a [Outputs], InputError> {
        self.run_observed(inputs, scratch, &mut ())
    }

    /// The same, and lets somebody look on.
    pub fn run_observed<'a>(
        &self,
        inputs: &Inputs<'_>,
        scratch: &'a mut Scratch,
        observer: &mut impl Observer,
    ) -> Result<&'a [Outputs], InputError> {
        let positions = inputs.check(&self.architecture)?;
        let kernels = Kernels::start(self.isa);
        let Scratch { rows, outputs } = scratch;
        let (mut cursor, mut said) = (Cursor::default(), 0);
        while cursor.position < positions {
            cursor = rows.plan(inputs, &self.architecture, cursor, positions);
            self.embedding.apply(&kernels, inputs, rows);
            self.pass(&kernels, rows, observer);
            let count = rows.answers();
            if outputs.len() < said + count {
                outputs.resize_with(said + count, Outputs::default);
            }
            self.heads.apply(&kernels, rows, &mut outputs[said..said + count]);
            said += count;
        }
        Ok(&outputs[..said])
    }

    /// Passes rows through the body.
    fn pass(&self, kernels: &Kernels, rows: &mut Rows, observer: &mut impl Observer) {
        let factor = self.architecture.branch_factor();
        let before = self.architecture.body.norm.place == NormPlace::Pre;
        for (index, block) in self.blocks.iter().enumerate() {
            observer.layer(index);
            // 1. Attention, on normed rows or to be normed after. What no head reads is left out of the last one.
            let input = rows.branch(before.then_some(&block.attention_norm), kernels);
            let only_read = rows.text && index + 1 == self.blocks.len();
            block.attention.look(kernels, rows, input, only_read, observer);
            if only_read {
                rows.keep_what_is_read();
            }
            block.attention.join(kernels, rows, Store::Add(factor));
            if !before {
                block.attention_norm.apply(kernels, rows.x_mut());
            }
            // 2. What happens to each row alone.
            let input = rows.branch(before.then_some(&block.feed_forward_norm), kernels);
            block.feed_forward.apply(kernels, rows, input, factor);
            if !before {
                block.feed_forward_norm.apply(kernels, rows.x_mut());
            }
        }
        if let Some(norm) = &self.last_norm {
            norm.apply(kernels, rows.x_mut());
        }
    }
}

/// Which rows a branch reads: those of the residual stream, or their normed copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Stream,
    Normed,
}

/// A copy of a tensor.
fn copied(numbers: &[f32]) -> Aligned<f32> {
    Aligned::from(numbers)
}
