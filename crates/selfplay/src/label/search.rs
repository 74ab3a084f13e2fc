//! Labels by our own search.

use super::Labeller;
use crate::error::SelfPlayError;
use crate::game::score_of;
use crate::leaves::{Leaf, SharedLeaves};
use crate::play::HARD;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tandem_chess::{Move, Position};
use tandem_data::*;
use tandem_search::{EvaluatorFactory, Limits, Score as SearchScore, Searcher};

/// What labels are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// A score for each position, and the best move if it has none. Results and moves that are there stay.
    Positions,
    /// A record for each legal move, with the chance to win after it.
    AllMoves,
    /// So many records instead of each position, with the best move and its score: positions that the search of it
    /// has evaluated. Half of the nodes go into that search. The result is that of the game the position is from.
    Leaves(usize),
    /// Such positions as of [`Self::Leaves`], with what they were evaluated at for a score and no move, for a teacher that
    /// judges by itself. All nodes go into the search that finds them.
    Unsearched(usize),
}

/// How labels are made.
pub struct LabelSettings {
    /// Makes the evaluators.
    pub factory: Arc<EvaluatorFactory>,
    /// What they are, in a few words.
    pub judge: String,
    /// Nodes after which the search of a position, or of a move, begins no new iteration.
    pub nodes: u64,
    /// MiB of hash table for each thread.
    pub hash: usize,
    /// Threads.
    pub threads: usize,
    /// What for.
    pub labels: Labels,
    /// What to do about a broken record.
    pub on_error: OnError,
}

/// A search that labels.
pub(super) struct SearchLabeller {
    searcher: Searcher,
    leaves: Option<SharedLeaves>,
    labels: Labels,
    nodes: u64,
}

impl SearchLabeller {
    /// With a hash table of its own, if there is room for it.
    pub(super) fn new(settings: &LabelSettings) -> Result<Self, SelfPlayError> {
        let (mut factory, mut leaves) = (Arc::clone(&settings.factory), None);
        if let Labels::Leaves(count) | Labels::Unsearched(count) = settings.labels {
            factory = leaves.insert(SharedLeaves::new(count)).listen(factory);
        }
        let searcher = Searcher::new(factory, settings.hash)?;
        Ok(Self { searcher, leaves, labels: settings.labels, nodes: settings.nodes })
    }
}

impl Labeller for SearchLabeller {
    fn label(
        &mut self,
        records: &[Record],
        cancel: &AtomicBool,
    ) -> Result<Option<Vec<Record>>, SelfPlayError> {
        let Self { searcher, leaves, labels, nodes } = self;
        // It starts afresh with each block, so that labels do not depend on how many threads there are.
        searcher.clear(&AtomicBool::new(false));
        let mut labelled = Vec::with_capacity(records.len());
        for record in records {
            if cancel.load(Relaxed) {
                return Ok(None);
            }
            // What is no position stays as it was; `validate` finds it.
            let Ok(board) = record.position.board() else {
                labelled.push(*record);
                continue;
            };
            let position = Position::from(board);
            match *labels {
                Labels::Positions => {
                    let (mv, score) = judged(searcher, &position, *nodes).unzip();
                    labelled.push(Record { mv: record.mv.or(mv), score, ..*record });
                }
                Labels::AllMoves => all_moves(searcher, &position, record, *nodes, &mut labelled),
                Labels::Leaves(count) | Labels::Unsearched(count) => {
                    let Some(leaves) = leaves else { continue };
                    leaves.clear(position.key());
                    judged(searcher, &position, nodes.saturating_mul(count as u64));
                    labelled.extend(leaves.chosen().iter().filter_map(|leaf| match labels {
                        Labels::Unsearched(_) => Some(evaluated_leaf(leaf, record)),
                        _ => searched_leaf(searcher, leaf, record, *nodes),
                    }));
                }
            }
        }
        Ok(Some(labelled))
    }
}

/// The best move, and its score for the side to move. None where the game is over.
fn judged(searcher: &mut Searcher, position: &Position, nodes: u64) -> Option<(Move, Score)> {
    searcher.signals().arm(false);
    // An iteration that is broken off leaves a bound for a score: labels would lean to one side.
    let limits =
        Limits { soft_nodes: Some(nodes), nodes: Some(HARD.saturating_mul(nodes)), ..Limits::default() };
    let result = searcher.search(position, &limits, &mut |_| ());
    result.best.map(|mv| (mv, score_of(result.score)))
}

/// The record of a position that the search of another one has evaluated, with the best move and its score.
fn searched_leaf(searcher: &mut Searcher, leaf: &Leaf, root: &Record, nodes: u64) -> Option<Record> {
    let position = Position::from(leaf.position.board().ok()?);
    let (mv, score) = judged(searcher, &position, nodes)?;
    Some(Record { mv: Some(mv), score: Some(score), ..evaluated_leaf(leaf, root) })
}

/// The same with what it was evaluated at.
fn evaluated_leaf(leaf: &Leaf, root: &Record) -> Record {
    let turned = leaf.position.side_to_move() != root.position.side_to_move();
    let result = root.result.map(|result| if turned { result.flipped() } else { result });
    let score = score_of(SearchScore::Centipawns(leaf.evaluation));
    Record { score: Some(score), result, ..Record::new(leaf.position) }
}

fn all_moves(
    searcher: &mut Searcher,
    position: &Position,
    record: &Record,
    nodes: u64,
    out: &mut Vec<Record>,
) {
    let mut position = position.clone();
    for mv in position.legal_moves() {
        position.play(mv);
        let chance = match judged(searcher, &position, nodes) {
            Some((_, score)) => 1.0 - score.win_chance(),
            // The game is over: won, if the other side is mated.
            None if position.in_check() => 1.0,
            None => 0.5,
        };
        position.undo();
        out.push(Record { mv: Some(mv), score: Some(Score::WinChance(chance)), ..*record });
    }
}
