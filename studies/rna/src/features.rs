//! Features of a secondary structure, as inputs of a network.
//!
//! Pairs cut a structure into loops, and every feature belongs to one loop: a stack to the kinds of its two
//! pairs; a hairpin to its size, its terminal bases and, with four bases, its letters; bulges and interior
//! loops to their sizes and the bases neighbours their pairs; a multiloop and the exterior loop to each branch
//! with its neighbours. Thermodynamics has larger tables for some of these, such as all letters of the
//! smallest interior loops; the network does not get those as features.

use crate::molecule::{Base, PairKind, Sequence, Structure};
use tandem_nnue::Inputs;

/// Maximum number of bases, so that the sums of weights stay within the integers of the accumulator.
pub const MAX_BASES: usize = 256;

/// Maximum number of active features: at worst an interior loop with one base on each side, which has five
/// features for four bases.
const MAX_ACTIVE: usize = MAX_BASES * 5 / 4;

const KINDS: usize = PairKind::COUNT;
/// Number of loop sizes that are distinguished; the last one includes all larger loops.
const SIZES: usize = 31;
/// Number of ordered combinations of two bases.
const ENDS: usize = 16;
/// Number of combinations of two neighbours, either of which may be missing.
const NEIGHBOURS: usize = 25;
/// Largest side of an interior loop whose exact shape is a feature: one to three bases on each side.
const SHAPE: usize = 3;
const SHAPES: usize = SHAPE * SHAPE;
/// Number of differences between the sides of an interior loop that are distinguished.
const ASYMMETRIES: usize = 11;
/// Classes of interior loops with separate features for their terminal bases: one base on a side, two against
/// three, and all others.
const CLASSES: usize = 3;

const STACK: usize = 0;
const HAIRPIN_SIZE: usize = STACK + KINDS * KINDS;
const HAIRPIN_ENDS: usize = HAIRPIN_SIZE + SIZES;
const TRILOOP: usize = HAIRPIN_ENDS + KINDS * ENDS;
const TETRALOOP: usize = TRILOOP + KINDS;
const BULGE_SIZE: usize = TETRALOOP + KINDS * 256;
const BULGE_OF_ONE: usize = BULGE_SIZE + SIZES;
const BULGE_OUTER: usize = BULGE_OF_ONE + KINDS * KINDS;
const BULGE_INNER: usize = BULGE_OUTER + KINDS;
const INTERIOR_SIZE: usize = BULGE_INNER + KINDS;
const INTERIOR_ASYMMETRY: usize = INTERIOR_SIZE + SIZES;
const INTERIOR_SHAPE: usize = INTERIOR_ASYMMETRY + ASYMMETRIES;
const INTERIOR_OUTER: usize = INTERIOR_SHAPE + SHAPES;
const INTERIOR_INNER: usize = INTERIOR_OUTER + CLASSES * KINDS * ENDS;
const MULTILOOP: usize = INTERIOR_INNER + CLASSES * KINDS * ENDS;
const MULTILOOP_SIZE: usize = MULTILOOP + 1;
const BRANCH: usize = MULTILOOP_SIZE + SIZES;
const EXTERIOR: usize = BRANCH + KINDS * NEIGHBOURS;
const NUM_FEATURES: usize = EXTERIOR + KINDS * NEIGHBOURS;

/// Feature set of a network whose inputs are the loops of a structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopFeatures;

impl Inputs for LoopFeatures {
    const SIDES: usize = 1;

    fn name(&self) -> &str {
        "rna-loops-1"
    }

    fn num_inputs(&self) -> usize {
        NUM_FEATURES
    }

    fn max_active(&self) -> usize {
        MAX_ACTIVE
    }

    fn may_repeat(&self) -> bool {
        true
    }
}

/// A molecule with its structure, from which the features of single loops are derived.
struct LoopContext<'a> {
    bases: &'a [Base],
    structure: &'a Structure,
}

impl LoopContext<'_> {
    /// Index of the kind of a pair, seen from its first base, or with swapped arguments from within the pair.
    #[inline]
    fn kind(&self, first: usize, second: usize) -> usize {
        // A structure contains no pairs that cannot form.
        PairKind::of(self.bases[first], self.bases[second]).map_or(0, PairKind::index)
    }

    #[inline]
    fn ends(&self, first: usize, second: usize) -> usize {
        self.bases[first].index() * 4 + self.bases[second].index()
    }

    #[inline]
    fn neighbours(&self, before: Option<usize>, after: usize) -> usize {
        let number = |base: Option<&Base>| base.map_or(4, |base| base.index());
        number(before.and_then(|base| self.bases.get(base))) * 5 + number(self.bases.get(after))
    }

    /// Appends the features of the loop that a pair closes, or of the exterior loop for `None`.
    fn append_loop(&self, closing: Option<(usize, usize)>, features: &mut Vec<u32>) {
        let mut add = |feature: usize| features.push(feature as u32);
        let Some((first, last)) = closing else {
            let mut at = 0;
            while at < self.bases.len() {
                match self.structure.partner(at) {
                    None => at += 1,
                    Some(end) => {
                        let neighbours = self.neighbours(at.checked_sub(1), end + 1);
                        add(EXTERIOR + self.kind(at, end) * NEIGHBOURS + neighbours);
                        at = end + 1;
                    }
                }
            }
            return;
        };
        let outer = self.kind(first, last);
        let (mut branches, mut unpaired, mut branch) = (0, 0, (0, 0));
        let mut at = first + 1;
        while at < last {
            match self.structure.partner(at) {
                None => {
                    unpaired += 1;
                    at += 1;
                }
                Some(end) => {
                    branches += 1;
                    branch = (at, end);
                    at = end + 1;
                }
            }
        }
        match branches {
            0 => {
                add(HAIRPIN_SIZE + unpaired.min(SIZES - 1));
                if unpaired == 3 {
                    add(TRILOOP + outer);
                } else {
                    add(HAIRPIN_ENDS + outer * ENDS + self.ends(first + 1, last - 1));
                }
                if unpaired == 4 {
                    let letters = self.ends(first + 1, first + 2) * 16 + self.ends(first + 3, first + 4);
                    add(TETRALOOP + outer * 256 + letters);
                }
            }
            1 => self.append_interior_loop((first, last), branch, &mut add),
            _ => {
                add(MULTILOOP);
                add(MULTILOOP_SIZE + unpaired.min(SIZES - 1));
                // The closing pair is one more branch, seen from within.
                add(BRANCH
                    + self.kind(last, first) * NEIGHBOURS
                    + self.neighbours(Some(last - 1), first + 1));
                let mut at = first + 1;
                while at < last {
                    match self.structure.partner(at) {
                        None => at += 1,
                        Some(end) => {
                            let neighbours = self.neighbours(Some(at - 1), end + 1);
                            add(BRANCH + self.kind(at, end) * NEIGHBOURS + neighbours);
                            at = end + 1;
                        }
                    }
                }
            }
        }
    }

    /// Appends the features of a stack, a bulge or an interior loop.
    fn append_interior_loop(
        &self,
        (first, last): (usize, usize),
        (begin, end): (usize, usize),
        add: &mut impl FnMut(usize),
    ) {
        let (outer, inner) = (self.kind(first, last), self.kind(end, begin));
        let (before, after) = (begin - first - 1, last - end - 1);
        let size = before + after;
        match (before.min(after), before.max(after)) {
            (0, 0) => add(STACK + outer * KINDS + inner),
            (0, 1) => {
                add(BULGE_SIZE + 1);
                add(BULGE_OF_ONE + outer * KINDS + inner);
            }
            (0, _) => {
                add(BULGE_SIZE + size.min(SIZES - 1));
                add(BULGE_OUTER + outer);
                add(BULGE_INNER + inner);
            }
            (small, large) => {
                let class = match (small, large) {
                    (1, _) => 0,
                    (2, 3) => 1,
                    _ => 2,
                };
                add(INTERIOR_SIZE + size.min(SIZES - 1));
                add(INTERIOR_ASYMMETRY + (large - small).min(ASYMMETRIES - 1));
                if large <= SHAPE {
                    add(INTERIOR_SHAPE + (before - 1) * SHAPE + after - 1);
                }
                add(INTERIOR_OUTER + (class * KINDS + outer) * ENDS + self.ends(first + 1, last - 1));
                add(INTERIOR_INNER + (class * KINDS + inner) * ENDS + self.ends(end + 1, begin - 1));
            }
        }
    }
}

/// Indices of all active features of a structure, in no particular order and with repetitions.
pub fn active_features(sequence: &Sequence, structure: &Structure) -> Vec<u32> {
    let mut features = Vec::new();
    append_features(sequence, structure, &mut features);
    features
}

/// Appends the active features of a structure to `features`.
pub(crate) fn append_features(sequence: &Sequence, structure: &Structure, features: &mut Vec<u32>) {
    let view = LoopContext { bases: sequence.bases(), structure };
    view.append_loop(None, features);
    for base in 0..structure.bases() {
        if let Some(partner) = structure.partner(base).filter(|&partner| partner > base) {
            view.append_loop(Some((base, partner)), features);
        }
    }
}

/// Difference between the active features of two structures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeatureChange {
    /// Features that become active, with repetitions where one becomes active several times.
    pub added: Vec<u32>,
    /// Features that are no longer active, with repetitions where one occurred several times.
    pub removed: Vec<u32>,
}

impl FeatureChange {
    /// Resets it to an empty difference, for reuse without a new allocation.
    pub fn clear(&mut self) {
        self.added.clear();
        self.removed.clear();
    }

    /// Adds a pair to `structure`, or removes it if present, and appends the features that change. A pair to
    /// be added must not conflict with others.
    pub fn toggle(&mut self, sequence: &Sequence, structure: &mut Structure, (first, last): (usize, usize)) {
        let bases = sequence.bases();
        let around = structure.around(first);
        let was_on = structure.partner(first) == Some(last);
        let before = LoopContext { bases, structure };
        before.append_loop(around, &mut self.removed);
        if was_on {
            before.append_loop(Some((first, last)), &mut self.removed);
            structure.clear(first, last);
        } else {
            structure.set(first, last);
        }
        let after = LoopContext { bases, structure };
        after.append_loop(around, &mut self.added);
        if !was_on {
            after.append_loop(Some((first, last)), &mut self.added);
        }
    }

    /// Cancels features that occur in both lists, so that the accumulator is not updated in vain.
    pub fn reduce(&mut self) {
        self.added.sort_unstable();
        self.removed.sort_unstable();
        let (mut from_added, mut from_removed, mut num_added, mut num_removed) = (0, 0, 0, 0);
        while from_added < self.added.len() || from_removed < self.removed.len() {
            match (self.added.get(from_added).copied(), self.removed.get(from_removed).copied()) {
                (Some(added), Some(removed)) if added == removed => {
                    from_added += 1;
                    from_removed += 1;
                }
                (Some(added), removed) if removed.is_none_or(|removed| added < removed) => {
                    self.added[num_added] = added;
                    (from_added, num_added) = (from_added + 1, num_added + 1);
                }
                (_, Some(removed)) => {
                    self.removed[num_removed] = removed;
                    (from_removed, num_removed) = (from_removed + 1, num_removed + 1);
                }
                (_, None) => break,
            }
        }
        self.added.truncate(num_added);
        self.removed.truncate(num_removed);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tandem_util::random::SplitMix;

    pub(crate) fn random_sequence(bases: usize, random: &mut SplitMix) -> Sequence {
        let text: String = (0..bases).map(|_| char::from(b"ACGU"[random.below(4) as usize])).collect();
        text.parse().unwrap()
    }

    /// Features updated pair by pair are those computed from nothing.
    #[test]
    fn changes_lead_to_the_features_of_the_structure() {
        let mut random = SplitMix::new(1);
        for bases in [12, 40, 120, MAX_BASES] {
            let sequence = random_sequence(bases, &mut random);
            let mut structure = Structure::unpaired(bases);
            let mut features = active_features(&sequence, &structure);
            let mut change = FeatureChange::default();
            for _ in 0..4000 {
                let (a, b) = (random.below(bases as u32) as usize, random.below(bases as u32) as usize);
                let (first, last) = (a.min(b), a.max(b));
                if sequence.pair(first, last).is_none() {
                    continue;
                }
                let is_on = structure.partner(first) == Some(last);
                if !is_on && !structure.is_free(first, last) {
                    // Removes a pair now and then, so that others can be added again.
                    let Some(partner) = structure.partner(first) else { continue };
                    change.clear();
                    change.toggle(&sequence, &mut structure, (first.min(partner), first.max(partner)));
                } else {
                    change.clear();
                    change.toggle(&sequence, &mut structure, (first, last));
                }
                change.reduce();
                for feature in &change.removed {
                    let at = features.iter().position(|other| other == feature).unwrap();
                    features.swap_remove(at);
                }
                features.extend(&change.added);
                let mut expected = active_features(&sequence, &structure);
                features.sort_unstable();
                expected.sort_unstable();
                assert_eq!(features, expected, "{structure}");
                assert!(
                    features.len() <= MAX_ACTIVE
                        && features.iter().all(|&feature| (feature as usize) < NUM_FEATURES)
                );
            }
        }
    }

    #[test]
    fn loops_activate_their_features() {
        let features = |sequence: &str, structure: &str| {
            let sequence: Sequence = sequence.parse().unwrap();
            let mut features = active_features(&sequence, &Structure::parse(structure, &sequence).unwrap());
            features.sort_unstable();
            features.into_iter().map(|feature| feature as usize).collect::<Vec<_>>()
        };
        // GC on GC: the outer pair is G-C, and the inner one C-G as seen from within the loop.
        let stack = STACK + 2 * KINDS + 1;
        let outside = EXTERIOR + 2 * NEIGHBOURS + 24;
        let hairpin = [HAIRPIN_SIZE + 3, TRILOOP + 2];
        assert_eq!(features("GGAAACC", "((...))"), [stack, hairpin[0], hairpin[1], outside]);
        let bulge = [BULGE_SIZE + 1, BULGE_OF_ONE + 2 * KINDS + 1];
        assert_eq!(features("GAGAAACC", "(.(...))"), [hairpin[0], hairpin[1], bulge[0], bulge[1], outside]);
        let inner = features("GAGAAACUC", "(.(...).)");
        assert!(inner.contains(&(INTERIOR_SHAPE)) && inner.contains(&INTERIOR_ASYMMETRY));
        assert!(
            inner.contains(&(INTERIOR_OUTER + 2 * ENDS + 3))
                && inner.contains(&(INTERIOR_INNER + ENDS + 3 * 4))
        );
        let branching = features("GGAAACGAAACC", "((...)(...))");
        assert_eq!(branching.iter().filter(|feature| (BRANCH..EXTERIOR).contains(feature)).count(), 3);
        assert!(branching.contains(&MULTILOOP) && branching.contains(&MULTILOOP_SIZE));
        assert!(features("GGAAACC", ".......").is_empty());
        assert!(features("GGAAAC", "(....)").contains(&(TETRALOOP + 2 * 256 + 2 * 64)));
    }
}
