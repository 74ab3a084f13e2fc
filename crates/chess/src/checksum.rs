//! A checksum for our own files, to recognise damage. It is not cryptographic, so it does not prove origin.

/// Non-cryptographic 64-bit hash of the bytes, for detecting damage. It takes eight bytes at a time; the last
/// ones are padded with zeros, and the length is part of the hash.
pub fn checksum(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let with =
        |hash: u64, word: &[u8; 8]| (hash ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR).rotate_left(29);
    let (words, rest) = bytes.as_chunks();
    let hash = words.iter().fold(bytes.len() as u64, with);
    if rest.is_empty() {
        return hash;
    }
    let mut padded = [0; 8];
    padded[..rest.len()].copy_from_slice(rest);
    with(hash, &padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_length_count() {
        let bytes: Vec<u8> = (0..21).collect();
        let whole = checksum(&bytes);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_ne!(checksum(&changed), whole);
        }
        assert_ne!(checksum(&[bytes, vec![0]].concat()), whole);
        assert_eq!(checksum(b""), 0);
    }
}
