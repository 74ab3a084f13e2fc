//! Players that run within this process, without pipes but with the same clocks as external engines.
//!
//! `cmd=@tandem` is our search. `cmd=@searchless` plays the move whose resulting position its evaluation
//! likes best, and so measures an evaluation without a search.

use crate::uci_player::StartError;
use crate::{
    Analysis, Analyst, ChosenMove, EngineSpec, Fault, GameSoFar, Player, PlayerClock, TimeLimit, UciInfo,
    UciScore,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tandem_chess::{Move, Position};
use tandem_nets::EvaluatorChoice;
use tandem_search::options::{self, UciOption};
use tandem_search::params;
use tandem_search::{Evaluator, STACK_SIZE, SearchResult, Searcher};

/// Value of `cmd` that selects the built-in search.
pub(crate) const TANDEM: &str = "@tandem";
/// Value of `cmd` that selects the built-in evaluation without search.
pub(crate) const SEARCHLESS: &str = "@searchless";

/// Option of the built-in search that replaces its evaluation.
const EVAL_FILE: &[UciOption<Searcher>] =
    &[UciOption::text("EvalFile", "file", "NNUE to use instead of the embedded one", |searcher, path| {
        searcher.set_evaluator(EvaluatorChoice::named(path)?.factory(), &AtomicBool::new(false));
        Ok(())
    })];

/// The option of the evaluation without search.
const EVALUATOR: &[UciOption<EvaluatorChoice>] =
    &[UciOption::text("EvalFile", "file", "NNUE to use instead of the embedded one", |evaluator, path| {
        *evaluator = EvaluatorChoice::named(path)?;
        Ok(())
    })];

/// Sets the options of a player within this process.
///
/// # Errors
///
/// Fails on an option that is in none of the tables, and on a value that the option does not accept.
fn set_options<T>(spec: &EngineSpec, tables: &[&[UciOption<T>]], target: &mut T) -> Result<(), String> {
    for (name, value) in &spec.options {
        let current = params::current_name(name);
        let Some(option) = tables.iter().find_map(|table| options::find(table, current)) else {
            let known: Vec<&str> = tables.iter().copied().flatten().map(UciOption::name).collect();
            return Err(format!("it has no option '{name}'; it has {}", known.join(", ")));
        };
        option.set(target, value).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Our own search as a player and analyst, in a thread of this process.
pub struct TandemPlayer {
    name: String,
    searcher: Arc<Mutex<Searcher>>,
    cancel: Arc<AtomicBool>,
    usable: bool,
}

impl TandemPlayer {
    /// Creates a searcher with the options of `spec`: those of [`tandem_search::options::SEARCHER`], and
    /// `EvalFile`. Searches end early once `cancel` is set.
    ///
    /// # Errors
    ///
    /// Fails on an unknown option, a value out of range, a network that cannot be loaded, or a request to
    /// ponder.
    pub fn new(spec: &EngineSpec, cancel: Arc<AtomicBool>) -> Result<Self, StartError> {
        let name = spec.name.clone().unwrap_or_else(|| "Tandem (inside)".into());
        let invalid = |what: String| StartError::InProcess { engine: name.clone(), what };
        if spec.ponder {
            return Err(invalid("it cannot ponder".into()));
        }
        let evaluator = EvaluatorChoice::built_in();
        let searcher = Searcher::new(evaluator.factory(), options::DEFAULT_HASH);
        let mut searcher = searcher.map_err(|error| invalid(error.to_string()))?;
        set_options(spec, &[options::SEARCHER, EVAL_FILE, options::TUNED], &mut searcher).map_err(invalid)?;
        Ok(Self { name, searcher: Arc::new(Mutex::new(searcher)), cancel, usable: true })
    }

    /// Runs a search on a thread with the stack size that it needs. A panic of the search is reported as a
    /// crash of this player and does not end the match.
    fn search(
        &mut self,
        position: &Position,
        clock: &PlayerClock,
    ) -> Result<(Instant, SearchResult, Vec<Line>), Fault> {
        let limits = limits(clock);
        let position = position.clone();
        let searcher = Arc::clone(&self.searcher);
        let signals = searcher.lock().unwrap_or_else(PoisonError::into_inner).signals();
        signals.arm(false);
        let (sender, answer) = channel();
        let started = Instant::now();
        let builder = thread::Builder::new().name("search".into()).stack_size(STACK_SIZE);
        let spawned = builder.spawn(move || {
            let mut lines = Vec::new();
            let mut searcher = searcher.lock().unwrap_or_else(PoisonError::into_inner);
            let result = searcher.search(&position, &limits, &mut |info| {
                if info.multipv == 1 {
                    lines.push((started.elapsed(), info));
                }
            });
            let _ = sender.send((result, lines));
        });
        if let Err(error) = spawned {
            return Err(Fault::Crash(format!("no thread for the search: {error}")));
        }
        let mut cancelled = false;
        loop {
            match answer.recv_timeout(Duration::from_millis(100)) {
                Ok(_) if cancelled => return Err(Fault::Cancelled),
                Ok((result, lines)) => return Ok((started, result, lines)),
                Err(RecvTimeoutError::Timeout) if self.cancel.load(Ordering::Relaxed) => {
                    cancelled = true;
                    signals.stop();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.usable = false;
                    return Err(Fault::Crash("the search panicked".into()));
                }
            }
        }
    }

    fn clear(&mut self) {
        let mut searcher = self.searcher.lock().unwrap_or_else(PoisonError::into_inner);
        searcher.clear(&AtomicBool::new(false));
    }
}

type Line = (Duration, tandem_search::Info);

/// Translates a clock into the limits of `tandem-search`.
fn limits(clock: &PlayerClock) -> tandem_search::Limits {
    let ours = clock.limits();
    let per_move = match ours.time {
        TimeLimit::PerMove(time) => Some(time),
        _ => None,
    };
    let running = clock.left().map(|remaining| tandem_search::Clock {
        remaining,
        increment: clock.increment(),
        moves_to_go: clock.moves_to_go(),
    });
    tandem_search::Limits {
        depth: ours.depth,
        nodes: ours.nodes,
        move_time: per_move,
        clock: running,
        ..tandem_search::Limits::default()
    }
}

fn score(score: tandem_search::Score) -> UciScore {
    match score {
        tandem_search::Score::Centipawns(value) => UciScore::Cp(value.0),
        tandem_search::Score::Mate(moves) => UciScore::Mate(moves),
    }
}

fn no_move() -> Fault {
    Fault::Illegal("(none)".into())
}

impl Player for TandemPlayer {
    fn name(&self) -> &str {
        &self.name
    }

    fn plays_chess960(&self) -> bool {
        true
    }

    fn new_game(&mut self, _: bool) -> Result<(), Fault> {
        self.clear();
        Ok(())
    }

    fn think(&mut self, game: &GameSoFar, clock: &PlayerClock, _: &PlayerClock) -> Result<ChosenMove, Fault> {
        let (started, result, _) = self.search(game.position, clock)?;
        Ok(ChosenMove {
            mv: result.best.ok_or_else(no_move)?,
            score: Some(score(result.score)),
            depth: Some(result.depth),
            nodes: Some(result.nodes),
            started,
            elapsed: started.elapsed(),
        })
    }

    fn is_usable(&self) -> bool {
        self.usable
    }
}

impl Analyst for TandemPlayer {
    fn name(&self) -> &str {
        &self.name
    }

    fn analyse(&mut self, game: &GameSoFar, clock: &PlayerClock) -> Result<Analysis, Fault> {
        let (started, result, lines) = self.search(game.position, clock)?;
        let elapsed = started.elapsed();
        let info = |info: tandem_search::Info| UciInfo {
            depth: Some(info.depth),
            score: Some(score(info.score)),
            bound: info.bound != tandem_search::ScoreBound::Exact,
            nodes: Some(info.nodes),
            millis: Some(info.time.as_millis() as u64),
            multipv: Some(1),
            pv: info.pv.iter().map(ToString::to_string).collect(),
        };
        let infos = lines.into_iter().map(|(at, line)| (at, info(line))).collect();
        Ok(Analysis { best: result.best.ok_or_else(no_move)?, elapsed, infos })
    }

    fn reset(&mut self, _: bool) -> Result<(), Fault> {
        self.clear();
        Ok(())
    }

    fn is_usable(&self) -> bool {
        self.usable
    }
}

/// A player without search: it plays the move after which its static evaluation is best, one ply deep.
pub struct Searchless {
    name: String,
    evaluator: Box<dyn Evaluator>,
}

impl Searchless {
    /// Creates a player with the built-in evaluation, or with the network that the option `EvalFile` names.
    ///
    /// # Errors
    ///
    /// Fails on any other option, on a network that cannot be loaded, or on a request to ponder.
    pub fn new(spec: &EngineSpec) -> Result<Self, StartError> {
        let name = spec.name.clone().unwrap_or_else(|| "Tandem without search".into());
        let invalid = |what: String| StartError::InProcess { engine: name.clone(), what };
        if spec.ponder {
            return Err(invalid("it cannot ponder".into()));
        }
        let mut evaluator = EvaluatorChoice::built_in();
        set_options(spec, &[EVALUATOR], &mut evaluator).map_err(invalid)?;
        Ok(Self { name, evaluator: evaluator.factory()() })
    }

    /// Returns the move with the worst evaluation for the opponent. Mates and draws are scored by the rules,
    /// because an evaluation does not see them.
    fn choose(&mut self, position: &Position) -> Option<(Move, UciScore)> {
        let mut after = position.clone();
        let mut value = |mv: Move| {
            after.play(mv);
            let score = if !after.has_legal_move() {
                if after.in_check() { UciScore::Mate(1) } else { UciScore::Cp(0) }
            } else if after.repetitions() >= 2 || after.is_fifty_moves() || after.is_insufficient_material() {
                UciScore::Cp(0)
            } else {
                self.evaluator.reset(&after);
                UciScore::Cp(-self.evaluator.evaluate(&after).0)
            };
            after.undo();
            (mv, score)
        };
        position.legal_moves().into_iter().map(&mut value).max_by_key(|(_, score)| score.centipawns())
    }
}

impl Player for Searchless {
    fn name(&self) -> &str {
        &self.name
    }

    fn plays_chess960(&self) -> bool {
        true
    }

    fn new_game(&mut self, _: bool) -> Result<(), Fault> {
        Ok(())
    }

    fn think(&mut self, game: &GameSoFar, _: &PlayerClock, _: &PlayerClock) -> Result<ChosenMove, Fault> {
        let started = Instant::now();
        let (mv, score) = self.choose(game.position).ok_or_else(no_move)?;
        let elapsed = started.elapsed();
        Ok(ChosenMove { mv, score: Some(score), depth: Some(1), nodes: None, started, elapsed })
    }

    fn is_usable(&self) -> bool {
        true
    }
}

impl Analyst for Searchless {
    fn name(&self) -> &str {
        &self.name
    }

    fn analyse(&mut self, game: &GameSoFar, _: &PlayerClock) -> Result<Analysis, Fault> {
        let started = Instant::now();
        let (best, score) = self.choose(game.position).ok_or_else(no_move)?;
        let info =
            UciInfo { depth: Some(1), score: Some(score), pv: vec![best.to_string()], ..UciInfo::default() };
        Ok(Analysis { best, elapsed: started.elapsed(), infos: vec![(started.elapsed(), info)] })
    }

    fn reset(&mut self, _: bool) -> Result<(), Fault> {
        Ok(())
    }

    fn is_usable(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineLimits;

    fn best(analyst: &mut dyn Analyst, fen: &str) -> Move {
        let position = Position::from_fen(fen).unwrap();
        let game = GameSoFar { start: position.board(), moves: "", position: &position, chess960: false };
        let clock = PlayerClock::new(EngineLimits { nodes: Some(3000), ..EngineLimits::default() });
        analyst.analyse(&game, &clock).unwrap().best
    }

    #[test]
    fn both_see_a_mate() {
        let spec = EngineSpec { options: vec![("Hash".into(), "1".into())], ..EngineSpec::default() };
        let mut tandem = TandemPlayer::new(&spec, Arc::default()).unwrap();
        let mut searchless = Searchless::new(&EngineSpec::default()).unwrap();
        let fen = "4k3/R7/8/8/8/8/8/K6R w - - 0 1";
        let expected: Move = "h1h8".parse().unwrap();
        assert_eq!(best(&mut tandem, fen), expected);
        assert_eq!(best(&mut searchless, fen), expected);
    }

    #[test]
    fn options_are_checked() {
        let spec = |option: &str, value: &str| EngineSpec {
            options: vec![(option.into(), value.into())],
            ..EngineSpec::default()
        };
        let error = |spec: &EngineSpec| TandemPlayer::new(spec, Arc::default()).err().unwrap().to_string();
        assert!(error(&spec("Hsh", "1")).contains("no option 'Hsh'"));
        assert!(error(&spec("Hash", "0")).contains("from 1 to"));
        assert!(TandemPlayer::new(&spec("Move Overhead", "30"), Arc::default()).is_ok());
        assert!(Searchless::new(&spec("Hash", "1")).is_err());
        let pondering = EngineSpec { ponder: true, ..EngineSpec::default() };
        assert!(error(&pondering).contains("cannot ponder"));
        assert!(Searchless::new(&pondering).is_err());
    }
}
