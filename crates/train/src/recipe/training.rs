//! The tables `[training]` and `[logging]`, which recipes of all kinds share.
//!
//! Keys that one kind does not have are refused there with a reason, see [`RecipeKind`](super::RecipeKind).
//! Defaults that depend on the kind are in the same place.

use super::{ALMOST_ONE, RecipeError, within};
use serde::{Deserialize, Serialize};

/// Batch size, length, validation, clipping, averaging and precision of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainingRecipe {
    /// Positions in the batch of one optimiser step, summed over all processes; default 16,384 for an NNUE,
    /// 1,024 for a transformer and 256 for a selector.
    pub batch: usize,
    /// Parts into which each step of a transformer is split, one after the other, if a whole batch does not
    /// fit into memory; default 1. Gradients are summed, so the step is that of the whole batch, except that
    /// the load of experts is balanced within each part.
    pub gradient_accumulation_steps: usize,
    /// Positions of the whole run, which reads the data as many times as needed; default 100 million for an
    /// NNUE and 10 million for a transformer.
    pub positions: u64,
    /// Passes of a selector over all training positions, default 30; the selector of the epoch with the
    /// lowest validation loss is kept.
    pub epochs: u64,
    /// Positions between two validations, each with a checkpoint; default 10 million for an NNUE and 1
    /// million for a transformer.
    pub validate_every: u64,
    /// Validation positions, from the start of the validation data; default 1 million for an NNUE and 100,000
    /// for a transformer.
    pub validation_positions: u64,
    /// Ends the run after this many validations without a lower loss, and takes the best network; default 0,
    /// which runs to the end.
    pub patience: u32,
    /// Number of checkpoints to keep, beside the best one; default 3, and 1 for a selector.
    pub keep: usize,
    /// Maximum gradient norm over all parameters together; 0 disables clipping. Default 0 for an NNUE, 1 for
    /// a transformer or a selector.
    pub max_grad_norm: f64,
    /// Clamps the weights of an NNUE to the range of the quantised network after each step; default true.
    pub clip_weights: bool,
    /// Quantisation-aware training of an NNUE: the forward pass uses weights rounded as in the quantised
    /// network; default false.
    pub qat: bool,
    /// Decay of the exponential moving average (EMA) of the weights, which then becomes the network; from 0
    /// to below 1. 0, the default for an NNUE, for no average; default 0.999 for a transformer.
    pub ema_decay: f64,
    /// Steps between two updates of an NNUE's moving average; default 10.
    pub ema_every: u64,
    /// The plain mean of this many last checkpoints of an NNUE becomes the network, at most `keep`; 0, the
    /// default, for no mean.
    pub average_checkpoints: usize,
    /// Stochastic weight averaging over the end of a transformer's run; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swa: Option<Swa>,
    /// Names of a transformer's tensors that are not trained; `*` matches any text.
    pub freeze: Vec<String>,
    /// Structured sparsity of a transformer's layers, for example `"2:4"`; none by default. Excluded with a
    /// bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparsity: Option<Sparsity>,
    /// Precision of a transformer's forward and backward pass: `"f32"`, the default, or `"bf16"`, which is
    /// faster on a GPU.
    pub precision: TrainingPrecision,
    /// Records a transformer's step as a CUDA graph and replays it, which saves up to half of the time at
    /// small batches; default false. Needs an NVIDIA GPU, one process, AdamW, and feed-forward layers of
    /// fixed shapes.
    pub cuda_graph: bool,
    /// Dropout probability of a selector's hidden values, default 0.2; 0 disables dropout.
    pub dropout: f64,
    /// Weights each position in a selector's loss by the size of the difference between the two networks'
    /// errors against the deep search; false, the default, weights all equally.
    pub by_gain: bool,
}

/// Stochastic weight averaging: the plain mean of snapshots of the weights in the last part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Swa {
    /// Fraction of the run after which averaging starts, default 0.75.
    pub from: f64,
    /// Training steps between two snapshots of the weights, all of which are averaged; default 100.
    pub every: u64,
}

/// Structured sparsity of weight matrices: a fixed pattern of zeros, which training keeps by masking the
/// weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sparsity {
    /// The two largest of every four consecutive weights in a row are kept, a pattern that NVIDIA's sparse
    /// tensor cores multiply at twice the speed.
    #[serde(rename = "2:4")]
    TwoOfFour,
}

/// Precision of the forward and the backward pass. Weights and optimiser state are always kept in 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrainingPrecision {
    /// 32-bit floats; on a GPU products use TF32, which has 19 bits.
    #[default]
    F32,
    /// bfloat16: 16 bits, with the exponent of a 32-bit float.
    Bf16,
}

/// The average of weights that becomes the network; averages usually play better than the last weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Averaging {
    /// No average: the weights after the last step are the network.
    #[default]
    None,
    /// Exponential moving average, updated during training, at the cost of one more buffer in memory.
    Ema {
        /// Fraction of the average that stays at each update, from 0 to below 1.
        decay: f64,
        /// Optimiser steps between two updates of the average, at least one.
        every: u64,
    },
    /// Mean of the last checkpoints, computed when the run ends.
    Checkpoints {
        /// Number of checkpoints, at most as many as the run keeps.
        count: usize,
    },
}

/// The log of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoggingRecipe {
    /// Optimiser steps between two entries of the log, at least 1; default 64 for an NNUE, 32 for a
    /// transformer. On a GPU each entry waits for the steps before it.
    pub every: u64,
}

impl Default for Swa {
    fn default() -> Self {
        Self { from: 0.75, every: 100 }
    }
}

impl Default for LoggingRecipe {
    fn default() -> Self {
        Self { every: 64 }
    }
}

impl Default for TrainingRecipe {
    /// The defaults for an NNUE; other kinds replace some of them.
    fn default() -> Self {
        Self {
            batch: 16_384,
            gradient_accumulation_steps: 1,
            positions: 100_000_000,
            epochs: 30,
            validate_every: 10_000_000,
            validation_positions: 1_000_000,
            patience: 0,
            keep: 3,
            max_grad_norm: 0.0,
            clip_weights: true,
            qat: false,
            ema_decay: 0.0,
            ema_every: 10,
            average_checkpoints: 0,
            swa: None,
            freeze: Vec::new(),
            sparsity: None,
            precision: TrainingPrecision::F32,
            cuda_graph: false,
            dropout: 0.2,
            by_gain: false,
        }
    }
}

impl TrainingRecipe {
    /// The average that `ema_decay`, `ema_every` and `average_checkpoints` describe together; checked recipes
    /// ask for one at most.
    pub fn averaging(&self) -> Averaging {
        if self.ema_decay > 0.0 {
            Averaging::Ema { decay: self.ema_decay, every: self.ema_every }
        } else if self.average_checkpoints > 0 {
            Averaging::Checkpoints { count: self.average_checkpoints }
        } else {
            Averaging::None
        }
    }

    /// True if a tensor is frozen, because its name matches one of the patterns in `freeze`.
    pub fn is_frozen(&self, tensor: &str) -> bool {
        self.freeze.iter().any(|pattern| matches(pattern, tensor))
    }

    /// Checks ranges, and keys that exclude or need each other. Keys that the recipe's kind does not have are
    /// at their defaults and pass.
    pub(super) fn check(&self, has_validation: bool) -> Result<(), RecipeError> {
        let invalid = |key, problem: &str| Err(RecipeError::Invalid { key, problem: problem.into() });
        let (batch, max_batch) = (self.batch as f64, f64::from(1 << 22));
        within("training.batch", batch, 1.0, max_batch)?;
        let parts = self.gradient_accumulation_steps;
        within("training.gradient_accumulation_steps", parts as f64, 1.0, max_batch)?;
        if !self.batch.is_multiple_of(parts) {
            let problem = format!("{} positions cannot be split into equal parts", self.batch);
            return invalid("training.gradient_accumulation_steps", &problem);
        }
        let whole = |key, value: u64| within(key, value as f64, 1.0, u64::MAX as f64);
        whole("training.positions", self.positions)?;
        within("training.epochs", self.epochs as f64, 1.0, 1e6)?;
        whole("training.validate_every", self.validate_every)?;
        within("training.max_grad_norm", self.max_grad_norm, 0.0, f64::MAX)?;
        within("training.ema_decay", self.ema_decay, 0.0, ALMOST_ONE)?;
        whole("training.ema_every", self.ema_every)?;
        within("training.dropout", self.dropout, 0.0, ALMOST_ONE)?;
        if let Some(swa) = self.swa {
            within("training.swa.from", swa.from, 0.0, 1.0)?;
            whole("training.swa.every", swa.every)?;
        }
        if self.patience > 0 && !(has_validation && self.validation_positions > 0) {
            return invalid(
                "training.patience",
                "early stopping needs validation data: name some, or leave this out",
            );
        }
        self.check_averaging()
    }

    fn check_averaging(&self) -> Result<(), RecipeError> {
        let invalid = |key, problem: &str| Err(RecipeError::Invalid { key, problem: problem.into() });
        let key = "training.average_checkpoints";
        if self.average_checkpoints > self.keep {
            return invalid(key, "must not be more than `training.keep`");
        }
        if self.average_checkpoints > 0 && self.ema_decay > 0.0 {
            return invalid(key, "`training.ema_decay` asks for another average: leave out one of the two");
        }
        if self.average_checkpoints > 0 && self.patience > 0 {
            return invalid(key, "with `patience` the best network is taken, and not the mean of the last");
        }
        Ok(())
    }
}

impl LoggingRecipe {
    /// Checks ranges.
    pub(super) fn check(&self) -> Result<(), RecipeError> {
        within("logging.every", self.every as f64, 1.0, u64::MAX as f64)
    }
}

/// True if a name matches a pattern, in which every star stands for any text, including none.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            // Tries every length for the star, the shortest first.
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.into_iter().any(|at| matches(rest, &name[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_text() {
        for (pattern, name, expected) in [
            ("a.b", "a.b", true),
            ("a.b", "a.bc", false),
            ("a*", "a", true),
            ("*.weight", "layers.0.weight", true),
            ("layers.*.norm.*", "layers.3.norm.scale", true),
            ("layers.*.norm.*", "layers.3.scale", false),
            ("*b*b", "ab", false),
            ("*b*b", "abb", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
