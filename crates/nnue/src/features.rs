//! Which inputs of the network are on: the pieces of a position as each side sees them.
//!
//! Every set here has one shape. A side sees the board through a [`View`] that its own king decides: which rows of
//! the first layer belong to that king, and how squares are turned or mirrored. Within a view, a piece on a square is
//! one row. So a move of any other piece changes one row for each piece that comes or goes, and a move of a king
//! changes the view of one side at most. A new set is a file with one constructor.

mod half_ka;
mod half_kp;
mod plain;

use crate::inputs::Inputs;
use tandem_chess::{Board, Color, Piece, Square};
use thiserror::Error;

/// How Black's view of the board is made from White's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Ranks change places: a1 becomes a8.
    Flip,
    /// The board turns round: a1 becomes h8.
    Rotate,
}

/// Whether a side sees the board mirrored left to right, so that its king always stands in one half of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mirror {
    /// Never.
    Never,
    /// Its king is seen on the files a to d.
    KingWest,
    /// Its king is seen on the files e to h.
    KingEast,
}

/// A side's way of seeing the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    base: u32,
    flip: u8,
}

impl View {
    /// The row before the first of the king's planes.
    pub fn base(self) -> u32 {
        self.base
    }

    /// What a square's number is changed by, bit by bit.
    pub fn flip(self) -> u8 {
        self.flip
    }
}

/// Marks pieces that are no input.
const ABSENT: u16 = u16::MAX;

/// A set of inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureSet {
    name: String,
    turn: Turn,
    mirror: Mirror,
    /// Where the rows of each kind of piece begin within a king's: own pieces, then the enemy's.
    planes: [[u16; 6]; 2],
    /// Rows of one king.
    stride: u32,
    /// Rows before the first of a king's.
    offset: u32,
    /// For each square of a king, as its side sees it, which rows are its own.
    kings: [u16; 64],
    buckets: u32,
}

/// A name that is no feature set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no feature set is called {0:?}; there are halfkp, halfkp-41024, halfka-v2, halfka-v2-hm, 768, and \
     768 with king buckets: 768-kings, or 768-kings-mirrored, and the bucket of each square"
)]
pub struct UnknownFeatures(pub String);

/// A king's square with a bucket that there is none of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("number {square} of the map of kings is bucket {bucket}; there are 0 to 31")]
pub struct BadKingBucket {
    /// The place in the map.
    pub square: usize,
    /// What stands there.
    pub bucket: u8,
}

impl FeatureSet {
    /// The set of that name, as [`Self::name`] gives it.
    pub fn by_name(name: &str) -> Result<Self, UnknownFeatures> {
        match name {
            "halfkp" => Ok(Self::half_kp()),
            "halfkp-41024" => Ok(Self::half_kp_41024()),
            "halfka-v2" => Ok(Self::half_ka_v2()),
            "halfka-v2-hm" => Ok(Self::half_ka_v2_hm()),
            "768" => Ok(Self::plain()),
            _ => plain::by_name(name).ok_or_else(|| UnknownFeatures(name.into())),
        }
    }

    /// The name, which says all there is to know of the set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many inputs there are.
    pub fn inputs(&self) -> usize {
        (self.buckets * self.stride) as usize
    }

    /// How many inputs belong to one king.
    pub fn stride(&self) -> usize {
        self.stride as usize
    }

    /// The most inputs that can be on at once.
    pub fn max_active(&self) -> usize {
        if self.planes[0][Piece::King as usize] == ABSENT { 30 } else { 32 }
    }

    /// How many groups of rows there are, of which the own king chooses one.
    pub fn king_bucket_count(&self) -> usize {
        self.buckets as usize
    }

    /// How `side` sees the board with its king on a square.
    #[inline]
    pub fn view(&self, side: Color, king: Square) -> View {
        let mut flip = match (side, self.turn) {
            (Color::White, _) => 0,
            (Color::Black, Turn::Flip) => 56,
            (Color::Black, Turn::Rotate) => 63,
        };
        let west = (king as u8 ^ flip) & 7 < 4;
        if self.mirror == Mirror::KingWest && !west || self.mirror == Mirror::KingEast && west {
            flip ^= 7;
        }
        let bucket = u32::from(self.kings[usize::from(king as u8 ^ flip)]);
        View { base: bucket * self.stride + self.offset, flip }
    }

    /// A number below [`Self::views`] for each view of a side.
    #[inline]
    pub(crate) fn view_number(&self, view: View) -> usize {
        (view.base / self.stride) as usize * 2 + usize::from(view.flip & 7 != 0)
    }

    pub(crate) fn views(&self) -> usize {
        2 * self.king_bucket_count()
    }

    /// Where the rows of a kind of piece begin within a king's, if it has any: a row is [`View::base`], this, and the square
    /// with [`View::flip`].
    pub fn plane(&self, own: bool, piece: Piece) -> Option<u16> {
        let plane = self.planes[usize::from(!own)][piece as usize];
        (plane != ABSENT).then_some(plane)
    }

    /// The input for a piece on a square, if there is one: some sets leave the kings out.
    #[inline]
    pub fn index(&self, view: View, own: bool, piece: Piece, square: Square) -> Option<usize> {
        let plane = self.planes[usize::from(!own)][piece as usize];
        (plane != ABSENT)
            .then(|| view.base as usize + usize::from(plane) + usize::from(square as u8 ^ view.flip))
    }

    /// The inputs that are on for one side.
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

/// What every set of inputs must say; the set says it itself as well, so that chess needs no trait.
impl Inputs for FeatureSet {
    const SIDES: usize = 2;

    fn name(&self) -> &str {
        self.name()
    }

    fn inputs(&self) -> usize {
        self.inputs()
    }

    fn max_active(&self) -> usize {
        self.max_active()
    }

    fn stride(&self) -> usize {
        self.stride()
    }
}

/// Rows of ten kinds of piece, own and enemy in turn, or eleven with both kings sharing the last.
const fn alternating(kings: bool) -> [[u16; 6]; 2] {
    let king = if kings { 640 } else { ABSENT };
    [[0, 128, 256, 384, 512, king], [64, 192, 320, 448, 576, king]]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tandem_chess::Position;

    /// Positions of a few random games, for tests of all kinds.
    pub(crate) fn random_positions(seed: u64, plies: usize) -> Vec<Position> {
        let mut state = seed | 1;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % below
        };
        let mut position = Position::startpos();
        let mut positions = Vec::new();
        while positions.len() < plies {
            let moves = position.legal_moves();
            if moves.is_empty() || position.is_fifty_moves() || position.ply() > 160 {
                position = Position::startpos();
                continue;
            }
            position.play(moves[random(moves.len())]);
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
    fn every_name_leads_back_to_its_set() {
        for set in all_sets() {
            assert_eq!(FeatureSet::by_name(set.name()).as_ref(), Ok(&set));
        }
        assert!(FeatureSet::by_name("halfkp-2").is_err());
        assert!(FeatureSet::by_name("768-kings-1").is_err());
    }

    #[test]
    fn inputs_are_in_range_and_differ_within_a_position() {
        for position in random_positions(7, 400) {
            for set in all_sets() {
                for side in Color::ALL {
                    let mut active: Vec<usize> = set.active(position.board(), side).collect();
                    let count = active.len();
                    active.sort_unstable();
                    active.dedup();
                    assert_eq!(active.len(), count, "{} {}", set.name(), position.fen());
                    assert!(active.len() <= set.max_active());
                    assert!(active.last().is_none_or(|&last| last < set.inputs()));
                }
            }
        }
    }

    /// Colours and ranks change places: each side must then see what the other saw.
    #[test]
    fn the_sides_see_alike() {
        let sets = all_sets();
        for position in random_positions(9, 200) {
            let board = position.board();
            let mirrored = mirror_colors(board);
            for set in sets.iter().filter(|set| set.turn == Turn::Flip) {
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
