//! Matches between chess engines with real clocks, and the statistics that turn their results into Elo, tests
//! and rating lists.
//!
//! Use it to compare engines, builds or networks by games, and to put test suites and puzzles to them. It
//! does not search or evaluate by itself: for an evaluation of one position take `tandem-search` or
//! `tandem-nets`, for training games `tandem-selfplay`, which needs no clocks.
//!
//! - [`Player`] is one side of a game, [`Analyst`] answers questions about single positions. [`UciPlayer`] is an engine
//!   in a process of its own, [`TandemPlayer`] our search within this process, [`Searchless`] an evaluation without
//!   search; [`EngineSpec`] describes any of them, and [`start_player`] or [`start_analyst`] starts it.
//! - [`play_game`] plays one game with real clocks; [`Tournament`] plays many at once, survives engines that crash, and
//!   resumes after a crash of its own.
//! - [`stats`] turns results into Elo with error bars, sequential tests and rating lists; [`summary`] prints them as
//!   text and JSON, [`report`] as one HTML page.
//! - [`suite`] and [`puzzles`] put positions with known solutions to an analyst.
//!
//! ```
//! use tandem_arena::stats::{Estimate, Pentanomial};
//!
//! let estimate = Estimate::of_pairs(&Pentanomial([10, 50, 120, 60, 20])).unwrap();
//! assert!(estimate.elo > 0.0 && estimate.los > 0.9);
//! ```

mod adjudication;
mod affinity;
mod analyst_pool;
mod book;
mod child;
pub mod compliance;
mod game;
mod in_process;
mod info;
mod journal;
mod limits;
mod outcome;
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
pub use analyst_pool::{AnalystFactory, ask_all};
pub use book::{Book, BookError, BookOrder, Opening};
pub use game::{GameRecord, GameRules, MoveStats, Overhead, PlayedMove, play_game};
pub use in_process::{Searchless, TandemPlayer};
pub use info::UciInfo;
pub use journal::{JournalError, pgn_separator};
pub use limits::{EngineLimits, Overrun, PlayerClock, TimeControlError, TimeLimit, seconds};
pub use outcome::{Outcome, Termination, result_by_rules};
pub use player::{Analysis, Analyst, ChosenMove, Fault, GameSoFar, Player, Unanswered};
pub use record::date_utc;
pub use schedule::{Pairing, Schedule, TournamentFormat};
pub use score::UciScore;
pub use spec::{EngineSpec, SpecError};
pub use standings::{GameResult, Standings};
pub use start::{start_analyst, start_player};
pub use tablebase::Tablebase;
pub use tandem_search::SyzygyError;
pub use tournament::{MatchReport, Observer, Tournament, TournamentError, cpu_time};
pub use uci_option::{OptionError, OptionKind, UciOption};
pub use uci_player::{StartError, Timeouts, UciPlayer};
