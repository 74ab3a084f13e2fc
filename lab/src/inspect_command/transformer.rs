//! What is said of a transformer's file.

use crate::error::LabError;
use crate::strategist::judge;
use crate::table::Table;
use crate::transformer_file::{TransformerFile, architecture_named, facts, parameters_by_part};
use std::path::Path;
use tandem_chess::{Position, san};
use tandem_transformer::{Architecture, Isa, Network, Precision, Scratch, Weights};

/// Everything but the numbers, and those too if they are wanted.
pub(super) fn inspect(path: &Path, file: &TransformerFile, with_tensors: bool) -> Result<(), LabError> {
    sayln!("{}: {}", path.display(), file.said.format.name());
    match file.architecture() {
        Some(architecture) => tell(architecture),
        None => sayln!("  architecture  not told: the graph is not of our making"),
    }
    sayln!("  numbers  {}", file.said.numbers);
    sayln!("  size  {} bytes", file.size);
    sayln!("  sha256  {}", file.sha256);
    if !file.said.description.is_empty() {
        sayln!("  described as  {}", file.said.description);
    }
    if let Ok(weights) = file.weights() {
        sayln!("  start position  {}", start_position(weights)?);
    }
    if with_tensors {
        say!("{}", tensors(file.weights()?).text());
    }
    Ok(())
}

/// What a network of a description would be.
pub(super) fn inspect_description(path: &Path) -> Result<(), LabError> {
    let architecture = architecture_named(&path.to_string_lossy())?;
    sayln!("{}: description of a transformer", path.display());
    tell(&architecture);
    Ok(())
}

fn tell(architecture: &Architecture) {
    facts(architecture).iter().for_each(|(name, told)| sayln!("  {name}  {told}"));
    sayln!("  parameters  {}", architecture.parameters());
    say!("{}", parts(architecture));
}

/// The architecture, to be read by other programs.
pub(super) fn toml(path: &Path, file: &TransformerFile) -> Result<(), LabError> {
    let Some(architecture) = file.architecture() else {
        let problem = format!("{}: the graph does not tell its architecture", path.display());
        return Err(LabError::Usage(problem));
    };
    say!("{}", architecture.to_toml());
    Ok(())
}

/// How many numbers each part has, in lines.
fn parts(architecture: &Architecture) -> String {
    let all = architecture.parameters() as f64;
    let mut table = Table::new(&["", "", ""]);
    for (name, count) in parameters_by_part(architecture) {
        table.push(vec![
            format!("    {name}"),
            count.to_string(),
            format!("{:.1} %", 100.0 * count as f64 / all),
        ]);
    }
    // The header has no names.
    table.text().trim_start_matches('\n').to_owned()
}

/// What the network says of the starting position.
fn start_position(weights: &Weights) -> Result<String, LabError> {
    let network = Network::new(weights, Precision::F32, Isa::best());
    let start = Position::startpos();
    let judgement = judge(&network, &start, &mut Scratch::default())?;
    let mut told = Vec::new();
    if let Some(chance) = judgement.chance {
        told.push(format!("{:.1} % to win", 100.0 * chance));
    }
    if let Some((mv, share)) = judgement.best() {
        told.push(format!("{} {:.1} %", san::format(start.board(), mv), 100.0 * share));
    }
    Ok(told.join(", best move "))
}

/// Every tensor, with what a look at its numbers shows.
fn tensors(weights: &Weights) -> Table {
    let mut table = Table::new(&["tensor", "shape", "smallest", "largest", "mean", "deviation", "zeros"]);
    for (spec, numbers) in weights.iter() {
        let shape: Vec<String> = spec.shape.iter().map(ToString::to_string).collect();
        let count = numbers.len() as f64;
        let mean = numbers.iter().map(|&number| f64::from(number)).sum::<f64>() / count;
        let variance = numbers.iter().map(|&number| (f64::from(number) - mean).powi(2)).sum::<f64>() / count;
        let zeros = numbers.iter().filter(|&&number| number == 0.0).count() as f64 / count;
        table.push(vec![
            spec.name,
            shape.join("x"),
            format!("{:.4}", numbers.iter().copied().fold(f32::INFINITY, f32::min)),
            format!("{:.4}", numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max)),
            format!("{mean:.4}"),
            format!("{:.4}", variance.sqrt()),
            format!("{:.2} %", 100.0 * zeros),
        ]);
    }
    table
}
