//! A position as 19 channels of each square, as the side to move sees the board.
//!
//! | channel | content |
//! |---|---|
//! | 0 to 5 | our pawns, knights, bishops, rooks, queens, king |
//! | 6 to 11 | theirs |
//! | 12, 13 | the rook with which we can castle long, short |
//! | 14, 15 | theirs |
//! | 16 | the square on which we can take a pawn in passing |
//! | 17 | halfmoves without capture or pawn move, in hundreds, on all squares |
//! | 18 | one, on all squares |
//!
//! A castling right is marked on the square of its rook, not on all squares. This is unambiguous in Chess960, where two
//! rooks may stand on one side of the king, and the token of the rook itself carries the right.

use super::{Channels, DenseChannels, Masks};
use tandem_chess::history::seen_by;
use tandem_chess::{BitBoard, Board, File, Piece, Rank, Square, en_passant_target};

/// Channels of a square, in the order of the table above.
pub const CHANNELS: usize = 19;

const THEIRS: usize = 6;
const CASTLING: usize = 12;
const EN_PASSANT: usize = 16;
const CLOCK: usize = 17;
const ONES: usize = 18;

/// Writes the [`CHANNELS`] of the 64 squares, those of a1 first.
///
/// # Panics
/// If `out` does not have 64 times [`CHANNELS`] values.
pub fn encode(board: &Board, out: &mut [f32]) {
    write(board, &mut DenseChannels::new(out, CHANNELS));
}

/// Writes the same encoding as [`Masks`]: the squares of each of the [`CHANNELS`], and its value.
///
/// # Panics
/// If `squares` or `levels` does not have [`CHANNELS`] elements.
pub fn encode_masks(board: &Board, squares: &mut [u64], levels: &mut [f32]) {
    write(board, &mut Masks::new(squares, levels, CHANNELS));
}

fn write(board: &Board, out: &mut impl Channels) {
    let us = board.side_to_move();
    for (number, owner) in [us, !us].into_iter().enumerate() {
        for piece in Piece::ALL {
            let squares = seen_by(us, board.colored_pieces(owner, piece));
            out.mark(THEIRS * number + piece as usize, squares);
        }
        let rights = board.castle_rights(owner);
        let rook = |file: Option<File>| {
            file.map_or(BitBoard::EMPTY, |file| Square::new(file, Rank::First.relative_to(owner)).bitboard())
        };
        out.mark(CASTLING + 2 * number, seen_by(us, rook(rights.long)));
        out.mark(CASTLING + 2 * number + 1, seen_by(us, rook(rights.short)));
    }
    let target = en_passant_target(board).map_or(BitBoard::EMPTY, Square::bitboard);
    out.mark(EN_PASSANT, seen_by(us, target));
    out.broadcast(CLOCK, f32::from(board.halfmove_clock()) / 100.0);
    out.broadcast(ONES, 1.0);
}

#[cfg(test)]
mod tests {
    use super::super::tests::random_game;
    use super::*;
    use proptest::prelude::*;
    use tandem_chess::{BoardBuilder, Color, fen};

    fn rows_of(board: &Board) -> Vec<[f32; CHANNELS]> {
        let mut values = vec![f32::NAN; 64 * CHANNELS];
        encode(board, &mut values);
        values.as_chunks().0.to_vec()
    }

    /// Decodes a position, with White to move; `None` if the channels contradict each other.
    fn decode(rows: &[[f32; CHANNELS]]) -> Option<BoardBuilder> {
        let mut builder = BoardBuilder::empty();
        let clock = rows[0][CLOCK];
        builder.halfmove_clock = (clock * 100.0).round() as u8;
        for (square, row) in Square::ALL.into_iter().zip(rows) {
            let pieces = (0..CASTLING).filter(|&channel| row[channel] == 1.0);
            for channel in pieces {
                let owner = if channel < THEIRS { Color::White } else { Color::Black };
                let before = builder.square_mut(square).replace((Piece::index(channel % THEIRS), owner));
                if before.is_some() {
                    return None;
                }
            }
            for (number, owner) in Color::ALL.into_iter().enumerate() {
                let rights = builder.castle_rights_mut(owner);
                let [long, short] = [0, 1].map(|way| row[CASTLING + 2 * number + way] == 1.0);
                rights.long = rights.long.or(long.then_some(square.file()));
                rights.short = rights.short.or(short.then_some(square.file()));
                let castles = long || short;
                if castles && square.rank() != Rank::First.relative_to(owner) {
                    return None;
                }
            }
            if row[EN_PASSANT] == 1.0 && builder.en_passant.replace(square).is_some() {
                return None;
            }
            if (row[CLOCK], row[ONES]) != (clock, 1.0) {
                return None;
            }
        }
        Some(builder)
    }

    /// The part of a position that is encoded: colours are swapped so that White is to move, the move number
    /// is dropped, and an en passant square without a possible capture is cleared.
    fn encoded_part(board: &Board) -> BoardBuilder {
        let from = BoardBuilder::from_board(board);
        let us = board.side_to_move();
        let mut to = BoardBuilder::empty();
        for square in Square::ALL {
            let piece = from.square(square.relative_to(us));
            *to.square_mut(square) =
                piece.map(|(piece, owner)| (piece, if owner == us { Color::White } else { Color::Black }));
        }
        *to.castle_rights_mut(Color::White) = *board.castle_rights(us);
        *to.castle_rights_mut(Color::Black) = *board.castle_rights(!us);
        to.en_passant = en_passant_target(board).map(|target| target.relative_to(us));
        to.halfmove_clock = board.halfmove_clock();
        to
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn boards_round_trip(seed: u64) {
            random_game(seed, 200, |position| {
                assert_eq!(decode(&rows_of(position.board())), Some(encoded_part(position.board())), "{}", position.fen());
            });
        }
    }

    #[test]
    fn channels_are_where_the_table_says() {
        let board = fen::parse("r3k2r/8/8/8/3pP3/8/8/R3K1R1 b Gq e3 0 9").unwrap();
        let rows = rows_of(&board);
        let ones = |square: Square| -> Vec<usize> {
            (0..CHANNELS).filter(|&channel| rows[square as usize][channel] == 1.0).collect()
        };
        // From Black's side: its king on e1, the white one on e8.
        assert_eq!(ones(Square::E1), [5, 18]);
        assert_eq!(ones(Square::A1), [3, 12, 18]);
        assert_eq!(ones(Square::H1), [3, 18]);
        assert_eq!(ones(Square::E8), [11, 18]);
        assert_eq!(ones(Square::G8), [9, 15, 18]);
        assert_eq!(ones(Square::D5), [0, 18]);
        assert_eq!(ones(Square::E5), [6, 18]);
        assert_eq!(ones(Square::E6), [16, 18]);
        let rows = rows_of(&fen::parse("4k3/8/8/8/8/8/8/4K2R w - - 7 9").unwrap());
        assert!(rows.iter().all(|row| row[CLOCK] == 0.07));
    }
}
