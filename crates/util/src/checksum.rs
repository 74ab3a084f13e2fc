//! Checksums that recognise damage. They are not cryptographic, so they do not prove origin.

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

/// CRC-32C of every single byte.
const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// CRC-32C with Castagnoli's polynomial, as RFC 3720 defines it.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, &byte| CRC_TABLE[(crc as u8 ^ byte) as usize] ^ crc >> 8)
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

    #[test]
    fn check_sums_are_those_of_the_standard() {
        // RFC 3720, appendix B.4, and the usual nine digits.
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&rising), 0x46DD_794E);
        assert_eq!(crc32c(b""), 0);
    }
}
