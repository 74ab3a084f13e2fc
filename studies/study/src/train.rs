//! Training of a network to predict a value of objects that are described by sparse features.

use tandem_nnue::{
    Activation, Architecture, ArchitectureError, FloatNetwork, HeadShape, Inputs, Network, OutputBuckets,
    Quantisation, QuantiseError,
};
use tandem_train::{
    ActiveFeatures, Averaging, CpuTrainer, Job, Layout, LayoutOptions, Loss, Optimiser, Target,
};
use tandem_util::random::SplitMix;
use thiserror::Error;

/// An object to learn from: its active features and the value to predict.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Indices of the active features; an index that occurs several times counts as often.
    pub features: Vec<u32>,
    /// Value to predict, at most one million in size.
    pub value: f64,
}

/// Hyperparameters of a training run with Adam and without weight decay; equal ones give equal networks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainConfig {
    /// Number of accumulator outputs; a multiple of 32, because the kernels process 32 values at a time.
    pub width: usize,
    /// Number of passes over the samples, each in another random order.
    pub epochs: usize,
    /// Number of samples in each step; the last step of an epoch may have fewer.
    pub batch_size: usize,
    /// Initial learning rate; a cosine schedule lowers it to a hundredth of that.
    pub lr: f64,
    /// Value that a network output of 1 represents, about the standard deviation of the values.
    pub output_scale: f64,
    /// Seed of the initial weights and of the order of the samples.
    pub seed: u64,
}

/// Largest absolute value that is accepted; a greater one is taken for an error in the data.
const MAX_VALUE: f64 = 1e6;

/// Resolution of quantised networks: integer outputs for one unit of the value.
const OUTPUTS_PER_UNIT: f64 = 100.0;

/// Callback after each epoch with its number, from 1, and the root mean square error during it.
pub type EpochCallback<'a> = &'a mut dyn FnMut(usize, f64);

/// Error that prevents a network from being trained.
#[derive(Debug, Error)]
pub enum TrainError {
    /// A sample has too many active features, an unknown feature, or a value out of range.
    #[error("sample {sample}: {problem}")]
    Sample {
        /// Index of the sample, from 0.
        sample: usize,
        /// Description of the fault.
        problem: String,
    },
    /// The list of samples is empty.
    #[error("there are no samples")]
    NoSamples,
    /// The architecture is invalid, for example because the width is not a multiple of 32.
    #[error(transparent)]
    Architecture(#[from] ArchitectureError),
    /// The trained weights do not fit into the integers of the quantised network.
    #[error(transparent)]
    Quantise(#[from] QuantiseError),
}

impl TrainConfig {
    fn job<I: Inputs>(&self, inputs: I) -> Result<Job<I>, TrainError> {
        let architecture = Architecture {
            features: inputs,
            outputs: self.width,
            tied: true,
            psqt: false,
            head: HeadShape::Flat { activation: Activation::Relu, buckets: OutputBuckets::ONE },
        };
        architecture.check()?;
        let quantisation = Quantisation { qa: 255, qb: 64 };
        let options = LayoutOptions { factoriser: false, clip_weights: true, qat: true };
        Ok(Job {
            layout: Layout::new(architecture, quantisation, options),
            optimiser: Optimiser::AdamW { beta1: 0.9, beta2: 0.999, weight_decay: 0.0, epsilon: 1e-8 },
            loss: Loss::Score,
            output_scale: 1.0,
            max_grad_norm: 0.0,
            averaging: Averaging::None,
            quantisation,
            scale: (self.output_scale * OUTPUTS_PER_UNIT) as i32,
            pawn: OUTPUTS_PER_UNIT as i32,
        })
    }
}

/// Trains a network on the samples. Returns it in floating point and quantised; the outputs of the quantised
/// network are in hundredths of the values' unit.
///
/// # Errors
///
/// Fails if there are no samples or one of them is invalid, if the width is not supported, or if the weights
/// cannot be quantised.
pub fn train_network<I: Inputs + Sync>(
    inputs: I,
    samples: &[Sample],
    config: &TrainConfig,
    on_epoch: EpochCallback<'_>,
) -> Result<(FloatNetwork<I>, Network<I>), TrainError> {
    let job = config.job(inputs)?;
    check(&job.layout, samples)?;
    let mut trainer = CpuTrainer::new(job.clone(), job.initial_state(config.seed));
    let mut random = SplitMix::new(config.seed);
    let mut order: Vec<usize> = (0..samples.len()).collect();
    let mut features = ActiveFeatures::of(&job.layout);
    for epoch in 0..config.epochs {
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u32 + 1) as usize);
        }
        let progress = epoch as f64 / config.epochs.max(1) as f64;
        let decay = (1.0 + (std::f64::consts::PI * progress).cos()) / 2.0;
        let lr = config.lr * (0.01 + 0.99 * decay);
        for batch in order.chunks(config.batch_size.max(1)) {
            features.clear();
            for &number in batch {
                let sample = &samples[number];
                let score = (sample.value / config.output_scale) as f32;
                features.push(&[&sample.features], 0, Target { score, win_probability: 0.5 });
            }
            trainer.train_step_features(&features, lr);
        }
        let metrics = trainer.drain_metrics();
        let loss = metrics.iter().map(|step| step.loss).sum::<f64>() / metrics.len().max(1) as f64;
        on_epoch(epoch + 1, loss.sqrt() * config.output_scale);
    }
    let float = job.network(&trainer.current_state().parameters, "");
    let (network, _) = float.quantise(job.quantisation)?;
    Ok((float, network))
}

fn check<I: Inputs>(layout: &Layout<I>, samples: &[Sample]) -> Result<(), TrainError> {
    if samples.is_empty() {
        return Err(TrainError::NoSamples);
    }
    let inputs = &layout.architecture().features;
    for (sample, Sample { features, value }) in samples.iter().enumerate() {
        if value.is_nan() || value.abs() > MAX_VALUE {
            return Err(TrainError::Sample { sample, problem: format!("{value} is beyond {MAX_VALUE}") });
        }
        if features.len() > inputs.max_active() {
            let problem = format!("{} features are on, {} at most", features.len(), inputs.max_active());
            return Err(TrainError::Sample { sample, problem });
        }
        if let Some(feature) = features.iter().find(|&&feature| feature as usize >= inputs.num_inputs()) {
            return Err(TrainError::Sample { sample, problem: format!("there is no feature {feature}") });
        }
    }
    Ok(())
}

/// Predictions of a quantised network for the samples, in the unit of the values.
pub fn predict<I: Inputs>(network: &Network<I>, samples: &[Sample]) -> Vec<f64> {
    let nothing = tandem_nnue::Accumulator::new(network);
    let mut accumulator = nothing.clone();
    let mut scratch = network.scratch();
    let value = |sample: &Sample| {
        accumulator.update_from(network, &nothing, &sample.features, &[]);
        f64::from(network.forward(&[&accumulator], 0, &mut scratch).value()) / OUTPUTS_PER_UNIT
    };
    samples.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Marks;

    impl Inputs for Marks {
        const SIDES: usize = 1;

        fn name(&self) -> &str {
            "marks"
        }

        fn num_inputs(&self) -> usize {
            30
        }

        fn max_active(&self) -> usize {
            12
        }

        fn may_repeat(&self) -> bool {
            true
        }
    }

    fn samples(count: usize, seed: u64) -> Vec<Sample> {
        let mut random = SplitMix::new(seed);
        let one = |_| {
            let features: Vec<u32> = (0..4 + random.below(8)).map(|_| random.below(30)).collect();
            let odd = features.iter().filter(|&&feature| feature % 2 == 1).count() as f64;
            Sample { features, value: odd * odd }
        };
        (0..count).map(one).collect()
    }

    /// The square of a sum is not a sum, so a linear model cannot represent it.
    #[test]
    fn a_network_learns_what_a_linear_model_cannot() {
        let (train, test) = (samples(6000, 1), samples(500, 2));
        let config =
            TrainConfig { width: 32, epochs: 40, batch_size: 200, lr: 3e-3, output_scale: 30.0, seed: 5 };
        let mut last = f64::MAX;
        let (_, network) = train_network(Marks, &train, &config, &mut |_, error| last = error).unwrap();
        let rms = |predictions: Vec<f64>| {
            let pairs: Vec<(f64, f64)> =
                predictions.into_iter().zip(test.iter().map(|sample| sample.value)).collect();
            crate::FitQuality::of(&pairs).rmse
        };
        let linear = crate::LinearModel::fit(&train, 30);
        let of_linear = rms(test.iter().map(|sample| linear.predict(&sample.features)).collect());
        let of_network = rms(predict(&network, &test));
        assert!(of_network < of_linear / 3.0, "{of_network} {of_linear}");
        assert!(last < of_linear / 3.0);
    }

    #[test]
    fn invalid_samples_and_widths_are_refused() {
        let config =
            TrainConfig { width: 32, epochs: 1, batch_size: 2, lr: 1e-3, output_scale: 1.0, seed: 5 };
        for features in [vec![30], vec![1; 13]] {
            let error = train_network(Marks, &[Sample { features, value: 0.0 }], &config, &mut |_, _| {});
            assert!(error.unwrap_err().to_string().starts_with("sample 0"));
        }
        let error = |config: &TrainConfig, samples: &[Sample]| {
            train_network(Marks, samples, config, &mut |_, _| {}).unwrap_err().to_string()
        };
        let sample = |value| [Sample { features: vec![1], value }];
        assert!(error(&config, &sample(1e30)).contains("beyond"));
        assert!(error(&config, &[]).contains("no samples"));
        for width in [0, 48, usize::MAX] {
            assert!(error(&TrainConfig { width, ..config }, &sample(0.0)).contains("outputs"));
        }
    }
}
