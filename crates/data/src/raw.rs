//! Records in a fixed number of bytes, for temporary files of this program: shuffle buckets and label
//! journals.
//!
//! The layout is private and may change with any version, so it is not a format for storing data.

use crate::packed::{Packed, placement};
use crate::record::{Outcome, Record, Score};
use tandem_chess::PackedMove;

const SIZE: usize = 48;

impl Record {
    /// Size of a packed record in bytes, the same for all records.
    pub const SIZE: usize = SIZE;

    /// All fields of the record in [`Self::SIZE`] bytes, without loss; [`Self::unpack`] reads them. The
    /// layout may change between versions, so only temporary files should hold it.
    pub fn pack(&self) -> [u8; Self::SIZE] {
        pack(self)
    }

    /// Record from the bytes of [`Self::pack`]. Damaged bytes are not detected, except that an unknown code
    /// of a move, score or result gives `None`.
    pub fn unpack(bytes: &[u8; Self::SIZE]) -> Self {
        unpack(bytes)
    }
}

fn pack(record: &Record) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    let Packed { occupied, pieces, side_and_passant, halfmoves, fullmove } = record.position;
    bytes[..8].copy_from_slice(&occupied.to_le_bytes());
    bytes[8..24].copy_from_slice(&pieces);
    (bytes[24], bytes[25]) = (side_and_passant, halfmoves);
    bytes[26..28].copy_from_slice(&fullmove.to_le_bytes());
    bytes[28..30].copy_from_slice(&PackedMove::new(record.mv).bits().to_le_bytes());
    bytes[30..32].copy_from_slice(&record.ply.to_le_bytes());
    let (kind, value) = match record.score {
        None => (0, 0),
        Some(Score::Centipawns(value)) => (1, value as u64),
        Some(Score::Mate(moves)) => (2, moves as u64),
        Some(Score::WinProbability(probability)) => (3, probability.to_bits()),
    };
    bytes[32..40].copy_from_slice(&value.to_le_bytes());
    bytes[40] = kind;
    bytes[41] = record.result.map_or(3, |result| result as u8);
    bytes[42] = u8::from(record.starts_game);
    bytes
}

fn unpack(bytes: &[u8; SIZE]) -> Record {
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let (occupied, pieces) = placement(bytes);
    let value = long(32);
    Record {
        position: Packed {
            occupied,
            pieces,
            side_and_passant: bytes[24],
            halfmoves: bytes[25],
            fullmove: short(26),
        },
        mv: PackedMove::from_bits(short(28)).unpack(),
        score: match bytes[40] {
            1 => Some(Score::Centipawns(value as i16)),
            2 => Some(Score::Mate(value as i16)),
            3 => Some(Score::WinProbability(f64::from_bits(value))),
            _ => None,
        },
        result: match bytes[41] {
            0 => Some(Outcome::Loss),
            1 => Some(Outcome::Draw),
            2 => Some(Outcome::Win),
            _ => None,
        },
        ply: short(30),
        starts_game: bytes[42] != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;

    #[test]
    fn records_round_trip() {
        let mut records = samples::games(5);
        records[1].score = Some(Score::Mate(-3));
        records[2].score = Some(Score::WinProbability(0.3));
        (records[3].score, records[3].mv, records[3].result) = (None, None, None);
        assert!(records.iter().all(|record| Record::unpack(&record.pack()) == *record));
    }
}
