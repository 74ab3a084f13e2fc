//! Endgame tables: exact results of positions with few pieces.

use pyrrhic_rs::{DtzProbeValue, EngineAdapter, TableBases, WdlProbeResult};
use std::collections::HashSet;
use std::path::Path;
use tandem_chess::{
    BitBoard, Color, Move, Piece, Position, Rank, Square, get_bishop_moves, get_king_moves, get_knight_moves,
    get_pawn_attacks, get_rook_moves,
};
use thiserror::Error;

/// Why tables cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SyzygyError {
    /// None of the folders holds a table.
    #[error("no Syzygy tables (*.rtbw) in '{0}'")]
    NoTables(String),
    /// The library that reads tables takes a colon for the end of a folder's name.
    #[error("'{0}' has Syzygy tables, but a name with a colon, which cannot be read")]
    Colon(String),
    /// A table that is not whole. The library would read on behind its end.
    #[error("the Syzygy table '{0}' is not whole; fetch it again, or remove it")]
    Cut(String),
    /// The tables are there but could not be opened.
    #[error("the Syzygy tables in '{0}' could not be opened")]
    Unreadable(String),
}

/// The result of a position for the side to move, the fifty-move rule included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableResult {
    /// Lost.
    Loss,
    /// Drawn, be it only by the fifty-move rule.
    Draw,
    /// Won.
    Win,
}

impl From<WdlProbeResult> for TableResult {
    fn from(result: WdlProbeResult) -> Self {
        match result {
            WdlProbeResult::Loss => Self::Loss,
            WdlProbeResult::Win => Self::Win,
            _ => Self::Draw,
        }
    }
}

/// Open tables. The library behind them keeps its state for the whole process, so there is one at a time.
pub struct Tablebases {
    tables: TableBases<Attacks>,
    path: String,
    max_pieces: u32,
    /// Tables of distances, by name. Asked for one that is missing, the library forgets the results of that table too.
    distances: HashSet<String>,
}

impl Tablebases {
    /// Opens the tables in one or more folders, separated as the system separates paths.
    pub fn open(path: &str) -> Result<Self, SyzygyError> {
        Self::open_found(path, Found::look(path)?)
    }

    /// Opens what was found in folders.
    pub(crate) fn open_found(path: &str, found: Found) -> Result<Self, SyzygyError> {
        let Found { folders, max_pieces, distances } = found;
        let tables =
            TableBases::new(folders.join(":")).map_err(|_| SyzygyError::Unreadable(path.to_owned()))?;
        Ok(Self { tables, path: path.to_owned(), max_pieces, distances })
    }

    /// The folders, as they were named.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Most pieces, kings included, that a table here knows.
    pub fn max_pieces(&self) -> u32 {
        self.max_pieces
    }

    fn covers(&self, position: &Position) -> bool {
        let board = position.board();
        let castling = Color::ALL.into_iter().any(|color| {
            let rights = board.castle_rights(color);
            rights.short.is_some() || rights.long.is_some()
        });
        !castling && board.occupied().len() <= self.max_pieces()
    }

    /// Whether the distances of a position's pieces are there. At a root the library asks for no others: of captures and pawn
    /// moves it wants the result alone.
    fn has_distances(&self, position: &Position) -> bool {
        const LETTERS: [(&str, Piece); 6] = [
            ("K", Piece::King),
            ("Q", Piece::Queen),
            ("R", Piece::Rook),
            ("B", Piece::Bishop),
            ("N", Piece::Knight),
            ("P", Piece::Pawn),
        ];
        let board = position.board();
        let [white, black] = Color::ALL.map(|color| {
            let letters = |(letter, piece): (&str, Piece)| {
                letter.repeat(board.colored_pieces(color, piece).len() as usize)
            };
            LETTERS.map(letters).concat()
        });
        [format!("{white}v{black}"), format!("{black}v{white}")]
            .iter()
            .any(|name| self.distances.contains(name))
    }

    /// The result of a position that was just reached by a capture or pawn move; `None` if no table has it. Safe to
    /// ask from many threads.
    pub fn probe(&self, position: &Position) -> Option<TableResult> {
        if position.board().halfmove_clock() != 0 || !self.covers(position) {
            return None;
        }
        self.result(position)
    }

    /// The result of a position as if the fifty moves began here.
    fn result(&self, position: &Position) -> Option<TableResult> {
        let [white, black, kings, queens, rooks, bishops, knights, pawns] = bitboards(position);
        let (en_passant, turn) = (en_passant(position), position.side_to_move() == Color::White);
        self.tables
            .probe_wdl(white, black, kings, queens, rooks, bishops, knights, pawns, en_passant, turn)
            .ok()
            .map(TableResult::from)
    }

    /// The root's legal moves, each with a rank that is higher the better its result; `None` if no table has the position.
    /// Where the fifty-move rule or a repetition might spoil a win, what makes progress ranks higher. Not to be asked
    /// while a search runs.
    pub(crate) fn rank_root(&self, position: &Position) -> Option<Vec<(Move, i32)>> {
        if !self.covers(position) {
            return None;
        }
        if !self.has_distances(position) {
            return self.rank_by_results(position);
        }
        let board = position.board();
        let [white, black, kings, queens, rooks, bishops, knights, pawns] = bitboards(position);
        let (en_passant, turn) = (en_passant(position), position.side_to_move() == Color::White);
        let clock = u32::from(board.halfmove_clock());
        let result = self
            .tables
            .probe_root(white, black, kings, queens, rooks, bishops, knights, pawns, clock, en_passant, turn)
            .ok()?;
        let mut ranked = Vec::new();
        let repeated = position.repetitions() > 0;
        for value in result.moves.iter().take(result.num_moves) {
            let DtzProbeValue::DtzResult(entry) = value else { continue };
            let promotion = match entry.promotion {
                pyrrhic_rs::Piece::Queen => Some(Piece::Queen),
                pyrrhic_rs::Piece::Rook => Some(Piece::Rook),
                pyrrhic_rs::Piece::Bishop => Some(Piece::Bishop),
                pyrrhic_rs::Piece::Knight => Some(Piece::Knight),
                _ => None,
            };
            let mv = Move {
                from: Square::try_index(usize::from(entry.from_square))?,
                to: Square::try_index(usize::from(entry.to_square))?,
                promotion,
            };
            let dtz = i32::from(entry.dtz);
            let clock = i32::from(board.halfmove_clock());
            // A win that the fifty-move rule cannot spoil is as good as any other, unless this position has come before.
            let rank = match entry.wdl {
                WdlProbeResult::Win if dtz + clock <= 99 && !repeated => 1000,
                WdlProbeResult::Win => 1000 - (dtz + clock),
                WdlProbeResult::CursedWin => 1,
                WdlProbeResult::Draw => 0,
                WdlProbeResult::BlessedLoss => -1,
                WdlProbeResult::Loss if dtz * 2 + clock < 100 => -1000,
                WdlProbeResult::Loss => -1000 + dtz + clock,
            };
            if board.is_legal(mv) {
                ranked.push((mv, rank));
            }
        }
        (!ranked.is_empty()).then_some(ranked)
    }

    /// The same without distances: a win stays a win, and making progress is the search's affair.
    fn rank_by_results(&self, position: &Position) -> Option<Vec<(Move, i32)>> {
        let rank = |mv: Move| {
            let mut after = position.clone();
            after.play(mv);
            let result = match (after.has_legal_move(), after.in_check()) {
                (true, _) => self.result(&after)?,
                (false, true) => TableResult::Loss,
                (false, false) => TableResult::Draw,
            };
            // What the opponent is left with.
            let rank = match result {
                TableResult::Loss => 1000,
                TableResult::Draw => 0,
                TableResult::Win => -1000,
            };
            Some((mv, rank))
        };
        position.legal_moves().into_iter().map(rank).collect()
    }
}

/// What some folders hold. It is looked for before the library is asked: a folder without tables would leave that marked as in
/// use for good, and it takes every table for present when it says how many pieces it knows.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Those that hold tables. The library is told of no others: it reads beyond its memory if a name is empty.
    folders: Vec<String>,
    /// Pieces of the largest table.
    max_pieces: u32,
    /// Tables of distances (`.rtbz`), by name.
    distances: HashSet<String>,
}

impl Found {
    /// Goes by the names of the files and by their lengths, and opens none.
    pub(crate) fn look(path: &str) -> Result<Self, SyzygyError> {
        let mut found = Self::default();
        for folder in std::env::split_paths(path) {
            let mut has_tables = false;
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                has_tables |= found.add(&entry.path())?;
            }
            if !has_tables {
                continue;
            }
            let name = folder.to_string_lossy().into_owned();
            if name.contains(':') {
                return Err(SyzygyError::Colon(name));
            }
            found.folders.push(name);
        }
        if found.max_pieces == 0 { Err(SyzygyError::NoTables(path.to_owned())) } else { Ok(found) }
    }

    /// Notes a file; whether it is a table.
    fn add(&mut self, file: &Path) -> Result<bool, SyzygyError> {
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let is_result = file.extension().is_some_and(|extension| extension == "rtbw");
        if !is_result && file.extension().is_none_or(|extension| extension != "rtbz") {
            return Ok(false);
        }
        // Blocks of 64 bytes, and a checksum of 16.
        if !file.metadata().is_ok_and(|file| file.len() % 64 == 16) {
            return Err(SyzygyError::Cut(file.display().to_string()));
        }
        if is_result {
            // `KBNvK` has four pieces.
            let pieces = name.chars().filter(|letter| "KQRBNP".contains(*letter)).count() as u32;
            self.max_pieces = self.max_pieces.max(pieces);
        } else {
            self.distances.insert(name);
        }
        Ok(true)
    }
}

/// The position as the library takes it: by colour, then by kind.
fn bitboards(position: &Position) -> [u64; 8] {
    let board = position.board();
    let kind = |piece: Piece| board.pieces(piece).0;
    [
        board.colors(Color::White).0,
        board.colors(Color::Black).0,
        kind(Piece::King),
        kind(Piece::Queen),
        kind(Piece::Rook),
        kind(Piece::Bishop),
        kind(Piece::Knight),
        kind(Piece::Pawn),
    ]
}

fn en_passant(position: &Position) -> u32 {
    let board = position.board();
    board
        .en_passant()
        .map_or(0, |file| Square::new(file, Rank::Sixth.relative_to(board.side_to_move())) as u32)
}

/// Lends our attack tables to the prober.
#[derive(Clone)]
struct Attacks;

fn square(index: u64) -> Square {
    Square::index(index as usize & 63)
}

impl EngineAdapter for Attacks {
    fn pawn_attacks(color: pyrrhic_rs::Color, from: u64) -> u64 {
        let color = match color {
            pyrrhic_rs::Color::White => Color::White,
            pyrrhic_rs::Color::Black => Color::Black,
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
