//! Pieces on squares (768 inputs), with or without king buckets, as bullet's `Chess768` and `ChessBuckets`.

use super::{BadKingBucket, FeatureSet, Mirror, Orientation};

/// Offsets of own pieces, then the opponent's, pawn to king.
const PLANES: [[u16; 6]; 2] = [[0, 64, 128, 192, 256, 320], [384, 448, 512, 576, 640, 704]];

/// Digits that encode king buckets in names: 0 to 9, then a to v for 10 to 31.
const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

impl FeatureSet {
    /// Own and opposing pieces by square: 768 inputs without king buckets.
    pub fn plain() -> Self {
        Self {
            name: "768".into(),
            orientation: Orientation::Flip,
            mirror: Mirror::Never,
            planes: PLANES,
            stride: 768,
            offset: 0,
            kings: [0; 64],
            buckets: 1,
        }
    }

    /// 768 inputs per king bucket. `map` has the bucket of each square of the own king from a1 to h8, each
    /// below 32.
    ///
    /// # Errors
    /// A bucket is 32 or more.
    pub fn king_buckets(map: &[u8; 64]) -> Result<Self, BadKingBucket> {
        Self::bucketed("768-kings-", map, Mirror::Never, map.map(u16::from))
    }

    /// 768 inputs per king bucket, mirrored so that the own king is on the files a to d. `map` has the
    /// buckets of a1, b1, c1, d1, a2 and so on.
    ///
    /// # Errors
    /// A bucket is 32 or more.
    pub fn king_buckets_mirrored(map: &[u8; 32]) -> Result<Self, BadKingBucket> {
        let kings = std::array::from_fn(|square| {
            let (rank, file) = (square / 8, square % 8);
            u16::from(map[rank * 4 + file.min(7 - file)])
        });
        Self::bucketed("768-kings-mirrored-", map, Mirror::KingWest, kings)
    }

    fn bucketed(prefix: &str, map: &[u8], mirror: Mirror, kings: [u16; 64]) -> Result<Self, BadKingBucket> {
        let mut name = String::from(prefix);
        for (square, &bucket) in map.iter().enumerate() {
            let digit = DIGITS.get(usize::from(bucket)).ok_or(BadKingBucket { square, bucket })?;
            name.push(char::from(*digit));
        }
        let buckets = u32::from(map.iter().copied().max().unwrap_or(0)) + 1;
        Ok(Self { name, mirror, kings, buckets, ..Self::plain() })
    }
}

/// Parses `768-kings-…` and `768-kings-mirrored-…`, where a digit stands for the bucket of each square.
pub(super) fn by_name(name: &str) -> Option<FeatureSet> {
    let digits = |text: &str| -> Option<Vec<u8>> {
        text.bytes().map(|byte| DIGITS.iter().position(|&digit| digit == byte).map(|at| at as u8)).collect()
    };
    if let Some(map) = name.strip_prefix("768-kings-mirrored-") {
        return FeatureSet::king_buckets_mirrored(&digits(map)?.try_into().ok()?).ok();
    }
    let map = name.strip_prefix("768-kings-")?;
    FeatureSet::king_buckets(&digits(map)?.try_into().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::tests::random_positions;
    use super::*;
    use tandem_chess::{Board, Color, Square};

    fn slow(board: &Board, side: Color, map: Option<(&[u8], bool)>) -> Vec<usize> {
        let mut rows = Vec::new();
        for square in Square::ALL {
            let (Some(piece), Some(color)) = (board.piece_on(square), board.color_on(square)) else {
                continue;
            };
            let seen = |square: Square| if side == Color::Black { square.flip_rank() } else { square };
            let (mut at, mut king) = (seen(square), seen(board.king(side)));
            let mut bucket = 0;
            if let Some((map, mirrored)) = map {
                if mirrored && king.file() as usize > 3 {
                    (at, king) = (at.flip_file(), king.flip_file());
                }
                let (rank, file) = (king.rank() as usize, king.file() as usize);
                bucket = usize::from(map[if mirrored { rank * 4 + file } else { rank * 8 + file }]);
            }
            let theirs = usize::from(color != side);
            rows.push(bucket * 768 + theirs * 384 + piece as usize * 64 + at as usize);
        }
        rows.sort_unstable();
        rows
    }

    #[test]
    fn maps_of_more_buckets_than_there_are_digits_are_refused() {
        let mut map = [31; 64];
        assert_eq!(FeatureSet::king_buckets(&map).unwrap().num_inputs(), 32 * 768);
        map[9] = 32;
        assert_eq!(FeatureSet::king_buckets(&map), Err(BadKingBucket { square: 9, bucket: 32 }));
        assert!(FeatureSet::king_buckets_mirrored(&[255; 32]).is_err());
    }

    #[test]
    fn features_equal_a_slow_definition() {
        let half: [u8; 32] = std::array::from_fn(|index| (index * 7 % 9) as u8);
        let whole: [u8; 64] = std::array::from_fn(|index| (index * 5 % 13) as u8);
        for position in random_positions(11, 300) {
            for side in Color::ALL {
                let check = |set: FeatureSet, map: Option<(&[u8], bool)>| {
                    let mut rows: Vec<usize> = set.active(position.board(), side).collect();
                    rows.sort_unstable();
                    assert_eq!(rows, slow(position.board(), side, map), "{}", set.name());
                };
                check(FeatureSet::plain(), None);
                check(FeatureSet::king_buckets(&whole).unwrap(), Some((&whole, false)));
                check(FeatureSet::king_buckets_mirrored(&half).unwrap(), Some((&half, true)));
            }
        }
    }
}
