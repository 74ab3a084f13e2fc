//! Tests on real files of other projects.

use tandem_data::*;
use tandem_util::test_data;

fn read(name: &str) -> Vec<Record> {
    let path = test_data::path(name);
    read_sources(Source::parse(path.to_str().unwrap(), &Options::default()).unwrap(), 2)
}

fn read_sources(sources: Vec<Source>, threads: usize) -> Vec<Record> {
    let mut reader = RecordReader::new(sources, threads, OnError::Stop, None, Cursor::default());
    reader.records().collect::<Result<_, _>>().unwrap()
}

#[test]
#[ignore = "needs data"]
fn stockfishs_binpack_is_read_to_the_last_position() {
    let records = read("formats/stockfish_small.binpack");
    assert_eq!(records.len(), 434_921);
    let count = |outcome| records.iter().filter(|record| record.result == Some(outcome)).count();
    assert_eq!([Outcome::Win, Outcome::Draw, Outcome::Loss].map(count), [133_616, 167_663, 133_642]);
    let first = records[0];
    assert_eq!((first.score, first.ply), (Some(Score::Centipawns(-655)), 33));
    assert_eq!((first.result, records[5].starts_game), (Some(Outcome::Loss), true));
}

#[test]
#[ignore = "needs data"]
fn bullets_positions_are_boards() {
    let records = read("formats/bulletformat_16273.bf");
    assert_eq!(records.len(), 16_273);
    assert!(records.iter().all(|record| record.position.board().is_ok()));
}

#[test]
#[ignore = "needs data"]
fn leelas_games_replay() {
    let records = read("formats/lc0_v6");
    assert_eq!(records.len(), 1_796);
    let mut followed = 0;
    for pair in records.windows(2) {
        let mut board = pair[0].position.board().unwrap();
        board.try_play(pair[0].mv.unwrap()).expect("policy indices are legal moves");
        if !pair[1].starts_game {
            let next = Packed::new(&board).unwrap();
            assert_eq!(next, pair[1].position);
            followed += 1;
        }
    }
    assert!(followed > 1700);
}

/// Leela's own planes are reproduced from positions and moves alone: history, repetitions, castling, clocks,
/// policy.
#[test]
#[ignore = "needs data"]
fn leelas_records_are_written_as_leela_writes_them() {
    let folder = test_data::path("formats/lc0_v6");
    let dir = std::env::temp_dir().join(format!("tandem-lc0-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut compared = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let records = read_sources(Source::parse(path.to_str().unwrap(), &Options::default()).unwrap(), 1);
        let target = dir.join("again.lc0");
        let target = Source::parse(target.to_str().unwrap(), &Options::default()).unwrap().remove(0);
        let mut writer = RecordWriter::create(target.clone()).unwrap();
        records.iter().for_each(|record| writer.write(record).unwrap());
        writer.finish().unwrap();
        let again = std::fs::read(&target.path).unwrap();
        let mut original = Vec::new();
        let mut input = tandem_util::input::open(&path).unwrap();
        std::io::Read::read_to_end(&mut input, &mut original).unwrap();
        assert_eq!(again.len(), original.len());
        for (number, (ours, theirs)) in again.chunks(8356).zip(original.chunks(8356)).enumerate() {
            // Version, input format; planes, castling, side to move, clock.
            assert_eq!(ours[..8], theirs[..8]);
            assert_eq!(ours[7440..8278], theirs[7440..8278], "{} record {number}", path.display());
            for index in 0..1858 {
                let probability =
                    |bytes: &[u8]| f32::from_le_bytes(bytes[8 + 4 * index..][..4].try_into().unwrap());
                assert_eq!(probability(ours) < 0.0, probability(theirs) < 0.0, "legality of {index}");
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 1_796);
    std::fs::remove_dir_all(dir).unwrap();
}

/// Each format returns everything that it can carry, on the whole of a real file.
#[test]
#[ignore = "needs data"]
fn a_binpack_goes_through_all_formats() {
    let records = read("formats/stockfish_small.binpack");
    let dir = std::env::temp_dir().join(format!("tandem-formats-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    for name in ["x.binpack", "x.vf.zst", "x.bin", "x.plain.gz", "x.csv", "x.pgn"] {
        let target = dir.join(name);
        let target = Source::parse(target.to_str().unwrap(), &Options::default()).unwrap().remove(0);
        let mut writer = RecordWriter::create(target.clone()).unwrap();
        // Some formats store the move number instead of the ply.
        let usual = |record: &&Record| record.ply == record.position.ply();
        records.iter().filter(usual).for_each(|record| writer.write(record).unwrap());
        writer.finish().unwrap();
        let again = read_sources(vec![target], 2);
        let same = again.iter().zip(records.iter().filter(usual)).all(|(again, record)| {
            let starts_game = again.starts_game;
            *again == Record { starts_game, ..*record }
        });
        assert!(same && again.len() == records.iter().filter(usual).count(), "{name}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}
