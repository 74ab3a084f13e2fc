//! The weights of the bootstrap evaluation, fitted by `scripts/fit_bootstrap.py`: data only.
//!
//! All in centipawns. The score is `(mg * phase + eg * (24 - phase)) / 24`, where mg and eg are the sums over
//! White's features less the sums over Black's, and the phase is the number of knights and bishops plus twice
//! the rooks plus four times the queens, of both sides, capped at 24. "Ahead" is towards the eighth rank as
//! seen by the side in question.

use super::Pair;

/// Value of a piece: pawn, knight, bishop, rook, queen, king. The average over the squares it stands on.
#[rustfmt::skip]
pub(super) const MATERIAL: [Pair; 6] = [
    Pair(89, 101),
    Pair(367, 306),
    Pair(397, 323),
    Pair(517, 556),
    Pair(1113, 1017),
    Pair(0, 0),
];

/// Middlegame value of each square, added to [`MATERIAL`], for each piece in the same order.
///
/// Each table is a board as White sees it, rank 8 on top: index 0 is a8, 7 is h8, 56 is a1, 63 is h1.
/// For a black piece flip the rank (`index ^ 56`) and subtract.
#[rustfmt::skip]
pub(super) const MIDGAME: [[i16; 64]; 6] = [
    // Pawn.
    [
           0,    0,    0,    0,    0,    0,    0,    0,
          56,   37,   65,   66,   63,   51,   25,   40,
          43,   89,   90,   93,  102,  140,   81,   62,
          19,   34,   27,   57,   67,   66,   60,   46,
           7,   16,   -5,    3,    6,   26,   58,   18,
          -9,   -7,  -36,  -40,  -33,   -2,   17,  -18,
         -16,  -25,  -39,  -63,  -56,   -1,   21,  -41,
           0,    0,    0,    0,    0,    0,    0,    0,
    ],
    // Knight.
    [
         -40,   17,   18,   22,   24,   17,   18,  -28,
          22,   20,   37,   55,   61,   39,   22,   29,
          43,   60,   58,   99,   98,   80,   79,   59,
           4,   -1,   48,   67,   43,   54,   39,   30,
          -1,   47,   29,   26,   32,   46,   74,   21,
         -41,  -16,  -13,   25,   32,   -5,   11,  -12,
         -18,  -17,  -15,  -15,  -18,   16,   -1,  -18,
         -21,  -50,  -47,  -54,  -43,  -41,  -38,  -24,
    ],
    // Bishop.
    [
           3,   23,   24,   22,   23,   20,   23,    4,
           5,   26,   37,   37,   46,   50,   23,    9,
          45,   48,   47,   69,   79,   56,   78,   69,
           3,    9,   57,   73,   61,   85,   21,   19,
           9,   13,    9,   42,   44,    5,   13,   13,
           7,   10,  -25,   15,    8,   -2,    7,   20,
         -11,  -19,   35,  -19,  -13,  -13,   -1,  -13,
         -25,   26,  -22,  -28,  -44,  -25,   13,  -42,
    ],
    // Rook.
    [
          47,   67,   45,   63,   61,   48,   58,   45,
          43,   45,   66,   67,   71,   62,   52,   43,
          58,   57,   42,   68,   71,   59,   67,   63,
          30,   57,   22,   58,   61,   28,   77,   29,
           6,   20,  -21,    6,    6,   -1,   36,   19,
         -14,   -6,  -15,  -25,  -11,   -8,   28,    8,
         -26,  -20,  -23,  -20,   -8,   -1,    5,  -12,
         -16,   -4,   -7,   -5,   -3,    6,   19,  -10,
    ],
    // Queen.
    [
           3,   36,   28,   22,   20,   32,   37,   15,
          16,   -5,   31,   43,   45,   39,   11,   37,
          24,   39,   26,   48,   44,   46,   63,   46,
          18,    7,   14,   35,   40,   20,   38,   56,
          -1,    6,    0,  -15,   -7,   14,   39,   38,
          -6,  -15,    0,  -12,   -9,    5,   12,   20,
         -28,   -4,    1,    1,    2,  -12,  -23,  -13,
           4,  -15,  -12,   -7,  -14,  -46,  -28,    2,
    ],
    // King.
    [
         -29,  -26,  -28,  -25,  -25,  -30,  -24,  -26,
         -21,  -27,  -18,  -24,  -24,  -19,  -26,  -18,
         -13,  -11,  -13,  -14,  -14,  -12,  -11,  -11,
         -20,   -6,  -12,  -11,  -12,  -13,   -1,  -23,
         -18,   -4,   -7,  -17,  -18,   -4,   -8,  -24,
           3,    5,  -19,  -36,  -38,  -23,   -5,    1,
          66,   17,   13,   -5,  -16,  -13,   14,   33,
           7,   36,   19,  -34,   -9,  -52,    2,   10,
    ],
];

/// Endgame value of each square, added to [`MATERIAL`], for each piece in the same order.
///
/// Each table is a board as White sees it, rank 8 on top: index 0 is a8, 7 is h8, 56 is a1, 63 is h1.
/// For a black piece flip the rank (`index ^ 56`) and subtract.
#[rustfmt::skip]
pub(super) const ENDGAME: [[i16; 64]; 6] = [
    // Pawn.
    [
           0,    0,    0,    0,    0,    0,    0,    0,
         -47,  -25,    8,  -11,  -15,  -10,  -37, -104,
          49,   31,   35,    0,  -12,   36,   28,   36,
          42,    9,    0,  -31,   -5,  -15,  -11,    6,
           4,    9,   -3,  -30,  -26,    3,  -16,  -11,
         -13,    2,    4,  -12,   -5,  -15,  -19,  -11,
           1,   28,   41,   -7,    7,   19,    6,    0,
           0,    0,    0,    0,    0,    0,    0,    0,
    ],
    // Knight.
    [
           2,   25,   35,   37,   39,   33,   26,    7,
          35,   36,   42,   58,   61,   41,   39,   38,
          44,   54,   64,   73,   75,   85,   56,   51,
          24,   50,   72,   76,   78,   75,   66,   30,
          -1,   38,   55,   53,   65,   66,   49,    9,
         -13,    4,  -19,   48,   37,   -5,   18,    0,
         -27,  -17,  -38,  -17,  -14,  -25,  -14,  -29,
         -12, -100,  -44,  -58,  -45,  -52,  -83,  -13,
    ],
    // Bishop.
    [
           9,   34,   14,   25,   20,   10,   33,    3,
          21,   30,   36,   44,   49,   46,   20,   15,
          20,   22,   48,   25,   33,   47,   22,   18,
          25,   35,   32,   56,   38,   27,   48,   31,
          -5,   24,   60,   38,   22,   44,   29,   -7,
          26,   18,    6,   18,   24,   18,   16,   23,
          -6,  -16,  -16,  -17,    1,  -11,  -14,  -11,
         -43,  -42,  -50,  -30,  -38,  -11,  -33,  -41,
    ],
    // Rook.
    [
          69,   70,   74,   74,   70,   70,   62,   58,
          89,   95,   84,   73,   72,   83,   92,   81,
          75,   93,   86,   76,   78,   89,   94,   74,
          72,   80,   92,   73,   78,   89,   81,   68,
          40,   44,   57,   59,   54,   65,   50,   40,
          12,   20,   30,   18,   29,   60,   33,   18,
         -11,   -4,   -5,  -21,  -20,   -3,   -9,  -12,
         -16,   -4,   -6,  -21,  -31,  -24,   -7,  -19,
    ],
    // Queen.
    [
          -4,   35,   35,   33,   29,   37,   35,    9,
          35,   40,   53,   53,   54,   55,   38,   42,
          46,   51,   67,   63,   63,   71,   61,   53,
          38,   51,   70,   57,   63,   71,   59,   49,
          36,   23,   41,   58,   43,   44,   28,   44,
           9,   33,   17,    8,    9,   10,   34,   11,
          -8,  -19,  -38,  -29,  -35,  -45,  -33,   -4,
           5,   -4,   -6,  -11,  -15,  -20,  -10,    2,
    ],
    // King.
    [
          16,   39,   18,   25,   22,   14,   46,   23,
          25,   40,   33,   15,   20,   30,   44,   31,
          30,   23,   35,   23,   24,   39,   12,   22,
          26,   41,   56,   45,   48,   49,   41,   11,
          51,   42,   54,   49,   48,   49,   29,   35,
          27,   30,   28,   38,   36,   31,   23,    6,
          45,   29,    3,    3,    3,    7,   16,    2,
          23,   13,   -7,  -26,  -34,  -13,  -13,   -8,
    ],
];

/// For the side to move; tapered like the rest.
pub(super) const TEMPO: Pair = Pair(27, 3);

/// For a side with two or more bishops, whatever the colours of their squares; once.
pub(super) const BISHOP_PAIR: Pair = Pair(11, 96);

/// For each passed pawn, by its rank as its own side counts (0 is rank 1, 6 is one step from promotion).
///
/// Passed: no enemy pawn on the same or an adjacent file on any rank strictly ahead of it. Friendly pawns do
/// not matter, so both pawns of a doubled pair can be passed.
#[rustfmt::skip]
pub(super) const PASSED: [Pair; 8] = [
    Pair(0, 0),
    Pair(-29, 26),
    Pair(-51, 17),
    Pair(-24, 36),
    Pair(12, 47),
    Pair(61, 40),
    Pair(118, 126),
    Pair(0, 0),
];

/// For each pawn with no friendly pawn on any rank of the adjacent files. Each of two doubled ones counts.
pub(super) const ISOLATED: Pair = Pair(3, -19);

/// For each pawn with a friendly pawn anywhere ahead of it on its file (so the pawns on a file less one).
pub(super) const DOUBLED: Pair = Pair(-36, -23);

/// For each rook on a file without pawns of either side.
pub(super) const ROOK_OPEN: Pair = Pair(47, 21);

/// For each rook on a file without friendly pawns but with at least one enemy pawn.
pub(super) const ROOK_HALF_OPEN: Pair = Pair(28, 3);

/// For each friendly pawn one or two ranks ahead of the king, on the king's file or an adjacent one.
pub(super) const KING_SHELTER: Pair = Pair(21, 0);
