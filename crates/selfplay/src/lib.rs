//! What our own search makes by playing: training data ([`play`] plays games against itself, [`label`] scores positions
//! of others), and better numbers for itself ([`tune()`]).
//!
//! All can be killed at any moment and go on later: a game, a block of labels or a trial of numbers is on the disk whole
//! or not at all. What data comes next depends on the seed and on how much is there, never on threads or time; a tuning
//! with several threads also learns in the order in which they are done.

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
pub use label::{LabelReport, LabelSettings, LabelWork, Labeller, Labels, label, label_with};
pub use opening::Openings;
pub use play::{GameRecord, PlayReport, PlaySettings, Watch, play, play_game};
pub use tune::{GameSettings, Plan, Points, Tuned, Tuning, tune};
