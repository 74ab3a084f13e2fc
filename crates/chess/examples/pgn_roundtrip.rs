//! Checks the PGN reader and writer on a file of games: every game is read, replayed, written, read again,
//! and compared.
//!
//! ```text
//! cargo run --release -p tandem-chess --example pgn_roundtrip -- GAMES.pgn[.zst|.gz] [OUT.pgn]
//! ```
//!
//! Two threads do the work, and a third decompresses the file and cuts it into games. The exit status is 1 if
//! a game came back changed; games that could not be read are counted, and the first few are listed.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use tandem_chess::IllegalMove;
use tandem_chess::pgn::{self, Game, GameReader};
use tandem_util::input;

const THREADS: usize = 2;

/// Number of errors that are printed; all are counted.
const ERRORS_SHOWN: u64 = 20;

/// Result of the check of one game.
struct Checked {
    plies: u64,
    text: Vec<u8>,
    same: bool,
}

fn check(game: Game) -> Result<Checked, Box<dyn Error + Send + Sync>> {
    let mut board = game.start.clone();
    for ply in &game.moves {
        board.try_play(ply.mv).map_err(|_| IllegalMove(ply.mv))?;
    }
    let mut text = Vec::with_capacity(1024);
    pgn::write(&mut text, &game)?;
    let again = GameReader::new(text.as_slice()).next_game().ok_or("the written game is empty")??;
    let same = again.moves == game.moves && again.start == game.start && again.result == game.result;
    Ok(Checked { plies: game.moves.len() as u64, text, same })
}

fn run(path: &Path, out: Option<&Path>) -> Result<bool, Box<dyn Error>> {
    let mut out: Box<dyn Write> = match out {
        Some(path) => Box::new(BufWriter::new(File::create(path)?)),
        None => Box::new(io::sink()),
    };
    let started = Instant::now();
    let (mut games, mut plies, mut bytes, mut errors, mut changed) = (0_u64, 0, 0, 0, 0_u64);
    let mut write_error = None;
    pgn::read_parallel(input::open(path)?, THREADS, check, |outcome| {
        games += 1;
        let error = match outcome {
            Ok(Ok(checked)) => {
                plies += checked.plies;
                bytes += checked.text.len() as u64;
                changed += u64::from(!checked.same);
                write_error = write_error.take().or(out.write_all(&checked.text).err());
                return;
            }
            Ok(Err(error)) => {
                changed += 1;
                format!("game {games}: {error}")
            }
            Err(error) => error.to_string(),
        };
        errors += 1;
        if errors <= ERRORS_SHOWN {
            eprintln!("{error}");
        }
    });
    write_error.map_or(Ok(()), Err)?;
    out.flush()?;
    let seconds = started.elapsed().as_secs_f64();
    println!("games {games}, plies {plies}, errors {errors}, changed {changed}");
    println!("{} MB written, {seconds:.1} s, {:.0} plies/s", bytes / 1_000_000, plies as f64 / seconds);
    Ok(changed == 0)
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let (path, out) = match arguments.as_slice() {
        [path] => (path, None),
        [path, out] => (path, Some(Path::new(out))),
        _ => {
            eprintln!("usage: pgn_roundtrip GAMES.pgn[.zst|.gz] [OUT.pgn]");
            return ExitCode::from(2);
        }
    };
    match run(Path::new(path), out) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
