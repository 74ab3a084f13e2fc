//! EPD: positions with operations, one on a line; and bullet's text, `position | score | result`, both seen
//! by White.
//!
//! Recognised operations: `ce` (centipawns for the side to move), `dm` (mate in this number of moves), `sm`
//! or `bm` (the move), `c9` (the result, as in PGN).

use crate::changes::{Change, Changes};
use crate::codec::*;
use crate::packed::Packed;
use crate::record::{Outcome, Record, Score};
use tandem_chess::{Board, epd, fen, pgn::GameResult, san};

pub(crate) struct Epd;

impl Codec for Epd {
    fn cut(&self) -> Box<dyn Cut> {
        Box::new(LineCut::new(None))
    }

    fn decode(&self, block: &[u8], out: &mut Decoded) {
        for (at, line) in lines(block) {
            let Some(line) = epd::decode_line(line) else { continue };
            let parse = if line.contains('|') { parse_bars } else { parse };
            match parse(&line, &mut out.changes) {
                Ok(record) => out.records.push(record),
                Err(problem) => out.fail(at, problem),
            }
        }
    }
}

fn start(board: &Board) -> Result<Record, String> {
    Ok(Record::new(Packed::try_from(board).map_err(|error| error.to_string())?))
}

fn parse(line: &str, changes: &mut Changes) -> Result<Record, String> {
    let epd = epd::parse(line).map_err(|error| error.to_string())?;
    let mut record = start(&epd.board)?;
    let side = epd.board.side_to_move();
    for opcode in ["sm", "bm"] {
        if record.mv.is_none() {
            record.mv = epd.moves(opcode).map_err(|error| error.to_string())?.first().copied();
        }
    }
    record.score = match (epd.dm(), epd.ce()) {
        (Some(moves), _) => Some(Score::Mate(moves.min(1000) as i16)),
        (None, Some(value)) => {
            let clipped = value.clamp(-32_000, 32_000);
            if clipped != value {
                changes.count(Change::ClippedScore);
            }
            Some(Score::Centipawns(clipped as i16))
        }
        (None, None) => None,
    };
    let result = epd.operand("c9").and_then(GameResult::parse);
    record.result = result.and_then(white_outcome).map(|outcome| outcome.from_view_of(side));
    Ok(record)
}

pub(super) fn white_outcome(result: GameResult) -> Option<Outcome> {
    match result {
        GameResult::WhiteWins => Some(Outcome::Win),
        GameResult::BlackWins => Some(Outcome::Loss),
        GameResult::Draw => Some(Outcome::Draw),
        GameResult::Unknown => None,
    }
}

pub(super) fn game_result(white: Option<Outcome>) -> GameResult {
    match white {
        Some(Outcome::Win) => GameResult::WhiteWins,
        Some(Outcome::Loss) => GameResult::BlackWins,
        Some(Outcome::Draw) => GameResult::Draw,
        None => GameResult::Unknown,
    }
}

fn parse_bars(line: &str, changes: &mut Changes) -> Result<Record, String> {
    let mut fields = line.split('|').map(str::trim);
    let text = fields.next().unwrap_or_default();
    let board = fen::parse(text).map_err(|error| error.to_string())?;
    if board.halfmove_clock() == 100 && crate::fen::clock_above_100(text) {
        changes.count(Change::ClippedClock);
    }
    let mut record = start(&board)?;
    let side = board.side_to_move();
    let score = fields.next().unwrap_or_default();
    let value: i16 = score.parse().map_err(|_| format!("{score:?} is not a score in centipawns"))?;
    let value = Score::Centipawns(value);
    record.score = Some(if side == tandem_chess::Color::White { value } else { value.flipped() });
    let white = match fields.next().unwrap_or_default() {
        "1.0" | "1" => Outcome::Win,
        "0.5" => Outcome::Draw,
        "0.0" | "0" => Outcome::Loss,
        other => return Err(format!("{other:?} is not one of 1.0, 0.5, 0.0")),
    };
    record.result = Some(white.from_view_of(side));
    Ok(record)
}

pub(crate) struct EpdEncoder;

impl Encode for EpdEncoder {
    fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        let board = record.position.board().map_err(|error| Unsupported(error.to_string()))?;
        let side = board.side_to_move();
        let mut epd = epd::Epd::new(board);
        if let Some(mv) = record.mv {
            let text = san::format(&epd.board, mv);
            epd.push("sm", &[&text]);
        }
        match record.score {
            Some(Score::Mate(moves)) if moves > 0 => epd.push("dm", &[&moves.to_string()]),
            Some(score) => epd.push("ce", &[&score.centipawns().to_string()]),
            None => {}
        }
        if let Some(result) = record.result {
            epd.push("c9", &[game_result(Some(result.from_view_of(side))).as_str()]);
        }
        out.extend(format!("{epd}\n").as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;

    #[test]
    fn lines_round_trip() {
        let kept = |record: &Record| Record { starts_game: false, ..*record };
        samples::round_trip(&Epd, EpdEncoder, samples::games(10), kept);
        samples::round_trip(&Epd, EpdEncoder, samples::chess960_games(10), kept);
    }

    #[test]
    fn lines_of_other_programs_are_read() {
        let text = "# remarks\n\
            4k3/8/8/8/8/8/4P3/4K3 b - - 0 1 | 120 | 1.0\n\
            4k3/8/8/8/8/8/4P3/4K3 w - - bm e4; dm 9; c9 \"1-0\";\n\
            4k3/8/8/8/8/8/4P3/4K3 b - - 0 1 | x | 1.0\nnonsense\n";
        let decoded = samples::decode_all(&Epd, text.as_bytes());
        assert_eq!(decoded.problems.len(), 2);
        let [bars, mate] = decoded.records[..] else { panic!("two records") };
        assert_eq!((bars.score, bars.result), (Some(Score::Centipawns(-120)), Some(Outcome::Loss)));
        assert_eq!((mate.score, mate.result), (Some(Score::Mate(9)), Some(Outcome::Win)));
        assert_eq!(mate.mv.unwrap().to_string(), "e2e4");
        let marked = b"\xEF\xBB\xBF4k3/8/8/8/8/8/4P3/4K3 w - - id \"R\xE9ti\"; ce 5;\n";
        let decoded = samples::decode_all(&Epd, marked);
        assert_eq!((decoded.records.len(), decoded.problems), (1, vec![]));
    }
}
