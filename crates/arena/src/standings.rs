//! Results of a match so far, and the tables, pairs and tests that are derived from them.

use crate::stats::{Pentanomial, RatedGame, Ratings, Sprt, SprtState, Verdict, Wdl, rate};
use crate::{Outcome, Termination};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tandem_chess::Color;

/// Result of a finished game of a match. The state file stores it as one line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GameResult {
    /// Number of the game in the match, from 0.
    pub index: usize,
    /// Index of the engine with the white pieces.
    pub white: usize,
    /// Index of the engine with the black pieces.
    pub black: usize,
    /// Index of the opening in the book file, from 0.
    pub opening: usize,
    /// Result of the game by the rules, by adjudication or by forfeit.
    pub outcome: Outcome,
    /// Reason for the end of the game, for example checkmate or time loss.
    pub termination: Termination,
    /// Explanation of a forfeit; `None` in a game that ended regularly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// Index of the engine that forfeited (lost by a fault such as a crash or a late move); `None` if neither
    /// did. It is also set if the forfeit counts as a draw, against a bare king.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<usize>,
    /// Number of plies (moves of one side), those of the opening included.
    pub plies: usize,
    /// Wall-clock duration of the game in seconds.
    pub seconds: f64,
    /// Length of the PGN file in bytes after this game; 0 without a PGN file.
    pub pgn_end: u64,
}

impl GameResult {
    /// Points of the engine with this index, which took part, in halves: 2 for a win, 1 for a draw, 0 for a
    /// loss.
    pub fn half_points(&self, engine: usize) -> u8 {
        self.outcome.half_points(if self.white == engine { Color::White } else { Color::Black })
    }
}

/// Results of all games of a match so far, by number and in the order in which the games ended.
#[derive(Clone, Debug, Default)]
pub struct Standings {
    /// Names of the engines, by index.
    pub names: Vec<String>,
    results: BTreeMap<usize, GameResult>,
    order: Vec<usize>,
}

impl Standings {
    /// Creates the empty table of a match before its first game.
    pub fn new(names: Vec<String>) -> Self {
        Self { names, ..Self::default() }
    }

    /// Adds a game, or replaces the one with the same number.
    pub fn add(&mut self, result: GameResult) {
        let index = result.index;
        if self.results.insert(index, result).is_none() {
            self.order.push(index);
        }
    }

    /// True if the game with this number has been played.
    pub fn has(&self, index: usize) -> bool {
        self.results.contains_key(&index)
    }

    /// Number of games played so far.
    pub fn games(&self) -> usize {
        self.results.len()
    }

    /// All games in the order of their numbers.
    pub fn results(&self) -> impl Iterator<Item = &GameResult> {
        self.results.values()
    }

    /// All games in the order in which they ended.
    pub fn in_order(&self) -> impl Iterator<Item = &GameResult> {
        self.order.iter().filter_map(|index| self.results.get(index))
    }

    /// Wins, draws and losses of one engine against another.
    pub fn wdl(&self, engine: usize, opponent: usize) -> Wdl {
        let mut wdl = Wdl::default();
        for game in self.results().filter(|game| is_between(game, engine, opponent)) {
            wdl.add(game.half_points(engine));
        }
        wdl
    }

    /// Wins, draws and losses of one engine against all others.
    pub fn total(&self, engine: usize) -> Wdl {
        let mut wdl = Wdl::default();
        for game in self.results().filter(|game| game.white == engine || game.black == engine) {
            wdl.add(game.half_points(engine));
        }
        wdl
    }

    /// Completed pairs of games (one opening, swapped colours) of one engine against another, counted by the
    /// points that `engine` made in each.
    pub fn pairs(&self, engine: usize, opponent: usize) -> Pentanomial {
        let mut pairs = Pentanomial::default();
        for first in self.results().filter(|game| game.index % 2 == 0 && is_between(game, engine, opponent)) {
            if let Some(second) = self.results.get(&(first.index + 1)) {
                pairs.add(first.half_points(engine), second.half_points(engine));
            }
        }
        pairs
    }

    /// Running totals of one engine against another: after each completed pair of games, in the order in
    /// which games ended, the number of their games so far and the counts of all their pairs so far.
    pub fn pairs_in_order(
        &self,
        engine: usize,
        opponent: usize,
    ) -> impl Iterator<Item = (usize, Pentanomial)> {
        let mut open: BTreeMap<usize, u8> = BTreeMap::new();
        let mut pairs = Pentanomial::default();
        let games = self.in_order().filter(move |game| is_between(game, engine, opponent)).enumerate();
        games.filter_map(move |(n, game)| {
            let points = game.half_points(engine);
            let Some(first) = open.remove(&(game.index / 2)) else {
                open.insert(game.index / 2, points);
                return None;
            };
            pairs.add(first, points);
            Some((n + 1, pairs))
        })
    }

    /// State of a sequential test of `engine` against `opponent` at the moment of its first decision, or
    /// after all their pairs so far if it is undecided. Games that end after the decision do not revise it,
    /// although they count for all other estimates.
    pub fn sprt_state(&self, sprt: &Sprt, engine: usize, opponent: usize) -> SprtState {
        let mut state = sprt.state(&Pentanomial::default());
        for (_, pairs) in self.pairs_in_order(engine, opponent) {
            state = sprt.state(&pairs);
            if state.verdict != Verdict::Undecided {
                break;
            }
        }
        state
    }

    /// Rating list of all engines, fitted to all games so far. For the errors, the games of one pair count as
    /// one observation, because they share an opening.
    pub fn ratings(&self) -> Ratings {
        let mut units: BTreeMap<usize, Vec<RatedGame>> = BTreeMap::new();
        for game in self.results() {
            let half_points = game.outcome.white_half_points();
            let rated = RatedGame { white: game.white, black: game.black, half_points };
            units.entry(game.index / 2).or_default().push(rated);
        }
        rate(self.names.len(), &units.into_values().collect::<Vec<_>>())
    }

    /// Number of games by the reason for their end. Every reason is included, also with zero games.
    pub fn terminations(&self) -> BTreeMap<Termination, u64> {
        let mut counts: BTreeMap<_, _> = Termination::ALL.into_iter().map(|kind| (kind, 0)).collect();
        for game in self.results() {
            *counts.entry(game.termination).or_default() += 1;
        }
        counts
    }

    /// Number of games that the engine with this index forfeited, by reason; reasons with zero games are
    /// included.
    pub fn forfeits(&self, engine: usize) -> BTreeMap<Termination, u64> {
        let kinds = Termination::ALL.into_iter().filter(|kind| kind.is_forfeit());
        let mut counts: BTreeMap<_, _> = kinds.map(|kind| (kind, 0)).collect();
        for game in self.results().filter(|game| game.culprit == Some(engine)) {
            *counts.entry(game.termination).or_default() += 1;
        }
        counts
    }
}

pub(crate) fn is_between(game: &GameResult, a: usize, b: usize) -> bool {
    (game.white, game.black) == (a, b) || (game.white, game.black) == (b, a)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn result(index: usize, white: usize, black: usize, outcome: Outcome) -> GameResult {
        GameResult {
            index,
            white,
            black,
            opening: index / 2,
            outcome,
            termination: Termination::Checkmate,
            details: None,
            culprit: None,
            plies: 60,
            seconds: 1.0,
            pgn_end: 0,
        }
    }

    #[test]
    fn a_game_that_is_added_again_does_not_complete_its_own_pair() {
        let mut standings = Standings::new(vec!["a".into(), "b".into()]);
        standings.add(result(0, 0, 1, Outcome::WhiteWins));
        standings.add(result(0, 0, 1, Outcome::Draw));
        assert_eq!((standings.games(), standings.in_order().count()), (1, 1));
    }

    #[test]
    fn a_decided_test_stays_decided() {
        let sprt = Sprt::new(0.0, 50.0, 0.05, 0.05, crate::stats::SprtModel::Logistic).unwrap();
        let mut standings = Standings::new(vec!["a".into(), "b".into()]);
        let play = |standings: &mut Standings, pair: usize, won: bool| {
            let outcomes = [Outcome::WhiteWins, Outcome::BlackWins];
            let [first, second] = if won { outcomes } else { [outcomes[1], outcomes[0]] };
            standings.add(result(2 * pair, 0, 1, first));
            standings.add(result(2 * pair + 1, 1, 0, second));
        };
        assert_eq!(standings.sprt_state(&sprt, 0, 1).verdict, Verdict::Undecided);
        let mut pair = 0;
        while standings.sprt_state(&sprt, 0, 1).verdict == Verdict::Undecided {
            play(&mut standings, pair, pair % 10 != 9);
            pair += 1;
            assert!(pair < 1000);
        }
        let decided = standings.sprt_state(&sprt, 0, 1);
        assert_eq!(decided.verdict, Verdict::Accepted);
        // The games that were still in progress go badly: the ratio falls back, but the decision stays.
        (pair..pair + 5).for_each(|pair| play(&mut standings, pair, false));
        assert_eq!(sprt.state(&standings.pairs(0, 1)).verdict, Verdict::Undecided);
        assert_eq!(standings.sprt_state(&sprt, 0, 1), decided);
        let (games, pairs) = standings.pairs_in_order(0, 1).last().unwrap();
        assert_eq!((games, pairs), (standings.games(), standings.pairs(0, 1)));
    }

    #[test]
    fn only_whole_pairs_count_as_pairs() {
        let mut standings = Standings::new(vec!["a".into(), "b".into()]);
        standings.add(result(3, 1, 0, Outcome::Draw));
        standings.add(result(0, 0, 1, Outcome::WhiteWins));
        standings.add(result(1, 1, 0, Outcome::Draw));
        assert_eq!(standings.wdl(0, 1), Wdl { wins: 1, draws: 2, losses: 0 });
        assert_eq!(standings.pairs(0, 1), Pentanomial([0, 0, 0, 1, 0]));
        assert_eq!(standings.pairs(1, 0), Pentanomial([0, 1, 0, 0, 0]));
        assert_eq!(standings.terminations()[&Termination::Hang], 0);
    }
}
