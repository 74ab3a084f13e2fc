//! Lines sent to the engine. After any line, the engine must be able to read the next one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tandem::{Next, Uci};

/// Skips commands that would take long or allocate much memory.
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
        // Stops whatever the line started.
        engine.execute("stop");
        engine.finish_work();
    }
});
