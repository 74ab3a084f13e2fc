//! Features of a folded chain: one for each contact by the kinds of its two residues, active as often as the
//! contact occurs, and one for the length of the chain.

use crate::chain::Chain;
use crate::energy::{NUM_RESIDUE_KINDS, Residue};
use tandem_nnue::Inputs;

/// Maximum length of a chain in residues.
pub const MAX_RESIDUES: usize = 64;

/// Number of unordered pairs of residue kinds.
const CONTACTS: usize = NUM_RESIDUE_KINDS * (NUM_RESIDUE_KINDS + 1) / 2;

/// Maximum number of contacts: a residue within the chain has two free neighbours on a square lattice, one at
/// an end three, and each contact has two residues.
const MAX_CONTACTS: usize = MAX_RESIDUES + 1;

/// Feature set of a network whose inputs are the contacts of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContactFeatures;

impl ContactFeatures {
    /// Feature index of a contact between two residues, in either order.
    #[inline]
    pub fn contact(a: Residue, b: Residue) -> u32 {
        let (low, high) = (a.index().min(b.index()), a.index().max(b.index()));
        (low * NUM_RESIDUE_KINDS - low * low.saturating_sub(1) / 2 + high - low) as u32
    }

    /// Feature index of a chain's length in residues.
    pub fn length(residues: usize) -> u32 {
        (CONTACTS + residues.min(MAX_RESIDUES)) as u32
    }
}

impl Inputs for ContactFeatures {
    const SIDES: usize = 1;

    fn name(&self) -> &str {
        "protein-contacts-1"
    }

    fn num_inputs(&self) -> usize {
        CONTACTS + MAX_RESIDUES + 1
    }

    fn max_active(&self) -> usize {
        MAX_CONTACTS + 1
    }

    fn may_repeat(&self) -> bool {
        true
    }
}

/// Indices of all active features of a chain, with repetitions.
pub fn active_features(chain: &Chain) -> Vec<u32> {
    let mut features = Vec::new();
    append_features(chain, &mut features);
    features
}

/// Appends the active features of a chain to `features`.
pub(crate) fn append_features(chain: &Chain, features: &mut Vec<u32>) {
    let residues = chain.residues();
    features.push(ContactFeatures::length(residues.len()));
    chain.each_contact(|first, second| {
        features.push(ContactFeatures::contact(residues[first], residues[second]));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contact_has_a_row_of_its_own() {
        let mut seen = [false; CONTACTS];
        for low in 0..NUM_RESIDUE_KINDS {
            for high in low..NUM_RESIDUE_KINDS {
                let [a, b] = [low, high].map(|index| Residue::new(index).unwrap());
                assert_eq!(ContactFeatures::contact(a, b), ContactFeatures::contact(b, a));
                let feature = &mut seen[ContactFeatures::contact(a, b) as usize];
                assert!(!std::mem::replace(feature, true));
            }
        }
        assert!(seen.iter().all(|&seen| seen));
    }
}
