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
use std::str::FromStr;
use std::sync::Arc;
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
    /// Fails for ply rules on formats without plies, and for `no-captures` on formats without moves.
    pub fn check(&self, sources: &[Source]) -> Result<(), DataError> {
        let asks_plies = self.min_ply.is_some() || self.max_ply.is_some();
        for source in sources {
            let lacks_plies = asks_plies && !source.format.properties().has_plies;
            let problem = match (lacks_plies, self.no_captures && !source.has_moves()) {
                (true, _) => {
                    format!(
                        "the format {} does not store plies: leave out min-ply and max-ply",
                        source.format
                    )
                }
                (false, true) => {
                    "its records have no moves, which no-captures asks for; quiet needs none".into()
                }
                (false, false) => continue,
            };
            return Err(DataError::Path { path: source.path.clone(), problem });
        }
        Ok(())
    }

    /// True if a record satisfies all rules. `random`, from [`Self::block_rng`], decides which records
    /// [`Self::skip`] drops; with a `skip` above 0 it is advanced once for every record.
    pub fn keeps(&self, record: &Record, random: &mut SplitMix) -> bool {
        let pieces = record.position.piece_count();
        // Drawn for every record, so that adding another rule does not change which records are dropped at
        // random.
        let drawn = self.skip == 0.0 || random.unit() >= self.skip;
        let mate = record.score.is_some_and(Score::is_mate);
        let score = record.score.map(|score| score.centipawns().unsigned_abs());
        drawn
            && self.min_ply.is_none_or(|min| record.ply >= min)
            && self.max_ply.is_none_or(|max| record.ply <= max)
            && self.min_pieces.is_none_or(|min| pieces >= min)
            && self.max_pieces.is_none_or(|max| pieces <= max)
            && self.max_score.is_none_or(|max| score.is_none_or(|score| score <= max.unsigned_abs()))
            && (!self.scored || record.score.is_some())
            && (!self.decided || record.result.is_some())
            && (!self.no_mates || !mate)
            && (!self.no_captures || !is_capture(record))
            && (!self.no_chess960 || crate::formats::is_ordinary(&record.position))
            && (!self.no_checks || !in_check(record))
            && (!self.quiet || is_quiet(record))
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
        if *self == Self::default() {
            return None;
        }
        let filter = self.clone();
        Some(Arc::new(move |records: &mut Vec<Record>, cursor: Cursor| {
            let mut random = filter.block_rng(cursor);
            let mut starts_game = false;
            records.retain_mut(|record| {
                starts_game |= record.starts_game;
                let kept = filter.keeps(record, &mut random);
                if kept {
                    // The first record left of a game becomes the start of that game.
                    record.starts_game = std::mem::take(&mut starts_game);
                }
                kept
            });
        }))
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
    fn a_position_is_new_once() {
        let mut unique = Unique::default();
        let records = samples::games(5);
        let new = records.iter().filter(|record| unique.is_new(record)).count();
        assert!(new < records.len(), "all games begin alike");
        assert!(!records.iter().any(|record| unique.is_new(record)));
    }
}
