//! Transformer files. Random bytes, and valid files with a few bytes changed, are either refused with a
//! message or read. A network that was read survives a round trip in the same format. The first byte selects
//! the format.
#![no_main]

use flate2::read::GzDecoder;
use libfuzzer_sys::fuzz_target;
use std::io::Read;
use std::sync::OnceLock;
use tandem_fuzz::mutate;
use tandem_transformer::*;

/// Small, so that thousands of files per second can be tried.
const ARCHITECTURES: [&str; 3] = [
    include_str!("../../crates/transformer/tests/architectures/board.toml"),
    include_str!("../../crates/transformer/tests/architectures/squares.toml"),
    include_str!("../../crates/transformer/tests/architectures/moves.toml"),
];

/// Valid files of each format.
fn files() -> &'static [Vec<Vec<u8>>; 3] {
    static FILES: OnceLock<[Vec<Vec<u8>>; 3]> = OnceLock::new();
    FILES.get_or_init(|| {
        let networks = ARCHITECTURES.map(|text| {
            // Shrinks the two largest layers.
            let text = text.replace("channels = 3", "channels = 1").replace("generated = 6", "generated = 1");
            Weights::random(Architecture::from_toml(&text).expect("valid"), 1)
        });
        let mut unpacked = Vec::new();
        let packed = networks[0].to_lc0().expect("lc0 can represent it");
        GzDecoder::new(packed.as_slice()).read_to_end(&mut unpacked).expect("it was compressed above");
        let storages = [Storage::F32, Storage::Bf16, Storage::Int8];
        [
            networks
                .iter()
                .zip(storages)
                .map(|(network, storage)| network.to_bytes(storage, "seed"))
                .collect(),
            networks.iter().map(|network| network.to_safetensors("seed")).collect(),
            // ONNX files are described but not read as networks.
            vec![packed, unpacked, networks[1].to_onnx()],
        ]
    })
}

fn read(format: u8, bytes: &[u8]) {
    let described = FileDescription::read(bytes);
    let Ok(weights) = Weights::from_bytes(bytes, None) else { return };
    let described = described.expect("what can be read says what it is");
    assert!(described.architecture.is_none_or(|architecture| architecture == *weights.architecture()));
    let written = match format {
        0 => weights.to_bytes(Storage::F32, ""),
        1 => weights.to_safetensors(""),
        _ => weights.to_lc0().expect("a network read from lc0's format can be written"),
    };
    let again = Weights::from_bytes(&written, None).expect("what was written can be read");
    assert_eq!(again.architecture(), weights.architecture());
    if format < 2 {
        assert_eq!(again, weights);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let [kind, which, rest @ ..] = bytes else { return };
    let format = kind % 3;
    if kind & 0x80 == 0 {
        return read(format, rest);
    }
    let good = &files()[usize::from(format)];
    let mut file = mutate(good[usize::from(*which) % good.len()].clone(), rest);
    if format == 0 && kind & 0x40 == 0 {
        reseal(&mut file);
    }
    read(format, &file);
});
