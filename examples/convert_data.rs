//! Converts training data between formats, here quiet positions only, as most NNUE trainers want them.
//!
//! ```sh
//! cargo run --release -p tandem-examples --example generate_data -- target/games.binpack 100
//! cargo run --release -p tandem-examples --example convert_data -- target/games.binpack target/quiet.bf
//! ```
//!
//! The extensions decide on the formats: .binpack, .bin, .plain, .bf (bulletformat), .vf (viriformat), .csv,
//! .epd, .pgn, .bag, .bagz. `tandem-lab data convert` does the same on the command line, with more filters.

use std::error::Error;
use tandem_chess::Board;
use tandem_data::{Cursor, OnError, Options, Record, RecordReader, RecordWriter, Source};

const THREADS: usize = 2;

/// True if the side to move is not in check and the move is neither a capture nor a promotion, so that the static evaluation
/// of the position says what the score says.
fn is_quiet(board: &Board, record: &Record) -> bool {
    let is_noisy =
        |mv: tandem_chess::Move| mv.promotion.is_some() || board.colors(!board.side_to_move()).has(mv.to);
    board.checkers().is_empty() && !record.mv.is_some_and(is_noisy)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = &arguments[..] else { return Err("usage: convert_data FROM TO".into()) };
    let options = Options::default();
    let target = Source::parse(to, &options)?.remove(0);
    println!("{} does not store: {}", target.format.name(), target.format.cannot_carry());

    let sources = Source::parse(from, &options)?;
    let mut reader = RecordReader::new(sources, THREADS, OnError::Skip, None, Cursor::default());
    let mut writer = RecordWriter::create(target)?;
    let (mut read, mut written) = (0_u64, 0_u64);
    for record in reader.records() {
        let record = record?;
        read += 1;
        if is_quiet(&record.position.board()?, &record) {
            writer.write(&record)?;
            written += 1;
        }
    }
    writer.finish()?;
    println!(
        "{written} of {read} positions written to {to}, {} broken records skipped",
        reader.skips().count
    );
    Ok(())
}
