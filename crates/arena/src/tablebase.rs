//! Results from Syzygy tablebases.

use crate::Outcome;
use tandem_chess::Board;

/// Open tablebases.
#[derive(Clone, Debug)]
pub struct Tablebase {}

impl Tablebase {
    /// The result of a position that stands in the tables.
    pub fn outcome(&self, _board: &Board) -> Option<Outcome> {
        None
    }
}
