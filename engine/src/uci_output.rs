//! Lines of UCI for the results of a search or of a network.

use crate::options::Options;
use crate::output::send;
use tandem_chess::{Move, Position, uci};
use tandem_search::{Info, ScoreBound, SearchResult, Wdl};
#[cfg(feature = "strategist")]
use tandem_search::{Score, nodes_per_second};

/// Formats results for one position, with castling and WDL as the options ask.
#[derive(Clone)]
pub(crate) struct UciOutput {
    position: Position,
    chess960: bool,
    show_wdl: bool,
}

impl UciOutput {
    /// Creates the formatter for a search of this position.
    pub(crate) fn new(position: Position, options: &Options) -> Self {
        Self { position, chess960: options.chess960, show_wdl: options.show_wdl }
    }

    /// Sends a line of a search as `info`.
    pub(crate) fn info(&self, info: &Info) {
        let Info { depth, sel_depth, multipv, score, nodes, hashfull, tb_hits, .. } = info;
        let bound = match info.bound {
            ScoreBound::Exact => "",
            ScoreBound::Lower => " lowerbound",
            ScoreBound::Upper => " upperbound",
        };
        let wdl = self.wdl(Some(Wdl::from_score(*score)));
        let line = self.line(&info.pv);
        let (nps, time) = (info.nps(), info.time.as_millis());
        send(format_args!(
            "info depth {depth} seldepth {sel_depth} multipv {multipv} score {score}{bound}{wdl} nodes {nodes} \
             nps {nps} hashfull {hashfull} tbhits {tb_hits} time {time} pv{line}"
        ));
    }

    /// Sends a move ranked without search as `info`, with its score if the network gives one.
    #[cfg(feature = "strategist")]
    pub(crate) fn ranked_move(
        &self,
        rank: usize,
        mv: Move,
        score: Option<(Score, Option<Wdl>)>,
        cost: &Cost,
    ) {
        let Cost { nodes, time } = cost;
        let score = score.map_or(String::new(), |(score, wdl)| format!(" score {score}{}", self.wdl(wdl)));
        let nps = nodes_per_second(*nodes, *time);
        let (time, line) = (time.as_millis(), self.line(&[mv]));
        send(format_args!(
            "info depth 1 seldepth 1 multipv {rank}{score} nodes {nodes} nps {nps} time {time} pv{line}"
        ));
    }

    /// Moves with their probabilities, from 0 to 1, as a list in percent.
    #[cfg(feature = "strategist")]
    pub(crate) fn policy(&self, moves: impl Iterator<Item = (Move, f32)>) -> String {
        let board = self.position.board();
        let text = |(mv, share): (Move, f32)| {
            format!("{} {:.1} %", uci::format(board, mv, self.chess960), 100.0 * share)
        };
        format!("policy: {}", moves.map(text).collect::<Vec<_>>().join(", "))
    }

    /// The line `bestmove`, with the move to ponder on if it is legal. Without a legal move, a line with the score comes
    /// before it.
    pub(crate) fn best_move(&self, result: &SearchResult) -> String {
        let Some(best) = result.best else {
            return format!("info depth 0 score {}\nbestmove (none)", result.score);
        };
        let board = self.position.board();
        let text = uci::format(board, best, self.chess960);
        let mut after = self.position.clone();
        after.play(best);
        match result.ponder.filter(|&mv| after.board().is_legal(mv)) {
            Some(ponder) => {
                let ponder = uci::format(after.board(), ponder, self.chess960);
                format!("bestmove {text} ponder {ponder}")
            }
            None => format!("bestmove {text}"),
        }
    }

    fn wdl(&self, wdl: Option<Wdl>) -> String {
        match wdl {
            Some(Wdl { win, draw, loss }) if self.show_wdl => format!(" wdl {win} {draw} {loss}"),
            _ => String::new(),
        }
    }

    /// The moves of a line, each after a space; cut off before a move that is not legal.
    fn line(&self, moves: &[Move]) -> String {
        let mut position = self.position.clone();
        let mut line = String::new();
        for &mv in moves {
            if !position.board().is_legal(mv) {
                break;
            }
            line.push(' ');
            line.push_str(&uci::format(position.board(), mv, self.chess960));
            position.play(mv);
        }
        line
    }
}

/// Cost of ranking moves without search: positions evaluated and time.
#[cfg(feature = "strategist")]
pub(crate) struct Cost {
    pub(crate) nodes: u64,
    pub(crate) time: std::time::Duration,
}
