//! What was learnt between two networks, as a file with its card.

use crate::card::{Card, sha256};
use crate::error::LabError;
use std::path::{Path, PathBuf};
use tandem_chess::output;
use tandem_hybrid::{Fingerprint, Hybrid};

/// Whether the files of both networks, the NNUE's first, are still those that a hybrid was learnt between.
pub(super) fn check(hybrid: &Hybrid, bases: [&str; 2]) -> Result<(), LabError> {
    for (base, expected) in bases.into_iter().zip([hybrid.nnue, hybrid.transformer]) {
        let found = match Fingerprint::of_file(base) {
            Ok(found) if found == expected => continue,
            Ok(found) => format!("it has SHA-256 {found} now"),
            Err(error) => error.to_string(),
        };
        return Err(LabError::Usage(format!(
            "{base}: {found}, and the run began with {expected}. No hybrid is written: put that file back and run it again, \
             with --resume where there are checkpoints"
        )));
    }
    Ok(())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_changed_meanwhile_is_told() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let bases = ["nets/tandem.tnn", "nets/strategist.ttn"].map(|name| format!("{root}/{name}"));
        let [nnue, transformer] = [0, 1].map(|which| Fingerprint::of_file(&bases[which]).unwrap());
        let told = |hybrid: Hybrid, transformer: &str| {
            check(&hybrid, [&bases[0], transformer]).map_err(|error| error.to_string())
        };
        assert_eq!(told(Hybrid::new(nnue, transformer), &bases[1]), Ok(()));
        let error = told(Hybrid::new(Fingerprint::of(b"another"), transformer), &bases[1]).unwrap_err();
        assert!(error.contains(&format!("tandem.tnn: it has SHA-256 {nnue} now")), "{error}");
        let error = told(Hybrid::new(nnue, transformer), "moved.ttn").unwrap_err();
        assert!(error.contains(&format!("the run began with {transformer}")), "{error}");
    }
}
