//! Tests of the CUDA trainer against the one on the CPU; most need a GPU.

use super::*;
use crate::cpu::CpuTrainer;
use crate::cpu::tests::{job, positions};
use crate::layout::{Layout, LayoutOptions, round_to};
use crate::optimiser::tests::ALL;
use crate::recipe::Averaging;
use crate::reference::tests::architectures;
use tandem_nnue::{
    Activation, Architecture, FeatureSet, InputActivation, OutputBuckets, Quantisation, StackShape,
};
use tandem_util::random::SplitMix;

/// One job for each architecture, so that every optimiser, loss and option occurs among them.
fn jobs() -> Vec<Job> {
    let losses = [Loss::Power { power: 2.0 }, Loss::Power { power: 2.5 }, Loss::CrossEntropy, Loss::Score];
    let mut jobs = Vec::new();
    for (number, mut architecture) in architectures().into_iter().enumerate() {
        if number % 2 == 0 {
            architecture.features = FeatureSet::half_ka_v2_hm();
        }
        if number == 3 {
            architecture.features = FeatureSet::half_kp();
        }
        let shape = LayoutOptions { factoriser: number % 2 == 0, clip_weights: true, qat: number % 3 == 1 };
        let mut job = job(architecture, ALL[number % 6], losses[number % 4], shape);
        if number % 3 == 2 {
            job.averaging = Averaging::Ema { decay: 0.9, every: 2 };
        }
        if number >= 4 {
            job.max_grad_norm = 0.05;
        }
        jobs.push(job);
    }
    // Widths that are not powers of two, and the smallest and largest layers.
    let adam = ALL[2];
    let flat = |outputs: usize, tied: bool, buckets: usize| Architecture {
        features: FeatureSet::plain(),
        outputs,
        tied,
        psqt: false,
        head: HeadShape::Flat { activation: Activation::Screlu, buckets: OutputBuckets::bullet(buckets) },
    };
    let stacks = |outputs: usize, tied: bool, hidden: usize, second: usize, buckets: usize| Architecture {
        head: HeadShape::Stacks(StackShape {
            input_activation: if tied { InputActivation::PairwiseMul255 } else { InputActivation::Clipped },
            squared_clipped: tied,
            skip: hidden > 2,
            hidden,
            second,
            buckets: OutputBuckets::bullet(buckets),
        }),
        psqt: tied && buckets <= 8,
        ..flat(outputs, tied, buckets)
    };
    for architecture in [
        flat(96, true, 1),
        flat(160, false, 8),
        flat(320, true, 32),
        flat(1024, true, 1),
        stacks(96, true, 2, 1, 1),
        stacks(160, false, 17, 32, 8),
        stacks(320, true, 32, 32, 8),
        stacks(1024, true, 16, 32, 8),
    ] {
        jobs.push(job(
            architecture,
            adam,
            losses[0],
            LayoutOptions { clip_weights: true, ..LayoutOptions::default() },
        ));
    }
    jobs
}

#[test]
#[ignore = "needs NVRTC"]
fn programs_of_all_shapes_compile() {
    for job in jobs() {
        for generation in ["compute_75", "compute_90"] {
            if let Err(error) = compile(&job, generation) {
                panic!("{}: {error}", job.layout.architecture());
            }
        }
    }
}

/// Jobs with rounding of the weights, for both kinds of heads and of weights, and a factoriser.
fn qat_jobs() -> impl Iterator<Item = Job> {
    architectures().into_iter().enumerate().map(|(number, architecture)| {
        let shape = LayoutOptions { factoriser: number % 2 == 0, clip_weights: true, qat: true };
        let mut job = job(architecture, ALL[2], Loss::Power { power: 2.0 }, shape);
        job.averaging = Averaging::Ema { decay: 0.5, every: 1 };
        job
    })
}

/// The weights are rounded once a step. The outputs are exactly those of a trainer without rounding whose
/// weights were rounded on the CPU, for the parameters and for their moving average.
#[test]
#[ignore = "needs a GPU"]
fn a_gpu_computes_with_rounded_weights() {
    let mut random = SplitMix::new(53);
    for qat in qat_jobs() {
        let architecture = qat.layout.architecture().clone();
        let (batch, _) = positions(&architecture, 2000, &mut random);
        let mut trainer = CudaTrainer::new(qat.clone(), qat.initial_state(5), 0, 4096).unwrap();
        for _ in 0..3 {
            trainer.train_step(&positions(&architecture, 2000, &mut random).0, 1e-2).unwrap();
        }
        let mut state = trainer.state().unwrap();
        for tensor in qat.layout.tensors() {
            for values in [&mut state.parameters, &mut state.ema] {
                let place = tensor.start..tensor.start + tensor.len;
                values[place].iter_mut().for_each(|value| *value = round_to(*value, tensor.quant_scale));
            }
        }
        let mut plain = qat.clone();
        plain.layout = Layout::new(
            architecture.clone(),
            Quantisation::default(),
            LayoutOptions { qat: false, ..qat.layout.options() },
        );
        let mut rounded = CudaTrainer::new(plain, state, 0, 4096).unwrap();
        for averaged in [false, true] {
            let (left, right) = (trainer.predict(&batch, averaged), rounded.predict(&batch, averaged));
            assert_eq!(left.unwrap(), right.unwrap(), "{architecture} averaged: {averaged}");
        }
    }
}

/// The GPU and the CPU round the same weights in every step of quantisation-aware training.
#[test]
#[ignore = "needs a GPU"]
fn quantisation_aware_training_on_a_gpu_equals_that_on_the_cpu() {
    let mut random = SplitMix::new(57);
    for job in qat_jobs() {
        let architecture = job.layout.architecture().clone();
        let mut cpu = CpuTrainer::new(job.clone(), job.initial_state(3));
        let mut gpu = CudaTrainer::new(job.clone(), job.initial_state(3), 0, 4096).unwrap();
        for _ in 0..8 {
            let (batch, _) = positions(&architecture, 2000, &mut random);
            cpu.train_step(&batch, 1e-3).unwrap();
            gpu.train_step(&batch, 1e-3).unwrap();
        }
        for (left, right) in cpu.take_metrics().unwrap().iter().zip(gpu.take_metrics().unwrap()) {
            let size = left.loss.abs().max(1e-3);
            assert!((left.loss - right.loss).abs() < 1e-3 * size, "{architecture}: {left:?} {right:?}");
        }
    }
}

/// The GPU and the CPU agree step after step, up to rounding.
#[test]
#[ignore = "needs a GPU"]
fn a_gpu_trains_as_the_cpu_does() {
    let mut random = SplitMix::new(51);
    for (number, job) in jobs().into_iter().enumerate() {
        let count = [3000, 3000, 257, 3000, 1][number % 5];
        let (batch, _) = positions(job.layout.architecture(), count, &mut random);
        let mut cpu = CpuTrainer::new(job.clone(), job.initial_state(3));
        let mut gpu = CudaTrainer::new(job.clone(), job.initial_state(3), 0, 4096).unwrap();
        let near = |name: &str, left: &[f32], right: &[f32], slack: f32| {
            assert_eq!(left.len(), right.len());
            for (at, (left, right)) in left.iter().zip(right).enumerate() {
                let size = left.abs().max(right.abs()).max(0.01);
                assert!(
                    (left - right).abs() < slack * size,
                    "{name} {at} of {}: {left} {right}",
                    job.layout.architecture()
                );
            }
        };
        near("outputs", &cpu.predict(&batch, false).unwrap(), &gpu.predict(&batch, false).unwrap(), 1e-4);
        // More batches, all different, than can be in flight at once; the metrics are taken only after
        // all are sent.
        let batches: Vec<Batch> =
            (0..3 * BUFFERS).map(|_| positions(job.layout.architecture(), count, &mut random).0).collect();
        for batch in &batches {
            gpu.train_step(batch, 1e-3).unwrap();
        }
        for batch in &batches {
            cpu.train_step(batch, 1e-3).unwrap();
        }
        let (left, right) = (cpu.take_metrics().unwrap(), gpu.take_metrics().unwrap());
        let part = |metrics: &[StepMetrics], of: fn(&StepMetrics) -> f64| -> Vec<f32> {
            metrics.iter().map(|step| of(step) as f32).collect()
        };
        near("loss", &part(&left, |metrics| metrics.loss), &part(&right, |metrics| metrics.loss), 1e-3);
        near(
            "gradient norm",
            &part(&left, |metrics| metrics.grad_norm),
            &part(&right, |metrics| metrics.grad_norm),
            1e-2,
        );
        near("after", &cpu.predict(&batch, true).unwrap(), &gpu.predict(&batch, true).unwrap(), 5e-2);
        let (left, right) = (cpu.state().unwrap(), gpu.state().unwrap());
        assert!(right.fits(&job.layout, job.optimiser, job.is_averaged()));
        assert_eq!(left.step, right.step);
        // Adam's first steps have the size of the learning rate whatever the gradient, so the sign of a
        // vanishing gradient may differ.
        let far =
            left.parameters.iter().zip(&right.parameters).filter(|(a, b)| (*a - *b).abs() > 2e-3).count();
        assert!(far * 1000 <= left.parameters.len(), "{far} parameters of {}", job.layout.architecture());
        // A new trainer continues from its state.
        let mut again = CudaTrainer::new(job.clone(), right, 0, 4096).unwrap();
        near("again", &gpu.predict(&batch, false).unwrap(), &again.predict(&batch, false).unwrap(), 1e-5);
    }
}
