//! Base reductions of late moves.

use crate::params;

/// Table of natural logarithms times 32, the basis of late move reductions (LMR).
pub(crate) struct Logarithms([i32; 256]);

impl Logarithms {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|n| ((n.max(1) as f64).ln() * 32.0).round() as i32))
    }

    /// Base reduction in 1/1024 of a ply, which grows with the product of the logarithms of depth and move
    /// count.
    #[inline]
    pub(crate) fn reduction(&self, depth: i32, move_count: usize, noisy: bool) -> i32 {
        let product = self.0[(depth.max(0) as usize).min(255)] * self.0[move_count.min(255)];
        if noisy {
            params::lmr_noisy_base() + params::lmr_noisy_factor() * product / 1024
        } else {
            params::lmr_quiet_base() + params::lmr_quiet_factor() * product / 1024
        }
    }
}
