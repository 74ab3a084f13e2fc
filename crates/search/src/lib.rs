//! Alpha-beta search over any [`Evaluator`].
//!
//! Use it to search chess positions with an evaluation of your own or with an NNUE ([`Nnue`]). A program that
//! only needs the evaluation of single positions is better served by `tandem-nnue`, and the UCI protocol is
//! in the crate `tandem`.
//!
//! - [`Searcher`]: owns hash table, threads (Lazy SMP) and [`Settings`]; returns a [`SearchResult`] and reports [`Info`]s;
//! - [`Limits`] and [`Clock`]: when a search ends; [`Signals`] end it from another thread;
//! - [`Evaluator`]: the interface of an evaluation, with [`Nnue`], the hand-written [`Bootstrap`], and [`Committee`], which averages several;
//! - [`Strategist`]: the interface of a slower provider of policies and values, which a search queries on some
//!   positions and may go on meanwhile;
//! - [`Tablebases`]: Syzygy endgame tables; [`Strength`]: playing at a lower rating;
//! - [`options`]: UCI options as declarations; [`params`]: all tuned parameters in one table.
//!
//! The search itself reads as numbered steps in `alphabeta.rs`, headed by their names and acronyms (RFP, NMP,
//! LMR, …).
//!
//! ```
//! use std::sync::Arc;
//! use tandem_chess::Position;
//! use tandem_search::{Bootstrap, Evaluator, Limits, Score, Searcher};
//!
//! let evaluator = || Box::new(Bootstrap::default()) as Box<dyn Evaluator>;
//! let mut searcher = Searcher::new(Arc::new(evaluator), 16)?;
//! let position = Position::from_fen("6k1/5ppp/8/8/8/8/5PPP/K3R3 w - - 0 1").unwrap();
//! let limits = Limits { depth: Some(4), ..Limits::default() };
//! for _ in 0..2 {
//!     // From here on another thread can stop the search.
//!     searcher.signals().arm(false);
//!     let result = searcher.search(&position, &limits, &mut |_| ());
//!     assert_eq!(result.score, Score::Mate(1));
//! }
//! # Ok::<(), tandem_search::OutOfMemory>(())
//! ```

// Files depend on each other in one direction only: values, parameters and tables; a thread's state (`worker`); the
// functions of the search (`alphabeta`, `quiescence`, `deepening`, …); the searcher (`pool`); the UCI options.
mod alphabeta;
mod bootstrap;
mod committee;
mod deepening;
mod evaluator;
mod history;
mod history_update;
mod limits;
mod movepick;
mod nnue;
mod node;
pub mod options;
pub mod params;
mod pool;
mod probing;
mod quiescence;
mod reduction;
mod report;
mod room;
mod root_move;
mod settings;
mod shared;
mod strategist;
mod strategist_effect;
mod strategist_eval;
mod strategist_query;
mod strength;
mod syzygy;
mod time;
mod tt;
mod uci_option;
mod value;
mod vote;
mod worker;

pub use bootstrap::Bootstrap;
pub use committee::Committee;
pub use evaluator::{Evaluator, EvaluatorFactory};
pub use limits::{Clock, Limits};
pub use nnue::Nnue;
pub use pool::{STACK_SIZE, Searcher};
pub use report::{Info, ScoreBound, SearchResult, Wdl, nodes_per_second};
pub use room::{NoRoom, ensure_room};
pub use settings::Settings;
pub use shared::Signals;
pub use strategist::{QueryContext, SearchClock, Strategist, StrategistHandle};
pub use strategist_eval::{PackedProbability, StrategistEval};
pub use strength::Strength;
pub use syzygy::{SyzygyError, TableResult, Tablebases};
pub use tt::OutOfMemory;
pub use value::{Centipawns, Score};
