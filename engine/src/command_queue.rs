//! The order in which commands take effect, without input, output or threads.
//!
//! One thread reads lines. Another executes them, and gets an event when the work that it started (a search,
//! `bench`, `perft`) has ended; lines and ends of work arrive in one channel. The thread that executes never waits for
//! work, so it sees each command as soon as it is read, and it alone starts and stops work:
//!
//! - `stop` and `ponderhit` apply to the work in progress and to all commands that wait, which are those read
//!   before, and to nothing read later.
//! - `isready` is answered at once while work is in progress, otherwise in its turn.
//! - `quit` stops all work read before it and ends the engine in its turn.
//! - All other commands are executed in the order in which they were read. Those that need the searcher wait
//!   until it is idle, and whatever was read after a waiting command waits with it.

use std::collections::VecDeque;

/// Kind of a command, which decides when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// `stop` ends work at once.
    Stop,
    /// `ponderhit` ends pondering at once.
    PonderHit,
    /// `isready` is answered at once during work.
    IsReady,
    /// `quit` ends work at once, and the engine in its turn.
    Quit,
    /// A command that does not need the searcher, such as `position`.
    Light,
    /// A command that needs the idle searcher, and may put it to work.
    NeedsSearcher,
}

/// Commands that arrived while another one waited, and that apply to the work which it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Orders {
    /// `stop` or `quit`: the work ends at once.
    pub(crate) stop: bool,
    /// `ponderhit`: the work does not ponder.
    pub(crate) ponder_hit: bool,
}

/// Consequence of a command that takes effect when it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtOnce<C> {
    /// The work in progress, if any, is to be stopped.
    Stop,
    /// The work in progress, if any, no longer ponders.
    PonderHit,
    /// The command is to be executed before those that wait.
    Execute(C),
}

/// Commands that wait for the end of the work in progress.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct CommandQueue<C> {
    is_busy: bool,
    waiting: VecDeque<(Kind, C, Orders)>,
}

impl<C> Default for CommandQueue<C> {
    fn default() -> Self {
        Self { is_busy: false, waiting: VecDeque::new() }
    }
}

impl<C> CommandQueue<C> {
    /// Notes that work is in progress, or that it has ended.
    pub(crate) fn set_busy(&mut self, is_busy: bool) {
        self.is_busy = is_busy;
    }

    /// Takes a command that was read. Afterwards [`Self::next`] gives the commands whose turn has come.
    pub(crate) fn arrive(&mut self, kind: Kind, command: C) -> Option<AtOnce<C>> {
        match kind {
            Kind::Stop => {
                self.stop_waiting();
                Some(AtOnce::Stop)
            }
            Kind::PonderHit => {
                self.waiting.iter_mut().for_each(|(_, _, orders)| orders.ponder_hit = true);
                Some(AtOnce::PonderHit)
            }
            Kind::Quit => {
                self.stop_waiting();
                self.waiting.push_back((kind, command, Orders::default()));
                Some(AtOnce::Stop)
            }
            Kind::IsReady if self.is_busy => Some(AtOnce::Execute(command)),
            Kind::IsReady | Kind::Light | Kind::NeedsSearcher => {
                self.waiting.push_back((kind, command, Orders::default()));
                None
            }
        }
    }

    /// Makes all work that waiting commands will start end at once.
    pub(crate) fn stop_waiting(&mut self) {
        self.waiting.iter_mut().for_each(|(_, _, orders)| orders.stop = true);
    }

    /// The next command whose turn has come.
    pub(crate) fn next(&mut self) -> Option<(C, Orders)> {
        let must_wait = |&(kind, ..): &(Kind, C, Orders)| self.is_busy && kind == Kind::NeedsSearcher;
        if self.waiting.front().is_none_or(must_wait) {
            return None;
        }
        self.waiting.pop_front().map(|(_, command, orders)| (command, orders))
    }

    /// True if a command waits.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// True if no work is in progress and no command waits.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_busy && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Commands of the model; `Go` starts a search.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Command {
        Stop,
        PonderHit,
        IsReady,
        Quit,
        Position,
        SetOption,
        Go { infinite: bool, ponder: bool },
    }

    use Command::{Go, IsReady, PonderHit, Position, Quit, SetOption, Stop};

    const COMMANDS: [Command; 9] = [
        Stop,
        PonderHit,
        IsReady,
        Quit,
        Position,
        SetOption,
        Go { infinite: false, ponder: false },
        Go { infinite: true, ponder: false },
        Go { infinite: false, ponder: true },
    ];

    impl Command {
        fn kind(self) -> Kind {
            match self {
                Stop => Kind::Stop,
                PonderHit => Kind::PonderHit,
                IsReady => Kind::IsReady,
                Quit => Kind::Quit,
                Position => Kind::Light,
                SetOption | Go { .. } => Kind::NeedsSearcher,
            }
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Event {
        Line(usize),
        WorkEnded,
    }

    /// A search, with the line that started it.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Search {
        line: usize,
        infinite: bool,
        pondering: bool,
        stopped: bool,
        has_answered: bool,
    }

    /// Reader, channel, executor and search thread; lines are indices of the script.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
    struct Engine {
        num_read: usize,
        channel: VecDeque<Event>,
        queue: CommandQueue<usize>,
        search: Option<Search>,
        executed: Vec<usize>,
        answers: Vec<usize>,
        has_left: bool,
    }

    impl Engine {
        /// The states after each step that one of the three threads can take next.
        fn successors(&self, script: &[Command]) -> Vec<Self> {
            let mut states = Vec::new();
            let has_quit = self.num_read > 0 && script[self.num_read - 1] == Quit;
            if self.num_read < script.len() && !has_quit {
                let mut next = self.clone();
                next.channel.push_back(Event::Line(self.num_read));
                next.num_read += 1;
                states.push(next);
            }
            if self.search.as_ref().is_some_and(Search::may_answer) {
                let mut next = self.clone();
                let search = next.search.as_mut().unwrap();
                search.has_answered = true;
                next.answers.push(search.line);
                next.channel.push_back(Event::WorkEnded);
                states.push(next);
            }
            if !self.channel.is_empty() && !self.has_left {
                let mut next = self.clone();
                let event = next.channel.pop_front().unwrap();
                next.handle(event, script);
                states.push(next);
            }
            states
        }

        /// The step of the thread that executes commands.
        fn handle(&mut self, event: Event, script: &[Command]) {
            if self.search.as_ref().is_some_and(|search| search.has_answered) {
                self.search = None;
                self.queue.set_busy(false);
                self.execute_waiting(script);
            }
            let Event::Line(line) = event else { return };
            let executed_before = self.executed.len();
            match self.queue.arrive(script[line].kind(), line) {
                Some(AtOnce::Stop) => self.search.iter_mut().for_each(|search| search.stopped = true),
                Some(AtOnce::PonderHit) => {
                    self.search.iter_mut().for_each(|search| search.pondering = false);
                }
                Some(AtOnce::Execute(line)) => self.executed.push(line),
                None => {}
            }
            self.execute_waiting(script);
            if script[line] == IsReady {
                assert_eq!(self.executed[executed_before..], [line], "isready is answered at once: {self:?}");
            }
        }

        fn execute_waiting(&mut self, script: &[Command]) {
            while let Some((line, Orders { stop, ponder_hit })) = self.queue.next() {
                self.executed.push(line);
                match script[line] {
                    Go { infinite, ponder } => {
                        assert_eq!(self.search, None, "one search at a time");
                        let pondering = ponder && !ponder_hit;
                        let search = Search { line, infinite, pondering, stopped: stop, has_answered: false };
                        self.search = Some(search);
                        self.queue.set_busy(true);
                    }
                    SetOption => assert_eq!(self.search, None, "the searcher is idle"),
                    Quit => self.has_left = true,
                    _ => {}
                }
            }
        }

        /// Checks what must hold in every state.
        fn check(&self, script: &[Command]) {
            let later = |command: Command, line: usize| script[line..].contains(&command);
            if let Some(search) = &self.search {
                // Only what was read later acts on a search.
                let (stop, hit) = (later(Stop, search.line), later(PonderHit, search.line));
                assert!(!search.stopped || stop || later(Quit, search.line), "{script:?} {self:?}");
                let Go { ponder, .. } = script[search.line] else { panic!("{self:?}") };
                assert!(search.pondering || !ponder || hit, "{script:?} {self:?}");
            }
            let in_turn = self.executed.iter().filter(|&&line| script[line] != IsReady);
            assert!(in_turn.is_sorted_by(|a, b| a < b), "{script:?} {self:?}");
        }

        /// Checks the state after which no thread can take a step.
        fn check_end(&self, script: &[Command]) {
            assert!(
                self.search.as_ref().is_none_or(|search| search.has_answered || search.must_go_on(script))
            );
            if self.search.as_ref().is_none_or(|search| search.has_answered) {
                assert!(self.queue.waiting.is_empty(), "{script:?} {self:?}");
            }
            // A quit is always reached, and so is every command that no endless search stands before.
            assert!(!script.contains(&Quit) || self.has_left, "{script:?} {self:?}");
            let started = self.executed.iter().filter(|&&line| matches!(script[line], Go { .. }));
            let unanswered = self.search.iter().filter(|search| !search.has_answered).count();
            assert_eq!(started.count(), self.answers.len() + unanswered, "{script:?} {self:?}");
        }
    }

    impl Search {
        fn may_answer(&self) -> bool {
            !self.has_answered && (self.stopped || !self.infinite && !self.pondering)
        }

        /// True if the script has nothing after the search that ends it.
        fn must_go_on(&self, script: &[Command]) -> bool {
            let later = &script[self.line..];
            let hit = later.contains(&PonderHit);
            !later.contains(&Stop) && !later.contains(&Quit) && (self.infinite || !hit)
        }
    }

    /// Goes through all interleavings of the three threads, and returns the number of different states.
    fn explore(script: &[Command]) -> usize {
        let mut seen = HashSet::new();
        let mut open = vec![Engine::default()];
        while let Some(state) = open.pop() {
            state.check(script);
            let successors = state.successors(script);
            if successors.is_empty() {
                state.check_end(script);
            }
            open.extend(successors.into_iter().filter(|next| seen.insert(next.clone())));
        }
        seen.len()
    }

    #[test]
    fn no_interleaving_loses_a_command() {
        let mut num_states = 0;
        for length in 1..=5 {
            for number in 0..COMMANDS.len().pow(length) {
                let script: Vec<Command> = (0..length)
                    .map(|place| COMMANDS[number / COMMANDS.len().pow(place) % COMMANDS.len()])
                    .collect();
                num_states += explore(&script);
            }
        }
        assert!(num_states > 1_000_000, "{num_states}");
    }

    #[test]
    fn a_stop_passes_everything_that_waits() {
        let mut queue = CommandQueue::default();
        queue.arrive(Kind::NeedsSearcher, "go depth 200");
        assert_eq!(queue.next(), Some(("go depth 200", Orders::default())));
        queue.set_busy(true);
        for command in ["ucinewgame", "go infinite"] {
            assert_eq!(queue.arrive(Kind::NeedsSearcher, command), None);
        }
        assert_eq!(queue.arrive(Kind::Light, "position startpos"), None);
        assert_eq!(queue.next(), None);
        assert_eq!(queue.arrive(Kind::IsReady, "isready"), Some(AtOnce::Execute("isready")));
        assert_eq!(queue.arrive(Kind::Stop, "stop"), Some(AtOnce::Stop));
        queue.arrive(Kind::NeedsSearcher, "go depth 3");
        queue.set_busy(false);
        let stopped = Orders { stop: true, ponder_hit: false };
        assert_eq!(queue.next(), Some(("ucinewgame", stopped)));
        assert_eq!(queue.next(), Some(("go infinite", stopped)));
        queue.set_busy(true);
        assert_eq!(queue.next(), Some(("position startpos", stopped)));
        assert_eq!(queue.next(), None);
        queue.set_busy(false);
        assert_eq!(queue.next(), Some(("go depth 3", Orders::default())));
        assert!(queue.is_idle());
    }
}
