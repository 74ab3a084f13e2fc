//! An engine's process: lines in, lines out, each with the time it was read.
//!
//! A thread reads the engine's output and stamps what matters with a monotonic time, so that the clock stops when
//! the move arrives and not when the game gets round to looking. It drops everything else on the spot: an engine
//! that floods its output costs this thread's time, never memory.

use crate::info::is_main_line;
use crate::spec::EngineSpec;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use std::thread;
use std::time::{Duration, Instant};

/// Longest line that is read; the rest of a longer one is dropped.
const MAX_LINE: usize = 64 * 1024;
/// Lines of one search that are kept when all are wanted.
const MAX_KEPT: usize = 10_000;
/// Bytes of the engine's standard error that are kept to explain its end.
const MAX_STDERR: usize = 2048;

/// Events that may wait to be looked at; when there are so many, the engine waits.
const MAX_WAITING: usize = 4096;

/// Something the engine said.
#[derive(Debug)]
pub(crate) enum Event {
    /// A line of the handshake: `id`, `option`, `uciok`, `readyok`.
    Line(String),
    /// `bestmove`, with the lines that led to it.
    BestMove(Answer),
    /// The output ended; what stood on the last, unfinished line.
    Closed(String),
}

/// The end of a search.
#[derive(Debug)]
pub(crate) struct Answer {
    /// When the line was read.
    pub(crate) at: Instant,
    /// The whole `bestmove` line.
    pub(crate) line: String,
    /// `info` lines about the best variation with their times: all, or only the last.
    pub(crate) infos: Vec<(Instant, String)>,
}

/// A running engine.
#[derive(Debug)]
pub(crate) struct Process {
    child: Running,
    stdin: ChildStdin,
    events: Receiver<Event>,
    keep_all: Arc<AtomicBool>,
    stderr: Arc<Mutex<Vec<u8>>>,
    stderr_reader: thread::JoinHandle<()>,
}

impl Process {
    /// Starts the program. It inherits the CPU affinity of the calling thread.
    pub(crate) fn start(spec: &EngineSpec) -> io::Result<Self> {
        let mut command = Command::new(&spec.command);
        command.args(&spec.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(dir) = &spec.dir {
            command.current_dir(dir);
        }
        isolate(&mut command);
        let mut child = Running(command.spawn()?);
        let missing = || io::Error::other("the engine's pipes are missing");
        let stdin = child.0.stdin.take().ok_or_else(missing)?;
        let stdout = child.0.stdout.take().ok_or_else(missing)?;
        let mut errors = child.0.stderr.take().ok_or_else(missing)?;

        // Room for every line of a handshake; when it is full, the engine waits for the game, not the memory.
        let (sender, events) = sync_channel(MAX_WAITING);
        let keep_all = Arc::new(AtomicBool::new(false));
        let mut reader = Reader {
            sender,
            keep_all: Arc::clone(&keep_all),
            line: Vec::new(),
            too_long: false,
            infos: Vec::new(),
        };
        thread::Builder::new().name("engine output".into()).spawn(move || reader.run(stdout))?;

        let stderr = Arc::new(Mutex::new(Vec::new()));
        let tail = Arc::clone(&stderr);
        let stderr_reader = thread::Builder::new().name("engine errors".into()).spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(n @ 1..) = errors.read(&mut chunk) {
                let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
                tail.extend_from_slice(&chunk[..n]);
                let excess = tail.len().saturating_sub(MAX_STDERR);
                tail.drain(..excess);
            }
        })?;
        Ok(Self { child, stdin, events, keep_all, stderr, stderr_reader })
    }

    /// Keeps every `info` line of the coming searches, not only the last.
    pub(crate) fn keep_all_infos(&self, keep: bool) {
        self.keep_all.store(keep, Ordering::Relaxed);
    }

    /// Sends lines in one write.
    pub(crate) fn send(&mut self, lines: &str) -> io::Result<()> {
        self.stdin.write_all(lines.as_bytes())?;
        self.stdin.flush()
    }

    /// The next event, or none by the deadline.
    pub(crate) fn next(&self, deadline: Instant) -> Option<Event> {
        let wait = deadline.saturating_duration_since(Instant::now());
        match self.events.recv_timeout(wait) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Event::Closed(String::new())),
        }
    }

    /// Drops everything said so far. One event more than can wait may be on its way; beyond that it would be an
    /// engine that talks faster than we listen, and no end.
    pub(crate) fn forget_events(&self) {
        for _ in 0..=MAX_WAITING {
            if self.events.try_recv().is_err() {
                return;
            }
        }
    }

    /// How the engine ended, in words for people; it gets a moment to do so.
    pub(crate) fn epitaph(&mut self) -> String {
        let deadline = Instant::now() + Duration::from_secs(1);
        let mut status = self.child.0.try_wait();
        while (matches!(status, Ok(None)) || !self.stderr_reader.is_finished()) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
            status = self.child.0.try_wait();
        }
        let mut text = match status {
            Ok(Some(status)) => describe(status),
            _ => "closed its output but still runs".into(),
        };
        let stderr = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let stderr = String::from_utf8_lossy(&stderr);
        let line =
            stderr.lines().rev().find(|line| !line.trim().is_empty() && !line.contains("RUST_BACKTRACE"));
        if let Some(line) = line {
            text += &format!("; its last words: {}", clip(line));
        }
        text
    }
}

/// A process that does not outlive its owner: it is killed with everything it started.
#[derive(Debug)]
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        kill_group(&self.0);
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An engine outlives neither the game nor us: it is asked to quit before it is killed.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.send("quit\n");
        let deadline = Instant::now() + Duration::from_millis(300);
        while Instant::now() < deadline {
            if !matches!(self.child.0.try_wait(), Ok(None)) {
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Keeps a Ctrl-C meant for us from reaching the engine, which would end as a crash in the tables, and ties the
/// engine's life to ours.
#[cfg(unix)]
fn isolate(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the closure runs in the child between fork and exec, where only async-signal-safe calls are
        // allowed; it makes one system call, prctl, and touches no memory but its own stack.
        unsafe {
            command.pre_exec(|| {
                let signal = rustix::process::Signal::KILL;
                Ok(rustix::process::set_parent_process_death_signal(Some(signal))?)
            });
        }
    }
}

#[cfg(not(unix))]
fn isolate(_: &mut Command) {}

#[cfg(unix)]
fn kill_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill_group(_: &Child) {}

fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("was killed by signal {signal}");
    }
    match status.code() {
        Some(code) => format!("exited with code {code}"),
        None => "ended".into(),
    }
}

/// An engine's text, short enough to quote and without control characters that could upset a terminal.
pub(crate) fn clip(text: &str) -> String {
    text.trim().chars().take(120).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Cuts the engine's output into lines.
struct Reader {
    sender: SyncSender<Event>,
    keep_all: Arc<AtomicBool>,
    line: Vec<u8>,
    too_long: bool,
    infos: Vec<(Instant, String)>,
}

impl Reader {
    fn run(&mut self, mut output: impl Read) {
        let mut chunk = [0; 16 * 1024];
        loop {
            let n = match output.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let at = Instant::now();
            for part in chunk[..n].split_inclusive(|&byte| byte == b'\n') {
                let room = MAX_LINE - self.line.len();
                self.too_long |= part.len() > room;
                self.line.extend_from_slice(&part[..part.len().min(room)]);
                if part.ends_with(b"\n") {
                    let line = std::mem::take(&mut self.line);
                    let whole = !std::mem::take(&mut self.too_long);
                    if whole && !self.take(at, &String::from_utf8_lossy(&line)) {
                        return;
                    }
                    self.line = line;
                    self.line.clear();
                }
            }
        }
        let partial = String::from_utf8_lossy(&self.line).into_owned();
        let _ = self.sender.send(Event::Closed(partial));
    }

    /// Keeps what matters of a line. False when nobody listens any more.
    fn take(&mut self, at: Instant, line: &str) -> bool {
        let line = line.trim();
        let word = line.split_ascii_whitespace().next().unwrap_or("");
        let event = match word {
            "info" => {
                if is_main_line(line) {
                    self.keep_info(at, line);
                }
                return true;
            }
            "bestmove" => {
                let infos = std::mem::take(&mut self.infos);
                Event::BestMove(Answer { at, line: line.to_owned(), infos })
            }
            "id" | "option" | "uciok" | "readyok" => Event::Line(line.to_owned()),
            _ => return true,
        };
        self.sender.send(event).is_ok()
    }

    /// Without `keep_all`, one slot holds the last evaluation; a bound only replaces a bound.
    fn keep_info(&mut self, at: Instant, line: &str) {
        let all = self.keep_all.load(Ordering::Relaxed);
        if self.infos.is_empty() || all && self.infos.len() < MAX_KEPT {
            self.infos.push((at, line.to_owned()));
            return;
        }
        let is_bound = |line: &str| line.contains("erbound");
        if let Some((kept_at, kept)) = self.infos.last_mut()
            && (all || !is_bound(line) || is_bound(kept))
        {
            *kept_at = at;
            kept.clear();
            kept.push_str(line);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use rustix::process::{Pid, test_kill_process};

    /// Also where the threads that would listen to it cannot be had.
    #[test]
    fn a_process_does_not_outlive_its_owner() {
        let mut command = Command::new("sleep");
        command.arg("600");
        isolate(&mut command);
        let running = Running(command.spawn().unwrap());
        let id = Pid::from_child(&running.0);
        assert!(test_kill_process(id).is_ok());
        drop(running);
        assert!(test_kill_process(id).is_err());
    }
}
