//! Networks that a run builds on without changing them, identified by the SHA-256 of their files.
//!
//! A bridge or a selector is only valid for the two networks that it was trained with, so recipes may pin
//! their hashes.

use crate::recipe::RecipeError;
use serde::{Deserialize, Serialize};
use tandem_hybrid::Fingerprint;

/// A network file that a run reads but does not train, for example the NNUE of a hybrid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseNetwork {
    /// Path of the network file.
    pub path: String,
    /// Expected SHA-256 of the file, in 64 hexadecimal digits; any file is accepted if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl BaseNetwork {
    /// Reads the file and returns its bytes with their fingerprint; `key` is the recipe key to name in
    /// errors.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or if its SHA-256 is not the expected one.
    pub fn read(&self, key: &'static str) -> Result<(Vec<u8>, Fingerprint), RecipeError> {
        read_expected(key, &self.path, self.sha256.as_deref())
    }
}

/// Checks that a text is a SHA-256 in hexadecimal digits.
pub(crate) fn check_sha256(key: &'static str, sha256: Option<&str>) -> Result<(), RecipeError> {
    expected(key, sha256).map(drop)
}

fn expected(key: &'static str, sha256: Option<&str>) -> Result<Option<Fingerprint>, RecipeError> {
    let parsed = sha256.map(str::parse::<Fingerprint>).transpose();
    parsed.map_err(|error| RecipeError::Invalid { key, problem: error.to_string() })
}

/// Reads a file with its fingerprint, and compares it with the expected SHA-256 if there is one.
pub(crate) fn read_expected(
    key: &'static str,
    path: &str,
    sha256: Option<&str>,
) -> Result<(Vec<u8>, Fingerprint), RecipeError> {
    let expected = expected(key, sha256)?;
    let wanted = expected.map_or_else(String::new, |hash| format!("; SHA-256 {hash} is expected"));
    let invalid =
        |problem: String| RecipeError::Invalid { key, problem: format!("{path}: {problem}{wanted}") };
    let (bytes, found) = Fingerprint::read(path).map_err(|error| invalid(error.to_string()))?;
    if expected.is_some_and(|expected| expected != found) {
        return Err(invalid(format!("it has SHA-256 {found}")));
    }
    Ok((bytes, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_than_was_expected_is_refused_with_both_hashes() {
        let path = std::env::temp_dir().join(format!("tandem-base-{}", std::process::id()));
        std::fs::write(&path, b"a network").unwrap();
        let hash = Fingerprint::of(b"a network");
        let base = |sha256: Option<String>| BaseNetwork { path: path.to_str().unwrap().into(), sha256 };
        assert_eq!(base(None).read("x").unwrap(), (b"a network".to_vec(), hash));
        assert_eq!(base(Some(hash.to_string())).read("x").unwrap().1, hash);
        let other = Fingerprint::of(b"another").to_string();
        let message_of = |base: BaseNetwork| base.read("bridge.nnue").unwrap_err().to_string();
        let message = message_of(base(Some(other.clone())));
        assert!(message.starts_with("bridge.nnue: "), "{message}");
        assert!(
            message.contains(&format!("it has SHA-256 {hash}; SHA-256 {other} is expected")),
            "{message}"
        );
        assert!(message_of(base(Some("12".into()))).contains("64 hexadecimal digits"));
        std::fs::remove_file(&path).unwrap();
        let message = message_of(base(Some(other.clone())));
        assert!(message.to_lowercase().contains("no such file") && message.contains(&other), "{message}");
    }
}
