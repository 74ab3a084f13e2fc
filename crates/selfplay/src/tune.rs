//! The search's numbers, tuned by games that settings of them play against each other.

mod contest;
mod plan;
mod spsa;

pub use contest::{GameSettings, Points};
pub use plan::{Plan, Tuned};

use crate::error::SelfPlayError;
use crate::journal::{self, Journal, Magic};
use crate::threads::on_threads;
use contest::{Contest, Games};
use spsa::Spsa;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

const MAGIC: Magic = *b"TTUNING2";
/// More points of a course than this nobody sees on a screen.
const PLACES: u64 = 500;

/// How far a tuning has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    plan: Plan,
    spsa: Spsa,
    /// Which iterations are done.
    done: Vec<bool>,
    points: Points,
    course: Vec<(u64, Vec<f64>)>,
}

impl Tuning {
    fn new(plan: Plan) -> Self {
        let spsa = Spsa::new(&plan);
        let course = vec![(0, spsa.values().to_vec())];
        Self { spsa, done: vec![false; plan.iterations as usize], points: Points::default(), course, plan }
    }

    /// Reads what a run, over or not, has left so far.
    pub fn read(path: &Path) -> Result<Self, SelfPlayError> {
        let mut blocks = Vec::new();
        let about = journal::look(path, MAGIC, |block| {
            blocks.push(block.to_vec());
            Ok(())
        })?;
        let Some(plan) = about.as_deref().and_then(Plan::parse) else {
            let problem = "not the journal of a tuning".into();
            return Err(SelfPlayError::File { path: path.into(), problem });
        };
        let mut tuning = Self::new(plan);
        blocks.iter().try_for_each(|block| tuning.replay(block, path))?;
        Ok(tuning)
    }

    /// What is tuned.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The values in hand, one for each number.
    pub fn values(&self) -> &[f64] {
        self.spsa.values()
    }

    /// How the plus sides of all trials fared.
    pub fn points(&self) -> Points {
        self.points
    }

    /// Whether all games are played.
    pub fn is_finished(&self) -> bool {
        self.points.games() >= self.plan.games()
    }

    /// The values after so many games, for a few hundred places from the start until now.
    pub fn course(&self) -> impl Iterator<Item = (u64, &[f64])> {
        let now = (self.points.games(), self.values());
        let last = self.course.last().is_none_or(|(games, _)| *games != now.0).then_some(now);
        self.course.iter().map(|(games, values)| (*games, values.as_slice())).chain(last)
    }

    /// The first iteration from `first` on that is not done.
    fn next(&self, first: u64) -> Option<u64> {
        (first..self.plan.iterations).find(|&iteration| !self.done[iteration as usize])
    }

    /// Learns from an iteration. All that is known follows from these alone, in the order of the journal.
    fn add(&mut self, iteration: u64, points: Points) {
        self.spsa.learn(&self.plan, iteration, points.lead());
        self.done[iteration as usize] = true;
        self.points += points;
        let every = self.plan.games().div_ceil(PLACES);
        if self.points.games() / every > self.course.last().map_or(0, |(games, _)| games / every) {
            self.course.push((self.points.games(), self.spsa.values().to_vec()));
        }
    }

    /// Learns from an iteration of an earlier run.
    fn replay(&mut self, block: &[u8], path: &Path) -> Result<(), SelfPlayError> {
        let fits = |&(iteration, points): &(u64, Points)| {
            self.done.get(iteration as usize) == Some(&false) && points.games() == 2 * self.plan.pairs
        };
        let Some((iteration, points)) = unpack(block).filter(fits) else {
            let problem = "holds an iteration that is not of this tuning; move it away to begin anew".into();
            return Err(SelfPlayError::File { path: path.into(), problem });
        };
        self.add(iteration, points);
        Ok(())
    }
}

/// An iteration for the journal.
fn pack(iteration: u64, Points { wins, draws, losses }: Points) -> Vec<u8> {
    [iteration, wins, draws, losses].map(u64::to_le_bytes).concat()
}

fn unpack(block: &[u8]) -> Option<(u64, Points)> {
    let (numbers, []) = block.as_chunks() else { return None };
    let &[iteration, wins, draws, losses] = numbers else { return None };
    let [iteration, wins, draws, losses] = [iteration, wins, draws, losses].map(u64::from_le_bytes);
    Some((iteration, Points { wins, draws, losses }))
}

/// Tunes by games on so many threads, or goes on with what an earlier run has left in the journal at `path`; `watch` is
/// told how far it has come. The program must have been built with the feature `tune`.
pub fn tune(
    plan: Plan,
    games: &GameSettings,
    workers: usize,
    path: &Path,
    cancel: &AtomicBool,
    watch: &mut (dyn FnMut(&Tuning) + Send),
) -> Result<Tuning, SelfPlayError> {
    if !cfg!(feature = "tune") {
        return Err(SelfPlayError::Constants);
    }
    let (numbers, seed) = (plan.numbers.clone(), plan.seed);
    run(plan, &|| Games::new(games, &numbers, seed), workers, path, cancel, watch)
}

/// What the threads share.
struct Desk<'a> {
    tuning: Tuning,
    journal: Journal,
    /// Iterations before this one are done or in somebody's hands.
    next: u64,
    watch: &'a mut (dyn FnMut(&Tuning) + Send),
}

fn run<C: Contest>(
    plan: Plan,
    contest: &(dyn Fn() -> Result<C, SelfPlayError> + Sync),
    workers: usize,
    path: &Path,
    cancel: &AtomicBool,
    watch: &mut (dyn FnMut(&Tuning) + Send),
) -> Result<Tuning, SelfPlayError> {
    let mut journal = Journal::open(path, MAGIC, &plan.to_string())?;
    let pairs = plan.pairs;
    let mut tuning = Tuning::new(plan);
    journal.read(|block| tuning.replay(block, path))?;
    watch(&tuning);
    let desk = Mutex::new(Desk { tuning, journal, next: 0, watch });
    let lock = || desk.lock().unwrap_or_else(PoisonError::into_inner);
    let work = |_| {
        let mut contest = contest()?;
        while !cancel.load(Relaxed) {
            let (iteration, trial) = {
                let mut desk = lock();
                let Some(iteration) = desk.tuning.next(desk.next) else { break };
                desk.next = iteration + 1;
                (iteration, desk.tuning.spsa.trial(&desk.tuning.plan, iteration))
            };
            let mut points = Points::default();
            for pair in 0..pairs {
                let Some(more) = contest.play(&trial, iteration * pairs + pair, cancel)? else {
                    return Ok(());
                };
                points += more;
            }
            let mut desk = lock();
            desk.journal.add(&pack(iteration, points))?;
            let Desk { tuning, watch, .. } = &mut *desk;
            tuning.add(iteration, points);
            watch(tuning);
        }
        Ok(())
    };
    on_threads(workers.max(1), path, cancel, &work)?;
    Ok(desk.into_inner().unwrap_or_else(PoisonError::into_inner).tuning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spsa::Trial;
    use std::path::PathBuf;
    use tandem_chess::random::SplitMix;

    fn plan(iterations: u64) -> Plan {
        let rows = ["lmr_pv", "rfp_margin", "nmp_base"];
        let table = tandem_search::params::TABLE.iter();
        let numbers = table.filter(|param| rows.contains(&param.name)).map(Tuned::new).collect();
        Plan { numbers, iterations, pairs: 2, rate: 0.01, seed: 5, conditions: "dice".into() }
    }

    /// Games by dice that like a large first number. The run is cancelled after so many pairs.
    struct Dice(u64);

    impl Contest for Dice {
        fn play(
            &mut self,
            trial: &Trial,
            pair: u64,
            cancel: &AtomicBool,
        ) -> Result<Option<Points>, SelfPlayError> {
            if self.0 == 0 {
                cancel.store(true, Relaxed);
                return Ok(None);
            }
            self.0 -= 1;
            let favourite = trial.plus[0] > trial.minus[0];
            let luck = SplitMix::new(pair ^ trial.plus[1] as u64).below(4);
            Ok(Some(match (favourite, luck) {
                (true, 0 | 1) => Points { wins: 1, draws: 1, losses: 0 },
                (false, 0 | 1) => Points { wins: 0, draws: 1, losses: 1 },
                (_, 2) => Points { wins: 1, draws: 0, losses: 1 },
                _ => Points { wins: 0, draws: 2, losses: 0 },
            }))
        }
    }

    fn go(plan: Plan, path: &Path, workers: usize, pairs: u64) -> Result<Tuning, SelfPlayError> {
        run(plan, &|| Ok(Dice(pairs)), workers, path, &AtomicBool::new(false), &mut |_| ())
    }

    fn file(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tandem-tune-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn a_tuning_that_was_broken_off_again_and_again_ends_the_same() {
        let (whole, broken) = (file("whole"), file("broken"));
        let expected = go(plan(300), &whole, 1, u64::MAX).unwrap();
        assert!(expected.is_finished() && expected.values()[0] > 85.0, "{:?}", expected.values());
        assert_eq!(expected.points().games(), 1200);

        // Broken off at odd places, the fourth time in the middle of a write.
        for pairs in [3, 1, 100, 7] {
            assert!(!go(plan(300), &broken, 1, pairs).unwrap().is_finished());
        }
        let bytes = std::fs::read(&broken).unwrap();
        std::fs::write(&broken, &bytes[..bytes.len() - 5]).unwrap();
        assert_eq!(Tuning::read(&broken).unwrap().points().games(), 4 * (1 + 50 + 3 - 1));
        assert_eq!(go(plan(300), &broken, 1, u64::MAX).unwrap(), expected);
        assert_eq!(std::fs::read(&whole).unwrap(), std::fs::read(&broken).unwrap());

        // Nothing is left to do, and all can be read.
        assert_eq!(go(plan(300), &broken, 3, 0).unwrap(), expected);
        assert_eq!(Tuning::read(&broken).unwrap(), expected);
        let course: Vec<u64> = expected.course().map(|(games, _)| games).collect();
        assert!(course.is_sorted() && course[0] == 0 && course.last() == Some(&1200) && course.len() <= 502);
        for path in [whole, broken] {
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn several_workers_do_each_iteration_once() {
        let path = file("workers");
        let _ = go(plan(400), &path, 4, 50).unwrap();
        let tuning = go(plan(400), &path, 3, u64::MAX).unwrap();
        assert!(tuning.is_finished() && tuning.points().games() == 1600);
        assert_eq!(Tuning::read(&path).unwrap(), tuning);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn other_settings_and_other_files_are_refused() {
        let path = file("refused");
        let _ = go(plan(50), &path, 1, 4).unwrap();
        let told = |plan: Plan| go(plan, &path, 1, 4).unwrap_err().to_string();
        assert!(told(Plan { seed: 6, ..plan(50) }).contains("(then seed 5; now seed 6)"));
        let mut fewer = plan(50);
        fewer.numbers.remove(2);
        assert!(told(fewer).contains("now nothing"));
        assert!(told(plan(60)).contains("then iterations 50; now iterations 60"));

        let held = Journal::open(&path, MAGIC, &plan(50).to_string()).unwrap();
        assert!(told(plan(50)).contains("in use"));
        drop(held);
        let mut journal = Journal::open(&path, MAGIC, &plan(50).to_string()).unwrap();
        journal.add(&pack(0, Points { wins: 4, draws: 0, losses: 0 })).unwrap();
        drop(journal);
        assert!(told(plan(50)).contains("not of this tuning"), "an iteration for the second time");
        std::fs::write(&path, "something else").unwrap();
        assert!(Tuning::read(&path).unwrap_err().to_string().contains("not the journal"));
        std::fs::remove_file(&path).unwrap();
        assert!(Tuning::read(&path).is_err());
    }

    fn games() -> GameSettings {
        GameSettings {
            factory: std::sync::Arc::new(|| Box::new(tandem_search::Bootstrap::default())),
            judge: "bootstrap".into(),
            nodes: 60,
            hash: 1,
            openings: crate::Openings::default(),
            adjudication: crate::Adjudication::default(),
        }
    }

    #[test]
    fn games_are_played_where_numbers_can_be_turned() {
        let path = file("games");
        let plan = || Plan { pairs: 1, conditions: games().conditions(), ..plan(4) };
        let tuned = tune(plan(), &games(), 2, &path, &AtomicBool::new(false), &mut |_| ());
        if !cfg!(feature = "tune") {
            assert!(tuned.unwrap_err().to_string().contains("--features tune") && !path.exists());
            return;
        }
        assert_eq!(tuned.unwrap().points().games(), 8);
        std::fs::remove_file(&path).unwrap();
    }

    /// Two settings in one program really are two: a search with all its features off loses.
    #[test]
    #[cfg(feature = "tune")]
    fn the_sides_play_by_their_own_numbers() {
        let settings = GameSettings { nodes: 400, ..games() };
        let switches = tandem_search::params::TABLE.iter().filter(|param| param.name.starts_with("use_"));
        let numbers: Vec<Tuned> = switches.map(Tuned::new).collect();
        let mut contest = Games::new(&settings, &numbers, 1).unwrap();
        let on = numbers.iter().map(|number| number.start).collect();
        let trial = Trial { plus: on, minus: vec![0; numbers.len()] };
        let mut points = Points::default();
        for pair in 0..6 {
            points += contest.play(&trial, pair, &AtomicBool::new(false)).unwrap().unwrap();
        }
        assert!(points.lead() >= 6, "{points:?}");
    }
}
