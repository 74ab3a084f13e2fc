//! Reads a binpack, or a file of any other format, and counts its games, positions, results and scores.
//!
//! ```sh
//! cargo run --release -p tandem-examples --example generate_data -- target/games.binpack 100
//! cargo run --release -p tandem-examples --example read_binpack -- target/games.binpack
//! ```

use std::error::Error;
use tandem_data::{Cursor, OnError, Options, Outcome, RecordReader, Source};

/// Threads that decode. The records come in the order of the file, whatever their number.
const THREADS: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: read_binpack FILE")?;
    let sources = Source::parse(&path, &Options::default())?;
    // A broken record ends the program with an error that names the byte. `OnError::Skip` would count it.
    let mut reader = RecordReader::new(sources, THREADS, OnError::Stop, None, Cursor::default());

    let (mut games, mut positions, mut captures, mut scores) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut results = [0_u64; 3];
    let mut size_of_scores = 0.0;
    for record in reader.records() {
        let record = record?;
        let board = record.position.board()?;
        positions += 1;
        games += u64::from(record.starts_game);
        // Castling is stored as the king taking its own rook, so the colour of the piece is checked.
        captures += u64::from(record.mv.is_some_and(|mv| board.colors(!board.side_to_move()).has(mv.to)));
        if let Some(score) = record.score.filter(|score| !score.is_mate()) {
            scores += 1;
            size_of_scores += f64::from(score.centipawns().abs());
        }
        if let Some(result) = record.result {
            results[result.from_view_of(board.side_to_move()) as usize] += 1;
        }
    }

    println!("games:                {games}");
    println!("positions:            {positions}");
    println!("captures:             {captures}");
    println!("mean size of a score: {:.0} centipawns", size_of_scores / scores.max(1) as f64);
    for (outcome, name) in [(Outcome::Win, "won"), (Outcome::Draw, "drew"), (Outcome::Loss, "lost")] {
        println!("positions of games that White {name}: {}", results[outcome as usize]);
    }
    Ok(())
}
