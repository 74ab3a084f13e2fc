use super::*;
use crate::layout::{Layout, LayoutOptions};
use crate::loss::{Loss, Target};
use crate::optimiser::Optimiser;
use crate::recipe::Averaging;
use crate::reference::{self, Sample};
use tandem_data::Packed;
use tandem_nnue::{Architecture, FeatureSet, FloatNetwork, Quantisation};
use tandem_util::random::SplitMix;

pub(crate) fn job(architecture: Architecture, optimiser: Optimiser, loss: Loss, shape: LayoutOptions) -> Job {
    let quantisation = Quantisation::default();
    Job {
        layout: Layout::new(architecture, quantisation, shape),
        optimiser,
        loss,
        output_scale: 1.5,
        max_grad_norm: 0.0,
        averaging: Averaging::None,
        quantisation,
        scale: 600,
        pawn: 100,
    }
}

fn trainer(job: &Job, network: &FloatNetwork) -> CpuTrainer {
    let parameters = job.layout.parameters_of(network);
    CpuTrainer::new(job.clone(), State::new(parameters, job.optimiser, job.is_averaged()))
}

pub(crate) fn positions(
    architecture: &Architecture,
    count: usize,
    random: &mut SplitMix,
) -> (Batch, Vec<Sample>) {
    let (mut batch, mut samples) = (Batch::default(), Vec::new());
    while batch.len() < count {
        let (position, target) = reference::tests::random_position(random);
        batch.push(Packed::new(position.board()).unwrap(), target);
        samples.push(Sample::new(architecture, position.board(), target));
    }
    (batch, samples)
}

fn loss_of(trainer: &mut CpuTrainer, batch: &Batch) -> f64 {
    let outputs = trainer.predict(batch, false).unwrap();
    let losses = outputs.iter().zip(&batch.targets);
    losses.map(|(&output, &target)| trainer.job.loss.value_and_grad(f64::from(output), target).0).sum::<f64>()
        / batch.len() as f64
}

fn near(name: &str, before: &[f32], after: &[f32], lr: f64, grads: &[f64]) {
    let size = grads.iter().map(|grad| grad.abs()).fold(1e-9, f64::max);
    for ((before, after), grad) in before.iter().zip(after).zip(grads) {
        let moved = (f64::from(*before) - f64::from(*after)) / lr;
        assert!((moved - grad).abs() < 2e-3 * size + 1e-5, "{name}: {moved} {grad}");
    }
}

const SGD: Optimiser = Optimiser::Sgd { momentum: 0.0 };
const ADAM: Optimiser = Optimiser::AdamW { beta1: 0.9, beta2: 0.999, weight_decay: 0.0, epsilon: 1e-8 };

/// One step of plain SGD moves every parameter by the reference's gradient, with each instruction set.
#[test]
fn gradients_match_the_reference() {
    let mut random = SplitMix::new(21);
    for (number, mut architecture) in reference::tests::architectures().into_iter().enumerate() {
        if number % 2 == 1 {
            architecture.features = FeatureSet::half_ka_v2_hm();
        }
        let network = reference::tests::random_network(architecture.clone(), &mut random);
        let (batch, samples) = positions(&architecture, 700, &mut random);
        let loss = Loss::Power { power: 2.5 };
        let expected = reference::gradients(&network, &samples, loss, 1.5);
        let lr = 16.0;
        let mut first: Option<Vec<f32>> = None;
        for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
            let mut trainer =
                trainer(&job(architecture.clone(), SGD, loss, LayoutOptions::default()), &network);
            trainer.isa = if isa.is_available() { isa } else { Isa::Portable };
            assert!(
                (loss_of(&mut trainer, &batch) - expected.loss).abs() < 1e-5 * expected.loss,
                "{architecture}"
            );
            trainer.train_step(&batch, lr).unwrap();
            let metrics = trainer.take_metrics().unwrap().remove(0);
            assert!((metrics.loss - expected.loss).abs() < 1e-5 * expected.loss, "{architecture}");
            assert!((metrics.grad_norm - grad_norm(&expected)).abs() < 1e-3 * grad_norm(&expected));
            let state = trainer.state().unwrap();
            assert_eq!(first.get_or_insert_with(|| state.parameters.clone()), &state.parameters, "{isa:?}");
            let after = trainer.job.network(&state.parameters, "");
            near("weights", &network.weights, &after.weights, lr, &expected.weights);
            near("bias", &network.bias, &after.bias, lr, &expected.bias);
            near("psqt", &network.psqt, &after.psqt, lr, &expected.psqt);
            let stacks = network.stacks.iter().zip(&after.stacks).zip(&expected.stacks);
            for ((before, after), grads) in stacks {
                for ((before, after), (weights, bias)) in before.iter().zip(after).zip(grads) {
                    near("layer weights", &before.weights, &after.weights, lr, weights);
                    near("layer bias", &before.bias, &after.bias, lr, bias);
                }
            }
        }
    }
}

fn grad_norm(grads: &reference::Gradients) -> f64 {
    let stacks = grads.stacks.iter().flatten().flat_map(|(weights, bias)| weights.iter().chain(bias));
    let all = grads.weights.iter().chain(&grads.bias).chain(&grads.psqt).chain(stacks);
    all.map(|grad| grad * grad).sum::<f64>().sqrt()
}

#[test]
fn gradients_are_clipped_to_a_norm() {
    let mut random = SplitMix::new(22);
    for architecture in reference::tests::architectures() {
        let network = reference::tests::random_network(architecture.clone(), &mut random);
        let (batch, _) = positions(&architecture, 100, &mut random);
        let mut job = job(architecture, SGD, Loss::Score, LayoutOptions::default());
        job.max_grad_norm = 0.01;
        let mut trainer = trainer(&job, &network);
        let before = trainer.state.parameters.clone();
        trainer.train_step(&batch, 1.0).unwrap();
        let moved =
            before.iter().zip(&trainer.state.parameters).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
        assert!((moved.sqrt() - 0.01).abs() < 1e-4, "{}", moved.sqrt());
        assert!(trainer.take_metrics().unwrap()[0].grad_norm > 0.01);
    }
}

/// The factoriser and rounding: what is trained is what the finished network computes.
#[test]
fn the_trainer_computes_what_the_network_does() {
    let mut random = SplitMix::new(23);
    for mut architecture in reference::tests::architectures() {
        architecture.features = FeatureSet::half_ka_v2_hm();
        let shape = LayoutOptions { factoriser: true, clip_weights: true, qat: true };
        let job = job(architecture.clone(), ADAM, Loss::CrossEntropy, shape);
        let mut trainer = CpuTrainer::new(job.clone(), job.initial_state(5));
        let (batch, _) = positions(&architecture, 300, &mut random);
        for _ in 0..5 {
            trainer.train_step(&batch, 1e-2).unwrap();
        }
        let mut network = job.network(&trainer.state.parameters, "");
        // The trainer rounds on the fly what the network stores unrounded.
        let grids: Vec<f32> = job.layout.tensors().iter().map(|tensor| tensor.quant_scale).collect();
        for (parameters, grid) in network.parameters_mut().into_iter().zip(grids) {
            parameters.iter_mut().for_each(|number| *number = round_to(*number, grid));
        }
        let outputs = trainer.predict(&batch, false).unwrap();
        for (position, output) in batch.positions.iter().zip(outputs) {
            let board = position.board().unwrap();
            let expected = network.evaluate(&board) / f64::from(network.scale) * 1.5;
            assert!((expected - f64::from(output)).abs() < 1e-4, "{architecture}: {expected} {output}");
        }
    }
}

#[test]
fn a_small_network_memorises_256_positions() {
    let mut random = SplitMix::new(31);
    for architecture in reference::tests::architectures() {
        let network = reference::tests::random_network(architecture.clone(), &mut random);
        let (batch, _) = positions(&architecture, 256, &mut random);
        let job = job(architecture.clone(), ADAM, Loss::Power { power: 2.0 }, LayoutOptions::default());
        let mut trainer = trainer(&job, &network);
        let before = loss_of(&mut trainer, &batch);
        for _ in 0..300 {
            trainer.train_step(&batch, 5e-3).unwrap();
        }
        let after = loss_of(&mut trainer, &batch);
        assert!(after < before / 20.0, "{architecture}: {before} {after}");
    }
}

/// Inputs without any meaning, with one side.
#[derive(Clone, Debug, PartialEq)]
struct Switches;

impl Inputs for Switches {
    const SIDES: usize = 1;

    fn name(&self) -> &str {
        "switches"
    }

    fn num_inputs(&self) -> usize {
        90
    }

    fn max_active(&self) -> usize {
        40
    }
}

/// One side and no chess: the trainer computes what the network does, and its gradients match finite
/// differences.
#[test]
fn networks_that_are_not_chess_are_trained_too() {
    let mut random = SplitMix::new(51);
    for chess in reference::tests::architectures() {
        let Architecture { outputs, head, .. } = chess;
        let architecture = Architecture { features: Switches, outputs, tied: true, psqt: false, head };
        let layout = Layout::new(architecture.clone(), Quantisation::default(), LayoutOptions::default());
        let mut features = ActiveFeatures::of(&layout);
        let mut sets = Vec::new();
        for _ in 0..300 {
            let on: Vec<u32> = (0..90).filter(|_| random.below(3) == 0).take(40).collect();
            let bucket = random.below(architecture.buckets().count as u32) as u8;
            let target_score = on.iter().map(|&row| (f64::from(row) * 0.7).sin()).sum::<f64>() / 4.0;
            features.push(&[&on], bucket, Target { score: target_score as f32, win_probability: 0.5 });
            sets.push((on, bucket));
        }
        let job = Job {
            layout,
            optimiser: SGD,
            loss: Loss::Score,
            output_scale: 1.5,
            max_grad_norm: 0.0,
            averaging: Averaging::None,
            quantisation: Quantisation::default(),
            scale: 600,
            pawn: 100,
        };
        let start = job.initial_state(9);
        let mut trainer = CpuTrainer::new(job.clone(), start.clone());
        let mean_loss = |trainer: &mut CpuTrainer<Switches>| {
            let outputs = trainer.predict_features(&features);
            let losses = outputs.iter().zip(&features.targets);
            losses
                .map(|(&output, &target)| Loss::Score.value_and_grad(f64::from(output), target).0)
                .sum::<f64>()
                / features.len() as f64
        };
        let before = mean_loss(&mut trainer);
        let network = job.network(&start.parameters, "");
        for ((on, bucket), output) in sets.iter().zip(trainer.predict_features(&features)) {
            let on: Vec<usize> = on.iter().map(|&row| row as usize).collect();
            let expected = network.forward(&[&on], usize::from(*bucket)) / 600.0 * 1.5;
            assert!((expected - f64::from(output)).abs() < 1e-4, "{architecture}: {expected} {output}");
        }
        // A small step of plain SGD lowers the loss by the squared gradient norm times the learning rate.
        let lr = 1e-4;
        trainer.train_step_features(&features, lr);
        let grad = trainer.drain_metrics()[0].grad_norm;
        let (fell, expected) = (before - mean_loss(&mut trainer), lr * grad * grad);
        assert!((fell / expected - 1.0).abs() < 0.05, "{architecture}: {fell} {expected}");

        let mut trainer =
            CpuTrainer::new(Job { optimiser: ADAM, ..job }, State::new(start.parameters, ADAM, false));
        for _ in 0..300 {
            trainer.train_step_features(&features, 5e-3);
        }
        let after = mean_loss(&mut trainer);
        assert!(after < before / 10.0, "{architecture}: {before} {after}");
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let mut random = SplitMix::new(41);
    let architecture = reference::tests::architectures().remove(4);
    let network = reference::tests::random_network(architecture.clone(), &mut random);
    let (batch, _) = positions(&architecture, 2000, &mut random);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let ranger = Optimiser::Ranger {
            beta1: 0.9,
            beta2: 0.999,
            weight_decay: 0.01,
            epsilon: 1e-8,
            lookahead_steps: 3,
            lookahead_alpha: 0.5,
        };
        let mut job = job(architecture.clone(), ranger, Loss::CrossEntropy, LayoutOptions::default());
        job.averaging = Averaging::Ema { decay: 0.9, every: 2 };
        let mut trainer = trainer(&job, &network);
        pool.install(|| {
            for _ in 0..8 {
                trainer.train_step(&batch, 1e-2).unwrap();
            }
        });
        trainer.state().unwrap()
    };
    let alone = run(1);
    assert_ne!(alone.ema, alone.parameters);
    assert_eq!(alone, run(3));
}
