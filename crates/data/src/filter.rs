//! Rules that select records, as plain data, so that a recipe or a command line can hold them.
//!
//! A filter runs on the decoding threads, block by block, so its cost is spread over all of them; its random
//! choices depend on the seed and the block alone, never on the number of threads.

use crate::error::DataError;
use crate::packed::kind_of;
use crate::read::{Cursor, RecordFilter};
use crate::record::{Outcome, Record, Score};
use crate::source::Source;
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tandem_chess::{Piece, Position, Square, generate_noisy};
use tandem_util::random::SplitMix;
use thiserror::Error;

/// Rules that a record must satisfy, all of them at once. The default has no rules and keeps every record.
///
/// It is parsed from text such as `min-ply=16,quiet,skip=0.5`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Smallest number of plies (moves of one side) since the start of the game; records with fewer are
    /// dropped.
    pub min_ply: Option<u16>,
    /// Largest number of plies since the start of the game; records with more are dropped.
    pub max_ply: Option<u16>,
    /// Smallest number of pieces on the board, kings and pawns included; positions with fewer are dropped.
    pub min_pieces: Option<usize>,
    /// Largest number of pieces on the board, for example 7 for tablebase positions; positions with more are
    /// dropped.
    pub max_pieces: Option<usize>,
    /// Largest absolute score in centipawns; records beyond it are dropped, and records without a score pass.
    pub max_score: Option<i16>,
    /// Keeps only positions with a score.
    pub scored: bool,
    /// Keeps only positions with a game result, draws included.
    pub decided: bool,
    /// Drops positions in which the side to move is in check.
    pub no_checks: bool,
    /// Drops positions whose recorded move is a capture or a promotion.
    pub no_captures: bool,
    /// Drops positions in check, and those in which a capture or promotion wins material by static exchange
    /// evaluation (the balance of all captures on one square). Unlike [`Self::no_captures`] it needs no
    /// recorded move.
    pub quiet: bool,
    /// Drops positions whose castling rights need Chess960 rules, because several formats and networks cannot
    /// express them.
    pub no_chess960: bool,
    /// Drops positions with a mate score, also where a format stores mates as large centipawn values.
    pub no_mates: bool,
    /// Fraction of the records that is dropped at random, from 0 to 1. The same ones are dropped on every
    /// pass over the data.
    pub skip: f64,
    /// Seed of the random choice behind [`Self::skip`].
    pub seed: u64,
}

/// Text that is not a filter rule, or a rule whose value cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} is not a rule; there are min-ply=N, max-ply=N, min-pieces=N, max-pieces=N, max-score=N, scored, decided, \
     no-checks, no-captures, quiet, no-chess960, no-mates, skip=FRACTION and seed=N, with commas between them"
)]
pub struct BadFilter(pub String);

impl FromStr for Filter {
    type Err = BadFilter;

    fn from_str(text: &str) -> Result<Self, BadFilter> {
        let mut filter = Self::default();
        for rule in text.split(',').map(str::trim).filter(|rule| !rule.is_empty()) {
            filter.add(rule).ok_or_else(|| BadFilter(rule.into()))?;
        }
        Ok(filter)
    }
}

impl Filter {
    fn add(&mut self, rule: &str) -> Option<()> {
        let (key, value) = rule.split_once('=').map_or((rule, ""), |(key, value)| (key, value));
        match key {
            "min-ply" => self.min_ply = Some(value.parse().ok()?),
            "max-ply" => self.max_ply = Some(value.parse().ok()?),
            "min-pieces" => self.min_pieces = Some(value.parse().ok()?),
            "max-pieces" => self.max_pieces = Some(value.parse().ok()?),
            "max-score" => self.max_score = Some(value.parse().ok()?),
            "skip" => self.skip = value.parse().ok().filter(|fraction| (0.0..=1.0).contains(fraction))?,
            "seed" => self.seed = value.parse().ok()?,
            _ if !value.is_empty() => return None,
            "scored" => self.scored = true,
            "decided" => self.decided = true,
            "no-checks" => self.no_checks = true,
            "no-captures" => self.no_captures = true,
            "quiet" => self.quiet = true,
            "no-chess960" => self.no_chess960 = true,
            "no-mates" => self.no_mates = true,
            _ => return None,
        }
        Some(())
    }

    /// Refuses a rule about a field that a source's format does not store, because it would keep nothing, or
    /// everything.
    ///
    /// # Errors
    ///
    /// Fails for ply rules on formats without plies, for `no-captures` on formats without moves and on CSV files
    /// without a column for them, and if the header of a CSV file cannot be read.
    pub fn check(&self, sources: &[Source]) -> Result<(), DataError> {
        let asks_plies = self.min_ply.is_some() || self.max_ply.is_some();
        for source in sources {
            let lacks_plies = asks_plies && !source.format.properties().has_plies;
            let problem = match (lacks_plies, self.no_captures && !source.has_moves()?) {
                (true, _) => {
                    format!(
                        "the format {} does not store plies: leave out min-ply and max-ply",
                        source.format
                    )
                }
                (false, true) => {
                    "its records have no moves, which no-captures asks for; use quiet, which needs none"
                        .into()
                }
                (false, false) => continue,
            };
            return Err(DataError::Path { path: source.path.clone(), problem });
        }
        Ok(())
    }

    /// True if a record satisfies all rules; see [`Self::broken_rule`].
    pub fn keeps(&self, record: &Record, random: &mut SplitMix) -> bool {
        self.broken_rule(record, random).is_none()
    }

    /// The first rule that a record breaks, in the order of [`Rule::ALL`]; `None` if it satisfies all of them.
    /// `random`, from [`Self::block_rng`], decides which records [`Self::skip`] drops; with a `skip` above 0 it
    /// is advanced once for every record.
    pub fn broken_rule(&self, record: &Record, random: &mut SplitMix) -> Option<Rule> {
        // Drawn for every record, so that adding another rule does not change which records are dropped at
        // random.
        let is_drawn = self.skip == 0.0 || random.unit() >= self.skip;
        Rule::ALL.into_iter().find(|&rule| !self.satisfies(rule, record, is_drawn))
    }

    fn satisfies(&self, rule: Rule, record: &Record, is_drawn: bool) -> bool {
        let pieces = || record.position.piece_count();
        let size = || record.score.map(|score| score.centipawns().unsigned_abs());
        match rule {
            Rule::Skip => is_drawn,
            Rule::MinPly => self.min_ply.is_none_or(|min| record.ply >= min),
            Rule::MaxPly => self.max_ply.is_none_or(|max| record.ply <= max),
            Rule::MinPieces => self.min_pieces.is_none_or(|min| pieces() >= min),
            Rule::MaxPieces => self.max_pieces.is_none_or(|max| pieces() <= max),
            Rule::MaxScore => {
                self.max_score.is_none_or(|max| size().is_none_or(|size| size <= max.unsigned_abs()))
            }
            Rule::Scored => !self.scored || record.score.is_some(),
            Rule::Decided => !self.decided || record.result.is_some(),
            Rule::NoMates => !self.no_mates || !record.score.is_some_and(Score::is_mate),
            Rule::NoCaptures => !self.no_captures || !is_capture(record),
            Rule::NoChess960 => !self.no_chess960 || crate::formats::is_ordinary(&record.position),
            Rule::NoChecks => !self.no_checks || !in_check(record),
            Rule::Quiet => !self.quiet || is_quiet(record),
        }
    }

    /// Random generator for the records of one block, to be passed to [`Self::keeps`]. Its seed follows from
    /// the filter's seed and the block's place, so that the choice does not depend on the number of threads.
    pub fn block_rng(&self, block: Cursor) -> SplitMix {
        let block = (block.source as u64) << 48 ^ block.byte;
        SplitMix::new(self.seed ^ SplitMix::new(block).next_u64())
    }

    /// The filter as a function for [`crate::RecordReader::new`], which removes the records that break a rule
    /// from each decoded block; `None` if the filter has no rules.
    pub fn record_filter(&self) -> Option<RecordFilter> {
        self.counting_filter(&Arc::default())
    }

    /// Like [`Self::record_filter`], and counts the records that it sees and drops.
    pub fn counting_filter(&self, counts: &Arc<FilterCounts>) -> Option<RecordFilter> {
        if *self == Self::default() {
            return None;
        }
        let (filter, counts) = (self.clone(), Arc::clone(counts));
        Some(Arc::new(move |records: &mut Vec<Record>, cursor: Cursor| {
            let mut random = filter.block_rng(cursor);
            let mut starts_game = false;
            records.retain_mut(|record| {
                starts_game |= record.starts_game;
                let broken = filter.broken_rule(record, &mut random);
                counts.add(&filter, record, broken);
                if broken.is_none() {
                    // The first record left of a game becomes the start of that game.
                    record.starts_game = std::mem::take(&mut starts_game);
                }
                broken.is_none()
            });
        }))
    }
}

/// Declares [`Rule`] from the variants and their names, in the order in which a record is tested: cheap rules
/// first.
macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident $name:literal,)*) => {
        /// One rule of a [`Filter`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule {
            $($(#[$doc])* $rule,)*
        }

        impl Rule {
            /// All rules, in the order in which a record is tested.
            pub const ALL: [Self; [$(Self::$rule),*].len()] = [$(Self::$rule),*];

            /// Name of the rule in a filter's text, without its value.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }
        }
    };
}

rules! {
    /// [`Filter::skip`].
    Skip "skip",
    /// [`Filter::min_ply`].
    MinPly "min-ply",
    /// [`Filter::max_ply`].
    MaxPly "max-ply",
    /// [`Filter::min_pieces`].
    MinPieces "min-pieces",
    /// [`Filter::max_pieces`].
    MaxPieces "max-pieces",
    /// [`Filter::max_score`].
    MaxScore "max-score",
    /// [`Filter::scored`].
    Scored "scored",
    /// [`Filter::decided`].
    Decided "decided",
    /// [`Filter::no_mates`].
    NoMates "no-mates",
    /// [`Filter::no_captures`].
    NoCaptures "no-captures",
    /// [`Filter::no_chess960`].
    NoChess960 "no-chess960",
    /// [`Filter::no_checks`].
    NoChecks "no-checks",
    /// [`Filter::quiet`].
    Quiet "quiet",
}

/// Counts of the records that a filter saw and dropped, by rule. Decoding threads add to them at the same time.
#[derive(Debug, Default)]
pub struct FilterCounts {
    records: AtomicU64,
    dropped: [AtomicU64; Rule::ALL.len()],
    /// Kept records without a move, if the filter asks for [`Filter::no_captures`], which such records
    /// pass.
    without_move: AtomicU64,
}

impl FilterCounts {
    /// Counts a record and the rule that it broke, if any.
    pub fn add(&self, filter: &Filter, record: &Record, broken: Option<Rule>) {
        self.records.fetch_add(1, Relaxed);
        match broken {
            Some(rule) => _ = self.dropped[rule as usize].fetch_add(1, Relaxed),
            None if filter.no_captures && record.mv.is_none() => _ = self.without_move.fetch_add(1, Relaxed),
            None => {}
        }
    }

    /// Number of records that the filter saw.
    pub fn records(&self) -> u64 {
        self.records.load(Relaxed)
    }

    /// Number of records that were dropped because of each rule; rules that dropped none are left out. A record
    /// that breaks several rules counts for the first of them, in the order of [`Rule::ALL`].
    pub fn dropped(&self) -> Vec<(Rule, u64)> {
        let counts = Rule::ALL.into_iter().map(|rule| (rule, self.dropped[rule as usize].load(Relaxed)));
        counts.filter(|&(_, count)| count > 0).collect()
    }

    /// Number of records without a move that were kept although [`Filter::no_captures`] could not be applied to them.
    pub fn without_move(&self) -> u64 {
        self.without_move.load(Relaxed)
    }
}

/// The dropped records in words: `decided dropped 57531, no-checks 12`.
impl fmt::Display for FilterCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (rule, count)) in self.dropped().into_iter().enumerate() {
            let verb = if number == 0 { " dropped" } else { "" };
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{}{verb} {count}", rule.name())?;
        }
        Ok(())
    }
}

fn is_capture(record: &Record) -> bool {
    let Some(mv) = record.mv else { return false };
    let code =
        |square: Square| record.position.codes().find(|&(known, _)| known == square).map(|(_, code)| code);
    let (from, to) = (code(mv.from), code(mv.to));
    let pawn_capture = from.and_then(kind_of) == Some(Piece::Pawn) && mv.from.file() != mv.to.file();
    let takes = to.is_some_and(|to| from.is_some_and(|from| (from ^ to) & crate::packed::BLACK != 0));
    mv.promotion.is_some() || takes || pawn_capture
}

fn in_check(record: &Record) -> bool {
    record.position.board().is_ok_and(|board| !board.checkers().is_empty())
}

/// True if the side to move is not in check and cannot win material, by static exchange evaluation.
fn is_quiet(record: &Record) -> bool {
    let Ok(board) = record.position.board() else { return true };
    if !board.checkers().is_empty() {
        return false;
    }
    let position = Position::from(board);
    let mut wins = false;
    generate_noisy(position.board(), |moves| {
        wins = wins || moves.into_iter().any(|mv| position.see_ge(mv, 1));
    });
    !wins
}

/// Set of the positions seen so far, for removing duplicates: two records are equal if their positions are,
/// whatever their clocks, moves and scores. It keeps one 8-byte hash per position in memory, beside the
/// overhead of a hash set.
#[derive(Default)]
pub struct Unique {
    seen: HashSet<u64>,
}

impl Unique {
    /// Remembers the record's position, and returns true if it was not passed in before, false if it is a
    /// duplicate.
    pub fn is_new(&mut self, record: &Record) -> bool {
        self.seen.insert(record.position.hash())
    }
}

/// Lower-case name of a result, for tables and messages.
pub(crate) fn name_of(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Win => "win",
        Outcome::Draw => "draw",
        Outcome::Loss => "loss",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packed;
    use crate::formats::bag::BagKind;
    use crate::formats::{Format, samples};

    #[test]
    fn rules_are_read_and_kept() {
        let records = samples::games(20);
        let kept = |text: &str| -> Vec<Record> {
            let filter: Filter = text.parse().unwrap();
            let mut random = SplitMix::new(1);
            records.iter().copied().filter(|record| filter.keeps(record, &mut random)).collect()
        };
        assert_eq!(kept("").len(), records.len());
        assert!(kept("min-ply=16,max-ply=40").iter().all(|record| (16..=40).contains(&record.ply)));
        assert!(kept("max-pieces=20").iter().all(|record| record.position.piece_count() <= 20));
        assert!(kept("max-score=300").iter().all(|record| record.score.unwrap().centipawns().abs() <= 300));
        let quiet = kept("no-checks,no-captures");
        assert!(quiet.len() < records.len() && !quiet.is_empty());
        for record in quiet {
            let board = record.position.board().unwrap();
            assert!(board.checkers().is_empty());
            assert!(!board.colors(!board.side_to_move()).has(record.mv.unwrap().to));
        }
        for (fen, quiet) in [
            ("4k3/8/8/3p4/4P3/8/8/4K3 w - - 0 1", false), // a pawn for nothing
            ("4k3/8/4p3/3p4/4P3/8/8/4K3 w - - 0 1", true), // a pawn for a pawn
            ("4k3/8/4p3/3p4/8/8/8/3QK3 w - - 0 1", true), // a queen for a pawn
            ("8/P6k/8/8/8/8/8/4K3 w - - 0 1", false),     // a queen comes
            ("8/P6k/8/8/8/8/8/4K3 b - - 0 1", true),      // but not at once
            ("4k3/8/8/8/8/8/4r3/4K3 w - - 0 1", false),   // check
            ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1", false), // in passing
        ] {
            let record = Record::new(Packed::try_from(Position::from_fen(fen).unwrap().board()).unwrap());
            let filter: Filter = "quiet".parse().unwrap();
            assert_eq!(filter.keeps(&record, &mut SplitMix::new(1)), quiet, "{fen}");
        }
        // A mate score that is stored as a centipawn value counts as a mate too.
        for (score, mate) in [
            (Score::Mate(3), true),
            (Score::Centipawns(Score::Mate(3).centipawns()), true),
            (Score::Centipawns(Score::Mate(-40).centipawns()), true),
            (Score::Centipawns(3000), false),
        ] {
            let filter: Filter = "no-mates".parse().unwrap();
            let record = Record { score: Some(score), ..records[0] };
            assert_eq!(filter.keeps(&record, &mut SplitMix::new(1)), !mate, "{score:?}");
        }
        let half = kept("skip=0.5").len() as f64 / records.len() as f64;
        assert!((0.4..0.6).contains(&half), "{half}");
        for bad in ["min-ply", "min-ply=x", "scored=1", "skip=2", "hello"] {
            assert!(bad.parse::<Filter>().is_err(), "{bad}");
        }
    }

    #[test]
    fn rules_about_fields_that_a_format_lacks_are_refused() {
        let source = |format| Source { path: "x".into(), format, options: Default::default() };
        for (rules, is_refused) in
            [("min-ply=8", true), ("no-captures", true), ("quiet,no-checks,skip=0.5", false)]
        {
            let filter: Filter = rules.parse().unwrap();
            assert_eq!(
                filter.check(&[source(Format::Viri), source(Format::Bullet)]).is_err(),
                is_refused,
                "{rules}"
            );
            assert!(filter.check(&[source(Format::Viri), source(Format::Csv)]).is_ok(), "{rules}");
        }
        let filter: Filter = "no-captures".parse().unwrap();
        let bag = |name: &str| Source { path: name.into(), ..source(Format::Bag) };
        assert!(filter.check(&[bag("state_value.bag")]).is_err());
        assert!(filter.check(&[bag("action_value.bag")]).is_ok());
        let mut named = Source { format: Format::Bagz, ..bag("x.bagz") };
        named.options.bag = Some(BagKind::StateValue);
        assert!(filter.check(&[named]).is_err());
    }

    #[test]
    fn a_csv_file_without_a_column_of_moves_is_refused() {
        let path = std::env::temp_dir().join(format!("tandem-filter-{}.csv", std::process::id()));
        let source = Source { path: path.clone(), format: Format::Csv, options: Default::default() };
        let filter: Filter = "no-captures".parse().unwrap();
        for (header, is_refused) in [("FEN,Evaluation", true), ("fen,score,move", false)] {
            std::fs::write(&path, format!("{header}\n")).unwrap();
            let outcome = filter.check(std::slice::from_ref(&source));
            assert_eq!(outcome.is_err(), is_refused, "{header}");
            assert!(!is_refused || outcome.unwrap_err().to_string().contains("use quiet"));
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn dropped_records_are_counted_by_rule() {
        let mut records = samples::games(20);
        let all = records.len() as u64;
        records[0].result = None;
        records[1].score = Some(Score::Centipawns(5000));
        records[2].mv = None;
        let filter: Filter = "decided,max-score=3000,no-captures".parse().unwrap();
        let counts = Arc::default();
        filter.counting_filter(&counts).unwrap()(&mut records, Cursor::default());
        assert_eq!((counts.records(), counts.without_move()), (all, 1));
        let dropped = counts.dropped();
        assert_eq!(dropped.iter().map(|(_, count)| count).sum::<u64>(), all - records.len() as u64);
        let text = counts.to_string();
        assert!(text.starts_with("max-score dropped 1, decided 1, no-captures "), "{text}");
    }

    #[test]
    fn a_position_is_new_once() {
        let mut unique = Unique::default();
        let records = samples::games(5);
        let new = records.iter().filter(|record| unique.is_new(record)).count();
        assert!(new < records.len(), "all games begin alike");
        assert!(!records.iter().any(|record| unique.is_new(record)));
    }
}
