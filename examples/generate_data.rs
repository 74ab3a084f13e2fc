//! Generates training data: plays games against itself and writes their positions, with move, score and
//! result, to a file of any format.
//!
//! ```sh
//! cargo run --release -p tandem-examples --example generate_data -- target/games.binpack 100
//! ```
//!
//! The second argument is the number of games. The games depend on the seed alone, so that everybody gets the
//! same file. For many games use `tandem-lab data selfplay`, which uses all cores and can be interrupted.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tandem_data::{Options, RecordWriter, Source};
use tandem_search::{Bootstrap, Evaluator, Searcher};
use tandem_selfplay::{Adjudication, Openings, PlaySettings, play_game};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, games] = &arguments[..] else { return Err("usage: generate_data FILE GAMES".into()) };
    let settings = PlaySettings {
        // The hand-written evaluation. A network plays better games: see `Nnue` in tandem-search.
        factory: Arc::new(|| Box::new(Bootstrap::default()) as Box<dyn Evaluator>),
        evaluator: "bootstrap".into(),
        games: games.parse()?,
        seed: 1,
        soft_nodes: 500,
        hash: 4,
        workers: 1,
        openings: Openings::default(),
        adjudication: Adjudication::default(),
    };
    let mut searcher = Searcher::new(Arc::clone(&settings.factory), settings.hash)?;
    // The extension of the name decides on the format: .binpack, .vf, .bf, .plain, .csv, …
    let mut writer = RecordWriter::create(Source::parse(path, &Options::default())?.remove(0))?;
    let mut positions = 0;
    for number in 0..settings.games {
        let game = play_game(&mut searcher, &settings, number, &AtomicBool::new(false))?;
        for record in game.ok_or("cancelled")?.records {
            writer.write(&record)?;
            positions += 1;
        }
    }
    // Until here the file has a temporary name: a program that is interrupted leaves no broken file.
    writer.finish()?;
    println!("{positions} positions of {games} games in {path}");
    Ok(())
}
