//! Packed positions of 40 bytes: Stockfish's `.bin`, which Jomfish's bit reader reads too.
//!
//! 32 bytes of position, then the score (i16, for the side to move), the move (u16), the ply (u16), the
//! result for the side to move (i8) and a byte of padding. The position is a stream of bits, lowest first:
//! the side to move, both kings, the squares from a8 to h1 by a prefix code (an empty square is one zero; a
//! piece is a one, three bits of kind and its colour), castling, en passant, and the clocks.

use super::bits::{LowFirst, LowFirstWriter};
use crate::codec::*;
use crate::packed::*;
use crate::record::{Outcome, Record, Score};
use tandem_chess::{BitBoard, Color, File, Move, Piece, Rank, Square};

pub(super) const SIZE: usize = 40;
const POSITION: usize = 32;

/// Value that Stockfish writes for a missing score (VALUE_NONE).
pub(super) const NO_SCORE: i16 = 32_002;

pub(super) fn score_of(value: i16) -> Option<Score> {
    (value.unsigned_abs() != NO_SCORE.unsigned_abs()).then_some(Score::Centipawns(value))
}

pub(super) fn value_of(score: Option<Score>) -> i16 {
    score.map_or(NO_SCORE, Score::centipawns)
}

pub(crate) struct Bin;

impl Codec for Bin {
    fn cut(&self) -> Box<dyn Cut> {
        Box::new(FixedCut { size: SIZE })
    }

    fn decode(&self, block: &[u8], out: &mut Decoded) {
        decode_fixed(block, out, decode);
    }
}

fn decode(bytes: &[u8; SIZE]) -> Result<Record, &'static str> {
    // The whole record, so that eight bytes can be loaded at any offset of the position.
    let position = decode_position(bytes)?;
    let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let result = Outcome::from_sign(bytes[38] as i8).ok_or("the result is not one of 1, 0, -1")?;
    Ok(Record {
        position,
        mv: decode_move(number(34)),
        score: score_of(number(32) as i16),
        result: Some(result),
        ply: number(36),
        starts_game: false,
    })
}

/// Corners with a rook that may castle, in the order of the bits: K, Q, k, q.
pub(super) const CORNERS: [(Square, Color); 4] = [
    (Square::H1, Color::White),
    (Square::A1, Color::White),
    (Square::H8, Color::Black),
    (Square::A8, Color::Black),
];

fn decode_position(bytes: &[u8; SIZE]) -> Result<Packed, &'static str> {
    let mut bits = LowFirst::new(bytes);
    let side = if bits.read(1) == 0 { Color::White } else { Color::Black };
    let kings = [bits.read(6) as usize, bits.read(6) as usize];
    if kings[0] == kings[1] {
        return Err("both kings stand on one square");
    }
    let mut codes = [0u8; 64];
    let mut occupied = 1u64 << kings[0] | 1 << kings[1];
    codes[kings[0]] = Piece::King as u8;
    codes[kings[1]] = Piece::King as u8 | BLACK;
    for row in 0..64 {
        let square = row ^ 56;
        if kings.contains(&square) {
            continue;
        }
        let code = bits.peek();
        if code & 1 == 0 {
            bits.skip(1);
            continue;
        }
        bits.skip(5);
        let kind = (code >> 1 & 7) as u8;
        if kind > Piece::Queen as u8 {
            return Err("a piece of an unknown kind");
        }
        codes[square] = kind | (code >> 1) as u8 & BLACK;
        occupied |= 1 << square;
    }
    if occupied.count_ones() as usize > MAX_PIECES {
        return Err("more than 32 pieces");
    }
    let rights = bits.read(4);
    for (bit, (corner, color)) in CORNERS.into_iter().enumerate() {
        let color_bit = if color == Color::Black { BLACK } else { 0 };
        let king = kings[color as usize];
        if rights >> bit & 1 == 1 {
            let home = Square::new(File::E, Rank::First.relative_to(color)) as usize;
            if codes[corner as usize] != Piece::Rook as u8 | color_bit || king != home {
                return Err("a castling right without the rook or the king in its place");
            }
            codes[corner as usize] = CASTLING_ROOK | color_bit;
        }
    }
    let passant = if bits.read(1) == 1 { bits.read(6) as u8 } else { NO_SQUARE };
    let halfmoves = bits.read(6);
    let fullmove = bits.read(8);
    let fullmove = fullmove | bits.read(8) << 8;
    let halfmoves = halfmoves | bits.read(1) << 6;
    if bits.position() > 8 * POSITION {
        return Err("the position is longer than its 32 bytes");
    }
    let mut pieces = [0u8; 16];
    for (at, square) in BitBoard(occupied).into_iter().enumerate() {
        pieces[at / 2] |= codes[square as usize] << (at % 2 * 4);
    }
    Ok(Packed {
        occupied,
        pieces,
        side_and_passant: passant | if side == Color::Black { BLACK_TO_MOVE } else { 0 },
        halfmoves: halfmoves as u8,
        fullmove: fullmove as u16,
    })
}

/// Layout: to (6 bits), from (6), promotion (2: from the knight on), flag (2: one for promotions).
fn decode_move(bits: u16) -> Option<Move> {
    let square = |shift: u16| Square::index(usize::from(bits >> shift & 63));
    let (to, from) = (square(0), square(6));
    let promotion = (bits >> 14 == 1).then(|| Piece::index(1 + usize::from(bits >> 12 & 3)));
    (from != to).then_some(Move { from, to, promotion })
}

fn encode_move(record: &Record) -> u16 {
    let Some(mv) = record.mv else { return 0 };
    let flag = match kind_of_move(&record.position, mv) {
        MoveKind::Plain => 0,
        MoveKind::Promotion => 1,
        MoveKind::EnPassant => 2,
        MoveKind::Castling => 3,
    };
    let promotion = mv.promotion.map_or(0, |piece| piece as u16 - 1);
    mv.to as u16 | (mv.from as u16) << 6 | promotion << 12 | flag << 14
}

/// Kind of a move, as move encodings of several formats distinguish it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveKind {
    Plain,
    Promotion,
    EnPassant,
    /// Castling, as a king that captures its own rook.
    Castling,
}

pub(super) fn kind_of_move(position: &Packed, mv: Move) -> MoveKind {
    let on = |square: Square| position.pieces().find(|&(known, ..)| known == square);
    if mv.promotion.is_some() {
        return MoveKind::Promotion;
    }
    match (on(mv.from), on(mv.to)) {
        (Some((_, ours, Piece::King)), Some((_, theirs, _))) if ours == theirs => MoveKind::Castling,
        (Some((_, _, Piece::Pawn)), None) if mv.from.file() != mv.to.file() => MoveKind::EnPassant,
        _ => MoveKind::Plain,
    }
}

/// Castling rights as four bits; `None` if the rooks or kings are not on their squares of standard chess.
pub(super) fn ordinary_rights(position: &Packed) -> Option<u32> {
    let mut rights = 0;
    let mut kings = [None; 2];
    for (square, color, piece) in position.pieces() {
        if piece == Piece::King {
            kings[color as usize] = Some(square);
        }
    }
    for (square, code) in position.codes().filter(|(_, code)| code & 7 == CASTLING_ROOK) {
        let bit = CORNERS.iter().position(|&(corner, _)| corner == square)?;
        let color = CORNERS[bit].1;
        let home = Square::new(File::E, Rank::First.relative_to(color));
        if (code & BLACK != 0) != (color == Color::Black) || kings[color as usize] != Some(home) {
            return None;
        }
        rights |= 1 << bit;
    }
    Some(rights)
}

pub(crate) struct BinEncoder;

impl Encode for BinEncoder {
    fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        let unsupported = |text: &str| Unsupported(format!("a packed position cannot carry {text}"));
        let position = &record.position;
        let rights = ordinary_rights(position).ok_or_else(|| unsupported("castling rights of Chess960"))?;
        let result = record.result.ok_or_else(|| unsupported("a position without a result"))?;
        if position.halfmoves > 127 {
            return Err(unsupported("a half-move clock above 127"));
        }
        let mut codes = [None; 64];
        let mut kings = [None; 2];
        for (square, code) in position.codes() {
            match kind_of(code) {
                Some(Piece::King) => kings[usize::from(code & BLACK != 0)] = Some(square),
                Some(kind) => codes[square as usize] = Some((kind, u32::from(code & BLACK != 0))),
                None => return Err(unsupported("a piece of an unknown kind")),
            }
        }
        let [Some(white), Some(black)] = kings else { return Err(unsupported("a position without kings")) };
        let mut bits = LowFirstWriter::default();
        bits.write(u32::from(position.side_to_move() == Color::Black), 1);
        bits.write(white as u32, 6);
        bits.write(black as u32, 6);
        for row in 0..64 {
            let square = Square::index(row ^ 56);
            if square == white || square == black {
                continue;
            }
            match codes[square as usize] {
                None => bits.write(0, 1),
                Some((kind, color)) => {
                    bits.write(1, 1);
                    bits.write(kind as u32, 3);
                    bits.write(color, 1);
                }
            }
        }
        bits.write(rights, 4);
        match position.passant() {
            None => bits.write(0, 1),
            Some(square) => {
                bits.write(1, 1);
                bits.write(square as u32, 6);
            }
        }
        let (halfmoves, fullmove) = (u32::from(position.halfmoves), u32::from(position.fullmove));
        bits.write(halfmoves & 63, 6);
        bits.write(fullmove & 255, 8);
        bits.write(fullmove >> 8, 8);
        bits.write(halfmoves >> 6, 1);
        if bits.bytes.len() > POSITION {
            return Err(unsupported("a position with this many pieces"));
        }
        bits.bytes.resize(POSITION, 0);
        out.extend(&bits.bytes);
        out.extend(value_of(record.score).to_le_bytes());
        out.extend(encode_move(record).to_le_bytes());
        out.extend(record.ply.to_le_bytes());
        out.extend([result.sign() as u8, 0xFF]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;

    #[test]
    fn records_round_trip() {
        samples::round_trip(&Bin, BinEncoder, samples::games(40), |record| Record {
            starts_game: false,
            score: Some(record.score.unwrap()),
            ..*record
        });
        let fits =
            samples::chess960_games(5).iter().all(|record| BinEncoder.push(record, &mut Vec::new()).is_ok());
        assert!(!fits, "Chess960 has no place");
    }

    /// Bits of the start position, derived by hand from the description of the format.
    #[test]
    fn the_start_position_is_as_described() {
        let mut record = samples::games(1)[0];
        record.position = Packed::new(&tandem_chess::Board::default()).unwrap();
        record.mv = Some(Move { from: Square::E2, to: Square::E4, promotion: None });
        (record.score, record.result, record.ply) = (Some(Score::Centipawns(-2)), Some(Outcome::Loss), 7);
        let mut bytes = Vec::new();
        BinEncoder.push(&record, &mut bytes).unwrap();
        // White to move, the kings on e1 and e8, then a8: a piece, kind 3, black.
        let start = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        assert_eq!(start & 0x3FFFF, 4 << 1 | 60 << 7 | 0b1_0111 << 13);
        assert_eq!(bytes[32..], [0xFE, 0xFF, 0x1C, 0x03, 7, 0, 0xFF, 0xFF]);
    }

    #[test]
    fn damage_is_reported_and_skipped() {
        let mut bytes = Vec::new();
        for record in &samples::games(2)[..4] {
            BinEncoder.push(record, &mut bytes).unwrap();
        }
        bytes[SIZE + 38] = 9;
        let mut out = Decoded::default();
        Bin.decode(&bytes[..4 * SIZE - 3], &mut out);
        assert_eq!(out.records.len(), 2);
        let places: Vec<_> = out.problems.iter().map(|(before, problem)| (*before, problem.byte)).collect();
        assert_eq!(places, [(1, SIZE), (2, 3 * SIZE)]);
    }
}
