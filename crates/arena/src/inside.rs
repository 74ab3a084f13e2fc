//! Tandem within this program: no process, no pipe, the same clocks.
//!
//! `cmd=@tandem` is its search; `cmd=@searchless` plays the move after which its evaluation likes the position best,
//! and so measures an evaluation alone.

use crate::uci_player::StartError;
use crate::{
    Analysis, Analyst, Clock, EngineSpec, Fault, GameSoFar, Info, Player, Score, Thought, TimeLimit,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tandem_chess::{Move, Position};
use tandem_nets::Judge;
use tandem_search::{Evaluator, STACK_SIZE, SearchResult, Searcher};

/// The `cmd` of the search.
pub(crate) const TANDEM: &str = "@tandem";
/// The `cmd` of the evaluation without search.
pub(crate) const SEARCHLESS: &str = "@searchless";

/// Our own search.
pub struct TandemPlayer {
    name: String,
    searcher: Arc<Mutex<Searcher>>,
    cancel: Arc<AtomicBool>,
    well: bool,
}

impl TandemPlayer {
    /// Makes a searcher with the options of a description: `Hash`, `Threads`, `Move Overhead` and `EvalFile`.
    pub fn new(spec: &EngineSpec, cancel: Arc<AtomicBool>) -> Result<Self, StartError> {
        let name = spec.name.clone().unwrap_or_else(|| "Tandem (inside)".into());
        let wrong = |what: String| StartError::Inside { engine: name.clone(), what };
        if spec.ponder {
            return Err(wrong("it cannot ponder".into()));
        }
        let (mut hash, mut threads, mut overhead) = (16, 1, Duration::from_millis(10));
        let mut judge = Judge::built_in();
        for (option, value) in &spec.options {
            let number = |least: usize, most: usize| {
                let number = value.parse().ok().filter(|number| (least..=most).contains(number));
                number.ok_or_else(|| wrong(format!("option {option} takes a number from {least} to {most}")))
            };
            match option.to_ascii_lowercase().as_str() {
                "hash" => hash = number(1, 1 << 20)?,
                "threads" => threads = number(1, 1024)?,
                "move overhead" => overhead = Duration::from_millis(number(0, 5000)? as u64),
                "evalfile" => judge = Judge::named(value).map_err(|error| wrong(error.to_string()))?,
                _ => {
                    return Err(wrong(format!(
                        "it has no option '{option}'; it has Hash, Threads, Move Overhead, EvalFile"
                    )));
                }
            }
        }
        let mut searcher = Searcher::new(judge.factory(), hash).map_err(|error| wrong(error.to_string()))?;
        searcher.set_threads(threads);
        searcher.settings.move_overhead = overhead;
        Ok(Self { name, searcher: Arc::new(Mutex::new(searcher)), cancel, well: true })
    }

    /// Searches on a thread with the stack that the search needs. Should the search panic, that is this player's
    /// crash and not ours.
    fn search(
        &mut self,
        position: &Position,
        clock: &Clock,
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
                    self.well = false;
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

/// The search's own limits for a clock.
fn limits(clock: &Clock) -> tandem_search::Limits {
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

fn score(score: tandem_search::Score) -> Score {
    match score {
        tandem_search::Score::Centipawns(value) => Score::Cp(value.0),
        tandem_search::Score::Mate(moves) => Score::Mate(moves),
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

    fn think(&mut self, game: &GameSoFar, clock: &Clock, _: &Clock) -> Result<Thought, Fault> {
        let (started, result, _) = self.search(game.position, clock)?;
        Ok(Thought {
            mv: result.best.ok_or_else(no_move)?,
            score: Some(score(result.score)),
            depth: Some(result.depth),
            nodes: Some(result.nodes),
            started,
            elapsed: started.elapsed(),
        })
    }

    fn is_well(&self) -> bool {
        self.well
    }
}

impl Analyst for TandemPlayer {
    fn name(&self) -> &str {
        &self.name
    }

    fn analyse(&mut self, game: &GameSoFar, clock: &Clock) -> Result<Analysis, Fault> {
        let (started, result, lines) = self.search(game.position, clock)?;
        let elapsed = started.elapsed();
        let info = |info: tandem_search::Info| Info {
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

    fn forget(&mut self, _: bool) -> Result<(), Fault> {
        self.clear();
        Ok(())
    }

    fn is_well(&self) -> bool {
        self.well
    }
}

/// An evaluation that plays without search.
pub struct Searchless {
    name: String,
    evaluator: Box<dyn Evaluator>,
}

impl Searchless {
    /// With the evaluation of our engine, or the network that the option `EvalFile` names.
    pub fn new(spec: &EngineSpec) -> Result<Self, StartError> {
        let name = spec.name.clone().unwrap_or_else(|| "Tandem without search".into());
        let wrong = |what: String| StartError::Inside { engine: name.clone(), what };
        if spec.ponder {
            return Err(wrong("it cannot ponder".into()));
        }
        let mut judge = Judge::built_in();
        for (option, value) in &spec.options {
            if !option.eq_ignore_ascii_case("EvalFile") {
                return Err(wrong(format!("it has no option '{option}'; it has EvalFile")));
            }
            judge = Judge::named(value).map_err(|error| wrong(error.to_string()))?;
        }
        Ok(Self { name, evaluator: judge.factory()() })
    }

    /// The move after which the opponent stands worst. Mates and draws are known without an evaluation.
    fn choose(&mut self, position: &Position) -> Option<(Move, Score)> {
        let mut after = position.clone();
        let mut value = |mv: Move| {
            after.play(mv);
            let score = if !after.has_legal_move() {
                if after.in_check() { Score::Mate(1) } else { Score::Cp(0) }
            } else if after.repetitions() >= 2 || after.is_fifty_moves() || after.is_insufficient_material() {
                Score::Cp(0)
            } else {
                self.evaluator.reset(&after);
                Score::Cp(-self.evaluator.evaluate(&after).0)
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

    fn think(&mut self, game: &GameSoFar, _: &Clock, _: &Clock) -> Result<Thought, Fault> {
        let started = Instant::now();
        let (mv, score) = self.choose(game.position).ok_or_else(no_move)?;
        let elapsed = started.elapsed();
        Ok(Thought { mv, score: Some(score), depth: Some(1), nodes: None, started, elapsed })
    }

    fn is_well(&self) -> bool {
        true
    }
}

impl Analyst for Searchless {
    fn name(&self) -> &str {
        &self.name
    }

    fn analyse(&mut self, game: &GameSoFar, _: &Clock) -> Result<Analysis, Fault> {
        let started = Instant::now();
        let (best, score) = self.choose(game.position).ok_or_else(no_move)?;
        let info = Info { depth: Some(1), score: Some(score), pv: vec![best.to_string()], ..Info::default() };
        Ok(Analysis { best, elapsed: started.elapsed(), infos: vec![(started.elapsed(), info)] })
    }

    fn forget(&mut self, _: bool) -> Result<(), Fault> {
        Ok(())
    }

    fn is_well(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn best(analyst: &mut dyn Analyst, fen: &str) -> Move {
        let position = Position::from_fen(fen).unwrap();
        let game = GameSoFar { start: position.board(), moves: "", position: &position, chess960: false };
        let clock = Clock::new(Limits { nodes: Some(3000), ..Limits::default() });
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
