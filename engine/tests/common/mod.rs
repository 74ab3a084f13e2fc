//! The engine as a process that reads and writes lines, for the tests of the protocol.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
#[cfg(feature = "strategist")]
use tandem_transformer::{Architecture, Storage, Weights};

/// Far longer than any answer should take, even unoptimised on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running engine, killed when it is dropped.
pub struct Engine {
    child: Child,
    pub input: Option<ChildStdin>,
    pub lines: Receiver<String>,
}

impl Engine {
    pub fn start() -> Self {
        Self::run(Command::new(env!("CARGO_BIN_EXE_tandem")))
    }

    /// Starts an engine from a shell, after a command such as one that sets limits.
    #[cfg(target_os = "linux")]
    pub fn start_in(first: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{first} && exec '{}'", env!("CARGO_BIN_EXE_tandem"))]);
        Self::run(shell)
    }

    fn run(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { input: child.stdin.take(), child, lines }
    }

    pub fn send(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    /// Reads up to the first line that starts with this text, and returns all lines read.
    pub fn until(&mut self, start: &str) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let found = line.starts_with(start);
                    seen.push(line);
                    if found {
                        return seen;
                    }
                }
                Err(error) => panic!("{error} while waiting for '{start}' after {seen:#?}"),
            }
        }
    }

    /// Sends a line and returns the answer, up to the `readyok` for the next.
    pub fn ask(&mut self, line: &str) -> Vec<String> {
        self.send(line);
        self.send("isready");
        let mut answer = self.until("readyok");
        answer.pop();
        answer
    }

    /// Closes the input and waits for the process to end. Returns the time that took.
    pub fn wait_for_end(mut self) -> Duration {
        let start = Instant::now();
        drop(self.input.take());
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                return start.elapsed();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("the engine did not end");
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last line of an answer; empty if there is none.
pub fn last(lines: &[String]) -> &str {
    lines.last().map_or("", String::as_str)
}

/// The word after the first occurrence of another one.
pub fn after<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    line.split(' ').skip_while(|other| *other != word).nth(1)
}

/// A temporary file that is removed after the test.
pub struct NetworkFile(pub PathBuf);

impl NetworkFile {
    /// A random network with this architecture in TOML.
    #[cfg(feature = "strategist")]
    pub fn new(name: &str, architecture: &str) -> Self {
        Self::random(name, Architecture::from_toml(architecture).unwrap())
    }

    /// A random network with this architecture.
    #[cfg(feature = "strategist")]
    pub fn random(name: &str, architecture: Architecture) -> Self {
        let weights = Weights::random(architecture, 7);
        Self::of_bytes(name, &weights.to_bytes(Storage::F32, "made for a test"))
    }

    pub fn of_bytes(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("tandem-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for NetworkFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
