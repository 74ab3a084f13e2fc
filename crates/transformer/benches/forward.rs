//! Benchmark of a forward pass on one core, for each instruction set, precision and batch size:
//! `cargo bench -p tandem-transformer --bench forward`.
//!
//! The network is that of `speed.toml`, with random weights; the environment variable `TANDEM_ARCHITECTURE` names
//! another file, or a preset, for squares or planes. A filter selects cases: `-- "avx512 int8"`.

use divan::Bencher;
use divan::counter::ItemsCount;
use std::fmt;
use std::hint::black_box;
use tandem_transformer::{Architecture, Inputs, Isa, Network, Precision, Preset, Scratch, Weights};

const ARCHITECTURE: &str = include_str!("speed.toml");
const BATCHES: [usize; 2] = [1, 16];

fn main() {
    divan::main();
}

struct Case {
    isa: Isa,
    precision: Precision,
    batch: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} batch {}", self.isa.name(), self.precision.name(), self.batch)
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for isa in Isa::available() {
        for precision in Precision::ALL {
            cases.extend(BATCHES.map(|batch| Case { isa, precision, batch }));
        }
    }
    cases
}

fn architecture() -> Architecture {
    let Ok(name) = std::env::var("TANDEM_ARCHITECTURE") else {
        return Architecture::from_toml(ARCHITECTURE).expect("a valid architecture");
    };
    if let Some(preset) = Preset::named(&name) {
        return preset.architecture();
    }
    let text = std::fs::read_to_string(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
    Architecture::from_toml(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Items are positions.
#[divan::bench(args = cases(), sample_size = 1)]
fn forward(bencher: Bencher<'_, '_>, case: &Case) {
    let network = Network::new(&Weights::random(architecture(), 1), case.precision, case.isa);
    let channels = network.architecture().input.channels().expect("an architecture for squares or planes");
    let values: Vec<f32> = (0..case.batch * 64 * channels).map(|index| f32::from(index % 7 == 0)).collect();
    let mut scratch = Scratch::default();
    bencher
        .counter(ItemsCount::new(case.batch))
        .bench_local(|| network.run(&Inputs::Squares(black_box(&values)), &mut scratch).map(<[_]>::len));
}
