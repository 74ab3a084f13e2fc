//! Moves in standard algebraic notation (SAN), as people and PGN files write them.
//!
//! Writing is strict: one text for each move. Parsing is lenient: files in the wild leave out the `x`, add
//! the square of origin, write zeros for castling, and so on. Neither direction generates the legal moves:
//! candidate pieces are found backwards from the destination square.

use crate::text::clip_bytes;
use crate::{
    BitBoard, Board, Color, File, Move, Piece, Rank, Square, get_bishop_moves, get_king_moves,
    get_knight_moves, get_pawn_attacks, get_rook_moves, uci,
};
use std::fmt::Write;
use thiserror::Error;

/// Reason for which a text is not a move of the position.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SanError {
    /// The text is not a move in any notation.
    #[error("'{0}' is not a move in algebraic notation (such as Nf3, exd5, O-O or e8=Q)")]
    Syntax(String),
    /// The text is a move, but no piece can make it.
    #[error("'{0}' is not a legal move here")]
    Illegal(String),
    /// The text is a move that more than one piece can make.
    #[error("'{0}' could be more than one move here; name the file or rank it starts from")]
    Ambiguous(String),
}

/// A legal move in standard algebraic notation (`Nbd7`), with no more of its origin than needed to tell it
/// from other moves.
pub fn format(board: &Board, mv: Move) -> String {
    let mut text = String::with_capacity(8);
    write_san(board, mv, &mut text);
    text
}

/// Appends a legal move in standard algebraic notation (`Nbd7`) to `text`. An illegal move has none, so its
/// two squares are written instead.
pub fn write_san(board: &Board, mv: Move, text: &mut String) {
    if board.is_legal(mv) {
        write_and_play(&mut board.clone(), mv, text);
    } else {
        let _ = write!(text, "{mv}");
    }
}

/// Appends a move that is known to be legal, and plays it, because the suffix for check or mate depends on
/// the position after it.
pub(crate) fn write_and_play(board: &mut Board, mv: Move, text: &mut String) {
    let us = board.side_to_move();
    if board.colors(us).has(mv.to) {
        text.push_str(if mv.to.file() > mv.from.file() { "O-O" } else { "O-O-O" });
    } else {
        let piece = board.piece_on(mv.from).unwrap_or(Piece::Pawn);
        let takes = board.colors(!us).has(mv.to) || piece == Piece::Pawn && mv.from.file() != mv.to.file();
        if piece == Piece::Pawn {
            if takes {
                text.push(file_letter(mv.from.file()));
            }
        } else {
            text.push(piece_letter(piece));
            write_origin(board, mv, piece, text);
        }
        if takes {
            text.push('x');
        }
        text.push(file_letter(mv.to.file()));
        text.push(rank_digit(mv.to.rank()));
        if let Some(promotion) = mv.promotion {
            text.push('=');
            text.push(piece_letter(promotion));
        }
    }
    board.play_unchecked(mv);
    if !board.checkers().is_empty() {
        text.push(if board.generate_moves(|_| true) { '+' } else { '#' });
    }
}

/// Writes the disambiguation: nothing if it suffices, else the file, else the rank, else both.
fn write_origin(board: &Board, mv: Move, piece: Piece, text: &mut String) {
    let mut rivals = origins(board, piece, mv.to) & !mv.from.bitboard();
    if rivals.is_empty() {
        return;
    }
    for from in rivals {
        if !is_legal_from(board, Move { from, ..mv }) {
            rivals ^= from.bitboard();
        }
    }
    let same_file = !(rivals & mv.from.file().bitboard()).is_empty();
    let same_rank = !(rivals & mv.from.rank().bitboard()).is_empty();
    if !rivals.is_empty() && (!same_file || same_rank) {
        text.push(file_letter(mv.from.file()));
    }
    if same_file {
        text.push(rank_digit(mv.from.rank()));
    }
}

/// Parses a move and checks that it is legal. Suffixes for check and annotation are allowed; the origin may
/// be given in full where it is not needed; captures may lack their `x`; castling may be written with zeros;
/// and two squares alone (`g1f3`) are accepted.
///
/// # Errors
///
/// Fails if the text is not a move, not legal, or ambiguous.
pub fn parse(board: &Board, text: &str) -> Result<Move, SanError> {
    parse_bytes(board, text.trim_ascii().as_bytes())
}

/// Like [`parse`], for bytes of any encoding.
pub(crate) fn parse_bytes(board: &Board, text: &[u8]) -> Result<Move, SanError> {
    let Some(written) = Written::read(text) else { return Err(SanError::Syntax(clip_bytes(text))) };
    match written.resolve(board) {
        Resolved::One(mv) => Ok(mv),
        Resolved::None => Err(SanError::Illegal(clip_bytes(text))),
        Resolved::Many => Err(SanError::Ambiguous(clip_bytes(text))),
    }
}

/// The parts of a move's text, before they are matched with the position.
enum Written {
    Short,
    Long,
    Plain {
        /// `None` if the text names no piece.
        piece: Option<Piece>,
        from_file: Option<File>,
        from_rank: Option<Rank>,
        takes: bool,
        to: Square,
        promotion: Option<Piece>,
    },
}

enum Resolved {
    One(Move),
    None,
    Many,
}

impl Written {
    /// Splits a text into its parts, from both ends towards the middle.
    fn read(text: &[u8]) -> Option<Self> {
        let text = without_marks(text);
        if let [b'O' | b'0' | b'o', ..] = text {
            return match text {
                b"O-O" | b"0-0" | b"o-o" | b"OO" | b"00" => Some(Self::Short),
                b"O-O-O" | b"0-0-0" | b"o-o-o" | b"OOO" | b"000" => Some(Self::Long),
                _ => None,
            };
        }
        let (piece, text) = match text {
            [letter, rest @ ..] if letter.is_ascii_uppercase() => (Some(piece_of(*letter)?), rest),
            _ => (None, text),
        };
        let (promotion, text) = match text {
            [rest @ .., b'(', letter, b')'] => (Some(promotion_of(*letter)?), rest),
            [rest @ .., b'=' | b'/', letter] => (Some(promotion_of(*letter)?), rest),
            [rest @ .., letter] if letter.is_ascii_alphabetic() => (Some(promotion_of(*letter)?), rest),
            _ => (None, text),
        };
        let [origin @ .., file, rank] = text else { return None };
        let to = Square::new(file_of(*file)?, rank_of(*rank)?);
        let (takes, origin) = match origin {
            [rest @ .., b'x' | b':'] => (true, rest),
            [rest @ .., b'-'] => (false, rest),
            _ => (false, origin),
        };
        let (from_file, from_rank) = match origin {
            [] => (None, None),
            [file, rank] => (Some(file_of(*file)?), Some(rank_of(*rank)?)),
            [one] => match file_of(*one) {
                Some(file) => (Some(file), None),
                None => (None, Some(rank_of(*one)?)),
            },
            _ => return None,
        };
        Some(Self::Plain { piece, from_file, from_rank, takes, to, promotion })
    }

    /// Finds the legal moves that match the text.
    fn resolve(self, board: &Board) -> Resolved {
        let us = board.side_to_move();
        let castling = |rook: Option<File>| {
            let from = board.king(us);
            let castling =
                rook.map(|rook| Move { from, to: Square::new(rook, from.rank()), promotion: None });
            castling.filter(|&mv| board.is_legal(mv)).map_or(Resolved::None, Resolved::One)
        };
        let (piece, from_file, from_rank, takes, to, promotion) = match self {
            Self::Short => return castling(board.castle_rights(us).short),
            Self::Long => return castling(board.castle_rights(us).long),
            Self::Plain { piece, from_file, from_rank, takes, to, promotion } => {
                (piece, from_file, from_rank, takes, to, promotion)
            }
        };

        // Two squares without a piece letter are a move in an engine's notation.
        if let (Some(file), Some(rank)) = (from_file, from_rank) {
            let mv = Move { from: Square::new(file, rank), to, promotion };
            return if piece.is_some_and(|piece| !board.colored_pieces(us, piece).has(mv.from)) {
                Resolved::None
            } else {
                uci::legal(board, mv).map_or(Resolved::None, Resolved::One)
            };
        }

        let piece = piece.unwrap_or(Piece::Pawn);
        let mut origins = origins(board, piece, to);
        match from_file {
            Some(file) => origins &= file.bitboard(),
            // A pawn move without a file does not capture, so it goes straight ahead.
            None if piece == Piece::Pawn && !takes => origins &= to.file().bitboard(),
            None => {}
        }
        if let Some(rank) = from_rank {
            origins &= rank.bitboard();
        }

        let mut found = Resolved::None;
        for from in origins {
            let mv = Move { from, to, promotion };
            if is_legal_from(board, mv) {
                if let Resolved::One(_) = found {
                    return Resolved::Many;
                }
                found = Resolved::One(mv);
            }
        }
        found
    }
}

/// Squares of the side to move's pieces of one kind that reach `to`, ignoring checks and pins. Castling is
/// left out.
fn origins(board: &Board, piece: Piece, to: Square) -> BitBoard {
    let us = board.side_to_move();
    if board.colors(us).has(to) {
        return BitBoard::EMPTY;
    }
    let occupied = board.occupied();
    let reach = match piece {
        Piece::Pawn => pawn_origins(us, to, occupied),
        Piece::Knight => get_knight_moves(to),
        Piece::Bishop => get_bishop_moves(to, occupied),
        Piece::Rook => get_rook_moves(to, occupied),
        Piece::Queen => get_bishop_moves(to, occupied) | get_rook_moves(to, occupied),
        Piece::King => get_king_moves(to),
    };
    reach & board.colored_pieces(us, piece)
}

/// Squares from which a pawn could go to `to`, straight or by a capture. The legality test decides whether
/// there is anything to capture.
fn pawn_origins(us: Color, to: Square, occupied: BitBoard) -> BitBoard {
    let mut reach = get_pawn_attacks(to, !us);
    let back = if us == Color::White { -1 } else { 1 };
    if let Some(one) = to.try_offset(0, back) {
        reach |= one.bitboard();
        if to.rank() == Rank::Fourth.relative_to(us) && !occupied.has(one) {
            reach |= Square::new(to.file(), Rank::Second.relative_to(us)).bitboard();
        }
    }
    reach
}

/// True if a move from one of the [`origins`] of its piece is legal. For most of them the pins decide.
fn is_legal_from(board: &Board, mv: Move) -> bool {
    let simple = !(board.pieces(Piece::Pawn) | board.pieces(Piece::King) | board.pinned()).has(mv.from);
    if simple && board.checkers().is_empty() { mv.promotion.is_none() } else { board.is_legal(mv) }
}

/// The text without suffixes of a move: check, mate, annotation, and "e.p.".
fn without_marks(mut text: &[u8]) -> &[u8] {
    loop {
        text = match text {
            [rest @ .., b'+' | b'#' | b'!' | b'?' | b' '] => rest,
            [rest @ .., b'e', b'.', b'p', b'.'] | [rest @ .., b'e', b'p'] => rest,
            _ => return text,
        };
    }
}

fn piece_of(letter: u8) -> Option<Piece> {
    Some(match letter {
        b'P' => Piece::Pawn,
        b'K' => Piece::King,
        _ => return promotion_of(letter),
    })
}

fn promotion_of(letter: u8) -> Option<Piece> {
    Some(match letter {
        b'N' | b'n' => Piece::Knight,
        b'B' | b'b' => Piece::Bishop,
        b'R' | b'r' => Piece::Rook,
        b'Q' | b'q' => Piece::Queen,
        _ => return None,
    })
}

fn file_of(letter: u8) -> Option<File> {
    File::try_index(usize::from(letter.wrapping_sub(b'a')))
}

fn rank_of(digit: u8) -> Option<Rank> {
    Rank::try_index(usize::from(digit.wrapping_sub(b'1')))
}

fn piece_letter(piece: Piece) -> char {
    match piece {
        Piece::Pawn => 'P',
        Piece::Knight => 'N',
        Piece::Bishop => 'B',
        Piece::Rook => 'R',
        Piece::Queen => 'Q',
        Piece::King => 'K',
    }
}

fn file_letter(file: File) -> char {
    (b'a' + file as u8) as char
}

fn rank_digit(rank: Rank) -> char {
    (b'1' + rank as u8) as char
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fen;

    fn board(text: &str) -> Board {
        fen::parse(text).unwrap()
    }

    /// Each text is parsed as the same move, given in UCI notation (king takes rook), and the first is how it
    /// is written.
    fn check(position: &str, uci: &str, texts: &[&str]) {
        let board = board(position);
        let mv: Move = uci.parse().unwrap();
        assert_eq!(format(&board, mv), texts[0], "{position}");
        for text in texts {
            assert_eq!(parse(&board, text), Ok(mv), "{text} in {position}");
        }
    }

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

    #[test]
    fn pieces_and_pawns() {
        check(START, "g1f3", &["Nf3", "Nf3!?", "Ngf3", "N1f3", "Ng1f3", "Ng1-f3", "g1f3", "g1-f3", " Nf3 "]);
        check(START, "e2e4", &["e4", "e2e4", "e2-e4", "Pe4", "ee4", "e4!!", "e4+"]);
    }

    #[test]
    fn captures() {
        let scotch = "r1bqkbnr/pppp1ppp/2n5/4p3/3PP3/5N2/PPP2PPP/RNBQKB1R b KQkq - 0 3";
        check(scotch, "e5d4", &["exd4", "ed4", "e5xd4", "e5:d4", "e:d4", "xd4", "e5d4"]);
        check(scotch, "c6d4", &["Nxd4", "Nd4", "N:d4", "Nc6xd4"]);
        let passing = "4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1";
        check(passing, "e5d6", &["exd6", "exd6e.p.", "exd6 e.p.", "exd6 ep", "ed6"]);
    }

    #[test]
    fn promotions() {
        let ready = "3r2k1/4P3/8/8/8/8/8/4K3 w - - 0 1";
        check(ready, "e7e8q", &["e8=Q+", "e8=Q", "e8Q", "e8(Q)", "e8/Q", "e8q", "e7e8q", "e7-e8=Q+"]);
        check(ready, "e7d8n", &["exd8=N", "exd8N", "ed8(N)"]);
        assert_eq!(parse(&board(ready), "e8"), Err(SanError::Illegal("e8".into())));
        assert_eq!(parse(&board(ready), "e8=K"), Err(SanError::Syntax("e8=K".into())));
        assert_eq!(parse(&board(ready), "Kd1=Q"), Err(SanError::Illegal("Kd1=Q".into())));
    }

    #[test]
    fn castling() {
        let ready = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1";
        check(ready, "e1h1", &["O-O", "0-0", "o-o", "O-O!", "e1g1", "e1h1", "Ke1g1"]);
        check(ready, "e1a1", &["O-O-O", "0-0-0", "O-O-O?!", "e1c1"]);
        let lost = "r3k2r/8/8/8/8/8/8/R3K2R w kq - 0 1";
        assert_eq!(parse(&board(lost), "O-O"), Err(SanError::Illegal("O-O".into())));
        // Chess960: the king stays where it is, or swaps places with the rook.
        check("k7/8/8/8/8/8/8/4R1KR w HE - 0 1", "g1h1", &["O-O", "0-0", "g1h1"]);
        check("3k4/8/8/8/8/8/8/1RK1R3 w EB - 0 1", "c1b1", &["O-O-O+", "O-O-O"]);
    }

    #[test]
    fn disambiguation_is_minimal() {
        check("8/6k1/8/8/8/8/4K3/R6R w - - 0 1", "a1d1", &["Rad1", "Ra1d1"]);
        check("R7/6k1/8/8/8/8/4K3/R7 w - - 0 1", "a1a4", &["R1a4", "Ra1a4"]);
        check("8/6k1/8/8/8/5N2/4K3/1N6 w - - 0 1", "b1d2", &["Nbd2", "N1d2", "Nb1d2"]);
        check("8/k7/8/8/4Q2Q/8/8/1K6 w - - 0 1", "h4e1", &["Qhe1", "Qh4e1"]);
        check("8/k7/8/8/7Q/8/8/1K5Q w - - 0 1", "h4e1", &["Q4e1", "Qh4e1"]);
        check("8/k7/8/8/4Q2Q/8/8/1K5Q w - - 0 1", "h4e1", &["Qh4e1", "Qh4-e1"]);
        // The other knight is pinned, so no disambiguation is needed.
        check("4k3/8/8/8/1b6/2N5/8/4K1N1 w - - 0 1", "g1e2", &["Ne2", "Nge2"]);
    }

    #[test]
    fn checks_and_mates() {
        check("6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1", "a1a8", &["Ra8#", "Ra8", "Ra8+", "Ra8#!"]);
        check("6k1/6pp/8/8/8/8/8/R5K1 w - - 0 1", "a1a8", &["Ra8+", "Ra8#"]);
    }

    #[test]
    fn each_error_has_its_own_variant() {
        use SanError::*;
        let rooks = board("4k3/8/8/8/8/8/4K3/R6R w - - 0 1");
        assert_eq!(parse(&rooks, "Rd1"), Err(Ambiguous("Rd1".into())));
        assert_eq!(parse(&rooks, "Rd2"), Err(Illegal("Rd2".into())));
        assert_eq!(parse(&rooks, "Na1b3"), Err(Illegal("Na1b3".into())));
        for text in
            ["", "x", "e", "Z0", "--", "e9", "i4", "Nf3f4f5", "O-O-O-O", "Nf", "ß2e4", "=Q", "(Q)", "+"]
        {
            assert_eq!(parse(&rooks, text), Err(Syntax(clip_bytes(text.as_bytes()))), "{text}");
        }
    }

    #[test]
    fn a_move_that_is_not_legal_is_written_as_its_squares() {
        assert_eq!(format(&board(START), "e2e5".parse().unwrap()), "e2e5");
    }
}
