use super::*;
use crate::Preset;
use crate::encoding::planes::HISTORY;
use crate::test_nets::ARCHITECTURES;
use crate::weights::SQUARES_LAYER;
use flate2::read::GzDecoder;
use std::io::Read;
use tandem_util::protobuf::MessageView;

fn network() -> Weights {
    Weights::random(Architecture::from_toml(ARCHITECTURES[0]).unwrap(), 11)
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut unpacked).unwrap();
    unpacked
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

#[test]
fn every_tensor_has_a_path_of_its_own() {
    for architecture in [Preset::Bt4.architecture(), network().architecture().clone()] {
        let paths = tensor_paths(&architecture);
        assert_eq!(paths.len(), architecture.tensors().len());
        let distinct: std::collections::HashSet<_> = paths.iter().map(|path| path.path.clone()).collect();
        assert_eq!(distinct.len(), paths.len());
    }
}

#[test]
fn written_networks_are_read_back_up_to_rounding() {
    let weights = network();
    let bytes = weights.to_lc0().unwrap();
    let again = Weights::from_bytes(&bytes, None).unwrap();
    // Policy heads come in the order of the file.
    assert_eq!(again.architecture().heads.policy.as_ref().unwrap().aux_targets.len(), 3);
    assert_eq!(again.architecture(), weights.architecture());
    for ((spec, exact), (_, read)) in weights.iter().zip(again.iter()) {
        let range = exact.iter().fold(0f32, |range, number| range.max(number.abs())) * 2.0;
        // The clock's weights are stored in steps that are 99 times as large.
        let clock = if spec.name == "embedding.squares.weight" { 99.0 } else { 1.0 };
        let off = exact.iter().zip(read).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
        assert!(off <= clock * range / 65535.0 / 1.9, "{}: {off}", spec.name);
    }
    assert_eq!(again.to_lc0().unwrap(), bytes);
}

/// lc0 feeds the history planes to every network: one that must ignore them has zero weights there, and is
/// recognised by that.
#[test]
fn a_network_of_single_positions_stays_one() {
    let text = ARCHITECTURES[0].replacen("input = \"planes\"", "input = \"planes-single\"", 1);
    let architecture = Architecture::from_toml(&text).unwrap();
    assert_eq!(architecture.input, Input::PlanesSingle);
    let mut weights = Weights::random(architecture, 11);
    let again = Weights::from_lc0(&weights.to_lc0().unwrap()).unwrap();
    assert_eq!(again.architecture().input, Input::PlanesSingle);
    assert_eq!(again.to_lc0().unwrap(), weights.to_lc0().unwrap());
    let history = |weights: &Weights| {
        let values = weights.get(SQUARES_LAYER).unwrap();
        let row = values.len() / weights.architecture().body.width;
        values.chunks_exact(row).flat_map(|row| row[HISTORY].to_vec()).any(|number| number != 0.0)
    };
    assert!(!history(&weights) && !history(&again) && history(&network()));
    // Weights that are never used here are not written for programs that would use them.
    weights.get_mut(SQUARES_LAYER).unwrap().fill(0.05);
    assert!(!history(&Weights::from_lc0(&weights.to_lc0().unwrap()).unwrap()));
}

#[test]
fn parts_that_lc0_does_not_support_are_reported_by_name() {
    for (index, expected) in [(1, "an input other than 112 planes"), (2, "an input"), (3, "an input")] {
        let weights = Weights::random(Architecture::from_toml(ARCHITECTURES[index]).unwrap(), 1);
        let error = weights.to_lc0().unwrap_err().to_string();
        assert!(error.starts_with(&format!("lc0's format does not support {expected}")), "{error}");
    }
    for (from, to, expected) in [
        ("activation = \"mish\"", "activation = \"gelu\"", "the activation Gelu"),
        ("epsilon = 1e-3", "epsilon = 1e-5", "norms other than"),
        ("biases = true, compressed", "biases = false, compressed", "attention without biases"),
        ("[heads]", "[heads]\nmove_value = { width = 4 }", "values of moves"),
    ] {
        assert!(ARCHITECTURES[0].contains(from));
        let architecture = Architecture::from_toml(&ARCHITECTURES[0].replacen(from, to, 1)).unwrap();
        let error = Weights::random(architecture, 1).to_lc0().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Error for a file that declares these properties of its network and has no weights.
fn error_of(fields: &[(u32, u64)]) -> String {
    let mut network = Message::default();
    fields.iter().for_each(|&(number, value)| network.varint(number, value));
    let mut format = Message::default();
    format.varint(field::ENCODING, known::LINEAR_16);
    format.message(field::NETWORK_FORMAT, &network);
    let mut net = Message::default();
    net.fixed_32(field::MAGIC, MAGIC);
    net.message(field::FORMAT, &format);
    net.message(field::WEIGHTS, &Message::default());
    Weights::from_lc0(&packed(&net.into_bytes())).unwrap_err().to_string()
}

#[test]
fn other_kinds_of_lc0_networks_are_refused_by_name() {
    let bt: [(u32, u64); 6] = [(1, 1), (3, 7), (4, 3), (5, 2), (7, 1), (10, 2)];
    let with = |field: u32, value: u64| {
        let changed = bt.map(|(number, old)| (number, if number == field { value } else { old }));
        error_of(&changed)
    };
    assert!(with(3, 4).contains("a residual network with squeeze and excitation; networks of the BT family"));
    assert!(with(3, 3).contains("a residual network;"));
    assert!(with(3, 99).contains("a network of the unknown kind 99"));
    assert!(with(10, 1).contains("an embedding that does not see the whole board"));
    assert!(with(4, 1).contains("policy format at byte") && with(4, 1).contains("1 found, 3 expected"));
    assert!(with(1, 3).contains("input format"));
    assert!(with(7, 1).contains("without an embedding"), "{}", with(7, 1));
    let mut activated = bt.to_vec();
    activated.push((9, 8));
    assert!(error_of(&activated).contains("SquaredRelu, but Mish everywhere else"));
}

#[test]
fn a_missing_head_is_named() {
    let mut bytes = unpacked(&network().to_lc0().unwrap());
    let weights = MessageView { bytes: &bytes, offset: 0 }.message(field::WEIGHTS).unwrap().unwrap();
    let heads = weights.message(tensor_paths::VALUE_HEADS).unwrap().unwrap().offset;
    // Changes the first head to one with another name.
    assert_eq!(bytes[heads], 1 << 3 | 2);
    bytes[heads] = 4 << 3 | 2;
    let error = Weights::from_lc0(&bytes).unwrap_err().to_string();
    assert!(error.contains("without the head that lc0 calls winner"), "{error}");
}

#[test]
fn truncated_and_damaged_files_are_refused() {
    let bytes = network().to_lc0().unwrap();
    for len in [0, 5, 20, bytes.len() / 2, bytes.len() - 1] {
        assert!(Weights::from_lc0(&bytes[..len]).is_err(), "{len} bytes");
    }
    let whole = unpacked(&bytes);
    for len in [0, 4, 5, 6, 20, 60, whole.len() / 3, whole.len() - 1] {
        assert!(Weights::from_lc0(&packed(&whole[..len])).is_err(), "{len} bytes unpacked");
    }
    let mut infinite = whole.clone();
    // The minimum of the first tensor, which follows its key.
    let least =
        network().get("embedding.squares.weight").unwrap().iter().copied().fold(f32::INFINITY, f32::min);
    let at = whole.windows(4).position(|bytes| bytes == least.to_le_bytes()).unwrap();
    infinite[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let error = Weights::from_lc0(&packed(&infinite)).unwrap_err().to_string();
    assert!(error.contains("embedding.squares.weight: number 0 is NaN"), "{error}");
}

/// A small file must not take gigabytes of memory.
#[test]
fn a_file_that_unpacks_to_far_more_than_networks_do_is_refused() {
    let bytes = packed(&vec![0; 70 << 20]);
    assert!(bytes.len() < 1 << 20);
    let error = Weights::from_lc0(&bytes).unwrap_err().to_string();
    assert!(error.contains("unpack to more than 67108864"), "{error}");
}
