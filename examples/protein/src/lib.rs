//! Energies of lattice proteins by an efficiently updatable network.
//!
//! A chain of residues lies on a square lattice; residues that touch without being neighbours in the chain are in contact, and the
//! energy depends on who touches whom. A step moves a few residues, so few contacts come and go ([`Chain::step`]), and a network's
//! accumulator follows them ([`Search`]). Two energies are studied: the plain sum of the published energies of contacts, and one
//! in which contacts of the core count the more, the more there are ([`Energy`]).

mod chain;
mod energy;
mod exhaustive;
mod features;
mod fold;

pub use chain::{Chain, Contacts, Place};
pub use energy::{Energy, RESIDUES, Residue};
pub use exhaustive::{Least, least};
pub use features::{Contact, LONGEST, rows_of};
pub use fold::{Annealing, Judge, Search};
