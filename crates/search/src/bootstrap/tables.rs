//! The weights of the hand-written evaluation, fitted by `scripts/fit_bootstrap.py`: data only.
//!
//! All values are in centipawns, for the side that has the term.

use super::Pair;

/// Index in [`WEIGHTS`] at which each kind of term begins.
pub(crate) mod term {
    /// Material of pawn, knight, bishop, rook, queen and king.
    pub(crate) const MATERIAL: usize = 0;
    /// Piece-square tables, added to material: 64 squares for each kind of piece, rank 1 first, from its own
    /// side's view and mirrored where needed to have its king on the files e to h; first for kings on the
    /// same side of the board, then for kings on opposite sides.
    pub(crate) const SQUARES: usize = 6;
    /// Bonus of the side to move.
    pub(crate) const TEMPO: usize = 774;
    /// A passed pawn, by rank from its own side's view (0 is rank 1).
    pub(crate) const PASSED: usize = 775;
    /// A passed pawn with another pawn defending it or beside it, by rank.
    pub(crate) const PASSED_CONNECTED: usize = 783;
    /// Distance of its own king from the square in front of a passed pawn, for each rank beyond the third.
    pub(crate) const PASSED_OWN_KING: usize = 791;
    /// Distance of the opponent's king from that square, in the same way.
    pub(crate) const PASSED_ENEMY_KING: usize = 799;
    /// A passed pawn with a piece in front of it, by rank.
    pub(crate) const PASSED_BLOCKED: usize = 807;
    /// A passed pawn whose path is free and not attacked, by rank.
    pub(crate) const PASSED_FREE: usize = 815;
    /// A passed pawn that can safely advance one square, but not all the way, by rank.
    pub(crate) const PASSED_STEP: usize = 823;
    /// A pawn with another beside it, by rank.
    pub(crate) const PHALANX: usize = 831;
    /// Each pawn that defends a pawn, by the rank of the defended.
    pub(crate) const SUPPORTED: usize = 839;
    /// An isolated pawn: opposed by a pawn on its file, not opposed.
    pub(crate) const ISOLATED: usize = 847;
    /// A backward pawn, behind all its neighbours and unable to advance safely: opposed, not opposed.
    pub(crate) const BACKWARD: usize = 849;
    /// A doubled pawn, behind another on its file: not defended by a pawn, defended.
    pub(crate) const DOUBLED: usize = 851;
    /// Shelter: the nearest own pawn on each of three files before a king, by distance of the file from the
    /// edge and by rank; rank 0 for none.
    pub(crate) const SHELTER: usize = 853;
    /// Storm: the nearest pawn of the opponent on each of these files, in the same way.
    pub(crate) const STORM: usize = 885;
    /// Squares to which a knight can move that are not attacked by pawns of the opponent or occupied by own
    /// pawns or king.
    pub(crate) const KNIGHT_MOBILITY: usize = 917;
    /// Mobility of a bishop, counted as for a knight, through queens.
    pub(crate) const BISHOP_MOBILITY: usize = 926;
    /// Mobility of a rook, counted as for a knight, through queens and own rooks.
    pub(crate) const ROOK_MOBILITY: usize = 940;
    /// Mobility of a queen, counted as for a knight.
    pub(crate) const QUEEN_MOBILITY: usize = 955;
    /// A knight, a bishop, on ranks 4 to 6, defended by a pawn, where no pawn of the opponent can attack it.
    pub(crate) const OUTPOST: usize = 983;
    /// For each bishop, each own pawn on squares of its colour.
    pub(crate) const BISHOP_PAWNS: usize = 985;
    /// Two bishops or more on one side.
    pub(crate) const BISHOP_PAIR: usize = 986;
    /// A rook on a file without pawns.
    pub(crate) const ROOK_OPEN: usize = 987;
    /// A rook on a file with pawns of the opponent only.
    pub(crate) const ROOK_HALF_OPEN: usize = 988;
    /// A rook behind an own passed pawn.
    pub(crate) const ROOK_BEHIND_PASSED: usize = 989;
    /// Pawns attack a knight, bishop, rook, queen.
    pub(crate) const PAWN_THREAT: usize = 990;
    /// Knights or bishops attack a knight, bishop, rook, queen.
    pub(crate) const MINOR_THREAT: usize = 994;
    /// Rooks attack a knight, bishop, rook, queen.
    pub(crate) const ROOK_THREAT: usize = 998;
    /// A piece, a pawn of the opponent that is attacked and not defended.
    pub(crate) const HANGING: usize = 1002;
    /// A piece of the opponent that a safe advance of a pawn would attack.
    pub(crate) const PUSH_THREAT: usize = 1004;
    /// The attack on the opponent's king, by its pressure; first without a queen, then with one.
    pub(crate) const KING_DANGER: usize = 1005;
}

const fn p(midgame: i16, endgame: i16) -> Pair {
    Pair::new(midgame, endgame)
}

/// Middlegame and endgame value of every term.
#[rustfmt::skip]
pub(crate) const WEIGHTS: [Pair; 1101] = [
    // MATERIAL.
    p(69, 131), p(328, 411), p(374, 409), p(411, 701), p(1094, 1144), p(0, 0),
    // SQUARES.
    // Pawn, kings on the same side.
    p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0),
    p(-9, -4), p(-10, 6), p(-24, 5), p(-9, 2), p(-3, 27), p(-7, 17), p(31, 1), p(13, -1),
    p(-24, -11), p(-24, -5), p(-40, -4), p(-29, -7), p(-13, 0), p(-28, -2), p(8, 7), p(3, 2),
    p(-5, 1), p(-12, -4), p(-3, -17), p(-3, -19), p(15, -28), p(10, -2), p(26, 4), p(24, -1),
    p(4, 26), p(-1, -2), p(4, -6), p(28, -30), p(47, -28), p(16, 0), p(20, -6), p(41, 6),
    p(3, 43), p(34, 23), p(44, 19), p(53, 30), p(83, 27), p(49, 47), p(28, 34), p(44, 39),
    p(24, 22), p(19, 29), p(35, 32), p(55, 39), p(53, 57), p(33, 62), p(20, 36), p(76, -18),
    p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0),
    // Knight, kings on the same side.
    p(-18, -15), p(-5, -21), p(-17, -21), p(-14, -5), p(-10, -9), p(-15, -20), p(-4, -11), p(-18, -13),
    p(-40, 5), p(-17, -2), p(-17, -21), p(-16, -11), p(0, -8), p(1, -25), p(14, 21), p(-2, 20),
    p(-27, -19), p(-27, -22), p(-18, -13), p(8, 7), p(7, 23), p(-4, -14), p(0, 5), p(-1, 23),
    p(-13, 9), p(11, 3), p(7, 5), p(13, 30), p(21, 25), p(36, 31), p(53, 27), p(22, 17),
    p(-8, 13), p(-3, -4), p(20, 19), p(45, 33), p(19, 45), p(41, 46), p(34, 46), p(46, 37),
    p(-19, 11), p(12, 21), p(29, 15), p(54, 18), p(59, 26), p(46, 48), p(56, 27), p(53, 24),
    p(-27, 16), p(5, 19), p(6, 16), p(36, 21), p(33, 30), p(27, 18), p(9, 23), p(17, 25),
    p(-24, 1), p(-3, 14), p(0, 17), p(16, 14), p(20, 15), p(9, 12), p(12, 18), p(-14, -3),
    // Bishop, kings on the same side.
    p(7, -31), p(23, -44), p(-2, -8), p(-11, -12), p(-8, -11), p(-10, 11), p(-3, -10), p(-27, -12),
    p(-5, -11), p(-6, -25), p(20, -33), p(-14, -11), p(-11, 0), p(-2, -5), p(5, -16), p(11, -20),
    p(-16, 8), p(21, -12), p(-12, 9), p(3, -9), p(4, 20), p(-9, -1), p(17, -2), p(-4, 6),
    p(8, -21), p(-19, -2), p(-4, 12), p(11, 20), p(11, 4), p(2, 9), p(-4, 15), p(17, -2),
    p(-26, 7), p(-16, -8), p(-4, 22), p(15, 25), p(7, 28), p(44, -10), p(-6, 23), p(0, 11),
    p(0, 1), p(1, 12), p(-5, 7), p(16, 1), p(37, 3), p(39, 30), p(66, -11), p(34, 19),
    p(-2, 11), p(-7, 9), p(24, 17), p(15, 4), p(17, 17), p(29, 16), p(12, 11), p(-12, -1),
    p(0, 23), p(5, 18), p(9, 9), p(10, 15), p(0, 0), p(8, 11), p(10, 4), p(1, 0),
    // Rook, kings on the same side.
    p(-20, 0), p(-14, -4), p(-13, -8), p(-6, -16), p(3, -32), p(-4, -9), p(9, -12), p(-8, -22),
    p(-15, 8), p(-17, -4), p(-9, -7), p(8, -13), p(15, -25), p(10, -20), p(33, -16), p(16, -25),
    p(-20, 13), p(-15, 17), p(-3, 7), p(-2, 6), p(12, 2), p(4, 42), p(34, 12), p(4, 14),
    p(-21, 29), p(7, 22), p(0, 37), p(20, 22), p(25, 20), p(9, 33), p(37, 31), p(1, 42),
    p(18, 49), p(16, 53), p(28, 44), p(40, 32), p(30, 46), p(33, 40), p(47, 49), p(30, 26),
    p(18, 57), p(22, 58), p(17, 47), p(51, 26), p(57, 38), p(61, 47), p(71, 50), p(30, 35),
    p(5, 69), p(21, 61), p(26, 49), p(43, 41), p(23, 46), p(36, 46), p(47, 31), p(40, 30),
    p(12, 52), p(51, 39), p(15, 39), p(23, 33), p(34, 43), p(39, 38), p(32, 28), p(31, 24),
    // Queen, kings on the same side.
    p(6, -6), p(-19, -6), p(-9, -6), p(-8, -3), p(-3, -9), p(-16, -27), p(-24, -17), p(0, -13),
    p(-19, -5), p(3, -17), p(1, -21), p(7, -17), p(9, -19), p(6, -38), p(-2, -39), p(-14, -10),
    p(-6, 1), p(-5, 6), p(-3, 13), p(-3, 12), p(1, 19), p(7, 2), p(22, 11), p(11, -10),
    p(-12, 18), p(-6, 14), p(-8, 12), p(-28, 58), p(-8, 35), p(4, 33), p(24, 11), p(11, 33),
    p(-3, 19), p(-2, 30), p(6, 33), p(5, 40), p(12, 43), p(8, 31), p(41, 29), p(18, 27),
    p(-2, 25), p(8, 13), p(-1, 35), p(15, 29), p(14, 34), p(34, 37), p(45, 16), p(1, 39),
    p(-6, 13), p(-10, 27), p(-10, 18), p(21, 23), p(16, 29), p(14, 10), p(8, 14), p(38, 31),
    p(-20, -7), p(11, 8), p(2, -5), p(-5, 7), p(-1, -1), p(12, 10), p(17, 15), p(-33, 1),
    // King, kings on the same side.
    p(15, 9), p(15, 9), p(15, 9), p(15, 9), p(14, -44), p(-12, -24), p(5, 14), p(0, -11),
    p(7, 9), p(7, 9), p(7, 9), p(7, 9), p(0, -12), p(-13, 1), p(7, 34), p(4, 13),
    p(-1, 9), p(-1, 9), p(-1, 9), p(-1, 9), p(-27, 18), p(-8, 7), p(9, 17), p(-11, 3),
    p(-8, 9), p(-8, 9), p(-8, 9), p(-8, 9), p(-8, 19), p(-4, 20), p(0, 11), p(-26, 5),
    p(-16, 9), p(-16, 9), p(-16, 9), p(-16, 9), p(-14, 33), p(-16, 15), p(7, 8), p(-24, -16),
    p(-24, 9), p(-24, 9), p(-24, 9), p(-24, 9), p(-18, 20), p(-11, 4), p(-1, -10), p(-7, -13),
    p(-31, 9), p(-31, 9), p(-31, 9), p(-31, 9), p(-22, 20), p(-23, 23), p(-29, 40), p(-17, 12),
    p(-39, 9), p(-39, 9), p(-39, 9), p(-39, 9), p(-31, 23), p(-35, 20), p(-40, 33), p(-40, 6),
    // Pawn, kings on opposite sides.
    p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0),
    p(-28, 17), p(-36, 23), p(-32, 2), p(-27, 10), p(9, 7), p(14, 14), p(53, 18), p(38, 15),
    p(-37, -4), p(-47, -2), p(-57, -6), p(-17, -23), p(-18, -15), p(-9, 3), p(23, 13), p(31, 12),
    p(-10, 9), p(-11, 5), p(-13, -17), p(9, -24), p(3, -20), p(16, 11), p(55, 13), p(39, 12),
    p(-1, 23), p(6, 6), p(-7, -15), p(16, 16), p(32, -32), p(4, 35), p(42, 21), p(45, 40),
    p(-16, 63), p(46, 26), p(50, 24), p(41, 41), p(86, 40), p(37, 62), p(32, 47), p(31, 72),
    p(39, 22), p(22, 36), p(40, 45), p(45, 49), p(50, 46), p(47, 86), p(35, 28), p(49, 25),
    p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0), p(0, 0),
    // Knight, kings on opposite sides.
    p(-11, -13), p(-1, -25), p(3, -9), p(-6, 4), p(-5, -1), p(-13, -12), p(-19, -6), p(-16, -9),
    p(-7, -3), p(15, 13), p(4, -16), p(-17, -10), p(-8, 3), p(10, -17), p(-6, 5), p(-28, 3),
    p(-17, -28), p(-14, -8), p(-13, 11), p(12, 22), p(15, 6), p(0, -12), p(-10, -3), p(9, 12),
    p(14, 7), p(25, 15), p(32, 15), p(13, 28), p(31, 20), p(30, 20), p(9, 20), p(-1, 36),
    p(4, 3), p(8, 21), p(41, 34), p(55, 43), p(32, 19), p(24, 23), p(15, 12), p(14, 33),
    p(6, 22), p(27, 16), p(18, 13), p(53, 12), p(49, 29), p(35, 45), p(38, 22), p(28, 24),
    p(-14, 16), p(9, 15), p(18, 12), p(33, 23), p(26, 18), p(28, 22), p(14, 26), p(10, 18),
    p(-20, -4), p(0, 9), p(4, 11), p(14, 12), p(18, 22), p(7, 14), p(11, 11), p(-8, 2),
    // Bishop, kings on opposite sides.
    p(-2, -20), p(12, -15), p(-16, 0), p(-21, -5), p(-11, -12), p(-14, 12), p(20, -14), p(-13, 1),
    p(4, -16), p(-38, 3), p(10, -7), p(-12, 0), p(3, 8), p(11, 2), p(23, 2), p(19, 1),
    p(-26, 20), p(6, 5), p(-16, 14), p(16, 17), p(19, 1), p(10, 5), p(25, 13), p(9, 11),
    p(0, 0), p(-12, 7), p(0, 16), p(24, 17), p(9, 39), p(11, 21), p(7, 1), p(0, -10),
    p(-8, -3), p(11, 21), p(17, 18), p(38, 8), p(10, 31), p(39, 16), p(-18, 33), p(-4, 4),
    p(42, 13), p(17, 13), p(22, 28), p(26, 3), p(35, 19), p(10, 27), p(32, 13), p(24, 16),
    p(4, 6), p(-2, 13), p(27, 23), p(17, 11), p(28, 29), p(31, 12), p(14, 25), p(-7, 9),
    p(3, 24), p(6, 17), p(6, 4), p(11, 31), p(10, 2), p(13, 11), p(8, 11), p(5, 6),
    // Rook, kings on opposite sides.
    p(-12, -21), p(0, -24), p(0, -22), p(-8, -29), p(-5, -14), p(-16, 12), p(-6, -4), p(-33, 6),
    p(-22, -8), p(-8, -19), p(-9, -20), p(-5, -18), p(-8, -10), p(3, -9), p(-17, -23), p(-13, -7),
    p(-1, 11), p(4, 18), p(-6, 2), p(6, 6), p(1, 5), p(-8, 32), p(19, 0), p(-5, 5),
    p(-14, 22), p(11, 9), p(11, 22), p(19, 18), p(19, 35), p(15, 33), p(17, 28), p(5, 19),
    p(18, 24), p(32, 33), p(14, 44), p(30, 37), p(36, 48), p(21, 31), p(40, 62), p(25, 31),
    p(25, 33), p(24, 34), p(27, 34), p(53, 34), p(47, 46), p(44, 45), p(60, 40), p(27, 43),
    p(13, 32), p(22, 37), p(29, 38), p(29, 30), p(36, 46), p(42, 55), p(49, 41), p(43, 46),
    p(-14, 28), p(33, 22), p(20, 39), p(26, 33), p(28, 29), p(36, 35), p(45, 37), p(30, 12),
    // Queen, kings on opposite sides.
    p(1, -9), p(-15, -6), p(-10, -2), p(-17, -5), p(-18, -7), p(-12, -24), p(-16, -8), p(-8, -15),
    p(-2, -3), p(14, -19), p(5, -17), p(10, -21), p(5, -15), p(4, -26), p(-27, -35), p(-32, -10),
    p(19, 3), p(8, 10), p(-7, 8), p(15, 1), p(-3, 23), p(6, 13), p(-13, 12), p(-5, -8),
    p(7, 22), p(15, 13), p(-10, 12), p(-15, 43), p(-10, 27), p(-18, 35), p(-3, 2), p(-12, 24),
    p(6, 13), p(16, 6), p(5, 28), p(11, 28), p(8, 32), p(10, 25), p(15, 22), p(6, 18),
    p(10, 18), p(20, 16), p(-3, 20), p(-7, 14), p(13, 22), p(23, 33), p(37, 11), p(-2, 30),
    p(13, 20), p(-7, 15), p(-2, 9), p(19, 21), p(9, 20), p(9, 15), p(19, 15), p(17, 20),
    p(-14, 0), p(9, 13), p(2, 0), p(7, 11), p(4, 7), p(14, 11), p(16, 14), p(-50, -21),
    // King, kings on opposite sides.
    p(15, 9), p(15, 9), p(15, 9), p(15, 9), p(21, -39), p(8, -30), p(11, -15), p(-15, -24),
    p(7, 9), p(7, 9), p(7, 9), p(7, 9), p(-4, -11), p(-7, -17), p(3, 9), p(6, -15),
    p(-1, 9), p(-1, 9), p(-1, 9), p(-1, 9), p(-32, 14), p(-12, 1), p(-3, 7), p(-7, -6),
    p(-8, 9), p(-8, 9), p(-8, 9), p(-8, 9), p(-8, 23), p(-18, 4), p(1, 23), p(-25, -3),
    p(-16, 9), p(-16, 9), p(-16, 9), p(-16, 9), p(-11, 27), p(-11, 30), p(-1, 18), p(-17, 11),
    p(-24, 9), p(-24, 9), p(-24, 9), p(-24, 9), p(-15, 34), p(-7, 27), p(-5, 27), p(-11, 14),
    p(-31, 9), p(-31, 9), p(-31, 9), p(-31, 9), p(-21, 20), p(-21, 32), p(-30, 37), p(-16, 4),
    p(-39, 9), p(-39, 9), p(-39, 9), p(-39, 9), p(-30, 25), p(-35, 18), p(-40, 27), p(-38, 15),
    // TEMPO.
    p(18, 11),
    // PASSED.
    p(0, 0), p(-6, 23), p(-28, 19), p(-28, 33), p(-7, 57), p(8, 72), p(123, 107), p(0, 0),
    // PASSED_CONNECTED.
    p(2, -3), p(6, -8), p(2, -11), p(4, -3), p(2, 18), p(12, 12), p(8, 12), p(3, 4),
    // PASSED_OWN_KING.
    p(10, 38), p(20, 36), p(25, 16), p(6, 4), p(7, -12), p(12, -16), p(5, -12), p(-10, -2),
    // PASSED_ENEMY_KING.
    p(-14, -31), p(12, -31), p(13, -7), p(4, 15), p(9, 28), p(13, 31), p(20, 26), p(21, 26),
    // PASSED_BLOCKED.
    p(-2, -2), p(-7, -6), p(-3, 5), p(-7, -11), p(-18, -24), p(-19, -27), p(-27, -37), p(-9, -13),
    // PASSED_FREE.
    p(-4, -3), p(-11, -9), p(-13, 17), p(-22, 31), p(-18, 37), p(10, 57), p(13, 77), p(4, 26),
    // PASSED_STEP.
    p(2, 1), p(7, 3), p(8, 13), p(3, 4), p(9, -4), p(2, 12), p(0, 3), p(0, 1),
    // PHALANX.
    p(0, 0), p(1, -1), p(13, 0), p(13, 12), p(27, 35), p(26, 53), p(5, 12), p(2, 4),
    // SUPPORTED.
    p(2, 1), p(5, 3), p(17, 11), p(17, 3), p(12, 8), p(6, 28), p(11, 21), p(4, 7),
    // ISOLATED.
    p(4, -8), p(-10, -21),
    // BACKWARD.
    p(-9, 0), p(-23, -12),
    // DOUBLED.
    p(-2, -31), p(-34, -4),
    // SHELTER.
    p(-32, 35), p(3, -26), p(6, -11), p(-1, 0), p(-5, 19), p(16, 7), p(35, -26), p(0, 0),
    p(-27, 14), p(14, -4), p(2, -14), p(-4, -16), p(1, -4), p(4, 9), p(14, -2), p(0, 0),
    p(-4, 14), p(17, 0), p(-8, -1), p(1, -13), p(-4, -7), p(-10, -10), p(9, 18), p(0, 0),
    p(-11, -5), p(-12, -4), p(-1, 3), p(-2, 2), p(-7, 4), p(-7, -2), p(5, 15), p(0, 0),
    // STORM.
    p(4, -31), p(-24, 169), p(-4, -49), p(11, -18), p(12, -29), p(17, -28), p(17, -34), p(0, 0),
    p(9, 10), p(3, -14), p(-21, -40), p(1, 7), p(4, 5), p(7, 17), p(7, 9), p(0, 0),
    p(34, 13), p(11, -7), p(-50, -24), p(-7, 3), p(16, -2), p(-5, 12), p(10, 14), p(0, 0),
    p(-4, 16), p(-10, -17), p(-25, -29), p(-3, 1), p(4, 5), p(12, 16), p(-3, 35), p(0, 0),
    // KNIGHT_MOBILITY.
    p(-59, -94), p(-39, -83), p(-25, -43), p(-12, -23), p(-2, 0), p(7, 19), p(15, 27), p(22, 29),
    p(26, 13),
    // BISHOP_MOBILITY.
    p(-28, -133), p(-26, -71), p(-15, -26), p(-10, -10), p(-2, 2), p(4, 20), p(8, 30), p(13, 31),
    p(17, 35), p(22, 32), p(50, 13), p(63, -5), p(65, -20), p(71, -36),
    // ROOK_MOBILITY.
    p(-69, -109), p(-36, -91), p(-15, -54), p(-15, -25), p(-7, -15), p(-8, -2), p(-6, 9), p(0, 13),
    p(7, 20), p(11, 28), p(15, 32), p(22, 40), p(37, 33), p(32, 38), p(60, 13),
    // QUEEN_MOBILITY.
    p(4, -64), p(3, -68), p(-6, -73), p(2, -75), p(-5, -73), p(-6, -56), p(-7, -35), p(-8, -13),
    p(-6, -2), p(-4, 6), p(-4, 14), p(1, 16), p(-1, 32), p(5, 35), p(6, 43), p(11, 43),
    p(14, 44), p(25, 39), p(35, 21), p(54, 8), p(71, -17), p(81, -44), p(84, -62), p(84, -78),
    p(81, -77), p(71, -88), p(66, -80), p(63, -77),
    // OUTPOST.
    p(23, 13), p(32, 24),
    // BISHOP_PAWNS.
    p(-10, -6),
    // BISHOP_PAIR.
    p(28, 82),
    // ROOK_OPEN.
    p(26, 3),
    // ROOK_HALF_OPEN.
    p(8, 12),
    // ROOK_BEHIND_PASSED.
    p(4, 23),
    // PAWN_THREAT.
    p(51, 43), p(22, 65), p(38, 61), p(37, 3),
    // MINOR_THREAT.
    p(24, 29), p(37, 8), p(49, 3), p(33, -12),
    // ROOK_THREAT.
    p(13, 31), p(21, 13), p(-16, -20), p(63, -60),
    // HANGING.
    p(6, 25), p(8, 43),
    // PUSH_THREAT.
    p(18, 30),
    // KING_DANGER.
    p(-60, -10), p(-54, -14), p(-54, -21), p(-54, -39), p(-54, -17), p(-47, -32), p(-32, -36), p(-32, -10),
    p(-32, -27), p(-32, -16), p(-26, -36), p(-24, -19), p(-24, -26), p(-16, -21), p(-6, -28), p(0, -23),
    p(5, -24), p(5, -20), p(5, -15), p(5, -6), p(5, -6), p(5, -4), p(5, -7), p(5, 2),
    p(5, 0), p(6, 8), p(7, 4), p(10, 13), p(11, 14), p(13, 20), p(13, 18), p(13, 17),
    p(14, 15), p(15, 15), p(15, 11), p(15, 9), p(15, 8), p(15, 9), p(15, 9), p(15, 9),
    p(15, 10), p(15, 8), p(15, 8), p(15, 7), p(15, 4), p(15, 6), p(15, 5), p(15, 5),
    p(-90, -50), p(-81, -36), p(-81, -29), p(-81, -29), p(-81, -18), p(-81, -16), p(-81, -8), p(-80, 0),
    p(-79, 9), p(-70, 12), p(-70, 14), p(-54, 10), p(-51, 11), p(-39, 15), p(-39, 13), p(-20, 9),
    p(-20, 5), p(-3, 13), p(1, 10), p(14, 12), p(18, 9), p(36, 7), p(43, -4), p(59, -2),
    p(60, -16), p(69, -1), p(73, 4), p(78, 10), p(89, 13), p(89, 11), p(89, 10), p(89, 21),
    p(89, 32), p(89, 27), p(89, 28), p(89, 25), p(89, 24), p(89, 22), p(89, 20), p(89, 18),
    p(89, 15), p(89, 13), p(89, 10), p(89, 8), p(89, 6), p(89, 4), p(89, 4), p(89, 2),
];
