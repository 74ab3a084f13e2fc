//! `tandem-lab play`: a game against a person.

mod opponent;
mod session;
mod weights_table;

use crate::board_art::Style;
use crate::strategist_player::Strategist;
use crate::{engine_args::Engine, error::LabError, interrupt};
use clap::Args;
use opponent::Opponent;
use session::{Session, Step};
use std::io::{BufRead, IsTerminal, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use tandem_arena::{Limits, SplitMix, TimeLimit};
use tandem_chess::{Color, Position, fen};
use tandem_transformer::Method;

/// Play a game against an engine or a transformer
///
/// Moves are typed as SAN (Nf3, exd5, O-O, e8=Q) or UCI (g1f3). Other words: back, hint, eval, weigh, board, flip, moves,
/// fen, resign, help, quit.
#[derive(Args, Debug)]
pub(crate) struct PlayArgs {
    /// The engine, as in `match`; 1 s a move if it has no limit. Ours if not given
    #[arg(long, value_name = "SPEC")]
    engine: Option<String>,
    /// A transformer instead, which plays without search: .ttn, .safetensors or .pb.gz
    #[arg(long, value_name = "FILE", conflicts_with = "engine")]
    net: Option<PathBuf>,
    /// How it is asked: policy, value or action-value. The best that it can if not given, which is the last of these
    #[arg(long, value_name = "METHOD", requires = "net")]
    by: Option<Method>,
    /// Show at each turn what it thinks of every move, as `weigh` does
    #[arg(long, requires = "net")]
    show: bool,
    /// Your colour
    #[arg(long, value_enum, default_value_t = Side::White)]
    color: Side,
    /// The position to start from
    #[arg(long)]
    fen: Option<String>,
    /// How the board is drawn; colours on a terminal, letters elsewhere
    #[arg(long, value_enum)]
    style: Option<Style>,
    /// Append the game to this file
    #[arg(long, value_name = "FILE")]
    pgn: Option<PathBuf>,
    /// Your name in the PGN
    #[arg(long, default_value = "Human")]
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Side {
    White,
    Black,
    Random,
}

/// How late an engine may be in a game at the terminal before something is wrong with it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the command.
pub(crate) fn run(args: &PlayArgs) -> Result<(), LabError> {
    let position = match &args.fen {
        Some(text) => Position::from_fen(text).map_err(|error| LabError::Usage(format!("--fen: {error}")))?,
        None => Position::startpos(),
    };
    if !position.has_legal_move() {
        return Err(LabError::Usage("--fen: the game is already over in this position".into()));
    }
    let human = match args.color {
        Side::White => Color::White,
        Side::Black => Color::Black,
        Side::Random => {
            if SplitMix::from_clock().below(2) == 0 {
                Color::White
            } else {
                Color::Black
            }
        }
    };
    let cancel = interrupt::flag();
    let (mut opponent, limits) = match &args.net {
        Some(path) => {
            let strategist = Strategist::load(path, args.by, &cancel)?;
            sayln!("{}", strategist.describe());
            (Opponent::Network(Box::new(strategist)), Limits::default())
        }
        None => {
            let limit = TimeLimit::PerMove(Duration::from_secs(1));
            let engine = Engine::new(args.engine.as_deref(), limit, &cancel)?;
            let limits = engine.spec.limits;
            // Nobody loses a game at the terminal by some milliseconds.
            (Opponent::Engine(engine.analyst()?), Limits { margin: limits.margin.max(PATIENCE), ..limits })
        }
    };
    opponent
        .analyst()
        .forget(fen::is_chess960(position.board()))
        .map_err(|fault| LabError::Usage(format!("the engine failed: {fault}")))?;
    let style = args.style.unwrap_or(if stdout().is_terminal() { Style::Colour } else { Style::Ascii });
    let mut session = Session::new(position, human, style, limits, &mut opponent);
    session.show_weights = args.show;

    sayln!("You have {}. Type a move, or 'help'.", session::color_name(human));
    say!("{}", session.turn());
    let lines = typed_lines();
    let mut failure = None;
    loop {
        if cancel.load(Ordering::Relaxed) {
            break;
        }
        let step = if session.is_humans_turn() {
            say!("{}> ", session.prompt());
            // The game is kept though nobody sees it any more.
            if stdout().flush().is_err() {
                break;
            }
            match next_line(&lines, &cancel) {
                Some(line) => session.hear(line.trim()),
                None => break,
            }
        } else {
            session.answer()
        };
        match step {
            Step::Say(text) => say!("{text}"),
            Step::Over(text) => {
                sayln!("{text}");
                break;
            }
            Step::Quit => break,
            Step::Failed(why) => {
                failure = Some(why);
                break;
            }
        }
    }
    let pgn = session.to_pgn(&args.name);
    match &args.pgn {
        Some(path) => {
            if let Err(error) = append(path, &pgn) {
                // Not lost, though it is not where it should be.
                say!("\n{pgn}");
                return Err(LabError::file(path)(error));
            }
            sayln!("the game is in {}", path.display());
        }
        None => say!("\n{pgn}"),
    }
    match failure {
        Some(why) => Err(LabError::Usage(why)),
        None if cancel.load(Ordering::Relaxed) => Err(LabError::Interrupted("interrupted".into())),
        None => Ok(()),
    }
}

fn append(path: &Path, pgn: &str) -> std::io::Result<()> {
    // What goes to a pipe or a terminal follows nothing, and neither is opened for reading.
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    let separator = if is_file { tandem_arena::pgn_separator(&std::fs::File::open(path)?)? } else { b"" };
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(&[separator, pgn.as_bytes()].concat())
}

/// What is typed, read on a thread of its own: a Ctrl-C cannot wake a read, and the game should still be kept.
fn typed_lines() -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in stdin().lock().split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                break;
            }
        }
    });
    lines
}

/// The next line; none at the end of the input or after Ctrl-C.
fn next_line(lines: &Receiver<String>, cancel: &AtomicBool) -> Option<String> {
    loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => return Some(line),
            Err(RecvTimeoutError::Timeout) if !cancel.load(Ordering::Relaxed) => {}
            Err(_) => return None,
        }
    }
}
