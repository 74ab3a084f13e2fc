//! Decoding throughput of each format on all cores: `cargo bench -p tandem-data`.
//!
//! The records are random games, about a million positions, written once in each format to the system's
//! folder for temporary files.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use std::path::PathBuf;
use std::sync::OnceLock;
use tandem_chess::Position;
use tandem_data::*;
use tandem_util::random::SplitMix;

fn main() {
    divan::main();
    let _ = std::fs::remove_dir_all(folder());
}

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("tandem-bench-{}", std::process::id()))
}

const POSITIONS: usize = 1_000_000;

fn records() -> &'static [Record] {
    static RECORDS: OnceLock<Vec<Record>> = OnceLock::new();
    RECORDS.get_or_init(|| {
        let mut random = SplitMix::new(1);
        let mut records = Vec::with_capacity(POSITIONS + 200);
        while records.len() < POSITIONS {
            let mut position = Position::startpos();
            let white = [Outcome::Loss, Outcome::Draw, Outcome::Win][random.below(3) as usize];
            for ply in 0..120 {
                let moves = position.legal_moves();
                if moves.is_empty() || position.board().halfmove_clock() >= 100 {
                    break;
                }
                let mv = moves[random.below(moves.len() as u32) as usize];
                let packed = Packed::new(position.board()).expect("a game has few pieces");
                records.push(Record {
                    mv: Some(mv),
                    score: Some(Score::Centipawns(random.below(600) as i16 - 300)),
                    result: Some(white.from_view_of(position.side_to_move())),
                    starts_game: ply == 0,
                    ..Record::new(packed)
                });
                position.play(mv);
            }
        }
        records
    })
}

fn read(bencher: Bencher<'_, '_>, name: &str) {
    let dir = folder();
    std::fs::create_dir_all(&dir).expect("a folder for temporary files");
    let path = dir.join(name);
    let sources =
        Source::parse(path.to_str().expect("a plain path"), &Options::default()).expect("a known format");
    if !path.exists() {
        let mut writer = RecordWriter::create(sources[0].clone()).expect("room for a file");
        records().iter().for_each(|record| writer.write(record).expect("every record fits"));
        writer.finish().expect("room for a file");
    }
    let bytes = std::fs::metadata(&path).expect("the file is there").len();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    bencher.counter(ItemsCount::new(records().len())).counter(BytesCount::new(bytes)).bench(|| {
        let mut reader = RecordReader::new(sources.clone(), threads, OnError::Stop, None, Cursor::default());
        let mut count = 0;
        while let Some(block) = reader.next_block() {
            count += block.expect("the file is whole").records.len();
        }
        assert_eq!(count, records().len());
    });
}

#[divan::bench(args = ["x.binpack", "x.bf", "x.bin", "x.vf", "x.bag", "x.pgn", "x.csv", "x.plain", "x.epd"], sample_count = 8)]
fn decode(bencher: Bencher<'_, '_>, name: &str) {
    read(bencher, name);
}
