//! Writes a network of random numbers to files, so that programs that read them can be tried:
//!
//! ```sh
//! cargo run --example export -- bt-small 1 x.safetensors x.onnx x.pb.gz x.ttn
//! ```
//!
//! The first argument is the name of a preset, the path of an architecture in TOML, or a network file, whose numbers are
//! then taken; the second is the seed. A file's ending says what it becomes; `.bf16.ttn` and `.int8.ttn` are smaller.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use tandem_chess::output::write_whole;
use tandem_transformer::{Architecture, Preset, Storage, Weights};

fn network(source: &str, seed: u64) -> Result<Weights, Box<dyn Error>> {
    if let Some(preset) = Preset::named(source) {
        return Ok(Weights::random(preset.architecture(), seed));
    }
    if source.ends_with(".toml") {
        let architecture = Architecture::from_toml(&std::fs::read_to_string(source)?)?;
        return Ok(Weights::random(architecture, seed));
    }
    Ok(Weights::load(source, None)?)
}

fn write(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [source, seed, files @ ..] = arguments else {
        return Err("a preset, an architecture or a network; a seed; and files are needed".into());
    };
    let weights = network(source, seed.parse()?)?;
    let description = format!("{source}, seed {seed}");
    for file in files {
        let bytes = match file.as_str() {
            name if name.ends_with(".safetensors") => weights.to_safetensors(&description),
            name if name.ends_with(".onnx") => weights.to_onnx(),
            name if name.ends_with(".pb.gz") => weights.to_lc0()?,
            name if name.ends_with(".int8.ttn") => weights.to_bytes(Storage::Int8, &description),
            name if name.ends_with(".bf16.ttn") => weights.to_bytes(Storage::Bf16, &description),
            name if name.ends_with(".ttn") => weights.to_bytes(Storage::F32, &description),
            name => return Err(format!("{name}: ends like no file that we write").into()),
        };
        write_whole(Path::new(file), &bytes)?;
        println!("{file}: {} bytes", bytes.len());
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match write(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
