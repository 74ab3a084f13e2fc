//! Bulletformat: positions of 32 bytes without moves, clocks and castling rights.
//!
//! Fields in order: the occupied squares (u64), four bits for each piece (colour, then kind; the side to move
//! is always White, and the board is turned round for Black), the score (i16) and the result (0, 1, 2) for
//! the side to move, both kings' squares as their sides see them, three bytes of padding.

use crate::codec::*;
use crate::packed::*;
use crate::record::{Outcome, Record, Score};
use tandem_chess::{Color, Piece};

pub(super) const SIZE: usize = 32;

pub(crate) struct Bullet;

impl Codec for Bullet {
    fn cut(&self) -> Box<dyn Cut> {
        Box::new(FixedCut { size: SIZE })
    }

    fn decode(&self, block: &[u8], out: &mut Decoded) {
        decode_fixed(block, out, decode);
    }
}

fn decode(bytes: &[u8; SIZE]) -> Result<Record, &'static str> {
    let (occupied, pieces) = placement(bytes);
    let count = occupied.count_ones() as usize;
    if !(2..=MAX_PIECES).contains(&count) {
        return Err("a number of pieces that no game has");
    }
    // Kinds 6 and 7 do not exist. Bits behind the last piece are ignored, because they would make equal
    // positions differ.
    let pieces = u128::from_le_bytes(pieces) & (u128::MAX >> (128 - 4 * count));
    let high = pieces >> 1 & pieces >> 2 & 0x1111_1111_1111_1111_1111_1111_1111_1111;
    if high != 0 {
        return Err("a piece of an unknown kind");
    }
    let pieces = pieces.to_le_bytes();
    let position = Packed { occupied, pieces, side_and_passant: NO_SQUARE, halfmoves: 0, fullmove: 1 };
    let result = match bytes[26] {
        0 => Outcome::Loss,
        1 => Outcome::Draw,
        2 => Outcome::Win,
        _ => return Err("the result is not one of 0, 1, 2"),
    };
    let score = Some(Score::Centipawns(i16::from_le_bytes([bytes[24], bytes[25]])));
    Ok(Record { position, mv: None, score, result: Some(result), ply: 0, starts_game: false })
}

pub(crate) struct BulletEncoder;

impl Encode for BulletEncoder {
    fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        let unsupported = |text: &str| Unsupported(format!("bulletformat cannot carry a position {text}"));
        let score = record.score.ok_or_else(|| unsupported("without a score"))?;
        let result = record.result.ok_or_else(|| unsupported("without a result"))?;
        let position = match record.position.side_to_move() {
            Color::White => record.position,
            Color::Black => record.position.flipped(),
        };
        let mut pieces = [0; 16];
        let mut kings = [0; 2];
        for (at, (square, code)) in position.codes().enumerate() {
            let Some(kind) = kind_of(code) else {
                return Err(unsupported("with a piece of an unknown kind"));
            };
            pieces[at / 2] |= (kind as u8 | code & BLACK) << (at % 2 * 4);
            if kind == Piece::King {
                kings[usize::from(code & BLACK != 0)] = square as u8;
            }
        }
        out.extend(position.occupied.to_le_bytes());
        out.extend(pieces);
        out.extend(score.centipawns().to_le_bytes());
        out.extend([result as u8, kings[0], kings[1] ^ 56, 0, 0, 0]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;

    /// Fields of a record that survive bulletformat.
    fn kept(record: &Record) -> Record {
        let turned = if samples::is_white(record) { *record } else { record.flipped() };
        let codes = turned.position.codes().map(|(square, code)| {
            (square, if code & 7 == CASTLING_ROOK { Piece::Rook as u8 | code & BLACK } else { code })
        });
        let position = Packed::from_parts(codes, Color::White, None, (0, 1)).unwrap();
        Record { position, mv: None, ply: 0, starts_game: false, ..*record }
    }

    #[test]
    fn records_round_trip_without_the_fields_that_the_format_lacks() {
        samples::round_trip(&Bullet, BulletEncoder, samples::games(20), kept);
        samples::round_trip(&Bullet, BulletEncoder, samples::chess960_games(20), kept);
    }

    #[test]
    fn damage_is_reported() {
        let mut bytes = Vec::new();
        for record in &samples::games(1)[..3] {
            BulletEncoder.push(record, &mut bytes).unwrap();
        }
        bytes[26] = 3;
        bytes[SIZE + 8] = 0x07;
        bytes[2 * SIZE..2 * SIZE + 8].fill(0xFF);
        let decoded = samples::decode_all(&Bullet, &bytes[..3 * SIZE]);
        assert_eq!(decoded.problems.len(), 3);
        assert_eq!(samples::decode_all(&Bullet, &bytes[..SIZE - 1]).problems.len(), 1);
    }

    #[test]
    fn bits_behind_the_last_piece_are_ignored() {
        let kings = tandem_chess::fen::parse("4k3/8/8/8/8/8/8/4K3 w - - 0 1").unwrap();
        let mut record = Record::new(Packed::new(&kings).unwrap());
        (record.score, record.result) = (Some(Score::Centipawns(0)), Some(Outcome::Draw));
        let mut bytes = Vec::new();
        BulletEncoder.push(&record, &mut bytes).unwrap();
        let clean = samples::decode_all(&Bullet, &bytes).records;
        // Further kings, behind the two that count.
        bytes[9..24].fill(0x5D);
        let decoded = samples::decode_all(&Bullet, &bytes).records;
        assert!(decoded == clean && decoded[0].position.has_kings());
    }
}
