//! The process of an engine: lines of text in, lines of text out, each with the time at which it was read.
//!
//! A thread reads the output and stamps the relevant lines with a monotonic time, so that the clock stops
//! when the move arrives and not when the game gets round to processing it. The thread drops all other lines
//! at once: an engine that floods its output costs time of this thread, but no memory.

use crate::child::{EngineChild, read_lines};
use crate::info::is_main_line;
use crate::spec::EngineSpec;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::thread;
use std::time::Instant;

/// Maximum number of `info` lines of one search that are stored when all of them are wanted.
const MAX_INFOS: usize = 10_000;
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

/// A running engine, whose output is read by a thread of its own.
#[derive(Debug)]
pub(crate) struct Process {
    child: EngineChild,
    events: Receiver<EngineEvent>,
    store_all: Arc<AtomicBool>,
}

impl Process {
    /// Starts the program. It inherits the CPU affinity of the calling thread.
    pub(crate) fn start(spec: &EngineSpec) -> io::Result<Self> {
        let (child, stdout) = EngineChild::spawn(spec)?;
        // Enough capacity for every line of a handshake. When it is full, the engine blocks instead of
        // filling the memory.
        let (sender, events) = sync_channel(MAX_WAITING);
        let store_all = Arc::new(AtomicBool::new(false));
        let mut reader = OutputReader { sender, store_all: Arc::clone(&store_all), infos: Vec::new() };
        thread::Builder::new().name("engine output".into()).spawn(move || reader.run(stdout))?;
        Ok(Self { child, events, store_all })
    }

    /// Stores every `info` line of the next searches, instead of only the last.
    pub(crate) fn store_all_infos(&self, keep: bool) {
        self.store_all.store(keep, Ordering::Relaxed);
    }

    /// Sends one or more lines in a single write.
    pub(crate) fn send(&mut self, lines: &str) -> io::Result<()> {
        self.child.send(lines)
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
        self.child.exit_reason()
    }
}

/// Sends those lines of the engine's output that matter.
struct OutputReader {
    sender: SyncSender<EngineEvent>,
    store_all: Arc<AtomicBool>,
    infos: Vec<(Instant, String)>,
}

impl OutputReader {
    fn run(&mut self, output: impl Read) {
        if let Some(partial) = read_lines(output, |at, line| self.take(at, line)) {
            let _ = self.sender.send(EngineEvent::Closed(partial));
        }
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
