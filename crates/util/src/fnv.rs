//! A short hash of bytes, by which resumed work notices that an engine, a network, a book or a setting has
//! changed.

/// 64-bit FNV-1a hash: the same on every machine and in every release, which the standard library's hashes
/// are not. It is not cryptographic, because it only has to tell one build of an engine from the next.
#[derive(Clone, Copy, Debug)]
pub struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self::new()
    }
}

impl Fnv1a {
    /// Hash of the empty input, the offset basis of FNV-1a.
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Appends bytes to the input. Where the input is split into calls does not change the hash.
    pub fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// Value of the hash as sixteen hexadecimal digits.
    pub fn to_hex(self) -> String {
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
            let mut fingerprint = Fnv1a::new();
            fingerprint.add(text.as_bytes());
            assert_eq!(fingerprint.to_hex(), expected);
        }
    }
}
