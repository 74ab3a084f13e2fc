//! Network files of every format that says what it is: refused with a message, or read and evaluated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tandem_chess::Position;
use tandem_nnue::Network;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(network) = Network::from_bytes(bytes) {
        network.evaluate(Position::startpos().board());
        assert_eq!(Network::from_bytes(&network.to_bytes()).map(|again| again.to_bytes()).ok(), Some(network.to_bytes()));
    }
});
