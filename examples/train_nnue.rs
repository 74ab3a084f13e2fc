//! Trains a small NNUE from code on the CPU, quantises it and writes the network file, in a few seconds.
//!
//! ```sh
//! cargo run --release -p tandem-examples --example generate_data -- target/games.binpack 100
//! cargo run --release -p tandem-examples --example train_nnue -- target/games.binpack target/small.tnn
//! ```
//!
//! A network that plays well needs a hundred million positions rather than ten thousand: the recipe in
//! docs/training-nnue.md trains one, and `tandem-lab train` does all of this on the command line or a GPU.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tandem_chess::Board;
use tandem_train::{CpuTrainer, Event, Job, Recipe, RunOptions, run};
use tandem_util::output::write_atomically;

/// All keys have defaults, except for the name, the data and the network; `Recipe::explain` prints them.
const RECIPE: &str = r#"
name = "small"
[data]
train = [{ path = "FILE" }]
[network]
features = "768"
accumulator = 64
[target]
wdl = 0.3                 # weight of the game's result in the target; the rest is the score's
[training]
batch = 1024
positions = 400_000       # more than 30 epochs
[lr]
kind = "cosine"
start = 0.005
end = 0.0005
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data, output] = &arguments[..] else { return Err("usage: train_nnue DATA NETWORK".into()) };
    let recipe = Recipe::parse(&RECIPE.replace("FILE", data))?;

    // Checkpoints and logs go to this folder. An interrupted run goes on from there.
    let folder = Path::new(output).with_extension("run");
    let stop = AtomicBool::new(false);
    let options = RunOptions { folder: &folder, resume: true, threads: 2, stop: &stop };
    let outcome = run(
        &recipe,
        &options,
        &|job, state| Ok(Box::new(CpuTrainer::new(job.clone(), state))),
        &mut |event| {
            if let Event::Steps { step, metrics, positions_per_second, .. } = event {
                println!("step {step:4}  loss {:.5}  {positions_per_second:.0} positions/s", metrics.loss);
            }
        },
    )?;

    let (network, errors) = outcome.network.quantise(Job::of(&recipe)?.quantisation)?;
    for error in errors {
        println!("{}: the largest rounding error is {:.5}", error.name, error.max_error);
    }
    write_atomically(Path::new(output), &network.to_bytes())?;
    std::fs::remove_dir_all(&folder)?;
    let score = network.evaluate(&Board::default()).centipawns();
    println!("{output}: {}, {score} centipawns for the start position", network.architecture());
    Ok(())
}
