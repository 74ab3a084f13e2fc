//! Identity of a network file: its SHA-256.
//!
//! A hybrid names the two networks it was trained with by hash, because a path says nothing about the
//! contents.

use sha2::{Digest, Sha256};
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;
use tandem_util::input;
use thiserror::Error;

/// Largest accepted network file, 4 GiB.
const MAX_LEN: u64 = 1 << 32;

/// SHA-256 of a network file, displayed as 64 hexadecimal digits, as `sha256sum` and the model cards print
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

/// The text is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a SHA-256 has 64 hexadecimal digits")]
pub struct InvalidFingerprint;

impl Fingerprint {
    /// Fingerprint (SHA-256) of the bytes of a file.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Fingerprint (SHA-256) of the file at `path`, which is read in full.
    ///
    /// # Errors
    /// If the file cannot be read or is larger than 4 GiB.
    pub fn of_file(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self::read(path)?.1)
    }

    /// Reads a file and hashes it, so that both are of the same contents even if the file is replaced later.
    ///
    /// # Errors
    /// If the file cannot be read or is larger than 4 GiB.
    pub fn read(path: impl AsRef<Path>) -> io::Result<(Vec<u8>, Self)> {
        let bytes = input::read_whole(path.as_ref(), MAX_LEN, "network")?;
        let hash = Self::of(&bytes);
        Ok((bytes, hash))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = InvalidFingerprint;

    fn from_str(text: &str) -> Result<Self, InvalidFingerprint> {
        let digit =
            |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8).ok_or(InvalidFingerprint);
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return Err(InvalidFingerprint);
        }
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_equals_the_output_of_sha256sum() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Fingerprint::of(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Fingerprint::of(b"")));
        for text in ["", "e3b0", &empty[1..], &format!("{empty}0"), &empty.replace('e', "g")] {
            assert_eq!(text.parse::<Fingerprint>(), Err(InvalidFingerprint));
        }
    }
}
