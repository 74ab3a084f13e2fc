//! What contacts are worth.

/// How many residues there are.
pub const RESIDUES: usize = 20;

/// Those whose contacts make up the core.
const CORE: usize = 8;

/// Energies of contacts in units of RT, times 100: Miyazawa and Jernigan, Journal of Molecular Biology 256 (1996), 623-644,
/// table 3, above the diagonal, in its order: C, M, F, I, L, V, W, Y, A, G, T, S, N, Q, D, E, H, R, K, P. A row begins with the
/// residue's contact with itself.
#[rustfmt::skip]
const CONTACTS: [&[i16]; RESIDUES] = [
    &[-544, -499, -580, -550, -583, -496, -495, -416, -357, -316, -311, -286, -259, -285, -241, -227, -360, -257, -195, -307],
    &[-546, -656, -602, -641, -532, -555, -491, -394, -339, -351, -303, -295, -330, -257, -289, -398, -312, -248, -345],
    &[-726, -684, -728, -629, -616, -566, -481, -413, -428, -402, -375, -410, -348, -356, -477, -398, -336, -425],
    &[-654, -704, -605, -578, -525, -458, -378, -403, -352, -324, -367, -317, -327, -414, -363, -301, -376],
    &[-737, -648, -614, -567, -491, -416, -434, -392, -374, -404, -340, -359, -454, -403, -337, -420],
    &[-552, -518, -462, -404, -338, -346, -305, -283, -307, -248, -267, -358, -307, -249, -332],
    &[-506, -466, -382, -342, -322, -299, -307, -311, -284, -299, -398, -341, -269, -373],
    &[-417, -336, -301, -301, -278, -276, -297, -276, -279, -352, -316, -260, -319],
    &[-272, -231, -232, -201, -184, -189, -170, -151, -241, -183, -131, -203],
    &[-224, -208, -182, -174, -166, -159, -122, -215, -172, -115, -187],
    &[-212, -196, -188, -190, -180, -174, -242, -190, -131, -190],
    &[-167, -158, -149, -163, -148, -211, -162, -105, -157],
    &[-168, -171, -168, -151, -208, -164, -121, -153],
    &[-154, -146, -142, -198, -180, -129, -173],
    &[-121, -102, -232, -229, -168, -133],
    &[-91, -215, -227, -180, -126],
    &[-305, -216, -135, -225],
    &[-155, -59, -170],
    &[-12, -97],
    &[-175],
];

/// One of the twenty residues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residue(u8);

impl Residue {
    /// The residue of a number, if there is one.
    pub fn new(index: usize) -> Option<Self> {
        (index < RESIDUES).then_some(Self(index as u8))
    }

    /// Its number.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Whether its contacts belong to the core: cysteine, methionine, phenylalanine, isoleucine, leucine, valine, tryptophan,
    /// tyrosine.
    pub fn is_core(self) -> bool {
        self.index() < CORE
    }
}

/// How the energy of a chain follows from its contacts. Energies are in units of RT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Energy {
    /// The sum of the contacts' own.
    Additive,
    /// That, and what contacts of the core do for each other: -10 RT for each two of them, shared by all residues of the chain.
    Cooperative,
}

/// What two contacts of the core do for each other in a chain of one residue, in hundredths of RT.
const COOPERATION: i64 = 1000;

/// What an energy is made of. Contacts come and go one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The sum of the contacts' energies, in hundredths of RT.
    contacts: i64,
    /// Contacts of the core.
    core: i64,
}

impl Tally {
    /// A contact comes, or goes with a `sign` of -1.
    #[inline]
    pub(crate) fn add(&mut self, a: Residue, b: Residue, sign: i64) {
        let (low, high) = (a.index().min(b.index()), a.index().max(b.index()));
        self.contacts += sign * i64::from(CONTACTS[low][high - low]);
        self.core += sign * i64::from(a.is_core() && b.is_core());
    }

    /// The energy of a chain of so many residues, in hundredths of RT.
    #[inline]
    pub(crate) fn energy(self, energy: Energy, residues: usize) -> i64 {
        match energy {
            Energy::Additive => self.contacts,
            Energy::Cooperative => {
                let pairs = self.core * (self.core - 1) / 2;
                self.contacts - COOPERATION * pairs / residues.max(1) as i64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn residue(letter: char) -> Residue {
        Residue::new("CMFILVWYAGTSNQDEHRKP".find(letter).unwrap()).unwrap()
    }

    fn between(a: char, b: char) -> i64 {
        let mut tally = Tally::default();
        tally.add(residue(a), residue(b), 1);
        tally.energy(Energy::Additive, 10)
    }

    /// Figures that papers like to quote: the strongest contact, the weakest, and salt bridges.
    #[test]
    fn the_table_is_the_published_one() {
        assert_eq!(between('L', 'L'), -737);
        assert_eq!(between('F', 'L'), -728);
        assert_eq!(between('K', 'K'), -12);
        assert_eq!((between('D', 'R'), between('E', 'K')), (-229, -180));
        assert_eq!((between('P', 'C'), between('C', 'P')), (-307, -307));
        for (number, row) in CONTACTS.iter().enumerate() {
            assert_eq!(row.len(), RESIDUES - number);
        }
    }

    #[test]
    fn cooperation_grows_with_pairs_of_contacts() {
        let leucine = residue('L');
        let mut tally = Tally::default();
        for contacts in 1..=4 {
            tally.add(leucine, leucine, 1);
            let own = -737 * contacts;
            let pairs = contacts * (contacts - 1) / 2;
            assert_eq!(tally.energy(Energy::Cooperative, 20), own - 50 * pairs);
        }
        tally.add(leucine, leucine, -1);
        assert_eq!(tally.energy(Energy::Additive, 20), -737 * 3);
    }
}
