//! The fold of least energy, by trying them all.

use crate::chain::{Chain, DIRECTIONS, Place};
use crate::energy::{Energy, Residue, Tally};

/// The least energy and a fold that has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Least {
    /// In units of RT.
    pub energy: f64,
    /// Where the residues are.
    pub places: Vec<Place>,
    /// Folds that were tried.
    pub folds: u64,
}

/// Tries all folds of a chain, turned and mirrored ones apart. There are 2.6 times as many for each residue more: sixteen take
/// the blink of an eye, twenty some seconds.
pub fn least(residues: &[Residue], energy: Energy) -> Option<Least> {
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
        places: vec![Place { x: middle, y: middle }],
        best: i64::MAX,
        best_places: Vec::new(),
        folds: 0,
    };
    trial.set(trial.places[0], Some(0));
    trial.go(Tally::default(), false);
    let energy = trial.best as f64 / 100.0;
    Some(Least { energy, places: trial.best_places, folds: trial.folds })
}

struct Trial<'a> {
    residues: &'a [Residue],
    energy: Energy,
    side: usize,
    lattice: Vec<Option<u8>>,
    places: Vec<Place>,
    best: i64,
    best_places: Vec<Place>,
    folds: u64,
}

impl Trial<'_> {
    fn cell(&self, place: Place) -> usize {
        place.y as usize * self.side + place.x as usize
    }

    fn set(&mut self, place: Place, who: Option<u8>) {
        let cell = self.cell(place);
        self.lattice[cell] = who;
    }

    /// Lays the next residue in every way. The first step goes right, and the first turn up: the rest is the same, turned or
    /// mirrored.
    fn go(&mut self, tally: Tally, has_turned: bool) {
        let number = self.places.len();
        if number == self.residues.len() {
            self.folds += 1;
            let energy = tally.energy(self.energy, number);
            if energy < self.best {
                self.best = energy;
                self.best_places.clone_from(&self.places);
            }
            return;
        }
        let last = self.places[number - 1];
        for (x, y) in DIRECTIONS {
            let is_first = number == 1;
            if is_first && (x, y) != (1, 0) || !is_first && !has_turned && y < 0 {
                continue;
            }
            let place = Place { x: last.x + x, y: last.y + y };
            if self.lattice[self.cell(place)].is_some() {
                continue;
            }
            let mut after = tally;
            for (x, y) in DIRECTIONS {
                let beside = Place { x: place.x + x, y: place.y + y };
                // Beside the last residue of the longest way lies the edge.
                let cell = self.cell(beside);
                if let Some(other) = self.lattice.get(cell).copied().flatten().map(usize::from)
                    && other + 1 < number
                {
                    after.add(self.residues[number], self.residues[other], 1);
                }
            }
            self.set(place, Some(number as u8));
            self.places.push(place);
            self.go(after, has_turned || y > 0);
            self.places.pop();
            self.set(place, None);
        }
    }
}

impl Least {
    /// The chain that lies so.
    pub fn chain(&self, residues: &[Residue]) -> Option<Chain> {
        Chain::folded(residues.to_vec(), &self.places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::tests::random_residues;
    use crate::fold::tests::energy_of;
    use tandem_chess::random::SplitMix;

    /// The numbers of self-avoiding walks are known: 4, 12, 36, 100, 284, 780, 2172, 5916, 16268, 44100 for so many steps.
    #[test]
    fn every_fold_is_tried_once() {
        let mut random = SplitMix::new(4);
        for (residues, walks) in [(4, 36), (5, 100), (8, 2172), (11, 44_100)] {
            let chain = random_residues(residues, &mut random);
            let found = least(&chain, Energy::Cooperative).unwrap();
            // Eight turned and mirrored ones of each, four of the straight one.
            assert_eq!(found.folds * 8 - 4, walks);
            let folded = found.chain(&chain).unwrap();
            assert!((energy_of(&folded, Energy::Cooperative) - found.energy).abs() < 1e-9);
        }
        assert_eq!(least(&random_residues(1, &mut random), Energy::Additive), None);
    }
}
