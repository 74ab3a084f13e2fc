//! Moves in algebraic notation. Any word is either a legal move or an error. The first line of the input is a
//! position; each other line is a word.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tandem_chess::{fen, san};

fuzz_target!(|text: &str| {
    let mut lines = text.lines();
    let Some(Ok(board)) = lines.next().map(fen::parse) else { return };
    for word in lines {
        if let Ok(mv) = san::parse(&board, word) {
            assert!(board.is_legal(mv), "{word} read as {mv}");
            let written = san::format(&board, mv);
            assert_eq!(san::parse(&board, &written), Ok(mv), "{written}");
        }
    }
});
