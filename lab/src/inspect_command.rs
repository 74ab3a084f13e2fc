//! `tandem-lab inspect`: prints the format, architecture and parameters of network files.

mod facts;
mod hybrid;
mod transformer;

use crate::any_network::{AnyNetwork, built_in, is_hybrid, parameters};
use crate::error::LabError;
use crate::model_card::sha256;
use crate::transformer_file::{TransformerFile, architecture_named};
use clap::Args;
use clap::builder::PossibleValuesParser;
use facts::Facts;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tandem_nnue::{Format, HeadShape, Quantisation};
use tandem_transformer::Preset;

/// Print the format, architecture and size of network files
///
/// Supports NNUEs: Tandem's own, Stockfish's of versions 12 to 17, Jomfish's, the HALFKP16 format (see
/// docs/formats.md), and those in floating point; and transformers: Tandem's own, safetensors, lc0's of the
/// BT family, and ONNX graphs; and hybrids. For a transformer's description in TOML, prints the network it
/// describes. A damaged file is rejected with the field and the byte offset of the damage.
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// Network files to inspect, or TOML files that describe transformers; `tactician` and `strategist` name the
    /// built-in NNUE and transformer
    #[arg(required_unless_present = "preset")]
    files: Vec<PathBuf>,
    /// Print the architecture of a predefined transformer as a commented TOML file, and exit
    #[arg(long, conflicts_with_all = ["files", "tensors", "toml"], value_parser = PossibleValuesParser::new(Preset::ALL.map(Preset::name)))]
    preset: Option<String>,
    /// Also list the tensors of a transformer, each with its shape, range of values and fraction of zeros
    #[arg(long)]
    tensors: bool,
    /// Print nothing but the architecture of a transformer, as TOML, for example as input of `tandem-lab new`
    #[arg(long, conflicts_with = "tensors")]
    toml: bool,
    /// Print the facts as a JSON array, with one object for each file
    #[arg(long, conflicts_with_all = ["tensors", "toml"])]
    json: bool,
    /// Architecture to assume for a safetensors file that does not state its own: the name of a preset (see
    /// --preset), or a TOML file
    #[arg(long, value_name = "NAME")]
    architecture: Option<String>,
}

/// Runs the command.
///
/// # Errors
///
/// When a file is missing, damaged or not a network.
pub(crate) fn run(args: &InspectArgs) -> Result<(), LabError> {
    if let Some(preset) = args.preset.as_deref().and_then(Preset::named) {
        out!("{}", preset.toml());
        return Ok(());
    }
    let given = args.architecture.as_deref().map(architecture_named).transpose()?;
    let mut objects = Vec::new();
    for path in &args.files {
        let is_description = path.extension().is_some_and(|extension| extension == "toml");
        let file = if is_description || is_hybrid(path) {
            None
        } else {
            TransformerFile::load(path, given.as_ref())?
        };
        if args.toml || args.tensors {
            match &file {
                Some(file) if args.toml => transformer::toml(path, file)?,
                Some(_) => {}
                None if is_description => {}
                None => {
                    let problem = "is not a transformer; --toml and --tensors are for those";
                    return Err(LabError::Usage(format!("{}: {problem}", path.display())));
                }
            }
            if args.toml && file.is_some() {
                continue;
            }
        }
        let facts = match &file {
            Some(file) => transformer::facts(file)?,
            None if is_description => transformer::facts_of_description(path)?,
            None if is_hybrid(path) => hybrid::facts(path)?,
            None => facts_of_nnue(path)?,
        };
        if args.json {
            let mut object = json!({ "file": path.display().to_string() });
            if let (Value::Object(object), Value::Object(facts)) = (&mut object, facts.json()) {
                object.extend(facts);
            }
            objects.push(object);
            continue;
        }
        outln!("{}: {}", path.display(), facts.format());
        out!("{}", facts.lines());
        if let Some(architecture) = file.as_ref().and_then(TransformerFile::architecture) {
            out!("{}", transformer::parts(architecture));
        }
        if let Some(file) = file.filter(|_| args.tensors) {
            out!("{}", transformer::tensors(file.weights()?).text());
        }
    }
    if args.json {
        outln!("{:#}", Value::Array(objects));
    }
    Ok(())
}

fn facts_of_nnue(path: &Path) -> Result<Facts, LabError> {
    let (network, format) = AnyNetwork::load(path)?;
    let bytes = match built_in(path) {
        Some(bytes) => bytes.to_vec(),
        None => std::fs::read(path).map_err(LabError::file(path))?,
    };
    let architecture = network.architecture();
    let mut facts = Facts::default();
    facts.push("format", format.map_or("network", Format::name));
    facts.push("architecture", architecture.to_string());
    facts.push("parameters", parameters(&architecture));
    if let (AnyNetwork::Integer(network), HeadShape::Flat { .. }) = (&network, &architecture.head) {
        let Quantisation { qa, qb } = network.quantisation();
        facts.push("qa", qa);
        facts.push("qb", qb);
    }
    facts.push("size", bytes.len());
    facts.push("sha256", sha256(&bytes));
    facts.push("described as", network.description());
    facts.push("start position", network.start_position());
    Ok(facts)
}
