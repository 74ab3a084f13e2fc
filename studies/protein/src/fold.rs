//! Simulated annealing over folds, with energies by a network or by the exact energy function.

use crate::chain::{Chain, ContactChange};
use crate::energy::{ContactSums, Energy, Residue};
use crate::features::{ContactFeatures, append_features};
use tandem_nnue::{Accumulator, Network, Scratch};
use tandem_util::random::SplitMix;

/// Source of energies for a search, in hundredths of RT. Both kinds are updated with the contacts that
/// change.
pub struct Evaluator<'a>(EvaluatorKind<'a>);

enum EvaluatorKind<'a> {
    Network {
        network: &'a Network<ContactFeatures>,
        /// Accumulators of the current fold, of the one under evaluation, and of no features.
        accumulators: Box<[Accumulator; 3]>,
        scratch: Scratch,
        added: Vec<u32>,
        removed: Vec<u32>,
    },
    Exact {
        energy: Energy,
        /// Statistics of the current fold, and of the one under evaluation.
        sums: [ContactSums; 2],
    },
}

impl<'a> Evaluator<'a> {
    /// Estimates by a network, whose accumulator is updated with the contacts.
    pub fn network(network: &'a Network<ContactFeatures>) -> Self {
        Self(EvaluatorKind::Network {
            network,
            accumulators: Box::new([(); 3].map(|()| Accumulator::new(network))),
            scratch: network.scratch(),
            added: Vec::new(),
            removed: Vec::new(),
        })
    }

    /// Exact energies, which are also updated with the contacts.
    pub fn exact(energy: Energy) -> Self {
        Self(EvaluatorKind::Exact { energy, sums: Default::default() })
    }

    /// Energy of a fold computed from nothing; the fold becomes the current one.
    pub fn from_nothing(&mut self, chain: &Chain) -> i64 {
        let residues = chain.residues();
        let value = match &mut self.0 {
            EvaluatorKind::Network { network, accumulators, scratch, added, .. } => {
                let [_, candidate, empty] = &mut **accumulators;
                added.clear();
                append_features(chain, added);
                candidate.update_from(network, empty, added, &[]);
                i64::from(network.forward(&[candidate], 0, scratch).value())
            }
            EvaluatorKind::Exact { energy, sums: [_, candidate] } => {
                *candidate = ContactSums::default();
                chain.each_contact(|first, second| candidate.add(residues[first], residues[second], 1));
                candidate.energy(*energy, residues.len())
            }
        };
        self.accept();
        value
    }

    /// Energy after a change of contacts from the current fold. The result becomes the current fold only with
    /// [`Self::accept`].
    #[inline]
    pub fn updated(&mut self, residues: &[Residue], contacts: &ContactChange) -> i64 {
        match &mut self.0 {
            EvaluatorKind::Network { network, accumulators, scratch, added, removed } => {
                let [current, candidate, _] = &mut **accumulators;
                let feature = |&(first, second): &(usize, usize)| {
                    ContactFeatures::contact(residues[first], residues[second])
                };
                added.clear();
                removed.clear();
                added.extend(contacts.added.iter().map(feature));
                removed.extend(contacts.removed.iter().map(feature));
                candidate.update_from(network, current, added, removed);
                i64::from(network.forward(&[candidate], 0, scratch).value())
            }
            EvaluatorKind::Exact { energy, sums: [current, candidate] } => {
                *candidate = *current;
                for (contacts, sign) in [(&contacts.removed, -1), (&contacts.added, 1)] {
                    contacts
                        .iter()
                        .for_each(|&(first, second)| candidate.add(residues[first], residues[second], sign));
                }
                candidate.energy(*energy, residues.len())
            }
        }
    }

    /// Makes the fold under evaluation the current one.
    #[inline]
    pub fn accept(&mut self) {
        match &mut self.0 {
            EvaluatorKind::Network { accumulators, .. } => accumulators.swap(0, 1),
            EvaluatorKind::Exact { sums, .. } => sums.swap(0, 1),
        }
    }
}

/// Parameters of simulated annealing. The defaults find the minimum of most chains of up to 18 residues in a
/// few hundredths of a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Annealing {
    /// Number of proposed steps of each run, for each residue of the chain; 4000 by default.
    pub steps_per_residue: usize,
    /// Number of independent runs, of which the best counts; 4 by default.
    pub runs: usize,
    /// Initial temperature in units of RT; 6.0 by default.
    pub start_temperature: f64,
    /// Final temperature in units of RT, reached by a geometric schedule; 0.5 by default.
    pub end_temperature: f64,
    /// Seed of the random steps; equal seeds give equal results.
    pub seed: u64,
}

impl Default for Annealing {
    fn default() -> Self {
        Self { steps_per_residue: 4000, runs: 4, start_temperature: 6.0, end_temperature: 0.5, seed: 1 }
    }
}

/// A fold with its energy, which is updated with every step.
pub struct Search<'a> {
    chain: Chain,
    evaluator: Evaluator<'a>,
    energy: i64,
    contacts: ContactChange,
}

impl<'a> Search<'a> {
    /// Starts at a fold and computes its energy.
    pub fn new(chain: Chain, mut evaluator: Evaluator<'a>) -> Self {
        let energy = evaluator.from_nothing(&chain);
        Self { chain, evaluator, energy, contacts: ContactChange::default() }
    }

    /// The chain in its current fold.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Energy of the current fold by the evaluator, in units of RT.
    pub fn energy(&self) -> f64 {
        self.energy as f64 / 100.0
    }

    /// Proposes a step and accepts it by the Metropolis rule at a temperature in units of RT. Returns true if
    /// it was accepted.
    pub fn step(&mut self, random: &mut SplitMix, temperature: f64) -> bool {
        if !self.chain.step(random, &mut self.contacts) {
            return false;
        }
        let energy = self.evaluator.updated(self.chain.residues(), &self.contacts);
        let rise = (energy - self.energy) as f64 / 100.0;
        let accepted = rise <= 0.0 || random.unit() < (-rise / temperature).exp();
        if accepted {
            self.evaluator.accept();
            self.energy = energy;
        } else {
            self.chain.undo();
        }
        accepted
    }

    /// Searches for the fold of minimum energy. Returns the best one found and its energy in units of RT.
    pub fn anneal(&mut self, annealing: &Annealing) -> (Chain, f64) {
        let mut random = SplitMix::new(annealing.seed);
        let mut best = (self.chain.clone(), self.energy);
        let steps = annealing.steps_per_residue * self.chain.residues().len();
        for _ in 0..annealing.runs {
            self.chain = Chain::straight(self.chain.residues().to_vec());
            self.energy = self.evaluator.from_nothing(&self.chain);
            for step in 0..steps {
                let progress = step as f64 / steps as f64;
                let temperature = annealing.start_temperature
                    * (annealing.end_temperature / annealing.start_temperature).powf(progress);
                self.step(&mut random, temperature);
                if self.energy < best.1 {
                    best = (self.chain.clone(), self.energy);
                }
            }
        }
        (best.0, best.1 as f64 / 100.0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::chain::tests::random_residues;
    use crate::exhaustive::ground_state;
    use crate::features::active_features;
    use tandem_study::{Sample, TrainConfig, train_network};

    pub(crate) fn energy_of(chain: &Chain, energy: Energy) -> f64 {
        Evaluator::exact(energy).from_nothing(chain) as f64 / 100.0
    }

    /// Energies updated contact by contact are those computed from empty, for both kinds of evaluators.
    #[test]
    fn energies_follow_every_step() {
        let mut random = SplitMix::new(5);
        let chain = Chain::straight(random_residues(30, &mut random));
        let samples: Vec<Sample> = (0..50)
            .map(|_| Sample {
                features: active_features(&Chain::straight(random_residues(30, &mut random))),
                value: 1.0,
            })
            .collect();
        let config =
            TrainConfig { width: 32, epochs: 1, batch_size: 10, lr: 1e-3, output_scale: 40.0, seed: 5 };
        let (_, network) = train_network(ContactFeatures, &samples, &config, &mut |_, _| {}).unwrap();
        let both = || [Evaluator::network(&network), Evaluator::exact(Energy::Cooperative)];
        for (evaluator, mut other) in both().into_iter().zip(both()) {
            let mut search = Search::new(chain.clone(), evaluator);
            for _ in 0..3000 {
                search.step(&mut random, 3.0);
                assert_eq!(other.from_nothing(&search.chain), search.energy);
            }
        }
    }

    #[test]
    fn a_search_by_the_energy_finds_the_least() {
        let mut random = SplitMix::new(6);
        for energy in [Energy::Additive, Energy::Cooperative] {
            let residues = random_residues(12, &mut random);
            let exact = ground_state(&residues, energy).unwrap();
            let mut search = Search::new(Chain::straight(residues), Evaluator::exact(energy));
            let (chain, found) = search.anneal(&Annealing::default());
            assert!((found - exact.energy).abs() < 1e-9, "{found} {}", exact.energy);
            assert!((energy_of(&chain, energy) - found).abs() < 1e-9);
        }
    }
}
