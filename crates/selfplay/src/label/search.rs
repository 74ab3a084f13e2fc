//! Labels by our own search at fixed nodes.

use super::Labeller;
use crate::error::SelfPlayError;
use crate::game::score_of;
use crate::leaves::{Leaf, SharedReservoir};
use crate::play::HARD_LIMIT_FACTOR;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tandem_chess::{Move, Position};
use tandem_data::*;
use tandem_search::{EvaluatorFactory, Limits, Score as SearchScore, Searcher};

/// Kind of labels that a search gives to recorded positions. The names of the variants are stored in
/// journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelKind {
    /// One record for each position: it gets the search's score, and the search's best move if it has no
    /// move. Results and existing moves are kept.
    Positions,
    /// One record for each legal move of each position, with that move and the mover's win probability after
    /// it.
    AllMoves,
    /// This number of records instead of each position: positions at random from those that its search
    /// evaluated statically (leaves), each with its own best move and score from a search. Half of the nodes
    /// go into finding them. The result is that of the game the position comes from.
    Leaves(usize),
    /// Leaves as in [`Self::Leaves`], with their static evaluation as the score and no move, for another
    /// evaluator that scores them later. All nodes go into the search that finds them.
    Unsearched(usize),
}

/// Settings of a run that labels positions with the scores of a search.
pub struct LabelSettings {
    /// Function that creates the search's static evaluators, one for each thread.
    pub factory: Arc<EvaluatorFactory>,
    /// Text that identifies the evaluator, different for another network, for example with a hash of its
    /// file; a run is only resumed with the same text.
    pub evaluator: String,
    /// Soft node limit of the search of each position or move: no new iteration begins after this many nodes.
    /// One that has begun may go on.
    pub nodes: u64,
    /// Size of each thread's hash table, in MiB.
    pub hash: usize,
    /// Number of threads; each labels whole blocks of records.
    pub threads: usize,
    /// Positions that are scored: those of the input, all their moves, or leaves of their searches.
    pub labels: LabelKind,
    /// Reaction to an input record that cannot be decoded: stop or skip it.
    pub on_error: OnError,
}

/// A search with its hash table, used as a [`Labeller`].
pub(super) struct SearchLabeller {
    searcher: Searcher,
    leaves: Option<SharedReservoir>,
    labels: LabelKind,
    nodes: u64,
}

impl SearchLabeller {
    /// Creates the search with a hash table of its own.
    ///
    /// # Errors
    ///
    /// Fails if the hash table does not fit into memory.
    pub(super) fn new(settings: &LabelSettings) -> Result<Self, SelfPlayError> {
        let (mut factory, mut leaves) = (Arc::clone(&settings.factory), None);
        if let LabelKind::Leaves(count) | LabelKind::Unsearched(count) = settings.labels {
            factory = leaves.insert(SharedReservoir::new(count)).sampling(factory);
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
        // Each block starts with an empty hash table, so that labels do not depend on the number of threads.
        searcher.clear(&AtomicBool::new(false));
        let mut labelled = Vec::with_capacity(records.len());
        for record in records {
            if cancel.load(Relaxed) {
                return Ok(None);
            }
            // An illegal position is kept unchanged; `validate` reports it.
            let Ok(board) = record.position.board() else {
                labelled.push(*record);
                continue;
            };
            let position = Position::from(board);
            match *labels {
                LabelKind::Positions => {
                    let (mv, score) = search_position(searcher, &position, *nodes).unzip();
                    labelled.push(Record { mv: record.mv.or(mv), score, ..*record });
                }
                LabelKind::AllMoves => all_moves(searcher, &position, record, *nodes, &mut labelled),
                LabelKind::Leaves(count) | LabelKind::Unsearched(count) => {
                    let Some(leaves) = leaves else { continue };
                    leaves.clear(position.key());
                    search_position(searcher, &position, nodes.saturating_mul(count as u64));
                    labelled.extend(leaves.sample().iter().filter_map(|leaf| match labels {
                        LabelKind::Unsearched(_) => Some(evaluated_leaf(leaf, record)),
                        _ => searched_leaf(searcher, leaf, record, *nodes),
                    }));
                }
            }
        }
        Ok(Some(labelled))
    }
}

/// Best move and its score for the side to move; `None` if the game is over.
fn search_position(searcher: &mut Searcher, position: &Position, nodes: u64) -> Option<(Move, Score)> {
    searcher.signals().arm(false);
    // Only completed iterations count, because an interrupted one leaves a bound for a score, which would
    // bias the labels.
    let limits = Limits {
        soft_nodes: Some(nodes),
        nodes: Some(HARD_LIMIT_FACTOR.saturating_mul(nodes)),
        ..Limits::default()
    };
    let result = searcher.search(position, &limits, &mut |_| ());
    result.best.map(|mv| (mv, score_of(result.score)))
}

/// Record of a leaf with the best move and score of a search of its own.
fn searched_leaf(searcher: &mut Searcher, leaf: &Leaf, root: &Record, nodes: u64) -> Option<Record> {
    let position = Position::from(leaf.position.board().ok()?);
    let (mv, score) = search_position(searcher, &position, nodes)?;
    Some(Record { mv: Some(mv), score: Some(score), ..evaluated_leaf(leaf, root) })
}

/// Record of a leaf with its static evaluation as the score.
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
        let win_probability = match search_position(searcher, &position, nodes) {
            Some((_, score)) => 1.0 - score.win_probability(),
            // The game is over: won if the opponent is mated.
            None if position.in_check() => 1.0,
            None => 0.5,
        };
        position.undo();
        out.push(Record { mv: Some(mv), score: Some(Score::WinProbability(win_probability)), ..*record });
    }
}
