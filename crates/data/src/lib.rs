//! Chess training data.
//!
//! - [`Record`]: a position and what is known of it; all formats map to and from it;
//! - [`Format`]: the formats, and what each cannot carry;
//! - [`Reader`]: records from any number of files, decoded on several threads, in their order;
//! - [`Writer`]: records into a file that appears whole or not at all;
//! - [`Filter`], [`Games`], [`Split`], [`shuffle()`]: what happens between the two;
//! - [`Stats`], [`Validator`]: what a data set is like, and what is wrong with it.
//!
//! ```no_run
//! use tandem_data::*;
//!
//! let options = Options::default();
//! let sources = Source::parse("games.pgn.zst", &options)?;
//! let target = Source::parse("games.binpack", &options)?.remove(0);
//! let mut reader = Reader::new(sources, 2, OnError::Skip, None, Cursor::default());
//! let mut writer = Writer::create(target)?;
//! for record in reader.records() {
//!     writer.write(&record?)?;
//! }
//! writer.finish()?;
//! # Ok::<(), DataError>(())
//! ```

mod codec;
mod error;
mod fen;
mod filter;
mod format;
mod formats;
mod games;
mod packed;
mod raw;
mod read;
mod record;
mod shuffle;
mod stats;
mod validate;
mod write;

pub use codec::Unfit;
pub use error::DataError;
pub use filter::{BadFilter, Filter, Unique};
pub use format::{BagKind, Columns, Format, Options, Source, UnknownFormat};
pub use formats::Follower;
pub use games::{Games, Part, Split};
pub use packed::{BadPosition, MAX_PIECES, Packed};
pub use read::{Block, Cursor, OnError, Reader, Sieve, Skips};
pub use record::{MATE, Outcome, Record, Score};
pub use shuffle::{ShuffleReport, shuffle};
pub use stats::Stats;
pub use validate::{Complaint, Validator};
pub use write::{Encoder, Writer};
