//! What was learnt between two networks, as a file with its card.

use crate::card::{Card, sha256};
use crate::error::LabError;
use std::path::{Path, PathBuf};
use tandem_chess::output;
use tandem_hybrid::Hybrid;

/// Writes NAME.hybrid into a folder, and its card: what is on it already comes after the facts that every hybrid has.
pub(super) fn write(folder: &Path, name: &str, hybrid: &Hybrid, card: Card) -> Result<PathBuf, LabError> {
    let path = folder.join(format!("{name}.hybrid"));
    let bytes = hybrid.to_bytes();
    let mut whole = Card { facts: Vec::new(), ..card };
    whole.title = name.into();
    whole.fact("NNUE", format!("SHA-256 {}, unchanged", hybrid.nnue));
    whole.fact("transformer", format!("SHA-256 {}, unchanged", hybrid.transformer));
    whole.fact("bridge", hybrid.bridge.as_ref().map_or("none", |bridge| bridge.form().name()));
    if hybrid.selector.is_some() {
        whole.fact("selector", format!("asks from {:.4} on, blend {:.3}", hybrid.threshold, hybrid.blend));
    }
    whole.fact("file size", format!("{} bytes", bytes.len()));
    whole.fact("sha256", sha256(&bytes));
    whole.facts.extend(card.facts);
    let about = Card::path(&path);
    output::write_whole(&about, whole.markdown().as_bytes()).map_err(LabError::file(&about))?;
    // Last, since whoever finds it takes the run for ended.
    output::write_whole(&path, &bytes).map_err(LabError::file(&path))?;
    sayln!("{} and {}", path.display(), about.display());
    Ok(path)
}
