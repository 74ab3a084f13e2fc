//! Numbers for moves, from pairs of squares.

use crate::architecture::SQUARES;
use crate::kernels::{Kernels, PANEL, Store};
use crate::linear::{Linear, Prepared};
use crate::network::builder::Builder;
use crate::network::scratch::HeadRoom;
use crate::{Activation, PolicyTarget};
use tandem_chess::move_map::lc0;

/// A number for each of lc0's moves, once or more often from the same squares.
#[derive(Debug)]
pub(super) struct PairsLayer {
    squares: Linear,
    pairs: Vec<(Option<PolicyTarget>, Pairs)>,
    map: Vec<Place>,
}

#[derive(Debug)]
struct Pairs {
    /// Queries, divided by the root of the width already, and keys.
    project: Linear,
    promotion: Linear,
}

/// Where the number of a move stands among those of all pairs, and what is added to it: a promotion's number, by the
/// piece and the square.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    pair: usize,
    promotion: Option<(usize, usize)>,
}

/// Kinds of promotions; the last is that to a knight, which is part of all the others.
const PROMOTIONS: usize = 4;
/// The first square that pawns arrive at.
const LAST_RANK: usize = 56;

impl PairsLayer {
    pub(super) fn new(builder: &Builder<'_>, name: &str, width: usize, beside: &[PolicyTarget]) -> Self {
        let factor = 1.0 / (width as f32).sqrt();
        let pairs = |name: &str| {
            let query = builder.plain(&format!("{name}.query"), width, factor);
            let key = builder.plain(&format!("{name}.key"), width, 1.0);
            let promotion = builder.linear(&format!("{name}.promotion"), width);
            Pairs { project: builder.joined(&format!("{name}.query"), &[query, key]), promotion }
        };
        let beside = beside.iter().map(|&target| (Some(target), pairs(target.name())));
        Self {
            squares: builder.linear(&format!("{name}.squares"), builder.architecture().body.width),
            pairs: std::iter::once((None, pairs(name))).chain(beside).collect(),
            map: lc0::PolicyIndex::all().map(place).collect(),
        }
    }

    /// How many stand beside the first.
    pub(super) fn beside(&self) -> usize {
        self.pairs.len() - 1
    }

    /// Hands the numbers of all moves to `take`, for each position and target; those beside come with their places.
    pub(super) fn apply(
        &self,
        kernels: &Kernels,
        x: &[f32],
        activation: Activation,
        prepared: &mut Prepared,
        room: &mut HeadRoom,
        mut take: impl FnMut(usize, Option<(usize, PolicyTarget)>, &[f32]),
    ) {
        let HeadRoom { squares, projected, keys, pairs: logits, promotions, out, .. } = room;
        let count = x.len() / self.squares.inputs();
        let width = self.squares.outputs();
        let squares = squares.room(count * width);
        self.squares.apply(kernels, x, prepared, Store::Activate(activation), squares);
        let projected = projected.room(count * 2 * width);
        let keys = keys.room(SQUARES * width);
        let logits = logits.room(SQUARES * SQUARES);
        let promotions = promotions.room(8 * PROMOTIONS);
        let out = out.room(self.map.len());
        for (index, (target, pairs)) in self.pairs.iter().enumerate() {
            pairs.project.apply(kernels, squares, prepared, Store::Set, projected);
            for (position, projected) in projected.chunks_exact(SQUARES * 2 * width).enumerate() {
                // 1. Queries of where a move begins, keys of where it ends.
                kernels.turn(keys, &projected[width..], 2 * width, SQUARES, width);
                for (panel, keys) in keys.chunks_exact(width * PANEL).enumerate() {
                    let logits = &mut logits[panel * PANEL..];
                    kernels.multiply(logits, SQUARES, projected, 2 * width, SQUARES, keys);
                }
                // 2. What keys of the last rank say of promotions. The old keys are not needed any more.
                let last_rank = &mut keys[..8 * width];
                for (to, from) in
                    last_rank.chunks_exact_mut(width).zip(projected.chunks_exact(2 * width).skip(LAST_RANK))
                {
                    to.copy_from_slice(&from[width..]);
                }
                pairs.promotion.apply(kernels, last_rank, prepared, Store::Set, promotions);
                // 3. The moves among them.
                for (out, place) in out.iter_mut().zip(&self.map) {
                    let promotion = place.promotion.map_or(0.0, |(file, piece)| {
                        promotions[file * PROMOTIONS + piece] + promotions[file * PROMOTIONS + PROMOTIONS - 1]
                    });
                    *out = logits[place.pair] + promotion;
                }
                take(position, target.map(|target| (index - 1, target)), out);
            }
        }
    }
}

/// Where a move stands.
fn place(index: lc0::PolicyIndex) -> Place {
    let (from, to, piece) = lc0::parts_of(index);
    let promotion = piece.map(|piece| (to.file() as usize, piece));
    Place { pair: from as usize * SQUARES + to as usize, promotion }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_stand_where_their_squares_do() {
        let of = |index| place(lc0::PolicyIndex::new(index).unwrap());
        assert_eq!(of(322), Place { pair: 12 * 64 + 28, promotion: None });
        assert_eq!(of(1792), Place { pair: 48 * 64 + 56, promotion: Some((0, 0)) });
        assert_eq!(of(1857), Place { pair: 55 * 64 + 63, promotion: Some((7, 2)) });
    }
}
