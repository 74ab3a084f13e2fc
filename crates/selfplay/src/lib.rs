//! Training data that our own search makes: [`play`] plays games against itself, [`label`] scores positions of others.
//!
//! Both can be killed at any moment and go on later: a game or a block of labels is on the disk whole or not at all, and
//! what comes next depends on the seed and on how much is there, never on threads or time.

mod adjudication;
mod error;
mod game;
mod journal;
mod label;
mod opening;
mod play;
mod threads;

pub use adjudication::Adjudication;
pub use error::SelfPlayError;
pub use label::{LabelReport, LabelSettings, Labels, label};
pub use opening::Openings;
pub use play::{GameRecord, PlayReport, PlaySettings, Watch, play, play_game};
