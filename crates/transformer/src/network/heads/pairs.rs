//! Logits of moves from pairs of squares, as in lc0's attention policy.

use crate::architecture::SQUARES;
use crate::kernels::{Epilogue, Kernels, PANEL};
use crate::linear::{Linear, LinearScratch};
use crate::network::builder::Builder;
use crate::network::scratch::HeadScratch;
use crate::{Activation, PolicyTarget};
use tandem_chess::move_map::lc0;

/// Logits of lc0's moves for one or several targets, from the same layer on squares.
#[derive(Debug)]
pub(super) struct PairsLayer {
    squares: Linear,
    pairs: Vec<(Option<PolicyTarget>, Pairs)>,
    map: Vec<MoveLogit>,
}

#[derive(Debug)]
struct Pairs {
    /// Joined projections: queries, already divided by the square root of the width, and keys.
    project: Linear,
    promotion: Linear,
}

/// Source of a move's logit: its pair of squares, and for a promotion the file and piece of the logit that is
/// added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MoveLogit {
    pair: usize,
    promotion: Option<(usize, usize)>,
}

/// Promotion outputs of a key; the last, for the knight, is added to all the others.
const PROMOTIONS: usize = 4;
/// First square of the last rank.
const LAST_RANK: usize = 56;

impl PairsLayer {
    pub(super) fn new(builder: &Builder<'_>, name: &str, width: usize, aux_targets: &[PolicyTarget]) -> Self {
        let factor = 1.0 / (width as f32).sqrt();
        let pairs = |name: &str| {
            let query = builder.unpacked(&format!("{name}.query"), width, factor);
            let key = builder.unpacked(&format!("{name}.key"), width, 1.0);
            let promotion = builder.linear(&format!("{name}.promotion"), width);
            Pairs { project: builder.joined(&format!("{name}.query"), &[query, key]), promotion }
        };
        let aux_targets = aux_targets.iter().map(|&target| (Some(target), pairs(target.name())));
        Self {
            squares: builder.linear(&format!("{name}.squares"), builder.architecture().body.width),
            pairs: std::iter::once((None, pairs(name))).chain(aux_targets).collect(),
            map: lc0::PolicyIndex::all().map(logit_source).collect(),
        }
    }

    /// Number of auxiliary targets, which is one less than that of policies.
    pub(super) fn num_aux(&self) -> usize {
        self.pairs.len() - 1
    }

    /// Calls `take` with the logits of all moves, for each position and target; auxiliary targets come with
    /// their index.
    pub(super) fn apply(
        &self,
        kernels: &Kernels,
        x: &[f32],
        activation: Activation,
        prepared: &mut LinearScratch,
        scratch: &mut HeadScratch,
        mut take: impl FnMut(usize, Option<(usize, PolicyTarget)>, &[f32]),
    ) {
        let HeadScratch { squares, projected, keys, pairs: logits, promotions, out, .. } = scratch;
        let count = x.len() / self.squares.inputs();
        let width = self.squares.outputs();
        let squares = squares.buffer(count * width);
        self.squares.apply(kernels, x, prepared, Epilogue::Activate(activation), squares);
        let projected = projected.buffer(count * 2 * width);
        let keys = keys.buffer(SQUARES * width);
        let logits = logits.buffer(SQUARES * SQUARES);
        let promotions = promotions.buffer(8 * PROMOTIONS);
        let out = out.buffer(self.map.len());
        for (index, (target, pairs)) in self.pairs.iter().enumerate() {
            pairs.project.apply(kernels, squares, prepared, Epilogue::Assign, projected);
            for (position, projected) in projected.chunks_exact(SQUARES * 2 * width).enumerate() {
                // 1. Products of queries (origin squares) and keys (target squares).
                kernels.transpose(keys, &projected[width..], 2 * width, SQUARES, width);
                for (panel, keys) in keys.chunks_exact(width * PANEL).enumerate() {
                    let logits = &mut logits[panel * PANEL..];
                    kernels.multiply(logits, SQUARES, projected, 2 * width, SQUARES, keys);
                }
                // 2. Promotion logits from the keys of the last rank. Their buffer is free by now.
                let last_rank = &mut keys[..8 * width];
                for (to, from) in
                    last_rank.chunks_exact_mut(width).zip(projected.chunks_exact(2 * width).skip(LAST_RANK))
                {
                    to.copy_from_slice(&from[width..]);
                }
                pairs.promotion.apply(kernels, last_rank, prepared, Epilogue::Assign, promotions);
                // 3. Gather the moves.
                for (out, logit_source) in out.iter_mut().zip(&self.map) {
                    let promotion = logit_source.promotion.map_or(0.0, |(file, piece)| {
                        promotions[file * PROMOTIONS + piece] + promotions[file * PROMOTIONS + PROMOTIONS - 1]
                    });
                    *out = logits[logit_source.pair] + promotion;
                }
                take(position, target.map(|target| (index - 1, target)), out);
            }
        }
    }
}

fn logit_source(index: lc0::PolicyIndex) -> MoveLogit {
    let (from, to, piece) = lc0::parts_of(index);
    let promotion = piece.map(|piece| (to.file() as usize, piece));
    MoveLogit { pair: from as usize * SQUARES + to as usize, promotion }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_stand_where_their_squares_do() {
        let of = |index| logit_source(lc0::PolicyIndex::new(index).unwrap());
        assert_eq!(of(322), MoveLogit { pair: 12 * 64 + 28, promotion: None });
        assert_eq!(of(1792), MoveLogit { pair: 48 * 64 + 56, promotion: Some((0, 0)) });
        assert_eq!(of(1857), MoveLogit { pair: 55 * 64 + 63, promotion: Some((7, 2)) });
    }
}
