//! Positions in the form in which they are sent to a GPU, and the tables with which it finds their active
//! features.

use crate::trainer::Job;
use cudarc::driver::{DeviceRepr, ValidAsZeroBits};
use tandem_chess::{Color, Piece, Square};
use tandem_data::Packed;
use tandem_nnue::FeatureSet;

/// A packed position with its target, in the layout of the program's `Position`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DevicePosition {
    pub(super) occupied: u64,
    pub(super) pieces: [u8; 16],
    pub(super) target: f32,
    pub(super) black: u32,
}

// SAFETY: plain numbers without gaps, laid out as the program's `Position`.
unsafe impl DeviceRepr for DevicePosition {}
// SAFETY: all zeros are valid numbers too.
unsafe impl ValidAsZeroBits for DevicePosition {}

/// Order of the positions sorted by output bucket, so that a block can keep the gradient sums of a bucket in
/// registers.
pub(super) fn order(job: &Job, positions: &[Packed]) -> Vec<u32> {
    let buckets = job.layout.architecture().buckets();
    if buckets.count == 1 {
        return (0..positions.len() as u32).collect();
    }
    let keys: Vec<u8> =
        positions.iter().map(|position| buckets.index(position.piece_count()) as u8).collect();
    let mut starts = vec![0u32; buckets.count];
    for &key in &keys {
        starts[usize::from(key)] += 1;
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += std::mem::replace(start, sum);
    }
    let mut order = vec![0u32; positions.len()];
    for (at, &key) in keys.iter().enumerate() {
        let place = &mut starts[usize::from(key)];
        order[*place as usize] = at as u32;
        *place += 1;
    }
    order
}

/// Tables of the feature set: for each side and king square the first feature and the mask by which squares
/// are flipped (XOR); and for each piece, own ones first and then the opponent's, the first feature of its
/// plane, −1 for none.
pub(super) fn views(features: &FeatureSet) -> (Vec<u32>, Vec<i32>) {
    let mut views = Vec::new();
    for side in Color::ALL {
        for king in Square::ALL {
            let view = features.view(side, king);
            views.extend([view.base(), u32::from(view.flip())]);
        }
    }
    let planes = [true, false].into_iter().flat_map(|own| Piece::ALL.map(|piece| (own, piece)));
    (views, planes.map(|(own, piece)| features.plane(own, piece).map_or(-1, i32::from)).collect())
}
