//! Adjudication: ends games early when the evaluations of both players make the result clear, which saves
//! most of the time of a match. The rules are those of fastchess and cutechess: resignation, draw, and a
//! limit of moves.

use crate::{Outcome, Termination, UciScore};
use serde::{Deserialize, Serialize};
use tandem_chess::Color;
use thiserror::Error;

/// Error for the text of a `--resign` or `--draw` rule that cannot be parsed. Its message quotes the text and
/// gives an example.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{rule} '{text}' should look like {example}")]
pub struct RuleError {
    rule: &'static str,
    text: String,
    example: &'static str,
}

/// Rule by which a lost game is adjudicated: a side whose own evaluation is at or below `-score` for `moves`
/// consecutive moves loses, if the winner's evaluation agrees (see `two_sided`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResignRule {
    /// Number of consecutive moves of each side that must confirm the evaluation, at least 1; 3 by default.
    pub moves: u32,
    /// Size of the evaluation in centipawns from which a game counts as decided, for example 600; positive,
    /// at most 1,000,000.
    pub score: i32,
    /// True if the winner's own evaluation must also be at least `score` for `moves` moves, which protects
    /// against one engine's mistake; the default.
    pub two_sided: bool,
}

/// Rule by which a level game is adjudicated as drawn: both sides report an evaluation of at most `score`
/// either way for `moves` moves each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrawRule {
    /// Earliest full-move number at which the game may be adjudicated; 34 by default, 0 for any.
    pub number: u32,
    /// Number of consecutive moves of each side, without a capture or a pawn move; 8 by default.
    pub moves: u32,
    /// Largest absolute evaluation, in centipawns, that counts as level; 20 by default.
    pub score: i32,
}

impl ResignRule {
    /// Parses `moves=3,score=600,twosided=on`, which are the defaults; a missing item takes its default.
    ///
    /// # Errors
    ///
    /// Fails on an unknown key, or on a value outside its range.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let invalid =
            || RuleError { rule: "--resign", text: text.into(), example: "moves=3,score=600,twosided=on" };
        let mut rule = Self { moves: 3, score: 600, two_sided: true };
        for (key, value) in items(text) {
            match key {
                "moves" => rule.moves = positive(value).ok_or_else(invalid)?,
                "score" => rule.score = positive(value).ok_or_else(invalid)? as i32,
                "twosided" => rule.two_sided = flag(value).ok_or_else(invalid)?,
                _ => return Err(invalid()),
            }
        }
        Ok(rule)
    }
}

impl DrawRule {
    /// Parses `number=34,moves=8,score=20`, which are the defaults; a missing item takes its default.
    ///
    /// # Errors
    ///
    /// Fails on an unknown key, or on a value outside its range.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let invalid =
            || RuleError { rule: "--draw", text: text.into(), example: "number=34,moves=8,score=20" };
        let mut rule = Self { number: 34, moves: 8, score: 20 };
        for (key, value) in items(text) {
            let value = value.parse::<u32>().ok().filter(|&value| value <= 1_000_000).ok_or_else(invalid)?;
            match key {
                "number" => rule.number = value,
                "moves" if value > 0 => rule.moves = value,
                "score" => rule.score = value as i32,
                _ => return Err(invalid()),
            }
        }
        Ok(rule)
    }
}

fn items(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| item.split_once('=').unwrap_or((item, "")))
}

fn positive(text: &str) -> Option<u32> {
    text.parse().ok().filter(|value| (1..=1_000_000).contains(value))
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "on" | "true" => Some(true),
        "off" | "false" => Some(false),
        _ => None,
    }
}

/// Conditions under which the arena ends a game before the rules of chess do. Each is off (`None`) by
/// default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjudication {
    /// Rule for games that one side has clearly won; `None` to play them out.
    pub resign: Option<ResignRule>,
    /// Rule for games in which neither side makes progress; `None` to play them out.
    pub draw: Option<DrawRule>,
    /// Number of full moves (one of each side) after which a game is drawn, for example 200; `None` for no
    /// limit. Moves of the opening do not count.
    pub max_moves: Option<u32>,
}

/// Applies the rules to one game, move by move.
#[derive(Clone, Debug)]
pub struct Adjudicator {
    rules: Adjudication,
    /// Consecutive moves, by color, with an evaluation at or below `-score`, and at or above `score`.
    losing: [u32; 2],
    winning: [u32; 2],
    /// Consecutive plies of both sides with a level evaluation and no irreversible move.
    level: u32,
    /// Plies played by the players, without those of the opening.
    plies: u32,
}

impl Adjudicator {
    /// Creates the adjudicator of a new game, with all counters at zero.
    pub fn new(rules: Adjudication) -> Self {
        Self { rules, losing: [0; 2], winning: [0; 2], level: 0, plies: 0 }
    }

    /// Counts one move by `side`, and returns the result and its reason if a rule now ends the game, else
    /// `None`. `score` is the mover's own evaluation; a move without one ends the mover's runs of winning,
    /// losing and level evaluations. `irreversible` is true for captures and pawn moves. `move_number` is the
    /// full-move number of the position in which the move was played.
    pub fn after_move(
        &mut self,
        side: Color,
        score: Option<UciScore>,
        irreversible: bool,
        move_number: u32,
    ) -> Option<(Outcome, Termination)> {
        self.plies += 1;
        if let Some(rule) = self.rules.resign {
            let (us, them) = (side as usize, !side as usize);
            let value = score.map_or(0, UciScore::centipawns);
            self.losing[us] = if value <= -rule.score { self.losing[us] + 1 } else { 0 };
            self.winning[us] = if value >= rule.score { self.winning[us] + 1 } else { 0 };
            for (loser, winner) in [(us, them), (them, us)] {
                let agreed = !rule.two_sided || self.winning[winner] >= rule.moves;
                if self.losing[loser] >= rule.moves && agreed {
                    let winner = if winner == Color::White as usize { Color::White } else { Color::Black };
                    return Some((Outcome::won_by(winner), Termination::Resignation));
                }
            }
        }
        if let Some(rule) = self.rules.draw {
            let level = score.is_some_and(|score| score.centipawns().abs() <= rule.score);
            self.level = if level && !irreversible { self.level + 1 } else { 0 };
            if self.level >= 2 * rule.moves && move_number >= rule.number {
                return Some((Outcome::Draw, Termination::DrawAgreed));
            }
        }
        if self.rules.max_moves.is_some_and(|limit| self.plies >= limit.saturating_mul(2)) {
            return Some((Outcome::Draw, Termination::MoveLimit));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(rules: Adjudication, scores: &[i32]) -> Option<(usize, Outcome, Termination)> {
        let mut adjudicator = Adjudicator::new(rules);
        scores.iter().enumerate().find_map(|(ply, &score)| {
            let side = if ply % 2 == 0 { Color::White } else { Color::Black };
            let end = adjudicator.after_move(side, Some(UciScore::Cp(score)), false, ply as u32 / 2 + 1);
            end.map(|(outcome, reason)| (ply, outcome, reason))
        })
    }

    #[test]
    fn a_lost_side_resigns_when_the_winner_agrees() {
        let rules =
            Adjudication { resign: Some(ResignRule::parse("moves=2").unwrap()), ..Default::default() };
        let end = play(rules, &[-700, 650, -700, 500, -700, 650, -700, 650]);
        assert_eq!(end, Some((7, Outcome::BlackWins, Termination::Resignation)));
        let alone = ResignRule::parse("moves=2,score=600,twosided=off").unwrap();
        let rules = Adjudication { resign: Some(alone), ..Default::default() };
        assert_eq!(play(rules, &[-700, 0, -700]), Some((2, Outcome::BlackWins, Termination::Resignation)));
        assert_eq!(play(rules, &[-700, 0, -500, 0, -700]), None);
    }

    #[test]
    fn a_level_game_is_drawn_after_its_moves() {
        let rules =
            Adjudication { draw: Some(DrawRule::parse("number=3,moves=2").unwrap()), ..Default::default() };
        assert_eq!(play(rules, &[0; 20]), Some((4, Outcome::Draw, Termination::DrawAgreed)));
        assert_eq!(
            play(rules, &[0, 0, 0, 30, 0, 0, 0, 0]),
            Some((7, Outcome::Draw, Termination::DrawAgreed))
        );
        let mut adjudicator = Adjudicator::new(rules);
        for ply in 0..40 {
            let irreversible = ply % 4 == 3;
            assert!(adjudicator.after_move(Color::White, Some(UciScore::Cp(0)), irreversible, 9).is_none());
        }
        let mut silent = Adjudicator::new(rules);
        assert!((0..40).all(|_| silent.after_move(Color::White, None, false, 9).is_none()));
    }

    #[test]
    fn a_long_game_is_drawn() {
        let rules = Adjudication { max_moves: Some(3), ..Default::default() };
        assert_eq!(play(rules, &[100; 20]), Some((5, Outcome::Draw, Termination::MoveLimit)));
        let endless = Adjudication { max_moves: Some(u32::MAX), ..Default::default() };
        assert_eq!(play(endless, &[100; 20]), None);
    }

    #[test]
    fn invalid_rules_are_refused() {
        for text in ["moves=0", "score=-5", "moves", "twosided=maybe", "plies=3"] {
            assert!(ResignRule::parse(text).is_err(), "{text}");
        }
        for text in ["moves=0", "score=-5", "number=x", "plies=3"] {
            assert!(DrawRule::parse(text).is_err(), "{text}");
        }
    }
}
