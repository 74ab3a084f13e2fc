//! Measures the time of a forward pass for each position, on one core: for each precision and instruction
//! set, with one position and in batches.
//!
//! CPU time of this process is measured, so that other processes do not count, and the fastest run is
//! reported.

use tandem_transformer::*;

const NETWORK: &str = include_str!("speed.toml");
const BATCHES: [usize; 2] = [1, 16];
/// Duration of each measurement.
const SECONDS: f64 = 0.5;

/// CPU time of this process in seconds.
fn time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn milliseconds(network: &Network, batch: usize) -> Result<f64, InputError> {
    let channels = network.architecture().input.channels().unwrap_or(0);
    let values: Vec<f32> = (0..batch * 64 * channels).map(|index| f32::from(index % 7 == 0)).collect();
    let mut scratch = Scratch::default();
    let inputs = Inputs::Squares(&values);
    network.run(&inputs, &mut scratch)?;
    let (begin, mut best) = (time(), f64::MAX);
    // The fastest single run: if it is not interrupted, it finds the caches as the run before left them.
    while time() - begin < SECONDS {
        let start = time();
        network.run(&inputs, &mut scratch)?;
        best = best.min((time() - start) / batch as f64);
    }
    Ok(best * 1e3)
}

/// Arguments select a preset or an architecture file (for squares or planes), instruction sets, precisions
/// and batch sizes; without any, all are measured.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let preset = arguments.iter().find_map(|name| Preset::named(name));
    let file = arguments.iter().find(|name| name.ends_with(".toml"));
    let text = file.map_or_else(|| Ok(NETWORK.into()), std::fs::read_to_string)?;
    let architecture =
        preset.map_or_else(|| Architecture::from_toml(&text), |preset| Ok(preset.architecture()))?;
    let wanted = |names: &[&'static str], name: &str| {
        !names.iter().any(|name| arguments.iter().any(|argument| argument == name))
            || arguments.iter().any(|argument| argument == name)
    };
    let mut batches: Vec<usize> =
        arguments.iter().filter_map(|argument| argument.parse().ok()).filter(|&batch| batch > 0).collect();
    if batches.is_empty() {
        batches.extend(BATCHES);
    }
    let weights = Weights::random(architecture, 1);
    print!("{:16}", "ms a position");
    batches.iter().for_each(|batch| print!(" {:>9}", format!("batch {batch}")));
    println!();
    for isa in Isa::available() {
        for precision in Precision::ALL {
            if wanted(&Isa::ALL.map(Isa::name), isa.name())
                && wanted(&Precision::ALL.map(Precision::name), precision.name())
            {
                let network = Network::new(&weights, precision, isa);
                print!("{:10} {:5}", isa.name(), precision.name());
                for &batch in &batches {
                    print!(" {:9.3}", milliseconds(&network, batch)?);
                }
                println!();
            }
        }
    }
    Ok(())
}
