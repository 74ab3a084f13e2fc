//! Any text is a position or an error; a position survives being written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tandem_chess::{Position, fen, perft};

fuzz_target!(|text: &str| {
    if let Ok(board) = fen::parse(text) {
        let written = fen::format(&board);
        assert_eq!(fen::parse(&written).as_ref(), Ok(&board), "{written}");
        // A board that makes no sense would fail here.
        perft(&mut Position::from(board), 2);
    }
});
