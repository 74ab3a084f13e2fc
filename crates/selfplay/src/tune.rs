//! Tuning of the search parameters by SPSA: games between perturbed settings decide in which direction they
//! move.
//!
//! Every iteration is stored in a journal, from which the state is recomputed; a killed tuning loses only the
//! iterations in progress.

mod game_pairs;
mod plan;
mod spsa;

pub use game_pairs::{GameResults, GameSettings};
pub use plan::{TunedParameter, TuningPlan};

use crate::error::SelfPlayError;
use crate::journal;
use crate::threads::on_threads;
use game_pairs::{PairPlayer, SearcherPair};
use spsa::Spsa;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use tandem_util::journal::{Journal, JournalError, JournalFormat};

const FORMAT: JournalFormat = JournalFormat::Blocks { magic: b"TTUNING2" };
/// Largest number of points of a trajectory, enough for a plot.
const MAX_TRAJECTORY_POINTS: u64 = 500;

/// State of a tuning of search parameters by games (SPSA): its plan, the current values and the results so
/// far.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    plan: TuningPlan,
    spsa: Spsa,
    /// Iterations that are finished, by number; threads finish them out of order.
    done: Vec<bool>,
    results: GameResults,
    trajectory: Vec<(u64, Vec<f64>)>,
    notices: Vec<String>,
}

impl Tuning {
    fn new(plan: TuningPlan) -> Self {
        let spsa = Spsa::new(&plan);
        let trajectory = vec![(0, spsa.values().to_vec())];
        Self {
            spsa,
            done: vec![false; plan.iterations as usize],
            results: GameResults::default(),
            trajectory,
            notices: Vec::new(),
            plan,
        }
    }

    /// Reads the state of a tuning from its journal, whether or not it is still running.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is damaged, or is not the journal of a tuning.
    pub fn read(path: &Path) -> Result<Self, SelfPlayError> {
        let mut blocks = Vec::new();
        let about = Journal::read_unlocked(path, FORMAT, |block| -> Result<(), JournalError> {
            blocks.push(block.to_vec());
            Ok(())
        })?;
        let plan = about.and_then(|about| TuningPlan::parse(&String::from_utf8_lossy(&about)));
        let Some(plan) = plan else {
            let problem = "not the journal of a tuning".into();
            return Err(SelfPlayError::File { path: path.into(), problem });
        };
        let mut tuning = Self::new(plan);
        blocks.iter().try_for_each(|block| tuning.replay(block, path))?;
        Ok(tuning)
    }

    /// Plan of the tuning: its parameters, number of games and learning rate.
    pub fn plan(&self) -> &TuningPlan {
        &self.plan
    }

    /// Current values of the tuned parameters, not rounded to integers, in the order of
    /// [`TuningPlan::parameters`].
    pub fn values(&self) -> &[f64] {
        self.spsa.values()
    }

    /// Results of all games so far, for the plus sides: the players whose parameters were changed by plus the
    /// random perturbation, against those changed by minus it.
    pub fn results(&self) -> GameResults {
        self.results
    }

    /// Sentences for the user about the journal as it was found, for example that a damaged iteration at its end
    /// was removed.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// True if all games of the plan are played.
    pub fn is_finished(&self) -> bool {
        self.results.games() >= self.plan.games()
    }

    /// Number of games played and the values of all parameters at that time, at a few hundred moments from
    /// the start until now, for a plot.
    pub fn trajectory(&self) -> impl Iterator<Item = (u64, &[f64])> {
        let now = (self.results.games(), self.values());
        let last = self.trajectory.last().is_none_or(|(games, _)| *games != now.0).then_some(now);
        self.trajectory.iter().map(|(games, values)| (*games, values.as_slice())).chain(last)
    }

    /// First unfinished iteration from `first` on.
    fn next(&self, first: u64) -> Option<u64> {
        (first..self.plan.iterations).find(|&iteration| !self.done[iteration as usize])
    }

    /// Updates the values by the result of an iteration. The state follows from these calls alone, in the
    /// order of the journal.
    fn add(&mut self, iteration: u64, results: GameResults) {
        self.spsa.update(&self.plan, iteration, results.net_wins());
        self.done[iteration as usize] = true;
        self.results += results;
        let every = self.plan.games().div_ceil(MAX_TRAJECTORY_POINTS);
        if self.results.games() / every > self.trajectory.last().map_or(0, |(games, _)| games / every) {
            self.trajectory.push((self.results.games(), self.spsa.values().to_vec()));
        }
    }

    /// Applies an iteration that an earlier run has stored.
    fn replay(&mut self, block: &[u8], path: &Path) -> Result<(), SelfPlayError> {
        let fits = |&(iteration, results): &(u64, GameResults)| {
            self.done.get(iteration as usize) == Some(&false) && results.games() == 2 * self.plan.pairs
        };
        let Some((iteration, results)) = unpack(block).filter(fits) else {
            let problem = "holds an iteration that is not of this tuning; move it away to begin anew".into();
            return Err(SelfPlayError::File { path: path.into(), problem });
        };
        self.add(iteration, results);
        Ok(())
    }
}

/// An iteration as a block of the journal.
fn pack(iteration: u64, GameResults { wins, draws, losses }: GameResults) -> Vec<u8> {
    [iteration, wins, draws, losses].map(u64::to_le_bytes).concat()
}

fn unpack(block: &[u8]) -> Option<(u64, GameResults)> {
    let (values, []) = block.as_chunks() else { return None };
    let &[iteration, wins, draws, losses] = values else { return None };
    let [iteration, wins, draws, losses] = [iteration, wins, draws, losses].map(u64::from_le_bytes);
    Some((iteration, GameResults { wins, draws, losses }))
}

/// Tunes search parameters by games on `workers` threads, or resumes an earlier run from the journal at
/// `path`. `watch` receives the state after each iteration (one perturbation, its games and one update).
///
/// # Errors
///
/// Fails if the program was built without the feature `tune`, if the journal belongs to another plan, if no
/// balanced opening is found, or if a file cannot be written.
pub fn tune(
    plan: TuningPlan,
    games: &GameSettings,
    workers: usize,
    path: &Path,
    cancel: &AtomicBool,
    watch: &mut (dyn FnMut(&Tuning) + Send),
) -> Result<Tuning, SelfPlayError> {
    if !cfg!(feature = "tune") {
        return Err(SelfPlayError::NotTunable);
    }
    let (parameters, seed) = (plan.parameters.clone(), plan.seed);
    run(plan, &|| SearcherPair::new(games, &parameters, seed), workers, path, cancel, watch)
}

/// State shared by the threads of a tuning.
struct SharedState<'a> {
    tuning: Tuning,
    journal: Journal,
    /// Iterations before this one are finished or in progress.
    next: u64,
    watch: &'a mut (dyn FnMut(&Tuning) + Send),
}

/// The plan stored in the journal at `path`, if it is equal to this one apart from old names of parameters,
/// so that the tuning can be resumed.
fn stored_plan(path: &Path, plan: &TuningPlan) -> Option<String> {
    let about = Journal::read_unlocked(path, FORMAT, |_| Ok::<(), JournalError>(())).ok()??;
    let about = String::from_utf8(about).ok()?;
    (TuningPlan::parse(&about)? == *plan).then_some(about)
}

fn run<C: PairPlayer>(
    plan: TuningPlan,
    player: &(dyn Fn() -> Result<C, SelfPlayError> + Sync),
    workers: usize,
    path: &Path,
    cancel: &AtomicBool,
    watch: &mut (dyn FnMut(&Tuning) + Send),
) -> Result<Tuning, SelfPlayError> {
    let about = stored_plan(path, &plan).unwrap_or_else(|| plan.to_string());
    let mut journal = journal::open(path, FORMAT, &about)?;
    let pairs = plan.pairs;
    let mut tuning = Tuning::new(plan);
    journal.read(|block| tuning.replay(block, path))?;
    tuning.notices = journal.notices().to_vec();
    watch(&tuning);
    let shared = Mutex::new(SharedState { tuning, journal, next: 0, watch });
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    let work = |_| {
        let mut player = player()?;
        while !cancel.load(Relaxed) {
            let (iteration, trial) = {
                let mut state = lock();
                let Some(iteration) = state.tuning.next(state.next) else { break };
                state.next = iteration + 1;
                (iteration, state.tuning.spsa.trial(&state.tuning.plan, iteration))
            };
            let mut results = GameResults::default();
            for pair in 0..pairs {
                let Some(more) = player.play(&trial, iteration * pairs + pair, cancel)? else {
                    return Ok(());
                };
                results += more;
            }
            let mut state = lock();
            state.journal.append(&pack(iteration, results))?;
            let SharedState { tuning, watch, .. } = &mut *state;
            tuning.add(iteration, results);
            watch(tuning);
        }
        Ok(())
    };
    on_threads(workers.max(1), path, cancel, &work)?;
    Ok(shared.into_inner().unwrap_or_else(PoisonError::into_inner).tuning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spsa::Trial;
    use std::path::PathBuf;
    use tandem_util::random::SplitMix;

    fn plan(iterations: u64) -> TuningPlan {
        let rows = ["lmr_pv", "rfp_margin", "nmp_base"];
        let table = tandem_search::params::TABLE.iter();
        let parameters = table.filter(|param| rows.contains(&param.name)).map(TunedParameter::new).collect();
        TuningPlan { parameters, iterations, pairs: 2, r_end: 0.01, seed: 5, conditions: "dice".into() }
    }

    /// Simulated games that are won more often with a large first parameter. The run is cancelled after this
    /// number of pairs.
    struct Dice(u64);

    impl PairPlayer for Dice {
        fn play(
            &mut self,
            trial: &Trial,
            pair: u64,
            cancel: &AtomicBool,
        ) -> Result<Option<GameResults>, SelfPlayError> {
            if self.0 == 0 {
                cancel.store(true, Relaxed);
                return Ok(None);
            }
            self.0 -= 1;
            let first_is_larger = trial.plus[0] > trial.minus[0];
            let luck = SplitMix::new(pair ^ trial.plus[1] as u64).below(4);
            Ok(Some(match (first_is_larger, luck) {
                (true, 0 | 1) => GameResults { wins: 1, draws: 1, losses: 0 },
                (false, 0 | 1) => GameResults { wins: 0, draws: 1, losses: 1 },
                (_, 2) => GameResults { wins: 1, draws: 0, losses: 1 },
                _ => GameResults { wins: 0, draws: 2, losses: 0 },
            }))
        }
    }

    fn go(plan: TuningPlan, path: &Path, workers: usize, pairs: u64) -> Result<Tuning, SelfPlayError> {
        run(plan, &|| Ok(Dice(pairs)), workers, path, &AtomicBool::new(false), &mut |_| ())
    }

    fn file(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tandem-tune-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn an_interrupted_tuning_ends_like_an_uninterrupted_one() {
        let (whole, broken) = (file("whole"), file("broken"));
        let expected = go(plan(300), &whole, 1, u64::MAX).unwrap();
        assert!(expected.is_finished() && expected.values()[0] > 85.0, "{:?}", expected.values());
        assert_eq!(expected.results().games(), 1200);

        // Interrupted at odd places, the fourth time within a write.
        for pairs in [3, 1, 100, 7] {
            assert!(!go(plan(300), &broken, 1, pairs).unwrap().is_finished());
        }
        let bytes = std::fs::read(&broken).unwrap();
        std::fs::write(&broken, &bytes[..bytes.len() - 5]).unwrap();
        assert_eq!(Tuning::read(&broken).unwrap().results().games(), 4 * (1 + 50 + 3 - 1));
        let resumed = go(plan(300), &broken, 1, u64::MAX).unwrap();
        assert!(resumed.notices()[0].contains("the last entry is incomplete"), "{:?}", resumed.notices());
        assert_eq!(Tuning { notices: Vec::new(), ..resumed }, expected);
        assert_eq!(std::fs::read(&whole).unwrap(), std::fs::read(&broken).unwrap());

        // Nothing is left to do, and everything can be read.
        assert_eq!(go(plan(300), &broken, 3, 0).unwrap(), expected);
        assert_eq!(Tuning::read(&broken).unwrap(), expected);
        let trajectory: Vec<u64> = expected.trajectory().map(|(games, _)| games).collect();
        assert!(trajectory.is_sorted() && trajectory[0] == 0);
        assert!(trajectory.last() == Some(&1200) && trajectory.len() <= 502);
        for path in [whole, broken] {
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn several_workers_do_each_iteration_once() {
        let path = file("workers");
        let _ = go(plan(400), &path, 4, 50).unwrap();
        let tuning = go(plan(400), &path, 3, u64::MAX).unwrap();
        assert!(tuning.is_finished() && tuning.results().games() == 1600);
        assert_eq!(Tuning::read(&path).unwrap(), tuning);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn other_settings_and_other_files_are_refused() {
        let path = file("refused");
        let _ = go(plan(50), &path, 1, 4).unwrap();
        let refused = |plan: TuningPlan| go(plan, &path, 1, 4).unwrap_err().to_string();
        assert!(refused(TuningPlan { seed: 6, ..plan(50) }).contains("(then seed 5; now seed 6)"));
        let mut fewer = plan(50);
        fewer.parameters.remove(2);
        assert!(refused(fewer).contains("now nothing"));
        assert!(refused(plan(60)).contains("then iterations 50; now iterations 60"));

        let held = journal::open(&path, FORMAT, &plan(50).to_string()).unwrap();
        assert!(refused(plan(50)).contains("in use"));
        drop(held);
        let mut journal = journal::open(&path, FORMAT, &plan(50).to_string()).unwrap();
        journal.append(&pack(0, GameResults { wins: 4, draws: 0, losses: 0 })).unwrap();
        drop(journal);
        assert!(refused(plan(50)).contains("not of this tuning"), "an iteration for the second time");
        std::fs::write(&path, "something else").unwrap();
        assert!(Tuning::read(&path).unwrap_err().to_string().contains("not the journal"));
        std::fs::remove_file(&path).unwrap();
        assert!(Tuning::read(&path).is_err());
    }

    /// Journals hold the names that parameters had when the tuning began.
    #[test]
    fn a_tuning_with_old_parameter_names_is_resumed() {
        let path = file("former-names");
        let names = ["hopeless_depth", "counsel_depth"]; // language: old name
        let parameter = |name| {
            tandem_search::params::TABLE.iter().find(|param| param.matches(name)).map(TunedParameter::new)
        };
        let plan =
            || TuningPlan { parameters: names.into_iter().filter_map(parameter).collect(), ..plan(50) };
        let mut former = plan();
        for (parameter, name) in former.parameters.iter_mut().zip(names) {
            parameter.name = name.into();
        }
        let mut journal = journal::open(&path, FORMAT, &former.to_string()).unwrap();
        journal.append(&pack(0, GameResults { wins: 2, draws: 1, losses: 1 })).unwrap();
        drop(journal);
        let tuning = go(plan(), &path, 1, u64::MAX).unwrap();
        assert!(tuning.is_finished() && tuning.results().games() == 200);
        assert_eq!(Tuning::read(&path).unwrap(), tuning);
        assert_eq!(tuning.plan().parameters[1].name, "strategist_depth");
        std::fs::remove_file(path).unwrap();
    }

    fn games() -> GameSettings {
        GameSettings {
            factory: std::sync::Arc::new(|| Box::new(tandem_search::Bootstrap::default())),
            evaluator: "bootstrap".into(),
            nodes: 60,
            hash: 1,
            openings: crate::Openings::default(),
            adjudication: crate::Adjudication::default(),
        }
    }

    #[test]
    fn games_are_played_in_builds_with_tunable_parameters() {
        let path = file("games");
        let plan = || TuningPlan { pairs: 1, conditions: games().conditions(), ..plan(4) };
        let tuned = tune(plan(), &games(), 2, &path, &AtomicBool::new(false), &mut |_| ());
        if !cfg!(feature = "tune") {
            assert!(tuned.unwrap_err().to_string().contains("--features tune") && !path.exists());
            return;
        }
        assert_eq!(tuned.unwrap().results().games(), 8);
        std::fs::remove_file(&path).unwrap();
    }

    /// Two settings in one program are really independent: a search with all its features off loses.
    #[test]
    #[cfg(feature = "tune")]
    fn the_sides_play_with_their_own_parameters() {
        let settings = GameSettings { nodes: 400, ..games() };
        let switches = tandem_search::params::TABLE.iter().filter(|param| param.name.starts_with("use_"));
        let parameters: Vec<TunedParameter> = switches.map(TunedParameter::new).collect();
        let mut player = SearcherPair::new(&settings, &parameters, 1).unwrap();
        let on = parameters.iter().map(|parameter| parameter.start).collect();
        let trial = Trial { plus: on, minus: vec![0; parameters.len()] };
        let mut results = GameResults::default();
        for pair in 0..6 {
            results += player.play(&trial, pair, &AtomicBool::new(false)).unwrap().unwrap();
        }
        assert!(results.net_wins() >= 6, "{results:?}");
    }
}
