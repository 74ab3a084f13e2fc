//! The last positions of a game in the form of lc0's input planes.

use crate::{BitBoard, Board, Color, Piece, Position, Rank, Square};

/// Number of positions of a game that lc0's networks see, the current one included.
pub const BOARDS: usize = 8;

/// Rule for the positions before the first one of a game, which lc0's networks see too; as lc0's option
/// `HistoryFill`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HistoryFill {
    /// Leaves the boards before the first position empty.
    No,
    /// Repeats the first position, unless it is the standard start position. lc0 plays and trains in this
    /// way.
    #[default]
    FenOnly,
    /// Repeats the first position, whatever it is.
    Always,
}

/// The pieces of a position of the game, as the side that is to move now sees them; see [`seen_by`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PastBoard {
    /// Pieces of the side that is to move now, indexed by [`Piece`].
    pub ours: [BitBoard; Piece::NUM],
    /// Pieces of the opponent of the side to move, indexed by [`Piece`].
    pub theirs: [BitBoard; Piece::NUM],
    /// True if the position had occurred before in the game.
    pub repeated: bool,
}

impl PastBoard {
    /// The pieces of `board` as side `us` sees them, marked as not repeated.
    pub fn of(board: &Board, us: Color) -> Self {
        Self {
            ours: Piece::ALL.map(|piece| seen_by(us, board.colored_pieces(us, piece))),
            theirs: Piece::ALL.map(|piece| seen_by(us, board.colored_pieces(!us, piece))),
            repeated: false,
        }
    }
}

/// The last positions of a game, the current one first.
///
/// Where the first position is repeated in place of earlier ones, a pawn that has just jumped there is put
/// back: the network has no other way to see that it can be captured en passant.
pub fn last_boards(position: &Position, fill: HistoryFill) -> [PastBoard; BOARDS] {
    let us = position.side_to_move();
    let mut boards = [PastBoard::default(); BOARDS];
    for (plies, past) in boards.iter_mut().enumerate() {
        let Some((board, repetitions)) = position.before(plies) else { break };
        *past = PastBoard { repeated: repetitions > 0, ..PastBoard::of(board, us) };
    }
    let known = position.ply() + 1;
    if known < BOARDS
        && let Some(past) = before_the_first(position, fill, boards[known - 1])
    {
        boards[known..].fill(past);
    }
    boards
}

/// Board in place of the positions before the first one, derived from the first one as it is `seen` now.
fn before_the_first(position: &Position, fill: HistoryFill, seen: PastBoard) -> Option<PastBoard> {
    let (first, _) = position.before(position.ply())?;
    let filled = match fill {
        HistoryFill::No => false,
        HistoryFill::FenOnly => !first.same_position(&Board::default()),
        HistoryFill::Always => true,
    };
    if !filled {
        return None;
    }
    let mut past = seen;
    if let Some(file) = first.en_passant() {
        let us = position.side_to_move();
        let jumper = !first.side_to_move();
        let jump = [Rank::Second, Rank::Fourth].map(|rank| Square::new(file, rank.relative_to(jumper)));
        let pawns = if jumper == us { &mut past.ours } else { &mut past.theirs };
        pawns[Piece::Pawn as usize] ^= seen_by(us, jump[0].bitboard() | jump[1].bitboard());
    }
    Some(past)
}

/// Squares as a side sees them: for Black the ranks are flipped, the files are not.
#[inline]
pub fn seen_by(side: Color, squares: BitBoard) -> BitBoard {
    match side {
        Color::White => squares,
        Color::Black => squares.flip_ranks(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uci;

    fn after(fen: &str, moves: &str) -> Position {
        let mut position = Position::from_fen(fen).unwrap();
        for text in moves.split_whitespace() {
            let mv = uci::parse(position.board(), text).unwrap();
            position.play(mv);
        }
        position
    }

    fn pawns(past: &PastBoard) -> [u64; 2] {
        [past.ours[0].0, past.theirs[0].0]
    }

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

    #[test]
    fn the_past_is_seen_by_the_side_to_move_now() {
        let boards = last_boards(&after(START, "e2e4"), HistoryFill::FenOnly);
        let (second, seventh) = (0xFF00, 0x00FF_0000_0000_0000);
        // Black sees its own pawns at the bottom, and the white pawn that has jumped on its own fifth rank.
        assert_eq!(pawns(&boards[0]), [second, seventh ^ 1 << 52 | 1 << 36]);
        assert_eq!(pawns(&boards[1]), [second, seventh]);
        assert_eq!(boards[2], PastBoard::default());
    }

    #[test]
    fn repetitions_are_those_of_the_time() {
        let position = after(START, "g1f3 g8f6 f3g1 f6g8 g1f3");
        let repeated = last_boards(&position, HistoryFill::No).map(|past| past.repeated);
        assert_eq!(repeated, [true, true, false, false, false, false, false, false]);
    }

    #[test]
    fn the_first_position_stands_for_those_before_it() {
        let other = "rnbqkbnr/pppppppp/8/8/8/7P/PPPPPPP1/RNBQKBNR b KQkq - 0 1";
        for (fen, mv, fill, filled) in [
            (START, "g1f3", HistoryFill::No, false),
            (START, "g1f3", HistoryFill::FenOnly, false),
            (START, "g1f3", HistoryFill::Always, true),
            (other, "g8f6", HistoryFill::No, false),
            (other, "g8f6", HistoryFill::FenOnly, true),
            (other, "g8f6", HistoryFill::Always, true),
        ] {
            let boards = last_boards(&after(fen, mv), fill);
            let empty = PastBoard::default();
            assert_ne!(boards[1], empty);
            assert_eq!(boards[2..], [if filled { boards[1] } else { empty }; 6], "{fen} {fill:?}");
        }
        let clocks = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 4 3";
        assert_eq!(last_boards(&after(clocks, ""), HistoryFill::FenOnly)[1], PastBoard::default());
    }

    #[test]
    fn a_pawn_that_has_just_jumped_is_put_back_before_the_first_position() {
        let fen = "4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1";
        let [e5, d5, d7] = [1 << 36, 1 << 35, 1 << 51];
        let boards = last_boards(&after(fen, ""), HistoryFill::FenOnly);
        assert_eq!(pawns(&boards[0]), [e5, d5]);
        assert!(boards[1..].iter().all(|past| pawns(past) == [e5, d7]));
        // A ply later the opponent sees the same, flipped.
        let boards = last_boards(&after(fen, "e1e2"), HistoryFill::FenOnly);
        let [e4, d4, d2] = [1 << 28, 1 << 27, 1 << 11];
        assert_eq!(pawns(&boards[1]), [d4, e4]);
        assert!(boards[2..].iter().all(|past| pawns(past) == [d2, e4]));
    }
}
