//! Training of a bridge, during which both networks stay unchanged.

use super::*;
use tandem_hybrid::{Bridge, BridgeForm, Fingerprint};

fn shipped_nnue() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../nets/tandem.tnn").to_owned()
}

/// A recipe for a bridge from the NNUE that ships to a small transformer.
fn recipe(folder: &Folder, tables: &str, form: BridgeForm) -> TransformerRecipe {
    let mut recipe = folder.recipe(tables, BOARD);
    let initial = folder.0.join("start.ttn");
    let weights = Weights::random(recipe.network.architecture().unwrap(), 4);
    std::fs::write(&initial, weights.to_bytes(tandem_transformer::Storage::F32, "")).unwrap();
    recipe.network = TransformerNetwork {
        init_from: Some(initial.to_str().unwrap().into()),
        init_sha256: Some(Fingerprint::of_file(&initial).unwrap().to_string()),
        ..TransformerNetwork::default()
    };
    let nnue = tandem_train::BaseNetwork { path: shipped_nnue(), sha256: None };
    recipe.bridge = Some(BridgeRecipe { nnue, form, dropout: 0.1 });
    recipe
}

fn load_networks(recipe: &TransformerRecipe) -> (Weights, BridgeSetup) {
    let weights = Weights::load(recipe.network.init_from.as_ref().unwrap(), None).unwrap();
    let bridge_setup = BridgeSetup::of(recipe, weights.architecture()).unwrap().unwrap();
    (weights, bridge_setup)
}

/// The same bridge with random parameters, open gates included, because closed ones would hide errors.
fn with_random_parameters(bridge: &Bridge) -> Bridge {
    let mut random = SplitMix::new(17);
    let values = |_: &str, shape: &[usize]| {
        let value = || 0.4 * random.unit() as f32 - 0.15;
        Ok::<_, ()>(std::iter::repeat_with(value).take(shape.iter().product()).collect())
    };
    Bridge::from_tensors(bridge.form(), bridge.inputs(), bridge.outputs(), values).unwrap()
}

#[test]
fn bridged_outputs_match_the_hybrid_crate() {
    let folder = Folder::new("bridge-forward", 2);
    for form in [BridgeForm::Gated, BridgeForm::Plain] {
        let recipe = recipe(&folder, "[training]\nbatch = 24\npositions = 400", form);
        let (weights, mut bridge_setup) = load_networks(&recipe);
        bridge_setup.bridge = with_random_parameters(&bridge_setup.bridge);
        let sample_spec = SampleSpec::of(weights.architecture(), Some(&bridge_setup));
        let samples = Loader::of_samples(&recipe, sample_spec, ProcessRank::SINGLE, 1, 0, None)
            .next_batch()
            .unwrap()
            .batch;
        assert_eq!(samples.bridge_inputs.len(), 24 * 1024);
        let reference = Network::new(&weights, Precision::F32, Isa::best());
        let mut scratch = Scratch::default();
        let expected =
            predict_samples_with_bridge(&reference, Some(&bridge_setup.bridge), &samples, &mut scratch)
                .unwrap();
        let without_bridge = predict_samples(&reference, &samples, &mut scratch).unwrap();
        let initial = InitialNetworks { weights: &weights, bridge_setup: Some(&bridge_setup) };
        let mut trainer =
            TorchTrainer::new(&recipe, initial, None, Compute::cpu(), Processes::single()).unwrap();
        let outputs = trainer.predict(&samples, true).unwrap();
        assert!(outputs.keys().eq(expected.keys()));
        for (name, values) in &expected {
            assert_ne!(&without_bridge[name], values, "the bridge has no effect on {name}");
            for (output, expected) in outputs[name].iter().zip(values) {
                let bound = 1e-4 * (1.0 + expected.abs());
                assert!((output - expected).abs() < bound, "{form}, {name}: {output}, not {expected}");
            }
        }
        assert_eq!(trainer.bridge().unwrap().as_ref(), Some(&bridge_setup.bridge));
    }
}

/// Interrupts a run and resumes it: the bridge must be the same, and the networks unchanged to the bit.
#[test]
fn a_bridge_is_trained_and_the_networks_stay() {
    let _generator = lock_generator();
    let folder = Folder::new("bridge-run", 6);
    let tables = "lr = 0.003\n[training]\nbatch = 60\npositions = 7200\nvalidate_every = 3600\n\
                  validation_positions = 200";
    let recipe = recipe(&folder, tables, BridgeForm::Gated);
    let (weights, bridge_setup) = load_networks(&recipe);
    let (uninterrupted, losses) = run(&recipe, &folder.0.join("whole"), false, |_| false);
    assert!(uninterrupted.finished);
    assert_eq!(uninterrupted.network.weights, weights);
    let hybrid = uninterrupted.network.hybrid.unwrap();
    let nnue = Fingerprint::of_file(shipped_nnue()).unwrap();
    let transformer = Fingerprint::of_file(recipe.network.init_from.as_ref().unwrap()).unwrap();
    assert_eq!(hybrid.check(Some(nnue), Some(transformer)), Ok(()));
    let bridge = hybrid.bridge.unwrap();
    let pairs = bridge.tensors().into_iter().zip(bridge_setup.bridge.tensors());
    for ((name, _, values), (_, _, before)) in pairs {
        assert_ne!(values, before, "{name} has not changed");
    }
    assert!(losses.last().unwrap().1 < 0.97 * losses[0].1, "{losses:?}");

    let parts = folder.0.join("parts");
    let (first, _) = run(&recipe, &parts, false, |step| step >= 50);
    assert!(!first.finished);
    let (second, _) = run(&recipe, &parts, true, |_| false);
    assert!(second.finished);
    assert_eq!(second.network.hybrid.unwrap().bridge, Some(bridge));
}

#[test]
fn networks_with_other_hashes_are_refused() {
    let folder = Folder::new("bridge-bases", 1);
    let valid = recipe(&folder, "", BridgeForm::Gated);
    let error_of = |recipe: &TransformerRecipe| {
        let stop = AtomicBool::new(false);
        let folder = folder.0.join("run");
        let options = RunOptions { folder: &folder, resume: false, threads: 1, stop: &stop };
        run_transformer(recipe, ProcessRank::SINGLE, &options, &single_process, &mut |_| {})
            .unwrap_err()
            .to_string()
    };
    let other_hash = Fingerprint::of(b"another").to_string();
    let mut initial = valid.clone();
    initial.network.init_sha256 = Some(other_hash.clone());
    let message = error_of(&initial);
    assert!(message.starts_with("network.init_from: ") && message.contains(&other_hash), "{message}");
    let mut nnue = valid.clone();
    nnue.bridge.as_mut().unwrap().nnue.sha256 = Some(other_hash.clone());
    let message = error_of(&nnue);
    assert!(message.starts_with("bridge.nnue: ") && message.contains(&other_hash), "{message}");
    let mut without_code = valid;
    let weights = Weights::random(folder.recipe("", SQUARES).network.architecture().unwrap(), 4);
    let path = folder.0.join("flat.ttn");
    std::fs::write(&path, weights.to_bytes(tandem_transformer::Storage::F32, "")).unwrap();
    without_code.network =
        TransformerNetwork { init_from: Some(path.to_str().unwrap().into()), ..Default::default() };
    assert!(
        error_of(&without_code).starts_with("bridge: the transformer has no encoding of the whole board"),
        "{}",
        error_of(&without_code)
    );
}
