//! Checkpoints of runs: whatever the bytes are, they are refused with a message or read; good files with a few bytes changed
//! likewise. What was read becomes a network or a message, can be written, and comes back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use tandem_fuzz::changed;
use tandem_train::transformer::{Description, TransformerCheckpoint, TransformerRecipe, TransformerState};
use tandem_train::{Checkpoint, Job, Kept, Recipe, Standing};
use tandem_transformer::Architecture;

const NNUE: &str =
    "name = \"x\"\n[data]\ntrain = [{ path = \"x.bf\" }]\n[network]\nfeatures = \"768\"\naccumulator = 32\n";
const TRANSFORMER: &str = "name = \"x\"\n[data]\ntrain = [{ path = \"x.bf\" }]\n[network]\npreset = \"byte\"\n\
     [training]\nema = 0.0\n";
/// Small enough that files are tried by the thousand.
const ARCHITECTURE: &str = include_str!("../../crates/transformer/tests/architectures/squares.toml");

fn path() -> PathBuf {
    std::env::temp_dir().join(format!("tandem-fuzz-{}.checkpoint", std::process::id()))
}

fn bytes_of(checkpoint: &impl Kept) -> Vec<u8> {
    checkpoint.save(&path()).expect("room for a file");
    std::fs::read(path()).expect("it was just written")
}

/// Good files: an NNUE's and a transformer's.
fn files() -> &'static [Vec<u8>; 2] {
    static FILES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    FILES.get_or_init(|| {
        let recipe = Recipe::parse(NNUE).expect("sound");
        let state = Job::of(&recipe).expect("sound").start(1);
        let nnue = Checkpoint { recipe, state, standing: Standing { stale: 2, ..Standing::default() } };
        let mut recipe = TransformerRecipe::parse(TRANSFORMER).expect("sound");
        let architecture = Architecture::from_toml(ARCHITECTURE).expect("sound");
        recipe.network.preset = None;
        recipe.network.architecture = Some(Description::Here(Box::new(architecture.clone())));
        let row = vec![0.5; architecture.parameters()];
        let rows: BTreeMap<String, Vec<f32>> =
            ["numbers", "first", "second"].map(|name| (name.to_owned(), row.clone())).into();
        let transformer = TransformerCheckpoint {
            recipe,
            architecture,
            state: TransformerState { step: 3, averaged: 0, rows },
            standing: Standing::default(),
        };
        [bytes_of(&nnue), bytes_of(&transformer)]
    })
}

fn read(bytes: &[u8]) {
    std::fs::write(path(), bytes).expect("room for a file");
    if let Ok(checkpoint) = Checkpoint::load(&path()) {
        let _ = checkpoint.network();
        comes_back(&checkpoint);
    }
    if let Ok(checkpoint) = TransformerCheckpoint::load(&path()) {
        let _ = checkpoint.difference(&checkpoint.architecture);
        comes_back(&checkpoint);
    }
}

/// Bytes are compared, because a number that is none is not equal to itself.
fn comes_back<C: Kept>(checkpoint: &C) {
    let written = bytes_of(checkpoint);
    let again = C::load(&path()).expect("what was written can be read");
    assert_eq!(bytes_of(&again), written);
}

fuzz_target!(|bytes: &[u8]| {
    let [kind, rest @ ..] = bytes else { return };
    match kind {
        0x80.. => read(&changed(files()[usize::from(*kind) % 2].clone(), rest)),
        _ => read(rest),
    }
});
