//! Moves in UCI notation. Any word is either a legal move or an error. The first line of the input is a
//! position; each other line is a word.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tandem_chess::move_map::{lc0, searchless};
use tandem_chess::{fen, uci};

fuzz_target!(|text: &str| {
    let mut lines = text.lines();
    let Some(Ok(board)) = lines.next().map(fen::parse) else { return };
    for word in lines {
        if let Ok(mv) = uci::parse(&board, word) {
            assert!(board.is_legal(mv), "{word} read as {mv}");
            let written = uci::format(&board, mv, true);
            assert_eq!(uci::parse(&board, &written), Ok(mv), "{written}");
            assert_eq!(lc0::move_of(&board, lc0::index_of(&board, mv)), Some(mv));
            if let Some(index) = searchless::index_of(&board, mv) {
                assert_eq!(searchless::move_of(&board, index), Some(mv));
            }
        }
    }
});
