//! Statistics of match results: Elo with error bars, sequential tests and rating lists.
//!
//! A pair of games, one opening with swapped colours, is one observation: its two games are not independent,
//! because an unbalanced opening helps one player in each. The pentanomial model counts pairs by their points
//! and so gets the error right where counting games alone would overstate it.

mod counts;
mod estimate;
mod ratings;
mod sprt;

pub use counts::{Pentanomial, Wdl};
pub use estimate::{Estimate, elo_of_score, score_of_elo};
pub use ratings::{RatedGame, Rating, Ratings, rate};
pub use sprt::{Sprt, SprtError, SprtModel, SprtState, Verdict};

/// Number of standard deviations on either side of the mean within which a normally distributed value lies
/// with 95 % probability.
pub const Z95: f64 = 1.959_963_984_540_054;

/// Factor from the excess of the score over 1/2, in standard deviations of a single game, to normalised Elo:
/// 800 / ln 10.
pub const NELO_PER_SIGMA: f64 = 347.435_585_522_601_5;

/// Probability that a standard normal variable is at most `x`.
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}
