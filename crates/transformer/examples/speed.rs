//! How long a network takes for a position, on one core: for each precision and instruction set, alone and in a batch.
//!
//! Time is what the system has given to this process, so that others on the machine do not count. The best of several
//! rounds is told.

use tandem_transformer::*;

/// 64 squares, 6 blocks of width 256 with 8 heads, a feed-forward layer of 1024, a policy and a value.
const NETWORK: &str = r#"
input = "squares"

[embedding]
kind = "positions"

[body]
width = 256
layers = 6
heads = 8
activation = "mish"
norm = { kind = "layer", place = "post", epsilon = 1e-3, deepnorm = true }
attention = { kind = "plain", biases = true }
feed_forward = { kind = "dense", width = 1024, biases = true }

[heads]
policy = { kind = "attention", width = 256 }
value = { channels = 32, hidden = 128 }
"#;

/// Seconds that this process has computed.
fn time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place to write to is good.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn milliseconds(network: &Network, batch: usize) -> Result<f64, InputError> {
    let channels = network.architecture().input.channels().unwrap_or(0);
    let numbers: Vec<f32> = (0..batch * 64 * channels).map(|index| f32::from(index % 7 == 0)).collect();
    let mut scratch = Scratch::default();
    let inputs = Inputs::Squares(&numbers);
    network.run(&inputs, &mut scratch)?;
    let mut best = f64::MAX;
    for _ in 0..20 {
        let runs = (8 / batch).max(1);
        let start = time();
        for _ in 0..runs {
            network.run(&inputs, &mut scratch)?;
        }
        best = best.min((time() - start) / (runs * batch) as f64);
    }
    Ok(best * 1e3)
}

/// Arguments name a preset, instruction sets and precisions; without them, all are measured.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let preset = arguments.iter().find_map(|name| Preset::named(name));
    let architecture =
        preset.map_or_else(|| Architecture::from_toml(NETWORK), |preset| Ok(preset.architecture()))?;
    let wanted = |names: &[&'static str], name: &str| {
        !names.iter().any(|name| arguments.iter().any(|argument| argument == name))
            || arguments.iter().any(|argument| argument == name)
    };
    let weights = Weights::random(architecture, 1);
    println!("{:16} {:>12} {:>12}   ms a position", "", "batch 1", "batch 16");
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        for precision in Precision::ALL {
            if wanted(&Isa::ALL.map(Isa::name), isa.name())
                && wanted(&Precision::ALL.map(Precision::name), precision.name())
            {
                let network = Network::new(&weights, precision, isa);
                let (one, many) = (milliseconds(&network, 1)?, milliseconds(&network, 16)?);
                println!("{:10} {:5} {one:12.3} {many:12.3}", isa.name(), precision.name());
            }
        }
    }
    Ok(())
}
