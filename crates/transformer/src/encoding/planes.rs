//! A position as lc0's 112 planes of the classical input format, stored as 112 channels of each square.
//!
//! | plane | content |
//! |---|---|
//! | 13 b to 13 b + 5 | b plies ago (0 to 7): our pawns, knights, bishops, rooks, queens, king |
//! | 13 b + 6 to 13 b + 11 | theirs |
//! | 13 b + 12 | all ones if the position stood on the board before |
//! | 104, 105 | all ones if we can castle long, short |
//! | 106, 107 | all ones if they can |
//! | 108 | all ones if Black is to move |
//! | 109 | halfmoves without capture or pawn move, divided by 99, on all squares |
//! | 110 | zeros |
//! | 111 | ones |
//!
//! lc0 itself feeds the clock (109) undivided. Networks here are trained on the divided one, and files in lc0's format
//! make up for the difference in the weights.

use super::{Channels, DenseChannels, Masks};
use tandem_chess::history::{BOARDS, PastBoard, last_boards};
use tandem_chess::{BitBoard, Board, Color, Piece, Position};

pub use tandem_chess::history::HistoryFill;

/// Channels of a square, one for each of lc0's planes.
pub const CHANNELS: usize = 112;

/// Planes of one past position: pieces of both sides, and repetition.
const BOARD: usize = 13;
const THEIRS: usize = 6;
const REPEATED: usize = 12;

const CASTLING: usize = BOARDS * BOARD;
/// Planes that depend on the game: repetition of the current position, and all boards before it.
pub(crate) const HISTORY: std::ops::Range<usize> = REPEATED..CASTLING;
const BLACK_TO_MOVE: usize = 108;
/// Plane of the fifty-move clock; the next constant is the divisor of its value.
pub(crate) const CLOCK: usize = 109;
pub(crate) const CLOCK_UNIT: f32 = 99.0;
const ONES: usize = 111;

/// Writes the [`CHANNELS`] of the 64 squares, those of a1 first. `fill` decides what the history planes show
/// for a game that is shorter than eight positions.
///
/// # Panics
/// If `out` does not have 64 times [`CHANNELS`] values.
pub fn encode(position: &Position, fill: HistoryFill, out: &mut [f32]) {
    write(position, fill, &mut DenseChannels::new(out, CHANNELS));
}

/// Writes the same encoding as [`Masks`]: the squares of each of the [`CHANNELS`], and its value.
///
/// # Panics
/// If `squares` or `levels` does not have [`CHANNELS`] elements.
pub fn encode_masks(position: &Position, fill: HistoryFill, squares: &mut [u64], levels: &mut [f32]) {
    write(position, fill, &mut Masks::new(squares, levels, CHANNELS));
}

/// Writes the [`CHANNELS`] of the 64 squares for a single position: all planes that depend on the game are
/// zero.
///
/// # Panics
/// If `out` does not have 64 times [`CHANNELS`] values.
pub fn encode_single(board: &Board, out: &mut [f32]) {
    write_single(board, &mut DenseChannels::new(out, CHANNELS));
}

/// Writes the encoding of a single position as [`Masks`].
///
/// # Panics
/// If `squares` or `levels` does not have [`CHANNELS`] elements.
pub fn encode_single_masks(board: &Board, squares: &mut [u64], levels: &mut [f32]) {
    write_single(board, &mut Masks::new(squares, levels, CHANNELS));
}

fn write(position: &Position, fill: HistoryFill, out: &mut impl Channels) {
    for (plies, past) in last_boards(position, fill).iter().enumerate() {
        write_pieces(BOARD * plies, past, out);
        if past.repeated {
            out.mark(BOARD * plies + REPEATED, BitBoard::FULL);
        }
    }
    write_state(position.board(), out);
}

fn write_single(board: &Board, out: &mut impl Channels) {
    write_pieces(0, &PastBoard::of(board, board.side_to_move()), out);
    write_state(board, out);
}

/// Writes the pieces of one board, to planes from `first` on.
fn write_pieces(first: usize, past: &PastBoard, out: &mut impl Channels) {
    for piece in Piece::ALL {
        out.mark(first + piece as usize, past.ours[piece as usize]);
        out.mark(first + THEIRS + piece as usize, past.theirs[piece as usize]);
    }
}

/// Writes castling rights, side to move and clock.
fn write_state(board: &Board, out: &mut impl Channels) {
    let us = board.side_to_move();
    for (number, owner) in [us, !us].into_iter().enumerate() {
        let rights = board.castle_rights(owner);
        for (way, right) in [rights.long, rights.short].into_iter().enumerate() {
            out.broadcast(CASTLING + 2 * number + way, f32::from(right.is_some()));
        }
    }
    out.broadcast(BLACK_TO_MOVE, f32::from(us == Color::Black));
    out.broadcast(CLOCK, f32::from(board.halfmove_clock()) / CLOCK_UNIT);
    out.broadcast(ONES, 1.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use tandem_chess::move_map::lc0;
    use tandem_util::test_data;

    fn rows_of(position: &Position, fill: HistoryFill) -> Vec<[f32; CHANNELS]> {
        let mut values = vec![f32::NAN; 64 * CHANNELS];
        encode(position, fill, &mut values);
        values.as_chunks().0.to_vec()
    }

    /// A record of lc0's training data, version 6.
    struct Record<'a>(&'a [u8]);

    impl Record<'_> {
        const SIZE: usize = 8356;
        const PLANES: usize = 7440;
        const FIELDS: usize = 8272;

        /// Value of a plane on a square: a byte is a rank, and its highest bit is the a-file.
        fn number(&self, plane: usize, square: usize) -> f32 {
            match plane {
                0..CASTLING => {
                    f32::from(self.0[Self::PLANES + 8 * plane + square / 8] >> (7 - square % 8) & 1)
                }
                CASTLING..CLOCK => f32::from(self.0[Self::FIELDS + plane - CASTLING]),
                CLOCK => f32::from(self.0[Self::FIELDS + plane - CASTLING]) / CLOCK_UNIT,
                ONES => 1.0,
                _ => 0.0,
            }
        }

        fn played(&self) -> usize {
            u16::from_le_bytes([self.0[8344], self.0[8345]]).into()
        }
    }

    /// Replays self-play games of lc0: every plane must be what lc0 wrote, except for the unit of the clock.
    #[test]
    #[ignore = "needs data"]
    fn planes_are_those_that_lc0_writes() {
        let folder = test_data::path("formats/lc0_v6");
        let (mut positions, mut repeated) = (0, 0);
        for entry in std::fs::read_dir(folder).unwrap() {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(entry.unwrap().path()).unwrap();
            flate2::read::MultiGzDecoder::new(file).read_to_end(&mut bytes).unwrap();
            let mut position = Position::startpos();
            for (ply, record) in bytes.chunks_exact(Record::SIZE).map(Record).enumerate() {
                assert_eq!(record.0[..8], [6, 0, 0, 0, 1, 0, 0, 0], "version 6, classical planes");
                let rows = rows_of(&position, HistoryFill::FenOnly);
                for (square, row) in rows.iter().enumerate() {
                    for (plane, &number) in row.iter().enumerate() {
                        let expected = record.number(plane, square);
                        assert_eq!(number, expected, "ply {ply}, plane {plane}, square {square}");
                    }
                }
                positions += 1;
                repeated += usize::from(rows[0][REPEATED] == 1.0);
                let index = lc0::PolicyIndex::new(record.played()).unwrap();
                position.play(lc0::move_of(position.board(), index).unwrap());
            }
        }
        assert_eq!(positions, 1796);
        assert!(repeated > 0, "no game repeats a position");
    }

    #[test]
    fn channels_are_where_the_table_says() {
        let fen = "r3k2r/8/8/8/3pP3/8/8/R3K2R b Kq e3 7 9";
        let rows = rows_of(&Position::from_fen(fen).unwrap(), HistoryFill::FenOnly);
        let ones = |square: usize| -> Vec<usize> {
            (0..CHANNELS).filter(|&channel| rows[square][channel] == 1.0).collect()
        };
        // From Black's side: a1 holds its own rook, in the position and in the seven filled ones before it.
        let all_squares = [104, 107, 108, 111];
        let in_all = |plane: usize| (0..BOARDS).map(move |plies| BOARD * plies + plane);
        assert_eq!(ones(0), in_all(3).chain(all_squares).collect::<Vec<_>>());
        // The white pawn that has jumped to e5 stood on e7 before.
        assert_eq!(ones(36), [6].into_iter().chain(all_squares).collect::<Vec<_>>());
        assert_eq!(ones(52), in_all(6).skip(1).chain(all_squares).collect::<Vec<_>>());
        assert!(rows.iter().all(|row| row[CLOCK] == 7.0 / 99.0));
        let alone = rows_of(&Position::from_fen(fen).unwrap(), HistoryFill::No);
        assert!(alone.iter().all(|row| row[BOARD..CASTLING].iter().all(|&number| number == 0.0)));
    }
}
