//! A search among structures that a network judges, pair by pair.

use crate::features::{Change, Loops, add_rows};
use crate::molecule::{Sequence, Structure};
use tandem_chess::random::SplitMix;
use tandem_nnue::{Accumulator, Network, Scratch};

/// Hundredths of a kilocalorie per mole, as the network's integers say them.
const FINE: f64 = 100.0;

/// How long a search lasts and how hot it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Annealing {
    /// Steps that are tried for each base.
    pub steps_per_base: usize,
    /// Searches, of which the best counts.
    pub starts: usize,
    /// Heat to begin with, in kilocalories per mole.
    pub hot: f64,
    /// And to end with.
    pub cold: f64,
    /// Where chance begins.
    pub seed: u64,
}

impl Default for Annealing {
    fn default() -> Self {
        Self { steps_per_base: 1500, starts: 3, hot: 3.0, cold: 0.2, seed: 1 }
    }
}

/// Pairs one within the other, without a gap.
#[derive(Clone, Copy, Debug)]
struct Stem {
    first: usize,
    last: usize,
    len: usize,
}

/// Stems that are worth a step of their own.
const SHORTEST_STEM: usize = 3;

/// A structure with its energy, which follows its pairs.
pub struct Search<'a> {
    network: &'a Network<Loops>,
    sequence: &'a Sequence,
    structure: Structure,
    /// With nothing on.
    nothing: Accumulator,
    accumulator: Accumulator,
    spare: Accumulator,
    scratch: Scratch,
    energy: i32,
    /// What was said of the structure that is tried.
    tried: i32,
    change: Change,
    /// Pairs that the step at hand has turned, so that they can be turned back.
    turned: Vec<(usize, usize)>,
    partners: Vec<Vec<usize>>,
    stems: Vec<Stem>,
}

impl<'a> Search<'a> {
    /// Begins with a structure.
    pub fn new(network: &'a Network<Loops>, sequence: &'a Sequence, structure: Structure) -> Self {
        let bases = sequence.len();
        let can_pair = |a: usize, b: usize| sequence.pair(a.min(b), a.max(b)).is_some();
        let partners = (0..bases).map(|base| (0..bases).filter(|&other| can_pair(base, other)).collect());
        let mut search = Self {
            network,
            sequence,
            structure,
            nothing: Accumulator::new(network),
            accumulator: Accumulator::new(network),
            spare: Accumulator::new(network),
            scratch: network.scratch(),
            energy: 0,
            tried: 0,
            change: Change::default(),
            turned: Vec::new(),
            partners: partners.collect(),
            stems: stems(sequence),
        };
        search.energy_from_nothing();
        search.keep();
        search
    }

    /// Goes on from no pairs at all.
    fn restart(&mut self) {
        self.structure = Structure::open(self.sequence.len());
        self.energy_from_nothing();
        self.keep();
    }

    /// The structure.
    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    /// What the network says of it, in kilocalories per mole.
    pub fn energy(&self) -> f64 {
        f64::from(self.energy) / FINE
    }

    /// What the network says of the structure when nothing is known of it, in hundredths of a kilocalorie per mole.
    pub fn energy_from_nothing(&mut self) -> i32 {
        self.change.clear();
        add_rows(self.sequence, &self.structure, &mut self.change.added);
        self.spare.update_from(self.network, &self.nothing, &self.change.added, &[]);
        self.tried = self.network.forward(&[&self.spare], 0, &mut self.scratch).value();
        self.tried
    }

    /// Turns a pair on or off and says what the network says then, in hundredths of a kilocalorie per mole. A pair that is to
    /// come must have room. The turn stands until [`Self::keep`] or [`Self::take_back`].
    pub fn try_pair(&mut self, pair: (usize, usize)) -> i32 {
        self.begin();
        self.turn(pair);
        self.judge()
    }

    /// Turns a pair on or off and asks nobody.
    pub fn turn_only(&mut self, (first, last): (usize, usize)) {
        if self.structure.partner(first) == Some(last) {
            self.structure.clear(first, last);
        } else {
            self.structure.set(first, last);
        }
    }

    fn begin(&mut self) {
        self.change.clear();
        self.turned.clear();
    }

    fn turn(&mut self, pair: (usize, usize)) {
        self.change.toggle(self.sequence, &mut self.structure, pair);
        self.turned.push(pair);
    }

    fn judge(&mut self) -> i32 {
        self.change.reduce();
        self.spare.update_from(self.network, &self.accumulator, &self.change.added, &self.change.removed);
        self.tried = self.network.forward(&[&self.spare], 0, &mut self.scratch).value();
        self.tried
    }

    /// Goes on from what was tried.
    pub fn keep(&mut self) {
        std::mem::swap(&mut self.accumulator, &mut self.spare);
        self.energy = self.tried;
    }

    /// Goes on from what was before.
    pub fn take_back(&mut self) {
        while let Some(pair) = self.turned.pop() {
            self.turn_only(pair);
        }
    }

    /// Turns the pairs of a step that chance proposes; says whether there was any.
    fn propose(&mut self, random: &mut SplitMix) -> bool {
        self.begin();
        if random.below(8) == 0 && !self.stems.is_empty() {
            let stem = self.stems[random.below(self.stems.len() as u32) as usize];
            self.turn_stem(stem);
            return true;
        }
        let base = random.below(self.sequence.len() as u32) as usize;
        let pair = match self.structure.partner(base) {
            None => {
                let partners = &self.partners[base];
                if partners.is_empty() {
                    return false;
                }
                let other = partners[random.below(partners.len() as u32) as usize];
                (base.min(other), base.max(other))
            }
            Some(partner) => {
                let (first, last) = (base.min(partner), base.max(partner));
                match random.below(4) {
                    0 if first > 0 && last + 1 < self.sequence.len() => (first - 1, last + 1),
                    1 => (first + 1, last - 1),
                    _ => (first, last),
                }
            }
        };
        let (first, last) = pair;
        let is_on = self.structure.partner(first) == Some(last);
        if !is_on && (self.sequence.pair(first, last).is_none() || !self.structure.has_room(first, last)) {
            return false;
        }
        self.turn(pair);
        true
    }

    /// Takes a stem away that is all there; else brings it, and takes away what is in its way.
    fn turn_stem(&mut self, stem: Stem) {
        let pairs = (0..stem.len).map(|depth| (stem.first + depth, stem.last - depth));
        if pairs.clone().all(|(first, last)| self.structure.partner(first) == Some(last)) {
            pairs.for_each(|pair| self.turn(pair));
            return;
        }
        let within = |base: usize| base >= stem.first && base <= stem.last;
        let hollow = |base: usize| base >= stem.first + stem.len && base + stem.len <= stem.last;
        for base in 0..self.sequence.len() {
            let Some(partner) = self.structure.partner(base).filter(|&partner| partner > base) else {
                continue;
            };
            let inside = hollow(base) && hollow(partner);
            let outside = !within(base) && !within(partner);
            // Pairs around the stem, beside it and in its turn stay, and so do its own.
            if !inside && !outside && base + partner != stem.first + stem.last {
                self.turn((base, partner));
            }
        }
        for (first, last) in pairs {
            if self.structure.partner(first) != Some(last) {
                self.turn((first, last));
            }
        }
    }

    /// Looks for the structure of least energy. Returns the best that was met and its energy in kilocalories per mole.
    pub fn anneal(&mut self, annealing: &Annealing) -> (Structure, f64) {
        let mut random = SplitMix::new(annealing.seed);
        let mut best = (self.structure.clone(), self.energy);
        let steps = annealing.steps_per_base * self.sequence.len();
        for _ in 0..annealing.starts {
            self.restart();
            for step in 0..steps {
                let progress = step as f64 / steps as f64;
                let heat = annealing.hot * (annealing.cold / annealing.hot).powf(progress);
                if !self.propose(&mut random) {
                    continue;
                }
                let energy = self.judge();
                let rise = f64::from(energy - self.energy) / FINE;
                if rise <= 0.0 || random.unit() < (-rise / heat).exp() {
                    self.keep();
                    if energy < best.1 {
                        best = (self.structure.clone(), energy);
                    }
                } else {
                    self.take_back();
                }
            }
        }
        (best.0, f64::from(best.1) / FINE)
    }
}

/// All stems that cannot be made longer.
fn stems(sequence: &Sequence) -> Vec<Stem> {
    let pairs = |first: usize, last: usize| sequence.pair(first, last).is_some();
    let mut stems = Vec::new();
    for first in 0..sequence.len() {
        for last in first + 1..sequence.len() {
            if !pairs(first, last) || first > 0 && last + 1 < sequence.len() && pairs(first - 1, last + 1) {
                continue;
            }
            let mut len = 1;
            while first + len < last - len && pairs(first + len, last - len) {
                len += 1;
            }
            if len >= SHORTEST_STEM {
                stems.push(Stem { first, last, len });
            }
        }
    }
    stems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::tests::random_sequence;
    use crate::rows_of;
    use tandem_study::{Recipe, Sample, learn};

    /// A network that has learnt that pairs are good and ends are not.
    fn network() -> Network<Loops> {
        let mut random = SplitMix::new(2);
        let mut samples = Vec::new();
        for _ in 0..300 {
            let sequence = random_sequence(60, &mut random);
            let mut structure = Structure::open(60);
            for stem in stems(&sequence).into_iter().filter(|_| random.below(10) == 0) {
                for depth in 0..stem.len {
                    let (first, last) = (stem.first + depth, stem.last - depth);
                    if structure.has_room(first, last) {
                        structure.set(first, last);
                    }
                }
            }
            let rows = rows_of(&sequence, &structure);
            let stacks = rows.iter().filter(|&&row| row < 36).count() as f64;
            let others = rows.len() as f64 - stacks;
            samples.push(Sample { rows, value: others - 3.0 * stacks });
        }
        let recipe = Recipe { width: 32, epochs: 30, batch: 50, rate: 3e-3, unit: 10.0, seed: 5 };
        learn(Loops, &samples, &recipe, &mut |_, _| {}).unwrap().1
    }

    /// The energy that is kept, after every kind of step and whether it was taken back or not, is the one from nothing.
    #[test]
    fn energies_follow_every_step() {
        let network = network();
        let mut random = SplitMix::new(3);
        let sequence = random_sequence(90, &mut random);
        let mut search = Search::new(&network, &sequence, Structure::open(90));
        for step in 0..3000 {
            if !search.propose(&mut random) {
                continue;
            }
            search.judge();
            if step % 3 == 0 {
                search.take_back();
            } else {
                search.keep();
            }
            let kept = search.energy;
            assert_eq!(search.energy_from_nothing(), kept, "{}", search.structure());
            assert!(Structure::parse(&search.structure().to_string(), &sequence).is_ok());
        }
        assert!(!search.structure().pairs().is_empty());
    }

    #[test]
    fn a_search_finds_a_stem_and_finds_it_again() {
        let network = network();
        let sequence: Sequence = "GGGGGGAAAAACCCCCC".parse().unwrap();
        let open = Structure::open(sequence.len());
        let run = || Search::new(&network, &sequence, open.clone()).anneal(&Annealing::default());
        let (structure, energy) = run();
        assert_eq!(structure.to_string(), "((((((.....))))))");
        assert!(energy < -5.0);
        assert_eq!(run(), (structure, energy));
    }
}
