//! The compressed values of a table.
//!
//! A *symbol* stands for one value, or for two other symbols (recursive pairing). Blocks of a fixed length hold symbols
//! in a canonical Huffman code. A sparse index leads to the block of a position.

use crate::error::{Damage, Kind};
use crate::reader::{Reader, beyond_end, part, u16_at};
use std::ops::Range;

/// Symbols are numbers of twelve bits, and the largest marks a symbol that stands for one value.
const MAX_SYMBOLS: usize = 0xFFF;
/// Longest code of a symbol, in bits, so that 64 bits always hold two.
const MAX_CODE: u32 = 32;
/// Most blocks between an entry of the sparse index and the block of a position. In whole tables it is about eight;
/// the limit bounds the time that a damaged one takes.
const MAX_WALK: usize = 1 << 16;

/// The values of a subtable: of the positions with one side to move, and the leading pawn on one file.
#[derive(Debug)]
pub(crate) enum Values {
    /// All positions have this value.
    Constant(u16),
    /// Compressed values.
    Pairs(Box<Pairs>),
}

impl Values {
    /// Reads the header of a subtable of `size` positions. Returns the flags too.
    pub(crate) fn parse(reader: &mut Reader<'_>, kind: Kind, size: u64) -> Result<(Self, u8), Damage> {
        const CONSTANT: u8 = 1 << 7;
        let flags = reader.u8()?;
        if flags & CONSTANT != 0 {
            // Tables of distances with one value have distance 0, without a number.
            let value = reader.u8()?;
            return Ok((Self::Constant(if kind == Kind::Wdl { value.into() } else { 0 }), flags));
        }
        Ok((Self::Pairs(Box::new(Pairs::parse(reader, size)?)), flags))
    }

    /// Finds the sparse index, the lengths of the blocks, or the blocks: `part` selects one of the three, which follow
    /// each other in the file after the headers of all subtables.
    pub(crate) fn place(&mut self, reader: &mut Reader<'_>, part: Part) -> Result<(), Damage> {
        match self {
            Self::Constant(_) => Ok(()),
            Self::Pairs(pairs) => pairs.place(reader, part),
        }
    }

    /// Value of the position with number `index`.
    #[inline]
    pub(crate) fn get(&self, file: &[u8], index: u64) -> Result<u16, Damage> {
        match self {
            Self::Constant(value) => Ok(*value),
            Self::Pairs(pairs) => pairs.get(file, index),
        }
    }
}

/// Parts of the compressed values, in the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Sparse index: for each span of positions, the block of the one in its middle and the place in the block.
    Index,
    /// Number of values of each block, less one.
    Lengths,
    /// The blocks of bits, each on its own boundary of the block size.
    Blocks,
}

/// Compressed values.
#[derive(Debug)]
pub(crate) struct Pairs {
    /// Number of positions.
    size: u64,
    /// Binary logarithm of the number of positions for each entry of the sparse index.
    span_bits: u32,
    /// Binary logarithm of the bytes of a block.
    block_bits: u32,
    /// Number of blocks.
    blocks: usize,
    /// Number of entries of the list of lengths, in which some follow that belong to no block.
    lengths: usize,
    /// The code of each length of bits, the shortest first.
    code: Vec<CodeLength>,
    /// Number of values of each symbol, less one.
    symbol_lengths: Vec<u8>,
    /// Ranges of bytes in the file.
    symbols: Range<usize>,
    index: Range<usize>,
    block_lengths: Range<usize>,
    data: Range<usize>,
}

/// The symbols with codes of one length.
#[derive(Clone, Copy, Debug)]
struct CodeLength {
    /// Smallest code, in the upper bits. Codes of this length are below the smallest of the next shorter length.
    base: u64,
    /// Number of bits.
    bits: u32,
    /// Symbol of the smallest code.
    lowest: u16,
}

impl Pairs {
    fn parse(reader: &mut Reader<'_>, size: u64) -> Result<Self, Damage> {
        let start = reader.offset();
        let (block_bits, span_bits) = (u32::from(reader.u8()?), u32::from(reader.u8()?));
        if !(1..=32).contains(&span_bits) || !(3..=31).contains(&block_bits) {
            return Err(Damage::new(start, "the size of the blocks or of the sparse index is impossible"));
        }
        let padding = usize::from(reader.u8()?);
        let blocks = usize::try_from(reader.u32()?).map_err(|_| beyond_end(start))?;
        let lengths = blocks.checked_add(padding).ok_or_else(|| beyond_end(start))?;
        let code = parse_code(reader)?;
        let symbols = usize::from(reader.u16()?);
        if symbols > MAX_SYMBOLS {
            return Err(reader.damage("there are too many symbols"));
        }
        let offset = reader.offset();
        let patterns = reader.bytes(3 * symbols)?;
        let symbol_lengths = symbol_lengths(patterns)
            .map_err(|symbol| Damage::new(offset + 3 * symbol, "a symbol has no value"))?;
        reader.align(2)?;
        Ok(Self {
            size,
            span_bits,
            block_bits,
            blocks,
            lengths,
            code,
            symbol_lengths,
            symbols: offset..offset + 3 * symbols,
            index: 0..0,
            block_lengths: 0..0,
            data: 0..0,
        })
    }

    fn place(&mut self, reader: &mut Reader<'_>, part: Part) -> Result<(), Damage> {
        let offset = reader.offset();
        let too_long = || beyond_end(offset);
        match part {
            Part::Index => {
                let entries =
                    usize::try_from(self.size.div_ceil(1 << self.span_bits)).map_err(|_| too_long())?;
                let bytes = entries.checked_mul(6).ok_or_else(too_long)?;
                self.index = reader.take(bytes)?;
            }
            Part::Lengths => {
                let bytes = self.lengths.checked_mul(2).ok_or_else(too_long)?;
                self.block_lengths = reader.take(bytes)?;
            }
            Part::Blocks => {
                reader.align(64)?;
                let bytes = self.blocks.checked_mul(1 << self.block_bits).ok_or_else(too_long)?;
                self.data = reader.take(bytes)?;
            }
        }
        Ok(())
    }

    /// Value of the position with number `index`.
    fn get(&self, file: &[u8], index: u64) -> Result<u16, Damage> {
        let (block, skipped) = self.find_block(file, index)?;
        let (symbol, skipped) = self.find_symbol(file, block, skipped)?;
        self.expand(file, symbol, skipped)
    }

    /// Block of a position, and the number of values before it in the block.
    #[inline]
    fn find_block(&self, file: &[u8], index: u64) -> Result<(usize, usize), Damage> {
        let damage = |problem| Damage::new(self.index.start, problem);
        if index >= self.size {
            return Err(damage("the number of a position is too large"));
        }
        let entries = part(file, self.index.clone())?;
        let entry = (index >> self.span_bits) as usize * 6;
        let Some(&[b0, b1, b2, b3, o0, o1]) = entries.get(entry..entry + 6) else {
            return Err(beyond_end(self.index.start));
        };
        let mut block = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
        let in_block = i64::from(u16::from_le_bytes([o0, o1]));
        let span = 1i64 << self.span_bits;
        let mut skipped = in_block + (index as i64 & (span - 1)) - span / 2;

        let lengths = part(file, self.block_lengths.clone())?;
        let length = |block| {
            u16_at(lengths, block).map(i64::from).ok_or_else(|| damage("the sparse index leads nowhere"))
        };
        // The position lies before the block, in it, or after it.
        for _ in 0..MAX_WALK {
            if skipped < 0 {
                block = block.checked_sub(1).ok_or_else(|| damage("the sparse index leads nowhere"))?;
                skipped += length(block)? + 1;
                if skipped >= 0 {
                    return Ok((block, skipped as usize));
                }
            } else {
                let length = length(block)?;
                if skipped <= length {
                    return Ok((block, skipped as usize));
                }
                skipped -= length + 1;
                block += 1;
            }
        }
        Err(damage("the sparse index leads too far away"))
    }

    /// Symbol of the value after `skipped` others of a block, and the number of values before it in the symbol.
    #[inline]
    fn find_symbol(&self, file: &[u8], block: usize, mut skipped: usize) -> Result<(usize, usize), Damage> {
        let outside = || Damage::new(self.data.start, "a block lies outside of the file");
        let start = block.checked_mul(1 << self.block_bits).ok_or_else(outside)?;
        let blocks = part(file, self.data.clone())?;
        let mut bytes =
            blocks.get(start..).and_then(|rest| rest.get(..1 << self.block_bits)).ok_or_else(outside)?;
        // The next bits of the block are the upper ones of `buffer`, at least 32 if the block has as many.
        let (first, rest) = bytes.split_first_chunk().ok_or_else(outside)?;
        let mut buffer = u64::from_be_bytes(*first);
        bytes = rest;
        let mut used = 0;
        // Each symbol has at least one value, so this ends.
        loop {
            let code = self.code.iter().find(|code| buffer >= code.base).ok_or_else(outside)?;
            let symbol = usize::from(code.lowest) + ((buffer - code.base) >> (64 - code.bits)) as usize;
            let Some(&length) = self.symbol_lengths.get(symbol) else {
                return Err(Damage::new(self.data.start + start, "a block has a symbol that does not exist"));
            };
            if skipped <= usize::from(length) {
                return Ok((symbol, skipped));
            }
            skipped -= usize::from(length) + 1;
            buffer <<= code.bits;
            used += code.bits;
            if used >= 32 {
                used -= 32;
                // Behind the block come zeros. A block that ends within a symbol is damaged, but has a value.
                if let Some((next, rest)) = bytes.split_first_chunk() {
                    buffer |= u64::from(u32::from_be_bytes(*next)) << used;
                    bytes = rest;
                }
            }
        }
    }

    /// Value of a symbol after `skipped` others.
    #[inline]
    fn expand(&self, file: &[u8], mut symbol: usize, mut skipped: usize) -> Result<u16, Damage> {
        let patterns = part(file, self.symbols.clone())?;
        // A symbol of at most 256 values is at most 255 pairs deep.
        for _ in 0..=u8::MAX {
            let [left, right] = pattern(patterns, symbol).ok_or_else(|| beyond_end(self.symbols.start))?;
            if right == MAX_SYMBOLS {
                return Ok(left as u16);
            }
            let Some(&length) = self.symbol_lengths.get(left) else { break };
            if skipped <= usize::from(length) {
                symbol = left;
            } else {
                skipped -= usize::from(length) + 1;
                symbol = right;
            }
        }
        Err(Damage::new(self.symbols.start, "the symbols have changed"))
    }
}

/// The two halves of a symbol; or its value, and [`MAX_SYMBOLS`].
#[inline]
fn pattern(patterns: &[u8], symbol: usize) -> Option<[usize; 2]> {
    let &[a, b, c] = patterns.get(3 * symbol..3 * symbol + 3)? else { return None };
    Some([usize::from(a) | usize::from(b & 15) << 8, usize::from(b >> 4) | usize::from(c) << 4])
}

/// Reads the canonical Huffman code: for each length of bits, the symbol of the smallest code.
fn parse_code(reader: &mut Reader<'_>) -> Result<Vec<CodeLength>, Damage> {
    let offset = reader.offset();
    let impossible = || Damage::new(offset, "the code of the symbols is impossible");
    let (longest, shortest) = (u32::from(reader.u8()?), u32::from(reader.u8()?));
    if shortest == 0 || longest < shortest || longest > MAX_CODE {
        return Err(impossible());
    }
    let mut code = Vec::new();
    for bits in shortest..=longest {
        code.push(CodeLength { base: 0, bits, lowest: reader.u16()? });
    }
    // The longest codes are the smallest. With each bit less, half as many codes remain below.
    let mut longer: Option<(u64, u16)> = None;
    for CodeLength { base, bits, lowest } in code.iter_mut().rev() {
        let unshifted = match longer {
            None => 0,
            Some((base, below)) => {
                (base + u64::from(*lowest)).checked_sub(u64::from(below)).ok_or_else(impossible)? / 2
            }
        };
        if unshifted >> *bits != 0 {
            return Err(impossible());
        }
        *base = unshifted << (64 - *bits);
        longer = Some((unshifted, *lowest));
    }
    Ok(code)
}

/// Number of values of each symbol, less one.
///
/// # Errors
///
/// The first symbol found that contains itself, one that does not exist, or more than 256 values.
fn symbol_lengths(patterns: &[u8]) -> Result<Vec<u8>, usize> {
    /// A symbol that was not visited yet, or is being visited.
    const UNKNOWN: u16 = u16::MAX;
    const OPEN: u16 = u16::MAX - 1;
    let count = patterns.len() / 3;
    let mut lengths = vec![UNKNOWN; count];
    // Depth first, on a stack of our own: a chain of symbols may be long.
    let mut stack = Vec::new();
    for root in 0..count {
        stack.push(root);
        while let Some(&symbol) = stack.last() {
            let [left, right] = pattern(patterns, symbol).ok_or(symbol)?;
            if right == MAX_SYMBOLS {
                lengths[symbol] = 0;
            }
            if lengths[symbol] < OPEN {
                stack.pop();
                continue;
            }
            lengths[symbol] = OPEN;
            let mut total = 1;
            let mut waits = false;
            for half in [left, right] {
                match *lengths.get(half).ok_or(symbol)? {
                    UNKNOWN => {
                        stack.push(half);
                        waits = true;
                        break;
                    }
                    OPEN => return Err(symbol),
                    length => total += length,
                }
            }
            if !waits {
                lengths[symbol] = total;
                if total > u16::from(u8::MAX) {
                    return Err(symbol);
                }
                stack.pop();
            }
        }
    }
    Ok(lengths.into_iter().map(|length| length as u8).collect())
}

#[cfg(test)]
mod tests;
