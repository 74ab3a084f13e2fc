//! What stands around a record in its block: the game before it and after it.

use tandem_chess::history::{BOARDS, HistoryFill};
use tandem_chess::{Board, Move, Position};
use tandem_data::{Follower, Record};

/// The position of a record with as much of its game as the block has, and as planes can show: the boards before it, and
/// what they may repeat. Colours may be exchanged.
///
/// Also says whether boards before the first one are shown: those of a game that began in the usual way are not, whatever
/// the colours are.
pub(super) fn with_history(
    records: &[Record],
    at: usize,
    flipped: bool,
) -> Result<(Position, HistoryFill), String> {
    let mut follower = Follower::default();
    let mut line: Option<(Position, &Record)> = None;
    let mut played: Option<Move> = None;
    for (number, record) in records.iter().enumerate().take(at + 1).skip(first_of_line(records, at)) {
        let seen = if flipped { record.flipped() } else { *record };
        // Moves are numbered by the real colours, so the real records are followed.
        let goes_on = follower.goes_on(record);
        match (follower.follow(record), line.as_mut(), played) {
            (Ok(_), Some((position, _)), Some(mv)) if goes_on => position.play(mv),
            (Ok(_), _, _) => {
                let board = seen.position.board().map_err(|bad| bad.to_string())?;
                line = Some((Position::from(board), record));
            }
            (Err(problem), _, _) if number == at => return Err(problem),
            // What is broken before it is no history of it.
            (Err(_), _, _) => line = None,
        }
        played = seen.mv;
    }
    let (position, first) = line.ok_or("there is no such record")?;
    let began = first.position.board().is_ok_and(|board| board.same_position(&Board::default()));
    Ok((position, if began { HistoryFill::No } else { HistoryFill::Always }))
}

/// The first record that can matter for what planes show of a game: from the oldest board that is shown back to the last
/// move that cannot be taken back.
fn first_of_line(records: &[Record], at: usize) -> usize {
    let oldest = at.saturating_sub(BOARDS - 1);
    let reversible = usize::from(records[oldest].position.halfmove_clock());
    let least = oldest.saturating_sub(reversible);
    let mut first = at;
    while first > least && !records[first].starts_game && records[first - 1].mv.is_some() {
        first -= 1;
    }
    first
}

/// The records after one in the same game, as far as each move leads to the next position.
pub(super) fn following(records: &[Record], at: usize) -> impl Iterator<Item = &Record> {
    let mut follower = Follower::default();
    // One that cannot be followed is followed by nothing.
    let _ = follower.follow(&records[at]);
    records[at + 1..]
        .iter()
        .take_while(move |record| follower.goes_on(record) && follower.follow(record).is_ok())
}

/// Plies that the game has left, if the block has its end: where another game begins, or where the block ends with a game.
pub(super) fn plies_left(records: &[Record], at: usize, ends_game: bool) -> Option<u16> {
    if !ends_game {
        return None;
    }
    let rest = &records[at..];
    let next = rest.iter().skip(1).position(|record| record.starts_game);
    let last = next.map_or(rest.last(), |next| rest.get(next))?;
    Some(last.ply.checked_sub(rest[0].ply)? + 1)
}

#[cfg(test)]
mod tests {
    use super::super::samples::test_games::games;
    use super::*;
    use tandem_transformer::encoding::planes;

    fn planes_of(position: &Position, fill: HistoryFill) -> Vec<f32> {
        let mut out = vec![0.0; 64 * planes::CHANNELS];
        planes::encode(position, fill, &mut out);
        out
    }

    /// What the block shows of a game is what the whole game shows.
    #[test]
    fn planes_are_those_of_the_whole_game() {
        let records = games(12, 5);
        let (mut position, mut repeated) = (Position::startpos(), 0);
        for at in 0..records.len() {
            if records[at].starts_game {
                position = Position::startpos();
            }
            let (found, fill) = with_history(&records, at, false).unwrap();
            let rows = planes_of(&position, HistoryFill::FenOnly);
            assert!(planes_of(&found, fill) == rows, "record {at}: {}", position.fen());
            repeated += usize::from(rows[12] == 1.0);
            // With colours exchanged nothing changes but who is to move.
            let (found, fill) = with_history(&records, at, true).unwrap();
            let mut flipped = planes_of(&found, fill);
            flipped.iter_mut().skip(108).step_by(planes::CHANNELS).for_each(|number| *number = 1.0 - *number);
            assert!(flipped == rows, "record {at}: {}", position.fen());
            position.play(records[at].mv.unwrap());
        }
        assert!(repeated > 0, "no game repeats a position");
    }

    #[test]
    fn a_game_is_followed_to_its_end() {
        let records = games(3, 1);
        let second = records.iter().skip(1).position(|record| record.starts_game).unwrap() + 1;
        assert_eq!(following(&records, 0).count(), second - 1);
        assert_eq!(following(&records, second - 1).count(), 0);
        assert_eq!(plies_left(&records, 0, true), Some(second as u16));
        assert_eq!(plies_left(&records, second - 1, true), Some(1));
        assert_eq!(plies_left(&records, records.len() - 1, true), Some(1));
        assert_eq!(plies_left(&records, 0, false), None);
    }

    #[test]
    fn what_does_not_follow_is_no_history() {
        let mut records = games(1, 2);
        records.remove(4);
        let (position, _) = with_history(&records, 6, false).unwrap();
        assert_eq!(position.ply(), 2);
        // An illegal move breaks the line where it is, and what comes after stands for itself.
        records[5].mv = Some("a1a1".parse().unwrap());
        assert!(with_history(&records, 5, false).unwrap_err().contains("a1a1"));
        assert_eq!(with_history(&records, 6, false).unwrap().0.ply(), 0);
    }
}
