//! How two settings are compared: by games.

use super::plan::Tuned;
use super::spsa::Trial;
use crate::adjudication::Adjudication;
use crate::error::SelfPlayError;
use crate::game;
use crate::opening::Openings;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tandem_chess::random::SplitMix;
use tandem_chess::{Color, Position};
use tandem_data::Outcome;
use tandem_search::params::TABLE;
use tandem_search::{EvaluatorFactory, Limits, SearchResult, Searcher};

/// How the plus sides fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Points {
    /// Games they won.
    pub wins: u64,
    /// Games nobody won.
    pub draws: u64,
    /// Games they lost.
    pub losses: u64,
}

impl Points {
    /// Games in all.
    pub fn games(self) -> u64 {
        self.wins.saturating_add(self.draws).saturating_add(self.losses)
    }

    /// Games won more than lost.
    pub(super) fn lead(self) -> i64 {
        self.wins as i64 - self.losses as i64
    }
}

impl AddAssign for Points {
    fn add_assign(&mut self, other: Self) {
        self.wins += other.wins;
        self.draws += other.draws;
        self.losses += other.losses;
    }
}

/// What lets two settings play each other.
pub(super) trait Contest {
    /// The pair of games with this number. None if it was cancelled.
    fn play(
        &mut self,
        trial: &Trial,
        pair: u64,
        cancel: &AtomicBool,
    ) -> Result<Option<Points>, SelfPlayError>;
}

/// What the games are like.
pub struct GameSettings {
    /// Makes the evaluators.
    pub factory: Arc<EvaluatorFactory>,
    /// What they are, in a few words that another network would not have.
    pub judge: String,
    /// Nodes of a move, to the node: both sides have the same, whatever their numbers make of them.
    pub nodes: u64,
    /// MiB of hash table for each side.
    pub hash: usize,
    /// How games begin.
    pub openings: Openings,
    /// How they end early.
    pub adjudication: Adjudication,
}

impl GameSettings {
    /// All of this in a line, and what the search plays by besides.
    pub fn conditions(&self) -> String {
        let Self { judge, nodes, hash, openings, adjudication, .. } = self;
        let table = TABLE.iter().fold(0, |hash, param| SplitMix::new(hash ^ param.default as u64).next_u64());
        format!(
            "judged by {judge}, {nodes} nodes, hash {hash} MiB, {openings}, {adjudication:?}, table {table:016x}"
        )
        .replace('\n', " ")
    }
}

/// Games between two searchers within this program.
pub(super) struct Games<'a> {
    settings: &'a GameSettings,
    numbers: &'a [Tuned],
    seed: u64,
    plus: Searcher,
    minus: Searcher,
}

impl<'a> Games<'a> {
    pub(super) fn new(
        settings: &'a GameSettings,
        numbers: &'a [Tuned],
        seed: u64,
    ) -> Result<Self, SelfPlayError> {
        let searcher = || Searcher::new(Arc::clone(&settings.factory), settings.hash);
        Ok(Self { settings, numbers, seed, plus: searcher()?, minus: searcher()? })
    }

    /// One game; the plus side's result.
    fn game(&mut self, start: &Position, plus: Color, cancel: &AtomicBool) -> Option<Outcome> {
        self.forget();
        let white = game::finish(start.clone(), &self.settings.adjudication, cancel, |position| {
            let plus_moves = position.side_to_move() == plus;
            let searcher = if plus_moves { &mut self.plus } else { &mut self.minus };
            let result = think(searcher, position, self.settings.nodes);
            Some((result.best?, result.score))
        });
        white.map(|white| white.seen_by(plus))
    }

    fn forget(&mut self) {
        for searcher in [&mut self.plus, &mut self.minus] {
            searcher.clear(&AtomicBool::new(false));
        }
    }
}

impl Contest for Games<'_> {
    fn play(
        &mut self,
        trial: &Trial,
        pair: u64,
        cancel: &AtomicBool,
    ) -> Result<Option<Points>, SelfPlayError> {
        for (searcher, values) in [(&mut self.plus, &trial.plus), (&mut self.minus, &trial.minus)] {
            for (number, &value) in self.numbers.iter().zip(values) {
                adopt(searcher, &number.name, value);
            }
        }
        let mut random = SplitMix::new(self.seed ^ SplitMix::new(pair).next_u64());
        self.forget();
        let opened = game::open(&self.settings.openings, &mut random, cancel, |position| {
            think(&mut self.plus, position, self.settings.nodes).score
        });
        let Some(start) = opened? else { return Ok(None) };
        let mut points = Points::default();
        for plus in Color::ALL {
            match self.game(&start, plus, cancel) {
                None => return Ok(None),
                Some(Outcome::Win) => points.wins += 1,
                Some(Outcome::Draw) => points.draws += 1,
                Some(Outcome::Loss) => points.losses += 1,
            }
        }
        Ok(Some(points))
    }
}

fn think(searcher: &mut Searcher, position: &Position, nodes: u64) -> SearchResult {
    searcher.signals().arm(false);
    searcher.search(position, &Limits { nodes: Some(nodes), ..Limits::default() }, &mut |_| ())
}

/// A searcher plays by this value from now on.
#[cfg(feature = "tune")]
fn adopt(searcher: &mut Searcher, name: &str, value: i32) {
    searcher.settings.params.set(name, value);
}

/// Constants cannot be turned; [`super::tune`] says so before any game.
#[cfg(not(feature = "tune"))]
fn adopt(_: &mut Searcher, _: &str, _: i32) {}
