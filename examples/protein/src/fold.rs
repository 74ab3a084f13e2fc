//! A search among folds.

use crate::chain::{Chain, Contacts};
use crate::energy::{Energy, Residue, Tally};
use crate::features::{Contact, rows_of};
use tandem_chess::random::SplitMix;
use tandem_nnue::{Accumulator, Network, Scratch};

/// Who says what a fold is worth, in hundredths of RT.
pub enum Judge<'a> {
    /// A network, whose accumulator follows the contacts.
    Network {
        /// The network.
        network: &'a Network<Contact>,
        /// Its values for the fold at hand, for the one that is tried, and for none.
        accumulators: Box<[Accumulator; 3]>,
        /// Where it works.
        scratch: Scratch,
        /// Rows that come and go.
        rows: [Vec<u32>; 2],
    },
    /// The energy itself, which follows the contacts too.
    Exact {
        /// Which.
        energy: Energy,
        /// The sums for the fold at hand and for the one that is tried.
        tallies: [ExactTally; 2],
    },
}

/// Sums that an energy is made of.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExactTally(Tally);

impl<'a> Judge<'a> {
    /// A network.
    pub fn network(network: &'a Network<Contact>) -> Self {
        let accumulators = Box::new([(); 3].map(|()| Accumulator::new(network)));
        Self::Network { network, accumulators, scratch: network.scratch(), rows: Default::default() }
    }

    /// The energy itself.
    pub fn exact(energy: Energy) -> Self {
        Self::Exact { energy, tallies: Default::default() }
    }

    /// The energy of a fold of which nothing is known.
    pub fn from_nothing(&mut self, chain: &Chain) -> i64 {
        let value = match self {
            Self::Network { network, accumulators, scratch, .. } => {
                let [_, tried, nothing] = &mut **accumulators;
                tried.follow(network, nothing, &rows_of(chain), &[]);
                i64::from(network.judge(&[tried], 0, scratch).value())
            }
            Self::Exact { energy, tallies } => {
                let mut tally = Tally::default();
                add(&mut tally, chain.residues(), &chain.contacts(), 1);
                tallies[1] = ExactTally(tally);
                tally.energy(*energy, chain.residues().len())
            }
        };
        self.keep();
        value
    }

    /// The energy after contacts have come and gone. It stands when [`Self::keep`] says so.
    #[inline]
    pub fn after(&mut self, residues: &[Residue], contacts: &Contacts) -> i64 {
        match self {
            Self::Network { network, accumulators, scratch, rows: [added, removed] } => {
                let row = |&(first, second): &(usize, usize)| Contact::row(residues[first], residues[second]);
                added.clear();
                removed.clear();
                added.extend(contacts.added.iter().map(row));
                removed.extend(contacts.removed.iter().map(row));
                let [kept, tried, _] = &mut **accumulators;
                tried.follow(network, kept, added, removed);
                i64::from(network.judge(&[tried], 0, scratch).value())
            }
            Self::Exact { energy, tallies: [kept, tried] } => {
                *tried = *kept;
                add(&mut tried.0, residues, &contacts.removed, -1);
                add(&mut tried.0, residues, &contacts.added, 1);
                tried.0.energy(*energy, residues.len())
            }
        }
    }

    /// Goes on from what was tried.
    #[inline]
    pub fn keep(&mut self) {
        match self {
            Self::Network { accumulators, .. } => accumulators.swap(0, 1),
            Self::Exact { tallies, .. } => tallies.swap(0, 1),
        }
    }
}

fn add(tally: &mut Tally, residues: &[Residue], contacts: &[(usize, usize)], sign: i64) {
    for &(first, second) in contacts {
        tally.add(residues[first], residues[second], sign);
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

    /// Tries a step at some heat; says whether there was one to judge.
    pub fn step(&mut self, random: &mut SplitMix, heat: f64) -> bool {
        if !self.chain.step(random, &mut self.contacts) {
            return false;
        }
        let energy = self.judge.after(self.chain.residues(), &self.contacts);
        let rise = (energy - self.energy) as f64 / 100.0;
        if rise <= 0.0 || random.unit() < (-rise / heat).exp() {
            self.judge.keep();
            self.energy = energy;
        } else {
            self.chain.take_back();
        }
        true
    }

    /// Looks for the fold of least energy. Returns the best that was met, its energy in units of RT, and the steps that were
    /// judged.
    pub fn anneal(&mut self, annealing: &Annealing) -> (Chain, f64, u64) {
        let mut random = SplitMix::new(annealing.seed);
        let mut best = (self.chain.clone(), self.energy);
        let steps = annealing.steps_per_residue * self.chain.residues().len();
        let mut judged = 0;
        for _ in 0..annealing.starts {
            self.chain = Chain::straight(self.chain.residues().to_vec());
            self.energy = self.judge.from_nothing(&self.chain);
            for step in 0..steps {
                let progress = step as f64 / steps as f64;
                let heat = annealing.hot * (annealing.cold / annealing.hot).powf(progress);
                judged += u64::from(self.step(&mut random, heat));
                if self.energy < best.1 {
                    best = (self.chain.clone(), self.energy);
                }
            }
        }
        (best.0, best.1 as f64 / 100.0, judged)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::chain::tests::random_residues;
    use crate::exhaustive::least;
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
        for judge in [Judge::network(&network), Judge::exact(Energy::Cooperative)] {
            let mut other = if matches!(judge, Judge::Exact { .. }) {
                Judge::exact(Energy::Cooperative)
            } else {
                Judge::network(&network)
            };
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
            let (chain, found, judged) = search.anneal(&Annealing::default());
            assert!((found - exact.energy).abs() < 1e-9, "{found} {}", exact.energy);
            assert!((energy_of(&chain, energy) - found).abs() < 1e-9 && judged > 0);
        }
    }
}
