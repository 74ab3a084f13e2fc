//! Lets a network learn a number of things that are described by rows.

use tandem_chess::random::SplitMix;
use tandem_nnue::{
    Activation, Architecture, ArchitectureError, FloatNetwork, HeadShape, Inputs, Network, OutputBuckets,
    Quantisation, QuantiseError,
};
use tandem_train::{
    ActiveFeatures, Averaging, CpuTrainer, Job, Layout, LayoutOptions, Loss, Optimiser, Target,
};
use thiserror::Error;

/// A thing: the rows that are on for it, as often as they are on, and the number to be learnt.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The rows.
    pub rows: Vec<u32>,
    /// The number.
    pub value: f64,
}

/// How a network learns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// Values of the accumulator.
    pub width: usize,
    /// How often each sample is seen.
    pub epochs: usize,
    /// Samples of a step.
    pub batch: usize,
    /// The learning rate to begin with; it falls to a hundredth of that.
    pub rate: f64,
    /// What an output of one stands for, in the units of the numbers.
    pub unit: f64,
    /// Where chance begins.
    pub seed: u64,
}

/// The greatest number that is learnt, up or down: more cannot be meant.
const GREATEST: f64 = 1e6;

/// Values of an integer network that make one unit of the numbers.
const FINE: f64 = 100.0;

/// What the learning tells: the epoch, and the root of the mean square of its errors.
pub type Teller<'a> = &'a mut dyn FnMut(usize, f64);

/// A network that could not be learnt.
#[derive(Debug, Error)]
pub enum LearnError {
    /// A sample has more on than its inputs say there can be, or a row that is none.
    #[error("sample {sample}: {problem}")]
    Sample {
        /// Which.
        sample: usize,
        /// Why.
        problem: String,
    },
    /// There is nothing to learn from.
    #[error("there are no samples")]
    Nothing,
    /// No network has this shape.
    #[error(transparent)]
    Architecture(#[from] ArchitectureError),
    /// What was learnt does not fit into integers.
    #[error(transparent)]
    Quantise(#[from] QuantiseError),
}

impl Recipe {
    fn job<I: Inputs>(&self, inputs: I) -> Result<Job<I>, LearnError> {
        let architecture = Architecture {
            features: inputs,
            outputs: self.width,
            tied: true,
            psqt: false,
            head: HeadShape::Flat { activation: Activation::Relu, buckets: OutputBuckets::ONE },
        };
        architecture.check()?;
        let quantisation = Quantisation { qa: 255, qb: 64 };
        let shape = LayoutOptions { factoriser: false, clip_weights: true, qat: true };
        Ok(Job {
            layout: Layout::new(architecture, quantisation, shape),
            optimiser: Optimiser::Adam { beta1: 0.9, beta2: 0.999, weight_decay: 0.0, epsilon: 1e-8 },
            loss: Loss::Score,
            output_scale: 1.0,
            max_grad_norm: 0.0,
            averaging: Averaging::None,
            quantisation,
            scale: (self.unit * FINE) as i32,
            pawn: FINE as i32,
        })
    }
}

/// Learns from samples. The integers of the network that comes back say hundredths of the numbers' unit.
pub fn learn<I: Inputs + Sync>(
    inputs: I,
    samples: &[Sample],
    recipe: &Recipe,
    tell: Teller<'_>,
) -> Result<(FloatNetwork<I>, Network<I>), LearnError> {
    let job = recipe.job(inputs)?;
    check(&job.layout, samples)?;
    let mut trainer = CpuTrainer::new(job.clone(), job.initial_state(recipe.seed));
    let mut random = SplitMix::new(recipe.seed);
    let mut order: Vec<usize> = (0..samples.len()).collect();
    let mut rows = ActiveFeatures::of(&job.layout);
    for epoch in 0..recipe.epochs {
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u32 + 1) as usize);
        }
        let progress = epoch as f64 / recipe.epochs.max(1) as f64;
        let fall = (1.0 + (std::f64::consts::PI * progress).cos()) / 2.0;
        let rate = recipe.rate * (0.01 + 0.99 * fall);
        for batch in order.chunks(recipe.batch.max(1)) {
            rows.clear();
            for &number in batch {
                let sample = &samples[number];
                let score = (sample.value / recipe.unit) as f32;
                rows.push(&[&sample.rows], 0, Target { score, win_probability: 0.5 });
            }
            trainer.train_step_features(&rows, rate);
        }
        let said = trainer.drain_metrics();
        let loss = said.iter().map(|told| f64::from(told.loss)).sum::<f64>() / said.len().max(1) as f64;
        tell(epoch + 1, loss.sqrt() * recipe.unit);
    }
    let float = job.network(&trainer.current_state().parameters, "");
    let (network, _) = float.quantise(job.quantisation)?;
    Ok((float, network))
}

fn check<I: Inputs>(layout: &Layout<I>, samples: &[Sample]) -> Result<(), LearnError> {
    if samples.is_empty() {
        return Err(LearnError::Nothing);
    }
    let inputs = &layout.architecture().features;
    for (sample, Sample { rows, value }) in samples.iter().enumerate() {
        if value.is_nan() || value.abs() > GREATEST {
            return Err(LearnError::Sample { sample, problem: format!("{value} is beyond {GREATEST}") });
        }
        if rows.len() > inputs.max_active() {
            let problem = format!("{} rows are on, {} at most", rows.len(), inputs.max_active());
            return Err(LearnError::Sample { sample, problem });
        }
        if let Some(row) = rows.iter().find(|&&row| row as usize >= inputs.num_inputs()) {
            return Err(LearnError::Sample { sample, problem: format!("there is no row {row}") });
        }
    }
    Ok(())
}

/// What a network says of samples, in the numbers' unit.
pub fn judge_all<I: Inputs>(network: &Network<I>, samples: &[Sample]) -> Vec<f64> {
    let nothing = tandem_nnue::Accumulator::new(network);
    let mut accumulator = nothing.clone();
    let mut scratch = network.scratch();
    let judge = |sample: &Sample| {
        accumulator.update_from(network, &nothing, &sample.rows, &[]);
        f64::from(network.forward(&[&accumulator], 0, &mut scratch).value()) / FINE
    };
    samples.iter().map(judge).collect()
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
            let rows: Vec<u32> = (0..4 + random.below(8)).map(|_| random.below(30)).collect();
            let odd = rows.iter().filter(|&&row| row % 2 == 1).count() as f64;
            Sample { rows, value: odd * odd }
        };
        (0..count).map(one).collect()
    }

    /// A square of a sum is no sum.
    #[test]
    fn a_network_learns_what_no_sum_says() {
        let (train, test) = (samples(6000, 1), samples(500, 2));
        let recipe = Recipe { width: 32, epochs: 40, batch: 200, rate: 3e-3, unit: 30.0, seed: 5 };
        let mut last = f64::MAX;
        let (_, network) = learn(Marks, &train, &recipe, &mut |_, error| last = error).unwrap();
        let rms = |said: Vec<f64>| {
            let pairs: Vec<(f64, f64)> =
                said.into_iter().zip(test.iter().map(|sample| sample.value)).collect();
            crate::Fit::of(&pairs).rms
        };
        let sum = crate::Sum::fit(&train, 30);
        let of_sum = rms(test.iter().map(|sample| sum.of(&sample.rows)).collect());
        let of_network = rms(judge_all(&network, &test));
        assert!(of_network < of_sum / 3.0, "{of_network} {of_sum}");
        assert!(last < of_sum / 3.0);
    }

    #[test]
    fn samples_that_fit_no_inputs_are_refused() {
        let recipe = Recipe { width: 32, epochs: 1, batch: 2, rate: 1e-3, unit: 1.0, seed: 5 };
        for rows in [vec![30], vec![1; 13]] {
            let error = learn(Marks, &[Sample { rows, value: 0.0 }], &recipe, &mut |_, _| {});
            assert!(error.unwrap_err().to_string().starts_with("sample 0"));
        }
        let wrong = |recipe: &Recipe, samples: &[Sample]| {
            learn(Marks, samples, recipe, &mut |_, _| {}).unwrap_err().to_string()
        };
        let sample = |value| [Sample { rows: vec![1], value }];
        assert!(wrong(&recipe, &sample(1e30)).contains("beyond"));
        assert!(wrong(&recipe, &[]).contains("no samples"));
        for width in [0, 48, usize::MAX] {
            assert!(wrong(&Recipe { width, ..recipe }, &sample(0.0)).contains("outputs"));
        }
    }
}
