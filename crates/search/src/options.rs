//! UCI options as declarations, and the options of a [`Searcher`].
//!
//! Each option is one row of a table: name, type with default and range, effect, and the function that applies
//! a value. The answer to `uci`, the command `setoption` with its checks and messages, the options of the
//! engine within a match program, and the table in the README are derived from the rows, so that a new option
//! is one new row. The table here has what any program with a [`Searcher`] can offer; a program adds options
//! of its own in tables for its own type.
//!
//! ```
//! use std::sync::Arc;
//! use tandem_search::{Bootstrap, Evaluator, Searcher, options};
//!
//! let evaluator = || Box::new(Bootstrap::default()) as Box<dyn Evaluator>;
//! let mut searcher = Searcher::new(Arc::new(evaluator), options::DEFAULT_HASH)?;
//! let option = options::find(options::SEARCHER, "multipv").unwrap();
//! assert_eq!(option.to_string(), "option name MultiPV type spin default 1 min 1 max 256");
//! assert!(option.set(&mut searcher, "0").is_err());
//! option.set(&mut searcher, "3")?;
//! assert_eq!(searcher.settings.multipv, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::params::Tuned;
pub use crate::uci_option::{Applied, OptionError, UciOption, find};
use crate::{Centipawns, Searcher, Strength};
use std::time::Duration;

/// Default size of the hash table, in MiB.
pub const DEFAULT_HASH: usize = 16;

/// Options of every searcher.
pub const SEARCHER: &[UciOption<Searcher>] = &[
    UciOption::spin(
        "Hash",
        DEFAULT_HASH as i64,
        1..=1 << 20,
        "MiB",
        "size of the transposition table",
        |searcher, mib| Ok(searcher.set_hash(mib as usize)?),
    ),
    UciOption::spin("Threads", 1, 1..=1024, "", "search threads", |searcher, threads| {
        Ok(searcher.try_set_threads(threads as usize)?)
    }),
    UciOption::spin("MultiPV", 1, 1..=256, "", "number of best lines to show", |searcher, lines| {
        searcher.settings.multipv = lines as usize;
        Ok(())
    }),
    UciOption::spin(
        "Move Overhead",
        10,
        0..=5000,
        "ms",
        "time subtracted from each move for communication with the GUI",
        |searcher, millis| {
            searcher.settings.move_overhead = Duration::from_millis(millis as u64);
            Ok(())
        },
    ),
    UciOption::spin(
        "Contempt",
        0,
        -200..=200,
        "cp",
        "centipawns subtracted from the value of a draw, so that positive values avoid draws",
        |searcher, centipawns| {
            searcher.settings.contempt = Centipawns(centipawns as i32);
            Ok(())
        },
    ),
    UciOption::check(
        "UCI_LimitStrength",
        false,
        "plays at the rating of `UCI_Elo` instead of full strength",
        |searcher, on| {
            searcher.settings.limit_strength = on;
            Ok(())
        },
    ),
    UciOption::spin(
        "UCI_Elo",
        Strength::MAX as i64,
        Strength::MIN as i64..=Strength::MAX as i64,
        "Elo",
        "rating with `UCI_LimitStrength`, on the scale of Stockfish 15.1's `UCI_Elo`",
        |searcher, elo| {
            searcher.settings.strength = Strength::new(elo as u32);
            Ok(())
        },
    ),
];

/// Options of the tuned parameters, one for each in a tuning build and none in others.
pub const TUNED: &[UciOption<Searcher>] = Searcher::OPTIONS;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bootstrap, Evaluator};
    use std::sync::Arc;

    fn searcher() -> Searcher {
        Searcher::new(Arc::new(|| Box::new(Bootstrap::default()) as Box<dyn Evaluator>), DEFAULT_HASH)
            .unwrap()
    }

    fn state(searcher: &Searcher) -> String {
        format!("{} {} {:?}", searcher.hash_mib(), searcher.threads(), searcher.settings)
    }

    #[test]
    fn the_defaults_are_those_of_a_new_searcher_and_another_value_changes_it() {
        for option in SEARCHER.iter().chain(TUNED) {
            let mut searcher = searcher();
            let new = state(&searcher);
            let [default, other] = option.examples();
            option.set(&mut searcher, &default).unwrap();
            assert_eq!(state(&searcher), new, "{option}");
            option.set(&mut searcher, &other).unwrap();
            assert_ne!(state(&searcher), new, "{option}");
        }
    }
}
