//! Games as PGN, with the tags and move comments that fastchess and Lichess also write.

use crate::{EngineLimits, GameRecord, Outcome, TimeLimit};
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tandem_chess::{Color, pgn};

/// Data for the tags of a game that its record does not contain.
#[derive(Clone, Debug)]
pub(crate) struct Heading<'a> {
    /// Name of the match.
    pub(crate) event: &'a str,
    /// Round and number within the pair, for example `12.2`.
    pub(crate) round: String,
    /// Names of White and Black.
    pub(crate) names: [&'a str; 2],
    /// Limits of White and Black.
    pub(crate) limits: [EngineLimits; 2],
    /// True for Chess960, which adds the tag `Variant`.
    pub(crate) chess960: bool,
}

/// Formats a game as PGN, with a comment after each move: evaluation from White's view and depth, time left
/// on the clock, time taken. The last comment ends with the result and its reason.
pub(crate) fn to_pgn(record: &GameRecord, heading: &Heading) -> String {
    let mut game = pgn::Game::from_start(record.start.clone());
    let (date, time) = utc(SystemTime::now());
    game.set_tag("Event", heading.event);
    game.set_tag("Date", &date);
    game.set_tag("Round", &heading.round);
    game.set_tag("White", heading.names[0]);
    game.set_tag("Black", heading.names[1]);
    game.set_tag("UTCDate", &date);
    game.set_tag("UTCTime", &time);
    if heading.chess960 {
        game.set_tag("Variant", "Chess960");
    }
    let [white, black] = heading.limits;
    if white == black {
        game.set_tag("TimeControl", &time_control(&white));
    } else {
        game.set_tag("WhiteTimeControl", &time_control(&white));
        game.set_tag("BlackTimeControl", &time_control(&black));
    }
    game.set_tag("PlyCount", &record.moves.len().to_string());
    game.set_tag("Termination", record.termination.pgn_tag());
    game.result = match record.outcome {
        Outcome::WhiteWins => pgn::GameResult::WhiteWins,
        Outcome::BlackWins => pgn::GameResult::BlackWins,
        Outcome::Draw => pgn::GameResult::Draw,
    };
    let mut side = record.start.side_to_move();
    for played in &record.moves {
        let mut ply = pgn::Ply::new(played.mv);
        ply.comment = Some(comment(played, side));
        game.moves.push(ply);
        side = !side;
    }
    let mut why = format!("{} by {}", record.outcome, record.termination);
    if let (Some(culprit), Some(details)) = (record.culprit, &record.details) {
        let name = heading.names[culprit as usize];
        let _ = write!(why, ": {name} {details}");
    }
    match game.moves.last_mut().and_then(|ply| ply.comment.as_mut()) {
        Some(comment) => *comment = format!("{comment} {why}"),
        None => game.comment = Some(why),
    }
    let mut text = Vec::new();
    match pgn::write(&mut text, &game) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        // This cannot happen, because every move was legal when it was played and writing to memory does not
        // fail. Should it ever change, the match is worth more than the text of one game.
        Err(error) => format!("[Event \"unwritable game: {error}\"]\n\n*\n\n"),
    }
}

fn comment(played: &crate::PlayedMove, side: Color) -> String {
    let Some(thought) = &played.thought else { return "book".into() };
    let mut text = String::new();
    if let Some(score) = thought.score {
        let score = if side == Color::White { score } else { score.flipped() };
        let _ = write!(text, "[%eval {score}");
        if let Some(depth) = thought.depth {
            let _ = write!(text, ",{depth}");
        }
        text.push_str("] ");
    }
    if let Some(left) = thought.left {
        let _ = write!(text, "[%clk {}] ", clock(left));
    }
    let _ = write!(text, "[%emt {}]", clock(thought.elapsed));
    text
}

/// Formats a duration as `h:mm:ss.mmm`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}.{:03}", seconds / 3600, seconds / 60 % 60, seconds % 60, time.subsec_millis())
}

/// Formats limits in the notation of PGN where it has one, else in our own.
fn time_control(limits: &EngineLimits) -> String {
    match limits.time {
        TimeLimit::Clock { .. } if limits.depth.is_none() && limits.nodes.is_none() => {
            limits.time.to_string()
        }
        _ => limits.to_string(),
    }
}

/// Formats date and time of day in UTC as the tags of PGN require.
fn utc(now: SystemTime) -> (String, String) {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let second = seconds % 86_400;
    (
        format!("{year:04}.{month:02}.{day:02}"),
        format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60),
    )
}

/// The date of a moment as PGN writes it, for example 2026.11.19.
pub fn date_utc(now: SystemTime) -> String {
    utc(now).0
}

/// Converts days since 1970-01-01 into year, month and day. It walks years and months, which is fast enough
/// once per game.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(59), (1970, 3, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_772), (2026, 11, 15));
        assert_eq!(civil(20_818), (2026, 12, 31));
    }

    #[test]
    fn clocks_have_hours_and_milliseconds() {
        assert_eq!(clock(Duration::from_millis(3_723_045)), "1:02:03.045");
    }
}
