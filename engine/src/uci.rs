//! The UCI protocol: one thread reads lines, one executes them, and a third searches.
//!
//! The thread that executes commands never waits for a search, so it sees `stop`, `quit` and `isready` at once, and
//! commands that need the searcher wait until it is idle ([`crate::command_queue`] has the rules). No input can
//! crash it: a line that makes no sense gets one `info string`. After a `position` that was refused there is no
//! position, and `go` is answered by `bestmove 0000`, because a move in another position would be illegal.

use crate::bench::{self, Bench};
use crate::board_text;
use crate::command_queue::{AtOnce, CommandQueue, Kind, Orders};
use crate::eval_text;
use crate::genfens;
use crate::go::{self, Go};
use crate::help::HELP;
use crate::input::{Event, Line, MAX_LINE, read_lines};
use crate::options::{self, Options, Session};
use crate::output::{Faults, info_string, send};
use crate::perft;
use crate::position_text::{self, Parsed};
use crate::searcher_thread::{SearcherThread, Task, Termination, Work};
use crate::uci_output::UciOutput;
use std::io::BufRead;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tandem_chess::{Move, Position};
use tandem_search::options::DEFAULT_HASH;
use tandem_search::{Centipawns, Limits, Score, SearchResult, Searcher};

/// Time for searches after the end of the input. It lets `echo "go depth 8" | tandem` print its result, and ends
/// the process of a GUI that has gone.
const TIME_AFTER_INPUT: Duration = Duration::from_secs(1);

/// Answer to a `go` after a `position` that was refused.
const NO_MOVE: &str = "bestmove 0000";

/// Message for commands that need a position.
const NO_POSITION: &str = "there is no position, because the last 'position' was refused; send another one";

/// State of the protocol: position, options, and the searcher, which may be at work on another thread.
pub struct Uci {
    /// Position to search; `None` after one that was refused.
    position: Option<Position>,
    options: Options,
    thread: SearcherThread,
    queue: CommandQueue<Line>,
    /// Ends slow work, such as clearing a large table, when it is set.
    quitting: Arc<AtomicBool>,
    faults: Faults,
}

/// Result of a line: continue or quit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The engine is ready for the next line.
    Line,
    /// The line was `quit`.
    Quit,
}

impl Default for Uci {
    fn default() -> Self {
        Self::new()
    }
}

impl Uci {
    /// The engine as it starts: starting position, default options, 16 MiB of hash. Exits the process if even
    /// that cannot be allocated.
    pub fn new() -> Self {
        let options = Options::default();
        let searcher = match Searcher::new(options.evaluator.factory(), DEFAULT_HASH) {
            Ok(searcher) => searcher,
            Err(error) => {
                eprintln!("tandem: {error}");
                std::process::exit(1);
            }
        };
        let faults = Faults::default();
        let thread = SearcherThread::new(searcher, faults.clone());
        Self {
            position: Some(Position::startpos()),
            options,
            thread,
            queue: CommandQueue::default(),
            quitting: Arc::default(),
            faults,
        }
    }

    /// Executes lines given as arguments, each to its end. The exit status is 1 if one of them failed.
    pub(crate) fn run_lines(mut self, lines: &[String]) -> ExitCode {
        for line in lines {
            if self.execute(line) == Next::Quit {
                break;
            }
            self.finish_work();
        }
        if self.faults.any() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// Reads and executes lines until `quit` or the end of the input.
    pub(crate) fn run(mut self, input: impl BufRead + Send + 'static) -> ExitCode {
        let (sender, events) = mpsc::channel::<Event>();
        let quitting = Arc::clone(&self.quitting);
        let notify = sender.clone();
        // Without a receiver the engine is about to end.
        self.thread.set_notify(move || drop(notify.send(Event::WorkEnded)));
        // The reader may wait for input for ever, so it is never joined.
        std::thread::spawn(move || read_lines(input, &sender, &quitting));
        loop {
            let next = match events.recv() {
                Ok(Event::Line(line)) => self.handle(line),
                Ok(Event::WorkEnded) => self.execute_waiting(),
                Ok(Event::EndOfInput) | Err(_) => break self.finish_after_input(&events),
            };
            if next == Next::Quit {
                self.thread.stop();
                self.thread.wait();
                break;
            }
        }
        ExitCode::SUCCESS
    }

    /// Executes what was read before the end of the input. A search ends soon; one that is not certain to end by itself
    /// ends at once, because nothing else could end it.
    fn finish_after_input(&mut self, events: &mpsc::Receiver<Event>) {
        let deadline = Instant::now() + TIME_AFTER_INPUT;
        loop {
            if self.execute_waiting() == Next::Quit || self.queue.is_idle() {
                return self.thread.wait();
            }
            let time_left = deadline.saturating_duration_since(Instant::now());
            let late = time_left.is_zero();
            match self.thread.termination() {
                Some(Termination::MateSearch | Termination::OnStop) => self.thread.stop(),
                Some(Termination::Bounded) if late => self.thread.stop(),
                _ => {}
            }
            // Each end of work is an event. With no time left there is nothing else to wait for.
            let _ = if late { events.recv().ok() } else { events.recv_timeout(time_left).ok() };
        }
    }

    /// Executes one line, or keeps it until work in progress has ended. Searches and other long work go on after
    /// it returns; see [`Self::finish_work`].
    pub fn execute(&mut self, line: &str) -> Next {
        let next = self.handle(Line { text: line.to_owned(), is_cut: false });
        if kind(command_of(line).0) == Kind::Quit {
            self.finish_work();
            return Next::Quit;
        }
        next
    }

    /// Takes a line that was read, and executes it and those before it as far as their turn has come.
    fn handle(&mut self, line: Line) -> Next {
        // What has ended by now must not count as work in progress.
        if self.execute_waiting() == Next::Quit {
            return Next::Quit;
        }
        let kind = kind(command_of(&line.text).0);
        let name = command_of(&line.text).0.to_owned();
        match self.queue.arrive(kind, line) {
            Some(AtOnce::Stop) => self.thread.stop(),
            Some(AtOnce::PonderHit) => self.thread.ponder_hit(),
            Some(AtOnce::Execute(line)) => drop(self.execute_now(&line, Orders::default())),
            None => {}
        }
        let next = self.execute_waiting();
        let is_endless = self.thread.termination().is_some_and(|termination| !termination.is_certain());
        if kind == Kind::NeedsSearcher && self.queue.has_waiting() && is_endless {
            info_string(format_args!("'{name}' waits for the end of the search; 'stop' ends it"));
        }
        next
    }

    /// Executes the commands whose turn has come.
    fn execute_waiting(&mut self) -> Next {
        loop {
            self.queue.set_busy(self.thread.is_busy());
            let Some((line, orders)) = self.queue.next() else { return Next::Line };
            if self.execute_now(&line, orders) == Next::Quit {
                return Next::Quit;
            }
        }
    }

    /// Executes a command whose turn has come. The orders apply to the work that it starts.
    fn execute_now(&mut self, line: &Line, orders: Orders) -> Next {
        let (command, arguments) = command_of(&line.text);
        if line.is_cut {
            let name: String = command.chars().take(40).collect();
            self.faults.report(format_args!("'{name}': this line is longer than {MAX_LINE} bytes"));
            match command {
                "position" => self.position = None,
                // A move is owed all the same.
                "go" => self.go(arguments, orders),
                _ => {}
            }
            return Next::Line;
        }
        match command {
            "" | "stop" | "ponderhit" => {}
            "uci" => self.introduce(),
            "isready" => {
                self.options.strategist.problem().into_iter().for_each(info_string);
                send("readyok");
            }
            "ucinewgame" => self.new_game(),
            "setoption" => self.set_option(arguments),
            "position" => self.set_position(arguments),
            "go" => self.go(arguments, orders),
            "quit" => return Next::Quit,
            "d" => self.describe(),
            "eval" => self.evaluate(arguments),
            "perft" => self.perft(arguments, orders),
            "bench" => self.bench(arguments, orders),
            "speedtest" => self.speedtest(arguments, orders),
            "genfens" => self.genfens(arguments, orders),
            "help" | "--help" | "-h" => send(HELP),
            "--version" => send(format_args!("tandem {}", env!("CARGO_PKG_VERSION"))),
            other => {
                let other: String = other.chars().take(40).collect();
                self.faults.report(format_args!("unknown command '{other}'; 'help' lists the commands"));
            }
        }
        Next::Line
    }

    fn introduce(&self) {
        send(format_args!("id name Tandem {}", env!("CARGO_PKG_VERSION")));
        send("id author the Tandem authors");
        options::list();
        send("uciok");
    }

    fn new_game(&mut self) {
        self.position.get_or_insert_with(Position::startpos);
        let quitting = Arc::clone(&self.quitting);
        if let Some(searcher) = self.thread.searcher() {
            searcher.clear(&quitting);
        }
    }

    fn set_option(&mut self, arguments: &str) {
        let (options, cancel) = (self.options.clone(), Arc::clone(&self.quitting));
        let Some(searcher) = self.thread.take() else { return };
        let mut session = Session { options, searcher, cancel };
        match session.set(arguments) {
            Ok(()) => self.options = session.options,
            Err(error) => self.faults.report(error),
        }
        self.thread.put_back(session.searcher);
    }

    fn set_position(&mut self, arguments: &str) {
        match position_text::parse(arguments) {
            Ok(Parsed { position, dropped_rights }) => {
                if !dropped_rights.is_empty() {
                    info_string(format_args!(
                        "position: castling rights '{dropped_rights}' are left out: no king and rook in place for them"
                    ));
                }
                self.position = Some(position);
            }
            Err(error) => {
                self.position = None;
                self.faults.report(error);
            }
        }
    }

    /// The position; reports if there is none.
    fn position(&self) -> Option<Position> {
        if self.position.is_none() {
            self.faults.report(NO_POSITION);
        }
        self.position.clone()
    }

    fn describe(&self) {
        if let Some(position) = self.position() {
            send(board_text::describe(&position));
        }
    }

    fn go(&mut self, arguments: &str, orders: Orders) {
        // The limits do not depend on the position, except for the moves to search.
        let (go, fault) = match &self.position {
            Some(position) => go::parse(arguments, position),
            None => (go::parse(arguments, &Position::startpos()).0, None),
        };
        if let Some(fault) = fault {
            self.faults.report(fault);
        }
        match go {
            Some(Go::Search(limits)) => self.search(limits, orders),
            Some(Go::Perft(depth)) => self.count(depth, orders),
            None => {}
        }
    }

    fn search(&mut self, limits: Limits, orders: Orders) {
        let termination = Termination::of(&limits);
        let after_ponderhit =
            limits.ponder.then(|| Termination::of(&Limits { ponder: false, ..limits.clone() }));
        let (task, fallback) = match self.position() {
            Some(position) => self.search_task(position, limits),
            None => {
                let task: Task = Box::new(move |searcher| {
                    searcher.wait_until_answer_allowed(&limits);
                    Ok(NO_MOVE.into())
                });
                (task, NO_MOVE.into())
            }
        };
        self.thread.start(Work { termination, after_ponderhit, task, fallback }, orders);
    }

    /// The search of a position by the player that the options ask for, and the answer if that fails.
    fn search_task(&self, position: Position, limits: Limits) -> (Task, String) {
        let output = UciOutput::new(position.clone(), &self.options);
        let fallback = output.best_move(&fallback_result(&position, &limits));
        let strategist = &self.options.strategist;
        let task = strategist.player(&position, &limits, &output, &self.faults).unwrap_or_else(|| {
            let (before, after) = strategist.messages();
            Box::new(move |searcher| {
                before();
                let result = searcher.search(&position, &limits, &mut |info| output.info(&info));
                searcher.take_broken_tables().into_iter().for_each(info_string);
                after();
                Ok(output.best_move(&result))
            })
        });
        (task, fallback)
    }

    fn count(&mut self, depth: u32, orders: Orders) {
        let Some(position) = self.position() else { return };
        let chess960 = self.options.chess960;
        let task =
            move |searcher: &mut Searcher| Ok(perft::count(position, depth, chess960, &searcher.signals()));
        self.thread.start(Work::job(task), orders);
    }

    fn perft(&mut self, arguments: &str, orders: Orders) {
        match arguments.parse::<u32>() {
            Ok(depth) if depth <= 100 => self.count(depth, orders),
            _ => self.faults.report("usage: perft <depth>"),
        }
    }

    fn evaluate(&mut self, arguments: &str) {
        let position = match arguments {
            "" => match self.position() {
                Some(position) => position,
                None => return,
            },
            fen => match Position::from_fen(fen) {
                Ok(position) => position,
                Err(error) => return self.faults.report(error),
            },
        };
        let options = self.options.clone();
        let Some(searcher) = self.thread.searcher() else { return };
        let value = searcher.evaluate(&position);
        send(eval_text::describe(&options.evaluator, &position, |position| searcher.evaluate(position)));
        if let Some(both) = options.strategist.describe(&position, value, &options, searcher) {
            send(format_args!("\n{both}"));
        }
    }

    fn bench(&mut self, arguments: &str, orders: Orders) {
        let Some([depth, threads, hash]) = numbers(arguments) else {
            return self.faults.report("usage: bench [depth [threads [MiB]]]");
        };
        let standard = Bench::default();
        let bench = Bench {
            depth: depth.map_or(standard.depth, |depth| depth.clamp(1, 200) as u32),
            threads: threads.map_or(standard.threads, |threads| threads.clamp(1, 1024) as usize),
            hash: hash.map_or(standard.hash, |hash| hash.max(1) as usize),
        };
        let task =
            move |searcher: &mut Searcher| bench::run(bench, searcher).map_err(|error| error.to_string());
        self.thread.start(Work::job(task), orders);
    }

    fn speedtest(&mut self, arguments: &str, orders: Orders) {
        let Some([seconds, threads, hash]) = numbers(arguments) else {
            return self.faults.report("usage: speedtest [seconds [threads [MiB]]]");
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let seconds = seconds.unwrap_or(20).clamp(1, 3600);
        let threads = threads.map_or(cores, |threads| threads.clamp(1, 1024) as usize);
        let hash = hash.map_or(128 * threads, |hash| hash.max(1) as usize);
        let task = move |searcher: &mut Searcher| {
            bench::speedtest(seconds, threads, hash, searcher).map_err(|error| error.to_string())
        };
        self.thread.start(Work::job(task), orders);
    }

    fn genfens(&mut self, arguments: &str, orders: Orders) {
        match genfens::Request::parse(arguments) {
            Ok(request) => {
                let task =
                    move |searcher: &mut Searcher| request.run(searcher).map_err(|error| error.to_string());
                self.thread.start(Work::job(task), orders);
            }
            Err(error) => self.faults.report(error),
        }
    }

    /// Waits for the end of the work and executes the commands that waited for it. Work that would otherwise go on for
    /// ever is stopped. A search for a mate is not stopped, so it may not return before `stop` if there is none.
    pub fn finish_work(&mut self) {
        while self.execute_waiting() != Next::Quit && !self.queue.is_idle() {
            if self.thread.termination() == Some(Termination::OnStop) {
                self.thread.stop();
            }
            self.thread.wait();
        }
    }
}

/// The first word of a line, and the rest.
fn command_of(line: &str) -> (&str, &str) {
    let line = line.trim();
    match line.split_once(|c: char| c.is_ascii_whitespace()) {
        Some((command, arguments)) => (command, arguments.trim()),
        None => (line, ""),
    }
}

/// The kind of a command, on which its turn depends.
fn kind(command: &str) -> Kind {
    match command {
        "stop" => Kind::Stop,
        "ponderhit" => Kind::PonderHit,
        "isready" => Kind::IsReady,
        "quit" => Kind::Quit,
        "ucinewgame" | "setoption" | "go" | "eval" | "perft" | "bench" | "speedtest" | "genfens" => {
            Kind::NeedsSearcher
        }
        _ => Kind::Light,
    }
}

/// Result without a search: the first legal move among those allowed.
fn fallback_result(position: &Position, limits: &Limits) -> SearchResult {
    let wanted = |mv: &Move| limits.search_moves.is_empty() || limits.search_moves.contains(mv);
    let best = position.legal_moves().into_iter().find(wanted);
    let mated = best.is_none() && position.in_check();
    let score = if mated { Score::Mate(0) } else { Score::Centipawns(Centipawns(0)) };
    SearchResult { best, ponder: None, score, depth: 0, nodes: 0, time: Duration::ZERO }
}

/// Parses up to three whole numbers; `None` if there are more words or one is not a number.
fn numbers(arguments: &str) -> Option<[Option<u64>; 3]> {
    let mut found = [None; 3];
    for (index, word) in arguments.split_ascii_whitespace().enumerate() {
        *found.get_mut(index)? = Some(word.parse().ok()?);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_search::Settings;

    #[test]
    fn settings_survive_a_failed_search() {
        let mut engine = Uci::new();
        for option in ["Hash value 3", "Threads value 2", "MultiPV value 3", "Move Overhead value 77"] {
            engine.execute(&format!("setoption name {option}"));
        }
        engine.execute("setoption name UCI_LimitStrength value true");
        engine.thread.start(Work::job(|_| panic!("as a bug would")), Orders::default());
        engine.finish_work();
        assert!(engine.faults.any());
        let searcher = engine.thread.searcher().unwrap();
        let Settings { multipv, move_overhead, limit_strength, .. } = searcher.settings.clone();
        assert_eq!((searcher.threads(), multipv, move_overhead), (2, 3, Duration::from_millis(77)));
        assert!(limit_strength);
        assert_eq!(searcher.hash_mib(), 3);
    }

    #[test]
    fn even_without_a_searcher_there_is_a_move() {
        use tandem_chess::uci;
        let start = Position::startpos();
        let only = uci::parse(start.board(), "h2h4").unwrap();
        let limits = Limits { search_moves: vec![only], ..Limits::default() };
        assert_eq!(fallback_result(&start, &limits).best, Some(only));
        assert!(fallback_result(&start, &Limits::default()).best.is_some());
        let mated = Position::from_fen("8/8/8/8/8/5k2/6q1/7K w - - 0 1").unwrap();
        let SearchResult { best, score, .. } = fallback_result(&mated, &Limits::default());
        assert_eq!((best, score), (None, Score::Mate(0)));
    }
}
