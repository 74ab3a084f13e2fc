//! Chess training data.
//!
//! - [`Record`]: a position and what is known of it; all formats map to and from it;
//! - [`Format`]: the formats, and what each cannot carry;
//! - [`Reader`]: records from any number of files, decoded on several threads, in their order;
//! - [`Writer`]: records into a file that appears whole or not at all.

pub mod aside;
mod codec;
mod error;
mod format;
mod formats;
mod packed;
mod read;
mod record;
mod write;

pub use codec::Unfit;
pub use error::DataError;
pub use format::{BagKind, Columns, Format, Options, Source, UnknownFormat};
pub use packed::{BadPosition, MAX_PIECES, Packed};
pub use read::{Block, Cursor, OnError, Reader, Sieve, Skips};
pub use record::{MATE, Outcome, Record, Score};
pub use write::Writer;
