//! `tandem-lab play`: a game between a person at the terminal and an engine or a transformer.

mod opponent;
mod ranking_table;
mod session;

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
use tandem_arena::{EngineLimits, TimeLimit};
use tandem_chess::{Color, Position, fen};
use tandem_transformer::Method;
use tandem_util::random::SplitMix;

/// Play a game against an engine or a transformer
///
/// Type moves in SAN (Nf3, exd5, O-O, e8=Q) or UCI notation (g1f3). Other commands are back, hint, eval,
/// rank, board, flip, moves, fen, resign, help and quit; help explains them.
#[derive(Args, Debug)]
pub(crate) struct PlayArgs {
    /// Engine to play against, in the syntax of `match --engine`, for example cmd=stockfish,depth=8; without
    /// a limit it thinks 1 s per move (default: Tandem's own engine)
    #[arg(long, value_name = "SPEC")]
    engine: Option<String>,
    /// Transformer to play against instead of an engine, without search: a file in .ttn, .safetensors or
    /// .pb.gz format
    #[arg(long, value_name = "FILE", conflicts_with = "engine")]
    net: Option<PathBuf>,
    /// Output by which the transformer chooses moves: policy (probability of each move), value (of the
    /// position after each move) or action-value (of each move); default: the last of these that the network
    /// has
    #[arg(long, value_name = "METHOD", requires = "net")]
    by: Option<Method>,
    /// Print the transformer's ranking of all legal moves at each turn, as the command `rank` does
    #[arg(long, requires = "net")]
    show: bool,
    /// Colour that you play
    #[arg(long, value_enum, default_value_t = Side::White)]
    color: Side,
    /// Position in which the game starts, as FEN (default: the standard starting position)
    #[arg(long)]
    fen: Option<String>,
    /// Characters with which the board is drawn (default: colour on a terminal, otherwise ascii)
    #[arg(long, value_enum)]
    style: Option<Style>,
    /// Append the game to this PGN file (default: print the PGN at the end)
    #[arg(long, value_name = "FILE")]
    pgn: Option<PathBuf>,
    /// Your name in the PGN tags
    #[arg(long, default_value = "Human")]
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Side {
    /// You have White
    White,
    /// You have Black
    Black,
    /// Chosen at random for this game
    Random,
}

/// Time by which an engine may exceed its limit in a game at the terminal before it counts as hung.
const GRACE_TIME: Duration = Duration::from_secs(10);

/// Runs the command.
///
/// # Errors
///
/// When the engine or the network cannot be started, the engine fails during the game, or the PGN cannot be
/// written.
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
            let strategist = Strategist::load(path, args.by, "play", &cancel)?;
            outln!("{}", strategist.describe());
            (Opponent::Network(Box::new(strategist)), EngineLimits::default())
        }
        None => {
            let limit = TimeLimit::PerMove(Duration::from_secs(1));
            let engine = Engine::new(args.engine.as_deref(), limit, &cancel)?;
            let limits = engine.spec.limits;
            // A game at the terminal is never lost by some milliseconds.
            (
                Opponent::Engine(engine.analyst()?),
                EngineLimits { margin: limits.margin.max(GRACE_TIME), ..limits },
            )
        }
    };
    opponent
        .analyst()
        .reset(fen::is_chess960(position.board()))
        .map_err(|fault| LabError::Usage(format!("the engine failed: {fault}")))?;
    let style = args.style.unwrap_or(if stdout().is_terminal() { Style::Colour } else { Style::Ascii });
    let mut session = Session::new(position, human, style, limits, &mut opponent);
    session.show_ranking = args.show;

    outln!("You have {}. Type a move, or 'help'.", session::color_name(human));
    out!("{}", session.turn());
    let lines = typed_lines();
    let mut failure = None;
    loop {
        if cancel.load(Ordering::Relaxed) {
            break;
        }
        let step = if session.is_humans_turn() {
            out!("{}> ", session.prompt());
            // A closed output ends the game, which is still saved.
            if stdout().flush().is_err() {
                break;
            }
            match next_line(&lines, &cancel) {
                Some(line) => session.execute(line.trim()),
                None => break,
            }
        } else {
            session.answer()
        };
        match step {
            Step::Print(text) => out!("{text}"),
            Step::Over(text) => {
                outln!("{text}");
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
                // The game is printed instead, so that it is not lost.
                out!("\n{pgn}");
                return Err(LabError::file(path)(error));
            }
            outln!("the game is in {}", path.display());
        }
        None => out!("\n{pgn}"),
    }
    match failure {
        Some(why) => Err(LabError::Usage(why)),
        None if cancel.load(Ordering::Relaxed) => Err(LabError::Interrupted("interrupted".into())),
        None => Ok(()),
    }
}

fn append(path: &Path, pgn: &str) -> std::io::Result<()> {
    // Output to a pipe or a terminal needs no separator, and neither can be read back.
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    let separator = if is_file { tandem_arena::pgn_separator(&std::fs::File::open(path)?)? } else { b"" };
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(&[separator, pgn.as_bytes()].concat())
}

/// Reads the lines that are typed, on a thread of its own: Ctrl-C cannot interrupt a blocking read, and the
/// game must still be saved.
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

/// The next line; `None` at the end of the input or after Ctrl-C.
fn next_line(lines: &Receiver<String>, cancel: &AtomicBool) -> Option<String> {
    loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => return Some(line),
            Err(RecvTimeoutError::Timeout) if !cancel.load(Ordering::Relaxed) => {}
            Err(_) => return None,
        }
    }
}
