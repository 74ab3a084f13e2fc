//! The description of hybrids for `inspect`.

use super::facts::Facts;
use crate::error::LabError;
use crate::model_card::sha256;
use std::path::Path;
use tandem_hybrid::{FEATURES, Fingerprint, Hybrid};

/// The contents of a hybrid: the networks that it belongs to, its bridge and its selector.
///
/// # Errors
///
/// When the file is missing or not a hybrid.
pub(super) fn facts(path: &Path) -> Result<Facts, LabError> {
    let hybrid = Hybrid::load(path)?;
    let bytes = std::fs::read(path).map_err(LabError::file(path))?;
    let mut facts = Facts::default();
    facts.push("format", "hybrid: what was learnt between an NNUE and a transformer");
    for (name, fingerprint, built_in) in [
        ("NNUE", hybrid.nnue, tandem_nets::built_in_bytes()),
        ("transformer", hybrid.transformer, tandem_nets::built_in_transformer()),
    ] {
        let known = if Fingerprint::of(built_in) == fingerprint { " (the built-in one)" } else { "" };
        facts.push(name, format!("the file with SHA-256 {fingerprint}{known}"));
    }
    facts.push(
        "bridge",
        hybrid.bridge.as_ref().map_or("none".into(), |bridge| {
            format!("{}: {} accumulator values -> {}", bridge.form(), bridge.inputs(), bridge.outputs())
        }),
    );
    match &hybrid.selector {
        None => facts.push("selector", "none"),
        Some(selector) => {
            let widths: Vec<String> = selector
                .tensors()
                .iter()
                .filter(|tensor| tensor.1.len() == 2)
                .map(|tensor| tensor.1[0].to_string())
                .collect();
            facts.push("selector", format!("{} features -> {}", FEATURES.len(), widths.join(" -> ")));
        }
    }
    let rounded = |value: f32| (f64::from(value) * 1e4).round() / 1e4;
    facts.push("threshold", rounded(hybrid.threshold));
    facts.push("blend", rounded(hybrid.blend));
    facts.push("scale", rounded(hybrid.scale));
    facts.push("size", bytes.len());
    facts.push("sha256", sha256(&bytes));
    if !hybrid.description.is_empty() {
        facts.push("described as", hybrid.description);
    }
    Ok(facts)
}
