//! Any lines leave the engine able to read the next one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tandem::{Next, Uci};

/// Work that would take long, or much memory, is not what this target is after.
fn is_light(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let big_number = words.iter().any(|word| word.len() > 1 && word.chars().all(|c| c.is_ascii_digit()));
    match words.first().copied() {
        Some("bench" | "speedtest" | "genfens" | "perft" | "quit") => false,
        Some("go") => !words.contains(&"perft"),
        Some("setoption") => !big_number && !line.contains("Syzygy"),
        _ => true,
    }
}

fuzz_target!(|text: &str| {
    let mut engine = Uci::new();
    for line in text.lines().filter(|line| is_light(line)).take(50) {
        if engine.execute(line) == Next::Quit {
            break;
        }
        // Whatever was begun, it ends now.
        engine.execute("stop");
        engine.settle();
    }
});
