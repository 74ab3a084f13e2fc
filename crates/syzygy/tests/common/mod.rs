//! Positions and files for tests and the benchmark.

#![allow(dead_code, unreachable_pub, reason = "each program uses a part")]

use std::path::{Path, PathBuf};
use tandem_chess::{Board, BoardBuilder, Color, Piece, Rank, Square};
use tandem_util::random::SplitMix;

/// Folder of tables: that of the environment variable `TANDEM_SYZYGY`, or all tables of three and four pieces.
pub fn folder() -> PathBuf {
    std::env::var_os("TANDEM_SYZYGY")
        .map_or_else(|| tandem_util::test_data::path("syzygy/3-4"), PathBuf::from)
}

/// Table files of a folder, by name.
pub fn table_files(folder: &Path) -> Vec<PathBuf> {
    let is_table =
        |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rtbw" || extension == "rtbz");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(is_table).collect();
    files.sort();
    files
}

/// Names of the tables of a folder, for example `KQvK`.
pub fn names(folder: &Path) -> Vec<String> {
    let name = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<String> = table_files(folder).iter().map(name).collect();
    names.dedup();
    names
}

/// Pieces of a table's name.
pub fn pieces(name: &str) -> Vec<(Piece, Color)> {
    let (white, black) = name.split_once('v').unwrap();
    let side = |letters: &str, color| -> Vec<(Piece, Color)> {
        let piece = |letter: char| letter.to_ascii_lowercase().try_into().unwrap();
        letters.chars().map(|letter| (piece(letter), color)).collect()
    };
    [side(white, Color::White), side(black, Color::Black)].concat()
}

/// A legal position with these pieces on these squares; `None` if there is none.
pub fn place(pieces: &[(Piece, Color)], squares: &[Square], turn: Color) -> Option<BoardBuilder> {
    let mut builder = BoardBuilder::empty();
    for (&(piece, color), &square) in pieces.iter().zip(squares) {
        let rank = square.rank();
        let taken = builder.square(square).is_some();
        if taken || (piece == Piece::Pawn && (rank == Rank::First || rank == Rank::Eighth)) {
            return None;
        }
        *builder.square_mut(square) = Some((piece, color));
    }
    builder.side_to_move = turn;
    tandem_chess::build(&builder).is_ok().then_some(builder)
}

/// A random legal position with these pieces, either side being the stronger one: often with en passant where it is
/// possible, and with any number of moves towards the fifty-move rule if `with_clock`.
pub fn random_position(pieces: &[(Piece, Color)], with_clock: bool, random: &mut SplitMix) -> Board {
    loop {
        let swap = random.below(2) == 1;
        let pieces =
            Vec::from_iter(pieces.iter().map(|&(piece, color)| (piece, if swap { !color } else { color })));
        let squares = Vec::from_iter(pieces.iter().map(|_| Square::index(random.below(64) as usize)));
        let turn = if random.below(2) == 1 { Color::White } else { Color::Black };
        let Some(mut builder) = place(&pieces, &squares, turn) else { continue };
        if with_clock {
            builder.halfmove_clock = random.below(100) as u8;
        }
        let passed = squares.iter().zip(&pieces).find(|(square, (piece, color))| {
            *piece == Piece::Pawn && *color != turn && square.rank() == Rank::Fifth.relative_to(turn)
        });
        if let Some((square, _)) = passed {
            let mut with_en_passant = builder.clone();
            with_en_passant.en_passant = Some(Square::new(square.file(), Rank::Sixth.relative_to(turn)));
            if let Ok(board) = tandem_chess::build(&with_en_passant) {
                return board;
            }
        }
        if let Ok(board) = tandem_chess::build(&builder) {
            return board;
        }
    }
}
