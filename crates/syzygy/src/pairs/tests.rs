use super::*;

/// Three bytes for each symbol: its halves.
fn patterns(symbols: &[[u16; 2]]) -> Vec<u8> {
    let bytes =
        |&[left, right]: &[u16; 2]| [left as u8, (left >> 8) as u8 | (right << 4) as u8, (right >> 4) as u8];
    symbols.iter().flat_map(bytes).collect()
}

/// A symbol with one value.
fn leaf(value: u16) -> [u16; 2] {
    [value, 0xFFF]
}

#[test]
fn a_symbol_has_the_values_of_its_halves() {
    let symbols = [[2, 3], leaf(7), leaf(0xABC), [2, 1], [0, 0]];
    let bytes = patterns(&symbols);
    assert_eq!(symbol_lengths(&bytes), Ok(vec![2, 0, 0, 1, 5]));
    assert_eq!(pattern(&bytes, 2), Some([0xABC, MAX_SYMBOLS]));
    assert_eq!(pattern(&bytes, 5), None);
}

#[test]
fn symbols_without_end_are_refused() {
    assert_eq!(symbol_lengths(&patterns(&[[0, 0]])), Err(0), "contains itself");
    assert_eq!(
        symbol_lengths(&patterns(&[leaf(0), [0, 2], [1, 0]])),
        Err(2),
        "contains itself by another one"
    );
    assert_eq!(symbol_lengths(&patterns(&[leaf(0), [0, 3]])), Err(1), "has a half that does not exist");
    // Each symbol has one value more than the one before it.
    let chain = |length: u16| {
        patterns(&Vec::from_iter((0..length).map(|n| if n == 0 { leaf(0) } else { [n - 1, 0] })))
    };
    assert_eq!(symbol_lengths(&chain(256)).unwrap().last(), Some(&255));
    assert_eq!(symbol_lengths(&chain(257)), Err(256), "has too many values");
    // Visited from its end, the chain is as deep as it is long.
    let deep = Vec::from_iter((0..4000).map(|n| if n == 3999 { leaf(0) } else { [n + 1, n + 1] }));
    assert!(symbol_lengths(&patterns(&deep)).is_err());
}

/// Header of a code in which the symbols 0 and 1 have the codes 00 and 01, and the symbol 2 has the code 1.
const CODE: [u8; 6] = [2, 1, 2, 0, 0, 0];

#[test]
fn a_canonical_code_is_read() {
    let code = parse_code(&mut Reader::new(&CODE)).unwrap();
    let code: Vec<_> = code.iter().map(|code| (code.bits, code.base, code.lowest)).collect();
    assert_eq!(code, [(1, 1 << 63, 2), (2, 0, 0)]);
}

#[test]
fn impossible_codes_are_refused() {
    for (bytes, why) in [
        (&[1, 2, 0, 0, 0, 0][..], "the longest code is shorter than the shortest"),
        (&[1, 0, 0, 0, 0, 0], "a code without bits"),
        (&[33, 33, 0, 0], "a code of too many bits"),
        (&[2, 1, 0, 0, 9, 0], "more symbols above than below"),
        (&[2, 1, 255, 255, 0, 0], "more codes than fit the bits"),
        (&[2, 1, 0, 0, 0], "no end"),
    ] {
        assert!(parse_code(&mut Reader::new(bytes)).is_err(), "{why}");
    }
}

/// Values, and the bytes of a file with them, in blocks of eight bytes and spans of eight positions. Symbols 0 and 1
/// have the values 3 and 4, and symbol 2 has both.
fn compressed() -> (Vec<u16>, Vec<u8>) {
    let mut values = Vec::new();
    let mut blocks = Vec::new();
    let mut lengths = Vec::new();
    for block in 0..3u64 {
        let (mut bits, mut length, first) = (0u64, 0, values.len());
        while length < 64 {
            let symbol = (length + block) * (length + 3) % 3;
            let (code, code_bits) = [(0, 2), (1, 2), (1, 1)][symbol as usize];
            if length + code_bits > 64 {
                break;
            }
            bits |= code << (64 - length - code_bits);
            length += code_bits;
            values.extend([&[3][..], &[4], &[3, 4]][symbol as usize]);
        }
        blocks.extend(bits.to_be_bytes());
        lengths.push(values.len() - first);
    }
    let mut file = vec![3, 3, 1, 3, 0, 0, 0];
    file.extend(CODE);
    file.extend([3, 0]);
    file.extend(patterns(&[leaf(3), leaf(4), [0, 1]]));
    file.resize(file.len().next_multiple_of(2), 0);
    // For the middle of each span, its block and the place in the block.
    for span in 0..values.len().div_ceil(8) {
        let (mut block, mut place) = (0u32, span * 8 + 4);
        while block < 2 && place >= lengths[block as usize] {
            place -= lengths[block as usize];
            block += 1;
        }
        file.extend(block.to_le_bytes());
        file.extend((place as u16).to_le_bytes());
    }
    for length in lengths {
        file.extend((length as u16 - 1).to_le_bytes());
    }
    // A length that belongs to no block, for the middle of the last span.
    file.extend(u16::MAX.to_le_bytes());
    file.resize(file.len().next_multiple_of(64), 0);
    file.extend(blocks);
    (values, file)
}

fn parse(file: &[u8], size: u64) -> Result<Pairs, Damage> {
    let mut reader = Reader::new(file);
    let mut pairs = Pairs::parse(&mut reader, size)?;
    for part in [Part::Index, Part::Lengths, Part::Blocks] {
        pairs.place(&mut reader, part)?;
    }
    Ok(pairs)
}

#[test]
fn every_value_is_found() {
    let (values, file) = compressed();
    let pairs = parse(&file, values.len() as u64).unwrap();
    let read: Result<Vec<u16>, Damage> =
        (0..values.len() as u64).map(|index| pairs.get(&file, index)).collect();
    assert_eq!(read, Ok(values.clone()));
    assert!(pairs.get(&file, values.len() as u64).is_err(), "beyond the last position");
    assert!(pairs.get(&file, u64::MAX).is_err());
}

#[test]
fn damage_is_an_error_or_a_value() {
    let (values, file) = compressed();
    let size = values.len() as u64;
    let (mut read, mut refused) = (0, 0);
    for at in 0..file.len() {
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << bit;
            let Ok(pairs) = parse(&damaged, size) else {
                refused += 1;
                continue;
            };
            for index in 0..size {
                match pairs.get(&damaged, index) {
                    Ok(_) => read += 1,
                    Err(_) => refused += 1,
                }
                // The file may even become another one after it was checked.
                let _ = pairs.get(&file[..at], index);
            }
        }
        assert!(parse(&file[..at], size).is_err(), "cut at {at}");
    }
    assert!(read > 10_000 && refused > 5_000, "{read}, {refused}");
}
