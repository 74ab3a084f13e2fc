//! Distributions of a data set: results, scores, plies, piece counts, phases and king squares.
//!
//! They are meant to be looked at before training, because a wrong score unit or a lopsided result is seen at
//! a glance there.

use crate::filter::name_of;
use crate::record::{Outcome, Record};
use std::fmt::Write;
use tandem_chess::{Color, Piece};
use tandem_util::markup::escape;
use tandem_util::plot;

/// Counts by bin, with a label for each bin; values beyond the last bin are counted in it.
#[derive(Clone, Debug)]
struct Histogram {
    name: &'static str,
    labels: Vec<String>,
    counts: Vec<u64>,
}

impl Histogram {
    fn new(name: &'static str, labels: impl IntoIterator<Item = String>) -> Self {
        let labels: Vec<String> = labels.into_iter().collect();
        Self { name, counts: vec![0; labels.len()], labels }
    }

    fn add(&mut self, bin: usize) {
        let last = self.counts.len() - 1;
        self.counts[bin.min(last)] += 1;
    }

    fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn svg(&self) -> String {
        let bins: Vec<(String, u64)> = self.labels.iter().cloned().zip(self.counts.iter().copied()).collect();
        plot::histogram(self.name, &bins)
    }
}

/// Width of a bin of the score histogram, in centipawns.
const SCORE_STEP: i32 = 100;
const SCORE_STEPS: i32 = 20;
const PLY_STEP: usize = 10;
const PLY_STEPS: usize = 30;

/// Running counts over the records of a data set: distributions of result, score, ply, number of pieces,
/// phase and king squares, printable as text or as an HTML page.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Number of records counted so far.
    pub records: u64,
    /// Number of games counted so far, by the records marked as the first of a game; 0 for formats that do
    /// not mark them.
    pub games: u64,
    scored: u64,
    mates: u64,
    moved: u64,
    results: Histogram,
    scores: Histogram,
    plies: Histogram,
    pieces: Histogram,
    phases: Histogram,
    /// Counts of White's king, then Black's, by square.
    kings: [[u64; 64]; 2],
    /// Sums for the mean score and the mean absolute score.
    score_sum: f64,
    score_sizes: f64,
}

impl Default for Stats {
    fn default() -> Self {
        let outcomes = [Outcome::Loss, Outcome::Draw, Outcome::Win];
        let edge = SCORE_STEP * SCORE_STEPS;
        let score_label = |step: i32| match step {
            0 => format!("below {}", -edge),
            step if step == 2 * SCORE_STEPS + 1 => format!("{edge} and more"),
            step => format!("{}", (step - 1) * SCORE_STEP - edge),
        };
        Self {
            records: 0,
            games: 0,
            scored: 0,
            mates: 0,
            moved: 0,
            results: Histogram::new(
                "results for the side to move",
                outcomes.map(|outcome| name_of(outcome).into()).into_iter().chain(["unknown".into()]),
            ),
            scores: Histogram::new(
                "scores for the side to move, from (in centipawns)",
                (0..=2 * SCORE_STEPS + 1).map(score_label),
            ),
            plies: Histogram::new("plies, from", (0..=PLY_STEPS).map(|step| (step * PLY_STEP).to_string())),
            pieces: Histogram::new("pieces on the board", (0..=32).map(|count| count.to_string())),
            phases: Histogram::new(
                "phases by pieces that are not pawns",
                ["endgame (0 to 6)", "middlegame (7 to 12)", "opening (13 and more)"].map(Into::into),
            ),
            kings: [[0; 64]; 2],
            score_sum: 0.0,
            score_sizes: 0.0,
        }
    }
}

impl Stats {
    /// Adds a record to the counts and to all distributions.
    pub fn add(&mut self, record: &Record) {
        self.records += 1;
        self.games += u64::from(record.starts_game);
        self.moved += u64::from(record.mv.is_some());
        self.results.add(record.result.map_or(3, |result| result as usize));
        self.plies.add(usize::from(record.ply) / PLY_STEP);
        self.pieces.add(record.position.piece_count());
        let mut pieces = 0;
        for (square, color, piece) in record.position.pieces() {
            match piece {
                Piece::King => self.kings[color as usize][square as usize] += 1,
                Piece::Pawn => {}
                _ => pieces += 1,
            }
        }
        self.phases.add(usize::from(pieces > 6) + usize::from(pieces > 12));
        if let Some(score) = record.score {
            self.scored += 1;
            self.mates += u64::from(score.is_mate());
            let value = i32::from(score.centipawns());
            self.score_sum += f64::from(value);
            self.score_sizes += f64::from(value.abs());
            let step = (value + SCORE_STEP * SCORE_STEPS).div_euclid(SCORE_STEP) + 1;
            self.scores.add(step.max(0) as usize);
        }
    }

    /// Number of records with a move, with a score, and with a mate score.
    pub fn fields(&self) -> [u64; 3] {
        [self.moved, self.scored, self.mates]
    }

    /// Mean and mean absolute score in centipawns; `None` without scores.
    pub fn mean_scores(&self) -> Option<[f64; 2]> {
        let count = self.scored as f64;
        (self.scored > 0).then(|| [self.score_sum / count, self.score_sizes / count])
    }

    /// The distributions: each with its name, and the label and the count of every bin.
    pub fn histograms(&self) -> impl Iterator<Item = (&'static str, Vec<(&str, u64)>)> {
        [&self.results, &self.phases, &self.pieces, &self.plies, &self.scores].into_iter().map(|histogram| {
            let bins = histogram.labels.iter().map(String::as_str).zip(histogram.counts.iter().copied());
            (histogram.name, bins.collect())
        })
    }

    /// All counts and distributions as plain text with bars, for a terminal.
    pub fn table(&self) -> String {
        let mut text = format!("{} records", self.records);
        if self.games > 0 {
            let _ = write!(text, " of {} games", self.games);
        }
        let _ = writeln!(
            text,
            ", {} with a move, {} with a score ({} mates)",
            self.moved, self.scored, self.mates
        );
        if let Some([mean, size]) = self.mean_scores() {
            let _ = writeln!(text, "mean score {mean:.1}, mean absolute score {size:.1}");
        }
        for histogram in [&self.results, &self.phases, &self.pieces, &self.plies, &self.scores] {
            let total = histogram.total();
            if total == 0 {
                continue;
            }
            let _ = writeln!(text, "\n{}", histogram.name);
            let most = histogram.counts.iter().copied().max().unwrap_or(1).max(1);
            for (label, &count) in
                histogram.labels.iter().zip(&histogram.counts).filter(|(_, count)| **count > 0)
            {
                let bar = "#".repeat((count * 40).div_ceil(most) as usize);
                let percent = 100.0 * count as f64 / total as f64;
                let _ = writeln!(text, "{label:>22} {count:>12} {percent:6.2} % {bar}");
            }
        }
        for color in Color::ALL {
            let _ = writeln!(text, "\nsquares of {}'s king, in thousandths", name_of_color(color));
            for rank in (0..8).rev() {
                for file in 0..8 {
                    let weighted = self.kings[color as usize][8 * rank + file] as f64 * 1000.0;
                    let _ = write!(text, "{:>5.0}", weighted / self.records.max(1) as f64);
                }
                text.push('\n');
            }
        }
        text
    }

    /// All counts and distributions as an HTML page with inline SVG, which needs no other files; `title`
    /// becomes its heading.
    pub fn page(&self, title: &str) -> String {
        let title = escape(title);
        let mut page = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
             <style>:root{{color-scheme:light dark}}body{{font:15px sans-serif;max-width:60em;margin:2em auto}}\
             svg{{max-width:100%}}td{{text-align:center;width:3em;height:2.4em;font-size:12px}}{}</style>\
             <h1>{title}</h1><p>{} records, {} with a move, {} with a score ({} mates)</p>",
            plot::STYLE,
            self.records,
            self.moved,
            self.scored,
            self.mates
        );
        for histogram in [&self.results, &self.phases, &self.pieces, &self.plies, &self.scores] {
            let _ = write!(page, "<h2>{}</h2>{}", escape(histogram.name), histogram.svg());
        }
        for color in Color::ALL {
            let _ = write!(page, "<h2>squares of {}'s king</h2><table>", name_of_color(color));
            let most = self.kings[color as usize].iter().copied().max().unwrap_or(1).max(1) as f64;
            for rank in (0..8).rev() {
                page.push_str("<tr>");
                for file in 0..8 {
                    let count = self.kings[color as usize][8 * rank + file];
                    let depth = (count as f64 / most).sqrt();
                    let percent = count as f64 * 100.0 / self.records.max(1) as f64;
                    let _ = write!(
                        page,
                        "<td style=\"background:rgba(68,119,170,{depth:.3})\">{percent:.1}</td>"
                    );
                }
                page.push_str("</tr>");
            }
            page.push_str("</table>");
        }
        page.push_str("</html>\n");
        page
    }
}

fn name_of_color(color: Color) -> &'static str {
    if color == Color::White { "White" } else { "Black" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;
    use crate::record::Score;

    #[test]
    fn everything_is_counted_once() {
        let mut stats = Stats::default();
        let records = samples::games(20);
        records.iter().for_each(|record| stats.add(record));
        assert_eq!((stats.records, stats.games), (records.len() as u64, 20));
        for histogram in [&stats.results, &stats.scores, &stats.plies, &stats.pieces, &stats.phases] {
            assert_eq!(histogram.total(), stats.records, "{}", histogram.name);
        }
        assert!(stats.kings.iter().all(|squares| squares.iter().sum::<u64>() == stats.records));
        for (name, bins) in stats.histograms() {
            assert_eq!(bins.iter().map(|(_, count)| count).sum::<u64>(), stats.records, "{name}");
        }
        assert_eq!(stats.fields()[0], stats.records);
        let table = stats.table();
        assert!(table.contains("of 20 games") && table.contains("mean score"), "{table}");
        let page = stats.page("a <b>");
        assert!(page.contains("a &lt;b&gt;") && page.matches("<svg").count() == 5);
    }

    #[test]
    fn scores_fall_into_their_steps() {
        for (value, label) in [(0, "0"), (99, "0"), (-1, "-100"), (1999, "1900"), (2000, "2000 and more")] {
            let mut stats = Stats::default();
            let record = Record { score: Some(Score::Centipawns(value)), ..samples::games(1)[0] };
            stats.add(&record);
            let at = stats.scores.counts.iter().position(|&count| count == 1).unwrap();
            assert_eq!(stats.scores.labels[at], label, "{value}");
        }
        assert_eq!(Stats::default().scores.labels[0], "below -2000");
    }
}
