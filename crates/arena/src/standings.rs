//! The results of a match so far.

use crate::stats::{Pentanomial, RatedGame, Ratings, Sprt, SprtState, Verdict, Wdl, rate};
use crate::{Outcome, Termination};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tandem_chess::Color;

/// A finished game, as the state file and the tables keep it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GameResult {
    /// Its number in the match, from 0.
    pub index: usize,
    /// Engine with the white pieces.
    pub white: usize,
    /// Engine with the black pieces.
    pub black: usize,
    /// The opening's number in the book, from 0.
    pub opening: usize,
    /// The result.
    pub outcome: Outcome,
    /// What ended it.
    pub termination: Termination,
    /// Details of a forfeit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// The engine that forfeited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<usize>,
    /// Half moves, those of the opening included.
    pub plies: usize,
    /// Seconds it took.
    pub seconds: f64,
    /// Length of the PGN file after this game.
    pub pgn_end: u64,
}

impl GameResult {
    /// Half points of an engine that took part.
    pub fn half_points(&self, engine: usize) -> u8 {
        self.outcome.half_points(if self.white == engine { Color::White } else { Color::Black })
    }
}

/// All results, by the number of the game.
#[derive(Clone, Debug, Default)]
pub struct Standings {
    /// The engines' names.
    pub names: Vec<String>,
    results: BTreeMap<usize, GameResult>,
    order: Vec<usize>,
}

impl Standings {
    /// Before the first game.
    pub fn new(names: Vec<String>) -> Self {
        Self { names, ..Self::default() }
    }

    /// Adds a game; a game that is already there is replaced.
    pub fn add(&mut self, result: GameResult) {
        let index = result.index;
        if self.results.insert(index, result).is_none() {
            self.order.push(index);
        }
    }

    /// Whether a game has been played.
    pub fn has(&self, index: usize) -> bool {
        self.results.contains_key(&index)
    }

    /// Number of games.
    pub fn games(&self) -> usize {
        self.results.len()
    }

    /// The games by number.
    pub fn results(&self) -> impl Iterator<Item = &GameResult> {
        self.results.values()
    }

    /// The games in the order in which they ended.
    pub fn in_order(&self) -> impl Iterator<Item = &GameResult> {
        self.order.iter().filter_map(|index| self.results.get(index))
    }

    /// Games of one engine against another.
    pub fn wdl(&self, engine: usize, opponent: usize) -> Wdl {
        let mut wdl = Wdl::default();
        for game in self.results().filter(|game| is_between(game, engine, opponent)) {
            wdl.add(game.half_points(engine));
        }
        wdl
    }

    /// Games of one engine against everyone.
    pub fn total(&self, engine: usize) -> Wdl {
        let mut wdl = Wdl::default();
        for game in self.results().filter(|game| game.white == engine || game.black == engine) {
            wdl.add(game.half_points(engine));
        }
        wdl
    }

    /// Whole pairs of one engine against another.
    pub fn pairs(&self, engine: usize, opponent: usize) -> Pentanomial {
        let mut pairs = Pentanomial::default();
        for first in self.results().filter(|game| game.index % 2 == 0 && is_between(game, engine, opponent)) {
            if let Some(second) = self.results.get(&(first.index + 1)) {
                pairs.add(first.half_points(engine), second.half_points(engine));
            }
        }
        pairs
    }

    /// The pairs of one engine against another after each pair that was completed, in the order in which games ended,
    /// with the number of their games until then.
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

    /// Where a test of one engine against another was first decided, or where it stands. Games that were under way at
    /// the decision still count for every estimate, but what is decided stays decided.
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

    /// A rating list of all engines. Pairs of games count as one observation.
    pub fn ratings(&self) -> Ratings {
        let mut units: BTreeMap<usize, Vec<RatedGame>> = BTreeMap::new();
        for game in self.results() {
            let half_points = game.outcome.white_half_points();
            let rated = RatedGame { white: game.white, black: game.black, half_points };
            units.entry(game.index / 2).or_default().push(rated);
        }
        rate(self.names.len(), &units.into_values().collect::<Vec<_>>())
    }

    /// Games by what ended them; every kind is there, even if none ended so.
    pub fn terminations(&self) -> BTreeMap<Termination, u64> {
        let mut counts: BTreeMap<_, _> = Termination::ALL.into_iter().map(|kind| (kind, 0)).collect();
        for game in self.results() {
            *counts.entry(game.termination).or_default() += 1;
        }
        counts
    }

    /// Games that an engine forfeited, by kind.
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
    fn a_game_that_is_added_again_is_no_other_half_of_itself() {
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
        // What was still under way goes badly: the ratio falls back, the decision does not.
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
