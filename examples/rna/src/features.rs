//! Which rows a structure turns on.
//!
//! Pairs cut a structure into loops, and everything that is on belongs to one loop: a stack of two pairs by both their kinds; a
//! turn by its size, its ends and, if it is of four, its letters; bulges and inner loops by their sizes and the bases beside
//! their pairs; a loop of several branches, and the outside, by each branch with its neighbours. Thermodynamics has larger
//! tables for some of these (all letters of the smallest inner loops); the network is not given those.

use crate::molecule::{Base, PairKind, Sequence, Structure};
use tandem_nnue::Inputs;

/// The longest chain, so that sums of rows stay within the accumulator's integers.
pub const MOST_BASES: usize = 256;

/// Rows for each base at most: an inner loop of one base on each side has five rows and four bases.
const MOST_ROWS: usize = MOST_BASES * 5 / 4;

const KINDS: usize = PairKind::COUNT;
/// Sizes of loops that are told apart.
const SIZES: usize = 31;
/// Two bases.
const ENDS: usize = 16;
/// Two neighbours, of which each may be missing.
const NEIGHBOURS: usize = 25;
/// Small inner loops of which the shape is told: one to three bases on each side.
const SHAPE: usize = 3;
const SHAPES: usize = SHAPE * SHAPE;
/// Differences between the sides of an inner loop.
const SKEWS: usize = 11;
/// Inner loops whose ends count each in its own way: one base on a side, two against three, others.
const CLASSES: usize = 3;

const STACK: usize = 0;
const TURN_SIZE: usize = STACK + KINDS * KINDS;
const TURN_ENDS: usize = TURN_SIZE + SIZES;
const TURN_OF_THREE: usize = TURN_ENDS + KINDS * ENDS;
const TURN_OF_FOUR: usize = TURN_OF_THREE + KINDS;
const BULGE_SIZE: usize = TURN_OF_FOUR + KINDS * 256;
const BULGE_OF_ONE: usize = BULGE_SIZE + SIZES;
const BULGE_OUTER: usize = BULGE_OF_ONE + KINDS * KINDS;
const BULGE_INNER: usize = BULGE_OUTER + KINDS;
const INNER_SIZE: usize = BULGE_INNER + KINDS;
const INNER_SKEW: usize = INNER_SIZE + SIZES;
const INNER_SHAPE: usize = INNER_SKEW + SKEWS;
const INNER_OUTER: usize = INNER_SHAPE + SHAPES;
const INNER_INNER: usize = INNER_OUTER + CLASSES * KINDS * ENDS;
const BRANCHING: usize = INNER_INNER + CLASSES * KINDS * ENDS;
const BRANCHING_SIZE: usize = BRANCHING + 1;
const BRANCH: usize = BRANCHING_SIZE + SIZES;
const OUTSIDE: usize = BRANCH + KINDS * NEIGHBOURS;
const ROWS: usize = OUTSIDE + KINDS * NEIGHBOURS;

/// The inputs of a network that reads structures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loops;

impl Inputs for Loops {
    const SIDES: usize = 1;

    fn name(&self) -> &str {
        "rna-loops-1"
    }

    fn num_inputs(&self) -> usize {
        ROWS
    }

    fn max_active(&self) -> usize {
        MOST_ROWS
    }

    fn may_repeat(&self) -> bool {
        true
    }
}

/// A molecule as loops see it.
struct View<'a> {
    bases: &'a [Base],
    structure: &'a Structure,
}

impl View<'_> {
    /// The kind of a pair, seen from its first base or, the other way round, from within.
    #[inline]
    fn kind(&self, first: usize, second: usize) -> usize {
        // Structures have no other pairs than those that can be.
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

    /// The rows of the loop that a pair closes, or of the outside.
    fn add_loop(&self, closing: Option<(usize, usize)>, rows: &mut Vec<u32>) {
        let mut add = |row: usize| rows.push(row as u32);
        let Some((first, last)) = closing else {
            let mut at = 0;
            while at < self.bases.len() {
                match self.structure.partner(at) {
                    None => at += 1,
                    Some(end) => {
                        let beside = self.neighbours(at.checked_sub(1), end + 1);
                        add(OUTSIDE + self.kind(at, end) * NEIGHBOURS + beside);
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
                add(TURN_SIZE + unpaired.min(SIZES - 1));
                if unpaired == 3 {
                    add(TURN_OF_THREE + outer);
                } else {
                    add(TURN_ENDS + outer * ENDS + self.ends(first + 1, last - 1));
                }
                if unpaired == 4 {
                    let letters = self.ends(first + 1, first + 2) * 16 + self.ends(first + 3, first + 4);
                    add(TURN_OF_FOUR + outer * 256 + letters);
                }
            }
            1 => self.add_two_pairs((first, last), branch, &mut add),
            _ => {
                add(BRANCHING);
                add(BRANCHING_SIZE + unpaired.min(SIZES - 1));
                // The closing pair is one more branch, seen from within.
                add(BRANCH
                    + self.kind(last, first) * NEIGHBOURS
                    + self.neighbours(Some(last - 1), first + 1));
                let mut at = first + 1;
                while at < last {
                    match self.structure.partner(at) {
                        None => at += 1,
                        Some(end) => {
                            let beside = self.neighbours(Some(at - 1), end + 1);
                            add(BRANCH + self.kind(at, end) * NEIGHBOURS + beside);
                            at = end + 1;
                        }
                    }
                }
            }
        }
    }

    /// The rows of a stack, a bulge or an inner loop.
    fn add_two_pairs(
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
                add(INNER_SIZE + size.min(SIZES - 1));
                add(INNER_SKEW + (large - small).min(SKEWS - 1));
                if large <= SHAPE {
                    add(INNER_SHAPE + (before - 1) * SHAPE + after - 1);
                }
                add(INNER_OUTER + (class * KINDS + outer) * ENDS + self.ends(first + 1, last - 1));
                add(INNER_INNER + (class * KINDS + inner) * ENDS + self.ends(end + 1, begin - 1));
            }
        }
    }
}

/// All rows that a structure turns on.
pub fn rows_of(sequence: &Sequence, structure: &Structure) -> Vec<u32> {
    let mut rows = Vec::new();
    add_rows(sequence, structure, &mut rows);
    rows
}

/// The same, added to those that are there.
pub(crate) fn add_rows(sequence: &Sequence, structure: &Structure, rows: &mut Vec<u32>) {
    let view = View { bases: sequence.bases(), structure };
    view.add_loop(None, rows);
    for base in 0..structure.bases() {
        if let Some(partner) = structure.partner(base).filter(|&partner| partner > base) {
            view.add_loop(Some((base, partner)), rows);
        }
    }
}

/// Rows that come and go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// Those that come.
    pub added: Vec<u32>,
    /// Those that go.
    pub removed: Vec<u32>,
}

impl Change {
    /// Nothing comes and nothing goes.
    pub fn clear(&mut self) {
        self.added.clear();
        self.removed.clear();
    }

    /// Turns a pair on or off, and takes down which rows come and go. A pair that is to come must have room.
    pub fn toggle(&mut self, sequence: &Sequence, structure: &mut Structure, (first, last): (usize, usize)) {
        let bases = sequence.bases();
        let around = structure.around(first);
        let was_on = structure.partner(first) == Some(last);
        let before = View { bases, structure };
        before.add_loop(around, &mut self.removed);
        if was_on {
            before.add_loop(Some((first, last)), &mut self.removed);
            structure.clear(first, last);
        } else {
            structure.set(first, last);
        }
        let after = View { bases, structure };
        after.add_loop(around, &mut self.added);
        if !was_on {
            after.add_loop(Some((first, last)), &mut self.added);
        }
    }

    /// Leaves out what comes as often as it goes.
    pub fn reduce(&mut self) {
        self.added.sort_unstable();
        self.removed.sort_unstable();
        let (mut from_added, mut from_removed, mut kept_added, mut kept_removed) = (0, 0, 0, 0);
        while from_added < self.added.len() || from_removed < self.removed.len() {
            match (self.added.get(from_added).copied(), self.removed.get(from_removed).copied()) {
                (Some(comes), Some(goes)) if comes == goes => {
                    from_added += 1;
                    from_removed += 1;
                }
                (Some(comes), goes) if goes.is_none_or(|goes| comes < goes) => {
                    self.added[kept_added] = comes;
                    (from_added, kept_added) = (from_added + 1, kept_added + 1);
                }
                (_, Some(goes)) => {
                    self.removed[kept_removed] = goes;
                    (from_removed, kept_removed) = (from_removed + 1, kept_removed + 1);
                }
                (_, None) => break,
            }
        }
        self.added.truncate(kept_added);
        self.removed.truncate(kept_removed);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tandem_chess::random::SplitMix;

    pub(crate) fn random_sequence(bases: usize, random: &mut SplitMix) -> Sequence {
        let text: String = (0..bases).map(|_| char::from(b"ACGU"[random.below(4) as usize])).collect();
        text.parse().unwrap()
    }

    /// What is followed pair by pair is what the structure says from nothing.
    #[test]
    fn changes_lead_to_the_rows_of_the_structure() {
        let mut random = SplitMix::new(1);
        for bases in [12, 40, 120, MOST_BASES] {
            let sequence = random_sequence(bases, &mut random);
            let mut structure = Structure::open(bases);
            let mut rows = rows_of(&sequence, &structure);
            let mut change = Change::default();
            for _ in 0..4000 {
                let (a, b) = (random.below(bases as u32) as usize, random.below(bases as u32) as usize);
                let (first, last) = (a.min(b), a.max(b));
                if sequence.pair(first, last).is_none() {
                    continue;
                }
                let is_on = structure.partner(first) == Some(last);
                if !is_on && !structure.has_room(first, last) {
                    // Now and then there must be room again.
                    let Some(partner) = structure.partner(first) else { continue };
                    change.clear();
                    change.toggle(&sequence, &mut structure, (first.min(partner), first.max(partner)));
                } else {
                    change.clear();
                    change.toggle(&sequence, &mut structure, (first, last));
                }
                change.reduce();
                for row in &change.removed {
                    let at = rows.iter().position(|other| other == row).unwrap();
                    rows.swap_remove(at);
                }
                rows.extend(&change.added);
                let mut expected = rows_of(&sequence, &structure);
                rows.sort_unstable();
                expected.sort_unstable();
                assert_eq!(rows, expected, "{structure}");
                assert!(rows.len() <= MOST_ROWS && rows.iter().all(|&row| (row as usize) < ROWS));
            }
        }
    }

    #[test]
    fn loops_turn_on_what_they_are() {
        let rows = |sequence: &str, structure: &str| {
            let sequence: Sequence = sequence.parse().unwrap();
            let mut rows = rows_of(&sequence, &Structure::parse(structure, &sequence).unwrap());
            rows.sort_unstable();
            rows.into_iter().map(|row| row as usize).collect::<Vec<_>>()
        };
        // GC on GC: from outside G-C, from within the inner pair is C-G.
        let stack = STACK + 2 * KINDS + 1;
        let outside = OUTSIDE + 2 * NEIGHBOURS + 24;
        let turn = [TURN_SIZE + 3, TURN_OF_THREE + 2];
        assert_eq!(rows("GGAAACC", "((...))"), [stack, turn[0], turn[1], outside]);
        let bulge = [BULGE_SIZE + 1, BULGE_OF_ONE + 2 * KINDS + 1];
        assert_eq!(rows("GAGAAACC", "(.(...))"), [turn[0], turn[1], bulge[0], bulge[1], outside]);
        let inner = rows("GAGAAACUC", "(.(...).)");
        assert!(inner.contains(&(INNER_SHAPE)) && inner.contains(&INNER_SKEW));
        assert!(
            inner.contains(&(INNER_OUTER + 2 * ENDS + 3)) && inner.contains(&(INNER_INNER + ENDS + 3 * 4))
        );
        let branching = rows("GGAAACGAAACC", "((...)(...))");
        assert_eq!(branching.iter().filter(|row| (BRANCH..OUTSIDE).contains(row)).count(), 3);
        assert!(branching.contains(&BRANCHING) && branching.contains(&BRANCHING_SIZE));
        assert!(rows("GGAAACC", ".......").is_empty());
        assert!(rows("GGAAAC", "(....)").contains(&(TURN_OF_FOUR + 2 * 256 + 2 * 64)));
    }
}
