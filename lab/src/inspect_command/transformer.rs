//! The description of transformers for `inspect`.

use super::facts::Facts;
use crate::error::LabError;
use crate::strategist::evaluate;
use crate::table::Table;
use crate::transformer_file::{TransformerFile, architecture_named, parameters_by_part};
use std::path::Path;
use tandem_chess::{Position, san};
use tandem_transformer::{Architecture, Isa, Network, Precision, Scratch, Weights};

/// The properties of a transformer file.
///
/// # Errors
///
/// When the network cannot evaluate the starting position.
pub(super) fn facts(file: &TransformerFile) -> Result<Facts, LabError> {
    let mut facts = Facts::default();
    facts.push("format", file.header.format.name());
    match file.architecture() {
        Some(architecture) => push_architecture(&mut facts, architecture),
        None => facts.push("architecture", "not stated: the graph was not written by Tandem"),
    }
    facts.push("precision", file.header.dtypes.to_string());
    facts.push("size", file.size);
    facts.push("sha256", file.sha256.as_str());
    if !file.header.description.is_empty() {
        facts.push("described as", file.header.description.as_str());
    }
    if let Ok(weights) = file.weights() {
        facts.push("start position", start_position(weights)?);
    }
    Ok(facts)
}

/// The architecture that a TOML file describes.
///
/// # Errors
///
/// When the file is missing or invalid.
pub(super) fn facts_of_description(path: &Path) -> Result<Facts, LabError> {
    let architecture = architecture_named(&path.to_string_lossy())?;
    let mut facts = Facts::default();
    facts.push("format", "description of a transformer");
    push_architecture(&mut facts, &architecture);
    Ok(facts)
}

fn push_architecture(facts: &mut Facts, architecture: &Architecture) {
    for (name, text) in crate::transformer_file::facts(architecture) {
        facts.push(name, text);
    }
    facts.push("parameters", architecture.parameters());
    let parts = parameters_by_part(architecture).into_iter().map(|(name, count)| (name, count.into()));
    facts.push("parts", serde_json::Value::Object(parts.collect()));
}

/// Prints the architecture as TOML, for other programs.
///
/// # Errors
///
/// When the file does not state its architecture.
pub(super) fn toml(path: &Path, file: &TransformerFile) -> Result<(), LabError> {
    let Some(architecture) = file.architecture() else {
        let problem = format!("{}: the graph does not state its architecture", path.display());
        return Err(LabError::Usage(problem));
    };
    out!("{}", architecture.to_toml());
    Ok(())
}

/// The number of parameters of each part, as indented lines.
pub(super) fn parts(architecture: &Architecture) -> String {
    let all = architecture.parameters() as f64;
    let mut table = Table::new(&["    part", "parameters", "fraction"]);
    for (name, count) in parameters_by_part(architecture) {
        table.push(vec![
            format!("    {name}"),
            count.to_string(),
            format!("{:.1} %", 100.0 * count as f64 / all),
        ]);
    }
    table.text()
}

/// The evaluation of the starting position in words: win probability and best move.
fn start_position(weights: &Weights) -> Result<String, LabError> {
    let network = Network::new(weights, Precision::F32, Isa::best());
    let start = Position::startpos();
    let evaluation = evaluate(&network, &start, &mut Scratch::default())?;
    let mut parts = Vec::new();
    if let Some(win_probability) = evaluation.win_probability {
        parts.push(format!("{:.1} % to win", 100.0 * win_probability));
    }
    if let Some((mv, score)) = evaluation.best() {
        parts.push(format!("{} {:.1} %", san::format(start.board(), mv), 100.0 * score));
    }
    Ok(parts.join(", best move "))
}

/// A table of all tensors, with statistics of their values.
pub(super) fn tensors(weights: &Weights) -> Table {
    let mut table = Table::new(&["tensor", "shape", "min", "max", "mean", "std", "zeros"]);
    for (spec, values) in weights.iter() {
        let shape: Vec<String> = spec.shape.iter().map(ToString::to_string).collect();
        let count = values.len() as f64;
        let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / count;
        let variance = values.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum::<f64>() / count;
        let zeros = values.iter().filter(|&&value| value == 0.0).count() as f64 / count;
        table.push(vec![
            spec.name,
            shape.join("x"),
            format!("{:.4}", values.iter().copied().fold(f32::INFINITY, f32::min)),
            format!("{:.4}", values.iter().copied().fold(f32::NEG_INFINITY, f32::max)),
            format!("{mean:.4}"),
            format!("{:.4}", variance.sqrt()),
            format!("{:.2} %", 100.0 * zeros),
        ]);
    }
    table
}
