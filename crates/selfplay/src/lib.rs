//! Training data and tuned parameters from games of our own search.
//!
//! - [`play()`] plays games against itself and stores them as viriformat; [`play_game`] plays a single one;
//! - [`label()`] scores the positions of an existing data set by search, [`label_with`] by any other [`Labeller`];
//! - [`tune()`] tunes the search parameters by SPSA, with games between perturbed settings.
//!
//! Use it to generate data in bulk. To measure whether one engine is stronger than another, use
//! `tandem-arena` instead: games here are adjudicated early and played at fixed nodes.
//!
//! All runs can be killed at any moment and resumed: a game, a block of labels or a tuning iteration is on
//! the disk as a whole or not at all. The data depend on the seed and on how much exists already, never on
//! threads or time; only a tuning on several threads also depends on the order in which its iterations
//! finish.
//!
//! Plays a game of a few nodes a move with the hand-written evaluation:
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::AtomicBool;
//! use tandem_search::{Bootstrap, Evaluator, Searcher};
//! use tandem_selfplay::{Adjudication, Openings, PlaySettings, play_game};
//!
//! let settings = PlaySettings {
//!     factory: Arc::new(|| Box::new(Bootstrap::default()) as Box<dyn Evaluator>),
//!     evaluator: "bootstrap".into(),
//!     games: 1,
//!     seed: 7,
//!     soft_nodes: 20,
//!     hash: 1,
//!     workers: 1,
//!     openings: Openings::default(),
//!     adjudication: Adjudication { max_plies: 40, ..Adjudication::default() },
//! };
//! let mut searcher = Searcher::new(Arc::clone(&settings.factory), settings.hash)?;
//! let game = play_game(&mut searcher, &settings, 0, &AtomicBool::new(false))?.expect("not cancelled");
//! assert!(game.records[0].starts_game);
//! assert!(game.records.iter().all(|record| record.score.is_some() && record.result.is_some()));
//! # Ok::<(), tandem_selfplay::SelfPlayError>(())
//! ```

mod adjudication;
mod error;
mod game;
mod journal;
mod label;
mod leaves;
mod opening;
mod play;
mod threads;
mod tune;

pub use adjudication::Adjudication;
pub use error::SelfPlayError;
pub use label::{LabelKind, LabelReport, LabelRun, LabelSettings, Labeller, label, label_with};
pub use opening::{Openings, draw_book};
pub use play::{GameRecord, PlayObserver, PlayReport, PlaySettings, play, play_game};
pub use tune::{GameResults, GameSettings, TunedParameter, Tuning, TuningPlan, tune};
