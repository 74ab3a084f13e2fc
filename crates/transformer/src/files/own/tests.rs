use super::*;
use crate::Preset;
use crate::test_nets::ARCHITECTURES;

fn networks() -> impl Iterator<Item = Weights> {
    ARCHITECTURES.into_iter().map(|text| Weights::random(Architecture::from_toml(text).unwrap(), 5))
}

/// Bytes that begin where numbers can be read in place, as those of a mapped file do.
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

fn told(bytes: &[u8]) -> String {
    NetworkFile::new(Lines::new(bytes)).unwrap_err().to_string()
}

#[test]
fn what_is_written_is_read_again() {
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
fn small_numbers_are_near_and_stay_what_they_are() {
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
fn the_largest_numbers_can_be_read_again() {
    let mut weights = networks().next().unwrap();
    let (spec, _) = weights.iter().find(|(spec, _)| is_quantised(spec)).unwrap();
    weights.get_mut(&spec.name).unwrap()[..2].copy_from_slice(&[f32::MAX, f32::MIN]);
    for storage in [Storage::Bf16, Storage::Int8] {
        let again = Weights::from_bytes(&weights.to_bytes(storage, ""), None).unwrap();
        let [most, least] = again.get(&spec.name).unwrap()[..2] else { panic!("two numbers") };
        assert!(most > 0.99 * f32::MAX && least < 0.99 * f32::MIN, "{storage:?}: {most}, {least}");
    }
}

#[test]
fn bytes_have_no_number_without_its_opposite() {
    let weights = networks().next().unwrap();
    let mut bytes = weights.to_bytes(Storage::Int8, "");
    let file = NetworkFile::new(Lines::new(&bytes)).unwrap();
    let (spec, _, [_, numbers]) =
        file.tensors.iter().find(|(_, storage, _)| *storage == Storage::Int8).unwrap();
    bytes[numbers.start + 2] = 0x80;
    reseal(&mut bytes);
    let told = told(&bytes);
    assert!(told.contains(&spec.name) && told.contains("-128"), "{told}");
}

#[test]
fn a_mapped_file_is_read_in_place() {
    let path = std::env::temp_dir().join(format!("tandem-transformer-{}.ttn", std::process::id()));
    let weights = networks().next().unwrap();
    tandem_chess::output::write_whole(&path, &weights.to_bytes(Storage::Int8, "mapped")).unwrap();
    let file = NetworkFile::open(&path).unwrap();
    assert_eq!(file.architecture(), weights.architecture());
    for (spec, stored) in file.iter() {
        let numbers = match stored {
            Stored::F32(numbers) => numbers.as_ptr().addr(),
            Stored::Int8 { bytes, scales } => bytes.as_ptr().addr() | scales.as_ptr().addr(),
            Stored::Bf16(_) => 1,
        };
        assert!(numbers.is_multiple_of(ALIGNMENT), "{}", spec.name);
    }
    let loaded = Weights::load(&path, None).unwrap();
    assert_eq!(loaded, file.to_weights().unwrap());
    std::fs::remove_file(&path).unwrap();
    let error = NetworkFile::open(&path).unwrap_err().to_string();
    assert!(error.contains(".ttn: "), "{error}");
}

#[test]
fn a_file_that_is_cut_or_damaged_is_refused() {
    let weights = networks().next().unwrap();
    let bytes = weights.to_bytes(Storage::Bf16, "");
    let header = 16 + u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    for len in (0..header + 64).chain([bytes.len() / 2, bytes.len() - 9, bytes.len() - 1]) {
        assert!(NetworkFile::new(Lines::new(&bytes[..len])).is_err(), "{len} bytes");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(told(&longer).contains("9 bytes follow"), "{}", told(&longer));
    for at in (0..header).chain([bytes.len() / 2, bytes.len() - 1]) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x04;
        assert!(NetworkFile::new(Lines::new(&damaged)).is_err(), "byte {at}");
    }
    let mut long_header = bytes.clone();
    long_header[15] = 0x7F;
    assert!(told(&long_header).starts_with("header at byte 12: a length of"), "{}", told(&long_header));
    let mut shifted = vec![0];
    shifted.extend(&bytes);
    let lines = Lines::new(&shifted);
    let error = NetworkFile::new(&lines.as_ref()[1..]).unwrap_err().to_string();
    assert!(error.contains("where numbers can be read in place"), "{error}");
}

/// A file with a part of its header changed, whose numbers begin where the new one ends.
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
    told(&file)
}

#[test]
fn headers_that_no_network_can_have_are_refused() {
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
        let told = edited(&weights, from, to);
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn numbers_that_are_none_are_told_by_their_place() {
    let mut weights = networks().nth(1).unwrap();
    weights.get_mut("layers.1.router.weight").unwrap()[7] = f32::NAN;
    let bytes = weights.to_bytes(Storage::F32, "");
    assert_eq!(told(&bytes), "tensor layers.1.router.weight: number 7 is NaN");
}

#[test]
fn a_network_is_run_in_the_numbers_of_its_file() {
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
