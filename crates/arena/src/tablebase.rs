//! Results from Syzygy tablebases.

use crate::Outcome;
use std::{fmt, sync::Arc};
use tandem_chess::Position;
use tandem_search::{SyzygyError, TableResult, Tablebases};

/// Open tablebases that end games. A result counts where the tables prove it: right after the capture or pawn move
/// that leads into them, when no move is yet lost to the fifty-move rule.
#[derive(Clone)]
pub struct Tablebase {
    tables: Arc<Tablebases>,
    path: String,
}

impl Tablebase {
    /// Opens the tables in one or more folders, separated as the system separates paths.
    pub fn open(path: &str) -> Result<Self, SyzygyError> {
        Ok(Self { tables: Arc::new(Tablebases::open(path)?), path: path.to_owned() })
    }

    /// The folders.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The result of a position, if the tables have it.
    pub fn outcome(&self, position: &Position) -> Option<Outcome> {
        Some(match self.tables.probe(position)? {
            TableResult::Win => Outcome::won_by(position.side_to_move()),
            TableResult::Loss => Outcome::won_by(!position.side_to_move()),
            TableResult::Draw => Outcome::Draw,
        })
    }
}

impl fmt::Debug for Tablebase {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Tablebase").field("path", &self.path).finish_non_exhaustive()
    }
}
