//! Bridges, which are learnt while both networks stay as they are.

use super::*;
use tandem_hybrid::{Bridge, BridgeForm, Fingerprint};

fn shipped() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../nets/tandem.tnn").to_owned()
}

/// A recipe for a bridge from the NNUE that ships to a small network.
fn recipe(folder: &Folder, tables: &str, form: BridgeForm) -> TransformerRecipe {
    let mut recipe = folder.recipe(tables, BOARD);
    let start = folder.0.join("start.ttn");
    let weights = Weights::random(recipe.network.architecture().unwrap(), 4);
    std::fs::write(&start, weights.to_bytes(tandem_transformer::Storage::F32, "")).unwrap();
    recipe.network = TransformerNetwork {
        start: Some(start.to_str().unwrap().into()),
        start_sha256: Some(Fingerprint::of_file(&start).unwrap().to_string()),
        ..TransformerNetwork::default()
    };
    let nnue = tandem_train::BaseNetwork { path: shipped(), sha256: None };
    recipe.bridge = Some(BridgeRecipe { nnue, form, dropout: 0.1 });
    recipe
}

fn joined(recipe: &TransformerRecipe) -> (Weights, Join) {
    let weights = Weights::load(recipe.network.start.as_ref().unwrap(), None).unwrap();
    let join = Join::of(recipe, weights.architecture()).unwrap().unwrap();
    (weights, join)
}

/// The same bridge with all its numbers, the gates too, drawn by chance.
fn opened(bridge: &Bridge) -> Bridge {
    let mut random = SplitMix::new(17);
    let numbers = |_: &str, shape: &[usize]| {
        let number = || 0.4 * random.unit() as f32 - 0.15;
        Ok::<_, ()>(std::iter::repeat_with(number).take(shape.iter().product()).collect())
    };
    Bridge::of_tensors(bridge.form(), bridge.inputs(), bridge.outputs(), numbers).unwrap()
}

#[test]
fn libtorch_says_what_the_hybrid_says() {
    let folder = Folder::new("bridge-forward", 2);
    for form in [BridgeForm::Gated, BridgeForm::Plain] {
        let recipe = recipe(&folder, "[training]\nbatch = 24\npositions = 400", form);
        let (weights, mut join) = joined(&recipe);
        join.bridge = opened(&join.bridge);
        let reading = Reading::of(weights.architecture(), Some(&join));
        let samples =
            SampleLoader::new(&recipe, reading, Share::WHOLE, 1, 0, None).next_batch().unwrap().batch;
        assert_eq!(samples.seen.len(), 24 * 1024);
        let own = Network::new(&weights, Precision::F32, Isa::best());
        let mut scratch = Scratch::default();
        let expected = judge_joined(&own, Some(&join.bridge), &samples, &mut scratch).unwrap();
        let alone = judge_samples(&own, &samples, &mut scratch).unwrap();
        let start = Start { weights: &weights, join: Some(&join) };
        let mut trainer =
            TorchTrainer::new(&recipe, start, None, Compute::processor(), Processes::one()).unwrap();
        let found = trainer.judge(&samples).unwrap();
        assert!(found.keys().eq(expected.keys()));
        for (name, numbers) in &expected {
            assert_ne!(&alone[name], numbers, "the bridge says nothing to {name}");
            for (found, expected) in found[name].iter().zip(numbers) {
                let bound = 1e-4 * (1.0 + expected.abs());
                assert!((found - expected).abs() < bound, "{form}, {name}: {found}, not {expected}");
            }
        }
        assert_eq!(trainer.bridge().unwrap().as_ref(), Some(&join.bridge));
    }
}

/// A run is interrupted and goes on: the same bridge, and networks that have not changed by a bit.
#[test]
fn a_bridge_learns_and_the_networks_stay() {
    let folder = Folder::new("bridge-run", 6);
    let tables = "rate = 0.003\n[training]\nbatch = 60\npositions = 7200\nvalidate_every = 3600\n\
                  validation_positions = 200";
    let recipe = recipe(&folder, tables, BridgeForm::Gated);
    let (weights, join) = joined(&recipe);
    let (whole, losses) = run(&recipe, &folder.0.join("whole"), false, |_| false);
    assert!(whole.finished);
    assert_eq!(whole.weights, weights);
    let hybrid = whole.hybrid.unwrap();
    let nnue = Fingerprint::of_file(shipped()).unwrap();
    let transformer = Fingerprint::of_file(recipe.network.start.as_ref().unwrap()).unwrap();
    assert_eq!(hybrid.check(Some(nnue), Some(transformer)), Ok(()));
    let bridge = hybrid.bridge.unwrap();
    let moved = bridge.tensors().into_iter().zip(join.bridge.tensors());
    for ((name, _, numbers), (_, _, before)) in moved {
        assert_ne!(numbers, before, "{name} has learnt nothing");
    }
    assert!(losses.last().unwrap().1 < 0.97 * losses[0].1, "{losses:?}");

    let parts = folder.0.join("parts");
    let (first, _) = run(&recipe, &parts, false, |step| step >= 50);
    assert!(!first.finished);
    let (second, _) = run(&recipe, &parts, true, |_| false);
    assert!(second.finished);
    assert_eq!(second.hybrid.unwrap().bridge, Some(bridge));
}

#[test]
fn other_networks_than_were_expected_are_refused() {
    let folder = Folder::new("bridge-bases", 1);
    let good = recipe(&folder, "", BridgeForm::Gated);
    let told = |recipe: &TransformerRecipe| {
        let stop = AtomicBool::new(false);
        let folder = folder.0.join("run");
        let options = TransformerOptions {
            folder: &folder,
            resume: false,
            threads: 1,
            share: Share::WHOLE,
            stop: &stop,
        };
        run_transformer(recipe, &options, &alone, &mut |_| {}).unwrap_err().to_string()
    };
    let other = Fingerprint::of(b"another").to_string();
    let mut start = good.clone();
    start.network.start_sha256 = Some(other.clone());
    let message = told(&start);
    assert!(message.starts_with("network.start: ") && message.contains(&other), "{message}");
    let mut nnue = good.clone();
    nnue.bridge.as_mut().unwrap().nnue.sha256 = Some(other.clone());
    let message = told(&nnue);
    assert!(message.starts_with("bridge.nnue: ") && message.contains(&other), "{message}");
    let mut flat = good;
    let weights = Weights::random(folder.recipe("", SQUARES).network.architecture().unwrap(), 4);
    let path = folder.0.join("flat.ttn");
    std::fs::write(&path, weights.to_bytes(tandem_transformer::Storage::F32, "")).unwrap();
    flat.network = TransformerNetwork { start: Some(path.to_str().unwrap().into()), ..Default::default() };
    assert!(told(&flat).starts_with("bridge: the transformer has no code"), "{}", told(&flat));
}
