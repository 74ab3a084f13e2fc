//! Reports and results of a search.

use crate::value::{Centipawns, Score};
use std::time::Duration;
use tandem_chess::Move;

/// Relation of a reported score to the true score of the line at that depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreBound {
    /// The score is exact: it lies within the search window.
    Exact,
    /// The true score is at least this: a fail high.
    Lower,
    /// The true score is at most this: a fail low.
    Upper,
}

/// A report on one line of a running search; the contents of UCI's `info`.
#[derive(Clone, Debug)]
pub struct Info {
    /// Depth of the current iteration, in plies; never less than in the report before.
    pub depth: u32,
    /// Selective depth: the length of the longest line searched so far, in plies.
    pub sel_depth: u32,
    /// Rank of the line among the best ones (MultiPV), from 1.
    pub multipv: usize,
    /// Score of the line for the side to move at the root.
    pub score: Score,
    /// Relation of the score to the true one; exact once an iteration is finished.
    pub bound: ScoreBound,
    /// Number of nodes searched so far, all threads together.
    pub nodes: u64,
    /// Time since the search began.
    pub time: Duration,
    /// Fraction of the hash table that this search has filled, in thousandths, from 0 to 1000.
    pub hashfull: usize,
    /// Number of positions looked up with success in the endgame tables so far, all threads together.
    pub tb_hits: u64,
    /// Principal variation, with the move at the root first.
    pub pv: Vec<Move>,
}

impl Info {
    /// Speed in nodes per second since the search began, all threads together.
    pub fn nps(&self) -> u64 {
        nodes_per_second(self.nodes, self.time)
    }
}

/// Speed of a search in nodes per second; durations below a microsecond count as one.
pub fn nodes_per_second(nodes: u64, time: Duration) -> u64 {
    (nodes as f64 / time.as_secs_f64().max(1e-6)) as u64
}

/// Result of a search, known when it has ended.
#[derive(Clone, Debug)]
pub struct SearchResult {
    /// Move to play; `None` if there is no legal move.
    pub best: Option<Move>,
    /// Expected reply of the opponent, on which the engine may ponder; `None` if unknown.
    pub ponder: Option<Move>,
    /// Score of the best move for the side to move at the root.
    pub score: Score,
    /// Depth of the last finished iteration, in plies.
    pub depth: u32,
    /// Number of nodes searched, all threads together.
    pub nodes: u64,
    /// Wall-clock time from the beginning to the end of the search.
    pub time: Duration,
}

/// Probabilities of win, draw and loss for the side to move, in thousandths; they sum to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wdl {
    /// Probability of a win, in thousandths, from 0 to 1000.
    pub win: u32,
    /// Probability of a draw, in thousandths, from 0 to 1000.
    pub draw: u32,
    /// Probability of a loss, in thousandths, from 0 to 1000.
    pub loss: u32,
}

impl Wdl {
    /// Probabilities that belong to a score, by the usual logistic model `win = 1 / (1 + exp((a - x) / b))`
    /// of the score `x` in centipawns, with constants fitted to games of this engine; a loss has the same
    /// formula for `-x`, a draw the rest.
    pub fn from_score(score: Score) -> Self {
        const A: f64 = 230.0;
        const B: f64 = 85.0;
        match score {
            Score::Mate(moves) if moves > 0 => Self { win: 1000, draw: 0, loss: 0 },
            Score::Mate(_) => Self { win: 0, draw: 0, loss: 1000 },
            Score::Centipawns(Centipawns(value)) => {
                let permille = |x: f64| (1000.0 / (1.0 + ((A - x) / B).exp())).round() as u32;
                let (win, loss) = (permille(f64::from(value)), permille(f64::from(-value)));
                Self { win, draw: 1000 - win - loss, loss }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn win_draw_and_loss_add_up_and_mirror() {
        for value in [-5000, -300, -1, 0, 1, 42, 230, 900, 20_000] {
            let wdl = Wdl::from_score(Score::Centipawns(Centipawns(value)));
            let mirrored = Wdl::from_score(Score::Centipawns(Centipawns(-value)));
            assert_eq!(wdl.win + wdl.draw + wdl.loss, 1000);
            assert_eq!((wdl.win, wdl.loss), (mirrored.loss, mirrored.win));
        }
        assert_eq!(Wdl::from_score(Score::Mate(-3)), Wdl { win: 0, draw: 0, loss: 1000 });
    }
}
