//! Whole runs of small networks.

mod bridge;

use crate::shim::{Group, Meeting};
use crate::trainer::essence;
use crate::{Compute, Processes, TorchJudge, TorchTrainer};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tandem_chess::Position;
use tandem_chess::random::SplitMix;
use tandem_data::{Options, Outcome, Packed, Record, Score, Source, Writer};
use tandem_train::TrainError;
use tandem_train::transformer::*;
use tandem_transformer::{Isa, Network, Precision, Scratch, Weights};

/// A folder with games for a test, gone when the test is.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, games: usize) -> Self {
        let path = std::env::temp_dir().join(format!("tandem-torch-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        let games_file = path.join("games.csv");
        let source = Source::parse(games_file.to_str().unwrap(), &Options::default()).unwrap().remove(0);
        let mut writer = Writer::create(source).unwrap();
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

    /// A recipe for the games, in TOML: what is in the tables, and a description of the network.
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

fn alone(
    recipe: &TransformerRecipe,
    start: Start<'_>,
    state: Option<&TransformerState>,
) -> Result<Box<dyn TransformerTrainer>, TrainError> {
    let trainer = TorchTrainer::new(recipe, start, state, Compute::processor(), Processes::one())?;
    Ok(Box::new(trainer))
}

/// A run, with the losses of all looks; it stops when `watch` says so.
fn run(
    recipe: &TransformerRecipe,
    folder: &Path,
    resume: bool,
    mut watch: impl FnMut(u64) -> bool,
) -> (TransformerOutcome, Vec<(u64, f32)>) {
    let stop = AtomicBool::new(false);
    let options = TransformerOptions { folder, resume, threads: 1, share: Share::WHOLE, stop: &stop };
    let mut losses = Vec::new();
    let outcome = run_transformer(recipe, &options, &alone, &mut |event| {
        if let TransformerEvent::Steps { step, told, .. } = event {
            losses.push((step, told.loss));
            stop.store(watch(step), Ordering::Relaxed);
        }
    });
    (outcome.unwrap(), losses)
}

fn samples(recipe: &TransformerRecipe) -> Samples {
    let shape = SampleShape::of(&recipe.network.architecture().unwrap());
    SampleLoader::new(recipe, shape, Share::WHOLE, 1, 0, None).next_batch().unwrap().batch
}

/// What a step says is wrong must be what the metrics, which know no tensors, find wrong.
#[test]
fn losses_are_what_metrics_find() {
    let folder = Folder::new("losses", 6);
    // Values of moves by themselves, without a policy.
    let alone_with_moves = SQUARES.replace("policy = { kind = \"attention\", width = 8 }\n", "");
    for (network, buckets) in [
        (alone_with_moves.as_str(), "{ kind = \"cross-entropy\" }"),
        (BOARD, "{ kind = \"hl-gauss\", sigma = 0.75 }"),
        (MOVES, "{ kind = \"hl-gauss\", sigma = 1.5 }"),
        (SQUARES, "{ kind = \"cross-entropy\" }"),
        (TEXT, "{ kind = \"cross-entropy\" }"),
    ] {
        let tables = format!(
            "[targets]\nlabel_smoothing = 0.1\nresult_share = 0.5\nbuckets = {buckets}\n[training]\nbatch = 64\n\
             positions = 640\nema = 0.0"
        );
        let recipe = folder.recipe(&tables, network);
        let architecture = recipe.network.architecture().unwrap();
        let mut trainer = alone(&recipe, (&Weights::random(architecture.clone(), 4)).into(), None).unwrap();
        let samples = samples(&recipe);
        let judged = trainer.judge(&samples).unwrap();
        trainer.learn(&samples, 0.0).unwrap();
        let told = trainer.told().unwrap().remove(0);
        let shape = SampleShape::of(&architecture);
        let mut metrics = TransformerMetrics::default();
        metrics.add(&samples, &shape, &recipe.targets, &answers_of(&judged));
        let mut by_head: Vec<(Head, f32)> = Vec::new();
        for (name, found) in &told.parts {
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
                    assert!(name.starts_with("experts."), "{name} is measured by nobody");
                    continue;
                }
            };
            // Values that are of different things count as one figure.
            match by_head.iter_mut().find(|(known, _)| *known == head) {
                Some((_, sum)) => *sum += found,
                None => by_head.push((head, *found)),
            }
        }
        assert_eq!(by_head.iter().any(|(head, _)| *head == Head::MoveValue), network.contains("move_value"));
        for (head, found) in by_head {
            let figure = Figure::Loss(head);
            let mean = metrics.whole().get(figure).unwrap_or(0.0);
            // A step divides by all positions, metrics by those that know the target.
            let expected = mean * metrics.whole().count(figure) as f64 / samples.len() as f64;
            assert!(
                (f64::from(found) - expected).abs() < 1e-4 * (1.0 + expected),
                "{head:?}: {found}, not {expected}"
            );
        }
    }
}

/// Who only judges says what our own inference says of the same samples, on whatever thread it is asked.
#[test]
fn who_only_judges_says_what_the_processor_says() {
    let folder = Folder::new("judge", 4);
    for network in [BOARD, MOVES, SQUARES, TEXT] {
        let recipe = folder.recipe("[training]\nbatch = 40\npositions = 400", network);
        let weights = Weights::random(recipe.network.architecture().unwrap(), 4);
        let own = Network::new(&weights, Precision::F32, Isa::best());
        let judge = TorchJudge::new(&weights, TrainingPrecision::F32, Compute::processor()).unwrap();
        let samples = samples(&recipe);
        let expected = judge_samples(&own, &samples, &mut Scratch::default()).unwrap();
        let found = std::thread::scope(|scope| {
            let asked = scope.spawn(|| judge.judge(samples.clone(), &[]).unwrap());
            asked.join().unwrap()
        });
        assert!(found.keys().eq(expected.keys()));
        for (name, numbers) in &expected {
            for (found, expected) in found[name].iter().zip(numbers) {
                let bound = 1e-4 * (1.0 + expected.abs());
                assert!((found - expected).abs() < bound, "{name}: {found}, not {expected}");
            }
            let one = judge.judge(samples.clone(), &[name.as_str()]).unwrap();
            assert!(one.len() == 1 && one[name].len() == numbers.len());
        }
        assert!(judge.judge(Samples::default(), &[]).unwrap().is_empty());
    }
}

#[test]
fn a_small_network_learns_some_positions_by_heart() {
    let folder = Folder::new("heart", 3);
    let recipe = folder.recipe(
        "rate = 0.004\n[training]\nbatch = 64\npositions = 19200\nvalidate_every = 19200\nema = 0.0\n\
         [optimiser]\nkind = \"adamw\"\ndecay = 0.0",
        SQUARES,
    );
    let weights = Weights::random(recipe.network.architecture().unwrap(), 2);
    let mut trainer = alone(&recipe, (&weights).into(), None).unwrap();
    let samples = samples(&recipe);
    for _ in 0..300 {
        trainer.learn(&samples, 0.004).unwrap();
    }
    let told = trainer.told().unwrap();
    let policy = |told: &StepTold| told.parts.iter().find(|(name, _)| name == "policy").unwrap().1;
    assert!(
        policy(&told[0]) > 2.0 && policy(&told[299]) < 0.5,
        "{} to {}",
        policy(&told[0]),
        policy(&told[299])
    );
}

#[test]
fn a_run_that_was_stopped_ends_as_if_it_had_not_been() {
    let folder = Folder::new("resume", 6);
    for (optimiser, network) in [("adamw", SQUARES), ("nadam", TEXT), ("adadelta", BOARD)] {
        let recipe = folder.recipe(
            &format!(
                "rate = {{ kind = \"warm-up\", steps = 10, then = {{ kind = \"cosine\", start = 0.01, end = 0.0 }} }}\n\
                 [training]\nbatch = 20\npositions = 2400\nvalidate_every = 700\nvalidation_positions = 50\naccumulate = 2\n\
                 swa = {{ from = 0.8, every = 5 }}\n[optimiser]\nkind = \"{optimiser}\""
            ),
            network,
        );
        let (whole, losses) = run(&recipe, &folder.0.join(format!("whole-{optimiser}")), false, |_| false);
        assert!(whole.finished && whole.steps == 120);
        let parts = folder.0.join(format!("parts-{optimiser}"));
        let (first, early) = run(&recipe, &parts, false, |step| step >= 60);
        assert!(!first.finished && first.steps < 120);
        let (second, late) = run(&recipe, &parts, true, |_| false);
        assert!(second.finished);
        assert_eq!(early.into_iter().chain(late).filter(|told| losses.contains(told)).count(), losses.len());
        assert_eq!(second.weights, whole.weights, "{optimiser}");
    }
}

/// Two processes with half a batch each make the steps of one with the whole.
#[test]
fn two_processes_are_as_good_as_one() {
    let folder = Folder::new("two", 6);
    let recipe = folder.recipe("[training]\nbatch = 32\npositions = 640\nema = 0.0", SQUARES);
    let architecture = recipe.network.architecture().unwrap();
    let weights = Weights::random(architecture.clone(), 8);
    let shape = SampleShape::of(&architecture);
    let steps = |share: Share, processes: Processes| {
        let mut trainer =
            TorchTrainer::new(&recipe, &weights, None, Compute::processor(), processes).unwrap();
        let mut loader = SampleLoader::new(&recipe, shape, share, 1, 0, None);
        trainer.learn(&loader.next_batch().unwrap().batch, 1e-3).unwrap();
        // After a step an optimiser remembers a tenth of its slopes.
        let slopes = trainer.state().unwrap().rows.remove("first").unwrap();
        for _ in 0..4 {
            trainer.learn(&loader.next_batch().unwrap().batch, 1e-3).unwrap();
        }
        let told = trainer.told().unwrap();
        (slopes, trainer.state().unwrap().rows.remove("numbers").unwrap(), told)
    };
    let (slopes, _, expected_told) = steps(Share::WHOLE, Processes::one());
    let port = 29_000 + (std::process::id() % 1000) as u16;
    let found = std::thread::scope(|scope| {
        let ranks = [0, 1].map(|rank| {
            let steps = &steps;
            scope.spawn(move || {
                let meeting = Meeting {
                    rank,
                    ranks: 2,
                    address: "127.0.0.1".into(),
                    port,
                    holds_store: rank == 0,
                    card: None,
                    patience: Duration::from_secs(60),
                };
                let processes = Processes::met(&meeting, Group::join(&meeting).unwrap());
                steps(Share { rank, ranks: 2 }, processes)
            })
        });
        ranks.map(|rank| rank.join().unwrap())
    });
    assert_eq!(found[0].1, found[1].1, "both have the same numbers");
    for (found, expected) in found[0].0.iter().zip(&slopes) {
        assert!((found - expected).abs() < 1e-7 + 1e-4 * expected.abs(), "{found}, not {expected}");
    }
    for (found, expected) in found[0].2.iter().zip(&expected_told) {
        assert!((found.loss - expected.loss).abs() < 1e-3, "{} and {}", found.loss, expected.loss);
    }
}

/// A step in parts is the step of all of them, in whatever numbers it is computed.
#[test]
fn parts_of_a_step_add_up_to_it() {
    let folder = Folder::new("parts", 6);
    // Norms of the other kind add up their own slopes in 16 bits within a part.
    let network = BOARD.replace("kind = \"layer\"", "kind = \"rms\"");
    for (precision, tolerance) in [("f32", 1e-5), ("bf16", 0.005)] {
        let slopes = [1, 64].map(|parts| {
            let tables = format!(
                "[training]\nbatch = 64\npositions = 640\nema = 0.0\naccumulate = {parts}\nprecision = \"{precision}\""
            );
            let recipe = folder.recipe(&tables, &network);
            let weights = Weights::random(recipe.network.architecture().unwrap(), 4);
            let mut trainer = alone(&recipe, (&weights).into(), None).unwrap();
            trainer.learn(&samples(&recipe), 1e-3).unwrap();
            // After a step an optimiser remembers a tenth of its slopes.
            trainer.state().unwrap().rows.remove("first").unwrap()
        });
        let length = |row: &mut dyn Iterator<Item = f32>| row.map(|x| f64::from(x * x)).sum::<f64>().sqrt();
        let whole = length(&mut slopes[0].iter().copied());
        let apart = length(&mut slopes[0].iter().zip(&slopes[1]).map(|(one, other)| one - other));
        assert!(whole > 0.0 && apart < tolerance * whole, "{precision}: {apart} of {whole}");
    }
}

#[test]
fn what_is_frozen_stays_and_two_of_four_are_nothing() {
    let folder = Folder::new("frozen", 3);
    let recipe = folder.recipe(
        "[training]\nbatch = 16\npositions = 160\nema = 0.0\nfreeze = [\"layers.0.*\"]\ntwo_of_four = true",
        SQUARES,
    );
    let start = Weights::random(recipe.network.architecture().unwrap(), 6);
    let mut trainer = alone(&recipe, (&start).into(), None).unwrap();
    let samples = samples(&recipe);
    for _ in 0..10 {
        trainer.learn(&samples, 1e-2).unwrap();
    }
    let learnt = trainer.weights().unwrap();
    let same = |name: &str| {
        let pairs = start.get(name).unwrap().iter().zip(learnt.get(name).unwrap());
        pairs.clone().filter(|(before, after)| before == after || **after == 0.0).count() == pairs.count()
    };
    assert!(same("layers.0.attention.query.weight") && same("layers.0.attention_norm.scale"));
    assert!(!same("layers.1.attention.query.weight"));
    let (fours, _) = learnt.get("layers.1.attention.query.weight").unwrap().as_chunks::<4>();
    assert!(fours.iter().all(|four| four.iter().filter(|weight| **weight == 0.0).count() == 2));
}

#[test]
fn what_is_not_there_is_told() {
    for (name, word) in [("gpu", "none of"), ("cuda:77", "cuda"), ("mps", "Apple")] {
        let problem = Compute::named(name).unwrap_err().to_string();
        assert!(problem.contains(word), "{problem}");
    }
}

#[test]
fn where_memory_ends_what_fits_is_told() {
    let folder = Folder::new("memory", 3);
    let recipe = folder
        .recipe("[training]\nbatch = 48\npositions = 480\nvalidate_every = 480\naccumulate = 2", SQUARES);
    let weights = Weights::random(recipe.network.architecture().unwrap(), 2);
    let mut trainer =
        TorchTrainer::new(&recipe, &weights, None, Compute::processor(), Processes::one()).unwrap();
    let samples = samples(&recipe);
    let told = trainer.with_advice(TrainError("cuda:0: CUDA out of memory. Tried to".into()), &samples).0;
    assert!(told.contains("24 positions at a time do not fit, 12 do: `training.accumulate = 4`"), "{told}");
    let told = trainer.with_advice(TrainError("something else".into()), &samples).0;
    assert_eq!(told, "something else");
}

#[test]
fn of_a_panic_only_the_words_are_told() {
    let panic = "called `Result::unwrap()` on an `Err` value: Torch(\"CUDA out of memory. Tried to allocate 301.36 GiB. \
                 GPU 0 has a total capacity of 139.80 GiB of which 39.29 GiB is free. Of it\\nException raised from malloc\")";
    let words = "CUDA out of memory. Tried to allocate 301.36 GiB. GPU 0 has a total capacity of 139.80 GiB of which 39.29 GiB \
                 is free";
    assert_eq!(essence(panic), words);
    assert_eq!(essence("sizes differ\nframe #0"), "sizes differ");
    assert_eq!(essence("an `Err` value: Torch(\"sizes differ\")"), "sizes differ");
    assert_eq!(essence(""), "");
}

/// A network of squares that a card has kernels for.
fn fitting(norm: &str, attention: &str) -> String {
    format!(
        "input = \"squares\"\n[embedding]\nkind = \"positions\"\n[body]\nwidth = 64\nlayers = 3\nheads = 2\n\
         activation = \"mish\"\nnorm = {norm}\nattention = {attention}\n\
         feed_forward = {{ kind = \"dense\", width = 128, biases = true }}\n[heads]\n\
         policy = {{ kind = \"attention\", width = 32 }}\nvalue = {{ channels = 8, hidden = 16 }}\n"
    )
}

/// Twenty steps on a card, of which most are played back from a recording.
#[test]
fn kernels_of_our_own_learn_as_plain_ones_do() {
    let Ok(card) = Compute::named("cuda") else {
        eprintln!("skipped: there is no card");
        return;
    };
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
        let tables =
            "[training]\nbatch = 64\npositions = 1280\nprecision = \"bf16\"\ngraph = true\nema = 0.0";
        let recipe = folder.recipe(tables, &fitting(norm, attention));
        let weights = Weights::random(recipe.network.architecture().unwrap(), 5);
        let (one, other) = (samples(&recipe), samples(&TransformerRecipe { seed: 9, ..recipe.clone() }));
        let unrecorded = {
            let mut recipe = recipe.clone();
            recipe.training.graph = false;
            recipe
        };
        let cases = [(&recipe, false), (&recipe, true), (&unrecorded, false)];
        let [own, plain, step_by_step] = cases.map(|(recipe, is_plain)| {
            let mut trainer = TorchTrainer::new(recipe, &weights, None, card, Processes::one()).unwrap();
            if is_plain {
                trainer.use_plain();
            }
            // Other positions and another rate each time: what is played back must see them.
            for step in 0..20 {
                let samples = if step % 2 == 0 { &one } else { &other };
                trainer.learn(samples, 1e-3 / f64::from(1 + step % 3)).unwrap();
            }
            assert_eq!(trainer.ways(), [recipe.training.graph, !is_plain], "{attention}");
            trainer.told().unwrap()
        });
        assert!(own[18].loss < own[0].loss);
        for (step, own) in own.iter().enumerate() {
            for (other, most) in [(&plain[step], 0.05), (&step_by_step[step], 0.01)] {
                let apart = (own.loss - other.loss).abs();
                assert!(apart < most * other.loss, "{attention} at step {step}: {} {}", own.loss, other.loss);
            }
        }
    }
}
