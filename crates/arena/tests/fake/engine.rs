//! An engine that misbehaves on request, for the tests of matches.
//!
//! Its arguments name its faults: `no-uciok`, `illegal`, `crash@3` (on its third move) and so on. Without
//! arguments it is a well-behaved engine that plays random legal moves at once. `diary=FILE` names a file to
//! which it appends a line for each start and each end of pondering; with it, `fail-from@2` and
//! `fail-until@4` make its second and third start fail.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::exit;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tandem_chess::{Position, uci};
use tandem_util::random::SplitMix;

fn main() {
    let (diary, faults): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with("diary="));
    let diary = diary.first().and_then(|arg| arg.strip_prefix("diary=")).map(PathBuf::from);
    let faults: Vec<(String, u32)> = faults.iter().map(|arg| fault(arg)).collect();
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let (position, random) = (Position::startpos(), SplitMix::new(3));
    Fake { faults, diary, position, chess960: false, moves: 0, games: 0, random }.run(&lines);
}

/// Parses `name` or `name@move`; the move is 1 if it is not given.
fn fault(arg: &str) -> (String, u32) {
    match arg.split_once('@') {
        Some((name, at)) => (name.into(), at.parse().unwrap_or(1)),
        None => (arg.into(), 1),
    }
}

struct Fake {
    faults: Vec<(String, u32)>,
    diary: Option<PathBuf>,
    position: Position,
    chess960: bool,
    moves: u32,
    games: u32,
    random: SplitMix,
}

impl Fake {
    /// True if it has a fault and the move from which the fault applies has come.
    fn plays(&self, name: &str) -> bool {
        self.faults.iter().any(|(fault, at)| fault == name && self.moves >= *at)
    }

    fn has(&self, name: &str) -> bool {
        self.faults.iter().any(|(fault, _)| fault == name)
    }

    /// Appends a line to the diary, and returns the number of such lines that it holds now.
    fn note(&self, line: &str) -> u32 {
        let Some(path) = &self.diary else { return 0 };
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        // In a single write, because two engines with one name share the diary, and parts of their lines
        // would mix.
        let whole = format!("{line}\n");
        file.expect("the diary opens").write_all(whole.as_bytes()).expect("the diary takes a line");
        let text = std::fs::read_to_string(path).expect("the diary is read");
        text.lines().filter(|known| *known == line).count() as u32
    }

    /// True if the start with number `n`, from 1, is one of those that fail.
    fn fails_to_start(&self, n: u32) -> bool {
        let at = |name: &str| self.faults.iter().find(|(fault, _)| fault == name).map(|(_, at)| *at);
        at("fail-from").is_some_and(|from| n >= from && at("fail-until").is_none_or(|until| n < until))
    }

    fn run(&mut self, lines: &Receiver<String>) {
        if self.has("exit-at-start") || self.fails_to_start(self.note("start")) {
            eprintln!("fatal: network file missing");
            exit(3);
        }
        while let Ok(line) = lines.recv() {
            let mut words = line.split_ascii_whitespace();
            match words.next().unwrap_or("") {
                "uci" => self.greet(),
                "isready" if self.has("flood-readyok") => flood("readyok"),
                "isready" if !self.has("no-readyok") => send("readyok"),
                "ucinewgame" => {
                    self.moves = 0;
                    self.games += 1;
                    if self.games == 2 && self.has("no-second-game") {
                        sleep_for_ever();
                    }
                }
                "setoption" if line.contains("UCI_Chess960") => self.chess960 = line.ends_with("true"),
                "position" => self.set_position(&line),
                "go" => self.go(&line, lines),
                "quit" if !self.has("undying") => return,
                _ => {}
            }
        }
        if self.has("undying") {
            sleep_for_ever();
        }
    }

    fn greet(&self) {
        if self.has("no-uciok") {
            return;
        }
        if self.has("flood-at-start") {
            flood(FLOOD);
        }
        if self.has("flood-options") {
            flood("option name Hash type spin default 16 min 1 max 1024");
        }
        if self.has("half-a-uciok") {
            print!("id name Half\nuci");
            let _ = io::stdout().flush();
            sleep_for_ever();
        }
        send("id name Fake 1.0");
        send("id author tests");
        send("option name Hash type spin default 16 min 1 max 1024");
        if !self.has("no-ponder") {
            send("option name Ponder type check default false");
        }
        if !self.has("no-chess960") {
            send("option name UCI_Chess960 type check default false");
        }
        send("uciok");
    }

    fn set_position(&mut self, line: &str) {
        let (setup, moves) = line.split_once(" moves ").unwrap_or((line, ""));
        self.position = match setup.strip_prefix("position fen ") {
            Some(fen) => Position::from_fen(fen).expect("the arena sends good positions"),
            None => Position::startpos(),
        };
        for text in moves.split_ascii_whitespace() {
            let mv = uci::parse(self.position.board(), text).expect("the arena sends legal moves");
            // The arena must write moves in the notation that it selected.
            assert_eq!(uci::format(self.position.board(), mv, self.chess960), text);
            self.position.play(mv);
        }
    }

    fn go(&mut self, line: &str, lines: &Receiver<String>) {
        self.moves += 1;
        if line.contains("ponder") {
            self.note("go ponder");
            let end = lines.iter().find(|line| matches!(line.as_str(), "stop" | "ponderhit"));
            self.note(end.as_deref().unwrap_or("nothing"));
        }
        if self.plays("crash") {
            eprintln!("thread 'main' panicked: index out of bounds");
            std::process::abort();
        }
        if self.plays("exit") {
            exit(7);
        }
        if self.plays("half-line-exit") {
            print!("bestm");
            let _ = io::stdout().flush();
            exit(0);
        }
        if self.plays("half-line") {
            print!("bestm");
            let _ = io::stdout().flush();
            sleep_for_ever();
        }
        if self.plays("hang") {
            sleep_for_ever();
        }
        if self.plays("flood") {
            flood(FLOOD);
        }
        if self.plays("slow") {
            // Answers only after `stop`.
            while !matches!(lines.recv().as_deref(), Ok("stop") | Err(_)) {}
        }
        if self.plays("late") {
            std::thread::sleep(Duration::from_millis(150));
        }
        if self.plays("garbage") {
            let mut bytes = vec![0xff; 200_000];
            bytes.push(b'\n');
            let _ = io::stdout().write_all(&bytes);
        }
        if self.plays("empty-bestmove") {
            return send("bestmove");
        }
        for (fault, text) in
            [("illegal", "e2e5"), ("null", "0000"), ("none", "(none)"), ("nonsense", "\u{1b}[2J")]
        {
            if self.plays(fault) {
                return send(&format!("bestmove {text}"));
            }
        }
        let moves = self.position.legal_moves();
        let best = moves[self.random.below(moves.len() as u32) as usize];
        let score = self.random.below(41) as i32 - 20;
        send(&format!("info depth 1 seldepth 1 score cp {score} nodes 20 pv {best}"));
        let best_text = uci::format(self.position.board(), best, self.chess960);
        self.position.play(best);
        // It expects the first legal reply of the opponent, and so meets both hits and misses.
        match self.position.legal_moves().first() {
            Some(&reply) if self.has("ponder") => {
                let reply = uci::format(self.position.board(), reply, self.chess960);
                send(&format!("bestmove {best_text} ponder {reply}"));
            }
            _ => send(&format!("bestmove {best_text}")),
        }
        if self.has("twice") {
            send(&format!("bestmove {best_text}"));
        }
    }
}

fn send(line: &str) {
    let mut out = io::stdout().lock();
    // Once the arena has closed the pipe, there is nothing left to play.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        exit(0);
    }
}

const FLOOD: &str = "info string flood flood flood flood flood flood flood flood flood flood flood flood";

fn flood(line: &str) -> ! {
    loop {
        send(line);
    }
}

fn sleep_for_ever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
