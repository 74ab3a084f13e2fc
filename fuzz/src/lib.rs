//! Helpers shared by the fuzz targets.

/// Modifies a valid file: each three bytes of `changes` give a position and a new value. Fuzzers reach deep
/// code faster from valid files than from random bytes.
pub fn mutate(mut file: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    for change in changes.chunks_exact(3) {
        // Half of the changes hit the first 4 KiB, because headers have more branches than weights.
        let reach = if change[0] & 1 == 0 { file.len().min(1 << 12) } else { file.len() };
        let place = u16::from_le_bytes([change[0], change[1]]) >> 1;
        let at = usize::from(place) * 97 % reach.max(1);
        if let Some(byte) = file.get_mut(at) {
            *byte = change[2];
        }
    }
    file
}
