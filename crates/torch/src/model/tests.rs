use super::*;
use crate::parameters::{Row, numbers_of};
use tandem_chess::random::SplitMix;
use tandem_hybrid::Bridge;
use tandem_transformer::{Inputs, Isa, Network, Outputs, Precision, Preset, Scratch, Weights};

/// The small architectures of the transformers' own tests, which have every part between them.
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

/// Inputs without sense, for our own inference and for libtorch.
struct Given {
    tokens: Vec<u16>,
    actions: Vec<u16>,
    squares: Vec<f32>,
    model: ModelInputs,
}

fn given(architecture: &Architecture, batch: usize, seed: u64) -> Given {
    let mut random = SplitMix::new(seed);
    let mut given = Given {
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
            given.tokens.extend(tokens);
            if architecture.heads.action_value.is_some() {
                let action = random.below(1968) as u16;
                given.actions.push(action);
                all.push(i64::from(action));
            }
        }
        given.model = ModelInputs::Text(Tensor::from_slice(&all).view([batch as i64, -1]));
        return given;
    };
    let masks: Vec<u64> = (0..batch * channels).map(|_| random.next_u64() & random.next_u64()).collect();
    let levels: Vec<f32> = (0..batch * channels).map(|_| 1.0 + random.below(3) as f32 / 2.0).collect();
    for position in 0..batch {
        for square in 0..64 {
            for channel in 0..channels {
                let at = position * channels + channel;
                given.squares.push((masks[at] >> square & 1) as f32 * levels[at]);
            }
        }
    }
    let masks: Vec<i64> = masks.into_iter().map(|mask| mask as i64).collect();
    let shape = [batch as i64, channels as i64];
    given.model = ModelInputs::Squares {
        masks: Tensor::from_slice(&masks).view(shape),
        levels: Tensor::from_slice(&levels).view(shape),
        seen: None,
    };
    given
}

/// What our own inference says, by the names of the heads.
fn named(outputs: &Outputs) -> BTreeMap<String, Vec<f32>> {
    let mut said = BTreeMap::new();
    let mut say = |name: &str, numbers: &[f32]| {
        if !numbers.is_empty() {
            said.insert(name.to_owned(), numbers.to_vec());
        }
    };
    say("action_value", &outputs.action_value);
    say("state_value", &outputs.state_value);
    say("policy", &outputs.policy);
    for (target, numbers) in &outputs.beside {
        say(target.name(), numbers);
    }
    for (name, value) in ["value", "search_value", "short_term"].into_iter().zip(&outputs.values) {
        let Some(value) = value else { continue };
        say(&format!("{name}.wdl"), &value.wdl);
        say(&format!("{name}.error"), value.error.as_slice());
        say(&format!("{name}.buckets"), &value.buckets);
    }
    say("moves_left", outputs.moves_left.as_slice());
    say("move_value", &outputs.move_value);
    said
}

#[test]
fn libtorch_says_what_our_own_inference_says() {
    for (number, architecture) in architectures().into_iter().enumerate() {
        let weights = Weights::random(architecture.clone(), 7 + number as u64);
        let network = Network::new(&weights, Precision::F32, Isa::best());
        let batch = 3;
        let given = given(&architecture, batch, 99);
        let actions: Vec<&[u16]> = given.actions.chunks(1).collect();
        let inputs = match architecture.input {
            Input::Text => Inputs::Text { tokens: &given.tokens, actions: &actions },
            Input::Squares | Input::Planes | Input::LonePlanes => Inputs::Squares(&given.squares),
        };
        let mut scratch = Scratch::default();
        let expected = network.run(&inputs, &mut scratch).unwrap();
        let row = Row::of(&architecture, None);
        let model = Model::new(&architecture, Kind::Float, Device::Cpu);
        let said = model.forward(&row.split(&row.join(&weights, None, Device::Cpu)), &given.model);
        for (position, expected) in expected.iter().enumerate() {
            let expected = named(expected);
            assert_eq!(expected.keys().collect::<Vec<_>>(), said.heads.keys().collect::<Vec<_>>());
            for (name, expected) in &expected {
                let found = numbers_of(&said.heads[name].get(position as i64));
                assert_eq!(found.len(), expected.len(), "{name}");
                for (found, expected) in found.iter().zip(expected) {
                    let bound = 1e-4 * (1.0 + expected.abs());
                    assert!((found - expected).abs() < bound, "{name} of {number}: {found}, not {expected}");
                }
            }
        }
    }
}

/// What cards do and what processors do is the same, and so are its slopes.
#[test]
fn experts_say_the_same_at_once_as_in_turn() {
    let mut architecture = Preset::Byte.architecture();
    for (gated, biases) in [(false, false), (true, true)] {
        let experts = tandem_transformer::Experts { count: 5, chosen: 2, width: 24, gated, biases };
        architecture.body.feed_forward = tandem_transformer::FeedForward::Experts(experts);
        let row = Row::of(&architecture, None);
        let numbers = row.join(&Weights::random(architecture.clone(), 3), None, Device::Cpu);
        let model = Model::new(&architecture, Kind::Double, Device::Cpu);
        let double = (Kind::Double, Device::Cpu);
        let width = architecture.body.width as i64;
        let rows = (Tensor::arange(11 * width, double) * 0.37).sin().view([11, width]);
        // Nobody chooses the last one.
        let order = Tensor::from_slice(&[0i64, 1, 3, 2]).view([2, 2]).repeat([6, 1]).narrow(0, 0, 11);
        let none = Tensor::zeros([11, 5], double);
        let chosen = none.scatter_value(1, &order, 1.0);
        let [turn, once] = [false, true].map(|at_once| {
            let numbers = numbers.to_kind(Kind::Double).copy().set_requires_grad(true);
            let rows = rows.copy().set_requires_grad(true);
            let shares = (&chosen * 0.3 * (Tensor::arange(5, double) + 1.0)).set_requires_grad(true);
            let tensors = row.split(&numbers);
            let pass = Pass { model: &model, tensors: &tensors, routing: RefCell::default() };
            let mixed = match at_once {
                true => pass.experts_at_once(&rows, &shares, "layers.1"),
                false => pass.experts_in_turn(&rows, &shares, &chosen, "layers.1"),
            };
            mixed.square().sum(Kind::Double).backward();
            // What an expert that was not asked would have said is no one's business.
            [mixed, rows.grad(), numbers.grad(), shares.grad() * &chosen].map(|tensor| tensor.detach())
        });
        for (turn, once) in turn.iter().zip(&once) {
            assert!(turn.abs().max().double_value(&[]) > 0.0);
            assert!((turn - once).abs().max().double_value(&[]) < 1e-9);
        }
    }
}

#[test]
fn a_row_holds_a_network_and_gives_it_back() {
    for architecture in architectures() {
        let weights = Weights::random(architecture.clone(), 3);
        let row = Row::of(&architecture, None);
        let joined = row.join(&weights, None, Device::Cpu);
        assert_eq!(joined.size(), [row.len()]);
        assert_eq!(row.weights(&architecture, &joined).unwrap(), weights);
        assert!(row.decayed() > 0 && row.decayed() < row.len());
        let ones = row.ones_but(|name| name.starts_with("layers.0."), Device::Cpu);
        let kept: usize = row
            .specs()
            .iter()
            .filter(|spec| !spec.name.starts_with("layers.0."))
            .map(|spec| spec.len())
            .sum();
        assert_eq!(ones.sum(Kind::Double).double_value(&[]) as usize, kept);
    }
}

/// Every tensor's slopes against the difference that a small step makes, in numbers of 64 bits.
#[test]
fn slopes_are_those_of_small_steps() {
    let all = architectures();
    let bare = all.iter().take(4).map(|architecture| (architecture.clone(), None));
    // The first has a code of the board that a bridge can lead to.
    let joined = [BridgeForm::Gated, BridgeForm::Plain].map(|form| (all[0].clone(), Some(form)));
    for (architecture, form) in bare.chain(joined) {
        let weights = Weights::random(architecture.clone(), 5);
        let bridge = form.zip(architecture.board_code()).map(|(form, code)| Bridge::random(form, 6, code, 4));
        let row = Row::of(&architecture, bridge.as_ref());
        let numbers = row.join(&weights, bridge.as_ref(), Device::Cpu).to_kind(Kind::Double);
        if bridge.is_some() {
            // Gates are closed at first, and all that is before them is without effect.
            let _ = numbers.narrow(0, row.decayed(), row.len() - row.decayed()).g_add_scalar_(0.03);
        }
        let numbers = numbers.set_requires_grad(true);
        let mut model = Model::new(&architecture, Kind::Double, Device::Cpu).with_bridge(form);
        model.mask = attention::mask(&architecture, Kind::Double, Device::Cpu);
        let mut given = given(&architecture, 2, 21);
        if let ModelInputs::Squares { seen, .. } = &mut given.model {
            let bytes: [u8; 12] = std::array::from_fn(|at| (at * 53 % 256) as u8);
            *seen = form.map(|_| Tensor::from_slice(&bytes).view([2, 6]));
        }
        // A sum of all that is said, each number with a weight of its own.
        let sum = |numbers: &Tensor| {
            let said = model.forward(&row.split(numbers), &given.model);
            let parts = said.heads.values().map(|head| {
                let flat = head.reshape([-1]);
                let weights = (Tensor::arange(flat.size()[0], (Kind::Double, Device::Cpu)) * 0.7).sin();
                (flat * weights).sum(Kind::Double)
            });
            parts.reduce(|left, right| left + right).unwrap()
        };
        sum(&numbers).backward();
        let slopes = numbers.grad();
        let mut at = 0;
        for spec in row.specs() {
            let len = spec.len() as i64;
            for place in [at, at + len / 2, at + len - 1] {
                let step = 1e-5;
                let moved = |by: f64| {
                    let moved = numbers.detach().copy();
                    let _ = moved.narrow(0, place, 1).g_add_scalar_(by);
                    tch::no_grad(|| sum(&moved).double_value(&[]))
                };
                let expected = (moved(step) - moved(-step)) / (2.0 * step);
                let found = slopes.double_value(&[place]);
                let bound = 1e-5 * (1.0 + expected.abs());
                assert!(
                    (found - expected).abs() < bound,
                    "{} at {place}: {found}, not {expected}",
                    spec.name
                );
            }
            at += len;
        }
    }
}
