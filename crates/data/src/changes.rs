//! Counts of what a format or a reader did to records without an error: values rounded, clipped, or left out.
//!
//! A conversion reports them at its end, so that nothing is lost in silence.

use std::fmt;
use std::ops::AddAssign;

/// Declares [`Change`] from the variants and their descriptions in the singular and in the plural.
macro_rules! changes {
    ($($(#[$doc:meta])* $change:ident $one:literal $many:literal,)*) => {
        /// A way in which a record differs from what its file held, or from what was to be written.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Change {
            $($(#[$doc])* $change,)*
        }

        impl Change {
            const ALL: [Self; [$(Self::$change),*].len()] = [$(Self::$change),*];

            /// Description for a count of one, and for any other count.
            fn texts(self) -> [&'static str; 2] {
                match self {
                    $(Self::$change => [$one, $many],)*
                }
            }
        }
    };
}

changes! {
    /// A score with a fraction of a centipawn was read.
    RoundedScore "score rounded to whole centipawns" "scores rounded to whole centipawns",
    /// A score beyond ±32,000 centipawns was read.
    ClippedScore "score beyond ±32000 centipawns clipped" "scores beyond ±32000 centipawns clipped",
    /// A half-move clock above 100 was read, or written to a format that ends at 100.
    ClippedClock "half-move clock above 100 set to 100" "half-move clocks above 100 set to 100",
    /// The output has no field for the move.
    DroppedMove "move not stored" "moves not stored",
    /// The output has no field for castling rights.
    DroppedCastling "position stored without its castling rights" "positions stored without their castling rights",
    /// The output stores numbers only, such as ±31,997 for a mate in three.
    MateAsNumber "mate score stored as a number" "mate scores stored as numbers",
    /// The output stores centipawns, to which the win probability was converted.
    ProbabilityAsNumber
        "win probability converted to centipawns" "win probabilities converted to centipawns",
    /// The output stores win probabilities, to which the score was converted.
    ScoreAsProbability "score converted to a win probability" "scores converted to win probabilities",
}

/// Number of changes of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes([u64; Change::ALL.len()]);

impl Changes {
    /// Counts one change.
    pub fn count(&mut self, change: Change) {
        self.0[change as usize] += 1;
    }

    /// Number of changes of a kind.
    pub fn of(&self, change: Change) -> u64 {
        self.0[change as usize]
    }

    /// True if nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; Change::ALL.len()]
    }
}

impl AddAssign for Changes {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }
}

/// The counts in words, separated by commas: `2 moves not stored, 1 mate score stored as a number`.
impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = Change::ALL.into_iter().zip(self.0).filter(|&(_, count)| count > 0);
        for (number, (change, count)) in counts.enumerate() {
            let [one, many] = change.texts();
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {}", if count == 1 { one } else { many })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;
    use crate::{Format, Options, Record, RecordWriter, Score, Source};

    #[test]
    fn counts_are_written_in_words() {
        let mut changes = Changes::default();
        assert!(changes.is_empty() && changes.to_string().is_empty());
        changes.count(Change::MateAsNumber);
        changes.count(Change::DroppedMove);
        changes += changes;
        changes.0[Change::MateAsNumber as usize] = 1;
        assert_eq!(changes.to_string(), "2 moves not stored, 1 mate score stored as a number");
        assert_eq!(changes.of(Change::DroppedMove), 2);
    }

    #[test]
    fn a_writer_counts_the_fields_that_its_format_lacks() {
        let records: Vec<Record> = samples::games(1).into_iter().take(4).collect();
        for (format, moves, castling, mates, probabilities) in [
            (Format::Csv, 0, 0, 0, 0),
            (Format::Bullet, 4, 4, 1, 1),
            (Format::Bin, 0, 0, 1, 1),
            (Format::Epd, 0, 0, 0, 1),
        ] {
            let path = std::env::temp_dir().join(format!("tandem-changes-{}.{format}", std::process::id()));
            let target = Source { path: path.clone(), format, options: Options::default() };
            let mut writer = RecordWriter::create(target).unwrap();
            for (number, record) in records.iter().enumerate() {
                let score = [Score::Mate(3), Score::WinProbability(0.7)].get(number).copied();
                writer.write(&Record { score: score.or(record.score), ..*record }).unwrap();
            }
            let changes = writer.finish().unwrap();
            std::fs::remove_file(path).unwrap();
            let found = [
                Change::DroppedMove,
                Change::DroppedCastling,
                Change::MateAsNumber,
                Change::ProbabilityAsNumber,
            ]
            .map(|change| changes.of(change));
            assert_eq!(found, [moves, castling, mates, probabilities], "{format}: {changes}");
        }
    }
}
