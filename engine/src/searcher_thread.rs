//! The life of the searcher: idle, at work on a thread of its own, or lost with a thread that panicked and
//! built anew.

use crate::command_queue::Orders;
use crate::output::{Faults, send};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tandem_search::options::DEFAULT_HASH;
use tandem_search::{EvaluatorFactory, Limits, STACK_SIZE, Searcher, Settings, Signals, Strategist};

/// Condition under which work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Termination {
    /// It is not a search, and ends by itself.
    Job,
    /// It is a search that ends by itself within its limits.
    Bounded,
    /// It ends if a mate is found, which is not certain.
    MateSearch,
    /// It ends only after `stop`.
    OnStop,
}

impl Termination {
    /// Termination of a search within these limits.
    pub(crate) fn of(limits: &Limits) -> Self {
        match limits.mate {
            _ if limits.is_bounded() => Self::Bounded,
            Some(_) if !limits.infinite && !limits.ponder => Self::MateSearch,
            _ => Self::OnStop,
        }
    }

    /// True if the work is sure to end without `stop`.
    pub(crate) fn is_certain(self) -> bool {
        matches!(self, Self::Job | Self::Bounded)
    }
}

/// Function that works with the searcher, on a thread of its own. The text that it returns is sent when the work counts
/// as ended, so that a GUI that reads it finds the engine idle; empty for nothing. An error is reported.
pub(crate) type Task = Box<dyn FnOnce(&mut Searcher) -> Result<String, String> + Send>;

/// Work for the searcher.
pub(crate) struct Work {
    pub(crate) termination: Termination,
    /// Termination after `ponderhit`, if the work ponders.
    pub(crate) after_ponderhit: Option<Termination>,
    pub(crate) task: Task,
    /// Text to send if the task panics or cannot be started, because the GUI waits for a move; empty for nothing.
    pub(crate) fallback: String,
}

impl Work {
    /// Work that is not a search.
    pub(crate) fn job(task: impl FnOnce(&mut Searcher) -> Result<String, String> + Send + 'static) -> Self {
        Self {
            termination: Termination::Job,
            after_ponderhit: None,
            task: Box::new(task),
            fallback: String::new(),
        }
    }
}

/// The searcher, idle or moved to the thread that works with it.
enum State {
    Idle(Box<Searcher>),
    Busy {
        /// The thread returns the searcher, or nothing if the work panicked.
        thread: JoinHandle<Option<Box<Searcher>>>,
        /// Set before the answer is sent.
        has_ended: Arc<AtomicBool>,
        termination: Termination,
        after_ponderhit: Option<Termination>,
    },
    /// The searcher was lost with work that panicked; it is rebuilt before the next command.
    Lost,
}

/// Configuration of a searcher, from which it is rebuilt if the thread that works with it panics.
struct SearcherConfig {
    factory: Arc<EvaluatorFactory>,
    hash: usize,
    threads: usize,
    settings: Settings,
    strategist: Option<Arc<dyn Strategist>>,
    syzygy_path: String,
}

impl SearcherConfig {
    fn of(searcher: &Searcher) -> Self {
        Self {
            factory: searcher.factory(),
            hash: searcher.hash_mib(),
            threads: searcher.threads(),
            settings: searcher.settings.clone(),
            strategist: searcher.strategist().cloned(),
            syzygy_path: searcher.syzygy_path().into(),
        }
    }
}

/// Owner of the searcher, which lends it while it is idle and moves it to a thread for work that takes time.
pub(crate) struct SearcherThread {
    state: State,
    signals: Arc<Signals>,
    /// Called at the end of work, on its thread.
    notify: Arc<dyn Fn() + Send + Sync>,
    /// Configuration of the searcher when it was last moved to a thread.
    config: SearcherConfig,
    faults: Faults,
}

impl SearcherThread {
    /// Takes an idle searcher; what goes wrong later is reported to `faults`.
    pub(crate) fn new(searcher: Searcher, faults: Faults) -> Self {
        Self {
            signals: searcher.signals(),
            notify: Arc::new(|| ()),
            config: SearcherConfig::of(&searcher),
            state: State::Idle(Box::new(searcher)),
            faults,
        }
    }

    /// Sets the function that is called when work has ended.
    pub(crate) fn set_notify(&mut self, notify: impl Fn() + Send + Sync + 'static) {
        self.notify = Arc::new(notify);
    }

    /// Moves the idle searcher to a thread for work that takes time, which the orders may end at once. Without a
    /// thread the fallback is sent.
    pub(crate) fn start(&mut self, work: Work, orders: Orders) {
        let Work { termination, after_ponderhit, task, fallback } = work;
        let Some(searcher) = self.take() else { return send_answer(&fallback) };
        self.config = SearcherConfig::of(&searcher);
        self.signals.arm(after_ponderhit.is_some() && !orders.ponder_hit);
        if orders.stop {
            self.signals.stop();
        }
        let has_ended = Arc::new(AtomicBool::new(false));
        let (ended, notify, faults) = (Arc::clone(&has_ended), Arc::clone(&self.notify), self.faults.clone());
        let answer_without_thread = fallback.clone();
        // The searcher stays here if the system refuses the thread.
        let slot = Arc::new(Mutex::new(Some(searcher)));
        let take = |slot: &Mutex<Option<_>>| slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let spare = Arc::clone(&slot);
        let spawned = std::thread::Builder::new().stack_size(STACK_SIZE).spawn(move || {
            let mut searcher: Box<Searcher> = take(&slot)?;
            let answer = catch_unwind(AssertUnwindSafe(|| task(&mut searcher)));
            ended.store(true, Release);
            let searcher = match answer {
                Ok(answer) => {
                    match answer {
                        Ok(text) => send_answer(&text),
                        Err(error) => faults.report(error),
                    }
                    Some(searcher)
                }
                Err(_) => {
                    send_answer(&fallback);
                    None
                }
            };
            notify();
            searcher
        });
        let termination = after_ponderhit.filter(|_| orders.ponder_hit).unwrap_or(termination);
        match spawned {
            Ok(thread) => self.state = State::Busy { thread, has_ended, termination, after_ponderhit },
            Err(error) => {
                self.faults.report(format_args!("no thread to search with: {error}"));
                self.state = take(&spare).map_or(State::Lost, State::Idle);
                send_answer(&answer_without_thread);
            }
        }
    }

    /// True if work is in progress; takes the searcher back from work that has ended.
    pub(crate) fn is_busy(&mut self) -> bool {
        if let State::Busy { thread, has_ended, .. } = &self.state {
            if !has_ended.load(Acquire) && !thread.is_finished() {
                return true;
            }
            self.wait();
        }
        false
    }

    /// Termination of the work in progress; `None` if there is none.
    pub(crate) fn termination(&self) -> Option<Termination> {
        match self.state {
            State::Busy { termination, .. } => Some(termination),
            _ => None,
        }
    }

    /// The searcher, once its work has ended. `None` if it was lost and memory is too short for a new one.
    pub(crate) fn searcher(&mut self) -> Option<&mut Searcher> {
        self.wait();
        match &mut self.state {
            State::Idle(searcher) => Some(searcher),
            _ => None,
        }
    }

    /// Takes the searcher once its work has ended; [`Self::put_back`] returns it. `None` as for
    /// [`Self::searcher`].
    pub(crate) fn take(&mut self) -> Option<Box<Searcher>> {
        self.searcher()?;
        match std::mem::replace(&mut self.state, State::Lost) {
            State::Idle(searcher) => Some(searcher),
            _ => None,
        }
    }

    /// Returns a searcher that was taken.
    pub(crate) fn put_back(&mut self, searcher: Box<Searcher>) {
        self.state = State::Idle(searcher);
    }

    /// Ends the work in progress.
    pub(crate) fn stop(&self) {
        self.signals.stop();
    }

    /// The opponent played the expected move: from now on the limits apply.
    pub(crate) fn ponder_hit(&mut self) {
        self.signals.ponder_hit();
        if let State::Busy { termination, after_ponderhit: Some(hit), .. } = &mut self.state {
            *termination = *hit;
        }
    }

    /// Waits for the end of the work and takes the searcher back.
    pub(crate) fn wait(&mut self) {
        match std::mem::replace(&mut self.state, State::Lost) {
            State::Busy { thread, .. } => match thread.join() {
                Ok(Some(searcher)) => self.state = State::Idle(searcher),
                Ok(None) | Err(_) => {
                    self.faults.report(
                        "the search failed; this is a bug, please report it with the commands that led to it",
                    );
                    self.rebuild();
                }
            },
            State::Idle(searcher) => self.state = State::Idle(searcher),
            State::Lost => self.rebuild(),
        }
    }

    /// Creates a new searcher, configured as the one that was lost.
    fn rebuild(&mut self) {
        let SearcherConfig { factory, hash, threads, settings, strategist, syzygy_path } = &self.config;
        let made = Searcher::new(Arc::clone(factory), *hash).or_else(|error| {
            self.faults.report(format_args!("{error}; Hash is {DEFAULT_HASH} now"));
            Searcher::new(Arc::clone(factory), DEFAULT_HASH)
        });
        let searcher = match made {
            Ok(searcher) => searcher,
            Err(error) => return self.faults.report(format_args!("no searcher can be made: {error}")),
        };
        let mut searcher = searcher.with_signals(Arc::clone(&self.signals));
        searcher.settings = settings.clone();
        if let Err(error) = searcher.try_set_threads(*threads) {
            self.faults.report(format_args!("{error}; Threads is 1 now"));
        }
        searcher.set_strategist(strategist.clone());
        if let Err(error) = searcher.set_syzygy(syzygy_path) {
            self.faults.report(format_args!("{error}; endgame tables are off now"));
        }
        self.state = State::Idle(Box::new(searcher));
    }
}

/// Sends a text of several lines; nothing if it is empty.
fn send_answer(text: &str) {
    if !text.is_empty() {
        send(text);
    }
}
