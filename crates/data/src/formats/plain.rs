//! Stockfish's plain text: a line each for the position, the move, the score, the ply and the result, then an
//! `e`.

use super::bin::{score_of, value_of};
use crate::changes::Change;
use crate::codec::*;
use crate::fen::clock_above_100;
use crate::packed::Packed;
use crate::record::{Outcome, Record};
use tandem_chess::{Board, fen, uci};

pub(crate) struct Plain;

/// Fields of an entry that were read so far.
#[derive(Default)]
struct Entry {
    board: Option<Board>,
    record: Option<Record>,
    broken: bool,
}

impl Codec for Plain {
    fn cut(&self) -> Box<dyn Cut> {
        Box::new(LineCut::new(Some(b"e")))
    }

    fn decode(&self, block: &[u8], out: &mut Decoded) {
        let mut entry = Entry::default();
        for (at, line) in lines(block) {
            let line = String::from_utf8_lossy(line);
            let line = line.trim_start();
            if line == "e" {
                match entry.record.take() {
                    Some(record) if !entry.broken => out.records.push(record),
                    Some(_) => {}
                    None if entry.broken => {}
                    None => out.fail(at, "an entry without a position"),
                }
                entry = Entry::default();
            } else if !line.is_empty() && !entry.broken {
                let (key, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
                let is_clipped = |board: &Board| board.halfmove_clock() == 100 && clock_above_100(value);
                if let Err(problem) = entry.add(key, value.trim()) {
                    entry.broken = true;
                    out.fail(at, problem);
                } else if key == "fen" && entry.board.as_ref().is_some_and(is_clipped) {
                    out.changes.count(Change::ClippedClock);
                }
            }
        }
        if entry.record.is_some() || entry.broken {
            out.fail(block.len(), "the file ends within an entry");
        }
    }
}

impl Entry {
    fn add(&mut self, key: &str, value: &str) -> Result<(), String> {
        if key == "fen" {
            let board = fen::parse(value).map_err(|error| error.to_string())?;
            let position = Packed::try_from(&board).map_err(|error| error.to_string())?;
            self.record = Some(Record::new(position));
            self.board = Some(board);
            return Ok(());
        }
        let (Some(record), Some(board)) = (&mut self.record, &self.board) else {
            return Err(format!("{key:?} stands before a position"));
        };
        let bad = |what: &str| format!("{value:?} is not a {what}");
        match key {
            "move" => record.mv = Some(uci::parse(board, value).map_err(|error| error.to_string())?),
            "score" => record.score = score_of(value.parse().map_err(|_| bad("score"))?),
            "ply" => record.ply = value.parse().map_err(|_| bad("ply"))?,
            "result" => {
                let sign = value.parse().ok().and_then(Outcome::from_sign);
                record.result = Some(sign.ok_or_else(|| bad("result: 1, 0 or -1"))?);
            }
            _ => return Err(format!("{key:?} is not one of fen, move, score, ply, result, e")),
        }
        Ok(())
    }
}

pub(crate) struct PlainEncoder;

impl Encode for PlainEncoder {
    fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        let unsupported = |text: &str| Unsupported(format!("plain text cannot carry a position {text}"));
        let mv = record.mv.ok_or_else(|| unsupported("without a move"))?;
        let result = record.result.ok_or_else(|| unsupported("without a result"))?;
        let board = record.position.board().map_err(|error| Unsupported(error.to_string()))?;
        let chess960 = fen::is_chess960(&board);
        let lines = format!(
            "fen {}\nmove {}\nscore {}\nply {}\nresult {}\ne\n",
            fen::format(&board),
            uci::format(&board, mv, chess960),
            value_of(record.score),
            record.ply,
            result.sign(),
        );
        out.extend(lines.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;

    #[test]
    fn entries_round_trip() {
        let kept = |record: &Record| Record { starts_game: false, ..*record };
        samples::round_trip(&Plain, PlainEncoder, samples::games(10), kept);
        samples::round_trip(&Plain, PlainEncoder, samples::chess960_games(10), kept);
    }

    #[test]
    fn broken_entries_are_reported_and_skipped() {
        let start = "fen rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1\n";
        let text = format!(
            "{start}move e2e5\nscore 3\ne\n{start}move e2e4\nscore x\ne\ne\n{start}score 5\nresult 1\ne\n"
        );
        let decoded = samples::decode_all(&Plain, text.as_bytes());
        assert_eq!((decoded.records.len(), decoded.problems.len()), (1, 3));
        assert!(decoded.problems[0].1.text.contains("e2e5"));
        let decoded = samples::decode_all(&Plain, start.as_bytes());
        assert_eq!(decoded.problems[0].1.text, "the file ends within an entry");
    }
}
