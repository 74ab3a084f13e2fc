//! FEN strings. Any string is either a position or an error, and a position survives a round trip.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tandem_chess::{Position, fen, perft};

fuzz_target!(|text: &str| {
    if let Ok(board) = fen::parse(text) {
        let written = fen::format(&board);
        assert_eq!(fen::parse(&written).as_ref(), Ok(&board), "{written}");
        // An inconsistent board would fail here.
        perft(&mut Position::from(board), 2);
    }
});
