//! The process of an engine: lines of text in, lines of text out, each with the time at which it was read.
//!
//! A thread reads the output and stamps the relevant lines with a monotonic time, so that the clock stops
//! when the move arrives and not when the game gets round to processing it. The thread drops all other lines
//! at once: an engine that floods its output costs time of this thread, but no memory.

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

/// Longest line in bytes; the rest of a longer one is dropped.
const MAX_LINE: usize = 64 * 1024;
/// Maximum number of `info` lines of one search that are stored when all of them are wanted.
const MAX_INFOS: usize = 10_000;
/// Bytes at the end of the engine's standard error that are stored to explain a crash.
const MAX_STDERR: usize = 2048;

/// Capacity of the queue of events; when it is full, the engine's output blocks.
const MAX_WAITING: usize = 4096;

/// Output of an engine that matters to the arena.
#[derive(Debug)]
pub(crate) enum EngineEvent {
    /// A line of the handshake: `id`, `option`, `uciok`, `readyok`.
    Line(String),
    /// A `bestmove` line, with the `info` lines that led to it.
    BestMove(SearchAnswer),
    /// The output ended; with the text of the last, unfinished line.
    Closed(String),
}

/// Result of a search as the engine printed it.
#[derive(Debug)]
pub(crate) struct SearchAnswer {
    /// Time at which the line was read.
    pub(crate) at: Instant,
    /// The whole `bestmove` line.
    pub(crate) line: String,
    /// `info` lines about the best variation with their times: all of them, or only the last.
    pub(crate) infos: Vec<(Instant, String)>,
}

/// A running engine. Dropping it ends the process, by `quit` first and by a signal after 300 ms.
#[derive(Debug)]
pub(crate) struct Process {
    child: KillOnDrop,
    stdin: ChildStdin,
    events: Receiver<EngineEvent>,
    store_all: Arc<AtomicBool>,
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
        let mut child = KillOnDrop(command.spawn()?);
        let missing = || io::Error::other("the engine's pipes are missing");
        let stdin = child.0.stdin.take().ok_or_else(missing)?;
        let stdout = child.0.stdout.take().ok_or_else(missing)?;
        let mut errors = child.0.stderr.take().ok_or_else(missing)?;

        // Enough capacity for every line of a handshake. When it is full, the engine blocks instead of
        // filling the memory.
        let (sender, events) = sync_channel(MAX_WAITING);
        let store_all = Arc::new(AtomicBool::new(false));
        let mut reader = OutputReader {
            sender,
            store_all: Arc::clone(&store_all),
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
        Ok(Self { child, stdin, events, store_all, stderr, stderr_reader })
    }

    /// Stores every `info` line of the next searches, instead of only the last.
    pub(crate) fn store_all_infos(&self, keep: bool) {
        self.store_all.store(keep, Ordering::Relaxed);
    }

    /// Sends one or more lines in a single write.
    pub(crate) fn send(&mut self, lines: &str) -> io::Result<()> {
        self.stdin.write_all(lines.as_bytes())?;
        self.stdin.flush()
    }

    /// Returns the next event, or `None` if none arrives before the deadline.
    pub(crate) fn next(&self, deadline: Instant) -> Option<EngineEvent> {
        let wait = deadline.saturating_duration_since(Instant::now());
        match self.events.recv_timeout(wait) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(EngineEvent::Closed(String::new())),
        }
    }

    /// Drops all pending events. One event beyond the capacity may be on its way; the loop stops there,
    /// because an engine that prints faster than it is read would keep it running forever.
    pub(crate) fn discard_events(&self) {
        for _ in 0..=MAX_WAITING {
            if self.events.try_recv().is_err() {
                return;
            }
        }
    }

    /// Describes the end of the engine, with the last line of its standard error. Waits up to one second for
    /// it.
    pub(crate) fn exit_reason(&mut self) -> String {
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

/// A child process that does not outlive this value: it is killed together with all processes it started.
#[derive(Debug)]
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        kill_group(&self.0);
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks the engine to quit before the field `child` kills it, so that it can save its files.
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

/// Moves the engine into a process group of its own, so that a Ctrl-C meant for the match does not appear as
/// a crash in its tables, and ties the engine's life to this process.
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

/// Shortens text of an engine to 120 characters for a message, and replaces control characters that could
/// upset a terminal.
pub(crate) fn clip(text: &str) -> String {
    text.trim().chars().take(120).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Splits the engine's output into lines and sends those that matter.
struct OutputReader {
    sender: SyncSender<EngineEvent>,
    store_all: Arc<AtomicBool>,
    line: Vec<u8>,
    too_long: bool,
    infos: Vec<(Instant, String)>,
}

impl OutputReader {
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
                let space = MAX_LINE - self.line.len();
                self.too_long |= part.len() > space;
                self.line.extend_from_slice(&part[..part.len().min(space)]);
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
        let _ = self.sender.send(EngineEvent::Closed(partial));
    }

    /// Processes one line. Returns false once the receiver is gone.
    fn take(&mut self, at: Instant, line: &str) -> bool {
        let line = line.trim();
        let word = line.split_ascii_whitespace().next().unwrap_or("");
        let event = match word {
            "info" => {
                if is_main_line(line) {
                    self.store_info(at, line);
                }
                return true;
            }
            "bestmove" => {
                let infos = std::mem::take(&mut self.infos);
                EngineEvent::BestMove(SearchAnswer { at, line: line.to_owned(), infos })
            }
            "id" | "option" | "uciok" | "readyok" => EngineEvent::Line(line.to_owned()),
            _ => return true,
        };
        self.sender.send(event).is_ok()
    }

    /// Without `store_all`, only the last evaluation is stored; a bound replaces only a bound.
    fn store_info(&mut self, at: Instant, line: &str) {
        let all = self.store_all.load(Ordering::Relaxed);
        if self.infos.is_empty() || all && self.infos.len() < MAX_INFOS {
            self.infos.push((at, line.to_owned()));
            return;
        }
        let is_bound = |line: &str| line.contains("erbound");
        if let Some((stored_at, stored)) = self.infos.last_mut()
            && (all || !is_bound(line) || is_bound(stored))
        {
            *stored_at = at;
            stored.clear();
            stored.push_str(line);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use rustix::process::{Pid, test_kill_process};

    /// This also holds if the threads that would read its output cannot be created.
    #[test]
    fn a_process_does_not_outlive_its_owner() {
        let mut command = Command::new("sleep");
        command.arg("600");
        isolate(&mut command);
        let running = KillOnDrop(command.spawn().unwrap());
        let id = Pid::from_child(&running.0);
        assert!(test_kill_process(id).is_ok());
        drop(running);
        assert!(test_kill_process(id).is_err());
    }
}
