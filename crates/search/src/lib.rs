//! Alpha-beta search over any [`Evaluator`].
//!
//! A [`Searcher`] owns the hash table and the threads; [`Limits`] say how long it may think; [`Signals`] stop it
//! from outside. The search itself reads as numbered steps in `alphabeta.rs`; the numbers that were tuned are rows of the
//! table in [`params`].
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
//!     // Whoever stops the search from another thread does so from here on.
//!     searcher.signals().arm(false);
//!     let result = searcher.search(&position, &limits, &mut |_| ());
//!     assert_eq!(result.score, Score::Mate(1));
//! }
//! # Ok::<(), tandem_search::OutOfMemory>(())
//! ```

mod alphabeta;
mod bootstrap;
mod committee;
mod counsel;
mod credit;
mod deepening;
mod evaluator;
mod history;
mod limits;
mod movepick;
mod nnue;
pub mod params;
mod pool;
mod probing;
mod quiescence;
mod report;
mod shared;
mod strength;
mod syzygy;
mod time;
mod tt;
mod value;
mod worker;

pub use bootstrap::Bootstrap;
pub use committee::Committee;
pub use evaluator::{Evaluator, EvaluatorFactory};
pub use limits::{Clock, Limits};
pub use nnue::Nnue;
pub use pool::{STACK_SIZE, Searcher, Settings};
pub use report::{Info, ScoreBound, SearchResult, Wdl, nodes_per_second};
pub use shared::Signals;
pub use strength::Strength;
pub use syzygy::{SyzygyError, TableResult, Tablebases};
pub use tt::OutOfMemory;
pub use value::{Centipawns, Score};
