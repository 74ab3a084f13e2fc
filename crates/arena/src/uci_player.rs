//! An engine in its own process that speaks the UCI protocol: handshake, searches, pondering and timeouts.

use crate::uci_option::{OptionError, UciOption};
use crate::{Analysis, Analyst, ChosenMove, EngineSpec, Fault, GameSoFar, Player, PlayerClock, UciInfo};
use crate::{
    child::clip,
    process::{EngineEvent, Process, SearchAnswer},
};
use std::fmt::Write as _;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::{Duration, Instant};
use tandem_chess::{Board, Position, fen, uci};
use thiserror::Error;

/// Error while starting an engine. Each message begins with the engine's name.
#[derive(Debug, Error)]
pub enum StartError {
    /// The program cannot be run, for example because the path is wrong.
    #[error("engine {engine}: cannot run {path}: {source}")]
    Spawn {
        /// Name of the engine as given, or the file name of its program.
        engine: String,
        /// Path of the program.
        path: String,
        /// Cause reported by the operating system.
        source: std::io::Error,
    },
    /// The process ended or closed its output instead of answering.
    #[error(
        "engine {engine} {exit_reason}; expected '{expected}' in answer to '{command}' (is it a UCI engine?)"
    )]
    Ended {
        /// Name of the engine that ended while it was started.
        engine: String,
        /// Exit status of the process, with the last line of its standard error.
        exit_reason: String,
        /// Command that was sent.
        command: &'static str,
        /// First word of the expected answer.
        expected: &'static str,
    },
    /// The engine did not answer before the timeout.
    #[error(
        "engine {engine} did not answer '{expected}' to '{command}' within {seconds} s (is it a UCI engine?)"
    )]
    Silent {
        /// Name of the engine.
        engine: String,
        /// Command that was sent.
        command: &'static str,
        /// First word of the expected answer.
        expected: &'static str,
        /// Timeout in seconds.
        seconds: u64,
    },
    /// The match was cancelled while the engine was starting.
    #[error("engine {engine} was still preparing when it was called off")]
    Cancelled {
        /// Name of the engine.
        engine: String,
    },
    /// A player within this process cannot be created as described.
    #[error("engine {engine}: {what}")]
    InProcess {
        /// Name of the player.
        engine: String,
        /// Description of the fault.
        what: String,
    },
    /// The engine lacks an option, or does not accept its value.
    #[error("engine {engine}: {source}")]
    Option {
        /// Name of the engine.
        engine: String,
        /// Option and reason.
        source: OptionError,
    },
}

/// Maximum number of stored lines of a handshake. No engine has as many options, and an engine that floods
/// its output must not fill the memory.
const MAX_HANDSHAKE: usize = 2000;

/// Timeouts for the engine's answers that no chess clock limits.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Longest wait for `uciok` after the process was started; 10 seconds by default.
    pub start: Duration,
    /// Longest wait for `readyok`, which may include clearing tables and loading networks; 30 seconds by
    /// default.
    pub ready: Duration,
    /// Longest wait for a move under a limit of depth or nodes alone; 300 seconds by default.
    pub untimed_move: Duration,
    /// Longest wait for `bestmove` after `stop`, before the engine counts as hanging; 3 seconds by default.
    pub after_stop: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(10),
            ready: Duration::from_secs(30),
            untimed_move: Duration::from_secs(300),
            after_stop: Duration::from_secs(3),
        }
    }
}

/// A UCI engine in a process of its own, as a player and analyst.
#[derive(Debug)]
pub struct UciPlayer {
    name: String,
    process: Process,
    options: Vec<UciOption>,
    timeouts: Timeouts,
    ponder: bool,
    /// Moves that lead to the position the engine is pondering on.
    pondering: Option<String>,
    /// Ponder move of the last answer, not checked for legality.
    ponder_move: Option<String>,
    /// Set from outside to cancel all searches.
    cancel: Arc<AtomicBool>,
    usable: bool,
}

impl UciPlayer {
    /// Starts the engine, sets its options and waits until it is ready. Once `cancel` is set, searches end
    /// with [`Fault::Cancelled`].
    ///
    /// # Errors
    ///
    /// Fails if the program does not run, does not answer as a UCI engine in time, or does not accept an
    /// option.
    pub fn start(spec: &EngineSpec, timeouts: Timeouts, cancel: Arc<AtomicBool>) -> Result<Self, StartError> {
        let process = Process::start(spec).map_err(|source| StartError::Spawn {
            engine: spec.label(),
            path: spec.command.display().to_string(),
            source,
        })?;
        let mut player = Self {
            name: spec.label(),
            process,
            options: Vec::new(),
            timeouts,
            ponder: spec.ponder,
            pondering: None,
            ponder_move: None,
            cancel,
            usable: true,
        };
        for line in player.ask("uci", "uciok", timeouts.start)? {
            if let Some(name) = line.strip_prefix("id name ")
                && spec.name.is_none()
            {
                player.name = clip(name);
            } else if let Some(option) = UciOption::parse(&line) {
                player.options.push(option);
            }
        }
        let mut commands = String::new();
        for (name, value) in &spec.options {
            commands += &player.setting(name, value)?;
        }
        match player.setting("Ponder", if spec.ponder { "true" } else { "false" }) {
            Ok(ponder) => commands += &ponder,
            // Pondering was requested, but the engine does not support it.
            Err(error) if spec.ponder => return Err(error),
            Err(_) => {}
        }
        player.send_options(&commands)?;
        player.ask("isready", "readyok", timeouts.ready)?;
        Ok(player)
    }

    /// True if the engine has announced an option of this name, without regard to case.
    pub fn has_option(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.name.eq_ignore_ascii_case(name))
    }

    fn setting(&self, name: &str, value: &str) -> Result<String, StartError> {
        UciOption::command(&self.options, name, value)
            .map_err(|source| StartError::Option { engine: self.name.clone(), source })
    }

    fn send_options(&mut self, commands: &str) -> Result<(), StartError> {
        match self.process.send(commands) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.ended("setoption", "readyok")),
        }
    }

    fn ended(&mut self, command: &'static str, expected: &'static str) -> StartError {
        self.usable = false;
        StartError::Ended {
            engine: self.name.clone(),
            exit_reason: self.process.exit_reason(),
            command,
            expected,
        }
    }

    /// Sends a command and collects the lines up to the one that begins with `expected`.
    fn ask(
        &mut self,
        command: &'static str,
        expected: &'static str,
        timeout: Duration,
    ) -> Result<Vec<String>, StartError> {
        let deadline = Instant::now() + timeout;
        if self.process.send(&format!("{command}\n")).is_err() {
            return Err(self.ended(command, expected));
        }
        let mut lines = Vec::new();
        loop {
            match self.process.next(poll_until(deadline)) {
                Some(EngineEvent::Line(line)) if line.split_ascii_whitespace().next() == Some(expected) => {
                    return Ok(lines);
                }
                Some(EngineEvent::Line(line)) if lines.len() < MAX_HANDSHAKE => lines.push(line),
                Some(EngineEvent::Closed(_)) => return Err(self.ended(command, expected)),
                Some(EngineEvent::Line(_) | EngineEvent::BestMove(_)) | None => {}
            }
            // Checked on every turn, because an engine that prints without end must not keep the loop
            // running.
            let engine = || self.name.clone();
            if self.cancel.load(Ordering::Relaxed) {
                self.usable = false;
                return Err(StartError::Cancelled { engine: engine() });
            }
            if Instant::now() >= deadline {
                self.usable = false;
                let seconds = timeout.as_secs();
                return Err(StartError::Silent { engine: engine(), command, expected, seconds });
            }
        }
    }

    /// Waits until the engine has processed all commands. It is then awake when its clock starts, and late
    /// output, such as a second `bestmove`, is not taken for the answer to the next command.
    fn wait_until_ready(&mut self) -> Result<(), Fault> {
        match self.ask("isready", "readyok", self.timeouts.ready) {
            Ok(_) => Ok(()),
            Err(StartError::Ended { exit_reason, .. }) => Err(Fault::Crash(exit_reason)),
            Err(StartError::Cancelled { .. }) => Err(Fault::Cancelled),
            Err(error) => Err(Fault::Hang(error.to_string())),
        }
    }

    /// Searches a position. `position` and `go` are sent in one write, and the clock runs from just before
    /// it, because the engine may think from the moment of the write, and this thread may be suspended in its
    /// favour.
    fn run(&mut self, commands: &str, allowance: Option<Duration>, margin: Duration) -> Result<Reply, Fault> {
        self.process.discard_events();
        let start = Instant::now();
        if self.process.send(commands).is_err() {
            return Err(self.crash(""));
        }
        self.await_answer(start, allowance, margin)
    }

    fn await_answer(
        &mut self,
        start: Instant,
        allowance: Option<Duration>,
        margin: Duration,
    ) -> Result<Reply, Fault> {
        let timeout = allowance.map_or(self.timeouts.untimed_move, |time| time + margin);
        // A move that is late by a few milliseconds is still read, so that the record can state by how much.
        let deadline = start + timeout + Duration::from_millis(5);
        let mut answer = self.next_answer(deadline)?;
        if answer.is_none() {
            // The move is late. Only an engine that answers now is slow rather than hanging, and can be used
            // again.
            if self.process.send("stop\n").is_err() {
                return Err(self.crash(""));
            }
            answer = self.next_answer(Instant::now() + self.timeouts.after_stop)?;
            if answer.is_none() {
                self.usable = false;
                let waited = start.elapsed().as_secs_f64();
                return Err(Fault::Hang(format!("no bestmove after {waited:.1} s, not even to 'stop'")));
            }
            if allowance.is_none() {
                let waited = start.elapsed().as_secs_f64();
                return Err(Fault::Hang(format!("no bestmove within {waited:.1} s")));
            }
        }
        match answer {
            Some(answer) => Ok(Reply { elapsed: answer.at.saturating_duration_since(start), start, answer }),
            None => Err(self.crash("")),
        }
    }

    fn next_answer(&mut self, deadline: Instant) -> Result<Option<SearchAnswer>, Fault> {
        loop {
            match self.process.next(poll_until(deadline)) {
                Some(EngineEvent::BestMove(answer)) => return Ok(Some(answer)),
                Some(EngineEvent::Closed(partial)) => return Err(self.crash(&partial)),
                Some(EngineEvent::Line(_)) | None => {}
            }
            // Checked on every turn, as in `ask`.
            if self.cancel.load(Ordering::Relaxed) {
                self.usable = false;
                return Err(Fault::Cancelled);
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
        }
    }

    fn crash(&mut self, partial: &str) -> Fault {
        self.usable = false;
        let mut text = self.process.exit_reason();
        if !partial.trim().is_empty() {
            write!(text, " in the middle of the line '{}'", clip(partial)).unwrap_or_default();
        }
        Fault::Crash(text)
    }

    /// Stops a ponder search whose expected move was not played.
    fn stop_pondering(&mut self) -> Result<(), Fault> {
        if self.pondering.take().is_some() {
            if self.process.send("stop\n").is_err() {
                return Err(self.crash(""));
            }
            if self.next_answer(Instant::now() + self.timeouts.after_stop)?.is_none() {
                self.usable = false;
                return Err(Fault::Hang("no bestmove to 'stop' while pondering".into()));
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Reply {
    start: Instant,
    elapsed: Duration,
    answer: SearchAnswer,
}

/// Cuts long waits into pieces of 200 ms, so that Ctrl-C does not have to wait for the engine.
fn poll_until(deadline: Instant) -> Instant {
    deadline.min(Instant::now() + Duration::from_millis(200))
}

fn best_move_word(line: &str) -> &str {
    line.split_ascii_whitespace().nth(1).unwrap_or("")
}

fn illegal(text: &str) -> Fault {
    Fault::Illegal(clip(text))
}

fn position_command(game: &GameSoFar) -> String {
    let mut text = String::with_capacity(game.moves.len() + 128);
    if *game.start == Board::default() && !game.chess960 {
        text.push_str("position startpos");
    } else {
        text.push_str("position fen ");
        text.push_str(&fen::format(game.start));
    }
    if !game.moves.is_empty() {
        text.push_str(" moves ");
        text.push_str(game.moves);
    }
    text.push('\n');
    text
}

impl Player for UciPlayer {
    fn name(&self) -> &str {
        &self.name
    }

    fn plays_chess960(&self) -> bool {
        self.has_option("UCI_Chess960")
    }

    fn new_game(&mut self, chess960: bool) -> Result<(), Fault> {
        self.stop_pondering()?;
        self.ponder_move = None;
        let mut commands = String::new();
        if let Ok(setting) = self.setting("UCI_Chess960", if chess960 { "true" } else { "false" }) {
            commands += &setting;
        }
        commands += "ucinewgame\n";
        if self.process.send(&commands).is_err() {
            return Err(self.crash(""));
        }
        self.wait_until_ready()
    }

    fn think(
        &mut self,
        game: &GameSoFar,
        clock: &PlayerClock,
        opponent: &PlayerClock,
    ) -> Result<ChosenMove, Fault> {
        let (allowance, margin) = (clock.allowance(), clock.limits().margin);
        let reply = if self.pondering.as_deref() == Some(game.moves) {
            self.pondering = None;
            let start = Instant::now();
            if self.process.send("ponderhit\n").is_err() {
                return Err(self.crash(""));
            }
            self.await_answer(start, allowance, margin)?
        } else {
            self.stop_pondering()?;
            self.wait_until_ready()?;
            let white = game.position.side_to_move() == tandem_chess::Color::White;
            let mut commands = position_command(game);
            commands.push_str("go");
            commands.push_str(&clock.go_arguments(opponent, white));
            commands.push('\n');
            self.run(&commands, allowance, margin)?
        };
        check_time(reply.elapsed, allowance, margin)?;
        let text = best_move_word(&reply.answer.line);
        let Ok(mv) = uci::parse(game.position.board(), text) else {
            self.usable = false;
            return Err(illegal(text));
        };
        self.ponder_move = reply.answer.line.split_ascii_whitespace().nth(3).map(str::to_owned);
        let info = reply.answer.infos.last().map(|(_, line)| UciInfo::parse(line)).unwrap_or_default();
        Ok(ChosenMove {
            mv,
            score: info.score,
            depth: info.depth,
            nodes: info.nodes,
            started: reply.start,
            elapsed: reply.elapsed,
        })
    }

    fn start_pondering(&mut self, game: &GameSoFar, clock: &PlayerClock, opponent: &PlayerClock) {
        let Some(expected) = self.ponder_move.take().filter(|_| self.ponder) else { return };
        let Ok(mv) = uci::parse(game.position.board(), &expected) else { return };
        // A move that ends the game leaves nothing to ponder on.
        let mut after = Position::from(game.position.board().clone());
        after.play(mv);
        if !after.has_legal_move() {
            return;
        }
        let expected = uci::format(game.position.board(), mv, game.chess960);
        let moves = format!("{}{}{expected}", game.moves, if game.moves.is_empty() { "" } else { " " });
        let white = game.position.side_to_move() == tandem_chess::Color::Black;
        let commands = format!(
            "{}go ponder{}\n",
            position_command(&GameSoFar { moves: &moves, ..*game }),
            clock.go_arguments(opponent, white)
        );
        self.process.discard_events();
        // A failure here shows when the move is requested.
        if self.process.send(&commands).is_ok() {
            self.pondering = Some(moves);
        }
    }

    fn end_game(&mut self) {
        // A fault here marks the engine as unusable, which is all that matters after a game.
        let _ = self.stop_pondering();
    }

    fn is_usable(&self) -> bool {
        self.usable
    }
}

/// Fails if an answer took longer than allowed.
fn check_time(elapsed: Duration, allowance: Option<Duration>, margin: Duration) -> Result<(), Fault> {
    match allowance {
        Some(allowed) if elapsed > allowed + margin => Err(Fault::Time(elapsed - allowed)),
        _ => Ok(()),
    }
}

impl Analyst for UciPlayer {
    fn name(&self) -> &str {
        &self.name
    }

    fn analyse(&mut self, game: &GameSoFar, clock: &PlayerClock) -> Result<Analysis, Fault> {
        self.stop_pondering()?;
        self.wait_until_ready()?;
        self.process.store_all_infos(true);
        let white = game.position.side_to_move() == tandem_chess::Color::White;
        let commands = format!("{}go{}\n", position_command(game), clock.go_arguments(clock, white));
        let reply = self.run(&commands, clock.allowance(), clock.limits().margin);
        self.process.store_all_infos(false);
        let reply = reply?;
        check_time(reply.elapsed, clock.allowance(), clock.limits().margin)?;
        let text = best_move_word(&reply.answer.line);
        let best = uci::parse(game.position.board(), text).map_err(|_| illegal(text))?;
        let since = |at: Instant| at.saturating_duration_since(reply.start);
        let infos = reply.answer.infos.iter().map(|(at, line)| (since(*at), UciInfo::parse(line))).collect();
        Ok(Analysis { best, elapsed: reply.elapsed, infos })
    }

    fn reset(&mut self, chess960: bool) -> Result<(), Fault> {
        self.new_game(chess960)
    }

    fn is_usable(&self) -> bool {
        self.usable
    }
}
