//! Networks with random weights, for the tests of this crate.

use crate::{Bridge, BridgeForm, Selector};
use std::sync::Arc;
use tandem_nnue::{Activation, Architecture, FeatureSet, FloatNetwork, HeadShape, OutputBuckets};
use tandem_transformer::{Isa, Network, Precision, Preset, Weights};
use tandem_util::random::SplitMix;

/// An NNUE whose accumulators have `outputs` values.
pub(crate) fn nnue(outputs: usize, seed: u64) -> tandem_nnue::Network {
    let head = HeadShape::Flat { activation: Activation::Screlu, buckets: OutputBuckets::ONE };
    let architecture = Architecture { features: FeatureSet::plain(), outputs, tied: true, psqt: false, head };
    let mut float = FloatNetwork::zeroed(architecture, 400, 100);
    let mut random = SplitMix::new(seed);
    let mut number = |size: f64| ((2.0 * random.unit() - 1.0) * size) as f32;
    float.weights.iter_mut().for_each(|weight| *weight = number(0.2));
    float.bias.iter_mut().for_each(|bias| *bias = number(0.2));
    float.stacks[0][0].weights.iter_mut().for_each(|weight| *weight = number(0.5));
    float.quantise(Default::default()).unwrap().0
}

/// A transformer of the bt-small preset with one layer and a board code of 512.
pub(crate) fn transformer(seed: u64) -> Arc<Network> {
    let mut architecture = Preset::BtSmall.architecture();
    architecture.body.layers = 1;
    Arc::new(Network::new(&Weights::random(architecture, seed), Precision::F32, Isa::best()))
}

/// A bridge between the two with open gates, if its form has gates.
pub(crate) fn open_bridge(form: BridgeForm, inputs: usize) -> Bridge {
    let bridge = Bridge::random(form, inputs, 512, 8);
    let made = Bridge::from_tensors(form, inputs, 512, |name, shape| {
        let tensors = bridge.tensors();
        let (_, _, numbers) = tensors.iter().find(|(other, ..)| *other == name).unwrap();
        let open = name == "bridge.gate";
        Ok::<_, ()>(if open { vec![0.5; shape[0]] } else { numbers.to_vec() })
    });
    made.unwrap()
}

/// A selector whose output depends on the position.
pub(crate) fn selector(seed: u64) -> Selector {
    Selector::random(seed)
}
