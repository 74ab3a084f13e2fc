//! What the selector sees of a position: twenty numbers that are found in a fraction of a microsecond.

use tandem_chess::{
    BitBoard, Color, Piece, Position, Rank, Square, attacks_by, checking_squares, exchange_value,
    get_king_moves, pawn_attacks,
};

/// How many numbers there are.
pub(crate) const COUNT: usize = 20;

/// One of the numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feature {
    /// What it is called, in files too: a selector belongs to the numbers that it was taught.
    pub name: &'static str,
    /// The least that it can be.
    pub min: f32,
    /// The greatest. What would be more is held back.
    pub max: f32,
}

const fn feature(name: &'static str, min: f32, max: f32) -> Feature {
    Feature { name, min, max }
}

/// The numbers in their order. All are seen by the side to move: its own come before the other's.
pub const FEATURES: [Feature; COUNT] = [
    // Legal moves, in fifties, and captures among them, in twenties.
    feature("moves", 0.0, 2.0),
    feature("captures", 0.0, 2.0),
    // Pawns more than the other side has, in eights.
    feature("pawn-balance", -1.0, 1.0),
    // Men on the board, in 32s; and whether they are ten at most.
    feature("men", 0.0, 1.0),
    feature("endgame", 0.0, 1.0),
    // Squares beside each king that the other side attacks, in eights.
    feature("own-king-pressed", 0.0, 1.0),
    feature("other-king-pressed", 0.0, 1.0),
    feature("check", 0.0, 1.0),
    // Pawns, in eights.
    feature("own-pawns", 0.0, 1.0),
    feature("other-pawns", 0.0, 1.0),
    // Rights to castle, in fours.
    feature("castling", 0.0, 1.0),
    // Men on the four squares in the middle.
    feature("own-centre", 0.0, 1.0),
    feature("other-centre", 0.0, 1.0),
    // Plies that are still to be searched, in twenties.
    feature("depth", 0.0, 2.0),
    // Plies without capture or pawn move, in fifties.
    feature("clock", 0.0, 2.0),
    // Squares that pieces can go to and pawns attack, more than the other side's, in 64s.
    feature("mobility", -1.0, 1.0),
    // The part of the moves that takes, promotes or gives check.
    feature("forcing", 0.0, 1.0),
    // Pawns that a pawn guards, on both sides, in sixteens.
    feature("chains", 0.0, 1.0),
    // How far apart the parts of the NNUE's value are, in fours of pawns.
    feature("discord", 0.0, 1.0),
    // Pieces that only one side has, by their worth, in twenties of pawns: a queen for two rooks is 19 of them.
    feature("imbalance", 0.0, 1.0),
];

/// What the board does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Circumstances {
    /// Plies that are still to be searched.
    pub depth: i32,
    /// How far apart what the NNUE says by piece squares and by its other layers are, in pawns.
    pub discord: f32,
}

/// The numbers of one position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Features([f32; COUNT]);

impl Features {
    /// Those of a position.
    pub fn of(position: &Position, circumstances: Circumstances) -> Self {
        let board = position.board();
        let us = board.side_to_move();
        let moves = Moves::of(position);
        let number = |count: u32, unit: f32| count as f32 / unit;
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
            number(moves.legal, 50.0),
            number(moves.captures, 20.0),
            (own_pawns as f32 - other_pawns as f32) / 8.0,
            number(men, 32.0),
            f32::from(men <= 10),
            number(pressed(us, other_reach), 8.0),
            number(pressed(!us, own_reach), 8.0),
            f32::from(position.in_check()),
            number(own_pawns, 8.0),
            number(other_pawns, 8.0),
            number(rights(us) + rights(!us), 4.0),
            number((board.colors(us) & middle).len(), 4.0),
            number((board.colors(!us) & middle).len(), 4.0),
            circumstances.depth as f32 / 20.0,
            f32::from(board.halfmove_clock()) / 50.0,
            (own_reach.len() as f32 - other_reach.len() as f32) / 64.0,
            number(moves.forcing, moves.targets.max(1) as f32),
            number(chained(us) + chained(!us), 16.0),
            circumstances.discord / 4.0,
            imbalance as f32 / 2000.0,
        ])
    }

    /// Numbers that are held within their ranges; what is no number is the least.
    fn within(mut numbers: [f32; COUNT]) -> Self {
        for (number, feature) in numbers.iter_mut().zip(&FEATURES) {
            // Of a number and none, `max` gives the number.
            *number = number.max(feature.min).min(feature.max);
        }
        Self(numbers)
    }

    /// The numbers, in the order of [`FEATURES`].
    pub fn numbers(&self) -> &[f32; COUNT] {
        &self.0
    }
}

/// Moves, counted by kind.
#[derive(Default)]
struct Moves {
    legal: u32,
    captures: u32,
    /// Moves that take, promote or give check at once, and all moves, each promotion counted once.
    forcing: u32,
    targets: u32,
    /// Squares that pieces can go to.
    reach: BitBoard,
}

impl Moves {
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
        // Castling is the king taking its own rook.
        counted.reach &= !board.colors(us);
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tandem_chess::random::SplitMix;

    fn of(fen: &str) -> impl Fn(&str) -> f32 {
        let position = Position::from_fen(fen).unwrap();
        let features = Features::of(&position, Circumstances { depth: 10, discord: 2.0 });
        move |name| {
            let index = FEATURES.iter().position(|feature| feature.name == name).unwrap();
            features.numbers()[index]
        }
    }

    #[test]
    fn the_start_is_what_everybody_knows() {
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
            ("discord", 0.5),
            ("imbalance", 0.0),
        ] {
            assert_eq!(start(name), value, "{name}");
        }
    }

    #[test]
    fn each_number_sees_what_it_is_named_after() {
        let fight = of("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 30 60");
        assert_eq!((fight("moves"), fight("captures")), (48.0 / 50.0, 8.0 / 20.0));
        assert_eq!((fight("clock"), fight("own-centre")), (0.6, 0.75));
        // A queen for two rooks.
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
        fn numbers_stay_in_their_ranges(seed: u64, depth: i32, discord: f32) {
            let mut random = SplitMix::new(seed);
            let mut position = Position::startpos();
            for _ in 0..120 {
                let features = Features::of(&position, Circumstances { depth, discord });
                for (number, feature) in features.numbers().iter().zip(&FEATURES) {
                    prop_assert!((feature.min..=feature.max).contains(number), "{} {}", feature.name, number);
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
