//! Records of random games, for the tests of all formats.

use crate::codec::{Codec, Decoded, Encode};
use crate::packed::Packed;
use crate::record::{Outcome, Record, Score};
use std::io::BufRead;
use tandem_chess::{Board, Color, Position};
use tandem_util::random::SplitMix;

fn play(start: &Board, random: &mut SplitMix, out: &mut Vec<Record>) {
    let mut position = Position::from(start.clone());
    let white = [Outcome::Loss, Outcome::Draw, Outcome::Win][random.below(3) as usize];
    for ply in 0..20 + random.below(120) {
        let moves = position.legal_moves();
        if moves.is_empty() || position.board().halfmove_clock() >= 100 {
            break;
        }
        let mv = moves[random.below(moves.len() as u32) as usize];
        let packed = Packed::new(position.board()).unwrap();
        let side = position.side_to_move();
        out.push(Record {
            position: packed,
            mv: Some(mv),
            score: Some(Score::Centipawns(random.below(4000) as i16 - 2000)),
            result: Some(white.from_view_of(side)),
            ply: packed.ply(),
            starts_game: ply == 0,
        });
        position.play(mv);
    }
}

/// Random games in which every position has a move, a score and a result.
pub(crate) fn games(count: usize) -> Vec<Record> {
    let mut random = SplitMix::new(0x5EED);
    let mut out = Vec::new();
    for _ in 0..count {
        play(&Board::default(), &mut random, &mut out);
    }
    out
}

/// Random games from start positions of double Chess960.
pub(crate) fn chess960_games(count: usize) -> Vec<Record> {
    let mut random = SplitMix::new(0xF8C);
    let mut out = Vec::new();
    for _ in 0..count {
        let start = Board::double_chess960_startpos(random.below(960), random.below(960));
        play(&start, &mut random, &mut out);
    }
    out
}

/// Encodes, cuts and decodes the records; the results must equal what `expected` makes of them.
pub(crate) fn round_trip(
    codec: &dyn Codec,
    mut encoder: impl Encode,
    records: Vec<Record>,
    expected: impl Fn(&Record) -> Record,
) {
    let mut bytes = Vec::new();
    for record in &records {
        encoder.push(record, &mut bytes).unwrap();
    }
    encoder.finish(&mut bytes).unwrap();
    let decoded = decode_all(codec, &bytes);
    assert_eq!(decoded.problems, []);
    assert_eq!(decoded.records.len(), records.len());
    for (at, (decoded, record)) in decoded.records.iter().zip(&records).enumerate() {
        assert_eq!(*decoded, expected(record), "record {at}");
    }
}

/// Decodes all blocks of a file in memory.
pub(crate) fn decode_all(codec: &dyn Codec, bytes: &[u8]) -> Decoded {
    let mut cut = codec.cut();
    let mut input: &mut dyn BufRead = &mut &bytes[..];
    let mut out = Decoded::default();
    loop {
        let mut block = Vec::new();
        match cut.next(&mut input, &mut block).unwrap() {
            Ok(true) => codec.decode(&block, &mut out),
            Ok(false) => return out,
            Err(problem) => {
                out.problems.push((out.records.len(), problem));
                return out;
            }
        }
    }
}

/// True if White is to move in the record's position.
pub(crate) fn is_white(record: &Record) -> bool {
    record.position.side_to_move() == Color::White
}
