//! Games between two settings of the search, played in pairs with colours swapped.

use super::plan::TunedParameter;
use super::spsa::Trial;
use crate::adjudication::Adjudication;
use crate::error::SelfPlayError;
use crate::game;
use crate::opening::Openings;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tandem_chess::{Color, Position};
use tandem_data::Outcome;
use tandem_search::params::TABLE;
use tandem_search::{EvaluatorFactory, Limits, SearchResult, Searcher};
use tandem_util::random::SplitMix;

/// Results of tuning games for the plus side: the player whose parameters were changed by plus the random
/// perturbation; its opponent's were changed by minus it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GameResults {
    /// Number of games that the plus side won.
    pub wins: u64,
    /// Number of games that ended in a draw.
    pub draws: u64,
    /// Number of games that the plus side lost.
    pub losses: u64,
}

impl GameResults {
    /// Total number of games: wins, draws and losses.
    pub fn games(self) -> u64 {
        self.wins.saturating_add(self.draws).saturating_add(self.losses)
    }

    /// Wins minus losses.
    pub(super) fn net_wins(self) -> i64 {
        self.wins as i64 - self.losses as i64
    }
}

impl AddAssign for GameResults {
    fn add_assign(&mut self, other: Self) {
        self.wins += other.wins;
        self.draws += other.draws;
        self.losses += other.losses;
    }
}

/// A way to compare two settings by games. Tests replace it with simulated ones.
pub(super) trait PairPlayer {
    /// Plays the pair of games with this number; `None` if it was cancelled.
    fn play(
        &mut self,
        trial: &Trial,
        pair: u64,
        cancel: &AtomicBool,
    ) -> Result<Option<GameResults>, SelfPlayError>;
}

/// Conditions under which the games of a tuning are played, besides the parameters.
pub struct GameSettings {
    /// Function that creates the search's static evaluators, one for each side.
    pub factory: Arc<EvaluatorFactory>,
    /// Text that identifies the evaluator, different for another network, for example with a hash of its
    /// file; a tuning is only resumed with the same text.
    pub evaluator: String,
    /// Node limit of each move, met exactly and the same for both sides whatever their parameters are.
    pub nodes: u64,
    /// Size of each side's hash table, in MiB.
    pub hash: usize,
    /// Start positions of the games: a book or random plies.
    pub openings: Openings,
    /// Rules for ending games early, by the scores of both sides.
    pub adjudication: Adjudication,
}

impl GameSettings {
    /// All settings in one line of text, with a hash of the search's parameter table. The journal stores it,
    /// and a tuning is only resumed if it is the same.
    pub fn conditions(&self) -> String {
        let Self { evaluator, nodes, hash, openings, adjudication, .. } = self;
        let table = TABLE.iter().fold(0, |hash, param| SplitMix::new(hash ^ param.default as u64).next_u64());
        format!(
            "judged by {evaluator}, {nodes} nodes, hash {hash} MiB, {openings}, {adjudication:?}, table {table:016x}" // language: old name
        )
        .replace('\n', " ")
    }
}

/// Two searchers within this program that play each other.
pub(super) struct SearcherPair<'a> {
    settings: &'a GameSettings,
    parameters: &'a [TunedParameter],
    seed: u64,
    plus: Searcher,
    minus: Searcher,
}

impl<'a> SearcherPair<'a> {
    pub(super) fn new(
        settings: &'a GameSettings,
        parameters: &'a [TunedParameter],
        seed: u64,
    ) -> Result<Self, SelfPlayError> {
        let searcher = || Searcher::new(Arc::clone(&settings.factory), settings.hash);
        Ok(Self { settings, parameters, seed, plus: searcher()?, minus: searcher()? })
    }

    /// Plays one game and returns the plus side's result; `None` if it was cancelled.
    fn game(&mut self, start: &Position, plus: Color, cancel: &AtomicBool) -> Option<Outcome> {
        self.clear_tables();
        let white = game::play_out(start.clone(), &self.settings.adjudication, cancel, |position| {
            let plus_moves = position.side_to_move() == plus;
            let searcher = if plus_moves { &mut self.plus } else { &mut self.minus };
            let result = think(searcher, position, self.settings.nodes);
            Some((result.best?, result.score))
        });
        white.map(|white| white.from_view_of(plus))
    }

    fn clear_tables(&mut self) {
        for searcher in [&mut self.plus, &mut self.minus] {
            searcher.clear(&AtomicBool::new(false));
        }
    }
}

impl PairPlayer for SearcherPair<'_> {
    fn play(
        &mut self,
        trial: &Trial,
        pair: u64,
        cancel: &AtomicBool,
    ) -> Result<Option<GameResults>, SelfPlayError> {
        for (searcher, values) in [(&mut self.plus, &trial.plus), (&mut self.minus, &trial.minus)] {
            for (parameter, &value) in self.parameters.iter().zip(values) {
                set_parameter(searcher, &parameter.name, value);
            }
        }
        let mut random = SplitMix::new(self.seed ^ SplitMix::new(pair).next_u64());
        self.clear_tables();
        let opened = game::draw_opening(&self.settings.openings, &mut random, cancel, |position| {
            think(&mut self.plus, position, self.settings.nodes).score
        });
        let Some(start) = opened? else { return Ok(None) };
        let mut results = GameResults::default();
        for plus in Color::ALL {
            match self.game(&start, plus, cancel) {
                None => return Ok(None),
                Some(Outcome::Win) => results.wins += 1,
                Some(Outcome::Draw) => results.draws += 1,
                Some(Outcome::Loss) => results.losses += 1,
            }
        }
        Ok(Some(results))
    }
}

fn think(searcher: &mut Searcher, position: &Position, nodes: u64) -> SearchResult {
    searcher.signals().arm(false);
    searcher.search(position, &Limits { nodes: Some(nodes), ..Limits::default() }, &mut |_| ())
}

/// Sets a search parameter of one searcher.
#[cfg(feature = "tune")]
fn set_parameter(searcher: &mut Searcher, name: &str, value: i32) {
    searcher.settings.params.set(name, value);
}

/// Parameters are constants in this build; [`super::tune`] reports it before any game.
#[cfg(not(feature = "tune"))]
fn set_parameter(_: &mut Searcher, _: &str, _: i32) {}
