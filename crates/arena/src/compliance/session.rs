//! A dialogue with an engine of which nothing is dropped: every line of output counts.

use super::Compliance;
use super::report::{Check, Report};
use super::search_check::{OutputLine, Question, check_search};
use crate::child::{EngineChild, clip, read_lines};
use crate::{Fault, StartError, UciOption};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use tandem_chess::Move;

/// Lines of output that may wait to be read; when the queue is full, the engine blocks.
const MAX_WAITING: usize = 4096;
/// Longest wait for `readyok` while nothing is searched; it may include loading networks.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for the end of a search that is limited by depth or nodes, or whose time has run out.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for `bestmove` after `stop`, before the engine counts as hanging.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after `stop` within which `bestmove` should come.
const PROMPT_STOP: Duration = Duration::from_millis(500);
/// `info` lines of one search that are checked; the rest of a flood is dropped.
const MAX_INFOS: usize = 100_000;

/// The way in which a search ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    /// By itself, at a limit of depth or nodes.
    Limit,
    /// By itself, within this time.
    Time(Duration),
    /// By `stop`, which is sent after this time, unless a limit ends it earlier.
    Stop(Duration),
    /// By `stop` alone, which is sent after this time.
    StopAlone(Duration),
    /// By `ponderhit` alone, which is sent after the first time; the clock, of the second time, runs from then.
    PonderHit(Duration, Duration),
}

enum Output {
    Line(Instant, String),
    Closed,
}

/// An engine that is being checked, with the results so far.
pub(super) struct Session<'a> {
    child: EngineChild,
    output: Receiver<Output>,
    pub(super) settings: &'a Compliance,
    cancel: &'a AtomicBool,
    pub(super) options: Vec<UciOption>,
    pub(super) report: Report,
    /// True while the option `UCI_Chess960` is set.
    pub(super) chess960: bool,
    /// Value of the option `MultiPV`.
    pub(super) multipv: usize,
}

impl<'a> Session<'a> {
    /// Starts the engine and checks its handshake.
    pub(super) fn start(settings: &'a Compliance, cancel: &'a AtomicBool) -> Result<Self, StartError> {
        let spec = &settings.spec;
        let spawn_error = |source| StartError::Spawn {
            engine: spec.label(),
            path: spec.command.display().to_string(),
            source,
        };
        let (child, stdout) = EngineChild::spawn(spec).map_err(spawn_error)?;
        let (sender, output) = sync_channel(MAX_WAITING);
        let reader = move || {
            let take = |at, line: &str| sender.send(Output::Line(at, line.trim().to_owned())).is_ok();
            if read_lines(stdout, take).is_some() {
                let _ = sender.send(Output::Closed);
            }
        };
        thread::Builder::new().name("engine output".into()).spawn(reader).map_err(spawn_error)?;
        let mut session = Self {
            child,
            output,
            settings,
            cancel,
            options: Vec::new(),
            report: Report::default(),
            chess960: false,
            multipv: 1,
        };
        session.shake_hands()?;
        Ok(session)
    }

    fn shake_hands(&mut self) -> Result<(), StartError> {
        let engine = self.settings.spec.label();
        let timeout = self.settings.timeouts.start;
        let (expected, command) = ("uciok", "uci");
        let lines = self.ask(command, expected, timeout).map_err(|fault| match fault {
            Fault::Cancelled => StartError::Cancelled { engine: engine.clone() },
            Fault::Crash(exit_reason) => {
                StartError::Ended { engine: engine.clone(), exit_reason, command, expected }
            }
            _ => StartError::Silent { engine: engine.clone(), command, expected, seconds: timeout.as_secs() },
        })?;
        self.check_handshake(&lines);
        let mut commands = String::new();
        for (name, value) in &self.settings.spec.options {
            commands += &UciOption::command(&self.options, name, value)
                .map_err(|source| StartError::Option { engine: engine.clone(), source })?;
            if name.eq_ignore_ascii_case("MultiPV") {
                self.multipv = value.parse().unwrap_or(1);
            }
        }
        let ready = self.send(&commands).and_then(|()| self.ready());
        ready.map_err(|fault| match fault {
            Fault::Cancelled => StartError::Cancelled { engine: engine.clone() },
            fault => StartError::Ended {
                engine: engine.clone(),
                exit_reason: fault.to_string(),
                command: "isready",
                expected: "readyok",
            },
        })
    }

    fn check_handshake(&mut self, lines: &[String]) {
        let value = |key: &str| lines.iter().find_map(|line| line.strip_prefix(key)).unwrap_or("").trim();
        let (name, author) = (value("id name "), value("id author "));
        let report = &mut self.report;
        report.check(Check::Handshake, !name.is_empty(), || "no line 'id name NAME'".into());
        report.check(Check::Handshake, !author.is_empty(), || "no line 'id author AUTHOR'".into());
        report.engine = if name.is_empty() { self.settings.spec.label() } else { clip(name) };
        for line in lines.iter().filter(|line| line.starts_with("option ")) {
            let option = UciOption::parse(line);
            let problem = match &option {
                None => Some("the line is malformed"),
                Some(option)
                    if self.options.iter().any(|other| other.name.eq_ignore_ascii_case(&option.name)) =>
                {
                    Some("the name is taken")
                }
                Some(option) => option.problem(),
            };
            report.check(Check::Handshake, problem.is_none(), || {
                format!("{}: {}", problem.unwrap_or_default(), clip(line))
            });
            self.options.extend(option);
        }
    }

    /// True if the engine has announced an option of this name.
    pub(super) fn has_option(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.name.eq_ignore_ascii_case(name))
    }

    /// Sends one or more lines.
    pub(super) fn send(&mut self, lines: &str) -> Result<(), Fault> {
        match self.child.send(lines) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.crash()),
        }
    }

    /// Sets `UCI_Chess960` and `MultiPV` if their values change. The engine must have the options.
    pub(super) fn set_mode(&mut self, chess960: bool, multipv: usize) -> Result<(), Fault> {
        let mut commands = String::new();
        if chess960 != self.chess960 {
            commands += &format!("setoption name UCI_Chess960 value {chess960}\n");
        }
        if multipv != self.multipv {
            commands += &format!("setoption name MultiPV value {multipv}\n");
        }
        (self.chess960, self.multipv) = (chess960, multipv);
        self.send(&commands)
    }

    fn crash(&mut self) -> Fault {
        Fault::Crash(self.child.exit_reason())
    }

    /// Next line of output; `None` after the deadline.
    fn next(&mut self, deadline: Instant) -> Result<Option<(Instant, String)>, Fault> {
        loop {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(Fault::Cancelled);
            }
            let now = Instant::now();
            let wait = deadline.saturating_duration_since(now).min(Duration::from_millis(200));
            match self.output.recv_timeout(wait) {
                Ok(Output::Line(at, line)) => return Ok(Some((at, line))),
                Ok(Output::Closed) | Err(RecvTimeoutError::Disconnected) => return Err(self.crash()),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Sends a command and returns the lines before the one that begins with `expected`.
    fn ask(&mut self, command: &str, expected: &str, timeout: Duration) -> Result<Vec<String>, Fault> {
        let deadline = Instant::now() + timeout;
        self.send(&format!("{command}\n"))?;
        let mut lines = Vec::new();
        while let Some((_, line)) = self.next(deadline)? {
            if line.split_ascii_whitespace().next() == Some(expected) {
                return Ok(lines);
            }
            if lines.len() < MAX_INFOS {
                lines.push(line);
            }
        }
        Err(Fault::Hang(format!("no '{expected}' within {} s of '{command}'", timeout.as_secs())))
    }

    /// Waits until all commands are carried out. No best move may come meanwhile.
    pub(super) fn ready(&mut self) -> Result<(), Fault> {
        let lines = self.ask("isready", "readyok", READY_TIMEOUT)?;
        let stray = lines.iter().find(|line| line.starts_with("bestmove"));
        if let Some(line) = stray {
            self.report.check(Check::BestMove, false, || format!("'{}' without a search", clip(line)));
        }
        Ok(())
    }

    /// Searches and checks everything that the engine prints. Returns the best move if it is legal, and the
    /// time that it took.
    pub(super) fn search(
        &mut self,
        question: &Question,
        ending: Ending,
    ) -> Result<(Option<Move>, Duration), Fault> {
        self.ready()?;
        let start = Instant::now();
        self.send(question.commands)?;
        let mut infos = Vec::new();
        let early = match ending {
            Ending::Limit => self.collect(start, start + ANSWER_TIMEOUT, &mut infos)?,
            Ending::Time(time) => self.collect(start, start + time + ANSWER_TIMEOUT, &mut infos)?,
            Ending::Stop(after) | Ending::StopAlone(after) | Ending::PonderHit(after, _) => {
                self.collect(start, start + after, &mut infos)?
            }
        };
        let described =
            |what: &str| format!("{what} (after {})", question.commands.trim_end().replace('\n', "; "));
        let (at, best) = match (ending, early) {
            (Ending::Time(time), Some((at, best))) => {
                self.check_time(at - start, time, question.commands);
                (at, best)
            }
            (Ending::Limit | Ending::Stop(_), Some(answer)) => answer,
            (Ending::StopAlone(_) | Ending::PonderHit(..), Some(answer)) => {
                let check = if matches!(ending, Ending::StopAlone(_)) { Check::Stop } else { Check::Ponder };
                self.report.check(check, false, || described("the search ended by itself"));
                answer
            }
            (Ending::PonderHit(_, time), None) => {
                let hit = Instant::now();
                self.send("ponderhit\n")?;
                let answer = self.collect(start, hit + time + ANSWER_TIMEOUT, &mut infos)?;
                self.report.check(Check::Ponder, answer.is_some(), || described("no answer to ponderhit"));
                let (at, best) =
                    answer.ok_or_else(|| Fault::Hang(described("no bestmove after ponderhit")))?;
                self.check_time(at - hit, time, question.commands);
                (at, best)
            }
            (Ending::Limit | Ending::Time(_) | Ending::Stop(_) | Ending::StopAlone(_), None) => {
                let stopped = Instant::now();
                self.send("stop\n")?;
                let answer = self.collect(start, stopped + STOP_TIMEOUT, &mut infos)?;
                let (at, best) =
                    answer.ok_or_else(|| Fault::Hang(described("no bestmove, not even to stop")))?;
                if matches!(ending, Ending::Limit | Ending::Time(_)) {
                    self.report
                        .check(Check::BestMove, false, || described("the search did not end by itself"));
                } else {
                    let delay = at.saturating_duration_since(stopped);
                    self.report.record(Check::Stop, delay.as_secs_f64() * 1000.0);
                    self.report.check(Check::Stop, delay <= PROMPT_STOP, || {
                        described(&format!("bestmove came {} ms after stop", delay.as_millis()))
                    });
                }
                (at, best)
            }
        };
        let best = check_search(question, &infos, &best, &mut self.report);
        Ok((best, at - start))
    }

    /// Reads the output of a search until `bestmove`, whose time and text it returns, or until the deadline.
    fn collect(
        &mut self,
        start: Instant,
        deadline: Instant,
        infos: &mut Vec<OutputLine>,
    ) -> Result<Option<(Instant, String)>, Fault> {
        while let Some((at, text)) = self.next(deadline)? {
            match text.split_ascii_whitespace().next() {
                Some("bestmove") => return Ok(Some((at, text))),
                Some("info") if infos.len() < MAX_INFOS => {
                    infos.push(OutputLine { since_go: at.saturating_duration_since(start), text });
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn check_time(&mut self, elapsed: Duration, time: Duration, commands: &str) {
        let late = elapsed.saturating_sub(time);
        self.report.record(Check::Clock, late.as_secs_f64() * 1000.0);
        let is_in_time = late <= self.settings.margin;
        self.report.check(Check::Clock, is_in_time, || {
            format!(
                "{:.1} ms late (after {})",
                late.as_secs_f64() * 1000.0,
                commands.trim_end().replace('\n', "; ")
            )
        });
    }

    /// Asks `isready` repeatedly during an infinite search, which is stopped then.
    pub(super) fn check_ready_during_search(&mut self, commands: &str, times: u32) -> Result<(), Fault> {
        self.ready()?;
        self.send(commands)?;
        let mut is_over = false;
        for n in 0..times {
            thread::sleep(Duration::from_millis(u64::from(7 * n % 20)));
            let asked = Instant::now();
            self.send("isready\n")?;
            let mut answered = None;
            while answered.is_none() {
                let Some((at, line)) = self.next(asked + ANSWER_TIMEOUT)? else {
                    self.report
                        .check(Check::Ready, false, || format!("no readyok during {}", commands.trim_end()));
                    return Err(Fault::Hang("no readyok during a search".into()));
                };
                is_over |= line.starts_with("bestmove");
                answered = (line == "readyok").then_some(at);
            }
            let delay = answered.map_or(ANSWER_TIMEOUT, |at| at.saturating_duration_since(asked));
            let (delay, limit) = (delay.as_secs_f64() * 1000.0, self.settings.ready.as_secs_f64() * 1000.0);
            self.report.record(Check::Ready, delay);
            self.report.check(Check::Ready, delay <= limit, || format!("readyok came after {delay:.1} ms"));
        }
        self.send("stop\n")?;
        let stopped = Instant::now();
        if !is_over && self.collect(stopped, stopped + STOP_TIMEOUT, &mut Vec::new())?.is_none() {
            return Err(Fault::Hang("no bestmove to stop after isready".into()));
        }
        self.report.check(Check::Stop, !is_over, || "isready ended an infinite search".into());
        Ok(())
    }

    /// Resident memory of the process in MiB, where the operating system tells it.
    pub(super) fn memory(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: f64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        Some(kibibytes / 1024.0)
    }

    /// Ends the engine by a command, or by the end of its input without one, and waits for it.
    pub(super) fn end(mut self, command: Option<&str>, what: &str) -> Report {
        match command {
            // A failure shows in the exit status.
            Some(command) => drop(self.child.send(command)),
            None => self.child.close_input(),
        }
        // The engine may still print, and must not block meanwhile.
        let deadline = Instant::now() + STOP_TIMEOUT;
        while let Ok(Output::Line(..)) =
            self.output.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {}
        let status = self.child.wait_until(deadline);
        let is_clean = status.is_some_and(|status| status.success());
        self.report.check(Check::End, is_clean, || match status {
            Some(status) => format!("{what}: {status}"),
            None => format!("{what}: still running after {} s", STOP_TIMEOUT.as_secs()),
        });
        self.report
    }
}
