//! Free energies of RNA secondary structures by an efficiently updatable network.
//!
//! A secondary structure is a set of base pairs that do not cross. The pairs cut it into loops, and the
//! composition of each loop activates features ([`LoopFeatures`]). Adding or removing a pair changes two or
//! three loops, so the accumulator of a network can follow a search pair by pair ([`Search`]). The energies
//! to learn from come from ViennaRNA by way of the script `vienna.py` beside this crate.

mod features;
mod fold;
mod molecule;

pub use features::{FeatureChange, LoopFeatures, MAX_BASES, active_features};
pub use fold::{Annealing, Search};
pub use molecule::{Base, MoleculeError, PairKind, Sequence, Structure};
