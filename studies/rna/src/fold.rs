//! Simulated annealing over secondary structures, with a network's estimate of the energy that is updated
//! pair by pair.

use crate::features::{FeatureChange, LoopFeatures, append_features};
use crate::molecule::{Sequence, Structure};
use tandem_nnue::{Accumulator, Network, Scratch};
use tandem_util::random::SplitMix;

/// Resolution of the network's integer output: one is a hundredth of a kilocalorie per mole.
const OUTPUTS_PER_UNIT: f64 = 100.0;

/// Parameters of simulated annealing. More steps help long sequences most, because the search rather than the
/// network limits the result there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Annealing {
    /// Number of proposed steps of each run, for each base of the sequence; 1500 by default.
    pub steps_per_base: usize,
    /// Number of independent runs, of which the best counts; 3 by default.
    pub runs: usize,
    /// Initial temperature in kilocalories per mole; 3.0 by default.
    pub start_temperature: f64,
    /// Final temperature in kilocalories per mole, reached by a geometric schedule; 0.2 by default.
    pub end_temperature: f64,
    /// Seed of the random steps; equal seeds give equal results.
    pub seed: u64,
}

impl Default for Annealing {
    fn default() -> Self {
        Self { steps_per_base: 1500, runs: 3, start_temperature: 3.0, end_temperature: 0.2, seed: 1 }
    }
}

/// A stem: consecutive nested pairs without a gap, from `first` and `last` inwards.
#[derive(Clone, Copy, Debug)]
struct Stem {
    first: usize,
    last: usize,
    len: usize,
}

/// Minimum length of the stems that are proposed as single steps.
const MIN_STEM: usize = 3;

/// A structure with its estimated energy, which is updated with each change of a pair.
pub struct Search<'a> {
    network: &'a Network<LoopFeatures>,
    sequence: &'a Sequence,
    structure: Structure,
    /// Accumulator without active features, from which others are computed from nothing.
    empty: Accumulator,
    accumulator: Accumulator,
    pending: Accumulator,
    scratch: Scratch,
    energy: i32,
    /// Energy of the last structure that was evaluated, accepted or not.
    pending_energy: i32,
    change: FeatureChange,
    /// Pairs toggled by the current step, so that it can be undone.
    toggled: Vec<(usize, usize)>,
    partners: Vec<Vec<usize>>,
    stems: Vec<Stem>,
}

impl<'a> Search<'a> {
    /// Starts at a structure of the sequence and evaluates it.
    pub fn new(network: &'a Network<LoopFeatures>, sequence: &'a Sequence, structure: Structure) -> Self {
        let bases = sequence.len();
        let can_pair = |a: usize, b: usize| sequence.pair(a.min(b), a.max(b)).is_some();
        let partners = (0..bases).map(|base| (0..bases).filter(|&other| can_pair(base, other)).collect());
        let mut search = Self {
            network,
            sequence,
            structure,
            empty: Accumulator::new(network),
            accumulator: Accumulator::new(network),
            pending: Accumulator::new(network),
            scratch: network.scratch(),
            energy: 0,
            pending_energy: 0,
            change: FeatureChange::default(),
            toggled: Vec::new(),
            partners: partners.collect(),
            stems: stems(sequence),
        };
        search.energy_from_nothing();
        search.accept();
        search
    }

    /// Continues from a structure without pairs, for another run of the annealing.
    fn restart(&mut self) {
        self.structure = Structure::unpaired(self.sequence.len());
        self.energy_from_nothing();
        self.accept();
    }

    /// The current structure, a pending step included.
    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    /// Energy of the last accepted structure by the network, in kilocalories per mole.
    pub fn energy(&self) -> f64 {
        f64::from(self.energy) / OUTPUTS_PER_UNIT
    }

    /// Energy of the current structure computed from nothing, without the kept accumulator, in hundredths of
    /// a kilocalorie per mole.
    pub fn energy_from_nothing(&mut self) -> i32 {
        self.change.clear();
        append_features(self.sequence, &self.structure, &mut self.change.added);
        self.pending.update_from(self.network, &self.empty, &self.change.added, &[]);
        self.pending_energy = self.network.forward(&[&self.pending], 0, &mut self.scratch).value();
        self.pending_energy
    }

    /// Adds or removes a pair and returns the energy by the network, in hundredths of a kilocalorie per mole.
    /// A pair to be added must not conflict with others. The step is pending until [`Self::accept`] or
    /// [`Self::undo`].
    pub fn try_pair(&mut self, pair: (usize, usize)) -> i32 {
        self.begin_step();
        self.toggle(pair);
        self.evaluate()
    }

    /// Adds or removes a pair without evaluating the result or recording it for [`Self::undo`].
    pub fn toggle_only(&mut self, (first, last): (usize, usize)) {
        if self.structure.partner(first) == Some(last) {
            self.structure.clear(first, last);
        } else {
            self.structure.set(first, last);
        }
    }

    fn begin_step(&mut self) {
        self.change.clear();
        self.toggled.clear();
    }

    fn toggle(&mut self, pair: (usize, usize)) {
        self.change.toggle(self.sequence, &mut self.structure, pair);
        self.toggled.push(pair);
    }

    fn evaluate(&mut self) -> i32 {
        self.change.reduce();
        self.pending.update_from(self.network, &self.accumulator, &self.change.added, &self.change.removed);
        self.pending_energy = self.network.forward(&[&self.pending], 0, &mut self.scratch).value();
        self.pending_energy
    }

    /// Accepts the pending step: its accumulator and energy become the current ones.
    pub fn accept(&mut self) {
        std::mem::swap(&mut self.accumulator, &mut self.pending);
        self.energy = self.pending_energy;
    }

    /// Undoes the pending step, so that the structure is the last accepted one again.
    pub fn undo(&mut self) {
        while let Some(pair) = self.toggled.pop() {
            self.toggle_only(pair);
        }
    }

    /// Applies a random step and returns true, or returns false if the chosen one is not possible.
    fn propose(&mut self, random: &mut SplitMix) -> bool {
        self.begin_step();
        if random.below(8) == 0 && !self.stems.is_empty() {
            let stem = self.stems[random.below(self.stems.len() as u32) as usize];
            self.toggle_stem(stem);
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
        if !is_on && (self.sequence.pair(first, last).is_none() || !self.structure.is_free(first, last)) {
            return false;
        }
        self.toggle(pair);
        true
    }

    /// Removes a stem that is complete; otherwise adds it and removes the pairs that conflict with it.
    fn toggle_stem(&mut self, stem: Stem) {
        let pairs = (0..stem.len).map(|depth| (stem.first + depth, stem.last - depth));
        if pairs.clone().all(|(first, last)| self.structure.partner(first) == Some(last)) {
            pairs.for_each(|pair| self.toggle(pair));
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
            // Pairs that enclose the stem, lie beside it or within its hairpin stay, and so do its own.
            if !inside && !outside && base + partner != stem.first + stem.last {
                self.toggle((base, partner));
            }
        }
        for (first, last) in pairs {
            if self.structure.partner(first) != Some(last) {
                self.toggle((first, last));
            }
        }
    }

    /// Searches for the structure of minimum energy. Returns the best one found and its energy in
    /// kilocalories per mole.
    pub fn anneal(&mut self, annealing: &Annealing) -> (Structure, f64) {
        let mut random = SplitMix::new(annealing.seed);
        let mut best = (self.structure.clone(), self.energy);
        let steps = annealing.steps_per_base * self.sequence.len();
        for _ in 0..annealing.runs {
            self.restart();
            for step in 0..steps {
                let progress = step as f64 / steps as f64;
                let temperature = annealing.start_temperature
                    * (annealing.end_temperature / annealing.start_temperature).powf(progress);
                if !self.propose(&mut random) {
                    continue;
                }
                let energy = self.evaluate();
                let rise = f64::from(energy - self.energy) / OUTPUTS_PER_UNIT;
                if rise <= 0.0 || random.unit() < (-rise / temperature).exp() {
                    self.accept();
                    if energy < best.1 {
                        best = (self.structure.clone(), energy);
                    }
                } else {
                    self.undo();
                }
            }
        }
        (best.0, f64::from(best.1) / OUTPUTS_PER_UNIT)
    }
}

/// All maximal stems of at least [`MIN_STEM`] pairs that the sequence can form.
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
            if len >= MIN_STEM {
                stems.push(Stem { first, last, len });
            }
        }
    }
    stems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::active_features;
    use crate::features::tests::random_sequence;
    use tandem_study::{Sample, TrainConfig, train_network};

    /// A network that has learnt that stacked pairs are good and other loops are not.
    fn network() -> Network<LoopFeatures> {
        let mut random = SplitMix::new(2);
        let mut samples = Vec::new();
        for _ in 0..300 {
            let sequence = random_sequence(60, &mut random);
            let mut structure = Structure::unpaired(60);
            for stem in stems(&sequence).into_iter().filter(|_| random.below(10) == 0) {
                for depth in 0..stem.len {
                    let (first, last) = (stem.first + depth, stem.last - depth);
                    if structure.is_free(first, last) {
                        structure.set(first, last);
                    }
                }
            }
            let features = active_features(&sequence, &structure);
            let stacks = features.iter().filter(|&&feature| feature < 36).count() as f64;
            let others = features.len() as f64 - stacks;
            samples.push(Sample { features, value: others - 3.0 * stacks });
        }
        let config =
            TrainConfig { width: 32, epochs: 30, batch_size: 50, lr: 3e-3, output_scale: 10.0, seed: 5 };
        train_network(LoopFeatures, &samples, &config, &mut |_, _| {}).unwrap().1
    }

    /// The updated energy, after every kind of step, accepted or undone, equals the one computed from
    /// nothing.
    #[test]
    fn energies_follow_every_step() {
        let network = network();
        let mut random = SplitMix::new(3);
        let sequence = random_sequence(90, &mut random);
        let mut search = Search::new(&network, &sequence, Structure::unpaired(90));
        for step in 0..3000 {
            if !search.propose(&mut random) {
                continue;
            }
            search.evaluate();
            if step % 3 == 0 {
                search.undo();
            } else {
                search.accept();
            }
            let updated = search.energy;
            assert_eq!(search.energy_from_nothing(), updated, "{}", search.structure());
            assert!(Structure::parse(&search.structure().to_string(), &sequence).is_ok());
        }
        assert!(!search.structure().pairs().is_empty());
    }

    #[test]
    fn a_search_finds_a_stem_and_finds_it_again() {
        let network = network();
        let sequence: Sequence = "GGGGGGAAAAACCCCCC".parse().unwrap();
        let open = Structure::unpaired(sequence.len());
        let run = || Search::new(&network, &sequence, open.clone()).anneal(&Annealing::default());
        let (structure, energy) = run();
        assert_eq!(structure.to_string(), "((((((.....))))))");
        assert!(energy < -5.0);
        assert_eq!(run(), (structure, energy));
    }
}
