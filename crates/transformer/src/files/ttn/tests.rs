use super::*;
use crate::Preset;
use crate::test_nets::ARCHITECTURES;

fn networks() -> impl Iterator<Item = Weights> {
    ARCHITECTURES.into_iter().map(|text| Weights::random(Architecture::from_toml(text).unwrap(), 5))
}

/// Bytes that are aligned to a cache line, as those of a mapped file are.
#[derive(Debug)]
struct Lines {
    words: Vec<[u64; 8]>,
    len: usize,
}

impl Lines {
    fn new(bytes: &[u8]) -> Self {
        let mut words = vec![[0u64; 8]; bytes.len().div_ceil(64)];
        bytemuck::cast_slice_mut::<_, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Self { words, len: bytes.len() }
    }
}

impl AsRef<[u8]> for Lines {
    fn as_ref(&self) -> &[u8] {
        &cast_slice(&self.words)[..self.len]
    }
}

fn error_of(bytes: &[u8]) -> String {
    NetworkFile::new(Lines::new(bytes)).unwrap_err().to_string()
}

#[test]
fn written_networks_are_read_back() {
    for weights in networks() {
        let bytes = weights.to_bytes(Storage::F32, "a \"test\"\nof two lines");
        let file = NetworkFile::new(Lines::new(&bytes)).unwrap();
        assert_eq!(file.description(), "a \"test\"\nof two lines");
        assert_eq!(file.to_weights().unwrap(), weights);
        assert!(file.iter().all(|(_, stored)| matches!(stored, Stored::F32(_))));
        assert_eq!(Weights::from_bytes(&bytes, None).unwrap(), weights);
    }
}

#[test]
fn quantised_files_are_accurate_and_stable() {
    for weights in networks() {
        for (storage, near) in [(Storage::Bf16, 1.0 / 256.0), (Storage::Int8, 0.51 / 127.0)] {
            let bytes = weights.to_bytes(storage, "");
            let again = NetworkFile::new(Lines::new(&bytes)).unwrap().to_weights().unwrap();
            for ((spec, exact), (_, read)) in weights.iter().zip(again.iter()) {
                let largest = exact.iter().fold(0f32, |largest, number| largest.max(number.abs()));
                let off =
                    exact.iter().zip(read).map(|(exact, read)| (exact - read).abs()).fold(0.0, f32::max);
                let allowed = if is_quantised(&spec) { largest * near } else { 0.0 };
                assert!(off <= allowed, "{}: {off}, {allowed} allowed", spec.name);
            }
            assert_eq!(again.to_bytes(storage, ""), bytes);
        }
    }
}

#[test]
fn the_largest_values_stay_finite() {
    let mut weights = networks().next().unwrap();
    let (spec, _) = weights.iter().find(|(spec, _)| is_quantised(spec)).unwrap();
    weights.get_mut(&spec.name).unwrap()[..2].copy_from_slice(&[f32::MAX, f32::MIN]);
    for storage in [Storage::Bf16, Storage::Int8] {
        let again = Weights::from_bytes(&weights.to_bytes(storage, ""), None).unwrap();
        let [most, least] = again.get(&spec.name).unwrap()[..2] else { panic!("two values") };
        assert!(most > 0.99 * f32::MAX && least < 0.99 * f32::MIN, "{storage:?}: {most}, {least}");
    }
}

#[test]
fn int8_values_of_minus_128_are_refused() {
    let weights = networks().next().unwrap();
    let mut bytes = weights.to_bytes(Storage::Int8, "");
    let file = NetworkFile::new(Lines::new(&bytes)).unwrap();
    let (spec, _, [_, values]) =
        file.tensors.iter().find(|(_, storage, _)| *storage == Storage::Int8).unwrap();
    bytes[values.start + 2] = 0x80;
    reseal(&mut bytes);
    let error = error_of(&bytes);
    assert!(error.contains(&spec.name) && error.contains("-128"), "{error}");
}

#[test]
fn a_mapped_file_is_read_in_place() {
    let path = std::env::temp_dir().join(format!("tandem-transformer-{}.ttn", std::process::id()));
    let weights = networks().next().unwrap();
    tandem_util::output::write_atomically(&path, &weights.to_bytes(Storage::Int8, "mapped")).unwrap();
    let file = NetworkFile::open(&path).unwrap();
    assert_eq!(file.architecture(), weights.architecture());
    for (spec, stored) in file.iter() {
        let values = match stored {
            Stored::F32(values) => values.as_ptr().addr(),
            Stored::Int8 { bytes, scales } => bytes.as_ptr().addr() | scales.as_ptr().addr(),
            Stored::Bf16(_) => 1,
        };
        assert!(values.is_multiple_of(ALIGNMENT), "{}", spec.name);
    }
    let loaded = Weights::load(&path, None).unwrap();
    assert_eq!(loaded, file.to_weights().unwrap());
    std::fs::remove_file(&path).unwrap();
    let error = NetworkFile::open(&path).unwrap_err().to_string();
    assert!(error.contains(".ttn: "), "{error}");
}

#[test]
fn truncated_and_damaged_files_are_refused() {
    let weights = networks().next().unwrap();
    let bytes = weights.to_bytes(Storage::Bf16, "");
    let header = 16 + u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    for len in (0..header + 64).chain([bytes.len() / 2, bytes.len() - 9, bytes.len() - 1]) {
        assert!(NetworkFile::new(Lines::new(&bytes[..len])).is_err(), "{len} bytes");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(error_of(&longer).contains("9 bytes follow"), "{}", error_of(&longer));
    for at in (0..header).chain([bytes.len() / 2, bytes.len() - 1]) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x04;
        assert!(NetworkFile::new(Lines::new(&damaged)).is_err(), "byte {at}");
    }
    let mut long_header = bytes.clone();
    long_header[15] = 0x7F;
    assert!(
        error_of(&long_header).starts_with("header at byte 12: a length of"),
        "{}",
        error_of(&long_header)
    );
    let mut shifted = vec![0];
    shifted.extend(&bytes);
    let lines = Lines::new(&shifted);
    let error = NetworkFile::new(&lines.as_ref()[1..]).unwrap_err().to_string();
    assert!(error.contains("where values can be read in place"), "{error}");
}

/// Error for a file whose header was edited and whose tensors were moved to follow it.
fn edited(weights: &Weights, from: &str, to: &str) -> String {
    let bytes = weights.to_bytes(Storage::F32, "");
    let len = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let text = str::from_utf8(&bytes[16..16 + len]).unwrap();
    assert!(text.contains(from), "{text}");
    let text = text.replacen(from, to, 1);
    let mut file = bytes[..12].to_vec();
    file.extend((text.len() as u32).to_le_bytes());
    file.extend(text.as_bytes());
    file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
    file.extend(&bytes[(16 + len).next_multiple_of(ALIGNMENT)..]);
    reseal(&mut file);
    error_of(&file)
}

#[test]
fn impossible_headers_are_refused() {
    let weights = Weights::random(Preset::Byte.architecture(), 1);
    for (from, to, expected) in [
        (
            "width = 64",
            "width = 32",
            "tensor embedding.table is [1968, 64], but the architecture has it as [1968, 32]",
        ),
        ("name = \"embedding.positions\"", "name = \"positions\"", "tensor embedding.positions is missing"),
        (
            "count = 8",
            "count = 9",
            "tensor layers.0.router.weight is [8, 64], but the architecture has it as [9, 64]",
        ),
        ("count = 8", "count = 256", "architecture at byte 16: has at least 2064 tensors"),
        ("layers = 4", "layers = 99999999", "body.layers: 99999999 is not from 1"),
        ("description = \"\"", "depiction = \"\"", "unknown field `depiction`"),
        (
            "storage = \"f32\"",
            "storage = \"int8\"",
            "embedding.table in the header at byte 16: only weights of layers",
        ),
        ("shape = [1968, 64]", "shape = [1968, -64]", "header at byte 16"),
    ] {
        let error = edited(&weights, from, to);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn nan_is_reported_by_tensor_and_index() {
    let mut weights = networks().nth(1).unwrap();
    weights.get_mut("layers.1.router.weight").unwrap()[7] = f32::NAN;
    let bytes = weights.to_bytes(Storage::F32, "");
    assert_eq!(error_of(&bytes), "tensor layers.1.router.weight: number 7 is NaN");
}

#[test]
fn a_network_computes_in_the_precision_of_its_file() {
    use crate::{Isa, Network, Precision};
    let weights = networks().next().unwrap();
    let path = std::env::temp_dir().join(format!("tandem-precision-{}.ttn", std::process::id()));
    let files = [
        (weights.to_bytes(Storage::F32, ""), Precision::F32),
        (weights.to_bytes(Storage::Bf16, ""), Precision::Bf16),
        (weights.to_bytes(Storage::Int8, ""), Precision::Int8),
    ];
    for (bytes, precision) in files {
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(Network::load(&path, Isa::Portable).unwrap().precision(), precision);
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn old_spellings_in_headers_are_read_and_new_ones_written() {
    let text = ARCHITECTURES[0].replacen("\"planes\"", "\"planes-single\"", 1);
    let weights = Weights::random(Architecture::from_toml(&text).unwrap(), 5);
    let bytes = weights.to_bytes(Storage::F32, "");
    let len = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let header = str::from_utf8(&bytes[16..16 + len]).unwrap();
    assert!(header.contains("aux_targets = [") && header.contains("input = \"planes-single\""), "{header}");
    let old = header
        .replacen("aux_targets", "beside", 1) // language: old name
        .replacen("planes-single", "lone-planes", 1); // language: old name
    let mut file = bytes[..12].to_vec();
    file.extend((old.len() as u32).to_le_bytes());
    file.extend(old.as_bytes());
    file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
    file.extend(&bytes[(16 + len).next_multiple_of(ALIGNMENT)..]);
    reseal(&mut file);
    let read = NetworkFile::new(Lines::new(&file)).unwrap();
    assert_eq!(read.to_weights().unwrap(), weights);
    assert_eq!(read.to_weights().unwrap().to_bytes(Storage::F32, ""), bytes);
}

/// The shipped network was written before keys of its architecture were renamed.
#[test]
fn the_shipped_strategist_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../nets/strategist.ttn");
    let file = NetworkFile::open(path).unwrap();
    assert_eq!(file.architecture().input, crate::Input::PlanesSingle);
    let policy = file.architecture().heads.policy.as_ref().unwrap();
    assert_eq!(policy.aux_targets, [crate::PolicyTarget::Opponent]);
}
