//! A chain of residues on a square lattice, and the steps that it makes.

use crate::energy::Residue;
use crate::features::LONGEST;
use tandem_chess::random::SplitMix;

/// A place of the lattice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Across.
    pub x: i16,
    /// Up.
    pub y: i16,
}

impl Place {
    fn shifted(self, (x, y): (i16, i16)) -> Self {
        Self { x: self.x + x, y: self.y + y }
    }

    fn touches(self, other: Self) -> bool {
        (self.x - other.x).abs() + (self.y - other.y).abs() == 1
    }
}

pub(crate) const DIRECTIONS: [(i16, i16); 4] = [(1, 0), (0, 1), (-1, 0), (0, -1)];

/// Places of the lattice for each direction. A chain that nears the edge is put back into the middle.
const SIDE: usize = 4 * LONGEST;

/// Marks a place where nobody is.
const NOBODY: u8 = u8::MAX;

/// Contacts that come and go, by the numbers of both residues, the lower first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contacts {
    /// Those that come.
    pub added: Vec<(usize, usize)>,
    /// Those that go.
    pub removed: Vec<(usize, usize)>,
}

/// A chain on the lattice. No two residues are in one place, and neighbours of the chain touch.
#[derive(Clone)]
pub struct Chain {
    residues: Vec<Residue>,
    places: Vec<Place>,
    /// Who is where.
    lattice: Vec<u8>,
    /// Who moved in the step at hand, and from where.
    before: Vec<(usize, Place)>,
}

impl Chain {
    /// A straight chain.
    ///
    /// # Panics
    /// If it is longer than [`LONGEST`].
    pub fn straight(residues: Vec<Residue>) -> Self {
        assert!(residues.len() <= LONGEST, "{} residues", residues.len());
        let (middle, start) = ((SIDE / 2) as i16, ((SIDE - residues.len()) / 2) as i16);
        let places =
            (0..residues.len() as i16).map(|number| Place { x: start + number, y: middle }).collect();
        let mut chain = Self { residues, places, lattice: vec![NOBODY; SIDE * SIDE], before: Vec::new() };
        chain.lay();
        chain
    }

    /// A chain that lies as told. Nothing comes back if that cannot be.
    pub fn folded(residues: Vec<Residue>, places: &[Place]) -> Option<Self> {
        let mut chain = Self::straight(residues);
        if places.len() != chain.places.len() || places.windows(2).any(|two| !two[0].touches(two[1])) {
            return None;
        }
        let Some(&first) = places.first() else { return Some(chain) };
        chain.lift();
        let middle = (SIDE / 2) as i16;
        // It is shorter than the way to the edge.
        chain.places =
            places.iter().map(|place| place.shifted((middle - first.x, middle - first.y))).collect();
        for number in 0..chain.places.len() {
            if chain.at(chain.places[number]).is_some() {
                return None;
            }
            chain.put(number);
        }
        Some(chain)
    }

    /// The residues.
    pub fn residues(&self) -> &[Residue] {
        &self.residues
    }

    /// Where they are.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    fn cell(place: Place) -> usize {
        place.y as usize * SIDE + place.x as usize
    }

    fn lay(&mut self) {
        (0..self.places.len()).for_each(|number| self.put(number));
    }

    fn lift(&mut self) {
        for place in &self.places {
            self.lattice[Self::cell(*place)] = NOBODY;
        }
    }

    fn put(&mut self, number: usize) {
        self.lattice[Self::cell(self.places[number])] = number as u8;
    }

    /// Who is at a place.
    #[inline]
    fn at(&self, place: Place) -> Option<usize> {
        let number = self.lattice[Self::cell(place)];
        (number != NOBODY).then_some(usize::from(number))
    }

    /// All contacts, each once.
    pub fn contacts(&self) -> Vec<(usize, usize)> {
        let mut contacts = Vec::new();
        self.each_contact(|first, second| contacts.push((first, second)));
        contacts
    }

    /// Tells all contacts, each once.
    #[inline]
    pub(crate) fn each_contact(&self, mut found: impl FnMut(usize, usize)) {
        for (number, place) in self.places.iter().enumerate() {
            // Half of the directions meet every two once.
            for direction in &DIRECTIONS[..2] {
                if let Some(other) = self.at(place.shifted(*direction))
                    && number.abs_diff(other) > 1
                {
                    found(number.min(other), number.max(other));
                }
            }
        }
    }

    /// Makes a step that chance proposes: pulls the chain by one residue to a free corner, or by one of its ends, and as many
    /// neighbours after it as must follow. Says whether there was any step; `contacts` are those that come and go.
    pub fn step(&mut self, random: &mut SplitMix, contacts: &mut Contacts) -> bool {
        self.centre();
        self.before.clear();
        contacts.added.clear();
        contacts.removed.clear();
        let len = self.places.len();
        if len < 3 {
            return false;
        }
        let number = random.below(len as u32) as usize;
        // The chain is pulled towards its end or towards its beginning.
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
                // To a place beside the next residue and across from the own: the fourth corner must be free or the previous one's.
                let to = self.places[next].shifted(direction);
                let own = self.places[number];
                if (to.x - own.x).abs() != 1 || (to.y - own.y).abs() != 1 {
                    return false;
                }
                let corner =
                    Place { x: own.x + to.x - self.places[next].x, y: own.y + to.y - self.places[next].y };
                (to, corner)
            }
            // An end goes two places on; the chain follows it.
            None => {
                let corner = self.places[number].shifted(direction);
                (corner.shifted(DIRECTIONS[random.below(4) as usize]), corner)
            }
        };
        if self.at(to).is_some() {
            return false;
        }
        let is_previous = previous(number).is_some_and(|previous| self.places[previous] == corner);
        if !is_previous && self.at(corner).is_some() {
            return false;
        }
        let (mut moved, mut place) = (number, to);
        loop {
            self.before.push((moved, self.places[moved]));
            self.places[moved] = place;
            let Some(follower) = previous(moved) else { break };
            if self.places[follower].touches(place) {
                break;
            }
            // The first to follow goes to the corner, each other to where the one two before it was.
            place = match self.before.len() {
                1 => corner,
                count => self.before[count - 2].1,
            };
            moved = follower;
        }
        self.count(contacts);
        true
    }

    /// Finds the contacts that the step at hand changed; the lattice still holds the old places.
    fn count(&mut self, contacts: &mut Contacts) {
        let before = std::mem::take(&mut self.before);
        // Those who move are neighbours in the chain.
        let low = before.iter().map(|&(number, _)| number).min().unwrap_or(0);
        let moved = low..low + before.len();
        let note = |chain: &Self, number: usize, place: Place, list: &mut Vec<(usize, usize)>| {
            for direction in DIRECTIONS {
                // Two who both move would else be met twice.
                if let Some(other) = chain.at(place.shifted(direction))
                    && number.abs_diff(other) > 1
                    && (number < other || !moved.contains(&other))
                {
                    list.push((number.min(other), number.max(other)));
                }
            }
        };
        for &(number, place) in &before {
            note(self, number, place, &mut contacts.removed);
        }
        for &(_, place) in &before {
            self.lattice[Self::cell(place)] = NOBODY;
        }
        before.iter().for_each(|&(number, _)| self.put(number));
        for &(number, _) in &before {
            note(self, number, self.places[number], &mut contacts.added);
        }
        self.before = before;
    }

    /// Takes the last step back.
    pub fn take_back(&mut self) {
        for &(number, _) in &self.before {
            self.lattice[Self::cell(self.places[number])] = NOBODY;
        }
        for at in 0..self.before.len() {
            let (number, place) = self.before[at];
            self.places[number] = place;
            self.put(number);
        }
        self.before.clear();
    }

    /// Whether no step can lead beyond the edge, however the chain is stretched: an end goes two places on, and is asked for its
    /// neighbours there.
    fn is_central(&self) -> bool {
        let edge = LONGEST as i16 + 3;
        let inside = |at: i16| at > edge && at < SIDE as i16 - edge;
        self.places.first().is_none_or(|first| inside(first.x) && inside(first.y))
    }

    /// Who moved in the last step, and where to.
    pub fn moved(&self) -> Vec<(usize, Place)> {
        self.before.iter().map(|&(number, _)| (number, self.places[number])).collect()
    }

    /// Makes a step again that [`Self::moved`] told. The contacts that come and go are found, if somebody asks for them.
    pub fn repeat(&mut self, moved: &[(usize, Place)], contacts: Option<&mut Contacts>) {
        self.before.clear();
        self.before.extend(moved.iter().map(|&(number, _)| (number, self.places[number])));
        for &(number, place) in moved {
            self.places[number] = place;
        }
        match contacts {
            Some(contacts) => {
                contacts.added.clear();
                contacts.removed.clear();
                self.count(contacts);
            }
            None => {
                for at in 0..self.before.len() {
                    let cell = Self::cell(self.before[at].1);
                    self.lattice[cell] = NOBODY;
                }
                moved.iter().for_each(|&(number, _)| self.put(number));
            }
        }
    }

    /// Puts the chain into the middle if it has come near the edge.
    fn centre(&mut self) {
        let Some(&first) = self.places.first() else { return };
        if self.is_central() {
            return;
        }
        self.lift();
        let middle = (SIDE / 2) as i16;
        for place in &mut self.places {
            *place = place.shifted((middle - first.x, middle - first.y));
        }
        self.lay();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::energy::RESIDUES;

    pub(crate) fn random_residues(len: usize, random: &mut SplitMix) -> Vec<Residue> {
        (0..len).filter_map(|_| Residue::new(random.below(RESIDUES as u32) as usize)).collect()
    }

    fn sorted(mut contacts: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
        contacts.sort_unstable();
        contacts
    }

    /// After every step, taken back or not, the chain is one, and its contacts are those that came and went.
    #[test]
    fn steps_keep_the_chain_whole() {
        let mut random = SplitMix::new(1);
        for len in [3, 4, 12, 36, LONGEST] {
            let mut chain = Chain::straight(random_residues(len, &mut random));
            let mut kept = chain.contacts();
            let mut change = Contacts::default();
            let (mut steps, mut furthest) = (0, 0);
            for number in 0..30_000 {
                let before = chain.places.clone();
                if !chain.step(&mut random, &mut change) {
                    continue;
                }
                steps += 1;
                furthest = furthest.max(chain.before.len());
                assert!(chain.places.windows(2).all(|two| two[0].touches(two[1])), "{:?}", chain.places);
                assert!(Chain::folded(chain.residues.clone(), &chain.places).is_some());
                if number % 3 == 0 {
                    // The same step again, counted or not, leads to the same place.
                    let moved = chain.moved();
                    let there = chain.places.clone();
                    let mut again = Contacts::default();
                    chain.take_back();
                    chain.repeat(&moved, Some(&mut again));
                    assert_eq!((&again, &chain.places), (&change, &there));
                    chain.take_back();
                    chain.repeat(&moved, None);
                    assert_eq!(
                        sorted(chain.contacts()),
                        sorted(Chain::folded(chain.residues.clone(), &there).unwrap().contacts())
                    );
                    chain.take_back();
                    let shift = (before[0].x - chain.places[0].x, before[0].y - chain.places[0].y);
                    let back: Vec<Place> = chain.places.iter().map(|place| place.shifted(shift)).collect();
                    assert_eq!(back, before);
                } else {
                    for contact in &change.removed {
                        let at = kept.iter().position(|other| other == contact).unwrap();
                        kept.swap_remove(at);
                    }
                    kept.extend(&change.added);
                }
                assert_eq!(sorted(kept.clone()), sorted(chain.contacts()));
            }
            assert!(steps > 1000 && furthest >= len.min(10), "{steps} {furthest}");
        }
    }

    #[test]
    fn a_chain_that_lies_on_itself_is_none() {
        let mut random = SplitMix::new(2);
        let place = |x, y| Place { x, y };
        let residues = random_residues(4, &mut random);
        let square = [place(0, 0), place(1, 0), place(1, 1), place(0, 1)];
        assert_eq!(Chain::folded(residues.clone(), &square).unwrap().contacts(), [(0, 3)]);
        for wrong in [
            vec![place(0, 0), place(1, 0), place(0, 0), place(0, 1)],
            vec![place(0, 0), place(1, 1), place(1, 2), place(0, 2)],
            square[..3].to_vec(),
        ] {
            assert!(Chain::folded(residues.clone(), &wrong).is_none());
        }
    }

    /// A chain stretched towards the edge, as far out as a step leaves it, is pulled on for as long as it likes.
    #[test]
    fn the_edge_is_never_reached() {
        let mut random = SplitMix::new(7);
        for direction in DIRECTIONS {
            let residues = random_residues(LONGEST, &mut random);
            let mut chain = Chain::straight(residues);
            chain.lift();
            let edge = LONGEST as i16 + 4;
            let near = |step: i16| if step < 0 { edge } else { SIDE as i16 - 1 - edge };
            let middle = (SIDE / 2) as i16;
            let first = Place {
                x: if direction.0 == 0 { middle } else { near(direction.0) },
                y: if direction.1 == 0 { middle } else { near(direction.1) },
            };
            let far = |number: i16| first.shifted((direction.0 * number, direction.1 * number));
            chain.places = (0..LONGEST as i16).map(far).collect();
            chain.lay();
            let mut contacts = Contacts::default();
            for _ in 0..3000 {
                let before = chain.clone();
                chain.step(&mut random, &mut contacts);
                // Always from the same place, where the edge is nearest.
                if contacts.added.is_empty() {
                    chain = before;
                }
            }
        }
    }
}
