//! A short number that stands for some bytes, to notice that they changed.

/// The 64-bit FNV-1a hash: the same on every machine and for ever, which the standard library's hashes are not. Nobody
/// attacks it here; it only has to tell one build of an engine from the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// Of nothing.
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Takes in more bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// The number, as sixteen digits.
    pub(crate) fn text(self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_fnv_authors() {
        for (text, expected) in
            [("", "cbf29ce484222325"), ("a", "af63dc4c8601ec8c"), ("foobar", "85944171f73967e8")]
        {
            let mut fingerprint = Fingerprint::new();
            fingerprint.add(text.as_bytes());
            assert_eq!(fingerprint.text(), expected);
        }
    }
}
