//! A position in 28 bytes (32 in memory), because data sets hold them by the hundred million.
//!
//! The layout follows marlinformat: a bitboard of occupied squares and four bits per piece.

use tandem_chess::{BitBoard, Board, BoardBuilder, Color, File, Move, Piece, Rank, Square, get_pawn_attacks};
use tandem_util::random::SplitMix;
use thiserror::Error;

/// A position in a compact form: pieces, side to move, castling and en passant rights, and both clocks. A
/// legal board converted to it and back is unchanged, Chess960 castling rights included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packed {
    /// Bitboard of occupied squares; bit 0 is a1.
    pub(crate) occupied: u64,
    /// Four bits for each occupied square, in square order, the lower half of a byte first: the kind of the
    /// piece, plus [`BLACK`] for Black's. A rook that may castle has a kind of its own.
    pub(crate) pieces: [u8; 16],
    /// Square that a pawn has just jumped over, or [`NO_SQUARE`]; plus [`BLACK_TO_MOVE`].
    pub(crate) side_and_passant: u8,
    pub(crate) halfmoves: u8,
    pub(crate) fullmove: u16,
}

pub(crate) const BLACK: u8 = 8;
/// Kind of a rook that may castle; ordinary rooks have the kind 3.
pub(crate) const CASTLING_ROOK: u8 = 6;
pub(crate) const NO_SQUARE: u8 = 64;
pub(crate) const BLACK_TO_MOVE: u8 = 128;

/// Largest number of pieces that fit into a [`Packed`] position.
pub const MAX_PIECES: usize = 32;

/// A packed position that is not a legal board, or a board with too many pieces; the text names the reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not a position of a game: {0}")]
pub struct BadPosition(pub String);

impl Packed {
    /// Packs a board; `None` if it has more than [`MAX_PIECES`] pieces. An en passant right (to capture a
    /// pawn that has just jumped) that no pawn can use is dropped, so that a position has one representation
    /// whether or not the right was recorded.
    pub fn new(board: &Board) -> Option<Self> {
        let occupied = board.occupied();
        if occupied.len() as usize > MAX_PIECES {
            return None;
        }
        let mut pieces = [0u8; 16];
        let mut put = |square: Square, code: u8| {
            let below = (occupied.0 & ((1 << square as u64) - 1)).count_ones() as usize;
            pieces[below / 2] ^= code << (below % 2 * 4);
        };
        for color in Color::ALL {
            let color_bit = if color == Color::Black { BLACK } else { 0 };
            for kind in Piece::ALL {
                for square in board.colored_pieces(color, kind) {
                    put(square, kind as u8 | color_bit);
                }
            }
            let rights = board.castle_rights(color);
            for file in [rights.short, rights.long].into_iter().flatten() {
                // The XOR changes the kind of the rook that was put there above.
                put(Square::new(file, Rank::First.relative_to(color)), Piece::Rook as u8 ^ CASTLING_ROOK);
            }
        }
        let side = board.side_to_move();
        let passant = usable_passant(board).map_or(NO_SQUARE, |square| square as u8);
        Some(Self {
            occupied: occupied.0,
            pieces,
            side_and_passant: passant | if side == Color::Black { BLACK_TO_MOVE } else { 0 },
            halfmoves: board.halfmove_clock(),
            fullmove: board.fullmove_number(),
        })
    }

    /// A position from pieces on squares, side to move, en passant square and clocks; `None` if there are too
    /// many pieces.
    pub(crate) fn from_parts(
        squares: impl IntoIterator<Item = (Square, u8)>,
        side: Color,
        passant: Option<Square>,
        (halfmoves, fullmove): (u8, u16),
    ) -> Option<Self> {
        let mut codes = [0u8; 64];
        let mut occupied = BitBoard::EMPTY;
        for (square, code) in squares {
            occupied |= square.bitboard();
            codes[square as usize] = code;
        }
        if occupied.len() as usize > MAX_PIECES {
            return None;
        }
        let mut pieces = [0u8; 16];
        for (at, square) in occupied.into_iter().enumerate() {
            pieces[at / 2] |= codes[square as usize] << (at % 2 * 4);
        }
        let passant = passant.map_or(NO_SQUARE, |square| square as u8);
        let side = if side == Color::Black { BLACK_TO_MOVE } else { 0 };
        Some(Self { occupied: occupied.0, pieces, side_and_passant: passant | side, halfmoves, fullmove })
    }

    /// Bitboard of occupied squares, and four bits for each of them in square order, the lower half of a byte
    /// first: 0 to 5 for pawn, knight, bishop, rook, queen and king, 6 for a rook that may castle, plus 8 for
    /// Black's.
    #[inline]
    pub fn codes_by_square(&self) -> (u64, [u8; 16]) {
        (self.occupied, self.pieces)
    }

    /// True if each side has exactly one king. Damaged files may hold other positions.
    #[inline]
    pub fn has_kings(&self) -> bool {
        const ONES: u128 = u128::MAX / 15;
        let count = |code: u8| {
            // Four-bit groups that become zero when the king's code is removed from them.
            let other = u128::from_le_bytes(self.pieces) ^ (u128::from(code) * ONES);
            32 - ((other | other >> 1 | other >> 2 | other >> 3) & ONES).count_ones()
        };
        count(Piece::King as u8) == 1 && count(Piece::King as u8 | BLACK) == 1
    }

    /// Colour of the side to move.
    #[inline]
    pub fn side_to_move(&self) -> Color {
        if self.side_and_passant & BLACK_TO_MOVE == 0 { Color::White } else { Color::Black }
    }

    /// Number of pieces on the board, kings and pawns included.
    #[inline]
    pub fn piece_count(&self) -> usize {
        self.occupied.count_ones() as usize
    }

    /// Bitboard of the occupied squares of both sides.
    #[inline]
    pub fn occupied(&self) -> BitBoard {
        BitBoard(self.occupied)
    }

    /// Pieces with their squares and colours, in square order from a1. Rooks that may castle are returned as
    /// ordinary rooks.
    #[inline]
    pub fn pieces(&self) -> impl Iterator<Item = (Square, Color, Piece)> {
        self.codes().map(|(square, code)| {
            let color = if code & BLACK == 0 { Color::White } else { Color::Black };
            (square, color, kind_of(code).unwrap_or(Piece::Pawn))
        })
    }

    /// Squares with their packed piece codes, in square order.
    #[inline]
    pub(crate) fn codes(&self) -> impl Iterator<Item = (Square, u8)> {
        let pieces = self.pieces;
        let codes = self.occupied().into_iter().enumerate();
        codes.map(move |(at, square)| (square, pieces[at / 2 % 16] >> (at % 2 * 4) & 15))
    }

    /// Plies since the last capture or pawn move, for the fifty-move rule.
    #[inline]
    pub fn halfmove_clock(&self) -> u8 {
        self.halfmoves
    }

    /// Full-move number, counted from 1; it grows after Black's move.
    #[inline]
    pub fn fullmove_number(&self) -> u16 {
        self.fullmove
    }

    /// Plies (moves of one side) since move 1, computed from the full-move number and the side to move; 0 for
    /// White's first move.
    #[inline]
    pub fn ply(&self) -> u16 {
        let black = u16::from(self.side_to_move() == Color::Black);
        self.fullmove.max(1).saturating_sub(1).saturating_mul(2).saturating_add(black)
    }

    /// Square that a pawn has just jumped over, if an en passant capture is possible there.
    pub(crate) fn passant(&self) -> Option<Square> {
        Square::try_index((self.side_and_passant & !BLACK_TO_MOVE) as usize)
    }

    /// Hash of the position without its two clocks, for finding duplicates. It is the same in every run and
    /// on every machine.
    pub fn hash(&self) -> u64 {
        let pieces = u128::from_le_bytes(self.pieces);
        let mix = |hash: u64, word: u64| SplitMix::new(hash ^ word).next_u64();
        let hash = mix(u64::from(self.side_and_passant), self.occupied);
        mix(mix(hash, pieces as u64), (pieces >> 64) as u64)
    }

    /// The position without an en passant right.
    pub(crate) fn without_passant(mut self) -> Self {
        self.side_and_passant = self.side_and_passant & BLACK_TO_MOVE | NO_SQUARE;
        self
    }

    /// Unpacks the position to a board, and checks that it is legal.
    ///
    /// # Errors
    ///
    /// Fails if the position is not legal, for example without a king or with the opponent in check: packed
    /// positions may come from damaged files.
    pub fn board(&self) -> Result<Board, BadPosition> {
        let bad = |text: &str| Err(BadPosition(text.into()));
        if self.piece_count() > MAX_PIECES {
            return bad("more than 32 pieces");
        }
        let mut builder = BoardBuilder::empty();
        let mut rooks = [BitBoard::EMPTY; 2];
        let mut kings = [None; 2];
        for (square, code) in self.codes() {
            let color = if code & BLACK == 0 { Color::White } else { Color::Black };
            let Some(kind) = kind_of(code) else { return bad("a piece of an unknown kind") };
            if code & 7 == CASTLING_ROOK {
                rooks[color as usize] |= square.bitboard();
            }
            if kind == Piece::King {
                kings[color as usize] = Some(square);
            }
            *builder.square_mut(square) = Some((kind, color));
        }
        for color in Color::ALL {
            let Some(king) = kings[color as usize] else { return bad("a king is missing") };
            for rook in rooks[color as usize] {
                let rights = &mut builder.castle_rights[color as usize];
                let right = if rook.file() > king.file() { &mut rights.short } else { &mut rights.long };
                let fits = rook.rank() == Rank::First.relative_to(color) && right.is_none();
                if !fits {
                    return bad("a castling rook off its first rank, or two on one side of the king");
                }
                *right = Some(rook.file());
            }
        }
        builder.side_to_move = self.side_to_move();
        builder.en_passant = self.passant();
        builder.halfmove_clock = self.halfmoves.min(100);
        builder.fullmove_number = self.fullmove.max(1);
        tandem_chess::build(&builder).map_err(|error| BadPosition(error.to_string()))
    }

    /// True if either side may still castle.
    pub(crate) fn has_castling_rights(&self) -> bool {
        self.codes().any(|(_, code)| code & 7 == CASTLING_ROOK)
    }

    /// The position with the colours of all pieces and the side to move swapped, and the ranks reversed (a1
    /// becomes a8): the same situation for the side to move.
    pub fn flipped(&self) -> Self {
        let squares = self.codes().map(|(square, code)| (square.flip_rank(), code ^ BLACK));
        let passant = self.passant().map(Square::flip_rank);
        let clocks = (self.halfmoves, self.fullmove);
        // The number of pieces is unchanged, so they fit.
        Self::from_parts(squares, !self.side_to_move(), passant, clocks).unwrap_or(*self)
    }

    /// The position with left and right swapped (a1 becomes h1); `None` while either side may castle, because
    /// the mirror image would need the rules of another variant.
    pub fn mirrored(&self) -> Option<Self> {
        if self.has_castling_rights() {
            return None;
        }
        let squares = self.codes().map(|(square, code)| (square.flip_file(), code));
        let passant = self.passant().map(Square::flip_file);
        Self::from_parts(squares, self.side_to_move(), passant, (self.halfmoves, self.fullmove))
    }
}

/// Occupied squares and pieces at the start of a record, as several formats with 32 bytes or more store them.
pub(crate) fn placement(bytes: &[u8]) -> (u64, [u8; 16]) {
    let mut occupied = [0; 8];
    occupied.copy_from_slice(&bytes[..8]);
    let mut pieces = [0; 16];
    pieces.copy_from_slice(&bytes[8..24]);
    (u64::from_le_bytes(occupied), pieces)
}

/// En passant square, if some pawn can legally capture there.
pub(crate) fn usable_passant(board: &Board) -> Option<Square> {
    let side = board.side_to_move();
    let square = passant_square(side, board.en_passant()?);
    let takers = get_pawn_attacks(square, !side) & board.colored_pieces(side, Piece::Pawn);
    let legal = |from| board.is_legal(Move { from, to: square, promotion: None });
    takers.into_iter().any(legal).then_some(square)
}

/// Square behind a pawn of the opponent of `side` that has just advanced two squares on `file`.
pub(crate) fn passant_square(side: Color, file: File) -> Square {
    Square::new(file, Rank::Sixth.relative_to(side))
}

#[inline]
pub(crate) fn kind_of(code: u8) -> Option<Piece> {
    match code & 7 {
        CASTLING_ROOK => Some(Piece::Rook),
        kind => Piece::try_index(usize::from(kind)),
    }
}

impl TryFrom<&Board> for Packed {
    type Error = BadPosition;

    fn try_from(board: &Board) -> Result<Self, BadPosition> {
        Self::new(board).ok_or_else(|| BadPosition("more than 32 pieces".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::fen;

    const FENS: [&str; 7] = [
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b Kq - 17 43",
        "rnbqkbnr/ppp1pppp/8/8/3pP3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 3",
        "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 99 150",
        "1rk1r3/8/8/8/8/8/8/1RK1R3 w EBeb - 0 1",
        "r1k1r2q/p1ppp1pp/8/8/8/8/P1PPP1PP/R1K1R2Q w EAea - 3 9",
        "4k3/8/8/8/8/8/8/4K2R w - - 5 60",
    ];

    #[test]
    fn boards_round_trip() {
        for text in FENS {
            let board = fen::parse(text).unwrap();
            let packed = Packed::new(&board).unwrap();
            assert_eq!(packed.board().unwrap(), board, "{text}");
            assert_eq!(packed.piece_count(), board.occupied().len() as usize);
            assert_eq!(packed.flipped().flipped(), packed);
            assert!(packed.flipped().board().is_ok(), "{text}");
            if let Some(mirrored) = packed.mirrored() {
                assert_eq!(mirrored.mirrored(), Some(packed));
                assert!(mirrored.board().is_ok());
            }
        }
        assert_eq!(size_of::<Packed>(), 32);
    }

    #[test]
    fn nonsense_is_not_a_board() {
        let start = Packed::new(&Board::default()).unwrap();
        for broken in [
            Packed { pieces: [0x77; 16], ..start },
            Packed { pieces: [0; 16], ..start },
            Packed { occupied: u64::MAX, ..start },
            Packed { side_and_passant: 20, ..start },
            Packed { pieces: [0x66; 16], ..start },
            // Kings that stand next to each other.
            Packed::from_parts([(Square::E1, 5), (Square::E2, 5 | BLACK)], Color::White, None, (0, 1))
                .unwrap(),
        ] {
            assert!(broken.board().is_err(), "{broken:?}");
            let _ = (broken.flipped(), broken.mirrored(), broken.pieces().count());
        }
    }
}
