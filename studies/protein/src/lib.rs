//! Energies of lattice proteins by an efficiently updatable network.
//!
//! A chain of residues lies on a square lattice. Residues on adjacent points that are not neighbours in the
//! chain are in contact, and the energy depends on the kinds of residues in contact. A step moves a few
//! residues and so changes few contacts ([`Chain::step`]), which the accumulator of a network can follow
//! ([`Search`]). Two energies are studied: the plain sum of published contact energies, and a cooperative
//! one, in which contacts of the core strengthen each other ([`Energy`]).

mod chain;
mod energy;
mod exhaustive;
mod features;
mod fold;

pub use chain::{Chain, ContactChange, LatticePoint};
pub use energy::{Energy, NUM_RESIDUE_KINDS, Residue};
pub use exhaustive::{GroundState, ground_state};
pub use features::{ContactFeatures, MAX_RESIDUES, active_features};
pub use fold::{Annealing, Evaluator, Search};
