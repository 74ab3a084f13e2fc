//! An engine as a child process: its pipes, its last words, and its end.

use crate::spec::EngineSpec;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest line in bytes; the rest of a longer one is dropped.
const MAX_LINE: usize = 64 * 1024;
/// Bytes at the end of the engine's standard error that are stored to explain a crash.
const MAX_STDERR: usize = 2048;

/// A running engine, without its standard output, which [`EngineChild::spawn`] hands out. Dropping it ends the
/// process, by `quit` first and by a signal after 300 ms.
#[derive(Debug)]
pub(crate) struct EngineChild {
    child: KillOnDrop,
    stdin: Option<ChildStdin>,
    stderr: Arc<Mutex<Vec<u8>>>,
    stderr_reader: thread::JoinHandle<()>,
}

impl EngineChild {
    /// Starts the program. It inherits the CPU affinity of the calling thread.
    pub(crate) fn spawn(spec: &EngineSpec) -> io::Result<(Self, ChildStdout)> {
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
        Ok((Self { child, stdin: Some(stdin), stderr, stderr_reader }, stdout))
    }

    /// Sends one or more lines in a single write.
    pub(crate) fn send(&mut self, lines: &str) -> io::Result<()> {
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(lines.as_bytes())?;
        stdin.flush()
    }

    /// Closes the engine's standard input, as a GUI that crashes does.
    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Number by which the operating system knows the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// Waits for the process to end by itself; `None` if it has not ended before the deadline.
    pub(crate) fn wait_until(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            match self.child.0.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
                _ => return None,
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
impl Drop for EngineChild {
    fn drop(&mut self) {
        let _ = self.send("quit\n");
        let _ = self.wait_until(Instant::now() + Duration::from_millis(300));
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

/// Splits the engine's output into lines and gives each to `take`, with the time at which it was read, until
/// the output ends or `take` returns false. Lines longer than 64 KiB are dropped. Returns the last, unfinished
/// line, or `None` if `take` has ended it.
pub(crate) fn read_lines(
    mut output: impl Read,
    mut take: impl FnMut(Instant, &str) -> bool,
) -> Option<String> {
    let mut chunk = [0; 16 * 1024];
    let (mut line, mut too_long) = (Vec::new(), false);
    loop {
        let n = match output.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let at = Instant::now();
        for part in chunk[..n].split_inclusive(|&byte| byte == b'\n') {
            let space = MAX_LINE - line.len();
            too_long |= part.len() > space;
            line.extend_from_slice(&part[..part.len().min(space)]);
            if part.ends_with(b"\n") {
                let whole = !std::mem::take(&mut too_long);
                if whole && !take(at, &String::from_utf8_lossy(&line)) {
                    return None;
                }
                line.clear();
            }
        }
    }
    Some(String::from_utf8_lossy(&line).into_owned())
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
