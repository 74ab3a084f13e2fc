//! Training state: the parameters with the optimiser's buffers and averages, which a checkpoint stores and a
//! trainer continues from. Networks of all kinds have the same.

use crate::layout::Layout;
use crate::optimiser::Optimiser;
use tandem_nnue::Inputs;

/// Parameters and optimiser buffers between two steps. Each buffer has one value for every trained parameter,
/// or is empty if it is not used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Number of steps done so far, from which the bias correction of the moments follows.
    pub step: u64,
    /// Weights and biases of the network, in the order of the trainer.
    pub parameters: Vec<f32>,
    /// Running mean of gradients; momentum for SGD, squared steps for Adadelta.
    pub exp_avg: Vec<f32>,
    /// Running mean of squared gradients, for all optimisers but SGD.
    pub exp_avg_sq: Vec<f32>,
    /// Slow weights of Lookahead; empty for all optimisers but Ranger.
    pub slow_weights: Vec<f32>,
    /// Exponential moving average of the parameters, if the recipe asks for one.
    pub ema: Vec<f32>,
    /// Plain mean of the parameters at several steps (stochastic weight averaging), once it has begun.
    pub swa: Vec<f32>,
    /// Number of steps in the plain mean.
    pub swa_count: u64,
    /// State of the generator of random numbers for dropout, if the trainer draws them in sequence.
    pub dropout_rng: u64,
}

impl State {
    /// The state before the first step, with moments of zero; `averaged` adds a moving average that begins at
    /// the parameters.
    pub fn new(parameters: Vec<f32>, optimiser: Optimiser, averaged: bool) -> Self {
        let needs = optimiser.buffers();
        let zeros = |needed: bool| vec![0.0; if needed { parameters.len() } else { 0 }];
        Self {
            step: 0,
            exp_avg: zeros(needs.exp_avg),
            exp_avg_sq: zeros(needs.exp_avg_sq),
            slow_weights: if needs.slow_weights { parameters.clone() } else { Vec::new() },
            ema: if averaged { parameters.clone() } else { Vec::new() },
            parameters,
            ..Self::default()
        }
    }

    /// All buffers with the names under which checkpoints store them.
    pub fn buffers(&self) -> [(&'static str, &Vec<f32>); 6] {
        [
            ("numbers", &self.parameters),
            ("first", &self.exp_avg),
            ("second", &self.exp_avg_sq),
            ("slow", &self.slow_weights),
            ("average", &self.ema),
            ("plain", &self.swa),
        ]
    }

    /// All buffers for writing, in the order of [`State::buffers`].
    pub fn buffers_mut(&mut self) -> [&mut Vec<f32>; 6] {
        let Self { parameters, exp_avg, exp_avg_sq, slow_weights, ema, swa, .. } = self;
        [parameters, exp_avg, exp_avg_sq, slow_weights, ema, swa]
    }

    /// The average of the parameters: the plain mean if there is one, else the moving average, else the
    /// current ones.
    pub fn averaged(self) -> Vec<f32> {
        [self.swa, self.ema].into_iter().find(|average| !average.is_empty()).unwrap_or(self.parameters)
    }

    /// True if the buffers have the lengths that a layout and an optimiser require.
    pub fn fits<I: Inputs>(&self, layout: &Layout<I>, optimiser: Optimiser, averaged: bool) -> bool {
        let needs = optimiser.buffers();
        let len = |needed: bool| if needed { layout.num_parameters() } else { 0 };
        self.parameters.len() == layout.num_parameters()
            && self.exp_avg.len() == len(needs.exp_avg)
            && self.exp_avg_sq.len() == len(needs.exp_avg_sq)
            && self.slow_weights.len() == len(needs.slow_weights)
            && self.ema.len() == len(averaged)
            && self.swa.is_empty()
    }
}
