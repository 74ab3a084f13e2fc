//! Tools shared by the studies outside chess: training, a linear baseline, error metrics, plots and files.
//!
//! A study describes each object by its active features ([`Sample`]), trains a network to predict a value of
//! it ([`train_network`]), fits a linear model to the same data as a baseline ([`LinearModel`]), compares the
//! errors of both ([`FitQuality`]) and draws the result ([`prediction_plot`]). Nothing here depends on chess or on the
//! meaning of the features.

mod file;
mod linear;
mod metrics;
mod plot;
mod train;

pub use file::{FileError, read_lines, write_atomically};
pub use linear::LinearModel;
pub use metrics::{FitQuality, MeanWithError, f1_score, fastest};
pub use plot::{PlotLabels, log_plot, prediction_plot, scatter_plot};
pub use train::{EpochCallback, Sample, TrainConfig, TrainError, predict, train_network};
