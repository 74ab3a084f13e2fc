//! What a search tells of itself.

use crate::value::{Centipawns, Score};
use std::time::Duration;
use tandem_chess::Move;

/// What a reported score is, if not exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreBound {
    /// The true score.
    Exact,
    /// The true score is at least this.
    Lower,
    /// The true score is at most this.
    Upper,
}

/// One line of thought, as of the moment it is reported.
#[derive(Clone, Debug)]
pub struct Info {
    /// Plies searched.
    pub depth: u32,
    /// Longest line looked at, in plies.
    pub sel_depth: u32,
    /// Which of the best lines this is, from 1.
    pub multipv: usize,
    /// Its score, for the side to move at the root.
    pub score: Score,
    /// What the score is.
    pub bound: ScoreBound,
    /// Nodes of all threads.
    pub nodes: u64,
    /// Time since the search began.
    pub time: Duration,
    /// How full the hash table is, in thousandths.
    pub hashfull: usize,
    /// Positions found in the endgame tables.
    pub tb_hits: u64,
    /// The line.
    pub pv: Vec<Move>,
}

impl Info {
    /// Nodes per second.
    pub fn nps(&self) -> u64 {
        nodes_per_second(self.nodes, self.time)
    }
}

/// How fast so many nodes in so much time are.
pub fn nodes_per_second(nodes: u64, time: Duration) -> u64 {
    (nodes as f64 / time.as_secs_f64().max(1e-6)) as u64
}

/// What a search came to.
#[derive(Clone, Debug)]
pub struct SearchResult {
    /// The move to play; `None` if there is no legal move.
    pub best: Option<Move>,
    /// The answer it expects.
    pub ponder: Option<Move>,
    /// The score, for the side to move.
    pub score: Score,
    /// Depth of the last finished iteration.
    pub depth: u32,
    /// Nodes of all threads.
    pub nodes: u64,
    /// Time taken.
    pub time: Duration,
}

/// Chances of win, draw and loss, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wdl {
    /// Win.
    pub win: u32,
    /// Draw.
    pub draw: u32,
    /// Loss.
    pub loss: u32,
}

impl Wdl {
    /// Chances by a score: the logistic model of the field, `win = 1 / (1 + exp((a - x) / b))`, with the constants
    /// that fit engine games and this engine's centipawns.
    pub fn from_score(score: Score) -> Self {
        const A: f64 = 230.0;
        const B: f64 = 85.0;
        match score {
            Score::Mate(moves) if moves > 0 => Self { win: 1000, draw: 0, loss: 0 },
            Score::Mate(_) => Self { win: 0, draw: 0, loss: 1000 },
            Score::Centipawns(Centipawns(value)) => {
                let chance = |x: f64| (1000.0 / (1.0 + ((A - x) / B).exp())).round() as u32;
                let (win, loss) = (chance(f64::from(value)), chance(f64::from(-value)));
                Self { win, draw: 1000 - win - loss, loss }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_add_up_and_mirror() {
        for value in [-5000, -300, -1, 0, 1, 42, 230, 900, 20_000] {
            let wdl = Wdl::from_score(Score::Centipawns(Centipawns(value)));
            let mirrored = Wdl::from_score(Score::Centipawns(Centipawns(-value)));
            assert_eq!(wdl.win + wdl.draw + wdl.loss, 1000);
            assert_eq!((wdl.win, wdl.loss), (mirrored.loss, mirrored.win));
        }
        assert_eq!(Wdl::from_score(Score::Mate(-3)), Wdl { win: 0, draw: 0, loss: 1000 });
    }
}
