//! A search among folds.

use crate::chain::{Chain, Contacts};
use crate::energy::{Energy, Residue, Tally};
use crate::features::{Contact, add_rows};
use tandem_chess::random::SplitMix;
use tandem_nnue::{Accumulator, Network, Scratch};

/// Who says what a fold is worth, in hundredths of RT.
pub struct Judge<'a>(Kind<'a>);

enum Kind<'a> {
    Network {
        network: &'a Network<Contact>,
        /// For the fold at hand, for the one that is tried, and for none.
        accumulators: Box<[Accumulator; 3]>,
        scratch: Scratch,
        added: Vec<u32>,
        removed: Vec<u32>,
    },
    Exact {
        energy: Energy,
        /// For the fold at hand, and for the one that is tried.
        tallies: [Tally; 2],
    },
}

impl<'a> Judge<'a> {
    /// A network, whose accumulator follows the contacts.
    pub fn network(network: &'a Network<Contact>) -> Self {
        Self(Kind::Network {
            network,
            accumulators: Box::new([(); 3].map(|()| Accumulator::new(network))),
            scratch: network.scratch(),
            added: Vec::new(),
            removed: Vec::new(),
        })
    }

    /// The energy itself, which follows the contacts too.
    pub fn exact(energy: Energy) -> Self {
        Self(Kind::Exact { energy, tallies: Default::default() })
    }

    /// The energy of a fold of which nothing is known.
    pub fn from_nothing(&mut self, chain: &Chain) -> i64 {
        let residues = chain.residues();
        let value = match &mut self.0 {
            Kind::Network { network, accumulators, scratch, added, .. } => {
                let [_, tried, nothing] = &mut **accumulators;
                added.clear();
                add_rows(chain, added);
                tried.update_from(network, nothing, added, &[]);
                i64::from(network.forward(&[tried], 0, scratch).value())
            }
            Kind::Exact { energy, tallies: [_, tried] } => {
                *tried = Tally::default();
                chain.each_contact(|first, second| tried.add(residues[first], residues[second], 1));
                tried.energy(*energy, residues.len())
            }
        };
        self.keep();
        value
    }

    /// The energy after contacts have come and gone. It stands when [`Self::keep`] says so.
    #[inline]
    pub fn after(&mut self, residues: &[Residue], contacts: &Contacts) -> i64 {
        match &mut self.0 {
            Kind::Network { network, accumulators, scratch, added, removed } => {
                let [kept, tried, _] = &mut **accumulators;
                let row = |&(first, second): &(usize, usize)| Contact::row(residues[first], residues[second]);
                added.clear();
                removed.clear();
                added.extend(contacts.added.iter().map(row));
                removed.extend(contacts.removed.iter().map(row));
                tried.update_from(network, kept, added, removed);
                i64::from(network.forward(&[tried], 0, scratch).value())
            }
            Kind::Exact { energy, tallies: [kept, tried] } => {
                *tried = *kept;
                for (contacts, sign) in [(&contacts.removed, -1), (&contacts.added, 1)] {
                    contacts
                        .iter()
                        .for_each(|&(first, second)| tried.add(residues[first], residues[second], sign));
                }
                tried.energy(*energy, residues.len())
            }
        }
    }

    /// Goes on from what was tried.
    #[inline]
    pub fn keep(&mut self) {
        match &mut self.0 {
            Kind::Network { accumulators, .. } => accumulators.swap(0, 1),
            Kind::Exact { tallies, .. } => tallies.swap(0, 1),
        }
    }
}

/// How long a search lasts and how hot it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Annealing {
    /// Steps that are tried for each residue.
    pub steps_per_residue: usize,
    /// Searches, of which the best counts.
    pub starts: usize,
    /// Heat to begin with, in units of RT.
    pub hot: f64,
    /// And to end with.
    pub cold: f64,
    /// Where chance begins.
    pub seed: u64,
}

impl Default for Annealing {
    fn default() -> Self {
        Self { steps_per_residue: 4000, starts: 4, hot: 6.0, cold: 0.5, seed: 1 }
    }
}

/// A fold that a judge follows.
pub struct Search<'a> {
    chain: Chain,
    judge: Judge<'a>,
    energy: i64,
    contacts: Contacts,
}

impl<'a> Search<'a> {
    /// Begins with a fold.
    pub fn new(chain: Chain, mut judge: Judge<'a>) -> Self {
        let energy = judge.from_nothing(&chain);
        Self { chain, judge, energy, contacts: Contacts::default() }
    }

    /// The fold.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// What the judge says of it, in units of RT.
    pub fn energy(&self) -> f64 {
        self.energy as f64 / 100.0
    }

    /// Tries a step at some heat. Says whether it stands.
    pub fn step(&mut self, random: &mut SplitMix, heat: f64) -> bool {
        if !self.chain.step(random, &mut self.contacts) {
            return false;
        }
        let energy = self.judge.after(self.chain.residues(), &self.contacts);
        let rise = (energy - self.energy) as f64 / 100.0;
        let stands = rise <= 0.0 || random.unit() < (-rise / heat).exp();
        if stands {
            self.judge.keep();
            self.energy = energy;
        } else {
            self.chain.take_back();
        }
        stands
    }

    /// Looks for the fold of least energy. Returns the best that was met and its energy in units of RT.
    pub fn anneal(&mut self, annealing: &Annealing) -> (Chain, f64) {
        let mut random = SplitMix::new(annealing.seed);
        let mut best = (self.chain.clone(), self.energy);
        let steps = annealing.steps_per_residue * self.chain.residues().len();
        for _ in 0..annealing.starts {
            self.chain = Chain::straight(self.chain.residues().to_vec());
            self.energy = self.judge.from_nothing(&self.chain);
            for step in 0..steps {
                let progress = step as f64 / steps as f64;
                let heat = annealing.hot * (annealing.cold / annealing.hot).powf(progress);
                self.step(&mut random, heat);
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
    use crate::exhaustive::least;
    use crate::features::rows_of;
    use tandem_study::{Recipe, Sample, learn};

    pub(crate) fn energy_of(chain: &Chain, energy: Energy) -> f64 {
        Judge::exact(energy).from_nothing(chain) as f64 / 100.0
    }

    /// What is followed contact by contact is what the fold says from nothing, by both judges.
    #[test]
    fn energies_follow_every_step() {
        let mut random = SplitMix::new(5);
        let chain = Chain::straight(random_residues(30, &mut random));
        let samples: Vec<Sample> = (0..50)
            .map(|_| Sample { rows: rows_of(&Chain::straight(random_residues(30, &mut random))), value: 1.0 })
            .collect();
        let recipe = Recipe { width: 32, epochs: 1, batch: 10, rate: 1e-3, unit: 40.0, seed: 5 };
        let (_, network) = learn(Contact, &samples, &recipe, &mut |_, _| {}).unwrap();
        let both = || [Judge::network(&network), Judge::exact(Energy::Cooperative)];
        for (judge, mut other) in both().into_iter().zip(both()) {
            let mut search = Search::new(chain.clone(), judge);
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
            let exact = least(&residues, energy).unwrap();
            let mut search = Search::new(Chain::straight(residues), Judge::exact(energy));
            let (chain, found) = search.anneal(&Annealing::default());
            assert!((found - exact.energy).abs() < 1e-9, "{found} {}", exact.energy);
            assert!((energy_of(&chain, energy) - found).abs() < 1e-9);
        }
    }
}
