//! The table of file formats, and their codecs, one file each.
//!
//! A new format is a module below `formats` and a row of the table in this file. Names, extensions, help, error
//! messages and the tests that run for every format derive from the row.

pub(crate) mod bag;
pub(crate) mod bin;
mod binpack;
mod bits;
mod bullet;
pub(crate) mod csv;
mod epd;
mod game;
mod lc0;
mod pgn;
mod plain;
mod tar;
mod viri;

#[cfg(test)]
pub(crate) mod samples;

pub use game::GameTracker;

use crate::codec::{Codec, Encode, Problem};
use crate::error::DataError;
use std::fmt;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

/// Settings for formats whose files do not say what their fields mean: CSV and bags. The defaults suit files
/// that follow the usual naming.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Columns of a CSV file; by default they are found by the names that known data sets use.
    pub columns: csv::Columns,
    /// Fields of the records of a bag ([`Format::Bag`]); `None` takes them from the name of the file.
    pub bag: Option<bag::BagKind>,
}

/// Codec for a stream whose first bytes were peeked at, with the number of bytes that were consumed.
pub(crate) type Opened = Result<(Arc<dyn Codec>, u64), Problem>;

/// Codec that opens its file itself, or the fault of the file.
type OpenedFile = io::Result<Result<Arc<dyn Codec>, Problem>>;

/// Function that lists files.
pub(crate) type ListFiles = fn(&Path) -> Result<Vec<PathBuf>, DataError>;

/// Function that creates the codec of a file.
#[derive(Clone, Copy)]
pub(crate) enum Open {
    /// The file is read from its beginning, and may be compressed. The function may read a header.
    Stream(fn(&Options, &mut dyn BufRead) -> io::Result<Opened>),
    /// The file is read at random offsets, so the codec opens it itself.
    File(fn(&Path, &Options) -> OpenedFile),
}

/// A row of the table.
struct FormatInfo {
    /// Name on the command line and in recipes.
    name: &'static str,
    /// File extensions in lower case, without that of a compressor.
    extensions: &'static [&'static str],
    /// Bytes that a record usually takes, for estimates of file sizes.
    usual_size: f64,
    /// Fields that a record loses, and those without which it cannot be stored.
    cannot_carry: &'static str,
    properties: Properties,
    open: Open,
    encoder: fn(&Path, &Options) -> Box<dyn Encode>,
}

/// Properties in which most formats agree; rows state only the others.
pub(crate) struct Properties {
    /// A record without a move cannot be stored.
    pub needs_moves: bool,
    /// Records have a field for the move.
    pub has_moves: bool,
    /// Positions have castling rights.
    pub has_castling: bool,
    /// Half-move clocks end at 100, as in FEN.
    pub clock_ends_at_100: bool,
    /// Kinds of scores that are stored as they are.
    pub scores: ScoreKinds,
    /// Records have a field for the ply.
    pub has_plies: bool,
    /// Every block that the codec decodes ends with the last move of a game.
    pub ends_with_a_game: bool,
    /// Bytes of a record if all have the same length and none depends on another, so that records can be
    /// shuffled without being decoded.
    pub record_size: Option<usize>,
    /// Positions follow from the moves before them, so that a record takes up to twenty times its bytes when it
    /// is decoded.
    pub is_compact: bool,
    /// Function that lists the files for which a path stands that is not a file.
    pub shards: Option<ListFiles>,
}

/// Kinds of scores that a format stores as they are; it converts the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScoreKinds {
    All,
    Centipawns,
    CentipawnsAndMates,
    Probabilities,
}

impl Properties {
    const USUAL: Self = Self {
        needs_moves: false,
        has_moves: true,
        has_castling: true,
        clock_ends_at_100: false,
        scores: ScoreKinds::Centipawns,
        has_plies: true,
        ends_with_a_game: false,
        record_size: None,
        is_compact: false,
        shards: None,
    };
}

/// Codec of a format whose files have no header.
macro_rules! stream {
    ($codec:expr) => {
        Open::Stream(|_, _| Ok(Ok((Arc::new($codec), 0))))
    };
}

/// Defines [`Format`] and its table from documentation, variant and [`FormatInfo`].
macro_rules! formats {
    ($($(#[$doc:meta])* $format:ident { $($field:ident: $value:expr,)* })*) => {
        /// File format of training data. All of them can be read and written; [`Self::cannot_carry`] lists the
        /// fields that a conversion to a format loses.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format {
            $($(#[$doc])* $format,)*
        }

        impl Format {
            /// All formats, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$format,)*];

            const TABLE: &[FormatInfo] = &[$(FormatInfo { $($field: $value,)* },)*];
        }
    };
}

formats! {
    /// Comma-separated values with a header line; [`crate::Columns`] says which column holds which field.
    Csv {
        name: "csv",
        extensions: &["csv", "tsv"],
        usual_size: 80.0,
        cannot_carry: "where a game begins; the columns written are fen, move, score, result, ply",
        properties: Properties { clock_ends_at_100: true, scores: ScoreKinds::All, ..Properties::USUAL },
        open: Open::Stream(|options, input| csv::open(&options.columns, input)),
        encoder: |path, _| Box::new(csv::CsvEncoder::new(path)),
    }
    /// Games in Portable Game Notation, with evaluations in comments.
    Pgn {
        name: "pgn",
        extensions: &["pgn"],
        usual_size: 12.0,
        cannot_carry: "win probabilities; scores are hundredths of a pawn; positions that are not one game's; the \
                       ply, where it differs from the move number",
        properties: Properties {
            needs_moves: true,
            clock_ends_at_100: true,
            scores: ScoreKinds::CentipawnsAndMates,
            ends_with_a_game: true,
            is_compact: true,
            ..Properties::USUAL
        },
        open: stream!(pgn::Pgn),
        encoder: |_, _| Box::new(pgn::PgnEncoder::default()),
    }
    /// Positions with EPD operations, one on a line; also bullet's `position | score | result`.
    Epd {
        name: "epd",
        extensions: &["epd", "fen"],
        usual_size: 90.0,
        cannot_carry: "win probabilities, and mates against the side to move, as such; the ply, where it differs \
                       from the move number; the game",
        properties: Properties {
            clock_ends_at_100: true,
            scores: ScoreKinds::CentipawnsAndMates,
            ..Properties::USUAL
        },
        open: stream!(epd::Epd),
        encoder: |_, _| Box::new(epd::EpdEncoder),
    }
    /// Stockfish's text format, with one field on a line: `fen`, `move`, `score`, `ply`, `result`, and `e` at
    /// the end of a record.
    Plain {
        name: "plain",
        extensions: &["plain"],
        usual_size: 120.0,
        cannot_carry: "mates and win probabilities as such; positions without a move or result; where a game \
                       begins",
        properties: Properties { needs_moves: true, clock_ends_at_100: true, ..Properties::USUAL },
        open: stream!(plain::Plain),
        encoder: |_, _| Box::new(plain::PlainEncoder),
    }
    /// Stockfish's and Jomfish's `.bin`: packed positions of 40 bytes, with move, score and result.
    Bin {
        name: "bin",
        extensions: &["bin"],
        usual_size: 40.0,
        cannot_carry: "Chess960; mates and win probabilities as such; positions without a result; the game; \
                       half-move clocks above 127",
        properties: Properties { record_size: Some(bin::SIZE), ..Properties::USUAL },
        open: stream!(bin::Bin),
        encoder: |_, _| Box::new(bin::BinEncoder),
    }
    /// Stockfish's binpack: chains of positions, compressed to about 3 bytes each.
    Binpack {
        name: "binpack",
        extensions: &["binpack"],
        usual_size: 3.0,
        cannot_carry: "Chess960; mates and win probabilities as such; positions without a move or result; move \
                       numbers that differ from the ply",
        properties: Properties { needs_moves: true, is_compact: true, ..Properties::USUAL },
        open: stream!(binpack::Binpack),
        encoder: |_, _| Box::new(binpack::BinpackEncoder::default()),
    }
    /// Bulletformat: packed positions of 32 bytes with score and result, without moves.
    Bullet {
        name: "bullet",
        extensions: &["bf", "bullet", "data"],
        usual_size: 32.0,
        cannot_carry: "who is to move, castling, en passant, clocks, the move, the ply, the game; positions \
                       without a score or result",
        properties: Properties {
            has_moves: false,
            has_castling: false,
            has_plies: false,
            record_size: Some(bullet::SIZE),
            ..Properties::USUAL
        },
        open: stream!(bullet::Bullet),
        encoder: |_, _| Box::new(bullet::BulletEncoder),
    }
    /// Viriformat, the format of the engine Viridithas: whole games, each a start position followed by a move
    /// and a score for each ply.
    Viri {
        name: "viri",
        extensions: &["vf", "viri", "viriformat"],
        usual_size: 4.4,
        cannot_carry: "mates and win probabilities as such; positions without a move or result; the ply, where it \
                       differs from the move number",
        properties: Properties { needs_moves: true, ends_with_a_game: true, is_compact: true, ..Properties::USUAL },
        open: stream!(viri::Viri),
        encoder: |_, _| Box::new(viri::ViriEncoder::default()),
    }
    /// Leela's training chunks, versions 3 to 7; written as version 6.
    Lc0 {
        name: "lc0",
        extensions: &["tar", "lc0"],
        usual_size: 300.0,
        cannot_carry: "Chess960 castling; en passant without the position before it; move numbers; positions \
                       without a move or result; centipawns and mates as such",
        properties: Properties {
            needs_moves: true,
            clock_ends_at_100: true,
            scores: ScoreKinds::Probabilities,
            ends_with_a_game: true,
            ..Properties::USUAL
        },
        open: Open::Stream(|_, input| lc0::open(input)),
        encoder: |path, _| Box::new(lc0::Lc0Encoder::new(path)),
    }
    /// DeepMind's bag: records of any length and an index of their offsets, used by the searchless chess
    /// data.
    Bag {
        name: "bag",
        extensions: &["bag"],
        usual_size: 90.0,
        cannot_carry: bag::CANNOT_CARRY,
        properties: Properties {
            clock_ends_at_100: true,
            scores: ScoreKinds::Probabilities,
            shards: Some(bag::shards),
            ..Properties::USUAL
        },
        open: Open::File(|path, options| bag::open(path, options, false)),
        encoder: |path, options| Box::new(bag::BagEncoder::new(false, bag::kind_of(path, options))),
    }
    /// A bag ([`Format::Bag`]) with each record compressed by Zstandard.
    Bagz {
        name: "bagz",
        extensions: &["bagz"],
        usual_size: 60.0,
        cannot_carry: bag::CANNOT_CARRY,
        properties: Properties {
            clock_ends_at_100: true,
            scores: ScoreKinds::Probabilities,
            shards: Some(bag::shards),
            ..Properties::USUAL
        },
        open: Open::File(|path, options| bag::open(path, options, true)),
        encoder: |path, options| Box::new(bag::BagEncoder::new(true, bag::kind_of(path, options))),
    }
}

/// A format name or a file extension that is not known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a format; there are {names}. Write FORMAT:PATH where a file's name does not end with one of them", names = names())]
pub struct UnknownFormat(pub String);

/// Names of all formats, for messages.
fn names() -> String {
    let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
    let (last, others) = names.split_last().expect("the table has rows");
    format!("{} and {last}", others.join(", "))
}

impl Format {
    fn info(self) -> &'static FormatInfo {
        &Self::TABLE[self as usize]
    }

    /// Name of the format on the command line and in recipes; [`Self::from_str`] parses it.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Text that names the fields that a record loses in this format, and those without which it cannot be
    /// stored, for `--help` and for warnings before a conversion.
    pub fn cannot_carry(self) -> &'static str {
        self.info().cannot_carry
    }

    /// File extensions in lower case, without that of a compressor.
    pub fn extensions(self) -> &'static [&'static str] {
        self.info().extensions
    }

    /// Bytes that a record usually takes.
    pub(crate) fn usual_size(self) -> f64 {
        self.info().usual_size
    }

    /// True if the format cannot store a record without a move, which then is an error of kind
    /// [`DataError::Unsupported`].
    pub fn needs_moves(self) -> bool {
        self.info().properties.needs_moves
    }

    /// True if every block that a [`crate::RecordReader`] returns ends with the last move of a game.
    pub fn ends_with_a_game(self) -> bool {
        self.info().properties.ends_with_a_game
    }

    pub(crate) fn properties(self) -> &'static Properties {
        &self.info().properties
    }

    pub(crate) fn opener(self) -> Open {
        self.info().open
    }

    /// New encoder for a file of this format.
    pub(crate) fn encoder(self, path: &Path, options: &Options) -> Box<dyn Encode> {
        (self.info().encoder)(path, options)
    }

    /// Format of a file extension; the extension of a compressor must be removed before.
    fn of_extension(extension: &str) -> Option<Self> {
        let extension = extension.to_ascii_lowercase();
        Self::ALL.iter().copied().find(|format| format.info().extensions.contains(&extension.as_str()))
    }

    /// Format of a file by its name, for example `games.pgn.zst`.
    ///
    /// # Errors
    ///
    /// Fails if no format has that extension.
    pub fn of_path(path: &Path) -> Result<Self, UnknownFormat> {
        let unknown = || UnknownFormat(path.display().to_string());
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(unknown)?;
        let (plain, compressed) = match name.strip_suffix(".zst").or_else(|| name.strip_suffix(".gz")) {
            Some(plain) => (plain, true),
            None => (name, false),
        };
        match plain.rsplit_once('.').and_then(|(_, extension)| Self::of_extension(extension)) {
            Some(format) => Ok(format),
            // Leela's programs name their files game_000000.gz.
            None if compressed && name.ends_with(".gz") => Ok(Self::Lc0),
            None => Err(unknown()),
        }
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let named = Self::ALL.iter().copied().find(|format| format.name() == text);
        named.ok_or_else(|| UnknownFormat(text.into()))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// True if the castling rights are those of standard chess: kings and castling rooks on their usual squares.
pub(crate) fn is_ordinary(position: &crate::Packed) -> bool {
    bin::ordinary_rights(position).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;
    use crate::record::{Record, Score};

    /// Everything that [`Format::cannot_carry`] does not list for text formats survives a round trip.
    #[test]
    fn text_formats_lose_only_the_fields_that_are_documented() {
        let mut record = samples::games(1)[0];
        (record.score, record.ply) = (Some(Score::Mate(-3)), 77);
        let alone = Record { starts_game: false, ..record };
        let counted = Record { score: Some(Score::Centipawns(-31_997)), ply: 0, ..alone };
        for (format, kept) in [(Format::Csv, alone), (Format::Epd, counted)] {
            let source = Source { path: "x".into(), format, options: Options::default() };
            let (mut encoder, mut out) = (source.encoder(), Vec::new());
            encoder.push(&record, &mut out).and_then(|()| encoder.finish(&mut out)).unwrap();
            assert_eq!(source.decode_bytes(&out), (vec![kept], vec![]), "{format}");
        }
    }

    #[test]
    fn formats_that_need_moves_refuse_records_without_one() {
        let mut record = samples::games(1)[0];
        (record.mv, record.score) = (None, Some(Score::Centipawns(12)));
        for &format in Format::ALL {
            let path = PathBuf::from(format!("action_value_data.{}", format.name()));
            let mut encoder = Source { path, format, options: Options::default() }.encoder();
            let mut out = Vec::new();
            let written = encoder.push(&record, &mut out).and_then(|()| encoder.finish(&mut out));
            if format != Format::Bag && format != Format::Bagz {
                assert_eq!(written.is_err(), format.needs_moves(), "{}: {written:?}", format.name());
            }
        }
    }

    #[test]
    fn the_documentation_lists_the_extensions_of_every_format() {
        let docs = include_str!("../../../docs/data.md");
        let section = docs.split("## Reference: formats\n").nth(1).unwrap();
        let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
        for extension in Format::ALL.iter().flat_map(|format| format.info().extensions) {
            let is_listed = |row: &&str| row.split('|').nth(1).unwrap().contains(&format!("`{extension}`"));
            assert!(rows.iter().any(is_listed), "{extension} is missing in docs/data.md");
        }
    }

    #[test]
    fn formats_are_known_by_name_and_by_path() {
        for &format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
            for extension in format.info().extensions {
                assert_eq!(
                    Format::of_path(Path::new(&format!("x.{extension}.zst"))),
                    Ok(format),
                    "{extension}"
                );
            }
        }
        for (path, format) in [
            ("a/otb.pgn.zst", Format::Pgn),
            ("x.binpack", Format::Binpack),
            ("x.BIN.gz", Format::Bin),
            ("game_000000.gz", Format::Lc0),
            ("training.tar", Format::Lc0),
            ("action_value@2148_data.bag", Format::Bag),
            ("x.bf", Format::Bullet),
        ] {
            assert_eq!(Format::of_path(Path::new(path)), Ok(format), "{path}");
        }
        assert!(Format::of_path(Path::new("x.docx")).is_err());
        assert!(Format::of_path(Path::new("/")).is_err());
    }
}
