//! What a match shows while it runs: a table that is drawn anew on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};
use tandem_arena::{
    GameResult, Observer, Standings,
    stats::{Sprt, Verdict},
    summary,
};

/// Watches a match.
pub(crate) struct Watch {
    meetings: Vec<summary::Meeting>,
    sprt: Option<Sprt>,
    quiet: bool,
    total: usize,
    /// Games that earlier runs had played.
    before: usize,
    started: Instant,
    /// Games at the last plain table.
    last_table: usize,
    live: Option<Live>,
}

impl Watch {
    pub(crate) fn new(meetings: Vec<summary::Meeting>, sprt: Option<Sprt>, quiet: bool) -> Self {
        let live = stdout().is_terminal().then(Live::default);
        Self { meetings, sprt, quiet, total: 0, before: 0, started: Instant::now(), last_table: 0, live }
    }

    /// Takes the live table away, to make room for the summary.
    pub(crate) fn clear(&mut self) {
        match &mut self.live {
            Some(live) => live.draw(""),
            None => sayln!(""),
        }
    }

    fn is_decided(&self, standings: &Standings) -> bool {
        let (Some(sprt), Some(&(a, b))) = (&self.sprt, self.meetings.first()) else { return false };
        sprt.state(&standings.pairs(a, b)).verdict != Verdict::Undecided
    }

    fn table(&self, standings: &Standings) -> String {
        let mut text = String::new();
        // Many meetings make a long table: the rating list says the same in less.
        if standings.names.len() > 2 {
            text += &summary::rating_lines(standings, &standings.ratings());
        } else {
            for &meeting in &self.meetings {
                text += &summary::meeting_lines(standings, meeting);
            }
        }
        if let (Some(sprt), Some(&(a, b))) = (&self.sprt, self.meetings.first()) {
            text += &summary::sprt_line(sprt, &standings.pairs(a, b));
        }
        text
    }

    fn progress(&self, standings: &Standings) -> String {
        let played = (standings.games() - self.before) as f64;
        let seconds = self.started.elapsed().as_secs_f64();
        let per_game = seconds / played.max(1.0);
        let left = (self.total - standings.games()) as f64 * per_game;
        let share = standings.games() as f64 / self.total.max(1) as f64;
        let filled = (share * 30.0) as usize;
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
    fn started(&mut self, standings: &Standings, total: usize) -> bool {
        self.total = total;
        self.before = standings.games();
        self.last_table = standings.games();
        self.started = Instant::now();
        if standings.games() > 0 {
            sayln!("going on after {} of {total} games", standings.games());
        }
        !self.is_decided(standings)
    }

    fn finished(&mut self, standings: &Standings, result: &GameResult) -> bool {
        let line = game_line(standings, result, self.total);
        if let Some(mut live) = self.live.take() {
            if result.termination.is_forfeit() {
                // Forfeits scroll by above the table: they must not be missed.
                live.draw("");
                sayln!("{line}");
            }
            if live.last_table.is_none_or(|at| at.elapsed() > Duration::from_secs(2)) {
                live.table = self.table(standings);
                live.last_table = Some(Instant::now());
            }
            live.game = line;
            self.live = Some(live);
        } else {
            if !self.quiet || result.termination.is_forfeit() {
                sayln!("{line}");
            }
            if standings.games() - self.last_table >= 20 * self.meetings.len() {
                self.last_table = standings.games();
                say!("{}", self.table(standings));
            }
        }
        !self.is_decided(standings)
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

/// Lines on a terminal that are drawn over.
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
            // Up to the first line of the last drawing, and clear from there.
            out += &format!("\x1b[{}F\x1b[J", self.lines);
        }
        // A line that wraps would be two, and the next drawing would start too low: the terminal cuts it instead.
        out += "\x1b[?7l";
        out += text;
        out += "\x1b[?7h";
        self.lines = text.lines().count();
        let mut stdout = stdout().lock();
        // A terminal that is gone is no reason to end a match.
        let _ = stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_shown() {
        assert_eq!(hours(3723.9), "1:02:03");
    }
}
