//! Free energies of RNA's secondary structures by an efficiently updatable network.
//!
//! A structure is a set of pairs that do not cross. Pairs cut it into loops, and what a loop is made of turns rows on
//! ([`Loops`]): a pair more or less changes two or three loops, so a network's accumulator follows a search pair by pair
//! ([`Search`]). Energies to learn from are those of ViennaRNA; `vienna.py` beside this crate asks for them.

mod features;
mod fold;
mod molecule;

pub use features::{Change, Loops, MOST_BASES, rows_of};
pub use fold::{Annealing, Search};
pub use molecule::{Base, MoleculeError, PairKind, Sequence, Structure};
