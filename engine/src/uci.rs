//! The UCI protocol: one thread reads lines, one executes them, and a third searches.
//!
//! The reader does nothing slow, so `stop` and `quit` are seen at once, whatever the engine is doing. No
//! input can crash or block it: a line that makes no sense gets one `info string`, and the last valid
//! position stays.

use crate::bench::{self, Bench};
use crate::board_text;
use crate::eval_text;
use crate::genfens;
use crate::go::{self, Go};
use crate::help::HELP;
use crate::input::read_lines;
use crate::options::{self, Options, Session};
use crate::output::{Faults, send};
use crate::perft;
use crate::position_text;
use crate::searcher_thread::{SearcherThread, Termination};
use crate::uci_output::UciOutput;
use std::io::BufRead;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;
use tandem_chess::{Move, Position};
use tandem_search::options::DEFAULT_HASH;
use tandem_search::{Centipawns, Limits, Score, SearchResult, Searcher};

/// State of the protocol: position, options, and the searcher, which may be at work on another thread.
pub struct Uci {
    position: Position,
    options: Options,
    thread: SearcherThread,
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
        Self { position: Position::startpos(), options, thread, faults }
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
        let (sender, receiver) = mpsc::channel::<String>();
        let (signals, quitting) = (self.thread.signals(), self.thread.quitting());
        // The reader may wait for input for ever, so it is never joined.
        std::thread::spawn(move || read_lines(input, &sender, &signals, &quitting));
        for line in receiver {
            if self.execute(&line) == Next::Quit {
                self.thread.signals().stop();
                break;
            }
        }
        self.thread.end_of_input();
        ExitCode::SUCCESS
    }

    /// Executes one line. Searches and other long work go on after it returns; see [`Self::finish_work`].
    pub fn execute(&mut self, line: &str) -> Next {
        let line = line.trim();
        let (command, arguments) = match line.split_once(|c: char| c.is_ascii_whitespace()) {
            Some((command, arguments)) => (command, arguments.trim()),
            None => (line, ""),
        };
        match command {
            "" => {}
            "uci" => self.introduce(),
            "isready" => send("readyok"),
            "ucinewgame" => {
                let quitting = self.thread.quitting();
                if let Some(searcher) = self.thread.searcher() {
                    searcher.clear(&quitting);
                }
            }
            "setoption" => self.set_option(arguments),
            "position" => self.set_position(arguments),
            "go" => self.go(arguments),
            "stop" => self.thread.signals().stop(),
            "ponderhit" => self.thread.ponder_hit(),
            "quit" => return Next::Quit,
            "d" => send(board_text::describe(&self.position)),
            "eval" => self.evaluate(arguments),
            "perft" => self.perft(arguments),
            "bench" => self.bench(arguments),
            "speedtest" => self.speedtest(arguments),
            "genfens" => self.genfens(arguments),
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

    fn set_option(&mut self, arguments: &str) {
        let (options, cancel) = (self.options.clone(), self.thread.quitting());
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
            Ok(position) => self.position = position,
            Err(error) => self.faults.report(error),
        }
    }

    fn go(&mut self, arguments: &str) {
        let (go, fault) = go::parse(arguments, &self.position);
        if let Some(fault) = fault {
            self.faults.report(fault);
        }
        match go {
            Some(Go::Search(limits)) => self.search(limits),
            Some(Go::Perft(depth)) => self.count(depth),
            None => {}
        }
    }

    fn search(&mut self, limits: Limits) {
        if self.thread.is_busy() {
            return;
        }
        let position = self.position.clone();
        let output = UciOutput::new(position.clone(), &self.options);
        let fallback = PanicFallback { output: output.clone(), result: fallback_result(&position, &limits) };
        let termination = Termination::of(&limits);
        let after_ponderhit =
            limits.ponder.then(|| Termination::of(&Limits { ponder: false, ..limits.clone() }));
        let strategist = &self.options.strategist;
        let task = strategist.player(&position, &limits, &output, &self.faults).unwrap_or_else(|| {
            let (before, after) = strategist.messages();
            Box::new(move |searcher| {
                before();
                let result = searcher.search(&position, &limits, &mut |info| output.info(&info));
                after();
                output.best_move(&result);
            })
        });
        let spare = fallback.clone();
        let begun = self.thread.start(termination, after_ponderhit, move |searcher| {
            let _fallback = fallback;
            task(searcher);
        });
        if !begun {
            spare.send();
        }
    }

    fn count(&mut self, depth: u32) {
        let (position, chess960) = (self.position.clone(), self.options.chess960);
        self.thread.start(Termination::Bounded, None, move |searcher| {
            perft::count(position, depth, chess960, &searcher.signals());
        });
    }

    fn perft(&mut self, arguments: &str) {
        match arguments.parse::<u32>() {
            Ok(depth) if depth <= 100 => self.count(depth),
            _ => self.faults.report("usage: perft <depth>"),
        }
    }

    fn evaluate(&mut self, arguments: &str) {
        let position = match arguments {
            "" => self.position.clone(),
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

    fn bench(&mut self, arguments: &str) {
        let Some([depth, threads, hash]) = numbers(arguments) else {
            return self.faults.report("usage: bench [depth [threads [MiB]]]");
        };
        let standard = Bench::default();
        let bench = Bench {
            depth: depth.map_or(standard.depth, |depth| depth.clamp(1, 200) as u32),
            threads: threads.map_or(standard.threads, |threads| threads.clamp(1, 1024) as usize),
            hash: hash.map_or(standard.hash, |hash| hash.max(1) as usize),
        };
        let faults = self.faults.clone();
        self.thread.start(Termination::Bounded, None, move |searcher| {
            if let Err(error) = bench::run(bench, searcher) {
                faults.report(error);
            }
        });
    }

    fn speedtest(&mut self, arguments: &str) {
        let Some([seconds, threads, hash]) = numbers(arguments) else {
            return self.faults.report("usage: speedtest [seconds [threads [MiB]]]");
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let seconds = seconds.unwrap_or(20).clamp(1, 3600);
        let threads = threads.map_or(cores, |threads| threads.clamp(1, 1024) as usize);
        let hash = hash.map_or(128 * threads, |hash| hash.max(1) as usize);
        let faults = self.faults.clone();
        self.thread.start(Termination::Bounded, None, move |searcher| {
            if let Err(error) = bench::speedtest(seconds, threads, hash, searcher) {
                faults.report(error);
            }
        });
    }

    fn genfens(&mut self, arguments: &str) {
        let faults = self.faults.clone();
        match genfens::Request::parse(arguments) {
            Ok(request) => {
                self.thread.start(Termination::Bounded, None, move |searcher| {
                    if let Err(error) = request.run(searcher) {
                        faults.report(error);
                    }
                });
            }
            Err(error) => faults.report(error),
        }
    }

    /// Waits for the end of the work, and stops it first if it would otherwise go on for ever. A search for a
    /// mate is not stopped, so it may not return before `stop` if there is none.
    pub fn finish_work(&mut self) {
        self.thread.finish();
    }
}

/// Sends a move if the search panics, because the GUI waits for an answer and any legal move is better than
/// none.
#[derive(Clone)]
struct PanicFallback {
    output: UciOutput,
    result: SearchResult,
}

impl PanicFallback {
    fn send(&self) {
        self.output.best_move(&self.result);
    }
}

impl Drop for PanicFallback {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.send();
        }
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
        assert!(engine.thread.start(Termination::Bounded, None, |_| panic!("as a bug would")));
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
