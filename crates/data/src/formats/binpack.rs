//! Stockfish's binpack: chains of positions, each one move after the one before it.
//!
//! A file is a sequence of blocks: `BINP`, a length, and chains. A chain begins with a stem of 32 bytes, a
//! whole position with its move, score, ply, result and clock; then the number of plies that follow, and for
//! each of them, in a stream of bits, which of the side's pieces moves, where to, and by how much the score
//! differs from the last.

use super::bin::{CORNERS, MoveKind, kind_of_move, ordinary_rights, score_of, value_of};
use super::bits::{HighFirst, HighFirstWriter};
use super::game::GameTracker;
use crate::codec::*;
use crate::packed::*;
use crate::record::{Outcome, Record};
use std::io::{self, BufRead};
use tandem_chess::*;

const MAGIC: &[u8; 4] = b"BINP";
const HEADER: usize = 8;
const STEM: usize = 32;
const COUNT: usize = 2;
/// Byte offset of the score in a stem.
const SCORE: usize = 26;
/// Approximate length in bytes of the blocks that are written.
const WRITTEN_BLOCK: usize = 1 << 20;
/// Largest block in bytes that is accepted; a larger length is taken for damage.
const MAX_BLOCK: usize = 100 << 20;
const MAX_PLIES: u16 = u16::MAX;

pub(crate) struct Binpack;

struct BinpackCut;

impl Cut for BinpackCut {
    fn next(&mut self, input: &mut dyn BufRead, block: &mut Vec<u8>) -> io::Result<Result<bool, Problem>> {
        read_up_to(input, block, HEADER)?;
        if block.is_empty() {
            return Ok(Ok(false));
        }
        let len = match block.as_slice() {
            [b'B', b'I', b'N', b'P', len @ ..] if len.len() == 4 => {
                u32::from_le_bytes(len.try_into().unwrap_or_default()) as usize
            }
            _ => return Ok(Err(Problem::new(0, "no block begins here: BINP and a length are missing"))),
        };
        if len > MAX_BLOCK {
            return Ok(Err(Problem::new(4, format!("a block of {len} bytes is longer than any"))));
        }
        read_up_to(input, block, HEADER + len)?;
        Ok(Ok(true))
    }
}

impl Codec for Binpack {
    fn cut(&self) -> Box<dyn Cut> {
        Box::new(BinpackCut)
    }

    fn decode(&self, block: &[u8], out: &mut Decoded) {
        let Some(header) = block.get(..HEADER) else {
            return out.fail_with_rest(0, "a block without its length");
        };
        let promised = u32::from_le_bytes(header[4..].try_into().unwrap_or_default()) as usize;
        let mut at = HEADER;
        while at < block.len() {
            match decode_chain(&block[at..], at, out) {
                Ok(len) => at += len,
                // The start of the next chain cannot be found behind a broken one.
                Err(Problem { byte, text, .. }) => {
                    return out.fail_with_rest(byte, format!("{text}; the rest of the block is left out"));
                }
            }
        }
        if block.len() < HEADER + promised {
            out.fail_with_rest(block.len(), "the file ends within a block; the rest of it is left out");
        }
    }
}

/// Decodes a chain and returns its length in bytes.
fn decode_chain(bytes: &[u8], start: usize, out: &mut Decoded) -> Result<usize, Problem> {
    let (Some(stem), Some(count)) = (bytes.get(..STEM), bytes.get(STEM..STEM + COUNT)) else {
        return Err(Problem::new(start, "the block ends within the first position of a chain"));
    };
    let stem: &[u8; STEM] = stem.try_into().map_err(|_| Problem::new(start, "a short stem"))?;
    let count = u16::from_be_bytes([count[0], count[1]]);
    let first = decode_stem(stem).map_err(|text| Problem::new(start, text))?;
    let mut board = first.position.board().map_err(|error| Problem::new(start, error.to_string()))?;
    let illegal = |mv: Move, byte: usize| Problem::new(byte, format!("{mv} is not a legal move here"));
    let Some(mut mv) = first.mv else { return Err(Problem::new(start, "a position without a move")) };
    if !board.is_legal(mv) {
        return Err(illegal(mv, start + 24));
    }
    out.records.push(first);
    let mut record = first;
    // The stored number rather than its meaning: there are two numbers for "no score", and differences count
    // from the stored one.
    let mut value = unzigzag(u16::from_be_bytes([stem[SCORE], stem[SCORE + 1]]));
    let text = &bytes[STEM + COUNT..];
    let mut bits = HighFirst::new(text);
    for _ in 0..count {
        board.play_unchecked(mv);
        let byte = start + STEM + COUNT + bits.bytes_read();
        let ended = || Problem::new(byte, "the block ends within a chain");
        mv = read_move(&board, &mut bits)
            .ok_or_else(ended)?
            .ok_or_else(|| Problem::new(byte, "a move of a piece that is not there"))?;
        let change = unzigzag(read_number(&mut bits).ok_or_else(ended)?);
        value = value.wrapping_neg().wrapping_add(change);
        if !board.is_legal(mv) {
            return Err(illegal(mv, byte));
        }
        let position = Packed::new(&board).ok_or_else(|| Problem::new(byte, "more than 32 pieces"))?;
        record = Record {
            position,
            mv: Some(mv),
            score: score_of(value),
            result: record.result.map(Outcome::flipped),
            ply: record.ply.wrapping_add(1),
            starts_game: false,
        };
        out.records.push(record);
    }
    Ok(STEM + COUNT + bits.bytes_read())
}

/// Signed number with the sign in the lowest bit, so that small absolute values have short codes.
fn zigzag(value: i16) -> u16 {
    let bits = value as u16;
    let flipped = if value < 0 { bits ^ 0x7FFF } else { bits };
    flipped.rotate_left(1)
}

fn unzigzag(value: u16) -> i16 {
    let bits = value.rotate_right(1);
    (if bits & 0x8000 == 0 { bits } else { bits ^ 0x7FFF }) as i16
}

/// Four bits for each piece: kinds and colours in turn, then four special values for en passant, castling and
/// the side to move.
const PASSANT_PAWN: u8 = 12;
const CASTLING_ROOKS: [u8; 2] = [13, 14];
const BLACK_KING_TO_MOVE: u8 = 15;

fn decode_stem(bytes: &[u8; STEM]) -> Result<Record, &'static str> {
    let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let occupied = BitBoard(u64::from_be_bytes(bytes[..8].try_into().unwrap_or_default()));
    if occupied.len() as usize > MAX_PIECES {
        return Err("more than 32 pieces");
    }
    let mut side = Color::White;
    let mut passant = None;
    let mut pieces = [0u8; 16];
    for (at, square) in occupied.into_iter().enumerate() {
        let nibble = bytes[8 + at / 2] >> (at % 2 * 4) & 15;
        let code = match nibble {
            PASSANT_PAWN => {
                let (behind, color_bit) = match square.rank() {
                    Rank::Fourth => (Rank::Third, 0),
                    Rank::Fifth => (Rank::Sixth, BLACK),
                    _ => return Err("a pawn that has just jumped stands on neither fourth nor fifth rank"),
                };
                passant = Some(Square::new(square.file(), behind));
                Piece::Pawn as u8 | color_bit
            }
            rook if CASTLING_ROOKS.contains(&rook) => {
                let color = if rook == CASTLING_ROOKS[0] { Color::White } else { Color::Black };
                if !CORNERS.contains(&(square, color)) {
                    return Err("a castling right for a rook that is not in a corner of its side");
                }
                CASTLING_ROOK | if color == Color::Black { BLACK } else { 0 }
            }
            BLACK_KING_TO_MOVE => {
                side = Color::Black;
                Piece::King as u8 | BLACK
            }
            plain => plain >> 1 | (plain & 1) << 3,
        };
        pieces[at / 2] |= code << (at % 2 * 4);
    }
    let ply_and_result = number(28);
    let result = Outcome::from_sign(unzigzag(ply_and_result >> 14) as i8)
        .ok_or("the result is not one of 1, 0, -1")?;
    let ply = ply_and_result & 0x3FFF;
    let position = Packed {
        occupied: occupied.0,
        pieces,
        side_and_passant: passant.map_or(NO_SQUARE, |square| square as u8)
            | if side == Color::Black { BLACK_TO_MOVE } else { 0 },
        halfmoves: number(30).min(255) as u8,
        fullmove: ply / 2 + 1,
    };
    let bits = number(24);
    let square = |shift: u16| Square::index(usize::from(bits >> shift & 63));
    let promotion = (bits >> 14 == 1).then(|| Piece::index(1 + usize::from(bits & 3)));
    let mv = Move { from: square(8), to: square(2), promotion };
    Ok(Record {
        position,
        mv: Some(mv),
        score: score_of(unzigzag(number(SCORE))),
        result: Some(result),
        ply,
        starts_game: true,
    })
}

/// Number of bits that distinguish `count` values; 0 for one value.
fn width(count: u32) -> usize {
    if count <= 1 { 0 } else { 32 - (count - 1).leading_zeros() as usize }
}

/// The n-th square of a set, in square order.
fn nth(squares: BitBoard, n: u32) -> Option<Square> {
    squares.into_iter().nth(n as usize)
}

/// Squares that a pawn can reach by the format's definition, which ignores pins.
fn pawn_targets(board: &Board, from: Square) -> BitBoard {
    let side = board.side_to_move();
    let mut prey = board.colors(!side);
    if let Some(passant) = usable_passant(board) {
        prey |= passant.bitboard();
    }
    get_pawn_attacks(from, side) & prey | get_pawn_quiets(from, side, board.occupied())
}

fn piece_targets(board: &Board, kind: Piece, from: Square) -> BitBoard {
    let occupied = board.occupied();
    let attacks = match kind {
        Piece::Knight => get_knight_moves(from),
        Piece::Bishop => get_bishop_moves(from, occupied),
        Piece::Rook => get_rook_moves(from, occupied),
        Piece::Queen => get_bishop_moves(from, occupied) | get_rook_moves(from, occupied),
        Piece::King | Piece::Pawn => get_king_moves(from),
    };
    attacks & !board.colors(board.side_to_move())
}

/// Files of the rooks with which the side may castle, the queenside first.
fn castling_files(board: &Board) -> impl Iterator<Item = File> {
    let rights = *board.castle_rights(board.side_to_move());
    [rights.long, rights.short].into_iter().flatten()
}

fn promotes(from: Square, side: Color) -> bool {
    from.rank() == Rank::Seventh.relative_to(side)
}

/// Next move of a chain: `None` if the bits end, `Some(None)` if they do not name a move.
fn read_move(board: &Board, bits: &mut HighFirst<'_>) -> Option<Option<Move>> {
    let side = board.side_to_move();
    let ours = board.colors(side);
    let piece = bits.read(width(ours.len()))?;
    let Some(from) = nth(ours, piece) else { return Some(None) };
    let Some(kind) = board.piece_on(from) else { return Some(None) };
    let plain = |to| Move { from, to, promotion: None };
    Some(match kind {
        Piece::Pawn => {
            let targets = pawn_targets(board, from);
            if promotes(from, side) {
                let number = bits.read(width(4 * targets.len()))?;
                let promotion = Some(Piece::index(1 + number as usize % 4));
                nth(targets, number / 4).map(|to| Move { from, to, promotion })
            } else {
                nth(targets, bits.read(width(targets.len()))?).map(plain)
            }
        }
        Piece::King => {
            let targets = piece_targets(board, kind, from);
            let number = bits.read(width(targets.len() + castling_files(board).count() as u32))?;
            match number.checked_sub(targets.len()) {
                None => nth(targets, number).map(plain),
                Some(way) => {
                    castling_files(board).nth(way as usize).map(|file| plain(Square::new(file, from.rank())))
                }
            }
        }
        _ => {
            let targets = piece_targets(board, kind, from);
            nth(targets, bits.read(width(targets.len()))?).map(plain)
        }
    })
}

fn write_move(board: &Board, mv: Move, bits: &mut HighFirstWriter) -> Option<()> {
    let side = board.side_to_move();
    let index = |set: BitBoard, square: Square| {
        set.has(square).then(|| (set.0 & ((1 << square as u64) - 1)).count_ones())
    };
    let ours = board.colors(side);
    bits.write(index(ours, mv.from)?, width(ours.len()));
    let kind = board.piece_on(mv.from)?;
    match kind {
        Piece::Pawn => {
            let targets = pawn_targets(board, mv.from);
            let number = index(targets, mv.to)?;
            match mv.promotion {
                Some(piece) => bits.write(4 * number + piece as u32 - 1, width(4 * targets.len())),
                None => bits.write(number, width(targets.len())),
            }
        }
        Piece::King => {
            let targets = piece_targets(board, kind, mv.from);
            let count = width(targets.len() + castling_files(board).count() as u32);
            let number = if ours.has(mv.to) {
                targets.len() + castling_files(board).position(|file| file == mv.to.file())? as u32
            } else {
                index(targets, mv.to)?
            };
            bits.write(number, count);
        }
        _ => {
            let targets = piece_targets(board, kind, mv.from);
            bits.write(index(targets, mv.to)?, width(targets.len()));
        }
    }
    Some(())
}

/// Variable-length number: four bits at a time, each with a bit that tells whether more follow.
fn read_number(bits: &mut HighFirst<'_>) -> Option<u16> {
    let mut value = 0u32;
    for shift in (0..16).step_by(4) {
        let part = bits.read(5)?;
        value |= (part & 15) << shift;
        if part & 16 == 0 {
            break;
        }
    }
    Some(value as u16)
}

fn write_number(mut value: u16, bits: &mut HighFirstWriter) {
    loop {
        let rest = value >> 4;
        bits.write(u32::from(value & 15) | if rest > 0 { 16 } else { 0 }, 5);
        if rest == 0 {
            return;
        }
        value = rest;
    }
}

#[derive(Default)]
pub(crate) struct BinpackEncoder {
    tracker: GameTracker,
    /// Last record of the chain that is being written.
    last: Option<Record>,
    /// Chains of the current block.
    block: Vec<u8>,
    counted: usize,
    plies: u16,
    bits: HighFirstWriter,
}

impl BinpackEncoder {
    fn end_chain(&mut self) {
        if self.last.take().is_some() {
            self.block[self.counted..self.counted + COUNT].copy_from_slice(&self.plies.to_be_bytes());
            self.block.append(&mut self.bits.bytes);
            self.bits.clear();
            self.plies = 0;
        }
    }

    fn end_block(&mut self, out: &mut Vec<u8>) {
        self.end_chain();
        if !self.block.is_empty() {
            out.extend(MAGIC);
            out.extend((self.block.len() as u32).to_le_bytes());
            out.append(&mut self.block);
        }
    }
}

impl Encode for BinpackEncoder {
    fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        let unsupported = |text: &str| Unsupported(format!("binpack cannot carry {text}"));
        let mv = record.mv.ok_or_else(|| unsupported("a position without a move"))?;
        let result = record.result.ok_or_else(|| unsupported("a position without a result"))?;
        ordinary_rights(&record.position).ok_or_else(|| unsupported("castling rights of Chess960"))?;
        if record.ply >= 1 << 14 {
            return Err(unsupported("a ply of 16,384 or more"));
        }
        let continues = self.tracker.continues_game(record)
            && self.plies < MAX_PLIES
            && self
                .last
                .is_some_and(|last| last.result == Some(result.flipped()) && last.ply + 1 == record.ply);
        let board = self.tracker.advance(record).map_err(Unsupported)?;
        match self.last {
            Some(last) if continues => {
                write_move(&board, mv, &mut self.bits).ok_or_else(|| unsupported("this move"))?;
                let change = value_of(record.score).wrapping_add(value_of(last.score));
                write_number(zigzag(change), &mut self.bits);
                self.plies += 1;
            }
            _ => {
                self.end_chain();
                if self.block.len() >= WRITTEN_BLOCK {
                    self.end_block(out);
                }
                encode_stem(record, mv, result, &mut self.block);
                self.counted = self.block.len();
                self.block.extend([0; COUNT]);
            }
        }
        self.last = Some(*record);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        self.end_block(out);
        Ok(())
    }
}

fn encode_stem(record: &Record, mv: Move, result: Outcome, out: &mut Vec<u8>) {
    let position = &record.position;
    let side = position.side_to_move();
    let jumped = position.passant().map(|square| Square::new(square.file(), Rank::Fourth.relative_to(!side)));
    let mut nibbles = [0u8; 16];
    for (at, (square, code)) in position.codes().enumerate() {
        let black = code & BLACK != 0;
        let nibble = match code & 7 {
            CASTLING_ROOK => CASTLING_ROOKS[usize::from(black)],
            kind if kind == Piece::King as u8 && black && side == Color::Black => BLACK_KING_TO_MOVE,
            kind if kind == Piece::Pawn as u8 && jumped == Some(square) => PASSANT_PAWN,
            kind => kind << 1 | u8::from(black),
        };
        nibbles[at / 2] |= nibble << (at % 2 * 4);
    }
    out.extend(position.occupied.to_be_bytes());
    out.extend(nibbles);
    let kind = match kind_of_move(position, mv) {
        MoveKind::Plain => 0,
        MoveKind::Promotion => 1,
        MoveKind::Castling => 2,
        MoveKind::EnPassant => 3,
    };
    let promotion = mv.promotion.map_or(0, |piece| piece as u16 - 1);
    out.extend((kind << 14 | (mv.from as u16) << 8 | (mv.to as u16) << 2 | promotion).to_be_bytes());
    out.extend(zigzag(value_of(record.score)).to_be_bytes());
    out.extend((record.ply | zigzag(i16::from(result.sign())) << 14).to_be_bytes());
    out.extend(u16::from(position.halfmoves).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::bin::NO_SCORE;
    use super::*;
    use crate::formats::samples;
    use crate::record::Score;

    #[test]
    fn games_round_trip() {
        // Two games with the same beginning but different ends must not be merged.
        samples::round_trip(&Binpack, BinpackEncoder::default(), samples::games(100), |record| *record);
    }

    #[test]
    fn numbers_survive_zigzag_coding() {
        for value in [0, 1, -1, 2, -2, 655, -655, i16::MAX, i16::MIN] {
            assert_eq!(unzigzag(zigzag(value)), value);
            let mut bits = HighFirstWriter::default();
            write_number(zigzag(value), &mut bits);
            assert_eq!(read_number(&mut HighFirst::new(&bits.bytes)), Some(zigzag(value)));
        }
        assert_eq!((zigzag(1), zigzag(-1), zigzag(0)), (2, 1, 0));
        assert_eq!([1, 2, 3, 4, 5, 16, 17].map(width), [0, 1, 2, 2, 3, 4, 5]);
    }

    #[test]
    fn a_truncated_block_loses_more_than_a_record() {
        let mut bytes = Vec::new();
        let mut encoder = BinpackEncoder::default();
        samples::games(2).iter().for_each(|record| encoder.push(record, &mut bytes).unwrap());
        encoder.finish(&mut bytes).unwrap();
        let whole = samples::decode_all(&Binpack, &bytes).records.len();
        // Truncated within a chain, and truncated where another chain should begin.
        let cut = samples::decode_all(&Binpack, &bytes[..bytes.len() - 3]);
        bytes[4] += 1;
        let waiting = samples::decode_all(&Binpack, &bytes);
        assert_eq!(waiting.records.len(), whole);
        for decoded in [cut, waiting] {
            let [(_, Problem { with_rest: true, .. })] = decoded.problems[..] else {
                panic!("{:?}", decoded.problems)
            };
        }
    }

    #[test]
    fn score_differences_count_from_the_number_in_the_stem() {
        let mut records = samples::games(1)[..2].to_vec();
        (records[0].score, records[1].score) = (None, Some(Score::Centipawns(10)));
        let mut bytes = Vec::new();
        let mut encoder = BinpackEncoder::default();
        records.iter().for_each(|record| encoder.push(record, &mut bytes).unwrap());
        encoder.finish(&mut bytes).unwrap();
        // The second number for "no score". The following scores are differences from it, in 16 bits.
        bytes[HEADER + SCORE..][..2].copy_from_slice(&zigzag(-NO_SCORE).to_be_bytes());
        let scores: Vec<_> =
            samples::decode_all(&Binpack, &bytes).records.iter().map(|record| record.score).collect();
        let counted = 10i16.wrapping_add(NO_SCORE).wrapping_add(NO_SCORE);
        assert_eq!(scores, [None, Some(Score::Centipawns(counted))]);
    }

    #[test]
    fn chess960_is_refused() {
        let mut encoder = BinpackEncoder::default();
        let refused =
            samples::chess960_games(3).iter().any(|record| encoder.push(record, &mut Vec::new()).is_err());
        assert!(refused);
    }

    #[test]
    fn damage_is_reported() {
        let mut bytes = Vec::new();
        let mut encoder = BinpackEncoder::default();
        samples::games(3).iter().for_each(|record| encoder.push(record, &mut bytes).unwrap());
        encoder.finish(&mut bytes).unwrap();
        for len in 1..bytes.len() {
            assert!(!samples::decode_all(&Binpack, &bytes[..len]).problems.is_empty(), "{len} bytes");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            let _ = samples::decode_all(&Binpack, &damaged);
        }
        bytes[4..8].fill(0xFF);
        assert!(samples::decode_all(&Binpack, &bytes).problems[0].1.text.contains("longer than any"));
    }
}
