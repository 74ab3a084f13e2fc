//! One game: drawing an opening, playing it out, and the result by the rules or by adjudication.

use crate::adjudication::{Adjudication, Tally};
use crate::error::SelfPlayError;
use crate::opening::{MAX_TRIES, Openings};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tandem_chess::{Color, Move, Position};
use tandem_data::{Outcome, Score};
use tandem_search::Score as SearchScore;
use tandem_util::random::SplitMix;

/// Draws openings until one is balanced by the score that `evaluate` returns; `None` if cancelled.
///
/// # Errors
///
/// Fails after [`MAX_TRIES`] openings in a row that are not balanced.
pub(crate) fn draw_opening(
    openings: &Openings,
    random: &mut SplitMix,
    cancel: &AtomicBool,
    mut evaluate: impl FnMut(&Position) -> SearchScore,
) -> Result<Option<Position>, SelfPlayError> {
    for _ in 0..MAX_TRIES {
        if cancel.load(Relaxed) {
            return Ok(None);
        }
        let Some(position) = openings.draw(random) else { continue };
        // A game must contain at least one position to train on.
        if ended(&position).is_none() && centipawns(evaluate(&position)).abs() <= openings.max_score {
            return Ok(Some(position));
        }
    }
    Err(SelfPlayError::NoOpening(MAX_TRIES))
}

/// Plays a game to its end with the moves that `choose` returns, each with its score; where it returns none,
/// the game is drawn. Returns White's result, or `None` if the game was cancelled.
pub(crate) fn play_out(
    mut position: Position,
    rules: &Adjudication,
    cancel: &AtomicBool,
    mut choose: impl FnMut(&Position) -> Option<(Move, SearchScore)>,
) -> Option<Outcome> {
    let mut tally = Tally::default();
    let mut plies = 0;
    loop {
        if let Some(outcome) = ended(&position) {
            return Some(outcome);
        }
        if cancel.load(Relaxed) {
            return None;
        }
        let Some((mv, score)) = choose(&position) else { return Some(Outcome::Draw) };
        let score = centipawns(score);
        let seen = if position.side_to_move() == Color::White { score } else { -score };
        position.play(mv);
        plies += 1;
        if let Some(outcome) = tally.add(rules, seen, plies) {
            return Some(ended(&position).unwrap_or(outcome));
        }
    }
}

/// White's result if the game is over by mate, stalemate, fifty moves, repetition or insufficient material.
fn ended(position: &Position) -> Option<Outcome> {
    if !position.has_legal_move() {
        let mated = position.in_check();
        let loser = position.side_to_move();
        return Some(if mated { Outcome::Loss.from_view_of(loser) } else { Outcome::Draw });
    }
    let drawn =
        position.is_fifty_moves() || position.repetitions() >= 2 || position.is_insufficient_material();
    drawn.then_some(Outcome::Draw)
}

/// Score for adjudication in centipawns; a mate exceeds every other score.
fn centipawns(score: SearchScore) -> i32 {
    i32::from(score_of(score).centipawns())
}

/// Converts the search's score to that of a data record, clamped to the range that all formats can store.
pub(crate) fn score_of(score: SearchScore) -> Score {
    match score {
        SearchScore::Centipawns(value) => Score::Centipawns(value.0.clamp(-30_000, 30_000) as i16),
        SearchScore::Mate(moves) => Score::Mate(moves.clamp(-1000, 1000) as i16),
    }
}
