//! Small tables in which all parts of the format occur, without real results.

#![allow(dead_code, unreachable_pub, reason = "shared by tests and the fuzz target")]

use std::path::PathBuf;

/// Positions of a table of three different pieces.
const POSITIONS: usize = 31_332;
/// Values of each symbol that has a code, of a block with 64 codes of one bit, and of a span.
const VALUES_OF_SYMBOL: usize = 256;
const VALUES_OF_BLOCK: usize = 64 * VALUES_OF_SYMBOL;
const SPAN_BITS: u8 = 14;

/// Names and bytes of a table of results and one of distances, for king and queen against king.
pub fn files() -> [(PathBuf, Vec<u8>); 2] {
    // The order of the pieces, then the pieces: White's king, Black's king, White's queen.
    let results = file([0x71, 0xE8, 0x23, 0x5D], &[0, 0x66, 0xEE, 0x55], &[0, 0], [4, 0], &[]);
    // White to move; wins in plies, by a map of two wins, two losses, one cursed win and no blessed loss.
    let maps = [2, 33, 44, 2, 22, 23, 1, 55, 0];
    let distances = file([0xD7, 0x66, 0x0C, 0xA5], &[0, 0x06, 0x0E, 0x05], &[2 | 4], [0, 1], &maps);
    [("KQvK.rtbw".into(), results), ("KQvK.rtbz".into(), distances)]
}

/// A file with a subtable for each of the `flags`, in which two values alternate.
fn file(magic: [u8; 4], pieces: &[u8], flags: &[u8], values: [u8; 2], maps: &[u8]) -> Vec<u8> {
    let mut file = [&magic[..], &[1], pieces].concat();
    file.resize(file.len().next_multiple_of(2), 0);
    let blocks = POSITIONS.div_ceil(VALUES_OF_BLOCK);
    for flags in flags {
        // Blocks of 2^3 bytes, one length without a block, and a code of one bit for the symbols 0 and 1.
        file.extend([*flags, 3, SPAN_BITS, 1, blocks as u8, 0, 0, 0, 1, 1, 0, 0]);
        // Symbols 0 and 1 have 256 values; each of the next ones is twice the one after the next.
        file.extend([18, 0]);
        for n in 0..18u16 {
            let [left, right] = match n {
                0 => [2, 3],
                1 => [3, 2],
                16 => [u16::from(values[0]), 0xFFF],
                17 => [u16::from(values[1]), 0xFFF],
                _ => [n + 2, n + 2],
            };
            file.extend([left as u8, (left >> 8) as u8 | (right << 4) as u8, (right >> 4) as u8]);
        }
    }
    file.extend(maps);
    file.resize(file.len().next_multiple_of(2), 0);
    for _ in flags {
        for span in 0..POSITIONS.div_ceil(1 << SPAN_BITS) {
            let middle = (span << SPAN_BITS) + (1 << (SPAN_BITS - 1));
            file.extend(((middle / VALUES_OF_BLOCK) as u32).to_le_bytes());
            file.extend(((middle % VALUES_OF_BLOCK) as u16).to_le_bytes());
        }
    }
    for _ in flags {
        for _ in 0..blocks {
            file.extend((VALUES_OF_BLOCK as u16 - 1).to_le_bytes());
        }
        file.extend(u16::MAX.to_le_bytes());
    }
    for _ in flags {
        file.resize(file.len().next_multiple_of(64), 0);
        file.extend([0b0101_1010; 8].repeat(blocks));
    }
    file.resize(file.len().next_multiple_of(64) + 16, 0);
    file
}
