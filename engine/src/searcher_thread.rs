//! The life of the searcher: idle, at work on a thread of its own, or lost with a thread that panicked and
//! built anew.

use crate::output::Faults;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use tandem_search::options::DEFAULT_HASH;
use tandem_search::{EvaluatorFactory, Limits, STACK_SIZE, Searcher, Settings, Signals, Strategist};

/// Condition under which work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Termination {
    /// It ends by itself within its limits.
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
}

/// Work for the searcher, on a thread of its own.
pub(crate) type Task = Box<dyn FnOnce(&mut Searcher) + Send>;

/// The searcher, idle or moved to the thread that works with it.
enum State {
    Idle(Box<Searcher>),
    Busy {
        thread: JoinHandle<Box<Searcher>>,
        termination: Termination,
        /// Termination of the work after `ponderhit`, if it ponders.
        after_ponderhit: Option<Termination>,
    },
    /// The searcher was lost with a thread that panicked; it is rebuilt before the next command.
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
    /// Set by the reader as soon as `quit` is read, to end slow commands.
    quitting: Arc<AtomicBool>,
    /// Configuration of the searcher when it was last moved to a thread.
    config: SearcherConfig,
    faults: Faults,
}

impl SearcherThread {
    /// Takes an idle searcher; what goes wrong later is reported to `faults`.
    pub(crate) fn new(searcher: Searcher, faults: Faults) -> Self {
        Self {
            signals: searcher.signals(),
            quitting: Arc::default(),
            config: SearcherConfig::of(&searcher),
            state: State::Idle(Box::new(searcher)),
            faults,
        }
    }

    /// Signals that end the work, in this and every later searcher.
    pub(crate) fn signals(&self) -> Arc<Signals> {
        Arc::clone(&self.signals)
    }

    /// Flag that the reader sets when `quit` is read; it ends slow work such as clearing a large table.
    pub(crate) fn quitting(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.quitting)
    }

    /// Moves the searcher to a thread for work that takes time. `after_ponderhit` is the termination after
    /// the expected move was played, if the work ponders. Returns false if the searcher is busy or no thread
    /// is available.
    pub(crate) fn start(
        &mut self,
        termination: Termination,
        after_ponderhit: Option<Termination>,
        task: impl FnOnce(&mut Searcher) + Send + 'static,
    ) -> bool {
        let Some(mut searcher) = self.take() else { return false };
        self.config = SearcherConfig::of(&searcher);
        self.signals.arm(after_ponderhit.is_some());
        if self.quitting.load(Relaxed) {
            self.signals.stop();
        }
        let spawned = std::thread::Builder::new().stack_size(STACK_SIZE).spawn(move || {
            task(&mut searcher);
            searcher
        });
        match spawned {
            Ok(thread) => {
                self.state = State::Busy { thread, termination, after_ponderhit };
                true
            }
            Err(error) => {
                self.faults.report(format_args!("no thread to search with: {error}"));
                self.rebuild();
                false
            }
        }
    }

    /// True if the searcher works and may never end, so that it cannot be waited for; then the user gets a
    /// message.
    pub(crate) fn is_busy(&self) -> bool {
        let State::Busy { thread, termination, .. } = &self.state else { return false };
        let busy =
            *termination != Termination::Bounded && !self.signals.is_stopped() && !thread.is_finished();
        if busy {
            self.faults.report("busy thinking; send 'stop' first");
        }
        busy
    }

    /// The searcher, once its work has ended. `None` if that cannot be waited for.
    pub(crate) fn searcher(&mut self) -> Option<&mut Searcher> {
        if self.is_busy() {
            return None;
        }
        self.wait();
        match &mut self.state {
            State::Idle(searcher) => Some(searcher),
            _ => None,
        }
    }

    /// Takes the searcher once its work has ended; [`Self::put_back`] returns it. `None` if that cannot be
    /// waited for.
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

    /// The opponent played the expected move: from now on the limits apply.
    pub(crate) fn ponder_hit(&mut self) {
        self.signals.ponder_hit();
        if let State::Busy { termination, after_ponderhit: Some(hit), .. } = &mut self.state {
            *termination = *hit;
        }
    }

    /// Waits for bounded work after the end of the input; any other is stopped, because nothing else could.
    pub(crate) fn end_of_input(&mut self) {
        if let State::Busy { termination, .. } = self.state
            && termination != Termination::Bounded
        {
            self.signals.stop();
        }
        self.wait();
    }

    /// Waits for the end of the work and takes the searcher back.
    pub(crate) fn wait(&mut self) {
        match std::mem::replace(&mut self.state, State::Lost) {
            State::Busy { thread, .. } => match thread.join() {
                Ok(searcher) => self.state = State::Idle(searcher),
                Err(_) => {
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

    /// Waits for the end of the work, and stops it first if it would otherwise go on for ever. A search for a
    /// mate is not stopped, so it may not return before `stop` if there is none.
    pub(crate) fn finish(&mut self) {
        if let State::Busy { termination: Termination::OnStop, .. } = self.state {
            self.signals.stop();
        }
        self.wait();
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
        // The reader holds the existing signals, so the new searcher must obey them.
        let mut searcher = searcher.with_signals(Arc::clone(&self.signals));
        searcher.settings = settings.clone();
        searcher.set_threads(*threads);
        searcher.set_strategist(strategist.clone());
        if let Err(error) = searcher.set_syzygy(syzygy_path) {
            self.faults.report(format_args!("{error}; endgame tables are off now"));
        }
        self.state = State::Idle(Box::new(searcher));
    }
}
