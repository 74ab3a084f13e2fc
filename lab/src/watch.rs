//! What a match shows while it runs.

use tandem_arena::{GameResult, Observer, Standings, summary};

/// Plain lines: one for each game, and the table every so often.
pub(crate) struct Watch {
    meetings: Vec<summary::Meeting>,
    quiet: bool,
    total: usize,
    last_table: usize,
}

impl Watch {
    pub(crate) fn new(meetings: Vec<summary::Meeting>, quiet: bool) -> Self {
        Self { meetings, quiet, total: 0, last_table: 0 }
    }
}

impl Observer for Watch {
    fn started(&mut self, standings: &Standings, total: usize, _bound: bool) {
        self.total = total;
        self.last_table = standings.games();
        if standings.games() > 0 {
            println!("going on after {} of {total} games", standings.games());
        }
    }

    fn finished(&mut self, standings: &Standings, result: &GameResult) -> bool {
        let names = &standings.names;
        if !self.quiet || result.termination.is_forfeit() {
            let details = match (&result.details, result.culprit) {
                (Some(details), Some(culprit)) => format!(": {} {details}", names[culprit]),
                _ => String::new(),
            };
            println!(
                "game {} ({}/{}) {} - {}: {} by {}{details}, {} plies, {:.1} s",
                result.index + 1,
                standings.games(),
                self.total,
                names[result.white],
                names[result.black],
                result.outcome,
                result.termination,
                result.plies,
                result.seconds
            );
        }
        if standings.games() - self.last_table >= 20 * self.meetings.len() {
            self.last_table = standings.games();
            for &meeting in &self.meetings {
                print!("{}", summary::meeting_lines(standings, meeting));
            }
        }
        true
    }
}
