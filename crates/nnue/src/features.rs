//! Chess feature sets: the pieces of a position as inputs, from the perspective of each side.
//!
//! All sets have the same structure. A side's own king determines its [`KingView`]: the weight rows of its
//! king bucket, and how squares are flipped or mirrored. Within a view, a piece on a square is one feature. A
//! move of another piece therefore changes one feature per piece that comes or goes, and a king move changes
//! the view of one side at most. A new set is a file with one constructor.

mod half_ka;
mod half_kp;
mod plain;

use crate::inputs::Inputs;
use tandem_chess::{Board, Color, Piece, Square};
use thiserror::Error;

/// Transformation from White's to Black's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Orientation {
    /// Ranks are flipped: a1 becomes a8.
    Flip,
    /// The board is rotated by 180 degrees: a1 becomes h8.
    Rotate,
}

/// Horizontal mirroring, so that a side's own king always appears in one half of the board. It halves the
/// number of king buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mirror {
    /// Files are left as they are.
    Never,
    /// The own king always appears on the files a to d.
    KingWest,
    /// The own king always appears on the files e to h.
    KingEast,
}

/// A side's view of the board, determined by its own king: the king bucket and the transformation of squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KingView {
    base: u32,
    flip: u8,
}

impl KingView {
    /// Index of the first feature of the king bucket (group of king squares with weights of its own) that
    /// this view selects.
    pub fn base(self) -> u32 {
        self.base
    }

    /// Mask that is XORed with a square index, for example 56 to flip ranks.
    pub fn flip(self) -> u8 {
        self.flip
    }
}

/// Marks kinds of pieces that have no feature, such as the kings in HalfKP.
const ABSENT: u16 = u16::MAX;

/// A set of inputs that describe a chess position, one for each kind of piece on each square, such as
/// HalfKAv2 or 768 with king buckets. Made by its constructors or [`Self::by_name`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureSet {
    name: String,
    orientation: Orientation,
    mirror: Mirror,
    /// Offset of each kind of piece within a king bucket: own pieces, then the opponent's, pawn to king.
    planes: [[u16; 6]; 2],
    /// Number of features in one king bucket.
    stride: u32,
    /// Number of unused features at the start of each king bucket.
    offset: u32,
    /// King bucket of each square of the own king, after the transformation.
    kings: [u16; 64],
    buckets: u32,
}

/// No feature set has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no feature set is called {0:?}; there are halfkp, halfkp-41024, halfka-v2, halfka-v2-hm, 768, and \
     768 with king buckets: 768-kings, or 768-kings-mirrored, and the bucket of each square"
)]
pub struct UnknownFeatureSet(pub String);

/// Error for a bucket number above 31 in a map from king squares to buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("entry {square} of the map of king buckets is {bucket}, not from 0 to 31")]
pub struct BadKingBucket {
    /// Index of the entry in the map that was given.
    pub square: usize,
    /// The bucket number at this index; the maximum is 31.
    pub bucket: u8,
}

impl FeatureSet {
    /// The set with this name, as given by [`Self::name`].
    ///
    /// # Errors
    /// No set has this name. The message lists those that exist.
    pub fn by_name(name: &str) -> Result<Self, UnknownFeatureSet> {
        match name {
            "halfkp" => Ok(Self::half_kp()),
            "halfkp-41024" => Ok(Self::half_kp_41024()),
            "halfka-v2" => Ok(Self::half_ka_v2()),
            "halfka-v2-hm" => Ok(Self::half_ka_v2_hm()),
            "768" => Ok(Self::plain()),
            _ => plain::by_name(name).ok_or_else(|| UnknownFeatureSet(name.into())),
        }
    }

    /// The name in file headers and recipes, from which [`Self::by_name`] reconstructs the set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of features, which is the number of weight rows of the first layer.
    pub fn num_inputs(&self) -> usize {
        (self.buckets * self.stride) as usize
    }

    /// Number of features of one king bucket (a group of king squares with weights of its own).
    pub fn stride(&self) -> usize {
        self.stride as usize
    }

    /// Maximum number of features active at once for one side: 32, or 30 for sets without kings.
    pub fn max_active(&self) -> usize {
        if self.planes[0][Piece::King as usize] == ABSENT { 30 } else { 32 }
    }

    /// Number of king buckets: groups of squares of the own king, each with features and weights of its own.
    pub fn king_bucket_count(&self) -> usize {
        self.buckets as usize
    }

    /// The view of `side` with its king on the square `king`, which selects the king bucket and the
    /// transformation of squares.
    #[inline]
    pub fn view(&self, side: Color, king: Square) -> KingView {
        let mut flip = match (side, self.orientation) {
            (Color::White, _) => 0,
            (Color::Black, Orientation::Flip) => 56,
            (Color::Black, Orientation::Rotate) => 63,
        };
        let west = (king as u8 ^ flip) & 7 < 4;
        if self.mirror == Mirror::KingWest && !west || self.mirror == Mirror::KingEast && west {
            flip ^= 7;
        }
        let bucket = u32::from(self.kings[usize::from(king as u8 ^ flip)]);
        KingView { base: bucket * self.stride + self.offset, flip }
    }

    /// An index below [`Self::num_views`] for each view of a side.
    #[inline]
    pub(crate) fn view_index(&self, view: KingView) -> usize {
        (view.base / self.stride) as usize * 2 + usize::from(view.flip & 7 != 0)
    }

    pub(crate) fn num_views(&self) -> usize {
        2 * self.king_bucket_count()
    }

    /// Offset of a kind of piece within a king bucket, or `None` if it has no features. A feature's index is
    /// [`KingView::base`], plus this offset, plus the square XOR [`KingView::flip`].
    pub fn plane(&self, own: bool, piece: Piece) -> Option<u16> {
        let plane = self.planes[usize::from(!own)][piece as usize];
        (plane != ABSENT).then_some(plane)
    }

    /// Index of the feature for a piece on a square; `None` if the set has no such feature, for example for
    /// kings in HalfKP.
    #[inline]
    pub fn index(&self, view: KingView, own: bool, piece: Piece, square: Square) -> Option<usize> {
        let plane = self.planes[usize::from(!own)][piece as usize];
        (plane != ABSENT)
            .then(|| view.base as usize + usize::from(plane) + usize::from(square as u8 ^ view.flip))
    }

    /// Indices of the active features in the view of one side, in no particular order.
    pub fn active(&self, board: &Board, side: Color) -> impl Iterator<Item = usize> {
        let view = self.view(side, board.king(side));
        Color::ALL.into_iter().flat_map(move |color| {
            Piece::ALL.into_iter().flat_map(move |piece| {
                board
                    .colored_pieces(color, piece)
                    .into_iter()
                    .filter_map(move |square| self.index(view, color == side, piece, square))
            })
        })
    }
}

/// Forwards to the inherent methods, so that chess code need not import the trait.
impl Inputs for FeatureSet {
    const SIDES: usize = 2;

    fn name(&self) -> &str {
        self.name()
    }

    fn num_inputs(&self) -> usize {
        self.num_inputs()
    }

    fn max_active(&self) -> usize {
        self.max_active()
    }

    fn stride(&self) -> usize {
        self.stride()
    }
}

/// Plane offsets with own and opposing pieces alternating: ten kinds of piece, or eleven with both kings
/// sharing the last.
const fn alternating(kings: bool) -> [[u16; 6]; 2] {
    let king = if kings { 640 } else { ABSENT };
    [[0, 128, 256, 384, 512, king], [64, 192, 320, 448, 576, king]]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tandem_chess::Position;
    use tandem_util::random::SplitMix;

    /// Positions of a few random games, shared by the tests of this crate.
    pub(crate) fn random_positions(seed: u64, plies: usize) -> Vec<Position> {
        let mut random = SplitMix::new(seed);
        let mut position = Position::startpos();
        let mut positions = Vec::new();
        while positions.len() < plies {
            let moves = position.legal_moves();
            if moves.is_empty() || position.is_fifty_moves() || position.ply() > 160 {
                position = Position::startpos();
                continue;
            }
            position.play(moves[random.below(moves.len() as u32) as usize]);
            positions.push(position.clone());
        }
        positions
    }

    pub(crate) fn all_sets() -> Vec<FeatureSet> {
        let buckets: Vec<u8> = (0..32).map(|square: u8| square / 8).collect();
        vec![
            FeatureSet::half_kp(),
            FeatureSet::half_kp_41024(),
            FeatureSet::half_ka_v2(),
            FeatureSet::half_ka_v2_hm(),
            FeatureSet::plain(),
            FeatureSet::king_buckets_mirrored(&buckets.try_into().unwrap()).unwrap(),
            FeatureSet::king_buckets(&std::array::from_fn(|square| (square / 16) as u8)).unwrap(),
        ]
    }

    #[test]
    fn every_set_is_found_by_its_name() {
        for set in all_sets() {
            assert_eq!(FeatureSet::by_name(set.name()).as_ref(), Ok(&set));
        }
        assert!(FeatureSet::by_name("halfkp-2").is_err());
        assert!(FeatureSet::by_name("768-kings-1").is_err());
    }

    #[test]
    fn active_features_are_distinct_and_in_range() {
        for position in random_positions(7, 400) {
            for set in all_sets() {
                for side in Color::ALL {
                    let mut active: Vec<usize> = set.active(position.board(), side).collect();
                    let count = active.len();
                    active.sort_unstable();
                    active.dedup();
                    assert_eq!(active.len(), count, "{} {}", set.name(), position.fen());
                    assert!(active.len() <= set.max_active());
                    assert!(active.last().is_none_or(|&last| last < set.num_inputs()));
                }
            }
        }
    }

    /// Swapping colours and flipping ranks must also swap what the two sides see.
    #[test]
    fn both_sides_see_a_colour_flipped_position_alike() {
        let sets = all_sets();
        for position in random_positions(9, 200) {
            let board = position.board();
            let mirrored = mirror_colors(board);
            for set in sets.iter().filter(|set| set.orientation == Orientation::Flip) {
                for side in Color::ALL {
                    let mut seen: Vec<usize> = set.active(board, side).collect();
                    let mut mirror: Vec<usize> = set.active(&mirrored, !side).collect();
                    seen.sort_unstable();
                    mirror.sort_unstable();
                    assert_eq!(seen, mirror, "{}", set.name());
                }
            }
        }
    }

    fn mirror_colors(board: &Board) -> Board {
        let mut builder = tandem_chess::BoardBuilder::from_board(board);
        let original = builder.clone();
        for square in Square::ALL {
            *builder.square_mut(square) =
                original.square(square.flip_rank()).map(|(piece, color)| (piece, !color));
        }
        builder.side_to_move = !board.side_to_move();
        builder.en_passant = None;
        builder.castle_rights = [tandem_chess::CastleRights::EMPTY; 2];
        builder.build().unwrap()
    }
}
