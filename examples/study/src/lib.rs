//! What the studies share.
//!
//! A study describes a thing by the rows that are on ([`Sample`]), lets a network learn a number of it ([`learn`]) beside the
//! best plain sum of a number for each row ([`Sum`]), says how well both do ([`Fit`]), and draws what it found ([`Plot`]).
//! Nothing here knows chess, nor what the rows mean.

mod figures;
mod file;
mod learn;
mod plot;
mod sum;

pub use figures::{Fit, Spread, f1, fastest};
pub use file::{FileError, load, write_whole};
pub use learn::{LearnError, Recipe, Sample, Teller, judge_all, learn};
pub use plot::{Plot, Series};
pub use sum::Sum;
