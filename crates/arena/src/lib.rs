//! Matches between chess engines, and what they prove.
//!
//! - [`Player`] is who plays a game, [`Analyst`] who judges a position: [`UciPlayer`] is an engine in its own process,
//!   [`TandemPlayer`] our search within this one, [`Searchless`] an evaluation alone;
//! - [`play_game`] plays one game with real clocks; [`Tournament`] plays many at once and survives crashes, its own
//!   included;
//! - [`stats`] turns results into Elo with error bars, tests and rating lists; [`summary`] and [`report`] show them;
//! - [`suite`] and [`puzzles`] put positions to an analyst.
//!
//! ```
//! use tandem_arena::stats::{Estimate, Pentanomial};
//!
//! let estimate = Estimate::of_pairs(&Pentanomial([10, 50, 120, 60, 20])).unwrap();
//! assert!(estimate.elo > 0.0 && estimate.los > 0.9);
//! ```

mod adjudication;
mod affinity;
mod book;
mod fingerprint;
mod game;
mod info;
mod inside;
mod journal;
mod limits;
mod outcome;
mod panel;
mod player;
mod process;
pub mod puzzles;
mod record;
pub mod report;
mod schedule;
mod score;
mod spec;
mod standings;
mod start;
pub mod stats;
pub mod suite;
pub mod summary;
mod tablebase;
mod tournament;
mod uci_option;
mod uci_player;

pub use adjudication::{Adjudication, Adjudicator, DrawRule, ResignRule, RuleError};
pub use book::{Book, BookError, BookOrder, Opening};
pub use game::{GameRecord, GameRules, Overhead, PlayedMove, PlayedThought, play_game};
pub use info::Info;
pub use inside::{Searchless, TandemPlayer};
pub use journal::{JournalError, pgn_separator};
pub use limits::{Clock, Limits, Overrun, TimeControlError, TimeLimit, seconds};
pub use outcome::{Outcome, Termination, verdict};
pub use panel::{Factory, consult};
pub use player::{Analysis, Analyst, Fault, GameSoFar, Player, Thought, Unanswered};
pub use schedule::{Format, Pairing, Schedule};
pub use score::Score;
pub use spec::{EngineSpec, SpecError};
pub use standings::{GameResult, Standings};
pub use start::{start_analyst, start_player};
pub use tablebase::Tablebase;
pub use tandem_chess::output::write_whole;
pub use tandem_chess::random::SplitMix;
pub use tandem_search::SyzygyError;
pub use tournament::{Observer, Report, Tournament, TournamentError, cpu_time};
pub use uci_option::{OptionError, OptionKind, UciOption};
pub use uci_player::{Patience, StartError, UciPlayer};
