use super::*;
use crate::layout::{Layout, Shape};
use crate::loss::{Loss, Target};
use crate::optimiser::Optimiser;
use crate::recipe::Averaging;
use crate::reference::{self, Sample};
use tandem_chess::random::SplitMix;
use tandem_data::Packed;
use tandem_nnue::{Architecture, FeatureSet, FloatNetwork, Quantisation};

pub(crate) fn job(architecture: Architecture, optimiser: Optimiser, loss: Loss, shape: Shape) -> Job {
    let quantisation = Quantisation::default();
    Job {
        layout: Layout::new(architecture, quantisation, shape),
        optimiser,
        loss,
        unit: 1.5,
        clip_slopes: 0.0,
        averaging: Averaging::None,
        quantisation,
        scale: 600,
        pawn: 100,
    }
}

fn trainer(job: &Job, network: &FloatNetwork) -> CpuTrainer {
    let numbers = job.layout.numbers_of(network);
    CpuTrainer::new(job.clone(), State::new(numbers, job.optimiser, job.is_averaged()))
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
    let outputs = trainer.outputs(batch, false).unwrap();
    let losses = outputs.iter().zip(&batch.targets);
    losses.map(|(&output, &target)| trainer.job.loss.of(f64::from(output), target).0).sum::<f64>()
        / batch.len() as f64
}

fn near(name: &str, before: &[f32], after: &[f32], rate: f64, slopes: &[f64]) {
    let size = slopes.iter().map(|slope| slope.abs()).fold(1e-9, f64::max);
    for ((before, after), slope) in before.iter().zip(after).zip(slopes) {
        let moved = (f64::from(*before) - f64::from(*after)) / rate;
        assert!((moved - slope).abs() < 2e-3 * size + 1e-5, "{name}: {moved} {slope}");
    }
}

const SGD: Optimiser = Optimiser::Sgd { momentum: 0.0 };
const ADAM: Optimiser = Optimiser::Adam { beta1: 0.9, beta2: 0.999, decay: 0.0, epsilon: 1e-8 };

/// One plain step moves every number by the reference's slope, with each set of instructions.
#[test]
fn slopes_are_those_of_the_reference() {
    let mut random = SplitMix::new(21);
    for (number, mut architecture) in reference::tests::architectures().into_iter().enumerate() {
        if number % 2 == 1 {
            architecture.features = FeatureSet::half_ka_v2_hm();
        }
        let network = reference::tests::random_network(architecture.clone(), &mut random);
        let (batch, samples) = positions(&architecture, 700, &mut random);
        let loss = Loss::Power { power: 2.5 };
        let expected = reference::slopes(&network, &samples, loss, 1.5);
        let rate = 16.0;
        let mut first: Option<Vec<f32>> = None;
        for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
            let mut trainer = trainer(&job(architecture.clone(), SGD, loss, Shape::default()), &network);
            trainer.isa = if isa.is_available() { isa } else { Isa::Portable };
            assert!(
                (loss_of(&mut trainer, &batch) - expected.loss).abs() < 1e-5 * expected.loss,
                "{architecture}"
            );
            trainer.learn(&batch, rate).unwrap();
            let told = trainer.told().unwrap()[0];
            assert!((f64::from(told.loss) - expected.loss).abs() < 1e-5 * expected.loss, "{architecture}");
            assert!((f64::from(told.slope) - length(&expected)).abs() < 1e-3 * length(&expected));
            let state = trainer.state().unwrap();
            assert_eq!(first.get_or_insert_with(|| state.numbers.clone()), &state.numbers, "{isa:?}");
            let after = trainer.job.network(&state.numbers, "");
            near("weights", &network.weights, &after.weights, rate, &expected.weights);
            near("bias", &network.bias, &after.bias, rate, &expected.bias);
            near("psqt", &network.psqt, &after.psqt, rate, &expected.psqt);
            let stacks = network.stacks.iter().zip(&after.stacks).zip(&expected.stacks);
            for ((before, after), slopes) in stacks {
                for ((before, after), (weights, bias)) in before.iter().zip(after).zip(slopes) {
                    near("layer weights", &before.weights, &after.weights, rate, weights);
                    near("layer bias", &before.bias, &after.bias, rate, bias);
                }
            }
        }
    }
}

fn length(slopes: &reference::Slopes) -> f64 {
    let stacks = slopes.stacks.iter().flatten().flat_map(|(weights, bias)| weights.iter().chain(bias));
    let all = slopes.weights.iter().chain(&slopes.bias).chain(&slopes.psqt).chain(stacks);
    all.map(|slope| slope * slope).sum::<f64>().sqrt()
}

#[test]
fn slopes_are_held_to_a_length() {
    let mut random = SplitMix::new(22);
    for architecture in reference::tests::architectures() {
        let network = reference::tests::random_network(architecture.clone(), &mut random);
        let (batch, _) = positions(&architecture, 100, &mut random);
        let mut job = job(architecture, SGD, Loss::Score, Shape::default());
        job.clip_slopes = 0.01;
        let mut trainer = trainer(&job, &network);
        let before = trainer.state.numbers.clone();
        trainer.learn(&batch, 1.0).unwrap();
        let moved =
            before.iter().zip(&trainer.state.numbers).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
        assert!((moved.sqrt() - 0.01).abs() < 1e-4, "{}", moved.sqrt());
        assert!(trainer.told().unwrap()[0].slope > 0.01);
    }
}

/// Rows that all kings share, and rounding: what is computed is what the finished network says.
#[test]
fn what_is_trained_is_what_the_network_says() {
    let mut random = SplitMix::new(23);
    for mut architecture in reference::tests::architectures() {
        architecture.features = FeatureSet::half_ka_v2_hm();
        let shape = Shape { factoriser: true, clipped: true, rounded: true };
        let job = job(architecture.clone(), ADAM, Loss::CrossEntropy, shape);
        let mut trainer = CpuTrainer::new(job.clone(), job.start(5));
        let (batch, _) = positions(&architecture, 300, &mut random);
        for _ in 0..5 {
            trainer.learn(&batch, 1e-2).unwrap();
        }
        let mut network = job.network(&trainer.state.numbers, "");
        // The trainer rounds on the fly what the network keeps as it was.
        let grids: Vec<f32> = job.layout.tensors().iter().map(|tensor| tensor.grid).collect();
        for (numbers, grid) in network.numbers_mut().into_iter().zip(grids) {
            numbers.iter_mut().for_each(|number| *number = round_to(*number, grid));
        }
        let outputs = trainer.outputs(&batch, false).unwrap();
        for (position, output) in batch.positions.iter().zip(outputs) {
            let board = position.board().unwrap();
            let said = network.evaluate(&board) / f64::from(network.scale) * 1.5;
            assert!((said - f64::from(output)).abs() < 1e-4, "{architecture}: {said} {output}");
        }
    }
}

#[test]
fn a_small_network_learns_256_positions_by_heart() {
    let mut random = SplitMix::new(31);
    for architecture in reference::tests::architectures() {
        let network = reference::tests::random_network(architecture.clone(), &mut random);
        let (batch, _) = positions(&architecture, 256, &mut random);
        let job = job(architecture.clone(), ADAM, Loss::Power { power: 2.0 }, Shape::default());
        let mut trainer = trainer(&job, &network);
        let before = loss_of(&mut trainer, &batch);
        for _ in 0..300 {
            trainer.learn(&batch, 5e-3).unwrap();
        }
        let after = loss_of(&mut trainer, &batch);
        assert!(after < before / 20.0, "{architecture}: {before} {after}");
    }
}

/// Things that are on or off and mean nothing.
#[derive(Clone, Debug, PartialEq)]
struct Switches;

impl Inputs for Switches {
    const SIDES: usize = 1;

    fn name(&self) -> &str {
        "switches"
    }

    fn inputs(&self) -> usize {
        90
    }

    fn max_active(&self) -> usize {
        40
    }
}

/// One side and no chess: what is trained is what the networks say, and slopes are those of finite differences.
#[test]
fn what_is_no_chess_is_learnt_too() {
    let mut random = SplitMix::new(51);
    for chess in reference::tests::architectures() {
        let Architecture { outputs, head, .. } = chess;
        let architecture = Architecture { features: Switches, outputs, tied: true, psqt: false, head };
        let layout = Layout::new(architecture.clone(), Quantisation::default(), Shape::default());
        let mut rows = Rows::of(&layout);
        let mut sets = Vec::new();
        for _ in 0..300 {
            let on: Vec<u32> = (0..90).filter(|_| random.below(3) == 0).take(40).collect();
            let bucket = random.below(architecture.buckets().count as u32) as u8;
            let wanted = on.iter().map(|&row| (f64::from(row) * 0.7).sin()).sum::<f64>() / 4.0;
            rows.push(&[&on], bucket, Target { score: wanted as f32, chance: 0.5 });
            sets.push((on, bucket));
        }
        let job = Job {
            layout,
            optimiser: SGD,
            loss: Loss::Score,
            unit: 1.5,
            clip_slopes: 0.0,
            averaging: Averaging::None,
            quantisation: Quantisation::default(),
            scale: 600,
            pawn: 100,
        };
        let start = job.start(9);
        let mut trainer = CpuTrainer::new(job.clone(), start.clone());
        let mean_loss = |trainer: &mut CpuTrainer<Switches>| {
            let outputs = trainer.outputs_of_rows(&rows);
            let losses = outputs.iter().zip(&rows.targets);
            losses.map(|(&output, &target)| Loss::Score.of(f64::from(output), target).0).sum::<f64>()
                / rows.len() as f64
        };
        let before = mean_loss(&mut trainer);
        let network = job.network(&start.numbers, "");
        for ((on, bucket), output) in sets.iter().zip(trainer.outputs_of_rows(&rows)) {
            let on: Vec<usize> = on.iter().map(|&row| row as usize).collect();
            let said = network.judge(&[&on], usize::from(*bucket)) / 600.0 * 1.5;
            assert!((said - f64::from(output)).abs() < 1e-4, "{architecture}: {said} {output}");
        }
        // A small plain step lowers the loss by the square of the slopes' length.
        let rate = 1e-4;
        trainer.learn_rows(&rows, rate);
        let slope = f64::from(trainer.said()[0].slope);
        let (fell, expected) = (before - mean_loss(&mut trainer), rate * slope * slope);
        assert!((fell / expected - 1.0).abs() < 0.05, "{architecture}: {fell} {expected}");

        let mut trainer =
            CpuTrainer::new(Job { optimiser: ADAM, ..job }, State::new(start.numbers, ADAM, false));
        for _ in 0..300 {
            trainer.learn_rows(&rows, 5e-3);
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
        let ranger =
            Optimiser::Ranger { beta1: 0.9, beta2: 0.999, decay: 0.01, epsilon: 1e-8, every: 3, pull: 0.5 };
        let mut job = job(architecture.clone(), ranger, Loss::CrossEntropy, Shape::default());
        job.averaging = Averaging::Moving { share: 0.9, every: 2 };
        let mut trainer = trainer(&job, &network);
        pool.install(|| {
            for _ in 0..8 {
                trainer.learn(&batch, 1e-2).unwrap();
            }
        });
        trainer.state().unwrap()
    };
    let alone = run(1);
    assert_ne!(alone.average, alone.numbers);
    assert_eq!(alone, run(3));
}
