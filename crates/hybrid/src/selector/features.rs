//! Inputs of the selector: twenty numbers computed from a position in a fraction of a microsecond.
//!
//! They are scaled to about one, and their names are stored with a selector, so that a file trained on other
//! features is refused.

use tandem_chess::{
    BitBoard, Color, Piece, Position, Rank, Square, attacks_by, checking_squares, exchange_value,
    get_king_moves, pawn_attacks,
};

/// Number of features.
pub(crate) const NUM_FEATURES: usize = 20;

/// Name and range of one input of the selector, the network that decides if the transformer is queried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feature {
    /// Name, stored in files. It must never change, because a selector is valid only for the features it was
    /// trained on.
    pub name: &'static str,
    /// Lower bound of the scaled value; smaller values are clamped to it.
    pub min: f32,
    /// Upper bound of the scaled value; larger values are clamped to it.
    pub max: f32,
}

const fn feature(name: &'static str, min: f32, max: f32) -> Feature {
    Feature { name, min, max }
}

/// All inputs of the selector, in the order in which it reads them. They are seen by the side to move: its
/// own numbers come before the opponent's.
pub const FEATURES: [Feature; NUM_FEATURES] = [
    // Legal moves / 50, and captures among them / 20.
    feature("moves", 0.0, 2.0),
    feature("captures", 0.0, 2.0),
    // Own pawns minus the opponent's, / 8.
    feature("pawn-balance", -1.0, 1.0),
    // Pieces on the board / 32, kings and pawns included; 1 if they are at most ten.
    feature("men", 0.0, 1.0),
    feature("endgame", 0.0, 1.0),
    // Squares beside each king that the other side attacks, / 8.
    feature("own-king-pressed", 0.0, 1.0),
    feature("other-king-pressed", 0.0, 1.0),
    feature("check", 0.0, 1.0),
    // Pawns / 8.
    feature("own-pawns", 0.0, 1.0),
    feature("other-pawns", 0.0, 1.0),
    // Castling rights of both sides / 4.
    feature("castling", 0.0, 1.0),
    // Pieces on d4, e4, d5 and e5, / 4.
    feature("own-centre", 0.0, 1.0),
    feature("other-centre", 0.0, 1.0),
    // Remaining search depth in plies / 20.
    feature("depth", 0.0, 2.0),
    // Plies since the last capture or pawn move / 50.
    feature("clock", 0.0, 2.0),
    // Squares that pieces can go to or pawns attack, minus the opponent's, / 64.
    feature("mobility", -1.0, 1.0),
    // Fraction of the moves that capture, promote or give check.
    feature("forcing", 0.0, 1.0),
    // Pawns defended by a pawn, of both sides, / 16.
    feature("chains", 0.0, 1.0),
    // Gap between the NNUE's PSQT and positional outputs, in pawns / 4. The stored name is an old one.
    feature("discord", 0.0, 1.0), // language: old name
    // Pieces that only one side has, by value, in pawns / 20: a queen against two rooks gives 19 pawns.
    feature("imbalance", 0.0, 1.0),
];

/// State of the search and of the NNUE at a position, for the features that cannot be computed from the
/// board.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FeatureContext {
    /// Remaining search depth at the position, in plies.
    pub depth: i32,
    /// Absolute difference between the NNUE's PSQT and positional outputs, in pawns; 0 for networks without
    /// PSQT output.
    pub psqt_positional_gap: f32,
}

/// Values of all features for one position, in the order of [`FEATURES`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Features([f32; NUM_FEATURES]);

impl Features {
    /// Computes the inputs of the selector for a position and its search context.
    pub fn of(position: &Position, context: FeatureContext) -> Self {
        let board = position.board();
        let us = board.side_to_move();
        let moves = MoveCounts::of(position);
        let ratio = |count: u32, unit: f32| count as f32 / unit;
        let pawns = |side| board.colored_pieces(side, Piece::Pawn);
        let [own_pawns, other_pawns] = [us, !us].map(|side| pawns(side).len());
        let own_reach = moves.reach | pawn_attacks(board, us) & !board.colors(us);
        let other_reach = attacks_by(board, !us) & !board.colors(!us);
        let pressed = |side: Color, by: BitBoard| (get_king_moves(board.king(side)) & by).len();
        let rights = |side: Color| {
            let rights = board.castle_rights(side);
            u32::from(rights.short.is_some()) + u32::from(rights.long.is_some())
        };
        let middle =
            Square::D4.bitboard() | Square::E4.bitboard() | Square::D5.bitboard() | Square::E5.bitboard();
        let men = board.occupied().len();
        let chained = |side| (pawn_attacks(board, side) & pawns(side)).len();
        let uneven = |piece| {
            let [own, other] = [us, !us].map(|side| board.colored_pieces(side, piece).len() as i32);
            (own - other).abs() * exchange_value(piece)
        };
        let imbalance: i32 =
            [Piece::Knight, Piece::Bishop, Piece::Rook, Piece::Queen].map(uneven).iter().sum();
        Self::within([
            ratio(moves.legal, 50.0),
            ratio(moves.captures, 20.0),
            (own_pawns as f32 - other_pawns as f32) / 8.0,
            ratio(men, 32.0),
            f32::from(men <= 10),
            ratio(pressed(us, other_reach), 8.0),
            ratio(pressed(!us, own_reach), 8.0),
            f32::from(position.in_check()),
            ratio(own_pawns, 8.0),
            ratio(other_pawns, 8.0),
            ratio(rights(us) + rights(!us), 4.0),
            ratio((board.colors(us) & middle).len(), 4.0),
            ratio((board.colors(!us) & middle).len(), 4.0),
            context.depth as f32 / 20.0,
            f32::from(board.halfmove_clock()) / 50.0,
            (own_reach.len() as f32 - other_reach.len() as f32) / 64.0,
            ratio(moves.forcing, moves.targets.max(1) as f32),
            ratio(chained(us) + chained(!us), 16.0),
            context.psqt_positional_gap / 4.0,
            imbalance as f32 / 2000.0,
        ])
    }

    /// Clamps each value to its range; NaN becomes the lower bound.
    fn within(mut values: [f32; NUM_FEATURES]) -> Self {
        for (value, feature) in values.iter_mut().zip(&FEATURES) {
            // `max` returns the other operand if one is NaN.
            *value = value.max(feature.min).min(feature.max);
        }
        Self(values)
    }

    /// The scaled and clamped values, in the order of [`FEATURES`].
    pub fn values(&self) -> &[f32; NUM_FEATURES] {
        &self.0
    }
}

/// Legal moves, counted by kind.
#[derive(Default)]
struct MoveCounts {
    legal: u32,
    captures: u32,
    /// Moves that capture, promote or give check at once, and all moves; the four promotions on a square
    /// count once.
    forcing: u32,
    targets: u32,
    /// Squares that pieces can go to.
    reach: BitBoard,
}

impl MoveCounts {
    fn of(position: &Position) -> Self {
        let board = position.board();
        let us = board.side_to_move();
        let theirs = board.colors(!us);
        let passing =
            board.en_passant().map(|file| Square::new(file, Rank::Sixth.relative_to(us)).bitboard());
        let pawn_takes = theirs | passing.unwrap_or(BitBoard::EMPTY);
        let last = Rank::Eighth.relative_to(us).bitboard();
        let mut checks = checking_squares(board);
        checks[Piece::Pawn as usize] |= last;
        let mut counted = Self::default();
        board.generate_moves(|moves| {
            let takes = if moves.piece == Piece::Pawn {
                // Each promotion is four moves.
                counted.legal += 3 * (moves.to & last).len();
                moves.to & pawn_takes
            } else {
                counted.reach |= moves.to;
                moves.to & theirs
            };
            counted.targets += moves.to.len();
            counted.captures += takes.len();
            counted.forcing += (takes | moves.to & checks[moves.piece as usize]).len();
            false
        });
        counted.legal += counted.targets;
        // Castling is encoded as the king taking its own rook.
        counted.reach &= !board.colors(us);
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tandem_util::random::SplitMix;

    fn of(fen: &str) -> impl Fn(&str) -> f32 {
        let position = Position::from_fen(fen).unwrap();
        let features = Features::of(&position, FeatureContext { depth: 10, psqt_positional_gap: 2.0 });
        move |name| {
            let index = FEATURES.iter().position(|feature| feature.name == name).unwrap();
            features.values()[index]
        }
    }

    #[test]
    fn the_starting_position_has_known_values() {
        let start = of("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1");
        for (name, value) in [
            ("moves", 0.4),
            ("captures", 0.0),
            ("pawn-balance", 0.0),
            ("men", 1.0),
            ("endgame", 0.0),
            ("own-pawns", 1.0),
            ("castling", 1.0),
            ("depth", 0.5),
            ("mobility", 0.0),
            ("forcing", 0.0),
            ("chains", 0.0),
            ("discord", 0.5), // language: old name
            ("imbalance", 0.0),
        ] {
            assert_eq!(start(name), value, "{name}");
        }
    }

    #[test]
    fn each_feature_measures_what_its_name_says() {
        let fight = of("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 30 60");
        assert_eq!((fight("moves"), fight("captures")), (48.0 / 50.0, 8.0 / 20.0));
        assert_eq!((fight("clock"), fight("own-centre")), (0.6, 0.75));
        // A queen against two rooks.
        let uneven = of("r3k2r/8/8/8/8/8/8/3QK3 b kq - 0 1");
        assert_eq!(
            uneven("imbalance"),
            (2 * exchange_value(Piece::Rook) + exchange_value(Piece::Queen)) as f32 / 2000.0
        );
        assert_eq!((uneven("endgame"), uneven("castling")), (1.0, 0.5));
        let chain = of("4k3/8/4p3/3p4/2pP4/2P5/1P6/4K3 w - - 0 1");
        assert_eq!(chain("chains"), 4.0 / 16.0);
        let check = of("4k3/8/8/8/8/8/4q3/4K3 w - - 0 1");
        assert_eq!((check("check"), check("forcing"), check("own-king-pressed")), (1.0, 1.0, 4.0 / 8.0));
        let promotes = of("8/4P1k1/8/8/8/8/8/4K3 w - - 0 1");
        assert_eq!(promotes("forcing"), 1.0 / 6.0);
        let passing = of("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1");
        assert_eq!(passing("captures"), 0.05);
    }

    #[test]
    fn names_are_distinct_and_ranges_are_ranges() {
        for (index, feature) in FEATURES.iter().enumerate() {
            assert!(feature.min < feature.max);
            assert!(FEATURES[..index].iter().all(|other| other.name != feature.name), "{}", feature.name);
        }
    }

    proptest! {
        #[test]
        fn values_stay_in_their_ranges(seed: u64, depth: i32, psqt_positional_gap: f32) {
            let mut random = SplitMix::new(seed);
            let mut position = Position::startpos();
            for _ in 0..120 {
                let features = Features::of(&position, FeatureContext { depth, psqt_positional_gap });
                for (value, feature) in features.values().iter().zip(&FEATURES) {
                    prop_assert!((feature.min..=feature.max).contains(value), "{} {}", feature.name, value);
                }
                let moves = position.legal_moves();
                if moves.is_empty() {
                    break;
                }
                position.play(moves[random.below(moves.len() as u32) as usize]);
            }
        }
    }
}
