//! Writes the terms of the hand-written evaluation for quiet positions of games, as input of
//! `scripts/fit_bootstrap.py`.
//!
//!     cargo run --release -p tandem-search --example bootstrap_features -- OUT PER_GAME MOST_PER_FILE FILE...
//!
//! From each game of a PGN file about `PER_GAME` positions are drawn, and those that are quiet are written,
//! with the evaluations in its comments (`[%eval 0.35]`). Of a CSV file
//! (`fen,move_uci,eval_white,depth,engine,result,frc`) every other row is used, unless it is Chess960. Files
//! may be compressed. A position is quiet if its side to move is not in check, has no capture that wins
//! something, and did not capture or promote. The output, little endian, is one record after another:
//!
//! - `u8` twice the result for White, `i16` the evaluation in centipawns for White (`i16::MIN` for none),
//! - `u8` phase, `u8` `winnable` (of `bootstrap/endgame.rs`) for White and for Black,
//! - `u8` kind of the source (0 PGN without evaluations, 1 with, 2 CSV), `u16` number of terms,
//! - each term: `u16` index, `i8` count, White's minus Black's.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufWriter, Write};
use std::path::Path;
use tandem_chess::pgn::{GameReader, GameResult, Score};
use tandem_chess::{Move, Position, generate_noisy, uci};
use tandem_util::input;
use tandem_util::random::SplitMix;
// The evaluation is compiled from its own source, because its terms are not part of the library's interface.
pub(crate) use tandem_search::{Centipawns, Evaluator};

#[path = "../src"]
mod source {
    #[allow(dead_code, unreachable_pub)]
    pub(crate) mod bootstrap;
}
use source::bootstrap;

const NO_EVAL: i16 = i16::MIN;
const FIRST_PLY: usize = 10;

/// Count of each term in a position.
#[derive(Default)]
struct Counts(BTreeMap<usize, i32>);

impl bootstrap::Ledger for Counts {
    fn enter(&mut self, term: usize, count: i32) {
        *self.0.entry(term).or_default() += count;
    }
}

struct Sample {
    result: u8,
    eval: i16,
    kind: u8,
}

fn write_sample(out: &mut impl Write, position: &Position, sample: &Sample) -> Result<(), Box<dyn Error>> {
    let [mut white, mut black] = [Counts::default(), Counts::default()];
    let context = bootstrap::collect_terms(position, &mut white, &mut black);
    for (term, count) in black.0 {
        *white.0.entry(term).or_default() -= count;
    }
    white.0.retain(|_, &mut count| count != 0);
    out.write_all(&[sample.result])?;
    out.write_all(&sample.eval.to_le_bytes())?;
    out.write_all(&[context.phase, context.winnable[0], context.winnable[1], sample.kind])?;
    out.write_all(&u16::try_from(white.0.len())?.to_le_bytes())?;
    for (term, count) in white.0 {
        out.write_all(&u16::try_from(term)?.to_le_bytes())?;
        out.write_all(&i8::try_from(count)?.to_le_bytes())?;
    }
    Ok(())
}

fn is_quiet(position: &Position, mv: Move) -> bool {
    if position.in_check() || mv.promotion.is_some() || position.captured_by(mv).is_some() {
        return false;
    }
    let mut quiet = true;
    generate_noisy(position.board(), |moves| {
        for noisy in moves {
            quiet &= !position.see_ge(noisy, 80);
        }
    });
    quiet
}

fn twice(result: GameResult) -> Option<u8> {
    match result {
        GameResult::WhiteWins => Some(2),
        GameResult::BlackWins => Some(0),
        GameResult::Draw => Some(1),
        _ => None,
    }
}

fn read_games(
    path: &str,
    per_game: usize,
    limit: usize,
    out: &mut impl Write,
) -> Result<usize, Box<dyn Error>> {
    let mut reader = GameReader::new(input::open(Path::new(path))?);
    let mut random = SplitMix::new(1);
    let mut written = 0;
    while let Some(game) = reader.next_game() {
        let Ok(game) = game else { continue };
        let Some(result) = twice(game.result) else { continue };
        if game.moves.len() <= FIRST_PLY || written >= limit {
            continue;
        }
        let start = game.comment.is_none() && game.tag("FEN").is_some();
        let first = if start { 2 } else { FIRST_PLY };
        let candidates = game.moves.len() - first;
        let Ok(mut position) = Position::from_fen(&tandem_chess::fen::format(&game.start)) else { continue };
        for (ply, played) in game.moves.iter().enumerate() {
            if ply >= first
                && (random.below(candidates as u32) as usize) < per_game
                && is_quiet(&position, played.mv)
            {
                let (eval, kind) = match played.eval().map(|eval| eval.score) {
                    Some(Score::Centipawns(value)) => (value.clamp(-3000, 3000) as i16, 1),
                    Some(Score::Mate(_)) => (NO_EVAL, 3),
                    None => (NO_EVAL, 0),
                };
                if kind < 3 {
                    write_sample(out, &position, &Sample { result, eval, kind })?;
                    written += 1;
                }
            }
            position.play(played.mv);
        }
    }
    Ok(written)
}

fn read_rows(path: &str, limit: usize, out: &mut impl Write) -> Result<usize, Box<dyn Error>> {
    // Neighbouring rows are much alike, so every other one is used.
    let mut parity = false;
    let mut written = 0;
    for line in input::open(Path::new(path))?.lines().skip(1) {
        let line = line?;
        parity = !parity;
        if parity {
            continue;
        }
        let fields: Vec<&str> = line.split(',').collect();
        let &[fen, mv, eval, _, _, result, frc] = fields.as_slice() else { continue };
        let (Ok(eval), Some(result)) = (eval.parse::<f64>(), GameResult::parse(result).and_then(twice))
        else {
            continue;
        };
        if frc == "1" || eval.abs() > 20.0 || written >= limit {
            continue;
        }
        let Ok(position) = Position::from_fen(fen) else { continue };
        let Ok(mv) = uci::parse(position.board(), mv) else { continue };
        if is_quiet(&position, mv) {
            let eval = (eval * 100.0).round() as i16;
            write_sample(out, &position, &Sample { result, eval, kind: 2 })?;
            written += 1;
        }
    }
    Ok(written)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: bootstrap_features OUT PER_GAME MOST_PER_FILE FILE...";
    let mut out = BufWriter::new(File::create(arguments.next().ok_or(usage)?)?);
    let per_game = arguments.next().ok_or(usage)?.parse()?;
    let limit = arguments.next().ok_or(usage)?.parse()?;
    for path in arguments {
        let written = if path.contains(".csv") {
            read_rows(&path, limit, &mut out)?
        } else {
            read_games(&path, per_game, limit, &mut out)?
        };
        eprintln!("{path}: {written} positions");
    }
    Ok(())
}
