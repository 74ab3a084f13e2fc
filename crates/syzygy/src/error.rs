//! Reasons for which tables cannot be opened or do not answer.

use crate::Material;
use std::path::PathBuf;
use thiserror::Error;

/// The two kinds of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Results (win, draw, loss) of all positions, files `.rtbw`.
    Wdl,
    /// Distances (to zero) of the positions with one of the sides to move, files `.rtbz`.
    Dtz,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Wdl, Self::Dtz];

    /// Extension of the file names.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Wdl => "rtbw",
            Self::Dtz => "rtbz",
        }
    }
}

/// Reason for which no tables can be opened, with the path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SyzygyError {
    /// None of the folders contains a table.
    #[error("no Syzygy tables (*.rtbw) in '{0}'")]
    NoTables(String),
    /// The length of a table file is impossible, as after an interrupted download.
    #[error("the Syzygy table '{0}' is incomplete; download it again, or remove it")]
    Truncated(String),
}

/// Reason for which a probe has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProbeError {
    /// The position has more pieces than any table.
    #[error("the position has more pieces than any table")]
    TooManyPieces,
    /// A side may castle. No table has such positions.
    #[error("tables have no positions with castling rights")]
    CastlingRights,
    /// A table that is needed was not found.
    #[error("no table {0}.{ext}", ext = .1.extension())]
    Missing(Material, Kind),
    /// A table that is needed cannot be read or is damaged; see [`Tables::take_broken`](crate::Tables::take_broken).
    #[error("the table {0}.{ext} is damaged", ext = .1.extension())]
    Broken(Material, Kind),
}

/// Bytes of a table that cannot be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("at byte {offset}, {problem}")]
pub struct Damage {
    /// Offset in the file of the bytes, or of the structure to which they belong.
    pub offset: u64,
    /// Reason, which follows the offset in the message.
    pub problem: &'static str,
}

impl Damage {
    pub(crate) fn new(offset: usize, problem: &'static str) -> Self {
        Self { offset: offset as u64, problem }
    }
}

/// A table that was found but cannot be used, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BrokenTable {
    /// The operating system cannot open or map the file.
    #[error("the Syzygy table '{}' cannot be read: {reason}", .path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Message of the operating system.
        reason: String,
    },
    /// The contents are damaged.
    #[error("the Syzygy table '{}' is damaged: {damage}; download it again, or remove it", .path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Place and reason.
        damage: Damage,
    },
}
