//! PGN files. Any bytes give games and errors, and a game survives a round trip.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tandem_chess::pgn::{self, Game, GameReader};

fn written(game: &Game) -> Vec<u8> {
    let mut text = Vec::new();
    pgn::write(&mut text, game).expect("what has been read is legal");
    text
}

fuzz_target!(|bytes: &[u8]| {
    for game in GameReader::new(bytes) {
        let game = match game {
            Ok(game) => game,
            Err(error) => {
                assert!(error.offset <= bytes.len() as u64, "{error}");
                continue;
            }
        };
        for ply in &game.moves {
            let _ = (ply.eval(), ply.clock());
        }
        let text = written(&game);
        let mut reader = GameReader::new(text.as_slice());
        let again = reader.next_game().expect("a game").unwrap_or_else(|error| panic!("{error}"));
        assert!(reader.next_game().is_none(), "one game became two");
        assert_eq!(again.start, game.start);
        assert_eq!(again.result, game.result);
        assert_eq!(again.moves.len(), game.moves.len());
        // Braces within comments are lost in the first round trip, and nothing in the second.
        assert_eq!(String::from_utf8_lossy(&written(&again)), String::from_utf8_lossy(&text));
    }
});
