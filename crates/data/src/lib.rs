//! Chess training data: reading, writing, converting, filtering, shuffling and checking it.
//!
//! Every format is streamed through one type, [`Record`], so that a tool written against this crate reads all
//! of them: PGN, EPD, CSV, Stockfish's `.plain`, `.bin` and `.binpack`, bulletformat, viriformat, Leela's
//! training chunks and DeepMind's bags. Use it to build or inspect a data set; use [`tandem_chess::pgn`]
//! instead if you need games with comments and variations, because a record keeps only a position, a move, a
//! score and a result.
//!
//! - [`Record`]: a position with its move, score and result; all formats map to and from it;
//! - [`Format`]: the formats, and the fields that each of them loses;
//! - [`RecordReader`]: records from any number of files, decoded on several threads, in file order;
//! - [`RecordWriter`]: records into a file that appears whole or not at all;
//! - [`Filter`], [`Games`], [`Split`], [`shuffle()`]: the steps between reading and writing;
//! - [`Stats`], [`Validator`]: distributions of a data set, and its illegal or contradictory records.
//!
//! Converts the games of a PGN file to Stockfish's binpack, skipping broken games:
//!
//! ```no_run
//! use tandem_data::*;
//!
//! let options = Options::default();
//! let sources = Source::parse("games.pgn.zst", &options)?;
//! let target = Source::parse("games.binpack", &options)?.remove(0);
//! let mut reader = RecordReader::new(sources, 2, OnError::Skip, None, Cursor::default());
//! let mut writer = RecordWriter::create(target)?;
//! for record in reader.records() {
//!     writer.write(&record?)?;
//! }
//! writer.finish()?;
//! # Ok::<(), DataError>(())
//! ```

mod changes;
mod codec;
mod error;
mod fen;
mod filter;
mod formats;
mod games;
mod packed;
mod raw;
mod read;
mod record;
mod shuffle;
mod source;
mod stats;
mod validate;
mod write;

pub use changes::{Change, Changes};
pub use codec::Unsupported;
pub use error::DataError;
pub use filter::{BadFilter, Filter, FilterCounts, Rule, Unique};
pub use formats::bag::BagKind;
pub use formats::csv::Columns;
pub use formats::{Format, GameTracker, Options, UnknownFormat};
pub use games::{Games, Split, Subset};
pub use packed::{BadPosition, MAX_PIECES, Packed};
pub use read::{Cursor, OnError, RecordBlock, RecordFilter, RecordReader, Skips};
pub use record::{MATE, Outcome, Record, Score};
pub use shuffle::{ShuffleReport, shuffle};
pub use source::Source;
pub use stats::Stats;
pub use validate::{RecordFault, Validator};
pub use write::{Encoder, RecordWriter};
