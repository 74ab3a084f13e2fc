//! Positions as FEN: parses FEN, X-FEN and Shredder-FEN, formats FEN or Shredder-FEN.

use crate::text::clip;
use crate::{Board, BoardBuilder, BoardError, CastleRights, Color, File, Piece, Rank, Square, build};
use thiserror::Error;

/// Reason for which a text is not a legal position.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FenError {
    /// The text is empty or blank.
    #[error("the FEN is empty")]
    Empty,
    /// More than six fields, separated by spaces.
    #[error("the FEN has {0} fields; it should have six at most")]
    TooManyFields(usize),
    /// A board that does not have eight ranks.
    #[error("the board has {0} ranks; it should have 8, separated by '/'")]
    Ranks(usize),
    /// A rank that does not add up to eight squares.
    #[error("rank {rank} has {squares} squares; it should have 8")]
    RankLength {
        /// Number of the rank, 1 to 8.
        rank: usize,
        /// Number of squares that its text describes.
        squares: usize,
    },
    /// A letter that does not stand for a piece.
    #[error("'{0}' is not a piece (one of pnbrqkPNBRQK) or a number of empty squares")]
    Piece(char),
    /// A side without a king, or with more than one.
    #[error("{color} has {count} kings; each side must have exactly one")]
    Kings {
        /// Colour of the side.
        color: &'static str,
        /// Number of its kings.
        count: u32,
    },
    /// A pawn on a square of the first or last rank.
    #[error("there is a pawn on {0}; pawns cannot stand on the first or last rank")]
    PawnRank(Square),
    /// A side with more than 16 pieces or more than 8 pawns.
    #[error("{color} has {pieces} pieces, {pawns} of them pawns; at most 16 and 8 are possible")]
    TooManyPieces {
        /// Colour of the side.
        color: &'static str,
        /// Number of its pieces, pawns and king included.
        pieces: u32,
        /// Number of its pawns.
        pawns: u32,
    },
    /// A side to move that is neither `w` nor `b`.
    #[error("the side to move is '{0}'; it should be 'w' or 'b'")]
    SideToMove(String),
    /// The side that just moved is in check.
    #[error("{0} is in check but it is not {0}'s turn")]
    OpponentInCheck(&'static str),
    /// The kings stand on neighbouring squares.
    #[error("the kings stand side by side")]
    KingsTouch,
    /// A castling right without king and rook in place.
    #[error("castling right '{0}' has no king and rook in place for it")]
    Castling(char),
    /// An en passant square that no pawn has just passed.
    #[error("en passant square '{0}' is impossible here")]
    EnPassant(String),
    /// A clock that is not a number.
    #[error("{field} is '{text}'; it should be a number")]
    Clock {
        /// Name of the clock.
        field: &'static str,
        /// Text in place of the number.
        text: String,
    },
    /// A position that is impossible for a reason without a variant of its own.
    #[error("the position cannot arise in a game")]
    Impossible,
}

fn color_name(color: Color) -> &'static str {
    match color {
        Color::White => "White",
        Color::Black => "Black",
    }
}

/// Parses a position. Castling rights may be `KQkq` (the outermost rook is meant, as in X-FEN) or rook files
/// as in Shredder-FEN. Fields missing at the end take their usual values; a halfmove clock above 100 is read
/// as 100.
///
/// # Errors
///
/// Fails if the text is malformed or the position is not legal.
pub fn parse(text: &str) -> Result<Board, FenError> {
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    if fields.len() > 6 {
        return Err(FenError::TooManyFields(fields.len()));
    }
    let field = |index: usize| fields.get(index).copied();
    let mut builder = BoardBuilder::empty();

    parse_placement(field(0).ok_or(FenError::Empty)?, &mut builder)?;
    builder.side_to_move = match field(1).unwrap_or("w") {
        "w" => Color::White,
        "b" => Color::Black,
        other => return Err(FenError::SideToMove(clip(other))),
    };
    check_pieces(&builder)?;
    parse_castling(field(2).unwrap_or("-"), &mut builder)?;
    let en_passant = field(3).unwrap_or("-");
    if en_passant != "-" {
        let square = en_passant.parse::<Square>().map_err(|_| FenError::EnPassant(clip(en_passant)))?;
        builder.en_passant = Some(square);
    }
    builder.halfmove_clock = parse_clock("the halfmove clock", field(4).unwrap_or("0"))?.min(100) as u8;
    builder.fullmove_number =
        parse_clock("the move number", field(5).unwrap_or("1"))?.clamp(1, u32::from(u16::MAX)) as u16;

    build(&builder).map_err(|error| match error {
        BoardError::EnPassant => FenError::EnPassant(clip(en_passant)),
        _ => FenError::Impossible,
    })
}

fn parse_placement(text: &str, builder: &mut BoardBuilder) -> Result<(), FenError> {
    let ranks = text.split('/').count();
    if ranks != 8 {
        return Err(FenError::Ranks(ranks));
    }
    for (row, rank) in text.split('/').zip(Rank::ALL.into_iter().rev()) {
        let mut squares = 0;
        for letter in row.chars() {
            if let Some(empty @ 1..=8) = letter.to_digit(10) {
                squares += empty as usize;
                continue;
            }
            let piece = piece_of(letter).ok_or(FenError::Piece(letter))?;
            let color = if letter.is_ascii_uppercase() { Color::White } else { Color::Black };
            if let Some(file) = File::try_index(squares) {
                *builder.square_mut(Square::new(file, rank)) = Some((piece, color));
            }
            squares += 1;
        }
        if squares != 8 {
            return Err(FenError::RankLength { rank: rank as usize + 1, squares });
        }
    }
    Ok(())
}

fn piece_of(letter: char) -> Option<Piece> {
    Some(match letter.to_ascii_lowercase() {
        'p' => Piece::Pawn,
        'n' => Piece::Knight,
        'b' => Piece::Bishop,
        'r' => Piece::Rook,
        'q' => Piece::Queen,
        'k' => Piece::King,
        _ => return None,
    })
}

/// Finds the reason for which the pieces are invalid, because building the board only tells that they are.
fn check_pieces(builder: &BoardBuilder) -> Result<(), FenError> {
    for color in Color::ALL {
        let count = |wanted: Option<Piece>| {
            Square::ALL
                .into_iter()
                .filter_map(|square| builder.square(square))
                .filter(|&(piece, owner)| owner == color && wanted.is_none_or(|wanted| wanted == piece))
                .count() as u32
        };
        let kings = count(Some(Piece::King));
        if kings != 1 {
            return Err(FenError::Kings { color: color_name(color), count: kings });
        }
        let (pieces, pawns) = (count(None), count(Some(Piece::Pawn)));
        if pieces > 16 || pawns > 8 {
            return Err(FenError::TooManyPieces { color: color_name(color), pieces, pawns });
        }
    }
    for square in Rank::First.bitboard() | Rank::Eighth.bitboard() {
        if matches!(builder.square(square), Some((Piece::Pawn, _))) {
            return Err(FenError::PawnRank(square));
        }
    }
    // All other rules have been checked: a fault that remains with the bare pieces is a king that could be
    // captured.
    let bare = BoardBuilder { castle_rights: [CastleRights::EMPTY; 2], en_passant: None, ..builder.clone() };
    match build(&bare) {
        Ok(_) => Ok(()),
        Err(BoardError::KingsTouch) => Err(FenError::KingsTouch),
        Err(_) => Err(FenError::OpponentInCheck(color_name(!builder.side_to_move))),
    }
}

fn parse_castling(text: &str, builder: &mut BoardBuilder) -> Result<(), FenError> {
    if text == "-" {
        return Ok(());
    }
    for letter in text.chars() {
        let color = if letter.is_ascii_uppercase() { Color::White } else { Color::Black };
        let rank = Rank::First.relative_to(color);
        let holds =
            |file: File, piece: Piece| builder.square(Square::new(file, rank)) == Some((piece, color));
        let wrong = FenError::Castling(letter);
        let Some(king) = File::ALL.into_iter().find(|&file| holds(file, Piece::King)) else {
            return Err(wrong);
        };
        let is_rook = |file: &File| holds(*file, Piece::Rook);
        let rook = match letter.to_ascii_lowercase() {
            'k' => File::ALL.into_iter().rev().take_while(|&file| file > king).find(is_rook),
            'q' => File::ALL.into_iter().take_while(|&file| file < king).find(is_rook),
            letter => File::try_from(letter).ok().filter(is_rook),
        };
        let Some(rook) = rook else { return Err(wrong) };
        let rights = builder.castle_rights_mut(color);
        let right = if rook > king { &mut rights.short } else { &mut rights.long };
        if right.is_some_and(|file| file != rook) {
            return Err(wrong);
        }
        *right = Some(rook);
    }
    Ok(())
}

fn parse_clock(field: &'static str, text: &str) -> Result<u32, FenError> {
    text.parse().map_err(|_| FenError::Clock { field, text: clip(text) })
}

/// Formats a position. Castling rights are `KQkq` where that is unambiguous, rook files (Shredder-FEN) where
/// king or rooks do not start from their standard squares.
pub fn format(board: &Board) -> String {
    if is_chess960(board) { format!("{board:#}") } else { board.to_string() }
}

/// True if a castling right of the position exists only in Chess960.
pub fn is_chess960(board: &Board) -> bool {
    Color::ALL.into_iter().any(|color| {
        let rights = board.castle_rights(color);
        let unusual = |right: Option<File>, usual: File| right.is_some_and(|file| file != usual);
        unusual(rights.short, File::H)
            || unusual(rights.long, File::A)
            || (rights.short.is_some() || rights.long.is_some()) && board.king(color).file() != File::E
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fens_round_trip() {
        for text in [
            "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b Kq - 99 120",
            "rnbqkbnr/ppp1pppp/8/8/3pP3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 3",
            "1rk1r3/8/8/8/8/8/8/1RK1R3 w EBeb - 0 1",
            "bnrkrbnq/pppppppp/8/8/8/8/PPPPPPPP/RKBNNQBR w HAec - 0 1",
        ] {
            assert_eq!(format(&parse(text).unwrap()), text);
        }
    }

    #[test]
    fn x_fen_means_the_outermost_rook() {
        let board = parse("1rk1r1r1/8/8/8/8/8/8/RR1K3R w KQkq - 0 1").unwrap();
        assert_eq!(board.castle_rights(Color::White).long, Some(File::A));
        assert_eq!(board.castle_rights(Color::White).short, Some(File::H));
        assert_eq!(board.castle_rights(Color::Black).short, Some(File::G));
        assert_eq!(board.castle_rights(Color::Black).long, Some(File::B));
    }

    #[test]
    fn missing_fields_take_their_usual_values() {
        let board = parse("4k3/8/8/8/8/8/8/4K3").unwrap();
        assert_eq!(format(&board), "4k3/8/8/8/8/8/8/4K3 w - - 0 1");
    }

    #[test]
    fn each_error_has_its_own_variant() {
        use FenError::*;
        for (text, error) in [
            ("", Empty),
            ("8/8/8/8/8/8/8 w - - 0 1", Ranks(7)),
            ("4k3/8/8/7/8/8/8/4K3 w - - 0 1", RankLength { rank: 5, squares: 7 }),
            ("4k3/8/8/44p/8/8/8/4K3 w - - 0 1", RankLength { rank: 5, squares: 9 }),
            ("4k3/8/8/x7/8/8/8/4K3 w - - 0 1", Piece('x')),
            ("4k3/8/8/8/8/8/8/4KK2 w - - 0 1", Kings { color: "White", count: 2 }),
            ("8/8/8/8/8/8/8/4K3 w - - 0 1", Kings { color: "Black", count: 0 }),
            ("P3k3/8/8/8/8/8/8/4K3 w - - 0 1", PawnRank(Square::A8)),
            ("4k3/pppppppp/p7/8/8/8/8/4K3 w - - 0 1", TooManyPieces { color: "Black", pieces: 10, pawns: 9 }),
            ("4k3/8/8/8/8/8/8/4K3 x - - 0 1", SideToMove("x".into())),
            ("4k3/8/8/8/8/8/4R3/4K3 w - - 0 1", OpponentInCheck("Black")),
            // Both sides in check, and a king in check beside the other king.
            ("4k3/8/8/8/7b/8/4R3/4K3 w - - 0 1", OpponentInCheck("Black")),
            ("8/8/8/8/8/3kK3/8/8 w - - 0 1", KingsTouch),
            ("8/8/8/8/8/3kK3/8/4r3 w - - 0 1", KingsTouch),
            ("4k3/8/8/8/8/8/8/4K3 w K - 0 1", Castling('K')),
            ("4k3/8/8/8/8/8/8/4K3 w - e6 0 1", EnPassant("e6".into())),
            ("4k3/8/8/8/8/8/8/4K3 w - - x 1", Clock { field: "the halfmove clock", text: "x".into() }),
            ("4k3/8/8/8/8/8/8/4K3 w - - 0 1 2", TooManyFields(7)),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }
}
