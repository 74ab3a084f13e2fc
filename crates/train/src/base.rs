//! Networks that a run builds on and does not change.

use crate::recipe::RecipeError;
use serde::{Deserialize, Serialize};
use tandem_hybrid::Fingerprint;

/// A network that a run builds on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseNetwork {
    /// Its file.
    pub path: String,
    /// The SHA-256 that the file must have; any will do where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl BaseNetwork {
    /// The bytes of the file, and which file it is: the one that is expected, or an error under the recipe's key for it.
    pub fn read(&self, key: &'static str) -> Result<(Vec<u8>, Fingerprint), RecipeError> {
        read_expected(key, &self.path, self.sha256.as_deref())
    }
}

/// Whether a text can be a SHA-256.
pub(crate) fn check_sha256(key: &'static str, sha256: Option<&str>) -> Result<(), RecipeError> {
    expected(key, sha256).map(drop)
}

fn expected(key: &'static str, sha256: Option<&str>) -> Result<Option<Fingerprint>, RecipeError> {
    let parsed = sha256.map(str::parse::<Fingerprint>).transpose();
    parsed.map_err(|error| RecipeError::Wrong { key, problem: error.to_string() })
}

/// The bytes of a file and its fingerprint, if it is the one that is expected.
pub(crate) fn read_expected(
    key: &'static str,
    path: &str,
    sha256: Option<&str>,
) -> Result<(Vec<u8>, Fingerprint), RecipeError> {
    let expected = expected(key, sha256)?;
    let wanted = expected.map_or_else(String::new, |hash| format!("; SHA-256 {hash} is expected"));
    let wrong = |problem: String| RecipeError::Wrong { key, problem: format!("{path}: {problem}{wanted}") };
    let (bytes, found) = Fingerprint::read(path).map_err(|error| wrong(error.to_string()))?;
    if expected.is_some_and(|expected| expected != found) {
        return Err(wrong(format!("it has SHA-256 {found}")));
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
        let told = |base: BaseNetwork| base.read("bridge.nnue").unwrap_err().to_string();
        let message = told(base(Some(other.clone())));
        assert!(message.starts_with("bridge.nnue: "), "{message}");
        assert!(
            message.contains(&format!("it has SHA-256 {hash}; SHA-256 {other} is expected")),
            "{message}"
        );
        assert!(told(base(Some("12".into()))).contains("64 hexadecimal digits"));
        std::fs::remove_file(&path).unwrap();
        let message = told(base(Some(other.clone())));
        assert!(message.to_lowercase().contains("no such file") && message.contains(&other), "{message}");
    }
}
