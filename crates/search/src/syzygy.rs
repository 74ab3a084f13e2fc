//! Syzygy endgame tables: exact results of positions with few pieces.

use tandem_chess::{Move, Position};
use tandem_syzygy::{BrokenTable, Tables, Wdl};

pub use tandem_syzygy::SyzygyError;

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

impl From<Wdl> for TableResult {
    fn from(result: Wdl) -> Self {
        match result {
            Wdl::Loss => Self::Loss,
            Wdl::BlessedLoss | Wdl::Draw | Wdl::CursedWin => Self::Draw,
            Wdl::Win => Self::Win,
        }
    }
}

/// Open Syzygy endgame tables, as a search uses them.
#[derive(Debug)]
pub struct Tablebases {
    tables: Tables,
    path: String,
}

impl Tablebases {
    /// Opens the tables in one or more folders, separated as in the environment variable `PATH`.
    ///
    /// # Errors
    /// If there are no tables, or one is incomplete.
    pub fn open(path: &str) -> Result<Self, SyzygyError> {
        Ok(Self { tables: Tables::open(path)?, path: path.to_owned() })
    }

    /// The folders, as they were given.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Number of pieces of the largest table, kings included.
    pub fn max_pieces(&self) -> u32 {
        self.tables.max_pieces() as u32
    }

    /// Result of a position just after a capture or pawn move; `None` if no table has it, or if moves already
    /// count towards the fifty-move rule. Safe to call from many threads.
    pub fn probe(&self, position: &Position) -> Option<TableResult> {
        if position.board().halfmove_clock() != 0 {
            return None;
        }
        self.tables.wdl(position.board()).ok().map(TableResult::from)
    }

    /// Legal moves at the root with ranks, the better the result the higher; `None` if no table has the
    /// position. Where the fifty-move rule or a repetition might spoil a win, moves that make progress rank
    /// higher.
    pub(crate) fn rank_root(&self, position: &Position) -> Option<Vec<(Move, i32)>> {
        let ranked = self.tables.rank_moves(position).ok()?;
        Some(ranked.into_iter().map(|ranked| (ranked.mv, ranked.rank)).collect())
    }

    /// Tables that turned out to be damaged or unreadable since the last call, and are not used any more.
    pub fn take_broken(&self) -> Vec<BrokenTable> {
        self.tables.take_broken()
    }
}
