//! The UCI protocol: one thread reads lines, one carries them out, and a third thinks.
//!
//! The reader does nothing slow, so `stop` and `quit` are seen at once, whatever the engine is doing. Nothing that
//! comes in can crash or hang it: a line that makes no sense gets one `info string`, and the last good position
//! stays.

use crate::bench::{self, Bench};
use crate::board_text;
use crate::eval_text;
use crate::genfens;
use crate::go::{self, Go};
use crate::help::HELP;
use crate::options::{self, DEFAULT_HASH, Options};
use crate::output::{Faults, complain, say};
use crate::perft;
use crate::position_text;
use crate::reader::read_lines;
use crate::searchless::{self, Choice};
use crate::speaker::Speaker;
use std::io::BufRead;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tandem_chess::{Move, Position};
use tandem_hybrid::Opinion;
use tandem_search::{Centipawns, Limits, STACK_SIZE, Score, SearchResult, Searcher, Settings, Signals};

/// Where the searcher is: at hand, or away thinking.
enum Work {
    Idle(Box<Searcher>),
    Busy {
        thread: JoinHandle<Box<Searcher>>,
        ends: Ends,
        /// When it ends if it ponders and the expected move is played.
        once_hit: Option<Ends>,
    },
    /// A thread of work could not be had back. Only seen in passing.
    Lost,
}

/// When work comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// By itself.
    ByItself,
    /// Once a mate is found. Nobody knows whether there is one.
    WithLuck,
    /// When it is told to.
    WhenTold,
}

impl Ends {
    fn of(limits: &Limits) -> Self {
        match limits.mate {
            _ if limits.is_bounded() => Self::ByItself,
            Some(_) if !limits.infinite && !limits.ponder => Self::WithLuck,
            _ => Self::WhenTold,
        }
    }
}

/// The engine's side of the protocol.
pub struct Uci {
    position: Position,
    options: Options,
    signals: Arc<Signals>,
    work: Work,
    /// How the searcher was set when it was last sent away.
    kept: Kept,
    /// Raised by the reader as soon as `quit` comes in, to end whatever is slow.
    quitting: Arc<AtomicBool>,
    faults: Faults,
}

/// What a searcher that is made anew must be told, beside what the options know.
struct Kept {
    settings: Settings,
    threads: usize,
    syzygy_path: String,
}

impl Kept {
    fn of(searcher: &Searcher) -> Self {
        Self {
            settings: searcher.settings.clone(),
            threads: searcher.threads(),
            syzygy_path: searcher.syzygy_path().into(),
        }
    }
}

/// Whether to go on reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next line, please.
    Line,
    /// That was the last one.
    Quit,
}

impl Default for Uci {
    fn default() -> Self {
        Self::new()
    }
}

impl Uci {
    /// The engine as it starts.
    pub fn new() -> Self {
        let options = Options::default();
        let searcher = match Searcher::new(options.judge.factory(), DEFAULT_HASH) {
            Ok(searcher) => searcher,
            Err(error) => {
                eprintln!("tandem: {error}");
                std::process::exit(1);
            }
        };
        Self {
            position: Position::startpos(),
            options,
            signals: searcher.signals(),
            kept: Kept::of(&searcher),
            work: Work::Idle(Box::new(searcher)),
            quitting: Arc::default(),
            faults: Faults::default(),
        }
    }

    /// Carries out lines given as arguments, to the end of each. A shell hears of one that failed.
    pub(crate) fn run_lines(mut self, lines: &[String]) -> ExitCode {
        for line in lines {
            if self.execute(line) == Next::Quit {
                break;
            }
            self.settle();
        }
        if self.faults.any() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// Reads lines until `quit` or the end of the input.
    pub(crate) fn run(mut self, input: impl BufRead + Send + 'static) -> ExitCode {
        let (sender, receiver) = mpsc::channel::<String>();
        let (signals, quitting) = (Arc::clone(&self.signals), Arc::clone(&self.quitting));
        // The reader may wait for input for ever; nobody waits for it.
        std::thread::spawn(move || read_lines(input, &sender, &signals, &quitting));
        for line in receiver {
            if self.execute(&line) == Next::Quit {
                self.signals.stop();
                self.finish();
                return ExitCode::SUCCESS;
            }
        }
        // The input ended. A search that ends by itself may do so; any other has nobody left to stop it.
        if let Work::Busy { ends, .. } = self.work
            && ends != Ends::ByItself
        {
            self.signals.stop();
        }
        self.finish();
        ExitCode::SUCCESS
    }

    /// Carries out one line. Searches and other long work go on after it returns.
    pub fn execute(&mut self, line: &str) -> Next {
        let line = line.trim();
        let (command, arguments) = match line.split_once(|c: char| c.is_ascii_whitespace()) {
            Some((command, arguments)) => (command, arguments.trim()),
            None => (line, ""),
        };
        match command {
            "" => {}
            "uci" => self.introduce(),
            "isready" => say("readyok"),
            "ucinewgame" => {
                let quitting = Arc::clone(&self.quitting);
                if let Some(searcher) = self.searcher() {
                    searcher.clear(&quitting);
                }
            }
            "setoption" => self.set_option(arguments),
            "position" => self.set_position(arguments),
            "go" => self.go(arguments),
            "stop" => self.signals.stop(),
            "ponderhit" => self.ponder_hit(),
            "quit" => return Next::Quit,
            "d" => say(board_text::describe(&self.position)),
            "eval" => self.evaluate(arguments),
            "perft" => self.perft(arguments),
            "bench" => self.bench(arguments),
            "speedtest" => self.speedtest(arguments),
            "genfens" => self.genfens(arguments),
            "help" | "--help" | "-h" => say(HELP),
            "--version" => say(format_args!("tandem {}", env!("CARGO_PKG_VERSION"))),
            other => {
                let other: String = other.chars().take(40).collect();
                self.faults.tell(format_args!("unknown command '{other}'; 'help' lists the commands"));
            }
        }
        Next::Line
    }

    fn introduce(&self) {
        say(format_args!("id name Tandem {}", env!("CARGO_PKG_VERSION")));
        say("id author the Tandem authors");
        options::list();
        say("uciok");
    }

    fn set_option(&mut self, arguments: &str) {
        let mut options = self.options.clone();
        let quitting = Arc::clone(&self.quitting);
        let Some(searcher) = self.searcher() else { return };
        match options::set(arguments, &mut options, searcher, &quitting) {
            Ok(()) => self.options = options,
            Err(error) => self.faults.tell(error),
        }
    }

    fn set_position(&mut self, arguments: &str) {
        match position_text::parse(arguments) {
            Ok(position) => self.position = position,
            Err(error) => self.faults.tell(error),
        }
    }

    fn go(&mut self, arguments: &str) {
        let (go, fault) = go::parse(arguments, &self.position);
        if let Some(fault) = fault {
            self.faults.tell(fault);
        }
        match go {
            Some(Go::Search(limits)) => self.search(limits),
            Some(Go::Perft(depth)) => self.count(depth),
            None => {}
        }
    }

    fn ponder_hit(&mut self) {
        self.signals.ponder_hit();
        if let Work::Busy { ends, once_hit: Some(hit), .. } = &mut self.work {
            *ends = *hit;
        }
    }

    fn search(&mut self, limits: Limits) {
        if self.is_busy() {
            return;
        }
        let mut position = self.position.clone();
        let speaker = Speaker::new(position.clone(), &self.options);
        let amends = Amends { speaker: speaker.clone(), result: at_a_loss(&position, &limits) };
        let ends = Ends::of(&limits);
        let once_hit = limits.ponder.then(|| Ends::of(&Limits { ponder: false, ..limits.clone() }));
        let task: Box<dyn FnOnce(&mut Searcher) + Send> = match self.options.searchless.choice() {
            Choice::Search => {
                let absence = self.options.second_mind.absence();
                Box::new(move |searcher| {
                    absence.into_iter().for_each(complain);
                    let result = searcher.search(&position, &limits, &mut |info| speaker.info(&info));
                    if let Some(counsel) = searcher.counsel() {
                        complain(format_args!("strategist: {}", counsel.statistics()));
                    }
                    speaker.best_move(&result);
                })
            }
            Choice::Transformer(adviser) => Box::new(move |searcher| {
                searchless::play(&adviser, searcher, &mut position, &limits, &speaker);
            }),
            Choice::Nobody(why) => {
                let faults = self.faults.clone();
                Box::new(move |searcher| {
                    faults.tell(why);
                    searcher.wait_for_leave(&limits);
                    say("bestmove (none)");
                })
            }
        };
        let spare = amends.clone();
        let begun = self.work(ends, once_hit, move |searcher| {
            let _amends = amends;
            task(searcher);
        });
        if !begun {
            spare.make();
        }
    }

    fn count(&mut self, depth: u32) {
        let (position, chess960) = (self.position.clone(), self.options.chess960);
        self.work(Ends::ByItself, None, move |searcher| {
            perft::count(position, depth, chess960, &searcher.signals());
        });
    }

    fn perft(&mut self, arguments: &str) {
        match arguments.parse::<u32>() {
            Ok(depth) if depth <= 100 => self.count(depth),
            _ => self.faults.tell("usage: perft <depth>"),
        }
    }

    fn evaluate(&mut self, arguments: &str) {
        let position = match arguments {
            "" => self.position.clone(),
            fen => match Position::from_fen(fen) {
                Ok(position) => position,
                Err(error) => return self.faults.tell(error),
            },
        };
        let options = self.options.clone();
        let Some(searcher) = self.searcher() else { return };
        let value = searcher.evaluate(&position);
        say(eval_text::describe(&options.judge, &position, |position| searcher.evaluate(position)));
        let blended = |opinion: &Opinion, blend| searcher.blended(value, opinion, blend);
        let both = options.second_mind.describe(&position, value, &options.judge, options.chess960, blended);
        if let Some(both) = both {
            say(format_args!("\n{both}"));
        }
    }

    fn bench(&mut self, arguments: &str) {
        let Some([depth, threads, hash]) = numbers(arguments) else {
            return self.faults.tell("usage: bench [depth [threads [MiB]]]");
        };
        let standard = Bench::default();
        let bench = Bench {
            depth: depth.map_or(standard.depth, |depth| depth.clamp(1, 200) as u32),
            threads: threads.map_or(standard.threads, |threads| threads.clamp(1, 1024) as usize),
            hash: hash.map_or(standard.hash, |hash| hash.max(1) as usize),
        };
        let faults = self.faults.clone();
        self.work(Ends::ByItself, None, move |searcher| {
            if let Err(error) = bench::run(bench, searcher) {
                faults.tell(error);
            }
        });
    }

    fn speedtest(&mut self, arguments: &str) {
        let Some([seconds, threads, hash]) = numbers(arguments) else {
            return self.faults.tell("usage: speedtest [seconds [threads [MiB]]]");
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let seconds = seconds.unwrap_or(20).clamp(1, 3600);
        let threads = threads.map_or(cores, |threads| threads.clamp(1, 1024) as usize);
        let hash = hash.map_or(128 * threads, |hash| hash.max(1) as usize);
        let faults = self.faults.clone();
        self.work(Ends::ByItself, None, move |searcher| {
            if let Err(error) = bench::speedtest(seconds, threads, hash, searcher) {
                faults.tell(error);
            }
        });
    }

    fn genfens(&mut self, arguments: &str) {
        let faults = self.faults.clone();
        match genfens::Request::parse(arguments) {
            Ok(request) => {
                self.work(Ends::ByItself, None, move |searcher| {
                    if let Err(error) = request.run(searcher) {
                        faults.tell(error);
                    }
                });
            }
            Err(error) => faults.tell(error),
        }
    }

    /// Sends the searcher away to do something that takes its time; `once_hit` is when that ends if it ponders and the expected
    /// move is played. Returns whether it went.
    fn work(
        &mut self,
        ends: Ends,
        once_hit: Option<Ends>,
        task: impl FnOnce(&mut Searcher) + Send + 'static,
    ) -> bool {
        if self.searcher().is_none() {
            return false;
        }
        let Work::Idle(mut searcher) = std::mem::replace(&mut self.work, Work::Lost) else { return false };
        self.kept = Kept::of(&searcher);
        self.signals.arm(once_hit.is_some());
        if self.quitting.load(Relaxed) {
            self.signals.stop();
        }
        let spawned = std::thread::Builder::new().stack_size(STACK_SIZE).spawn(move || {
            task(&mut searcher);
            searcher
        });
        match spawned {
            Ok(thread) => {
                self.work = Work::Busy { thread, ends, once_hit };
                true
            }
            Err(error) => {
                self.faults.tell(format_args!("no thread to search with: {error}"));
                self.restore();
                false
            }
        }
    }

    /// Whether the searcher thinks, perhaps without end, so that nobody can wait for it; the user is told so.
    fn is_busy(&self) -> bool {
        let Work::Busy { thread, ends, .. } = &self.work else { return false };
        let busy = *ends != Ends::ByItself && !self.signals.is_stopped() && !thread.is_finished();
        if busy {
            self.faults.tell("busy thinking; send 'stop' first");
        }
        busy
    }

    /// The searcher, once it has nothing else to do. While nobody can wait for it, the answer is `None`.
    fn searcher(&mut self) -> Option<&mut Searcher> {
        if self.is_busy() {
            return None;
        }
        self.finish();
        match &mut self.work {
            Work::Idle(searcher) => Some(searcher),
            _ => None,
        }
    }

    /// Waits for the work in hand.
    fn finish(&mut self) {
        match std::mem::replace(&mut self.work, Work::Lost) {
            Work::Busy { thread, .. } => match thread.join() {
                Ok(searcher) => self.work = Work::Idle(searcher),
                Err(_) => {
                    self.faults.tell(
                        "the search failed; this is a bug, please report it with the commands that led to it",
                    );
                    self.restore();
                }
            },
            Work::Idle(searcher) => self.work = Work::Idle(searcher),
            Work::Lost => self.restore(),
        }
    }

    /// Waits for the work in hand, telling it to stop if it waits to be told. Who looks for a mate that there is not looks
    /// on until somebody tells him to stop.
    pub fn settle(&mut self) {
        if let Work::Busy { ends: Ends::WhenTold, .. } = self.work {
            self.signals.stop();
        }
        self.finish();
    }

    /// A new searcher, set as the old one was, when that is gone for good.
    fn restore(&mut self) {
        let factory = self.options.judge.factory();
        let made = Searcher::new(Arc::clone(&factory), self.options.hash).or_else(|error| {
            self.faults.tell(format_args!("{error}; Hash is {DEFAULT_HASH} now"));
            self.options.hash = DEFAULT_HASH;
            Searcher::new(factory, DEFAULT_HASH)
        });
        let searcher = match made {
            Ok(searcher) => searcher,
            Err(error) => return self.faults.tell(format_args!("nobody is left to search: {error}")),
        };
        // The reader holds the signals that there are, so the new searcher must obey the same.
        let mut searcher = searcher.listening_to(Arc::clone(&self.signals));
        searcher.settings = self.kept.settings.clone();
        searcher.set_threads(self.kept.threads);
        searcher.set_counsel(self.options.second_mind.counsel().cloned());
        if let Err(error) = searcher.set_syzygy(&self.kept.syzygy_path) {
            self.faults.tell(format_args!("{error}; endgame tables are off now"));
        }
        self.work = Work::Idle(Box::new(searcher));
    }
}

/// A move for a search that finds none because it fails: a GUI waits for an answer, and a move by chance is better than none.
#[derive(Clone)]
struct Amends {
    speaker: Speaker,
    result: SearchResult,
}

impl Amends {
    fn make(&self) {
        self.speaker.best_move(&self.result);
    }
}

impl Drop for Amends {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.make();
        }
    }
}

/// What is answered when there is nobody to search: the first move that may be played.
fn at_a_loss(position: &Position, limits: &Limits) -> SearchResult {
    let wanted = |mv: &Move| limits.search_moves.is_empty() || limits.search_moves.contains(mv);
    let best = position.legal_moves().into_iter().find(wanted);
    let mated = best.is_none() && position.in_check();
    let score = if mated { Score::Mate(0) } else { Score::Centipawns(Centipawns(0)) };
    SearchResult { best, ponder: None, score, depth: 0, nodes: 0, time: Duration::ZERO }
}

/// Up to three whole numbers.
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

    #[test]
    fn a_search_that_failed_costs_no_setting() {
        let mut engine = Uci::new();
        for option in ["Hash value 3", "Threads value 2", "MultiPV value 3", "Move Overhead value 77"] {
            engine.execute(&format!("setoption name {option}"));
        }
        engine.execute("setoption name UCI_LimitStrength value true");
        assert!(engine.work(Ends::ByItself, None, |_| panic!("as a bug would")));
        engine.settle();
        assert!(engine.faults.any());
        let searcher = engine.searcher().unwrap();
        let Settings { multipv, move_overhead, strength, .. } = searcher.settings.clone();
        assert_eq!((searcher.threads(), multipv, move_overhead), (2, 3, Duration::from_millis(77)));
        assert!(strength.is_some());
        assert_eq!(engine.options.hash, 3);
    }

    #[test]
    fn even_without_a_searcher_there_is_a_move() {
        use tandem_chess::uci;
        let start = Position::startpos();
        let only = uci::parse(start.board(), "h2h4").unwrap();
        let limits = Limits { search_moves: vec![only], ..Limits::default() };
        assert_eq!(at_a_loss(&start, &limits).best, Some(only));
        assert!(at_a_loss(&start, &Limits::default()).best.is_some());
        let mated = Position::from_fen("8/8/8/8/8/5k2/6q1/7K w - - 0 1").unwrap();
        let SearchResult { best, score, .. } = at_a_loss(&mated, &Limits::default());
        assert_eq!((best, score), (None, Score::Mate(0)));
    }
}
