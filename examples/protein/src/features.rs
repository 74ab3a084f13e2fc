//! Which rows a folded chain turns on: one for each contact by the two residues, as often as there is one, and one for the
//! chain's length.

use crate::chain::Chain;
use crate::energy::{RESIDUES, Residue};
use tandem_nnue::Inputs;

/// The longest chain.
pub const LONGEST: usize = 64;

/// Contacts by their residues, whichever comes first.
const CONTACTS: usize = RESIDUES * (RESIDUES + 1) / 2;

/// On a square lattice a residue within the chain has two other neighbours.
const MOST_CONTACTS: usize = LONGEST + 1;

/// The inputs of a network that reads contacts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contact;

impl Contact {
    /// The row of a contact between two residues.
    #[inline]
    pub fn row(a: Residue, b: Residue) -> u32 {
        let (low, high) = (a.index().min(b.index()), a.index().max(b.index()));
        (low * RESIDUES - low * low.saturating_sub(1) / 2 + high - low) as u32
    }

    /// The row of a length.
    pub fn length(residues: usize) -> u32 {
        (CONTACTS + residues.min(LONGEST)) as u32
    }
}

impl Inputs for Contact {
    const SIDES: usize = 1;

    fn name(&self) -> &str {
        "protein-contacts-1"
    }

    fn num_inputs(&self) -> usize {
        CONTACTS + LONGEST + 1
    }

    fn max_active(&self) -> usize {
        MOST_CONTACTS + 1
    }

    fn may_repeat(&self) -> bool {
        true
    }
}

/// All rows that a chain turns on.
pub fn rows_of(chain: &Chain) -> Vec<u32> {
    let mut rows = Vec::new();
    add_rows(chain, &mut rows);
    rows
}

/// The same, added to those that are there.
pub(crate) fn add_rows(chain: &Chain, rows: &mut Vec<u32>) {
    let residues = chain.residues();
    rows.push(Contact::length(residues.len()));
    chain.each_contact(|first, second| rows.push(Contact::row(residues[first], residues[second])));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contact_has_a_row_of_its_own() {
        let mut seen = [false; CONTACTS];
        for low in 0..RESIDUES {
            for high in low..RESIDUES {
                let [a, b] = [low, high].map(|index| Residue::new(index).unwrap());
                assert_eq!(Contact::row(a, b), Contact::row(b, a));
                let row = &mut seen[Contact::row(a, b) as usize];
                assert!(!std::mem::replace(row, true));
            }
        }
        assert!(seen.iter().all(|&seen| seen));
    }
}
