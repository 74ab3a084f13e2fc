//! Speed of NNUE training on the CPU: `cargo bench -p tandem-train`.
//!
//! Steps are timed on random positions that are made beforehand. `tandem-lab train-speed` times GPUs,
//! transformers and the loading of your own data too.

use divan::Bencher;
use divan::counter::ItemsCount;
use std::hint::black_box;
use tandem_train::{CpuTrainer, Job, Optimiser, Recipe, Trainer, speed};

fn main() {
    divan::main();
}

const BATCH: usize = 4096;
const PIECES: usize = 16;

/// Networks by a name and the lines of their table `[network]`.
const NETWORKS: [(&str, &str); 3] = [
    ("768 -> 256x2", "features = \"768\"\naccumulator = 256\n"),
    ("halfkp -> 256x2", "features = \"halfkp\"\naccumulator = 256\n"),
    (
        "halfkp -> 256x2, 8 stacks",
        "features = \"halfkp\"\naccumulator = 256\nbuckets = 8\nstacks = { hidden = 16, second = 32 }\n",
    ),
];

fn job(network: &str) -> Job {
    let text = format!("name = \"bench\"\n[data]\ntrain = [{{ path = \"none\" }}]\n[network]\n{network}");
    let recipe = Recipe::parse(&text).expect("a valid recipe");
    Job::of(&recipe).expect("a possible network")
}

/// A whole step: forward pass, backward pass and optimiser.
#[divan::bench(args = NETWORKS.map(|(name, _)| name), sample_count = 10, sample_size = 1)]
fn step(bencher: Bencher<'_, '_>, name: &str) {
    let network = NETWORKS.iter().find(|(other, _)| *other == name).map_or("", |(_, network)| network);
    let job = job(network);
    let batch = speed::random_batch(BATCH, PIECES, 1);
    let mut trainer = CpuTrainer::new(job.clone(), job.initial_state(1));
    bencher
        .counter(ItemsCount::new(BATCH))
        .bench_local(|| trainer.train_step(&batch, black_box(1e-3)).expect("the CPU has memory"));
}

/// Predictions alone, as in a validation.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn predict(bencher: Bencher<'_, '_>) {
    let job = job(NETWORKS[0].1);
    let batch = speed::random_batch(BATCH, PIECES, 1);
    let mut trainer = CpuTrainer::new(job.clone(), job.initial_state(1));
    bencher
        .counter(ItemsCount::new(BATCH))
        .bench_local(|| trainer.predict(black_box(&batch), true).expect("the CPU has memory"));
}

/// The update of a million parameters by each optimiser.
#[divan::bench(args = Optimiser::KINDS)]
fn update(bencher: Bencher<'_, '_>, kind: &str) {
    const PARAMETERS: usize = 1 << 20;
    let text = format!(
        "name = \"bench\"\n[data]\ntrain = [{{ path = \"none\" }}]\n[network]\n{}[optimiser]\nkind = \"{kind}\"\n",
        NETWORKS[0].1
    );
    let optimiser = Recipe::parse(&text).expect("a valid recipe").optimiser;
    let mut state = tandem_train::State::new(vec![0.5; PARAMETERS], optimiser, false);
    let gradients = vec![0.01; PARAMETERS];
    let update = optimiser.update(5, 1e-3);
    bencher.counter(ItemsCount::new(PARAMETERS)).bench_local(|| {
        let tandem_train::State { parameters, exp_avg, exp_avg_sq, slow_weights, .. } = &mut state;
        let range = tandem_train::ClampRange::symmetric(2.0);
        update.apply(parameters, black_box(&gradients), exp_avg, exp_avg_sq, slow_weights, range);
    });
}
