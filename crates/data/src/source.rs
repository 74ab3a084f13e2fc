//! The files that a path of the command line stands for, and how they are opened.

use crate::codec::{Codec, Decoded, Encode, Problem};
use crate::error::DataError;
use crate::formats::bag::{self, BagKind};
use crate::formats::csv::{self, Header};
use crate::formats::{Format, Open, Opened, Options};
use crate::record::Record;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
        let files = match format.properties().shards {
            Some(shards) if !path.is_file() => shards(path)?,
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

/// Usual factor by which compression makes a file smaller, for estimates.
const COMPRESSION: f64 = 3.0;

/// A file that counts the bytes that were read from it.
struct CountedFile {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for CountedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read.fetch_add(read as u64, Relaxed);
        Ok(read)
    }
}

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

    /// Codec for a stream; a fault for formats that need a file.
    fn codec(&self, input: &mut dyn BufRead) -> io::Result<Opened> {
        match self.format.opener() {
            Open::Stream(open) => open(&self.options, input),
            Open::File(_) => {
                Ok(Err(Problem::new(0, format!("a {} can only be read from a file", self.format))))
            }
        }
    }

    /// Opens the file, decompresses it if needed, and chooses the codec. Bytes that are read from the disk are
    /// added to `read`, except for formats that are read at random offsets.
    pub(crate) fn open(&self, read: &Arc<AtomicU64>) -> io::Result<Result<OpenFile, Problem>> {
        if let Open::File(open) = self.format.opener() {
            let stream = || Box::new(io::empty()) as Box<dyn BufRead + Send>;
            return Ok(open(&self.path, &self.options)?.map(|codec| (stream(), codec, 0)));
        }
        let file = CountedFile { file: File::open(&self.path)?, read: Arc::clone(read) };
        let mut input = tandem_util::input::decode(file)?;
        Ok(self.codec(&mut *input)?.map(|(codec, used)| (input, codec, used)))
    }

    /// Fields of the records if this is a bag ([`Format::Bag`] or [`Format::Bagz`]), `None` for other
    /// formats.
    pub fn kind_of_bag(&self) -> Option<BagKind> {
        matches!(self.format, Format::Bag | Format::Bagz).then(|| bag::kind_of(&self.path, &self.options))
    }

    /// True if records have a field for the move. The header of a CSV file, if there is one already, says so.
    ///
    /// # Errors
    ///
    /// Fails if the header of a CSV file cannot be read, or has no column for the position.
    pub fn has_moves(&self) -> Result<bool, DataError> {
        if self.kind_of_bag() == Some(BagKind::StateValue) {
            return Ok(false);
        }
        match self.csv_header()? {
            Some(header) => Ok(header.has_moves),
            None => Ok(self.format.properties().has_moves),
        }
    }

    /// Names of the columns of a CSV file that have no place in a record; none for other formats.
    ///
    /// # Errors
    ///
    /// As [`Self::has_moves`].
    pub fn unused_columns(&self) -> Result<Vec<String>, DataError> {
        Ok(self.csv_header()?.map_or_else(Vec::new, |header| header.unused))
    }

    /// Header of a CSV file; `None` for other formats, and for a file that cannot be read twice, such as a pipe.
    fn csv_header(&self) -> Result<Option<Header>, DataError> {
        if self.format != Format::Csv || !self.path.is_file() {
            return Ok(None);
        }
        let read = File::open(&self.path).and_then(tandem_util::input::decode);
        let header = read.and_then(|mut input| csv::header(&self.options.columns, &mut *input));
        match header.map_err(DataError::io(&self.path))? {
            Ok(header) => Ok(Some(header)),
            Err(problem) => Err(DataError::Path { path: self.path.clone(), problem }),
        }
    }

    /// Bytes that a record usually takes in this file, to estimate its size.
    pub fn bytes_per_record(&self) -> f64 {
        let is_compressed = matches!(self.path.extension().and_then(|end| end.to_str()), Some("zst" | "gz"));
        self.format.usual_size() / if is_compressed { COMPRESSION } else { 1.0 }
    }

    /// Number of records that a file of this length usually holds; 0 if its length is unknown.
    pub fn estimated_records(&self) -> f64 {
        std::fs::metadata(&self.path).map_or(0.0, |file| file.len() as f64) / self.bytes_per_record()
    }

    /// New encoder for the format.
    pub(crate) fn encoder(&self) -> Box<dyn Encode> {
        self.format.encoder(&self.path, &self.options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
