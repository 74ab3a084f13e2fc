//! The registry of formats, by name and by file extension, and the files that a path of the command line
//! stands for.
//!
//! Adding a format means a module below `formats` and a line in each match of this file.

use crate::codec::{Codec, Decoded, Encode, Problem};
use crate::error::DataError;
use crate::formats::*;
use crate::record::Record;
use std::fmt;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

/// File format of training data. All of them can be read and written; [`Self::cannot_carry`] lists the fields
/// that a conversion to a format loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Comma-separated values with a header line; [`Columns`] says which column holds which field.
    Csv,
    /// Games in Portable Game Notation, with evaluations in comments.
    Pgn,
    /// Positions with EPD operations, one on a line; also bullet's `position | score | result`.
    Epd,
    /// Stockfish's text format, with one field on a line: `fen`, `move`, `score`, `ply`, `result`, and `e` at
    /// the end of a record.
    Plain,
    /// Stockfish's and Jomfish's `.bin`: packed positions of 40 bytes, with move, score and result.
    Bin,
    /// Stockfish's binpack: chains of positions, compressed to about 3 bytes each.
    Binpack,
    /// Bulletformat: packed positions of 32 bytes with score and result, without moves.
    Bullet,
    /// Viriformat, the format of the engine Viridithas: whole games, each a start position followed by a move
    /// and a score for each ply.
    Viri,
    /// Leela's training chunks, versions 3 to 7; written as version 6.
    Lc0,
    /// DeepMind's bag: records of any length and an index of their offsets, used by the searchless chess
    /// data.
    Bag,
    /// A bag ([`Format::Bag`]) with each record compressed by Zstandard.
    Bagz,
}

/// A format name or a file extension that is not known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} is not a format; there are csv, pgn, epd, plain, bin, binpack, bullet, viri, lc0, bag and bagz. Write \
     FORMAT:PATH where a file's name does not end with one of them"
)]
pub struct UnknownFormat(pub String);

impl Format {
    /// All formats, in the order of the documentation.
    pub const ALL: [Self; 11] = [
        Self::Csv,
        Self::Pgn,
        Self::Epd,
        Self::Plain,
        Self::Bin,
        Self::Binpack,
        Self::Bullet,
        Self::Viri,
        Self::Lc0,
        Self::Bag,
        Self::Bagz,
    ];

    /// Name of the format on the command line and in recipes; [`Self::from_str`] parses it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Pgn => "pgn",
            Self::Epd => "epd",
            Self::Plain => "plain",
            Self::Bin => "bin",
            Self::Binpack => "binpack",
            Self::Bullet => "bullet",
            Self::Viri => "viri",
            Self::Lc0 => "lc0",
            Self::Bag => "bag",
            Self::Bagz => "bagz",
        }
    }

    /// Text that names the fields that a record loses in this format, and those without which it cannot be
    /// stored, for `--help` and for warnings before a conversion.
    pub fn cannot_carry(self) -> &'static str {
        match self {
            Self::Csv => "where a game begins; the columns written are fen, move, score, result, ply",
            Self::Pgn => {
                "win probabilities; scores are hundredths of a pawn; positions that are not one game's; the \
                          ply, where it differs from the move number"
            }
            Self::Epd => {
                "win probabilities, and mates against the side to move, as such; the ply, where it differs \
                          from the move number; the game"
            }
            Self::Plain => {
                "mates and win probabilities as such; positions without a move or result; where a game begins"
            }
            Self::Bin => {
                "Chess960; mates and win probabilities as such; positions without a result; the game; half-move clocks \
                          above 127"
            }
            Self::Binpack => {
                "Chess960; mates and win probabilities as such; positions without a move or result; move numbers \
                              that differ from the ply"
            }
            Self::Bullet => {
                "who is to move, castling, en passant, clocks, the move, the ply, the game; positions without \
                             a score or result"
            }
            Self::Viri => {
                "mates and win probabilities as such; positions without a move or result; the ply, where it differs from \
                           the move number"
            }
            Self::Lc0 => {
                "Chess960 castling; en passant without the position before it; move numbers; positions without a \
                          move or result; centipawns and mates as such"
            }
            Self::Bag | Self::Bagz => {
                "the result, the ply, the game; a record has a move, a win probability, or both"
            }
        }
    }

    /// True if the format cannot store a record without a move, which then is an error of kind
    /// [`DataError::Unsupported`].
    pub fn needs_moves(self) -> bool {
        matches!(self, Self::Pgn | Self::Plain | Self::Binpack | Self::Viri | Self::Lc0)
    }

    /// Format of a file extension; the extension of a compressor must be removed before.
    fn of_extension(extension: &str) -> Option<Self> {
        Some(match extension.to_ascii_lowercase().as_str() {
            "csv" => Self::Csv,
            "pgn" => Self::Pgn,
            "epd" | "fen" => Self::Epd,
            "plain" => Self::Plain,
            "bin" => Self::Bin,
            "binpack" => Self::Binpack,
            "bf" | "bullet" | "data" => Self::Bullet,
            "vf" | "viri" | "viriformat" => Self::Viri,
            "tar" | "lc0" => Self::Lc0,
            "bag" => Self::Bag,
            "bagz" => Self::Bagz,
            _ => return None,
        })
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
        Self::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| UnknownFormat(text.into()))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Fields of each record of a bag ([`Format::Bag`]). The variants have the names of DeepMind's paper on
/// searchless chess.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BagKind {
    /// A position, a move, and the mover's win probability after it, from 0 to 1.
    ActionValue,
    /// A position and the win probability of its side to move, from 0 to 1.
    StateValue,
    /// A position and the move that was played in it.
    #[default]
    BehavioralCloning,
}

impl FromStr for BagKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "action-value" => Ok(Self::ActionValue),
            "state-value" => Ok(Self::StateValue),
            "behavioral-cloning" => Ok(Self::BehavioralCloning),
            _ => Err(format!("{text:?} is not one of action-value, state-value, behavioral-cloning")),
        }
    }
}

/// Settings for formats whose files do not say what their fields mean: CSV and bags. The defaults suit files
/// that follow the usual naming.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Columns of a CSV file; by default they are found by the names that known data sets use.
    pub columns: Columns,
    /// Fields of the records of a bag ([`Format::Bag`]); `None` takes them from the name of the file.
    pub bag: Option<BagKind>,
}

/// A file to read or write, with its format and settings. [`Self::parse`] makes it from a path.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path of the file; it may end with `.zst` or `.gz`.
    pub path: PathBuf,
    /// Format in which the file is read or written.
    pub format: Format,
    /// Settings for CSV files and bags; other formats ignore them.
    pub options: Options,
}

impl Source {
    /// Finds the files that a path of the command line stands for: a single file; all files of a folder, read
    /// as Leela's chunks unless another format is stated; the files that match a name with one `*`; the
    /// shards (numbered parts) of `name@8.bag`. `FORMAT:PATH` states the format explicitly.
    ///
    /// # Errors
    ///
    /// Fails if the format is unknown, no file matches, or a shard is missing. A single file is not opened,
    /// so that it may also name an output.
    pub fn parse(text: &str, options: &Options) -> Result<Vec<Self>, DataError> {
        let named = text.split_once(':').and_then(|(name, path)| Some((name.parse().ok()?, path)));
        let (named, path) = named.map_or((None, text), |(format, path)| (Some(format), path));
        let path = Path::new(path);
        let source = |path: &Path, format| Self { path: path.into(), format, options: options.clone() };
        if path.is_dir() {
            let format = named.unwrap_or(Format::Lc0);
            return Ok(files_of(path)?.iter().map(|path| source(path, format)).collect());
        }
        let matching = matching(path)?;
        if let Some(matching) = matching {
            let text = |path: &PathBuf| match text.split_once(':').filter(|_| named.is_some()) {
                Some((name, _)) => format!("{name}:{}", path.display()),
                None => path.display().to_string(),
            };
            let sources = matching.iter().map(|path| Self::parse(&text(path), options));
            return Ok(sources.collect::<Result<Vec<_>, _>>()?.concat());
        }
        let format = match named {
            Some(format) => format,
            None => Format::of_path(path)
                .map_err(|unknown| DataError::Path { path: path.into(), problem: unknown.to_string() })?,
        };
        let files = match format {
            Format::Bag | Format::Bagz if !path.is_file() => bag::shards(path)?,
            _ => vec![path.into()],
        };
        Ok(files.iter().map(|path| source(path, format)).collect())
    }
}

/// Files that a name with one `*` matches, sorted by name; `None` for a name without one, or if a file has
/// exactly that name.
fn matching(path: &Path) -> Result<Option<Vec<PathBuf>>, DataError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((start, end)) = name.split_once('*').filter(|_| !path.exists()) else { return Ok(None) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fits = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
    };
    let files: Vec<PathBuf> = files_of(folder)?.into_iter().filter(fits).collect();
    if files.is_empty() {
        return Err(DataError::Path { path: path.into(), problem: "no file has such a name".into() });
    }
    Ok(Some(files))
}

/// Files of a directory, sorted by name.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let entries = std::fs::read_dir(path).map_err(DataError::io(path))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(DataError::io(path))?.path();
        if file.is_file() {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(DataError::Path { path: path.into(), problem: "the directory has no files".into() });
    }
    files.sort();
    Ok(files)
}

/// Codec for a stream whose first bytes were peeked at, with the number of bytes that were consumed.
pub(crate) type Opened = Result<(Arc<dyn Codec>, u64), Problem>;

/// Stream of a file, its codec, and the number of bytes that were consumed.
pub(crate) type OpenFile = (Box<dyn BufRead + Send>, Arc<dyn Codec>, u64);

impl Source {
    /// Decodes bytes in memory as if they were the content of this file, on the current thread, for tests
    /// and data that do not come from a file. Returns the records, and a message for each fault. The formats
    /// [`Format::Bag`] and [`Format::Bagz`] return only a fault, because they are read at random offsets.
    pub fn decode_bytes(&self, bytes: &[u8]) -> (Vec<Record>, Vec<String>) {
        let mut input: &[u8] = bytes;
        let input: &mut dyn BufRead = &mut input;
        let mut out = Decoded::default();
        let fail = |out: &mut Decoded, problem: Problem| out.fail(problem.byte, problem.text);
        match self.codec(input) {
            Ok(Ok((codec, _))) => {
                let mut cut = codec.cut();
                let mut block = Vec::new();
                loop {
                    match cut.next(input, &mut block) {
                        Ok(Ok(true)) => codec.decode(&block, &mut out),
                        Ok(Ok(false)) => break,
                        Ok(Err(problem)) => break fail(&mut out, problem),
                        Err(error) => break out.fail(0, error.to_string()),
                    }
                    block.clear();
                }
            }
            Ok(Err(problem)) => fail(&mut out, problem),
            Err(error) => out.fail(0, error.to_string()),
        }
        let problems = out.problems.into_iter().map(|(_, problem)| problem.text).collect();
        (out.records, problems)
    }

    /// Codec for a stream; a fault for bags, which need a file.
    fn codec(&self, input: &mut dyn BufRead) -> io::Result<Opened> {
        Ok(match self.format {
            Format::Csv => csv::open(&self.options.columns, input)?,
            Format::Pgn => Ok((Arc::new(pgn::Pgn), 0)),
            Format::Epd => Ok((Arc::new(epd::Epd), 0)),
            Format::Plain => Ok((Arc::new(plain::Plain), 0)),
            Format::Bin => Ok((Arc::new(bin::Bin), 0)),
            Format::Binpack => Ok((Arc::new(binpack::Binpack), 0)),
            Format::Bullet => Ok((Arc::new(bullet::Bullet), 0)),
            Format::Viri => Ok((Arc::new(viri::Viri), 0)),
            Format::Lc0 => lc0::open(input)?,
            Format::Bag | Format::Bagz => Err(Problem::new(0, "a bag can only be read from a file")),
        })
    }

    /// Opens the file, decompresses it if needed, and chooses the codec.
    pub(crate) fn open(&self) -> io::Result<Result<OpenFile, Problem>> {
        if let Format::Bag | Format::Bagz = self.format {
            let codec = bag::Bag::open(&self.path, self.format == Format::Bagz, self.bag_kind())?;
            return Ok(codec.map(|codec| {
                (Box::new(io::empty()) as Box<dyn BufRead + Send>, Arc::new(codec) as Arc<dyn Codec>, 0)
            }));
        }
        let mut input = tandem_util::input::decode(std::fs::File::open(&self.path)?)?;
        Ok(self.codec(&mut *input)?.map(|(codec, used)| (input, codec, used)))
    }

    /// Fields of the records if this is a bag ([`Format::Bag`] or [`Format::Bagz`]), `None` for other
    /// formats.
    pub fn kind_of_bag(&self) -> Option<BagKind> {
        matches!(self.format, Format::Bag | Format::Bagz).then(|| self.bag_kind())
    }

    /// Fields of the bag's records: as the options state, or else by the beginning of the file's name, as
    /// DeepMind's files are named.
    fn bag_kind(&self) -> BagKind {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.options.bag.unwrap_or(match name {
            _ if name.starts_with("action_value") => BagKind::ActionValue,
            _ if name.starts_with("state_value") => BagKind::StateValue,
            _ => BagKind::BehavioralCloning,
        })
    }

    /// New encoder for the format.
    pub(crate) fn encoder(&self) -> Box<dyn Encode> {
        match self.format {
            Format::Csv => Box::new(csv::CsvEncoder::new()),
            Format::Pgn => Box::new(pgn::PgnEncoder::default()),
            Format::Epd => Box::new(epd::EpdEncoder),
            Format::Plain => Box::new(plain::PlainEncoder),
            Format::Bin => Box::new(bin::BinEncoder),
            Format::Binpack => Box::new(binpack::BinpackEncoder::default()),
            Format::Bullet => Box::new(bullet::BulletEncoder),
            Format::Viri => Box::new(viri::ViriEncoder::default()),
            Format::Lc0 => Box::new(lc0::Lc0Encoder::new(&self.path)),
            Format::Bag | Format::Bagz => {
                Box::new(bag::BagEncoder::new(self.format == Format::Bagz, self.bag_kind()))
            }
        }
    }
}

pub use crate::formats::csv::Columns;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;
    use crate::record::Score;

    #[test]
    fn a_star_matches_any_text() {
        let folder = std::env::temp_dir().join(format!("tandem-star-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["games-1.vf", "games-0.vf", "games-0.vf.part", "other.vf"] {
            std::fs::write(folder.join(name), b"").unwrap();
        }
        let parse =
            |name: &str| Source::parse(&format!("{}", folder.join(name).display()), &Options::default());
        let names: Vec<PathBuf> =
            parse("games-*.vf").unwrap().into_iter().map(|source| source.path).collect();
        assert_eq!(names, ["games-0.vf", "games-1.vf"].map(|name| folder.join(name)));
        let text = format!("bullet:{}", folder.join("*.vf").display());
        let sources = Source::parse(&text, &Options::default()).unwrap();
        assert!(sources.len() == 3 && sources.iter().all(|source| source.format == Format::Bullet));
        assert!(parse("none-*.vf").unwrap_err().to_string().contains("no file has such a name"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn only_a_bag_that_is_not_a_file_has_shards() {
        let folder = std::env::temp_dir().join(format!("tandem-at-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("is@2.bag"), b"").unwrap();
        let parse = |name: &str| Source::parse(folder.join(name).to_str().unwrap(), &Options::default());
        for name in ["me@home.csv", "x@2.vf", "is@2.bag"] {
            let paths: Vec<PathBuf> = parse(name).unwrap().into_iter().map(|source| source.path).collect();
            assert_eq!(paths, [folder.join(name)]);
        }
        assert!(parse("not@2.bag").unwrap_err().to_string().contains("this shard is missing"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

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
        for format in Format::ALL {
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
    fn formats_are_known_by_name_and_by_path() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
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
