//! Whole training runs of small networks.

mod bridge;
mod every_key;

use crate::errors::error_summary;
use crate::shim::{Group, Rendezvous};
use crate::{Compute, Processes, TorchPredictor, TorchTrainer};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tandem_chess::Position;
use tandem_data::{Options, Outcome, Packed, Record, RecordWriter, Score, Source};
use tandem_train::transformer::*;
use tandem_train::{
    Event, Loader, RunOptions, RunOutcome, State, StepMetrics, TrainError, Trainer, TrainingPrecision,
};
use tandem_transformer::{Isa, Network, Precision, Scratch, Weights};
use tandem_util::random::SplitMix;

/// Held by each test with dropout, because libtorch draws dropout from one random generator per process: tests
/// that run side by side would draw from each other's sequence.
fn lock_generator() -> MutexGuard<'static, ()> {
    static GENERATOR: Mutex<()> = Mutex::new(());
    GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary folder with games, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, games: usize) -> Self {
        let path = std::env::temp_dir().join(format!("tandem-torch-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        let games_file = path.join("games.csv");
        let source = Source::parse(games_file.to_str().unwrap(), &Options::default()).unwrap().remove(0);
        let mut writer = RecordWriter::create(source).unwrap();
        let mut random = SplitMix::new(11);
        for _ in 0..games {
            let mut position = Position::startpos();
            for ply in 0..40 {
                let moves = position.legal_moves();
                if moves.is_empty() {
                    break;
                }
                let mv = moves[random.below(moves.len() as u32) as usize];
                let packed = Packed::new(position.board()).unwrap();
                writer
                    .write(&Record {
                        position: packed,
                        mv: Some(mv),
                        score: Some(Score::Centipawns(random.below(800) as i16 - 400)),
                        result: Some([Outcome::Win, Outcome::Draw, Outcome::Loss][random.below(3) as usize]),
                        ply: packed.ply(),
                        starts_game: ply == 0,
                    })
                    .unwrap();
                position.play(mv);
            }
        }
        writer.finish().unwrap();
        Self(path)
    }

    /// A recipe that trains a network on these games: `tables` are the TOML tables of the recipe, `network`
    /// is the text of the architecture.
    fn recipe(&self, tables: &str, network: &str) -> TransformerRecipe {
        let description = self.0.join("network.toml");
        std::fs::write(&description, network).unwrap();
        let text = format!(
            "name = \"x\"\n{tables}\n[network]\narchitecture = {:?}\n[data]\nshuffle_buffer = 500\nbroken = \"skip\"\n\
             train = [{{ path = {:?} }}]\nvalidation = [{{ path = {:?} }}]\n",
            description.to_str().unwrap(),
            self.0.join("games.csv").to_str().unwrap(),
            self.0.join("games.csv").to_str().unwrap(),
        );
        TransformerRecipe::parse(&text).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const BOARD: &str = include_str!("../../transformer/tests/architectures/board.toml");
const MOVES: &str = include_str!("../../transformer/tests/architectures/moves.toml");
const SQUARES: &str = include_str!("../../transformer/tests/architectures/squares.toml");
const TEXT: &str = include_str!("../../transformer/tests/architectures/text.toml");

fn single_process(
    recipe: &TransformerRecipe,
    start: InitialNetworks<'_>,
    state: Option<&State>,
) -> Result<Box<dyn TransformerTrainer>, TrainError> {
    let trainer = TorchTrainer::new(recipe, start, state, Compute::cpu(), Processes::single())?;
    Ok(Box::new(trainer))
}

/// Runs a training and returns its outcome with the loss of every logged step; it stops when `watch` returns
/// true.
fn run(
    recipe: &TransformerRecipe,
    folder: &Path,
    resume: bool,
    mut watch: impl FnMut(u64) -> bool,
) -> (RunOutcome<TrainedTransformer>, Vec<(u64, f64)>) {
    let stop = AtomicBool::new(false);
    let options = RunOptions { folder, resume, threads: 1, stop: &stop };
    let mut losses = Vec::new();
    let outcome = run_transformer(recipe, ProcessRank::SINGLE, &options, &single_process, &mut |event| {
        if let Event::Steps { step, metrics, .. } = event {
            losses.push((step, metrics.loss));
            stop.store(watch(step), Ordering::Relaxed);
        }
    });
    (outcome.unwrap(), losses)
}

fn samples(recipe: &TransformerRecipe) -> Samples {
    let shape = SampleShape::of(&recipe.network.architecture().unwrap());
    Loader::of_samples(recipe, shape, ProcessRank::SINGLE, 1, 0, None).next_batch().unwrap().batch
}

/// The losses of a step against those that the metrics compute on the CPU without tensors.
#[test]
fn losses_match_the_metrics() {
    let folder = Folder::new("losses", 6);
    // Values of moves without a policy head.
    let without_policy = SQUARES.replace("policy = { kind = \"attention\", width = 8 }\n", "");
    for (network, buckets) in [
        (without_policy.as_str(), "{ kind = \"cross-entropy\" }"),
        (BOARD, "{ kind = \"hl-gauss\", sigma = 0.75 }"),
        (MOVES, "{ kind = \"hl-gauss\", sigma = 1.5 }"),
        (SQUARES, "{ kind = \"cross-entropy\" }"),
        (TEXT, "{ kind = \"cross-entropy\" }"),
    ] {
        let tables = format!(
            "[targets]\nlabel_smoothing = 0.1\nwdl = 0.5\nbuckets = {buckets}\n[training]\nbatch = 64\n\
             positions = 640\nema_decay = 0.0"
        );
        let recipe = folder.recipe(&tables, network);
        let architecture = recipe.network.architecture().unwrap();
        let mut trainer =
            single_process(&recipe, (&Weights::random(architecture.clone(), 4)).into(), None).unwrap();
        let samples = samples(&recipe);
        let outputs = trainer.predict(&samples, true).unwrap();
        trainer.train_step(&samples, 0.0).unwrap();
        let step = trainer.take_metrics().unwrap().remove(0);
        let shape = SampleShape::of(&architecture);
        let mut metrics = Metrics::default();
        metrics.add_samples(&samples, &shape, &recipe.targets, &head_outputs(&outputs));
        let mut by_head: Vec<(Head, f64)> = Vec::new();
        for (name, actual) in &step.components {
            let head = match name.as_str() {
                "action_value" => Head::ActionValue,
                "state_value" => Head::StateValue,
                "policy" => Head::Policy,
                "soft_policy" => Head::SoftPolicy,
                "opponent_policy" => Head::OpponentPolicy,
                "value.wdl" => Head::Value,
                "search_value.wdl" => Head::SearchValue,
                "short_term.wdl" => Head::ShortTerm,
                "moves_left" => Head::MovesLeft,
                "move_value" => Head::MoveValue,
                "optimistic_policy" => Head::OptimisticPolicy,
                "value.error" | "search_value.error" | "short_term.error" => Head::Error,
                "value.buckets" | "search_value.buckets" | "short_term.buckets" => Head::ValueBuckets,
                name => {
                    assert!(name.starts_with("experts."), "{name} is not measured");
                    continue;
                }
            };
            // The metrics add up the values of all kinds.
            match by_head.iter_mut().find(|(known, _)| *known == head) {
                Some((_, sum)) => *sum += actual,
                None => by_head.push((head, *actual)),
            }
        }
        assert_eq!(by_head.iter().any(|(head, _)| *head == Head::MoveValue), network.contains("move_value"));
        for (head, actual) in by_head {
            let metric = Metric::Loss(head);
            let mean = metrics.overall().get(metric).unwrap_or(0.0);
            // A step divides by all positions, the metrics by those with a known target.
            let expected = mean * metrics.overall().count(metric) as f64 / samples.len() as f64;
            assert!(
                (actual - expected).abs() < 1e-4 * (1.0 + expected),
                "{head:?}: {actual}, not {expected}"
            );
        }
    }
}

/// Predictions from several threads against our own inference on the same samples.
#[test]
fn predictions_match_our_own_inference() {
    let folder = Folder::new("predict", 4);
    for network in [BOARD, MOVES, SQUARES, TEXT] {
        let recipe = folder.recipe("[training]\nbatch = 40\npositions = 400", network);
        let weights = Weights::random(recipe.network.architecture().unwrap(), 4);
        let reference = Network::new(&weights, Precision::F32, Isa::best());
        let predictor = TorchPredictor::new(&weights, TrainingPrecision::F32, Compute::cpu()).unwrap();
        let samples = samples(&recipe);
        let expected = predict_samples(&reference, &samples, &mut Scratch::default()).unwrap();
        let actual = std::thread::scope(|scope| {
            let worker = scope.spawn(|| predictor.predict(samples.clone(), &[]).unwrap());
            worker.join().unwrap()
        });
        assert!(actual.keys().eq(expected.keys()));
        for (name, values) in &expected {
            for (actual, expected) in actual[name].iter().zip(values) {
                let bound = 1e-4 * (1.0 + expected.abs());
                assert!((actual - expected).abs() < bound, "{name}: {actual}, not {expected}");
            }
            let one = predictor.predict(samples.clone(), &[name.as_str()]).unwrap();
            assert!(one.len() == 1 && one[name].len() == values.len());
        }
        assert!(predictor.predict(Samples::default(), &[]).unwrap().is_empty());
    }
}

#[test]
fn a_small_network_overfits_a_few_positions() {
    let folder = Folder::new("heart", 3);
    let recipe = folder.recipe(
        "lr = 0.004\n[training]\nbatch = 64\npositions = 19200\nvalidate_every = 19200\nema_decay = 0.0\n\
         [optimiser]\nkind = \"adamw\"\nweight_decay = 0.0",
        SQUARES,
    );
    let weights = Weights::random(recipe.network.architecture().unwrap(), 2);
    let mut trainer = single_process(&recipe, (&weights).into(), None).unwrap();
    let samples = samples(&recipe);
    for _ in 0..300 {
        trainer.train_step(&samples, 0.004).unwrap();
    }
    let metrics = trainer.take_metrics().unwrap();
    let policy =
        |metrics: &StepMetrics| metrics.components.iter().find(|(name, _)| name == "policy").unwrap().1;
    assert!(
        policy(&metrics[0]) > 2.0 && policy(&metrics[299]) < 0.5,
        "{} to {}",
        policy(&metrics[0]),
        policy(&metrics[299])
    );
}

#[test]
fn a_resumed_run_ends_like_an_uninterrupted_one() {
    let folder = Folder::new("resume", 6);
    for (optimiser, network) in [("adamw", SQUARES), ("nadam", TEXT), ("adadelta", BOARD)] {
        let recipe = folder.recipe(
            &format!(
                "lr = {{ kind = \"warm-up\", steps = 10, then = {{ kind = \"cosine\", start = 0.01, end = 0.0 }} }}\n\
                 [training]\nbatch = 20\npositions = 2400\nvalidate_every = 700\nvalidation_positions = 50\ngradient_accumulation_steps = 2\n\
                 swa = {{ from = 0.8, every = 5 }}\n[optimiser]\nkind = \"{optimiser}\""
            ),
            network,
        );
        let (uninterrupted, losses) =
            run(&recipe, &folder.0.join(format!("whole-{optimiser}")), false, |_| false);
        assert!(uninterrupted.finished && uninterrupted.steps == 120);
        let parts = folder.0.join(format!("parts-{optimiser}"));
        let (first, early) = run(&recipe, &parts, false, |step| step >= 60);
        assert!(!first.finished && first.steps < 120);
        let (second, late) = run(&recipe, &parts, true, |_| false);
        assert!(second.finished);
        // The run stops within the steps of one entry, whose mean is then that of its parts.
        let same = early.into_iter().chain(late).filter(|loss| losses.contains(loss)).count();
        assert_eq!(same, losses.len() - 1);
        assert_eq!(second.network.weights, uninterrupted.network.weights, "{optimiser}");
    }
}

/// Two processes with half a batch each make the same steps as one with the whole batch.
#[test]
fn two_processes_make_the_steps_of_one() {
    let folder = Folder::new("two", 6);
    let recipe = folder.recipe("[training]\nbatch = 32\npositions = 640\nema_decay = 0.0", SQUARES);
    let architecture = recipe.network.architecture().unwrap();
    let weights = Weights::random(architecture.clone(), 8);
    let shape = SampleShape::of(&architecture);
    let steps = |process_rank: ProcessRank, processes: Processes| {
        let mut trainer = TorchTrainer::new(&recipe, &weights, None, Compute::cpu(), processes).unwrap();
        let mut loader = Loader::of_samples(&recipe, shape, process_rank, 1, 0, None);
        trainer.train_step(&loader.next_batch().unwrap().batch, 1e-3).unwrap();
        // After the first step `exp_avg` is a tenth of the gradients.
        let grads = trainer.state().unwrap().exp_avg;
        for _ in 0..4 {
            trainer.train_step(&loader.next_batch().unwrap().batch, 1e-3).unwrap();
        }
        let metrics = trainer.take_metrics().unwrap();
        (grads, trainer.state().unwrap().parameters, metrics)
    };
    let (grads, _, expected_metrics) = steps(ProcessRank::SINGLE, Processes::single());
    let port = 29_000 + (std::process::id() % 1000) as u16;
    let actual = std::thread::scope(|scope| {
        let ranks = [0, 1].map(|rank| {
            let steps = &steps;
            scope.spawn(move || {
                let rendezvous = Rendezvous {
                    rank,
                    world_size: 2,
                    address: "127.0.0.1".into(),
                    port,
                    is_store_host: rank == 0,
                    gpu: None,
                    timeout: Duration::from_secs(60),
                };
                let processes = Processes::from_group(&rendezvous, Group::join(&rendezvous).unwrap());
                steps(ProcessRank { rank, world_size: 2 }, processes)
            })
        });
        ranks.map(|rank| rank.join().unwrap())
    });
    assert_eq!(actual[0].1, actual[1].1, "both have the same parameters");
    for (actual, expected) in actual[0].0.iter().zip(&grads) {
        assert!((actual - expected).abs() < 1e-7 + 1e-4 * expected.abs(), "{actual}, not {expected}");
    }
    for (actual, expected) in actual[0].2.iter().zip(&expected_metrics) {
        assert!((actual.loss - expected.loss).abs() < 1e-3, "{} and {}", actual.loss, expected.loss);
    }
}

/// Gradient accumulation gives the gradients of the whole batch, in every precision.
#[test]
fn micro_batches_add_up_to_the_batch() {
    let folder = Folder::new("parts", 6);
    // libtorch's layer norm sums its gradients in bf16 within a micro-batch, which RMS norm does not.
    let network = BOARD.replace("kind = \"layer\"", "kind = \"rms\"");
    for (precision, tolerance) in [("f32", 1e-5), ("bf16", 0.005)] {
        let grads = [1, 64].map(|parts| {
            let tables = format!(
                "[training]\nbatch = 64\npositions = 640\nema_decay = 0.0\ngradient_accumulation_steps = {parts}\nprecision = \"{precision}\""
            );
            let recipe = folder.recipe(&tables, &network);
            let weights = Weights::random(recipe.network.architecture().unwrap(), 4);
            let mut trainer = single_process(&recipe, (&weights).into(), None).unwrap();
            trainer.train_step(&samples(&recipe), 1e-3).unwrap();
            // After the first step `exp_avg` is a tenth of the gradients.
            trainer.state().unwrap().exp_avg
        });
        let norm_of =
            |values: &mut dyn Iterator<Item = f32>| values.map(|x| f64::from(x * x)).sum::<f64>().sqrt();
        let norm = norm_of(&mut grads[0].iter().copied());
        let difference = norm_of(&mut grads[0].iter().zip(&grads[1]).map(|(one, other)| one - other));
        assert!(norm > 0.0 && difference < tolerance * norm, "{precision}: {difference} of {norm}");
    }
}

#[test]
fn frozen_tensors_stay_and_two_of_four_weights_are_zero() {
    let folder = Folder::new("frozen", 3);
    let recipe = folder.recipe(
        "[training]\nbatch = 16\npositions = 160\nema_decay = 0.0\nfreeze = [\"layers.0.*\"]\nsparsity = \"2:4\"",
        SQUARES,
    );
    let start = Weights::random(recipe.network.architecture().unwrap(), 6);
    let mut trainer = single_process(&recipe, (&start).into(), None).unwrap();
    let samples = samples(&recipe);
    for _ in 0..10 {
        trainer.train_step(&samples, 1e-2).unwrap();
    }
    let trained = trainer.weights().unwrap();
    let is_unchanged = |name: &str| {
        let pairs = start.get(name).unwrap().iter().zip(trained.get(name).unwrap());
        pairs.clone().filter(|(before, after)| before == after || **after == 0.0).count() == pairs.count()
    };
    assert!(is_unchanged("layers.0.attention.query.weight") && is_unchanged("layers.0.attention_norm.scale"));
    assert!(!is_unchanged("layers.1.attention.query.weight"));
    let (fours, _) = trained.get("layers.1.attention.query.weight").unwrap().as_chunks::<4>();
    assert!(fours.iter().all(|four| four.iter().filter(|weight| **weight == 0.0).count() == 2));
}

#[test]
fn missing_devices_are_reported() {
    for (name, word) in [("gpu", "not one of"), ("cuda:77", "cuda"), ("mps", "Apple")] {
        let message = Compute::from_name(name).unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn out_of_memory_errors_say_how_many_positions_fit() {
    let folder = Folder::new("memory", 3);
    let recipe = folder.recipe(
        "[training]\nbatch = 48\npositions = 480\nvalidate_every = 480\ngradient_accumulation_steps = 2",
        SQUARES,
    );
    let weights = Weights::random(recipe.network.architecture().unwrap(), 2);
    let mut trainer =
        TorchTrainer::new(&recipe, &weights, None, Compute::cpu(), Processes::single()).unwrap();
    let samples = samples(&recipe);
    let message =
        trainer.with_memory_advice(TrainError("cuda:0: CUDA out of memory. Tried to".into()), &samples).0;
    assert!(
        message
            .contains("24 positions at a time do not fit, 12 do: `training.gradient_accumulation_steps = 4`"),
        "{message}"
    );
    let message = trainer.with_memory_advice(TrainError("something else".into()), &samples).0;
    assert_eq!(message, "something else");
}

#[test]
fn a_panic_is_reduced_to_its_message() {
    let panic = "called `Result::unwrap()` on an `Err` value: Torch(\"CUDA out of memory. Tried to allocate 301.36 GiB. \
                 GPU 0 has a total capacity of 139.80 GiB of which 39.29 GiB is free. Of it\\nException raised from malloc\")";
    let message = "CUDA out of memory. Tried to allocate 301.36 GiB. GPU 0 has a total capacity of 139.80 GiB of which 39.29 GiB \
                 is free";
    assert_eq!(error_summary(panic), message);
    assert_eq!(error_summary("sizes differ\nframe #0"), "sizes differ");
    assert_eq!(error_summary("an `Err` value: Torch(\"sizes differ\")"), "sizes differ");
    assert_eq!(error_summary(""), "");
}

/// An architecture of squares whose shapes our kernels support.
fn supported_network(norm: &str, attention: &str) -> String {
    format!(
        "input = \"squares\"\n[embedding]\nkind = \"positions\"\n[body]\nwidth = 64\nlayers = 3\nheads = 2\n\
         activation = \"mish\"\nnorm = {norm}\nattention = {attention}\n\
         feed_forward = {{ kind = \"dense\", width = 128, biases = true }}\n[heads]\n\
         policy = {{ kind = \"attention\", width = 32 }}\nvalue = {{ channels = 8, hidden = 16 }}\n"
    )
}

/// Twenty steps on a GPU, most of them replayed from a CUDA graph, with our kernels and with libtorch's.
#[test]
#[ignore = "needs a GPU"]
fn our_kernels_train_like_libtorch_kernels() {
    let gpu = Compute::from_name("cuda").expect("a GPU");
    let folder = Folder::new("kernels", 6);
    let pre = "{ kind = \"layer\", place = \"pre\", last = true }";
    let rms = "{ kind = \"rms\", place = \"pre\" }";
    let post = "{ kind = \"layer\", place = \"post\", epsilon = 1e-3, deepnorm = true }";
    let smolgen = "{ kind = \"smolgen\", biases = true, compressed = 4, hidden = 32, generated = 32 }";
    let cases = [
        (pre, "{ kind = \"plain\", biases = true }"),
        (rms, "{ kind = \"bias\", biases = false }"),
        (post, smolgen),
        (post, "{ kind = \"bias\", biases = true }"),
    ];
    for (norm, attention) in cases {
        let tables = "[training]\nbatch = 64\npositions = 1280\nprecision = \"bf16\"\ncuda_graph = true\nema_decay = 0.0";
        let recipe = folder.recipe(tables, &supported_network(norm, attention));
        let weights = Weights::random(recipe.network.architecture().unwrap(), 5);
        let mut reseeded = recipe.clone();
        reseeded.seed = 9;
        let (one, other) = (samples(&recipe), samples(&reseeded));
        let uncaptured = {
            let mut recipe = recipe.clone();
            recipe.training.cuda_graph = false;
            recipe
        };
        let cases = [(&recipe, false), (&recipe, true), (&uncaptured, false)];
        let [our_kernels, libtorch_kernels, without_graph] = cases.map(|(recipe, without_kernels)| {
            let mut trainer = TorchTrainer::new(recipe, &weights, None, gpu, Processes::single()).unwrap();
            if without_kernels {
                trainer.disable_fused_kernels();
            }
            // Samples and learning rate change with every step, and a replay must see the new ones.
            for step in 0..20 {
                let samples = if step % 2 == 0 { &one } else { &other };
                trainer.train_step(samples, 1e-3 / f64::from(1 + step % 3)).unwrap();
            }
            assert_eq!(
                trainer.uses_graph_and_kernels(),
                [recipe.training.cuda_graph, !without_kernels],
                "{attention}"
            );
            trainer.take_metrics().unwrap()
        });
        assert!(our_kernels[18].loss < our_kernels[0].loss);
        for (step, our_kernels) in our_kernels.iter().enumerate() {
            for (other, limit) in [(&libtorch_kernels[step], 0.05), (&without_graph[step], 0.01)] {
                let difference = (our_kernels.loss - other.loss).abs();
                assert!(
                    difference < limit * other.loss,
                    "{attention} at step {step}: {} {}",
                    our_kernels.loss,
                    other.loss
                );
            }
        }
    }
}
