use super::*;
use crate::parameters::{ParameterLayout, to_vec};
use tandem_hybrid::Bridge;
use tandem_transformer::{Inputs, Isa, Network, Outputs, Precision, Preset, Scratch, Weights};
use tandem_util::random::SplitMix;

/// The small architectures of the transformer crate's tests, which together have every part, and two presets.
fn architectures() -> Vec<Architecture> {
    let texts = [
        include_str!("../../../transformer/tests/architectures/board.toml"),
        include_str!("../../../transformer/tests/architectures/moves.toml"),
        include_str!("../../../transformer/tests/architectures/squares.toml"),
        include_str!("../../../transformer/tests/architectures/text.toml"),
    ];
    let presets = [Preset::Byte, Preset::BtSmall].map(|preset| preset.architecture());
    texts.into_iter().map(|text| Architecture::from_toml(text).unwrap()).chain(presets).collect()
}

/// Pseudo-random inputs, for our own inference and for libtorch.
struct RandomInputs {
    tokens: Vec<u16>,
    actions: Vec<u16>,
    squares: Vec<f32>,
    model: ModelInputs,
}

fn random_inputs(architecture: &Architecture, batch: usize, seed: u64) -> RandomInputs {
    let mut random = SplitMix::new(seed);
    let mut inputs = RandomInputs {
        tokens: Vec::new(),
        actions: Vec::new(),
        squares: Vec::new(),
        model: ModelInputs::Text(Tensor::new()),
    };
    let Some(channels) = architecture.input.channels() else {
        let mut all = Vec::new();
        for _ in 0..batch {
            let tokens: Vec<u16> = (0..78).map(|_| random.below(31) as u16).collect();
            all.extend(tokens.iter().map(|&token| i64::from(token)));
            inputs.tokens.extend(tokens);
            if architecture.heads.action_value.is_some() {
                let action = random.below(1968) as u16;
                inputs.actions.push(action);
                all.push(i64::from(action));
            }
        }
        inputs.model = ModelInputs::Text(Tensor::from_slice(&all).view([batch as i64, -1]));
        return inputs;
    };
    let masks: Vec<u64> = (0..batch * channels).map(|_| random.next_u64() & random.next_u64()).collect();
    let levels: Vec<f32> = (0..batch * channels).map(|_| 1.0 + random.below(3) as f32 / 2.0).collect();
    for position in 0..batch {
        for square in 0..64 {
            for channel in 0..channels {
                let index = position * channels + channel;
                inputs.squares.push((masks[index] >> square & 1) as f32 * levels[index]);
            }
        }
    }
    let masks: Vec<i64> = masks.into_iter().map(|mask| mask as i64).collect();
    let shape = [batch as i64, channels as i64];
    inputs.model = ModelInputs::Squares {
        masks: Tensor::from_slice(&masks).view(shape),
        levels: Tensor::from_slice(&levels).view(shape),
        bridge_inputs: None,
    };
    inputs
}

/// Outputs of our own inference by the names of the heads.
fn by_head(outputs: &Outputs) -> BTreeMap<String, Vec<f32>> {
    let mut heads = BTreeMap::new();
    let mut insert = |name: &str, values: &[f32]| {
        if !values.is_empty() {
            heads.insert(name.to_owned(), values.to_vec());
        }
    };
    insert("action_value", &outputs.action_value);
    insert("state_value", &outputs.state_value);
    insert("policy", &outputs.policy);
    for (target, values) in &outputs.aux_policies {
        insert(target.name(), values);
    }
    for (name, value) in ["value", "search_value", "short_term"].into_iter().zip(&outputs.values) {
        let Some(value) = value else { continue };
        insert(&format!("{name}.wdl"), &value.wdl);
        insert(&format!("{name}.error"), value.error.as_slice());
        insert(&format!("{name}.buckets"), &value.buckets);
    }
    insert("moves_left", outputs.moves_left.as_slice());
    insert("move_value", &outputs.move_value);
    heads
}

#[test]
fn outputs_match_our_own_inference() {
    for (number, architecture) in architectures().into_iter().enumerate() {
        let weights = Weights::random(architecture.clone(), 7 + number as u64);
        let network = Network::new(&weights, Precision::F32, Isa::best());
        let batch = 3;
        let random = random_inputs(&architecture, batch, 99);
        let actions: Vec<&[u16]> = random.actions.chunks(1).collect();
        let inputs = match architecture.input {
            Input::Text => Inputs::Text { tokens: &random.tokens, actions: &actions },
            Input::Squares | Input::Planes | Input::PlanesSingle => Inputs::Squares(&random.squares),
        };
        let mut scratch = Scratch::default();
        let expected = network.run(&inputs, &mut scratch).unwrap();
        let layout = ParameterLayout::new(&architecture, None);
        let model = Model::new(&architecture, &layout, Kind::Float, Device::Cpu);
        let outputs =
            model.forward(&layout.views(&layout.flatten(&weights, None, Device::Cpu)), &random.model);
        for (position, expected) in expected.iter().enumerate() {
            let expected = by_head(expected);
            assert_eq!(expected.keys().collect::<Vec<_>>(), outputs.heads.keys().collect::<Vec<_>>());
            for (name, expected) in &expected {
                let actual = to_vec(&outputs.heads[name].get(position as i64));
                assert_eq!(actual.len(), expected.len(), "{name}");
                for (actual, expected) in actual.iter().zip(expected) {
                    let bound = 1e-4 * (1.0 + expected.abs());
                    assert!(
                        (actual - expected).abs() < bound,
                        "{name} of {number}: {actual}, not {expected}"
                    );
                }
            }
        }
    }
}

/// Batched experts, as on a GPU, against those that run one after the other, as on a CPU: outputs and
/// gradients.
#[test]
fn batched_experts_match_sequential_ones() {
    let mut architecture = Preset::Byte.architecture();
    for (gated, biases) in [(false, false), (true, true)] {
        let experts = tandem_transformer::Experts { count: 5, chosen: 2, width: 24, gated, biases };
        architecture.body.feed_forward = tandem_transformer::FeedForward::Experts(experts);
        let layout = ParameterLayout::new(&architecture, None);
        let values = layout.flatten(&Weights::random(architecture.clone(), 3), None, Device::Cpu);
        let model = Model::new(&architecture, &layout, Kind::Double, Device::Cpu);
        let double = (Kind::Double, Device::Cpu);
        let width = architecture.body.width as i64;
        let tokens = (Tensor::arange(11 * width, double) * 0.37).sin().view([11, width]);
        // The last expert is never chosen.
        let top_experts = Tensor::from_slice(&[0i64, 1, 3, 2]).view([2, 2]).repeat([6, 1]).narrow(0, 0, 11);
        let zeros = Tensor::zeros([11, 5], double);
        let chosen = zeros.scatter_value(1, &top_experts, 1.0);
        let [sequential, batched] = [false, true].map(|is_batched| {
            let values = values.to_kind(Kind::Double).copy().set_requires_grad(true);
            let tokens = tokens.copy().set_requires_grad(true);
            let gates = (&chosen * 0.3 * (Tensor::arange(5, double) + 1.0)).set_requires_grad(true);
            let tensors = layout.views(&values);
            let pass = Pass { model: &model, parameters: &tensors, routing: RefCell::default() };
            let experts = &model.tensors.layers[1].feed_forward;
            let output = match is_batched {
                true => pass.experts_batched(&tokens, &gates, experts),
                false => pass.experts_sequential(&tokens, &gates, &chosen, experts),
            };
            output.square().sum(Kind::Double).backward();
            // Gradients of gates count only for chosen experts.
            [output, tokens.grad(), values.grad(), gates.grad() * &chosen].map(|tensor| tensor.detach())
        });
        for (sequential, batched) in sequential.iter().zip(&batched) {
            assert!(sequential.abs().max().double_value(&[]) > 0.0);
            assert!((sequential - batched).abs().max().double_value(&[]) < 1e-9);
        }
    }
}

#[test]
fn a_flat_buffer_keeps_a_network() {
    for architecture in architectures() {
        let weights = Weights::random(architecture.clone(), 3);
        let layout = ParameterLayout::new(&architecture, None);
        let flat = layout.flatten(&weights, None, Device::Cpu);
        assert_eq!(flat.size(), [layout.len()]);
        assert_eq!(layout.weights(&architecture, &flat).unwrap(), weights);
        assert!(layout.num_decayed() > 0 && layout.num_decayed() < layout.len());
        let mask = layout.mask_without(|name| name.starts_with("layers.0."), Device::Cpu);
        let num_kept: usize = layout
            .specs()
            .iter()
            .filter(|spec| !spec.name.starts_with("layers.0."))
            .map(|spec| spec.len())
            .sum();
        assert_eq!(mask.sum(Kind::Double).double_value(&[]) as usize, num_kept);
    }
}

/// Gradients of every tensor against central differences, in f64.
#[test]
fn gradients_match_finite_differences() {
    let all = architectures();
    let without_bridge = all.iter().take(4).map(|architecture| (architecture.clone(), None));
    // The first architecture has a code of the board, which a bridge can write.
    let with_bridge = [BridgeForm::Gated, BridgeForm::Plain].map(|form| (all[0].clone(), Some(form)));
    for (architecture, form) in without_bridge.chain(with_bridge) {
        let weights = Weights::random(architecture.clone(), 5);
        let bridge = form.zip(architecture.board_code()).map(|(form, code)| Bridge::random(form, 6, code, 4));
        let layout = ParameterLayout::new(&architecture, bridge.as_ref());
        let values = layout.flatten(&weights, bridge.as_ref(), Device::Cpu).to_kind(Kind::Double);
        if bridge.is_some() {
            // Gates start closed, which would make the gradients before them zero.
            let _ = values
                .narrow(0, layout.num_decayed(), layout.len() - layout.num_decayed())
                .g_add_scalar_(0.03);
        }
        let values = values.set_requires_grad(true);
        let mut model = Model::new(&architecture, &layout, Kind::Double, Device::Cpu).with_bridge(form);
        model.mask = attention::mask(&architecture, Kind::Double, Device::Cpu);
        let mut random = random_inputs(&architecture, 2, 21);
        if let ModelInputs::Squares { bridge_inputs, .. } = &mut random.model {
            let bytes: [u8; 12] = std::array::from_fn(|index| (index * 53 % 256) as u8);
            *bridge_inputs = form.map(|_| Tensor::from_slice(&bytes).view([2, 6]));
        }
        // A weighted sum of all outputs, with a different weight for each.
        let sum = |values: &Tensor| {
            let outputs = model.forward(&layout.views(values), &random.model);
            let parts = outputs.heads.values().map(|head| {
                let flat = head.reshape([-1]);
                let weights = (Tensor::arange(flat.size()[0], (Kind::Double, Device::Cpu)) * 0.7).sin();
                (flat * weights).sum(Kind::Double)
            });
            parts.reduce(|left, right| left + right).unwrap()
        };
        sum(&values).backward();
        let grads = values.grad();
        let mut first = 0;
        for spec in layout.specs() {
            let len = spec.len() as i64;
            for offset in [first, first + len / 2, first + len - 1] {
                let step = 1e-5;
                let shifted = |by: f64| {
                    let shifted = values.detach().copy();
                    let _ = shifted.narrow(0, offset, 1).g_add_scalar_(by);
                    tch::no_grad(|| sum(&shifted).double_value(&[]))
                };
                let expected = (shifted(step) - shifted(-step)) / (2.0 * step);
                let actual = grads.double_value(&[offset]);
                let bound = 1e-5 * (1.0 + expected.abs());
                assert!(
                    (actual - expected).abs() < bound,
                    "{} at {offset}: {actual}, not {expected}",
                    spec.name
                );
            }
            first += len;
        }
    }
}
