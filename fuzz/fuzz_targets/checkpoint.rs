//! Checkpoints of training runs. Random bytes, and valid files with a few bytes changed, are either refused
//! with a message or read. A checkpoint that was read gives a network or a message, and survives a round
//! trip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::OnceLock;
use tandem_fuzz::mutate;
use tandem_train::transformer::{Description, TransformerRecipe};
use tandem_train::{Checkpoint, Job, Recipe, RunProgress, RunRecipe, State};
use tandem_transformer::Architecture;

const NNUE: &str =
    "name = \"x\"\n[data]\ntrain = [{ path = \"x.bf\" }]\n[network]\nfeatures = \"768\"\naccumulator = 32\n";
const TRANSFORMER: &str = "name = \"x\"\n[data]\ntrain = [{ path = \"x.bf\" }]\n[network]\npreset = \"byte\"\n\
     [training]\nema_decay = 0.0\n";
/// Small, so that thousands of files per second can be tried.
const ARCHITECTURE: &str = include_str!("../../crates/transformer/tests/architectures/squares.toml");

fn path() -> PathBuf {
    std::env::temp_dir().join(format!("tandem-fuzz-{}.checkpoint", std::process::id()))
}

fn bytes_of<R: RunRecipe>(checkpoint: &Checkpoint<R>) -> Vec<u8> {
    checkpoint.save(&path()).expect("space for a file");
    std::fs::read(path()).expect("it was just written")
}

/// Valid files: a checkpoint of an NNUE run and one of a transformer run.
fn files() -> &'static [Vec<u8>; 2] {
    static FILES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    FILES.get_or_init(|| {
        let recipe = Recipe::parse(NNUE).expect("valid");
        let state = Job::of(&recipe).expect("valid").initial_state(1);
        let nnue = Checkpoint {
            recipe,
            architecture: None,
            state,
            progress: RunProgress { validations_since_best: 2, ..RunProgress::default() },
        };
        let mut recipe = TransformerRecipe::parse(TRANSFORMER).expect("valid");
        let architecture = Architecture::from_toml(ARCHITECTURE).expect("valid");
        recipe.network.preset = None;
        recipe.network.architecture = Some(Description::Inline(Box::new(architecture.clone())));
        let buffer = vec![0.5; architecture.parameters()];
        let transformer = Checkpoint {
            recipe,
            architecture: Some(architecture),
            state: State {
                step: 3,
                parameters: buffer.clone(),
                exp_avg: buffer.clone(),
                exp_avg_sq: buffer,
                ..State::default()
            },
            progress: RunProgress::default(),
        };
        [bytes_of(&nnue), bytes_of(&transformer)]
    })
}

fn read(bytes: &[u8]) {
    std::fs::write(path(), bytes).expect("space for a file");
    if let Ok(checkpoint) = Checkpoint::<Recipe>::load(&path()) {
        let _ = checkpoint.network();
        assert_round_trip(&checkpoint);
    }
    if let Ok(checkpoint) = Checkpoint::<TransformerRecipe>::load(&path()) {
        assert_round_trip(&checkpoint);
    }
}

/// Compares bytes, because NaN is not equal to itself.
fn assert_round_trip<R: RunRecipe>(checkpoint: &Checkpoint<R>) {
    let written = bytes_of(checkpoint);
    let again = Checkpoint::<R>::load(&path()).expect("what was written can be read");
    assert_eq!(bytes_of(&again), written);
}

fuzz_target!(|bytes: &[u8]| {
    let [kind, rest @ ..] = bytes else { return };
    match kind {
        0x80.. => read(&mutate(files()[usize::from(*kind) % 2].clone(), rest)),
        _ => read(rest),
    }
});
