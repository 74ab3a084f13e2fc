//! The vote of the search threads on the move to play.

use crate::value::{Value, is_win};
use std::collections::HashMap;
use tandem_chess::PackedMove;

/// Result of a thread, for the vote on the move to play.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadVote {
    pub(crate) mv: PackedMove,
    pub(crate) value: Value,
    /// Depth of the last finished iteration, in plies.
    pub(crate) depth: i32,
}

/// Index of the thread whose move is played. Each thread votes for its move with a weight that grows with
/// depth and value; a thread that finished no iteration has no vote. A proven win is always played.
pub(crate) fn best_thread(candidates: &[ThreadVote]) -> usize {
    let counted = || candidates.iter().filter(|vote| vote.depth > 0);
    let least = counted().map(|vote| vote.value).min().unwrap_or(0);
    let weight = |vote: &ThreadVote| i64::from(vote.value - least + 14) * i64::from(vote.depth);
    let mut votes: HashMap<u16, i64> = HashMap::new();
    for vote in counted() {
        *votes.entry(vote.mv.bits()).or_default() += weight(vote);
    }
    let votes_for = |vote: &ThreadVote| votes.get(&vote.mv.bits()).copied().unwrap_or(0);
    let mut best = 0;
    for (index, vote) in candidates.iter().enumerate().skip(1) {
        let current = &candidates[best];
        let better = if is_win(current.value) {
            vote.value > current.value
        } else {
            is_win(vote.value) || (votes_for(vote), weight(vote)) > (votes_for(current), weight(current))
        };
        if better && vote.depth > 0 {
            best = index;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::MATE;
    use tandem_chess::{Move, Square};

    /// Target square of the move that threads with these moves, values and depths play.
    fn played(candidates: &[(Square, Value, i32)]) -> Square {
        let vote = |&(to, value, depth): &(Square, Value, i32)| {
            let mv = Move { from: Square::E1, to, promotion: None };
            ThreadVote { mv: PackedMove::new(Some(mv)), value, depth }
        };
        candidates[best_thread(&candidates.iter().map(vote).collect::<Vec<_>>())].0
    }

    #[test]
    fn threads_vote_by_depth_value_and_number() {
        let (a, b) = (Square::A1, Square::B1);
        assert_eq!(played(&[(a, 10, 14), (b, 10, 14)]), a, "the first thread wins a tie");
        assert_eq!(played(&[(a, 10, 14), (b, 30, 14)]), b);
        assert_eq!(played(&[(a, 10, 14), (b, 10, 18)]), b);
        assert_eq!(played(&[(a, 20, 14), (b, 18, 14), (b, 18, 14)]), b, "two against one");
        // A move whose score fell counts with the lower score.
        assert_eq!(played(&[(a, -200, 14), (b, 50, 14)]), b);
        assert_eq!(
            played(&[(a, 10, 1), (b, 500, 0)]),
            a,
            "a thread without a finished iteration has no vote"
        );
        assert_eq!(played(&[(a, 300, 20), (a, 290, 20), (b, MATE - 5, 12)]), b, "a proven win is played");
        assert_eq!(played(&[(a, MATE - 9, 12), (b, MATE - 5, 12), (b, 0, 30)]), b);
    }
}
