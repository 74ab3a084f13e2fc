//! PGN: a record for each move that was played.
//!
//! An evaluation in a comment, `[%eval 0.35]`, is that of the position after the move, as Lichess and others
//! write it: it becomes the score of the next record. That of the first position may precede the first move.

use super::epd::{game_result, white_outcome};
use super::game::GameTracker;
use crate::codec::*;
use crate::packed::Packed;
use crate::record::{Outcome, Record, Score};
use std::io::{self, BufRead};
use tandem_chess::Color;
use tandem_chess::pgn::{self, Game, Ply, Score as PgnScore};

pub(crate) struct Pgn;

/// Cuts PGN into blocks of whole games, which end where a tag follows an empty line.
struct PgnCut;

/// Bytes after which a block ends behind any result, because a file may have no tags at all.
const LONG: usize = 4 << 20;
/// Bytes after which a block ends anywhere.
const TOO_LONG: usize = 64 << 20;

impl Cut for PgnCut {
    fn next(&mut self, input: &mut dyn BufRead, block: &mut Vec<u8>) -> io::Result<Result<bool, Problem>> {
        let mut empty = false;
        let mut in_comment = false;
        loop {
            if block.len() >= BLOCK {
                let tag_follows = empty && !in_comment && input.fill_buf()?.first() == Some(&b'[');
                let line = block.trim_ascii_end();
                let result =
                    [&b"1-0"[..], b"0-1", b"1/2-1/2", b"*"].iter().any(|result| line.ends_with(result));
                if tag_follows || block.len() >= LONG && result || block.len() >= TOO_LONG {
                    return Ok(Ok(true));
                }
            }
            let start = block.len();
            let mut limited = io::Read::take(&mut *input, BLOCK as u64);
            if limited.read_until(b'\n', block)? == 0 {
                return Ok(Ok(!block.is_empty()));
            }
            let line = &block[start..];
            empty = line.trim_ascii().is_empty();
            for byte in line {
                match byte {
                    b'{' => in_comment = true,
                    b'}' => in_comment = false,
                    _ => {}
                }
            }
        }
    }
}

impl Codec for Pgn {
    fn cut(&self) -> Box<dyn Cut> {
        Box::new(PgnCut)
    }

    fn decode(&self, block: &[u8], out: &mut Decoded) {
        for game in pgn::GameReader::new(block) {
            match game {
                Ok(game) => records_of(&game, out),
                Err(error) => out.fail_with_rest(error.offset as usize, error.kind.to_string()),
            }
        }
    }
}

/// Appends the positions of a game from which a move was played.
fn records_of(game: &Game, out: &mut Decoded) {
    let mut board = game.start.clone();
    let white = white_outcome(game.result);
    let mut starts_game = true;
    let mut eval = game.comment.as_ref().and_then(|comment| {
        // A comment before the first move is parsed like one after a move.
        let before = Ply { comment: Some(comment.clone()), ..Ply::new(game.moves.first()?.mv) };
        before.eval()
    });
    for ply in &game.moves {
        let Some(position) = Packed::new(&board) else { return };
        let side = board.side_to_move();
        out.records.push(Record {
            position,
            mv: Some(ply.mv),
            score: eval.map(|eval| seen_by(side, eval.score)),
            result: white.map(|white| white.from_view_of(side)),
            ply: position.ply(),
            starts_game,
        });
        starts_game = false;
        eval = ply.eval();
        board.play_unchecked(ply.mv);
    }
}

fn seen_by(side: Color, score: PgnScore) -> Score {
    let white = match score {
        PgnScore::Centipawns(value) => Score::Centipawns(value.clamp(-32_000, 32_000) as i16),
        PgnScore::Mate(moves) => Score::Mate(moves.clamp(-1000, 1000) as i16),
    };
    if side == Color::White { white } else { white.flipped() }
}

#[derive(Default)]
pub(crate) struct PgnEncoder {
    tracker: GameTracker,
    game: Option<(Game, Option<Outcome>)>,
}

impl Encode for PgnEncoder {
    fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        let mv = record.mv.ok_or_else(|| Unsupported("PGN cannot carry a position without a move".into()))?;
        let side = record.position.side_to_move();
        let white = record.result.map(|result| result.from_view_of(side));
        let continues = self.tracker.continues_game(record)
            && self.game.as_ref().is_some_and(|(_, result)| *result == white);
        let board = self.tracker.advance(record).map_err(Unsupported)?;
        if !continues {
            self.finish(out)?;
            let mut game = Game::from_start(board);
            game.result = game_result(white);
            self.game = Some((game, white));
        }
        if let Some((game, _)) = &mut self.game {
            let comment = record.score.map(|score| comment(side, score));
            match game.moves.last_mut() {
                Some(last) => last.comment = comment,
                None => game.comment = comment,
            }
            game.push(mv);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        match self.game.take() {
            Some((game, _)) => pgn::write(out, &game).map_err(|error| Unsupported(error.to_string())),
            None => Ok(()),
        }
    }
}

/// Comment such as `[%eval 0.35]`, seen by White.
fn comment(side: Color, score: Score) -> String {
    let white = if side == Color::White { score } else { score.flipped() };
    match white {
        Score::Mate(moves) => format!("[%eval #{moves}]"),
        score => format!("[%eval {:.2}]", f64::from(score.centipawns()) / 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;

    #[test]
    fn games_round_trip() {
        let mut records = samples::games(30);
        records.extend(samples::chess960_games(30));
        (records[1].score, records[2].score) = (None, Some(Score::Mate(-4)));
        samples::round_trip(&Pgn, PgnEncoder::default(), records, |record| *record);
    }

    /// As Lichess writes it: White allows a mate, and the evaluation that shows it is that of the position
    /// after the move.
    #[test]
    fn evaluations_are_those_after_the_move() {
        let text = "1. f3 { [%eval -0.6] } 1... e5 { [%eval -0.5] } 2. g4 { [%eval #-1] } 2... Qh4# 0-1\n";
        let decoded = samples::decode_all(&Pgn, text.as_bytes());
        let scores: Vec<_> = decoded.records.iter().map(|record| record.score).collect();
        let cp = |value| Some(Score::Centipawns(value));
        assert_eq!(scores, [None, cp(60), cp(-50), Some(Score::Mate(1))]);
    }

    #[test]
    fn blocks_end_between_games() {
        for remark in ["a remark", "a remark that is longer", "another"] {
            let game = format!("[Event \"x\"]\n\n1. e4 {{ {remark}\n\n[with a bracket] }} e5 2. Nf3 1-0\n\n");
            let decoded = samples::decode_all(&Pgn, game.repeat(20_000).as_bytes());
            assert_eq!((decoded.records.len(), decoded.problems.len()), (60_000, 0));
        }
        let bare = "1. e4 e5 2. Nf3 1-0\n".repeat(250_000);
        let decoded = samples::decode_all(&Pgn, bare.as_bytes());
        assert_eq!((decoded.records.len(), decoded.problems.len()), (750_000, 0));
        assert_eq!(samples::decode_all(&Pgn, b"1. e4 Ke7 *\n").problems[0].1.byte, 6);
    }
}
