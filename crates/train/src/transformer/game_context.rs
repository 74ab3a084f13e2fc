//! The game around a record: history planes read the positions before it, some heads learn from the positions
//! after it. A block of data holds whole games in order, so both are found beside the record.

use tandem_chess::history::{BOARDS, HistoryFill};
use tandem_chess::{Board, Move, Position};
use tandem_data::{GameTracker, Record};

/// The position of a record with its history: the boards before it, as far as the block contains them and
/// planes show them, and the positions that those may repeat. `flipped` swaps the colours.
///
/// Also returns the way to fill the planes before the first board: empty for a game from the usual starting
/// position, also with swapped colours, and otherwise that board again.
pub(super) fn with_history(
    records: &[Record],
    at: usize,
    flipped: bool,
) -> Result<(Position, HistoryFill), String> {
    let mut tracker = GameTracker::default();
    let mut history: Option<(Position, &Record)> = None;
    let mut played: Option<Move> = None;
    for (index, record) in records.iter().enumerate().take(at + 1).skip(first_needed_record(records, at)) {
        let seen = if flipped { record.flipped() } else { *record };
        // The tracker gets the records without swapped colours, because it compares moves and plies with the
        // real ones.
        let continues = tracker.continues_game(record);
        match (tracker.advance(record), history.as_mut(), played) {
            (Ok(_), Some((position, _)), Some(mv)) if continues => position.play(mv),
            (Ok(_), _, _) => {
                let board = seen.position.board().map_err(|bad| bad.to_string())?;
                history = Some((Position::from(board), record));
            }
            (Err(problem), _, _) if index == at => return Err(problem),
            // A broken record ends the history, and the next record begins a new one.
            (Err(_), _, _) => history = None,
        }
        played = seen.mv;
    }
    let (position, first) = history.ok_or("there is no such record")?;
    let began = first.position.board().is_ok_and(|board| board.same_position(&Board::default()));
    Ok((position, if began { HistoryFill::No } else { HistoryFill::Always }))
}

/// The first record on which the planes of a position can depend: from the oldest board shown back to the
/// last irreversible move.
fn first_needed_record(records: &[Record], at: usize) -> usize {
    let oldest = at.saturating_sub(BOARDS - 1);
    let reversible = usize::from(records[oldest].position.halfmove_clock());
    let least = oldest.saturating_sub(reversible);
    let mut first = at;
    while first > least && !records[first].starts_game && records[first - 1].mv.is_some() {
        first -= 1;
    }
    first
}

/// The records after one in the same game, as long as each move leads to the next position.
pub(super) fn following(records: &[Record], at: usize) -> impl Iterator<Item = &Record> {
    let mut tracker = GameTracker::default();
    // A record that the tracker rejects has no successors.
    let _ = tracker.advance(&records[at]);
    records[at + 1..]
        .iter()
        .take_while(move |record| tracker.continues_game(record) && tracker.advance(record).is_ok())
}

/// Plies to the end of the game; `None` if the block does not contain its end. A game ends where the next one
/// starts, or with the block if `ends_game` is set.
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

    /// Planes from a block are equal to planes from the whole game.
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
            // With the colours swapped, only the side-to-move plane changes.
            let (found, fill) = with_history(&records, at, true).unwrap();
            let mut flipped = planes_of(&found, fill);
            flipped.iter_mut().skip(108).step_by(planes::CHANNELS).for_each(|value| *value = 1.0 - *value);
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
    fn records_that_do_not_follow_are_not_history() {
        let mut records = games(1, 2);
        records.remove(4);
        let (position, _) = with_history(&records, 6, false).unwrap();
        assert_eq!(position.ply(), 2);
        // An illegal move breaks the line at its record, and the history starts again after it.
        records[5].mv = Some("a1a1".parse().unwrap());
        assert!(with_history(&records, 5, false).unwrap_err().contains("a1a1"));
        assert_eq!(with_history(&records, 6, false).unwrap().0.ply(), 0);
    }
}
