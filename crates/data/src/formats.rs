//! Codecs of the formats, one file each, and what several of them share.

pub(crate) mod bag;
pub(crate) mod bin;
pub(crate) mod binpack;
mod bits;
pub(crate) mod bullet;
pub(crate) mod csv;
pub(crate) mod epd;
mod game;
pub(crate) mod lc0;
pub(crate) mod pgn;
pub(crate) mod plain;
mod tar;
pub(crate) mod viri;

#[cfg(test)]
pub(crate) mod samples;

pub use game::GameTracker;

/// True if the castling rights are those of standard chess: kings and castling rooks on their usual squares.
pub(crate) fn is_ordinary(position: &crate::Packed) -> bool {
    bin::ordinary_rights(position).is_some()
}
