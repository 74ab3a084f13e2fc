//! The display of a running match: a live table on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};
use tandem_arena::{
    GameResult, Observer, Standings,
    stats::{Sprt, SprtState, Verdict},
    summary,
};

/// Observes a match, prints its games and standings, and stops it when its SPRT is decided.
pub(crate) struct Watch {
    meetings: Vec<summary::Meeting>,
    sprt: Option<Sprt>,
    /// State of the SPRT when it was first decided. Games that were under way then and end later do not
    /// revoke the decision.
    decision: Option<SprtState>,
    quiet: bool,
    total: usize,
    /// Games played by earlier runs of a resumed match.
    earlier: usize,
    started: Instant,
    /// Games played when the last plain table was printed.
    last_table: usize,
    last_table_at: Instant,
    live: Option<Live>,
}

/// Games of each meeting after which the standings are printed again where there is no terminal.
const TABLE_GAMES: usize = 20;
/// Time after which they are printed with the next game at the latest.
const TABLE_PAUSE: Duration = Duration::from_secs(60);

impl Watch {
    pub(crate) fn new(meetings: Vec<summary::Meeting>, sprt: Option<Sprt>, quiet: bool) -> Self {
        let live = stdout().is_terminal().then(Live::default);
        Self {
            meetings,
            sprt,
            decision: None,
            quiet,
            total: 0,
            earlier: 0,
            started: Instant::now(),
            last_table: 0,
            last_table_at: Instant::now(),
            live,
        }
    }

    /// Erases the live table, so that the summary can be printed in its place.
    pub(crate) fn clear(&mut self) {
        match &mut self.live {
            Some(live) => live.draw(""),
            None => outln!(""),
        }
    }

    /// Updates the SPRT after a game and records the first decision.
    fn note_decision(&mut self, standings: &Standings) {
        if let (None, Some(sprt), Some(&(a, b))) = (self.decision, &self.sprt, self.meetings.first()) {
            let state = sprt.state(&standings.pairs(a, b));
            self.decision = Some(state).filter(|state| state.verdict != Verdict::Undecided);
        }
    }

    fn table(&self, standings: &Standings) -> String {
        let mut text = String::new();
        // Many pairings make a long table; the rating list holds the same information in fewer lines.
        if standings.names.len() > 2 {
            text += &summary::rating_lines(standings, &standings.ratings());
        } else {
            for &meeting in &self.meetings {
                text += &summary::meeting_lines(standings, meeting);
            }
        }
        if let (Some(sprt), Some(&(a, b))) = (&self.sprt, self.meetings.first()) {
            let state = self.decision.unwrap_or_else(|| sprt.state(&standings.pairs(a, b)));
            text += &summary::sprt_line(sprt, &state);
        }
        text
    }

    fn progress(&self, standings: &Standings) -> String {
        let played = standings.games().saturating_sub(self.earlier) as f64;
        let seconds = self.started.elapsed().as_secs_f64();
        let per_game = seconds / played.max(1.0);
        let left = self.total.saturating_sub(standings.games()) as f64 * per_game;
        let fraction = standings.games() as f64 / self.total.max(1) as f64;
        let filled = ((fraction * 30.0) as usize).min(30);
        let mut text = format!(
            "{}{} {} of {} games, {}",
            "█".repeat(filled),
            "░".repeat(30 - filled),
            standings.games(),
            self.total,
            hours(seconds)
        );
        if played > 0.0 {
            let most = if self.sprt.is_some() { "at most " } else { "" };
            text += &format!(", {:.1} games/min, {most}{} left", 60.0 / per_game, hours(left));
        }
        text + "\n"
    }
}

impl Observer for Watch {
    fn notice(&mut self, text: &str) {
        errln!("{text}");
    }

    fn started(&mut self, standings: &Standings, total: usize) -> bool {
        self.total = total;
        self.earlier = standings.games();
        self.last_table = standings.games();
        self.last_table_at = Instant::now();
        self.started = Instant::now();
        if let (Some(sprt), Some(&(a, b))) = (&self.sprt, self.meetings.first()) {
            let state = standings.sprt_state(sprt, a, b);
            self.decision = Some(state).filter(|state| state.verdict != Verdict::Undecided);
        }
        match standings.games() {
            0 => {}
            games if games >= total => outln!("nothing left to play: all {total} games are played"),
            games if self.decision.is_some() => {
                outln!("nothing left to play: {games} of at most {total} games have decided the test");
            }
            games => outln!("resuming after {games} of {total} games"),
        }
        self.decision.is_none()
    }

    fn finished(&mut self, standings: &Standings, result: &GameResult) -> bool {
        self.note_decision(standings);
        let line = game_line(standings, result, self.total);
        if let Some(mut live) = self.live.take() {
            if result.termination.is_forfeit() {
                // Forfeits scroll by above the table, because they must not be missed.
                live.draw("");
                outln!("{line}");
            }
            if live.last_table.is_none_or(|at| at.elapsed() > Duration::from_secs(2)) {
                live.table = self.table(standings);
                live.last_table = Some(Instant::now());
            }
            live.game = line;
            self.live = Some(live);
        } else {
            if !self.quiet || result.termination.is_forfeit() {
                outln!("{line}");
            }
            let is_due = standings.games() - self.last_table >= TABLE_GAMES * self.meetings.len()
                || self.last_table_at.elapsed() >= TABLE_PAUSE;
            if is_due {
                self.last_table = standings.games();
                self.last_table_at = Instant::now();
                out!("{}", self.progress(standings));
                out!("{}", self.table(standings));
            }
        }
        self.decision.is_none()
    }

    fn tick(&mut self, standings: &Standings) {
        let Some(mut live) = self.live.take() else { return };
        if live.last_draw.is_none_or(|at| at.elapsed() > Duration::from_millis(500)) {
            let forfeits = summary::termination_lines(standings);
            let text = format!("{}{}{forfeits}{}\n", self.progress(standings), live.table, live.game);
            live.draw(&text);
            live.last_draw = Some(Instant::now());
        }
        self.live = Some(live);
    }
}

fn game_line(standings: &Standings, result: &GameResult, total: usize) -> String {
    let names = &standings.names;
    let details = match (&result.details, result.culprit) {
        (Some(details), Some(culprit)) => format!(": {} {details}", names[culprit]),
        _ => String::new(),
    };
    format!(
        "game {} ({}/{total}) {} - {}: {} by {}{details}, {} plies, {:.1} s",
        result.index + 1,
        standings.games(),
        names[result.white],
        names[result.black],
        result.outcome,
        result.termination,
        result.plies,
        result.seconds
    )
}

fn hours(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// The lines at the bottom of a terminal that are redrawn in place.
#[derive(Default)]
struct Live {
    lines: usize,
    table: String,
    game: String,
    last_table: Option<Instant>,
    last_draw: Option<Instant>,
}

impl Live {
    fn draw(&mut self, text: &str) {
        let mut out = String::new();
        if self.lines > 0 {
            // Move up to the first line of the last drawing and clear from there.
            out += &format!("\x1b[{}F\x1b[J", self.lines);
        }
        // Disable wrapping: a wrapped line would count as two, and the next drawing would start too low.
        out += "\x1b[?7l";
        out += text;
        out += "\x1b[?7h";
        self.lines = text.lines().count();
        let mut stdout = stdout().lock();
        // A terminal that is gone is not a reason to end a match.
        let _ = stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_arena::{Outcome, Termination, stats::SprtModel};

    fn result(index: usize, a_wins: bool) -> GameResult {
        let (white, black) = (index % 2, 1 - index % 2);
        GameResult {
            index,
            white,
            black,
            opening: 0,
            outcome: if a_wins == (white == 0) { Outcome::WhiteWins } else { Outcome::BlackWins },
            termination: Termination::Checkmate,
            details: None,
            culprit: None,
            plies: 60,
            seconds: 1.0,
            pgn_end: 0,
        }
    }

    #[test]
    fn more_games_than_planned_fill_the_bar() {
        let mut standings = Standings::new(vec!["a".into(), "b".into()]);
        (0..4).for_each(|index| standings.add(result(index, true)));
        let mut watch = Watch::new(vec![(0, 1)], None, true);
        watch.total = 2;
        assert!(watch.progress(&standings).starts_with(&"█".repeat(30)));
    }

    #[test]
    fn a_decision_outlives_the_games_under_way() {
        let sprt = Sprt::new(0.0, 50.0, 0.05, 0.05, SprtModel::Logistic).unwrap();
        let mut watch = Watch::new(vec![(0, 1)], Some(sprt), true);
        let mut standings = Standings::new(vec!["a".into(), "b".into()]);
        assert!(watch.started(&standings, 1000));
        let mut play = |index, a_wins| {
            let result = result(index, a_wins);
            standings.add(result.clone());
            watch.finished(&standings, &result)
        };
        let decided = (0..1000).find(|&index| !play(index, index % 20 < 18)).unwrap();
        assert!((decided + 1..decided + 21).all(|index| !play(index, false)), "it stays decided");
        assert_eq!(sprt.state(&standings.pairs(0, 1)).verdict, Verdict::Undecided);
        assert!(watch.table(&standings).contains("H1 accepted"));
        let mut resumed = Watch::new(vec![(0, 1)], Some(sprt), true);
        assert!(!resumed.started(&standings, 1000), "nothing is left to play");
    }

    #[test]
    fn hours_are_shown() {
        assert_eq!(hours(3723.9), "1:02:03");
    }
}
