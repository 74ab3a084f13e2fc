//! Syzygy endgame tables: exact results of positions with few pieces.

use pyrrhic_rs::{DtzProbeValue, EngineAdapter, TableBases, WdlProbeResult};
use std::collections::HashSet;
use std::path::Path;
use tandem_chess::{
    BitBoard, Color, Move, Piece, Position, Rank, Square, get_bishop_moves, get_king_moves, get_knight_moves,
    get_pawn_attacks, get_rook_moves,
};
use thiserror::Error;

/// Reason for which endgame tables cannot be used, with the path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SyzygyError {
    /// None of the folders contains a table.
    #[error("no Syzygy tables (*.rtbw) in '{0}'")]
    NoTables(String),
    /// A folder with tables has a colon in its name, at which the library that reads tables would split it.
    #[error("'{0}' has Syzygy tables, but a name with a colon, which cannot be read")]
    ColonInPath(String),
    /// A table file is incomplete. The library would read beyond its end.
    #[error("the Syzygy table '{0}' is incomplete; download it again, or remove it")]
    Truncated(String),
    /// Tables were found but could not be opened.
    #[error("the Syzygy tables in '{0}' could not be opened")]
    Unreadable(String),
}

/// Result of a position with best play, for the side to move, under the fifty-move rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableResult {
    /// The side to move loses with best play.
    Loss,
    /// A draw, even if only by the fifty-move rule.
    Draw,
    /// The side to move wins with best play.
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

/// Open Syzygy endgame tables. The library that reads them keeps its state for the whole process, so only one
/// set can be open at a time.
pub struct Tablebases {
    tables: TableBases<Attacks>,
    path: String,
    max_pieces: u32,
    /// Names of the available distance tables (DTZ). The library must not be asked for a missing one, because
    /// it would then also forget the result table (WDL) of that name.
    distances: HashSet<String>,
}

impl Tablebases {
    /// Opens the tables in one or more folders, separated as in the environment variable `PATH`.
    ///
    /// # Errors
    /// If there are no tables, one is incomplete, a folder's name contains a colon, or the library cannot
    /// open them.
    pub fn open(path: &str) -> Result<Self, SyzygyError> {
        Self::open_found(path, FoundTables::scan(path)?)
    }

    /// Opens tables that were found in folders.
    pub(crate) fn open_found(path: &str, found: FoundTables) -> Result<Self, SyzygyError> {
        let FoundTables { folders, max_pieces, distances } = found;
        let tables =
            TableBases::new(folders.join(":")).map_err(|_| SyzygyError::Unreadable(path.to_owned()))?;
        Ok(Self { tables, path: path.to_owned(), max_pieces, distances })
    }

    /// The folders, as they were given.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Number of pieces of the largest table, kings included.
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

    /// True if the distance tables (DTZ) of the position itself are available. For the positions after
    /// captures and pawn moves the library needs result tables (WDL) only.
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

    /// Result of a position just after a capture or pawn move; `None` if no table has it, or if moves already
    /// count towards the fifty-move rule. Safe to call from many threads.
    pub fn probe(&self, position: &Position) -> Option<TableResult> {
        if position.board().halfmove_clock() != 0 || !self.covers(position) {
            return None;
        }
        self.result(position)
    }

    /// Result of a position as if the fifty-move counter were zero.
    fn result(&self, position: &Position) -> Option<TableResult> {
        let [white, black, kings, queens, rooks, bishops, knights, pawns] = bitboards(position);
        let (en_passant, turn) = (en_passant(position), position.side_to_move() == Color::White);
        self.tables
            .probe_wdl(white, black, kings, queens, rooks, bishops, knights, pawns, en_passant, turn)
            .ok()
            .map(TableResult::from)
    }

    /// Legal moves at the root with ranks, the better the result the higher; `None` if no table has the
    /// position. Where the fifty-move rule or a repetition might spoil a win, moves that make progress rank
    /// higher. Must not be called while a search runs.
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
            // All wins that the fifty-move rule cannot spoil are equal, unless this position was repeated.
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

    /// Ranks without distance tables: a win stays a win, and progress is left to the search.
    fn rank_by_results(&self, position: &Position) -> Option<Vec<(Move, i32)>> {
        let rank = |mv: Move| {
            let mut after = position.clone();
            after.play(mv);
            let result = match (after.has_legal_move(), after.in_check()) {
                (true, _) => self.result(&after)?,
                (false, true) => TableResult::Loss,
                (false, false) => TableResult::Draw,
            };
            // The opponent's result after the move.
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

/// Tables found in some folders. They are searched before the library is called, because a folder without
/// tables would mark it as in use for good, and because it counts missing tables when it reports the number
/// of pieces.
#[derive(Debug, Default)]
pub(crate) struct FoundTables {
    /// Folders that contain tables. The library gets no others: it reads beyond its memory if a name is
    /// empty.
    folders: Vec<String>,
    /// Number of pieces of the largest table.
    max_pieces: u32,
    /// Names of the distance tables (`.rtbz`).
    distances: HashSet<String>,
}

impl FoundTables {
    /// Lists the files of the folders and checks their lengths, without opening them.
    ///
    /// # Errors
    /// If there are no tables, one is incomplete, or the name of a folder with tables contains a colon.
    pub(crate) fn scan(path: &str) -> Result<Self, SyzygyError> {
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
                return Err(SyzygyError::ColonInPath(name));
            }
            found.folders.push(name);
        }
        if found.max_pieces == 0 { Err(SyzygyError::NoTables(path.to_owned())) } else { Ok(found) }
    }

    /// Records a file; returns true if it is a table.
    fn add(&mut self, file: &Path) -> Result<bool, SyzygyError> {
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let is_result = file.extension().is_some_and(|extension| extension == "rtbw");
        if !is_result && file.extension().is_none_or(|extension| extension != "rtbz") {
            return Ok(false);
        }
        // Blocks of 64 bytes and a checksum of 16.
        if !file.metadata().is_ok_and(|file| file.len() % 64 == 16) {
            return Err(SyzygyError::Truncated(file.display().to_string()));
        }
        if is_result {
            // For example, `KBNvK` has four pieces.
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

/// Provides our attack tables to the library.
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
