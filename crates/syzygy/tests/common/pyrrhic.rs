//! The crate pyrrhic-rs, which reads Syzygy tables too, with our boards.

#![allow(dead_code, unreachable_pub, reason = "shared by tests and the benchmark")]

use pyrrhic_rs::{Color as TheirColor, DtzProbeResult, EngineAdapter, TableBases, WdlProbeResult};
use tandem_chess::{
    BitBoard, Board, Color, Piece, Rank, Square, get_bishop_moves, get_king_moves, get_knight_moves,
    get_pawn_attacks, get_rook_moves,
};

/// Our attacks, for the other reader.
#[derive(Clone)]
pub struct Attacks;

fn square(index: u64) -> Square {
    Square::index(index as usize & 63)
}

impl EngineAdapter for Attacks {
    fn pawn_attacks(color: TheirColor, from: u64) -> u64 {
        let color = match color {
            TheirColor::White => Color::White,
            TheirColor::Black => Color::Black,
        };
        get_pawn_attacks(square(from), color).0
    }

    fn knight_attacks(from: u64) -> u64 {
        get_knight_moves(square(from)).0
    }

    fn bishop_attacks(from: u64, occupied: u64) -> u64 {
        get_bishop_moves(square(from), BitBoard(occupied)).0
    }

    fn rook_attacks(from: u64, occupied: u64) -> u64 {
        get_rook_moves(square(from), BitBoard(occupied)).0
    }

    fn queen_attacks(from: u64, occupied: u64) -> u64 {
        Self::bishop_attacks(from, occupied) | Self::rook_attacks(from, occupied)
    }

    fn king_attacks(from: u64) -> u64 {
        get_king_moves(square(from)).0
    }
}

/// The other reader. It keeps its state for the whole process, so there may be only one.
pub struct Pyrrhic(TableBases<Attacks>);

impl Pyrrhic {
    pub fn open(folder: &str) -> Self {
        Self(TableBases::new(folder).unwrap())
    }

    fn en_passant(board: &Board) -> u32 {
        let square = |file| Square::new(file, Rank::Sixth.relative_to(board.side_to_move()));
        board.en_passant().map_or(0, |file| square(file) as u32)
    }

    pub fn wdl(&self, board: &Board) -> Option<WdlProbeResult> {
        let [white, black] = [Color::White, Color::Black].map(|color| board.colors(color).0);
        let [pawns, knights, bishops, rooks, queens, kings] = Piece::ALL.map(|piece| board.pieces(piece).0);
        let (en_passant, turn) = (Self::en_passant(board), board.side_to_move() == Color::White);
        self.0.probe_wdl(white, black, kings, queens, rooks, bishops, knights, pawns, en_passant, turn).ok()
    }

    pub fn root(&self, board: &Board) -> Option<DtzProbeResult> {
        let [white, black] = [Color::White, Color::Black].map(|color| board.colors(color).0);
        let [pawns, knights, bishops, rooks, queens, kings] = Piece::ALL.map(|piece| board.pieces(piece).0);
        let (en_passant, turn) = (Self::en_passant(board), board.side_to_move() == Color::White);
        let clock = board.halfmove_clock().into();
        let tables = &self.0;
        tables
            .probe_root(white, black, kings, queens, rooks, bishops, knights, pawns, clock, en_passant, turn)
            .ok()
    }
}
