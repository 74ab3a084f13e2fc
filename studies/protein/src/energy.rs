//! Energy functions of lattice proteins, computed from the contacts of a chain.

/// Number of kinds of residues: the twenty amino acids.
pub const NUM_RESIDUE_KINDS: usize = 20;

/// Number of residue kinds whose contacts make up the core; they are the first ones in the table.
const CORE: usize = 8;

/// Contact energies in units of RT, times 100: Miyazawa and Jernigan, Journal of Molecular Biology 256
/// (1996), 623-644, table 3, above the diagonal, in its order: C, M, F, I, L, V, W, Y, A, G, T, S, N, Q, D,
/// E, H, R, K, P. Each row begins with the contact of a residue with its own kind.
#[rustfmt::skip]
const CONTACTS: [&[i16]; NUM_RESIDUE_KINDS] = [
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

/// One of the twenty kinds of residues (amino acids), by its index in the table of contact energies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residue(u8);

impl Residue {
    /// Kind with an index below [`NUM_RESIDUE_KINDS`] in the order of the table of contact energies, else `None`.
    pub fn new(index: usize) -> Option<Self> {
        (index < NUM_RESIDUE_KINDS).then_some(Self(index as u8))
    }

    /// Index of the kind in the order of the table of contact energies.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// True if contacts with this residue can belong to the core: cysteine, methionine, phenylalanine,
    /// isoleucine, leucine, valine, tryptophan and tyrosine, which are hydrophobic.
    pub fn is_core(self) -> bool {
        self.index() < CORE
    }
}

/// Energy function of a chain, in units of RT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Energy {
    /// Sum of the published energies of all contacts, which a linear model can represent.
    Additive,
    /// The sum, plus -10 RT for each pair of contacts in the core, divided by the number of residues.
    Cooperative,
}

/// Energy gain for a pair of core contacts, times the number of residues, in hundredths of RT.
const COOPERATION: i64 = 1000;

/// Sufficient statistics of the contacts for both energy functions, updated contact by contact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContactSums {
    /// Sum of the contact energies in hundredths of RT.
    contacts: i64,
    /// Number of contacts between two residues of the core, for the cooperative term.
    core: i64,
}

impl ContactSums {
    /// Adds a contact, or removes it with a `sign` of -1.
    #[inline]
    pub(crate) fn add(&mut self, a: Residue, b: Residue, sign: i64) {
        let (low, high) = (a.index().min(b.index()), a.index().max(b.index()));
        self.contacts += sign * i64::from(CONTACTS[low][high - low]);
        self.core += sign * i64::from(a.is_core() && b.is_core());
    }

    /// Energy of a chain of `residues` residues, in hundredths of RT.
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
        let mut sums = ContactSums::default();
        sums.add(residue(a), residue(b), 1);
        sums.energy(Energy::Additive, 10)
    }

    /// Values that papers often quote: the strongest contact, the weakest, and salt bridges.
    #[test]
    fn the_table_is_the_published_one() {
        assert_eq!(between('L', 'L'), -737);
        assert_eq!(between('F', 'L'), -728);
        assert_eq!(between('K', 'K'), -12);
        assert_eq!((between('D', 'R'), between('E', 'K')), (-229, -180));
        assert_eq!((between('P', 'C'), between('C', 'P')), (-307, -307));
        for (number, row) in CONTACTS.iter().enumerate() {
            assert_eq!(row.len(), NUM_RESIDUE_KINDS - number);
        }
    }

    #[test]
    fn cooperation_grows_with_pairs_of_contacts() {
        let leucine = residue('L');
        let mut sums = ContactSums::default();
        for contacts in 1..=4 {
            sums.add(leucine, leucine, 1);
            let own = -737 * contacts;
            let pairs = contacts * (contacts - 1) / 2;
            assert_eq!(sums.energy(Energy::Cooperative, 20), own - 50 * pairs);
        }
        sums.add(leucine, leucine, -1);
        assert_eq!(sums.energy(Energy::Additive, 20), -737 * 3);
    }
}
