//! Writing hybrids: the file with the bridge or the selector, and its model card.

use crate::error::LabError;
use crate::model_card::{ModelCard, sha256};
use std::path::{Path, PathBuf};
use tandem_hybrid::{Fingerprint, Hybrid};
use tandem_util::output;

/// Checks that the files of both networks, the NNUE's first, are still those that the run began with.
///
/// # Errors
///
/// When a file is missing, or its SHA-256 differs.
pub(super) fn check(hybrid: &Hybrid, bases: [&str; 2]) -> Result<(), LabError> {
    for (base, expected) in bases.into_iter().zip([hybrid.nnue, hybrid.transformer]) {
        let found = match Fingerprint::of_file(base) {
            Ok(found) if found == expected => continue,
            Ok(found) => format!("it has SHA-256 {found} now"),
            Err(error) => error.to_string(),
        };
        return Err(LabError::Usage(format!(
            "{base}: {found}, and the run began with {expected}. No hybrid is written: restore that file and run again, \
             with --resume where there are checkpoints"
        )));
    }
    Ok(())
}

/// Writes `NAME.hybrid` into a folder, and its model card: first the properties that every hybrid has, then
/// those already in `model_card`.
///
/// # Errors
///
/// When a file cannot be written.
pub(super) fn write(
    folder: &Path,
    name: &str,
    hybrid: &Hybrid,
    model_card: ModelCard,
) -> Result<PathBuf, LabError> {
    let path = folder.join(format!("{name}.hybrid"));
    let bytes = hybrid.to_bytes();
    let mut complete = ModelCard { properties: Vec::new(), ..model_card };
    complete.title = name.into();
    complete.property("NNUE", format!("SHA-256 {}, unchanged", hybrid.nnue));
    complete.property("transformer", format!("SHA-256 {}, unchanged", hybrid.transformer));
    complete.property("bridge", hybrid.bridge.as_ref().map_or("none", |bridge| bridge.form().name()));
    if hybrid.selector.is_some() {
        complete
            .property("selector", format!("threshold {:.4}, blend {:.3}", hybrid.threshold, hybrid.blend));
    }
    complete.property("file size", format!("{} bytes", bytes.len()));
    complete.property("sha256", sha256(&bytes));
    complete.properties.extend(model_card.properties);
    let model_card_path = ModelCard::path(&path);
    output::write_atomically(&model_card_path, complete.markdown().as_bytes())
        .map_err(LabError::file(&model_card_path))?;
    // The hybrid is written last, because its presence marks the run as complete.
    output::write_atomically(&path, &bytes).map_err(LabError::file(&path))?;
    outln!("{} and {}", path.display(), model_card_path.display());
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_networks_are_reported() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let bases = ["nets/tandem.tnn", "nets/strategist.ttn"].map(|name| format!("{root}/{name}"));
        let [nnue, transformer] = [0, 1].map(|which| Fingerprint::of_file(&bases[which]).unwrap());
        let result = |hybrid: Hybrid, transformer: &str| {
            check(&hybrid, [&bases[0], transformer]).map_err(|error| error.to_string())
        };
        assert_eq!(result(Hybrid::new(nnue, transformer), &bases[1]), Ok(()));
        let error = result(Hybrid::new(Fingerprint::of(b"another"), transformer), &bases[1]).unwrap_err();
        assert!(error.contains(&format!("tandem.tnn: it has SHA-256 {nnue} now")), "{error}");
        let error = result(Hybrid::new(nnue, transformer), "moved.ttn").unwrap_err();
        assert!(error.contains(&format!("the run began with {transformer}")), "{error}");
    }
}
