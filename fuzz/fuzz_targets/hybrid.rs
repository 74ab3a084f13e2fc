//! Hybrid files (bridge and selector between two networks). Random bytes, and valid files with a few bytes
//! changed, are either refused with a message or read. What was read survives a round trip, byte for byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;
use tandem_fuzz::mutate;
use tandem_hybrid::{Bridge, BridgeForm, Fingerprint, Hybrid, Selector};

/// Valid files, with bridges so small that thousands of files per second can be tried.
fn files() -> &'static [Vec<u8>; 4] {
    static FILES: OnceLock<[Vec<u8>; 4]> = OnceLock::new();
    FILES.get_or_init(|| {
        let unlearnt = Hybrid::new(Fingerprint::of(b"nnue"), Fingerprint::of(b"transformer"));
        let bridge = |form| Some(Bridge::random(form, 6, 4, 1));
        let selector = Some(Selector::random(1));
        [
            Hybrid { bridge: bridge(BridgeForm::Gated), selector: selector.clone(), ..unlearnt.clone() },
            Hybrid { bridge: bridge(BridgeForm::Plain), ..unlearnt.clone() },
            Hybrid { selector, ..unlearnt.clone() },
            unlearnt,
        ]
        .map(|hybrid| hybrid.to_bytes())
    })
}

fn read(bytes: &[u8]) {
    let Ok(hybrid) = Hybrid::from_bytes(bytes) else { return };
    let written = hybrid.to_bytes();
    let again = Hybrid::from_bytes(&written).expect("what was written can be read");
    assert_eq!(again, hybrid);
    assert_eq!(again.to_bytes(), written);
}

fuzz_target!(|bytes: &[u8]| {
    let [kind, rest @ ..] = bytes else { return };
    if kind & 0x80 == 0 {
        return read(rest);
    }
    read(&mutate(files()[usize::from(kind & 3)].clone(), rest));
});
