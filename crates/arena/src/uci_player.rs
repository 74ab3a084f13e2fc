//! An engine in its own process, spoken to in UCI.

use crate::process::{Answer, Event, Process, clip};
use crate::uci_option::{OptionError, UciOption};
use crate::{Analysis, Analyst, Clock, EngineSpec, Fault, GameSoFar, Info, Player, Thought};
use std::fmt::Write as _;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::{Duration, Instant};
use tandem_chess::{Board, Position, fen, uci};
use thiserror::Error;

/// Why an engine could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The program does not run.
    #[error("engine {engine}: cannot run {path}: {source}")]
    Spawn {
        /// The engine's name.
        engine: String,
        /// Its program.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It ended instead of answering.
    #[error("engine {engine} {epitaph}; expected '{expected}' in answer to '{asked}' (is it a UCI engine?)")]
    Ended {
        /// The engine's name.
        engine: String,
        /// How it ended.
        epitaph: String,
        /// What it was asked.
        asked: &'static str,
        /// What it should have said.
        expected: &'static str,
    },
    /// It did not answer in time.
    #[error(
        "engine {engine} did not answer '{expected}' to '{asked}' within {seconds} s (is it a UCI engine?)"
    )]
    Silent {
        /// The engine's name.
        engine: String,
        /// What it was asked.
        asked: &'static str,
        /// What it should have said.
        expected: &'static str,
        /// How long it had.
        seconds: u64,
    },
    /// Nobody waits for it any more.
    #[error("engine {engine} was still preparing when it was called off")]
    Cancelled {
        /// The engine's name.
        engine: String,
    },
    /// An engine within this program cannot be made as asked.
    #[error("engine {engine}: {what}")]
    Inside {
        /// The engine's name.
        engine: String,
        /// What is wrong.
        what: String,
    },
    /// An option that it does not have, or a value that it does not take.
    #[error("engine {engine}: {source}")]
    Option {
        /// The engine's name.
        engine: String,
        /// What is wrong.
        source: OptionError,
    },
}

/// Lines of a handshake that are kept: no engine has so many options, and one that floods gets no memory for it.
const MAX_HANDSHAKE: usize = 2000;

/// How long engines may take where no chess clock says.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For `uciok` after the start.
    pub start: Duration,
    /// For `readyok`, with tables to clear and networks to load.
    pub ready: Duration,
    /// For a move under a limit of depth or nodes.
    pub untimed_move: Duration,
    /// For `bestmove` after `stop`, before the engine counts as hanging.
    pub after_stop: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(10),
            ready: Duration::from_secs(30),
            untimed_move: Duration::from_secs(300),
            after_stop: Duration::from_secs(3),
        }
    }
}

/// A UCI engine that plays.
#[derive(Debug)]
pub struct UciPlayer {
    name: String,
    process: Process,
    options: Vec<UciOption>,
    patience: Patience,
    ponder: bool,
    /// The position it ponders on, by the moves that lead there.
    pondering: Option<String>,
    /// The ponder move of the last answer.
    ponder_move: Option<String>,
    /// Set when nobody waits for moves any more.
    cancel: Arc<AtomicBool>,
    well: bool,
}

impl UciPlayer {
    /// Starts the engine, sets its options and waits until it is ready. Once `cancel` is set, searches end with
    /// [`Fault::Cancelled`].
    pub fn start(spec: &EngineSpec, patience: Patience, cancel: Arc<AtomicBool>) -> Result<Self, StartError> {
        let process = Process::start(spec).map_err(|source| StartError::Spawn {
            engine: spec.label(),
            path: spec.command.display().to_string(),
            source,
        })?;
        let mut player = Self {
            name: spec.label(),
            process,
            options: Vec::new(),
            patience,
            ponder: spec.ponder,
            pondering: None,
            ponder_move: None,
            cancel,
            well: true,
        };
        for line in player.ask("uci", "uciok", patience.start)? {
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
            // It was asked to ponder, and cannot.
            Err(error) if spec.ponder => return Err(error),
            Err(_) => {}
        }
        player.tell(&commands)?;
        player.ask("isready", "readyok", patience.ready)?;
        Ok(player)
    }

    /// Whether the engine has an option.
    pub fn has_option(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.name.eq_ignore_ascii_case(name))
    }

    fn setting(&self, name: &str, value: &str) -> Result<String, StartError> {
        UciOption::command(&self.options, name, value)
            .map_err(|source| StartError::Option { engine: self.name.clone(), source })
    }

    fn tell(&mut self, commands: &str) -> Result<(), StartError> {
        match self.process.send(commands) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.ended("setoption", "readyok")),
        }
    }

    fn ended(&mut self, asked: &'static str, expected: &'static str) -> StartError {
        self.well = false;
        StartError::Ended { engine: self.name.clone(), epitaph: self.process.epitaph(), asked, expected }
    }

    /// Sends a question and collects the lines up to its answer.
    fn ask(
        &mut self,
        asked: &'static str,
        expected: &'static str,
        patience: Duration,
    ) -> Result<Vec<String>, StartError> {
        let deadline = Instant::now() + patience;
        if self.process.send(&format!("{asked}\n")).is_err() {
            return Err(self.ended(asked, expected));
        }
        let mut lines = Vec::new();
        loop {
            match self.process.next(soon(deadline)) {
                Some(Event::Line(line)) if line.split_ascii_whitespace().next() == Some(expected) => {
                    return Ok(lines);
                }
                Some(Event::Line(line)) if lines.len() < MAX_HANDSHAKE => lines.push(line),
                Some(Event::Closed(_)) => return Err(self.ended(asked, expected)),
                Some(Event::Line(_) | Event::BestMove(_)) | None => {}
            }
            // Looked at on every turn: an engine that talks without end must not keep us here.
            let engine = || self.name.clone();
            if self.cancel.load(Ordering::Relaxed) {
                self.well = false;
                return Err(StartError::Cancelled { engine: engine() });
            }
            if Instant::now() >= deadline {
                self.well = false;
                let seconds = patience.as_secs();
                return Err(StartError::Silent { engine: engine(), asked, expected, seconds });
            }
        }
    }

    /// Waits until the engine has done everything it was told: it is awake when its clock starts, and what it still
    /// had to say (a second `bestmove`, for one) is not taken for the answer to what comes next.
    fn settle(&mut self) -> Result<(), Fault> {
        match self.ask("isready", "readyok", self.patience.ready) {
            Ok(_) => Ok(()),
            Err(StartError::Ended { epitaph, .. }) => Err(Fault::Crash(epitaph)),
            Err(StartError::Cancelled { .. }) => Err(Fault::Cancelled),
            Err(error) => Err(Fault::Hang(error.to_string())),
        }
    }

    /// Searches a position: `position` and `go` are sent in one write, and the clock runs from just before it, for
    /// the engine may think from the moment of the write, and we may be put aside in its favour.
    fn run(&mut self, commands: &str, allowance: Option<Duration>, margin: Duration) -> Result<Reply, Fault> {
        self.process.forget_events();
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
        let patience = allowance.map_or(self.patience.untimed_move, |time| time + margin);
        // A move that is late by a hair is still read, so that the record tells by how much.
        let deadline = start + patience + Duration::from_millis(5);
        let mut answer = self.next_answer(deadline)?;
        if answer.is_none() {
            // It is late. Whether it is merely slow or does not answer at all decides if it lives on.
            if self.process.send("stop\n").is_err() {
                return Err(self.crash(""));
            }
            answer = self.next_answer(Instant::now() + self.patience.after_stop)?;
            if answer.is_none() {
                self.well = false;
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

    fn next_answer(&mut self, deadline: Instant) -> Result<Option<Answer>, Fault> {
        loop {
            match self.process.next(soon(deadline)) {
                Some(Event::BestMove(answer)) => return Ok(Some(answer)),
                Some(Event::Closed(partial)) => return Err(self.crash(&partial)),
                Some(Event::Line(_)) | None => {}
            }
            // As in `ask`: whatever else the engine says, time passes.
            if self.cancel.load(Ordering::Relaxed) {
                self.well = false;
                return Err(Fault::Cancelled);
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
        }
    }

    fn crash(&mut self, partial: &str) -> Fault {
        self.well = false;
        let mut text = self.process.epitaph();
        if !partial.trim().is_empty() {
            write!(text, " in the middle of the line '{}'", clip(partial)).unwrap_or_default();
        }
        Fault::Crash(text)
    }

    /// Ends a ponder search that was not answered.
    fn stop_pondering(&mut self) -> Result<(), Fault> {
        if self.pondering.take().is_some() {
            if self.process.send("stop\n").is_err() {
                return Err(self.crash(""));
            }
            if self.next_answer(Instant::now() + self.patience.after_stop)?.is_none() {
                self.well = false;
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
    answer: Answer,
}

/// A moment no later than the deadline: long waits are cut into pieces, so that Ctrl-C need not wait for the engine.
fn soon(deadline: Instant) -> Instant {
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
        self.settle()
    }

    fn think(&mut self, game: &GameSoFar, clock: &Clock, opponent: &Clock) -> Result<Thought, Fault> {
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
            self.settle()?;
            let white = game.position.side_to_move() == tandem_chess::Color::White;
            let mut commands = position_command(game);
            commands.push_str("go");
            commands.push_str(&clock.go_arguments(opponent, white));
            commands.push('\n');
            self.run(&commands, allowance, margin)?
        };
        in_time(reply.elapsed, allowance, margin)?;
        let text = best_move_word(&reply.answer.line);
        let Ok(mv) = uci::parse(game.position.board(), text) else {
            self.well = false;
            return Err(illegal(text));
        };
        self.ponder_move = reply.answer.line.split_ascii_whitespace().nth(3).map(str::to_owned);
        let info = reply.answer.infos.last().map(|(_, line)| Info::parse(line)).unwrap_or_default();
        Ok(Thought {
            mv,
            score: info.score,
            depth: info.depth,
            nodes: info.nodes,
            started: reply.start,
            elapsed: reply.elapsed,
        })
    }

    fn opponent_thinks(&mut self, game: &GameSoFar, clock: &Clock, opponent: &Clock) {
        let Some(expected) = self.ponder_move.take().filter(|_| self.ponder) else { return };
        let Ok(mv) = uci::parse(game.position.board(), &expected) else { return };
        // A move that ends the game leaves nothing to think about.
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
        self.process.forget_events();
        // A failure here shows when the move is asked for.
        if self.process.send(&commands).is_ok() {
            self.pondering = Some(moves);
        }
    }

    fn rest(&mut self) {
        // A fault here leaves it unwell, which is all that matters after a game.
        let _ = self.stop_pondering();
    }

    fn is_well(&self) -> bool {
        self.well
    }
}

/// A fault if an answer took longer than it may.
fn in_time(elapsed: Duration, allowance: Option<Duration>, margin: Duration) -> Result<(), Fault> {
    match allowance {
        Some(allowed) if elapsed > allowed + margin => Err(Fault::Time(elapsed - allowed)),
        _ => Ok(()),
    }
}

impl Analyst for UciPlayer {
    fn name(&self) -> &str {
        &self.name
    }

    fn analyse(&mut self, game: &GameSoFar, clock: &Clock) -> Result<Analysis, Fault> {
        self.stop_pondering()?;
        self.settle()?;
        self.process.keep_all_infos(true);
        let white = game.position.side_to_move() == tandem_chess::Color::White;
        let commands = format!("{}go{}\n", position_command(game), clock.go_arguments(clock, white));
        let reply = self.run(&commands, clock.allowance(), clock.limits().margin);
        self.process.keep_all_infos(false);
        let reply = reply?;
        in_time(reply.elapsed, clock.allowance(), clock.limits().margin)?;
        let text = best_move_word(&reply.answer.line);
        let best = uci::parse(game.position.board(), text).map_err(|_| illegal(text))?;
        let since = |at: Instant| at.saturating_duration_since(reply.start);
        let infos = reply.answer.infos.iter().map(|(at, line)| (since(*at), Info::parse(line))).collect();
        Ok(Analysis { best, elapsed: reply.elapsed, infos })
    }

    fn forget(&mut self, chess960: bool) -> Result<(), Fault> {
        self.new_game(chess960)
    }

    fn is_well(&self) -> bool {
        self.well
    }
}
