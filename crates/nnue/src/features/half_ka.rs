//! HalfKAv2: the own king's square and every piece, with both kings in one plane.

use super::{FeatureSet, Mirror, Orientation, alternating};

impl FeatureSet {
    /// HalfKAv2 with 45,056 inputs, as in Stockfish 14: 64 squares of the own king, 11 planes of 64 squares.
    pub fn half_ka_v2() -> Self {
        Self {
            name: "halfka-v2".into(),
            orientation: Orientation::Flip,
            mirror: Mirror::Never,
            planes: alternating(true),
            stride: 704,
            offset: 0,
            kings: std::array::from_fn(|square| square as u16),
            buckets: 64,
        }
    }

    /// HalfKAv2_hm, horizontally mirrored so that the own king is on the files e to h: 22,528 inputs, as in
    /// Stockfish 14.1 and later.
    pub fn half_ka_v2_hm() -> Self {
        Self {
            name: "halfka-v2-hm".into(),
            mirror: Mirror::KingEast,
            kings: std::array::from_fn(|square| {
                let (rank, file) = (square / 8, square % 8);
                ((7 - rank) * 4 + file.min(7 - file)) as u16
            }),
            buckets: 32,
            ..Self::half_ka_v2()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::random_positions;
    use super::*;
    use tandem_chess::{Board, Color, Piece, Square};

    /// The published definition, one square at a time.
    fn slow(board: &Board, side: Color, mirrored: bool) -> Vec<usize> {
        let flip = if side == Color::Black { 56 } else { 0 };
        let king = board.king(side) as usize;
        let turn = if mirrored && king % 8 < 4 { 7 } else { 0 };
        let bucket = if mirrored {
            const FIRST_RANK: [usize; 8] = [28, 29, 30, 31, 31, 30, 29, 28];
            let seen = king ^ flip;
            FIRST_RANK[seen % 8] - 4 * (seen / 8)
        } else {
            king ^ flip
        };
        let mut rows = Vec::new();
        for square in Square::ALL {
            let (Some(piece), Some(color)) = (board.piece_on(square), board.color_on(square)) else {
                continue;
            };
            let plane = match piece {
                Piece::King => 10,
                _ => 2 * piece as usize + usize::from(color != side),
            };
            rows.push((square as usize ^ flip ^ turn) + 64 * plane + 704 * bucket);
        }
        rows.sort_unstable();
        rows
    }

    #[test]
    fn features_equal_the_published_definition() {
        for position in random_positions(5, 300) {
            for side in Color::ALL {
                for (set, mirrored) in
                    [(FeatureSet::half_ka_v2(), false), (FeatureSet::half_ka_v2_hm(), true)]
                {
                    let mut rows: Vec<usize> = set.active(position.board(), side).collect();
                    rows.sort_unstable();
                    assert_eq!(rows, slow(position.board(), side, mirrored), "{}", set.name());
                }
            }
        }
        assert_eq!(FeatureSet::half_ka_v2().num_inputs(), 45_056);
        assert_eq!(FeatureSet::half_ka_v2_hm().num_inputs(), 22_528);
    }
}
