//! A chain of residues on a square lattice, its contacts, and the moves that a search makes (pull moves).

use crate::energy::Residue;
use crate::features::MAX_RESIDUES;
use tandem_util::random::SplitMix;

/// A point of the square lattice. Points with a distance of one are adjacent; diagonal ones are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatticePoint {
    /// Horizontal coordinate, growing to the right.
    pub x: i16,
    /// Vertical coordinate, growing upwards.
    pub y: i16,
}

impl LatticePoint {
    fn shifted(self, (x, y): (i16, i16)) -> Self {
        Self { x: self.x + x, y: self.y + y }
    }

    fn touches(self, other: Self) -> bool {
        (self.x - other.x).abs() + (self.y - other.y).abs() == 1
    }
}

pub(crate) const DIRECTIONS: [(i16, i16); 4] = [(1, 0), (0, 1), (-1, 0), (0, -1)];

/// Width and height of the lattice. A chain that comes near the edge is moved back to the middle.
const SIDE: usize = 4 * MAX_RESIDUES;

/// Marks an empty lattice point.
const EMPTY: u8 = u8::MAX;

/// Contacts that a step adds and removes, as pairs of residue positions in the chain, the lower one first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContactChange {
    /// Contacts that exist only after the step, each listed once.
    pub added: Vec<(usize, usize)>,
    /// Contacts that existed only before the step, each listed once.
    pub removed: Vec<(usize, usize)>,
}

/// A chain folded on the lattice. No two residues share a point, and neighbours in the chain are on adjacent
/// points.
#[derive(Clone)]
pub struct Chain {
    residues: Vec<Residue>,
    points: Vec<LatticePoint>,
    /// Position in the chain of the residue on each lattice point, or `EMPTY`.
    lattice: Vec<u8>,
    /// Positions of the residues that the last step moved, with their points before it.
    before: Vec<(usize, LatticePoint)>,
}

impl Chain {
    /// Creates a straight chain in the middle of the lattice.
    ///
    /// # Panics
    ///
    /// If it is longer than [`MAX_RESIDUES`].
    pub fn straight(residues: Vec<Residue>) -> Self {
        assert!(residues.len() <= MAX_RESIDUES, "{} residues", residues.len());
        let (middle, start) = ((SIDE / 2) as i16, ((SIDE - residues.len()) / 2) as i16);
        let points =
            (0..residues.len() as i16).map(|number| LatticePoint { x: start + number, y: middle }).collect();
        let mut chain = Self { residues, points, lattice: vec![EMPTY; SIDE * SIDE], before: Vec::new() };
        chain.place_all();
        chain
    }

    /// Creates a chain in a given fold, shifted so that it starts in the middle of the lattice. Returns
    /// `None` if the points are not one for each residue, not adjacent, or occupied twice.
    pub fn folded(residues: Vec<Residue>, points: &[LatticePoint]) -> Option<Self> {
        let mut chain = Self::straight(residues);
        if points.len() != chain.points.len() || points.windows(2).any(|two| !two[0].touches(two[1])) {
            return None;
        }
        let Some(&first) = points.first() else { return Some(chain) };
        chain.remove_all();
        let middle = (SIDE / 2) as i16;
        // The chain is shorter than the distance from the middle to the edge.
        chain.points =
            points.iter().map(|point| point.shifted((middle - first.x, middle - first.y))).collect();
        for number in 0..chain.points.len() {
            if chain.at(chain.points[number]).is_some() {
                return None;
            }
            chain.place(number);
        }
        Some(chain)
    }

    /// Kinds of the residues in the order of the chain.
    pub fn residues(&self) -> &[Residue] {
        &self.residues
    }

    /// Lattice points of the residues in the order of the chain.
    pub fn points(&self) -> &[LatticePoint] {
        &self.points
    }

    fn cell(point: LatticePoint) -> usize {
        point.y as usize * SIDE + point.x as usize
    }

    fn place_all(&mut self) {
        (0..self.points.len()).for_each(|number| self.place(number));
    }

    fn remove_all(&mut self) {
        for point in &self.points {
            self.lattice[Self::cell(*point)] = EMPTY;
        }
    }

    fn place(&mut self, number: usize) {
        self.lattice[Self::cell(self.points[number])] = number as u8;
    }

    /// Position in the chain of the residue on a lattice point; `None` if it is empty.
    #[inline]
    fn at(&self, point: LatticePoint) -> Option<usize> {
        let number = self.lattice[Self::cell(point)];
        (number != EMPTY).then_some(usize::from(number))
    }

    /// All contacts, each listed once, as pairs of positions in the chain.
    pub fn contacts(&self) -> Vec<(usize, usize)> {
        let mut contacts = Vec::new();
        self.each_contact(|first, second| contacts.push((first, second)));
        contacts
    }

    /// Calls `found` for every contact once, with the lower position first.
    #[inline]
    pub(crate) fn each_contact(&self, mut found: impl FnMut(usize, usize)) {
        for (number, point) in self.points.iter().enumerate() {
            // Two of the four directions find every pair of adjacent points once.
            for direction in &DIRECTIONS[..2] {
                if let Some(other) = self.at(point.shifted(*direction))
                    && number.abs_diff(other) > 1
                {
                    found(number.min(other), number.max(other));
                }
            }
        }
    }

    /// Makes a random pull move: a residue goes to a free corner, or an end moves on by two points, and as
    /// many neighbours follow as necessary to keep the chain connected. `contacts` returns the change.
    /// Returns false, without a change, if the chosen move is not possible.
    pub fn step(&mut self, random: &mut SplitMix, contacts: &mut ContactChange) -> bool {
        self.centre();
        self.before.clear();
        contacts.added.clear();
        contacts.removed.clear();
        let len = self.points.len();
        if len < 3 {
            return false;
        }
        let number = random.below(len as u32) as usize;
        // Neighbours after or before the residue follow it, depending on the direction of the pull.
        let forwards = random.below(2) == 0;
        let next = |number: usize| {
            if forwards { number.checked_add(1).filter(|&n| n < len) } else { number.checked_sub(1) }
        };
        let previous = |number: usize| {
            if forwards { number.checked_sub(1) } else { Some(number + 1).filter(|&n| n < len) }
        };
        let direction = DIRECTIONS[random.below(4) as usize];
        let (to, corner) = match next(number) {
            Some(next) => {
                // The target is adjacent to the next residue and diagonal to the residue's own point. The
                // fourth corner of that square must be empty or hold the previous residue.
                let to = self.points[next].shifted(direction);
                let own = self.points[number];
                if (to.x - own.x).abs() != 1 || (to.y - own.y).abs() != 1 {
                    return false;
                }
                let corner = LatticePoint {
                    x: own.x + to.x - self.points[next].x,
                    y: own.y + to.y - self.points[next].y,
                };
                (to, corner)
            }
            // An end moves on by two points, and the chain follows it.
            None => {
                let corner = self.points[number].shifted(direction);
                (corner.shifted(DIRECTIONS[random.below(4) as usize]), corner)
            }
        };
        if self.at(to).is_some() {
            return false;
        }
        let is_previous = previous(number).is_some_and(|previous| self.points[previous] == corner);
        if !is_previous && self.at(corner).is_some() {
            return false;
        }
        let (mut moved, mut point) = (number, to);
        loop {
            self.before.push((moved, self.points[moved]));
            self.points[moved] = point;
            let Some(follower) = previous(moved) else { break };
            if self.points[follower].touches(point) {
                break;
            }
            // The first follower goes to the corner, every other one to the former point of the residue two
            // before it.
            point = match self.before.len() {
                1 => corner,
                count => self.before[count - 2].1,
            };
            moved = follower;
        }
        self.find_change(contacts);
        true
    }

    /// Finds the contacts that the current step changes; the lattice still holds the old points.
    fn find_change(&mut self, contacts: &mut ContactChange) {
        let before = std::mem::take(&mut self.before);
        // The residues that move are consecutive in the chain.
        let low = before.iter().map(|&(number, _)| number).min().unwrap_or(0);
        let moved = low..low + before.len();
        let note = |chain: &Self, number: usize, point: LatticePoint, list: &mut Vec<(usize, usize)>| {
            for direction in DIRECTIONS {
                // A contact of two moving residues would otherwise be found twice.
                if let Some(other) = chain.at(point.shifted(direction))
                    && number.abs_diff(other) > 1
                    && (number < other || !moved.contains(&other))
                {
                    list.push((number.min(other), number.max(other)));
                }
            }
        };
        for &(number, point) in &before {
            note(self, number, point, &mut contacts.removed);
        }
        for &(_, point) in &before {
            self.lattice[Self::cell(point)] = EMPTY;
        }
        before.iter().for_each(|&(number, _)| self.place(number));
        for &(number, _) in &before {
            note(self, number, self.points[number], &mut contacts.added);
        }
        self.before = before;
    }

    /// Undoes the last step that returned true; a second call has no effect.
    pub fn undo(&mut self) {
        for &(number, _) in &self.before {
            self.lattice[Self::cell(self.points[number])] = EMPTY;
        }
        for at in 0..self.before.len() {
            let (number, point) = self.before[at];
            self.points[number] = point;
            self.place(number);
        }
        self.before.clear();
    }

    /// True if no step can reach the edge however the chain is stretched. An end moves on by two points, and
    /// its neighbours there are inspected.
    fn is_central(&self) -> bool {
        let edge = MAX_RESIDUES as i16 + 3;
        let inside = |at: i16| at > edge && at < SIDE as i16 - edge;
        self.points.first().is_none_or(|first| inside(first.x) && inside(first.y))
    }

    /// Positions of the residues that the last step moved, with their new points, for [`Self::replay`].
    pub fn moved(&self) -> Vec<(usize, LatticePoint)> {
        self.before.iter().map(|&(number, _)| (number, self.points[number])).collect()
    }

    /// Repeats a step that [`Self::moved`] returned. The change of contacts is computed only if it is
    /// requested.
    pub fn replay(&mut self, moved: &[(usize, LatticePoint)], contacts: Option<&mut ContactChange>) {
        self.before.clear();
        self.before.extend(moved.iter().map(|&(number, _)| (number, self.points[number])));
        for &(number, point) in moved {
            self.points[number] = point;
        }
        match contacts {
            Some(contacts) => {
                contacts.added.clear();
                contacts.removed.clear();
                self.find_change(contacts);
            }
            None => {
                for at in 0..self.before.len() {
                    let cell = Self::cell(self.before[at].1);
                    self.lattice[cell] = EMPTY;
                }
                moved.iter().for_each(|&(number, _)| self.place(number));
            }
        }
    }

    /// Moves the chain to the middle of the lattice if it has come near the edge.
    fn centre(&mut self) {
        let Some(&first) = self.points.first() else { return };
        if self.is_central() {
            return;
        }
        self.remove_all();
        let middle = (SIDE / 2) as i16;
        for point in &mut self.points {
            *point = point.shifted((middle - first.x, middle - first.y));
        }
        self.place_all();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::energy::NUM_RESIDUE_KINDS;

    pub(crate) fn random_residues(len: usize, random: &mut SplitMix) -> Vec<Residue> {
        (0..len).filter_map(|_| Residue::new(random.below(NUM_RESIDUE_KINDS as u32) as usize)).collect()
    }

    fn sorted(mut contacts: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
        contacts.sort_unstable();
        contacts
    }

    /// After every step, undone or not, the chain is valid, and its contacts match the reported changes.
    #[test]
    fn steps_keep_the_chain_valid() {
        let mut random = SplitMix::new(1);
        for len in [3, 4, 12, 36, MAX_RESIDUES] {
            let mut chain = Chain::straight(random_residues(len, &mut random));
            let mut contacts_now = chain.contacts();
            let mut change = ContactChange::default();
            let (mut steps, mut furthest) = (0, 0);
            for number in 0..30_000 {
                let before = chain.points.clone();
                if !chain.step(&mut random, &mut change) {
                    continue;
                }
                steps += 1;
                furthest = furthest.max(chain.before.len());
                assert!(chain.points.windows(2).all(|two| two[0].touches(two[1])), "{:?}", chain.points);
                assert!(Chain::folded(chain.residues.clone(), &chain.points).is_some());
                if number % 3 == 0 {
                    // The same step again, with or without its contacts, leads to the same fold.
                    let moved = chain.moved();
                    let there = chain.points.clone();
                    let mut again = ContactChange::default();
                    chain.undo();
                    chain.replay(&moved, Some(&mut again));
                    assert_eq!((&again, &chain.points), (&change, &there));
                    chain.undo();
                    chain.replay(&moved, None);
                    assert_eq!(
                        sorted(chain.contacts()),
                        sorted(Chain::folded(chain.residues.clone(), &there).unwrap().contacts())
                    );
                    chain.undo();
                    let shift = (before[0].x - chain.points[0].x, before[0].y - chain.points[0].y);
                    let back: Vec<LatticePoint> =
                        chain.points.iter().map(|point| point.shifted(shift)).collect();
                    assert_eq!(back, before);
                } else {
                    for contact in &change.removed {
                        let at = contacts_now.iter().position(|other| other == contact).unwrap();
                        contacts_now.swap_remove(at);
                    }
                    contacts_now.extend(&change.added);
                }
                assert_eq!(sorted(contacts_now.clone()), sorted(chain.contacts()));
            }
            assert!(steps > 1000 && furthest >= len.min(10), "{steps} {furthest}");
        }
    }

    #[test]
    fn chains_that_overlap_or_break_are_refused() {
        let mut random = SplitMix::new(2);
        let point = |x, y| LatticePoint { x, y };
        let residues = random_residues(4, &mut random);
        let square = [point(0, 0), point(1, 0), point(1, 1), point(0, 1)];
        assert_eq!(Chain::folded(residues.clone(), &square).unwrap().contacts(), [(0, 3)]);
        for invalid in [
            vec![point(0, 0), point(1, 0), point(0, 0), point(0, 1)],
            vec![point(0, 0), point(1, 1), point(1, 2), point(0, 2)],
            square[..3].to_vec(),
        ] {
            assert!(Chain::folded(residues.clone(), &invalid).is_none());
        }
    }

    /// A chain that is stretched towards the edge, as far out as a step may leave it, is pulled further and
    /// further.
    #[test]
    fn the_edge_is_never_reached() {
        let mut random = SplitMix::new(7);
        for direction in DIRECTIONS {
            let residues = random_residues(MAX_RESIDUES, &mut random);
            let mut chain = Chain::straight(residues);
            chain.remove_all();
            let edge = MAX_RESIDUES as i16 + 4;
            let near = |step: i16| if step < 0 { edge } else { SIDE as i16 - 1 - edge };
            let middle = (SIDE / 2) as i16;
            let first = LatticePoint {
                x: if direction.0 == 0 { middle } else { near(direction.0) },
                y: if direction.1 == 0 { middle } else { near(direction.1) },
            };
            let far = |number: i16| first.shifted((direction.0 * number, direction.1 * number));
            chain.points = (0..MAX_RESIDUES as i16).map(far).collect();
            chain.place_all();
            let mut contacts = ContactChange::default();
            let mut nearest = i16::MAX;
            for _ in 0..3000 {
                let before = chain.clone();
                chain.step(&mut random, &mut contacts);
                let distances = chain
                    .points
                    .iter()
                    .flat_map(|point| [point.x, point.y].map(|at| at.min(SIDE as i16 - 1 - at)));
                nearest = distances.fold(nearest, i16::min);
                // Always from the same fold, where the edge is nearest.
                if contacts.added.is_empty() {
                    chain = before;
                }
            }
            // The chain is as long as it can be, so it comes near; the next point out is inspected by a step.
            assert!((1..10).contains(&nearest), "{nearest} points from the edge");
        }
    }
}
