//! Adjudication of games by Syzygy tablebases, as soon as a position with few pieces is reached.

use crate::Outcome;
use std::{fmt, sync::Arc};
use tandem_chess::Position;
use tandem_search::{SyzygyError, TableResult, Tablebases};

/// Open Syzygy tablebases, which adjudicate endgames. A result counts only if the tables prove it: directly
/// after the capture or pawn move that leads into them, with no moves counted towards the fifty-move rule
/// yet. Clones share the open files.
#[derive(Clone)]
pub struct Tablebase {
    tables: Arc<Tablebases>,
    path: String,
}

impl Tablebase {
    /// Opens the tables in one or more folders, separated by `:`, or by `;` on Windows.
    ///
    /// # Errors
    ///
    /// Fails if the folders hold no tables, or one is incomplete.
    pub fn open(path: &str) -> Result<Self, SyzygyError> {
        Ok(Self { tables: Arc::new(Tablebases::open(path)?), path: path.to_owned() })
    }

    /// Folders of the tables as they were given.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Messages about tables that turned out to be damaged or unreadable since the last call. They prove nothing any
    /// more.
    pub fn take_broken(&self) -> Vec<String> {
        self.tables.take_broken().iter().map(ToString::to_string).collect()
    }

    /// Proven result of a position with best play; `None` if the tables do not contain it, or if moves
    /// already count towards the fifty-move rule.
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

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_util::test_data;

    #[test]
    fn a_folder_without_tables_is_refused() {
        assert!(Tablebase::open("/no/such/folder").is_err());
    }

    #[test]
    #[ignore = "needs data"]
    fn results_are_those_of_the_tables() {
        let tables = Tablebase::open(test_data::path("syzygy/3-4").to_str().unwrap()).unwrap();
        for (fen, expected) in [
            ("4k3/8/8/8/8/8/8/3QK3 w - - 0 1", Some(Outcome::WhiteWins)),
            ("4k3/8/8/8/8/8/8/3QK3 b - - 0 1", Some(Outcome::WhiteWins)),
            ("4k3/8/8/8/8/8/8/3qK3 w - - 0 1", Some(Outcome::Draw)),
            ("8/8/8/8/8/5k2/5p2/5K2 w - - 0 1", Some(Outcome::Draw)),
            // With moves already counted towards the fifty-move rule, WDL tables alone prove nothing.
            ("4k3/8/8/8/8/8/8/3QK3 w - - 5 1", None),
            ("4k3/pppppppp/8/8/8/8/8/3QK3 w - - 0 1", None),
            ("4k3/8/8/8/8/8/8/4K2R w K - 0 1", None),
        ] {
            assert_eq!(tables.outcome(&Position::from_fen(fen).unwrap()), expected, "{fen}");
        }
    }
}
