//! A fast parser of positions and moves from text, because data sets hold them by the hundred million.
//!
//! It checks only for one king on each side and no pawn on the first or last rank, instead of full legality.
//! Anything unusual, for example Chess960 castling rights, goes through a full board.

use crate::packed::*;
use tandem_chess::{BitBoard, Board, Color, File, Move, Piece, Rank, Square, get_pawn_attacks, uci};

impl Packed {
    /// Packs the position of a FEN, the text form of a position with six fields separated by spaces.
    ///
    /// # Errors
    ///
    /// Fails with the reason if the text is not FEN or the position is not legal. Legality is not checked for
    /// the most usual forms of FEN, which a fast parser reads.
    pub fn from_fen(text: &str) -> Result<Self, String> {
        match parse_standard(text) {
            Some(position) => Ok(position),
            None => {
                let board: Board = tandem_chess::fen::parse(text).map_err(|error| error.to_string())?;
                Self::try_from(&board).map_err(|error| error.to_string())
            }
        }
    }

    /// Parses a move in UCI notation; castling becomes a king move onto its own rook. Legality is not
    /// checked.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a move, or if the side to move has no piece on its first square.
    pub fn parse_move(&self, text: &str) -> Result<Move, String> {
        let bytes = text.as_bytes();
        let square = |at: usize| {
            let (file, rank) = (bytes.get(at)?.wrapping_sub(b'a'), bytes.get(at + 1)?.wrapping_sub(b'1'));
            (file < 8 && rank < 8).then(|| Square::index(usize::from(8 * rank + file)))
        };
        let promotion = match bytes.get(4) {
            None => Some(None),
            Some(b'n') => Some(Some(Piece::Knight)),
            Some(b'b') => Some(Some(Piece::Bishop)),
            Some(b'r') => Some(Some(Piece::Rook)),
            Some(b'q') => Some(Some(Piece::Queen)),
            Some(_) => None,
        };
        let (Some(from), Some(to), Some(promotion), true) =
            (square(0), square(2), promotion, bytes.len() <= 5)
        else {
            return Err(format!("{text:?} is not a move"));
        };
        let code = |square: Square| {
            let below = (self.occupied & ((1 << square as u64) - 1)).count_ones() as usize;
            self.occupied().has(square).then(|| self.pieces[below / 2] >> (below % 2 * 4) & 15)
        };
        let side = if self.side_to_move() == Color::Black { BLACK } else { 0 };
        match code(from) {
            Some(mover) if mover & BLACK == side => {
                // A king move of two files, or onto its own rook, may be castling in either notation: the
                // full parser decides.
                let leaps = (from.file() as i8 - to.file() as i8).abs() > 1;
                if kind_of(mover) == Some(Piece::King) && leaps {
                    let board = self.board().map_err(|error| error.to_string())?;
                    return uci::parse(&board, text).map_err(|error| error.to_string());
                }
                Ok(Move { from, to, promotion })
            }
            _ => Err(format!("{text}: no piece of the side to move stands on {from}")),
        }
    }
}

/// Parses a position of standard chess whose FEN has all six fields; `None` for anything else.
fn parse_standard(text: &str) -> Option<Packed> {
    let mut fields = text.split(' ');
    let board = fields.next()?;
    let mut codes = [0u8; 64];
    let mut occupied = BitBoard::EMPTY;
    let (mut file, mut rank) = (0usize, 7usize);
    for byte in board.bytes() {
        let code = match byte {
            b'1'..=b'8' => {
                file += usize::from(byte - b'0');
                continue;
            }
            b'/' => {
                if file != 8 || rank == 0 {
                    return None;
                }
                (file, rank) = (0, rank - 1);
                continue;
            }
            _ => {
                let kind = match byte | 0x20 {
                    b'p' => 0,
                    b'n' => 1,
                    b'b' => 2,
                    b'r' => 3,
                    b'q' => 4,
                    b'k' => 5,
                    _ => return None,
                };
                kind | if byte & 0x20 != 0 { BLACK } else { 0 }
            }
        };
        if file > 7 {
            return None;
        }
        let square = 8 * rank + file;
        codes[square] = code;
        occupied |= Square::index(square).bitboard();
        file += 1;
    }
    if file != 8 || rank != 0 || occupied.len() as usize > MAX_PIECES {
        return None;
    }
    let side = match fields.next()? {
        "w" => Color::White,
        "b" => Color::Black,
        _ => return None,
    };
    for byte in fields.next()?.bytes() {
        let (corner, color) = match byte {
            b'K' => (Square::H1, Color::White),
            b'Q' => (Square::A1, Color::White),
            b'k' => (Square::H8, Color::Black),
            b'q' => (Square::A8, Color::Black),
            b'-' => continue,
            _ => return None,
        };
        let color_bit = if color == Color::Black { BLACK } else { 0 };
        let home = Square::new(File::E, Rank::First.relative_to(color));
        // A castling king or rook on any other square exists only in Chess960.
        if codes[corner as usize] != Piece::Rook as u8 | color_bit
            || codes[home as usize] != Piece::King as u8 | color_bit
        {
            return None;
        }
        codes[corner as usize] = CASTLING_ROOK | color_bit;
    }
    let passant = match fields.next()? {
        "-" => None,
        square => Some(square.parse::<Square>().ok()?),
    };
    let halfmoves: u8 = fields.next()?.parse().ok().filter(|&count| count <= 100)?;
    let fullmove: u16 = fields.next()?.parse().ok().filter(|&number| number > 0)?;
    if fields.next().is_some() {
        return None;
    }
    let mut kings = [0; 2];
    let mut pieces = [0u8; 16];
    let mut takers = false;
    let attackers = passant.map_or(BitBoard::EMPTY, |square| get_pawn_attacks(square, !side));
    for (at, square) in occupied.into_iter().enumerate() {
        let code = codes[square as usize];
        pieces[at / 2] |= code << (at % 2 * 4);
        match code & 7 {
            5 => kings[usize::from(code & BLACK != 0)] += 1,
            0 => {
                if matches!(square.rank(), Rank::First | Rank::Eighth) {
                    return None;
                }
                takers |= attackers.has(square) && (code & BLACK != 0) == (side == Color::Black);
            }
            _ => {}
        }
    }
    // Pins may make the en passant capture illegal, which only the full rules can decide.
    if kings != [1, 1] || takers {
        return None;
    }
    let side = if side == Color::Black { BLACK_TO_MOVE } else { 0 };
    Some(Packed { occupied: occupied.0, pieces, side_and_passant: NO_SQUARE | side, halfmoves, fullmove })
}

/// True if the fifth field of a FEN is a half-move clock above 100, which is read as 100.
pub(crate) fn clock_above_100(fen: &str) -> bool {
    let clock = fen.split_ascii_whitespace().nth(4);
    clock.and_then(|text| text.parse::<u32>().ok()).is_some_and(|clock| clock > 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;
    use tandem_chess::fen;

    #[test]
    fn the_fast_parser_and_the_full_one_agree() {
        let mut records = samples::games(60);
        records.extend(samples::chess960_games(20));
        let mut short = 0;
        for record in &records {
            let board = record.position.board().unwrap();
            let text = fen::format(&board);
            assert_eq!(Packed::from_fen(&text).as_ref(), Ok(&record.position), "{text}");
            short += usize::from(parse_standard(&text).is_some());
            let mv = record.mv.unwrap();
            let text = uci::format(&board, mv, fen::is_chess960(&board));
            assert_eq!(record.position.parse_move(&text), Ok(mv), "{text}");
        }
        assert!(short > records.len() / 2);
    }

    #[test]
    fn nonsense_is_refused_by_both_parsers() {
        for text in [
            "",
            "8/8/8/8/8/8/8/8 w - - 0 1",
            "P3k3/8/8/8/8/8/8/4K3 w - - 0 1",
            "4k3/8/8/8/8/8/8/4K3 x - - 0 1",
            "4k3/8/8/8/8/8/8/4K4 w - - 0 1",
            "4k3/8/8/8/8/8/8/4K3 w KQ - 0 1",
            "4k3/9/8/8/8/8/8/4K3 w - - 0 1",
            "4k3/8/8/8/8/8/8/4K3/8 w - - 0 1",
            "4k3/8/8/8/8/8/8/4K3 w - z9 0 1",
        ] {
            assert!(Packed::from_fen(text).is_err(), "{text}");
        }
        let start = Packed::new(&Board::default()).unwrap();
        for text in ["", "e2", "e2e4x", "i2e4", "e7e5", "e4e5", "e1g1", "e2e4qq", "é2e4"] {
            assert!(start.parse_move(text).is_err(), "{text}");
        }
    }
}
