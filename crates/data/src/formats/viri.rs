//! Viriformat, Viridithas' games: the first position, then a move and a score for each ply.
//!
//! 32 bytes of position (marlinformat: occupied squares, four bits for each piece, side and en passant, both
//! clocks, score, result seen by White, a spare byte); then a move (u16) and a score seen by White (i16) for
//! each ply; then four zero bytes.

use super::bin::{MoveKind, NO_SCORE, kind_of_move, score_of, value_of};
use super::game::GameTracker;
use crate::codec::*;
use crate::packed::*;
use crate::record::{Outcome, Record};
use std::io::{self, BufRead};
use tandem_chess::{Board, Color, Move, Piece, Square};

const HEADER: usize = 32;
const PLY: usize = 4;
/// Longest game in plies; a longer one is taken for damage, since no game of chess reaches it.
const MAX_PLIES: usize = 1 << 16;

pub(crate) struct Viri;

#[derive(Default)]
struct ViriCut {
    /// Fault behind the last block, to be returned by the next call.
    problem: Option<Problem>,
}

impl Cut for ViriCut {
    fn next(&mut self, input: &mut dyn BufRead, block: &mut Vec<u8>) -> io::Result<Result<bool, Problem>> {
        if let Some(problem) = self.problem.take() {
            return Ok(Err(problem));
        }
        while block.len() < BLOCK {
            let start = block.len();
            read_up_to(input, block, start + HEADER)?;
            if block.len() == start {
                break;
            }
            for ply in 0.. {
                let at = block.len();
                read_up_to(input, block, at + PLY)?;
                // An incomplete game at the end is reported by the decoder.
                if block.len() < at + PLY || block[at..] == [0; PLY] {
                    break;
                }
                if ply == MAX_PLIES {
                    let text = format!("a game of more than {MAX_PLIES} plies");
                    return Ok(cut_before(block, start, text, &mut self.problem));
                }
            }
        }
        Ok(Ok(!block.is_empty()))
    }
}

impl Codec for Viri {
    fn cut(&self) -> Box<dyn Cut> {
        Box::new(ViriCut::default())
    }

    fn decode(&self, block: &[u8], out: &mut Decoded) {
        let mut at = 0;
        while at < block.len() {
            let Some(header) = block.get(at..at + HEADER) else {
                return out.fail_with_rest(at, "the file ends within the first position of a game");
            };
            let plies = block[at + HEADER..].as_chunks::<PLY>().0;
            let count = plies.iter().position(|ply| *ply == [0; PLY]);
            let Some(count) = count else {
                return out.fail_with_rest(at, "the file ends within a game, which is left out");
            };
            match decode_start(header) {
                Ok((board, result)) => decode_plies(board, result, &plies[..count], at + HEADER, out),
                Err(problem) => out.fail_with_rest(at, format!("{problem}; the game is left out")),
            }
            at += HEADER + PLY * (count + 1);
        }
    }
}

fn decode_start(bytes: &[u8]) -> Result<(Board, Outcome), String> {
    let (occupied, pieces) = placement(bytes);
    let position = Packed {
        occupied,
        pieces,
        side_and_passant: bytes[24],
        halfmoves: bytes[25],
        fullmove: u16::from_le_bytes([bytes[26], bytes[27]]),
    };
    let result = match bytes[30] {
        0 => Outcome::Loss,
        1 => Outcome::Draw,
        2 => Outcome::Win,
        other => return Err(format!("the result is {other}, not one of 0, 1, 2")),
    };
    Ok((position.board().map_err(|error| error.to_string())?, result))
}

/// Decodes all plies of a game or none: a truncated game would seem to end differently from how it did.
fn decode_plies(mut board: Board, white: Outcome, plies: &[[u8; PLY]], start: usize, out: &mut Decoded) {
    let before = out.records.len();
    for (number, ply) in plies.iter().enumerate() {
        let side = board.side_to_move();
        let Some(position) = Packed::new(&board) else {
            out.records.truncate(before);
            return out.fail_with_rest(start, "more than 32 pieces; the game is left out");
        };
        let mv = decode_move(u16::from_le_bytes([ply[0], ply[1]]));
        let score = score_of(i16::from_le_bytes([ply[2], ply[3]]));
        if !mv.is_some_and(|mv| board.is_legal(mv)) {
            let problem = mv.map_or_else(|| "no move".into(), |mv| format!("{mv}, which is not legal"));
            out.records.truncate(before);
            return out.fail_with_rest(start + PLY * number, format!("{problem}; the game is left out"));
        }
        out.records.push(Record {
            position,
            mv,
            score: score.map(|score| if side == Color::White { score } else { score.flipped() }),
            result: Some(white.from_view_of(side)),
            ply: position.ply(),
            starts_game: number == 0,
        });
        if let Some(mv) = mv {
            board.play_unchecked(mv);
        }
    }
}

/// Layout: from (6 bits), to (6), promotion (2: from the knight on), kind (2: en passant, castling,
/// promotion).
fn decode_move(bits: u16) -> Option<Move> {
    let square = |shift: u16| Square::index(usize::from(bits >> shift & 63));
    let promotion = (bits >> 14 == 3).then(|| Piece::index(1 + usize::from(bits >> 12 & 3)));
    (bits & 0xFFF != 0).then(|| Move { from: square(0), to: square(6), promotion })
}

fn encode_move(position: &Packed, mv: Move) -> u16 {
    let kind = match kind_of_move(position, mv) {
        MoveKind::Plain => 0,
        MoveKind::EnPassant => 1,
        MoveKind::Castling => 2,
        MoveKind::Promotion => 3,
    };
    let promotion = mv.promotion.map_or(0, |piece| piece as u16 - 1);
    mv.from as u16 | (mv.to as u16) << 6 | promotion << 12 | kind << 14
}

#[derive(Default)]
pub(crate) struct ViriEncoder {
    tracker: GameTracker,
    /// White's result of the game that is being written; `None` between games.
    open: Option<Outcome>,
}

impl Encode for ViriEncoder {
    fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        let unsupported = |text: &str| Unsupported(format!("viriformat cannot carry a position {text}"));
        let mv = record.mv.ok_or_else(|| unsupported("without a move"))?;
        let result = record.result.ok_or_else(|| unsupported("without a result"))?;
        let side = record.position.side_to_move();
        let white = result.from_view_of(side);
        let continues = self.open == Some(white) && self.tracker.continues_game(record);
        self.tracker.advance(record).map_err(Unsupported)?;
        if !continues {
            self.finish(out)?;
            let Packed { occupied, pieces, side_and_passant, halfmoves, fullmove } = record.position;
            out.extend(occupied.to_le_bytes());
            out.extend(pieces);
            out.extend([side_and_passant, halfmoves]);
            out.extend(fullmove.to_le_bytes());
            out.extend(0i16.to_le_bytes());
            out.extend([white as u8, 0]);
            self.open = Some(white);
        }
        let value = match (record.score, side) {
            (None, _) => NO_SCORE,
            (score, Color::White) => value_of(score),
            (score, Color::Black) => value_of(score).saturating_neg(),
        };
        out.extend(encode_move(&record.position, mv).to_le_bytes());
        out.extend(value.to_le_bytes());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        if self.open.take().is_some() {
            out.extend([0; PLY]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;

    #[test]
    fn games_round_trip() {
        samples::round_trip(&Viri, ViriEncoder::default(), samples::games(60), |record| *record);
        samples::round_trip(&Viri, ViriEncoder::default(), samples::chess960_games(60), |record| *record);
    }

    #[test]
    fn damage_costs_no_more_than_a_game() {
        let mut bytes = Vec::new();
        let mut encoder = ViriEncoder::default();
        let records = samples::games(3);
        records.iter().for_each(|record| encoder.push(record, &mut bytes).unwrap());
        encoder.finish(&mut bytes).unwrap();
        // The third move of the first game becomes a1a1.
        bytes[HEADER + 2 * PLY..HEADER + 2 * PLY + 2].copy_from_slice(&[0x00, 0x40]);
        let decoded = samples::decode_all(&Viri, &bytes);
        let lost = records.iter().skip(1).position(|record| record.starts_game).unwrap() + 1;
        assert_eq!(decoded.records, records[lost..]);
        let [(0, Problem { with_rest: true, .. })] = decoded.problems[..] else { panic!("{decoded:?}") };
        let cut = samples::decode_all(&Viri, &bytes[..bytes.len() - 6]);
        assert_eq!(cut.problems.last().unwrap().1.text, "the file ends within a game, which is left out");
        let last = records.iter().rposition(|record| record.starts_game).unwrap();
        assert_eq!(cut.records, records[lost..last]);
        for len in 0..200 {
            let _ = samples::decode_all(&Viri, &bytes[..len]);
        }
    }

    #[test]
    fn games_before_one_without_an_end_are_read() {
        let mut bytes = Vec::new();
        let mut encoder = ViriEncoder::default();
        let records = samples::games(2);
        records.iter().for_each(|record| encoder.push(record, &mut bytes).unwrap());
        encoder.finish(&mut bytes).unwrap();
        bytes.extend_from_within(..HEADER);
        bytes.extend([1u8; PLY].repeat(MAX_PLIES + 1));
        let decoded = samples::decode_all(&Viri, &bytes);
        assert_eq!(decoded.records, records);
        let [(before, problem)] = &decoded.problems[..] else { panic!("{:?}", decoded.problems) };
        assert!(*before == records.len() && problem.text.contains("plies"), "{problem:?}");
    }
}
