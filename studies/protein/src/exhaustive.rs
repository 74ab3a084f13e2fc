//! Exact solution for short chains: enumerates all folds and returns one of minimum energy.

use crate::chain::{Chain, DIRECTIONS, LatticePoint};
use crate::energy::{ContactSums, Energy, Residue};

/// Minimum energy of a chain, with a fold that attains it.
#[derive(Clone, Debug, PartialEq)]
pub struct GroundState {
    /// Energy of that fold in units of RT; no other fold is lower.
    pub energy: f64,
    /// Lattice points of the residues, in the order of the chain.
    pub points: Vec<LatticePoint>,
    /// Number of folds that were enumerated, symmetric ones counted once.
    pub folds: u64,
}

/// Enumerates all folds of a chain, except for rotations and reflections. Their number grows by a factor of
/// 2.6 with each residue: 16 residues take a few hundredths of a second, 20 some seconds. Returns `None` for
/// fewer than two residues.
pub fn ground_state(residues: &[Residue], energy: Energy) -> Option<GroundState> {
    if residues.len() < 2 {
        return None;
    }
    let side = 2 * residues.len() + 1;
    let middle = residues.len() as i16;
    let mut trial = Trial {
        residues,
        energy,
        side,
        lattice: vec![None; side * side],
        points: vec![LatticePoint { x: middle, y: middle }],
        best: i64::MAX,
        best_places: Vec::new(),
        folds: 0,
    };
    trial.set(trial.points[0], Some(0));
    trial.extend(ContactSums::default(), false);
    let energy = trial.best as f64 / 100.0;
    Some(GroundState { energy, points: trial.best_places, folds: trial.folds })
}

struct Trial<'a> {
    residues: &'a [Residue],
    energy: Energy,
    side: usize,
    lattice: Vec<Option<u8>>,
    points: Vec<LatticePoint>,
    best: i64,
    best_places: Vec<LatticePoint>,
    folds: u64,
}

impl Trial<'_> {
    fn cell(&self, point: LatticePoint) -> usize {
        point.y as usize * self.side + point.x as usize
    }

    fn set(&mut self, point: LatticePoint, occupant: Option<u8>) {
        let cell = self.cell(point);
        self.lattice[cell] = occupant;
    }

    /// Places the next residue in all possible ways. The first step goes right and the first turn goes up,
    /// because all other folds are rotations or reflections of these.
    fn extend(&mut self, sums: ContactSums, has_turned: bool) {
        let number = self.points.len();
        if number == self.residues.len() {
            self.folds += 1;
            let energy = sums.energy(self.energy, number);
            if energy < self.best {
                self.best = energy;
                self.best_places.clone_from(&self.points);
            }
            return;
        }
        let last = self.points[number - 1];
        for (x, y) in DIRECTIONS {
            let is_first = number == 1;
            if is_first && (x, y) != (1, 0) || !is_first && !has_turned && y < 0 {
                continue;
            }
            let point = LatticePoint { x: last.x + x, y: last.y + y };
            if self.lattice[self.cell(point)].is_some() {
                continue;
            }
            let mut after = sums;
            for (x, y) in DIRECTIONS {
                let beside = LatticePoint { x: point.x + x, y: point.y + y };
                // A point beside the last residue of the longest straight chain is outside the lattice.
                let cell = self.cell(beside);
                if let Some(other) = self.lattice.get(cell).copied().flatten().map(usize::from)
                    && other + 1 < number
                {
                    after.add(self.residues[number], self.residues[other], 1);
                }
            }
            self.set(point, Some(number as u8));
            self.points.push(point);
            self.extend(after, has_turned || y > 0);
            self.points.pop();
            self.set(point, None);
        }
    }
}

impl GroundState {
    /// The chain in this fold; `None` if the number of residues differs.
    pub fn chain(&self, residues: &[Residue]) -> Option<Chain> {
        Chain::folded(residues.to_vec(), &self.points)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::tests::random_residues;
    use crate::fold::tests::energy_of;
    use tandem_util::random::SplitMix;

    /// The numbers of self-avoiding walks are known: 4, 12, 36, 100, 284, 780, 2172, 5916, 16268 and 44100
    /// for 1 to 10 steps.
    #[test]
    fn every_fold_is_tried_once() {
        let mut random = SplitMix::new(4);
        for (residues, walks) in [(4, 36), (5, 100), (8, 2172), (11, 44_100)] {
            let chain = random_residues(residues, &mut random);
            let found = ground_state(&chain, Energy::Cooperative).unwrap();
            // Each fold stands for eight rotations and reflections, except for the straight one, which stands
            // for four.
            assert_eq!(found.folds * 8 - 4, walks);
            let folded = found.chain(&chain).unwrap();
            assert!((energy_of(&folded, Energy::Cooperative) - found.energy).abs() < 1e-9);
        }
        assert_eq!(ground_state(&random_residues(1, &mut random), Energy::Additive), None);
    }
}
