//! Ending games early whose result is clear.

use crate::{Outcome, Score, Termination};
use serde::{Deserialize, Serialize};
use tandem_chess::Color;
use thiserror::Error;

/// A rule that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{rule} '{text}' should look like {example}")]
pub struct RuleError {
    rule: &'static str,
    text: String,
    example: &'static str,
}

/// A side that thinks it lost for some moves, with a winner who agrees, has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResignRule {
    /// Moves in a row of each side that is asked.
    pub moves: u32,
    /// The evaluation, in centipawns.
    pub score: i32,
    /// Whether the winner must agree.
    pub two_sided: bool,
}

/// Two sides that see no advantage for some moves draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrawRule {
    /// The first move at which this may happen.
    pub number: u32,
    /// Moves in a row of each side, without capture or pawn move.
    pub moves: u32,
    /// The evaluation, in centipawns, that counts as none.
    pub score: i32,
}

impl ResignRule {
    /// Reads `moves=3,score=600,twosided=on`; what is missing takes its default.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let wrong =
            || RuleError { rule: "--resign", text: text.into(), example: "moves=3,score=600,twosided=on" };
        let mut rule = Self { moves: 3, score: 600, two_sided: true };
        for (key, value) in items(text) {
            match key {
                "moves" => rule.moves = positive(value).ok_or_else(wrong)?,
                "score" => rule.score = positive(value).ok_or_else(wrong)? as i32,
                "twosided" => rule.two_sided = flag(value).ok_or_else(wrong)?,
                _ => return Err(wrong()),
            }
        }
        Ok(rule)
    }
}

impl DrawRule {
    /// Reads `number=34,moves=8,score=20`; what is missing takes its default.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError { rule: "--draw", text: text.into(), example: "number=34,moves=8,score=20" };
        let mut rule = Self { number: 34, moves: 8, score: 20 };
        for (key, value) in items(text) {
            let value = value.parse::<u32>().ok().filter(|&value| value <= 1_000_000).ok_or_else(wrong)?;
            match key {
                "number" => rule.number = value,
                "moves" if value > 0 => rule.moves = value,
                "score" => rule.score = value as i32,
                _ => return Err(wrong()),
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

/// When a game ends before the rules of chess end it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjudication {
    /// Lost games.
    pub resign: Option<ResignRule>,
    /// Drawn games.
    pub draw: Option<DrawRule>,
    /// A game in which the players have made this many full moves is drawn. The book's moves do not count.
    pub max_moves: Option<u32>,
}

/// Follows the evaluations of one game.
#[derive(Clone, Debug)]
pub struct Adjudicator {
    rules: Adjudication,
    /// Moves in a row that a side thought itself lost, and won.
    losing: [u32; 2],
    winning: [u32; 2],
    /// Plies in a row without advantage.
    level: u32,
    /// Plies that the players have made.
    plies: u32,
}

impl Adjudicator {
    /// At the start of a game.
    pub fn new(rules: Adjudication) -> Self {
        Self { rules, losing: [0; 2], winning: [0; 2], level: 0, plies: 0 }
    }

    /// Books a move: who played it, what the player thought, and whether it was irreversible (a capture or a pawn
    /// move). `move_number` is the full move number of the position it was played in. A move without evaluation
    /// breaks every row: silence is no consent.
    pub fn after_move(
        &mut self,
        side: Color,
        score: Option<Score>,
        irreversible: bool,
        move_number: u32,
    ) -> Option<(Outcome, Termination)> {
        self.plies += 1;
        if let Some(rule) = self.rules.resign {
            let (us, them) = (side as usize, !side as usize);
            let value = score.map_or(0, Score::centipawns);
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
        if self.rules.max_moves.is_some_and(|most| self.plies >= most.saturating_mul(2)) {
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
            let end = adjudicator.after_move(side, Some(Score::Cp(score)), false, ply as u32 / 2 + 1);
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
            assert!(adjudicator.after_move(Color::White, Some(Score::Cp(0)), irreversible, 9).is_none());
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
    fn rules_with_mistakes_are_refused() {
        for text in ["moves=0", "score=-5", "moves", "twosided=maybe", "plies=3"] {
            assert!(ResignRule::parse(text).is_err(), "{text}");
        }
        for text in ["moves=0", "score=-5", "number=x", "plies=3"] {
            assert!(DrawRule::parse(text).is_err(), "{text}");
        }
    }
}
