//! HalfKP: the own king's square and every piece except the kings.

use super::{FeatureSet, Mirror, Orientation, alternating};

impl FeatureSet {
    /// HalfKP with 40,960 inputs: 64 squares of the own king, 10 kinds of piece, 64 squares. The board is
    /// rotated for Black.
    pub fn half_kp() -> Self {
        Self {
            name: "halfkp".into(),
            orientation: Orientation::Rotate,
            mirror: Mirror::Never,
            planes: alternating(false),
            stride: 640,
            offset: 0,
            kings: std::array::from_fn(|square| square as u16),
            buckets: 64,
        }
    }

    /// HalfKP as in Stockfish 12 and Jomfish, with 41,024 inputs: each king square has one more, its first,
    /// which is never active.
    pub fn half_kp_41024() -> Self {
        Self { name: "halfkp-41024".into(), stride: 641, offset: 1, ..Self::half_kp() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::random_positions;
    use super::*;
    use tandem_chess::{Color, Piece};

    /// The definition of Jomfish's author, with the stride and the offset as parameters.
    fn slow(board: &tandem_chess::Board, white: bool, stride: usize, offset: usize) -> Vec<usize> {
        let orient = |square: usize| (usize::from(!white) * 63) ^ square;
        let side = if white { Color::White } else { Color::Black };
        let king = orient(board.king(side) as usize);
        let mut rows = Vec::new();
        for square in tandem_chess::Square::ALL {
            let (Some(piece), Some(color)) = (board.piece_on(square), board.color_on(square)) else {
                continue;
            };
            if piece != Piece::King {
                let kind = piece as usize * 2 + usize::from((color == Color::White) != white);
                rows.push(offset + orient(square as usize) + kind * 64 + king * stride);
            }
        }
        rows.sort_unstable();
        rows
    }

    #[test]
    fn features_equal_the_written_definition() {
        for position in random_positions(3, 300) {
            for white in [true, false] {
                let side = if white { Color::White } else { Color::Black };
                for (set, stride, offset) in
                    [(FeatureSet::half_kp(), 640, 0), (FeatureSet::half_kp_41024(), 641, 1)]
                {
                    let mut rows: Vec<usize> = set.active(position.board(), side).collect();
                    rows.sort_unstable();
                    assert_eq!(rows, slow(position.board(), white, stride, offset));
                }
            }
        }
        assert_eq!(FeatureSet::half_kp().num_inputs(), 40_960);
        assert_eq!(FeatureSet::half_kp_41024().num_inputs(), 41_024);
    }
}
