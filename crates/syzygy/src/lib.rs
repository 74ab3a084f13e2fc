//! Syzygy endgame tables: exact results of positions with up to seven pieces.
//!
//! [`Tables::open`] finds the tables of some folders. [`Tables::wdl`] gives the result of a position,
//! [`Tables::dtz`] the distance to the next capture or pawn move, which wins under the fifty-move rule are made of, and
//! [`Tables::rank_moves`] ranks the moves of a position. Use it where results must be exact and fast: hundreds of
//! thousands of probes in a second, from many threads.
//!
//! Tables come from the network and from disks that fail, and a chess program must not crash by them: this crate has no
//! unsafe code, checks every offset that it reads, and takes bounded time and memory for any bytes. [`Tables`] says
//! what is not promised.
//!
//! ```no_run
//! use tandem_chess::Position;
//! use tandem_syzygy::{Tables, Wdl};
//!
//! let tables = Tables::open("/tables/3-4-5:/tables/6")?;
//! let position = Position::from_fen("8/8/8/4k3/8/8/8/KBN5 w - - 0 1")?;
//! assert_eq!(tables.wdl(position.board())?, Wdl::Win);
//! println!("{} plies at most", tables.dtz(position.board())?.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The format is by Ronald de Man. A file has, in this order: a header with the order of the pieces by which its
//! positions are numbered (`layout`, `squares`), headers of the compressed values (`pairs`), for distances a map
//! from numbers to distances (`table`), a sparse index, the lengths of the blocks, the blocks, and a checksum.

#![forbid(unsafe_code)]

mod combinatorics;
mod error;
mod layout;
mod material;
mod pairs;
mod probe;
mod reader;
mod result;
mod root;
mod squares;
mod table;
mod tables;

pub use error::{BrokenTable, Damage, Kind, ProbeError, SyzygyError};
pub use material::Material;
pub use result::{Dtz, Wdl};
pub use root::RankedMove;
pub use tables::Tables;
