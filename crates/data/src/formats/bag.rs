//! DeepMind's bags: records one after the other, then the end offset of each; `.bagz` compresses each record.
//!
//! A record is a position with a move, a win probability, or both, in the coding of Apache Beam: all fields
//! but the last are preceded by their length, and a win probability is a big-endian double.

use super::Options;
use crate::codec::*;
use crate::error::DataError;
use crate::packed::Packed;
use crate::record::{Record, Score};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use tandem_chess::{fen, uci};

const LIMIT: usize = 8;
/// Number of records in a block.
const RECORDS_PER_BLOCK: usize = 2048;
/// Largest record in bytes; a larger one is taken for damage.
const MAX_RECORD: u64 = 1 << 20;

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

/// Fields that bags lose, in the words of [`crate::Format::cannot_carry`].
pub(super) const CANNOT_CARRY: &str =
    "the result, the ply, the game; a record has a move, a win probability, or both";

/// Fields of a bag's records: as the options state, or else by the beginning of the file's name, as DeepMind's
/// files are named.
pub(crate) fn kind_of(path: &Path, options: &Options) -> BagKind {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    options.bag.unwrap_or(match name {
        _ if name.starts_with("action_value") => BagKind::ActionValue,
        _ if name.starts_with("state_value") => BagKind::StateValue,
        _ => BagKind::BehavioralCloning,
    })
}

/// Codec of a bag.
pub(super) fn open(
    path: &Path,
    options: &Options,
    compressed: bool,
) -> io::Result<Result<Arc<dyn Codec>, Problem>> {
    let bag = Bag::open(path, compressed, kind_of(path, options))?;
    Ok(bag.map(|bag| Arc::new(bag) as Arc<dyn Codec>))
}

/// Files of `name@N.bag`: `name-00000-of-0000N.bag` and so on. Any other path stands for itself.
pub(crate) fn shards(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((stem, rest)) = name.split_once('@') else { return Ok(vec![path.into()]) };
    let digits = rest.len() - rest.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    let count: u32 = match rest[..digits].parse() {
        Ok(count) if (1..100_000).contains(&count) => count,
        _ => {
            let problem = "after @ there must be a number of shards from 1 to 99,999".into();
            return Err(DataError::Path { path: path.into(), problem });
        }
    };
    let shard = |number| path.with_file_name(format!("{stem}-{number:05}-of-{count:05}{}", &rest[digits..]));
    let files: Vec<PathBuf> = (0..count).map(shard).collect();
    match files.iter().find(|file| !file.is_file()) {
        Some(missing) => {
            Err(DataError::Path { path: missing.clone(), problem: "this shard is missing".into() })
        }
        None => Ok(files),
    }
}

/// An opened bag, from which any number of streams can read.
pub(crate) struct Bag {
    path: PathBuf,
    /// Decompressed copy of the bag, if the file as a whole was compressed.
    unpacked: Option<File>,
    compressed: bool,
    kind: BagKind,
    /// Byte offset of the table of record ends.
    limits: u64,
    count: u64,
}

impl Bag {
    pub(crate) fn open(path: &Path, compressed: bool, kind: BagKind) -> io::Result<Result<Self, Problem>> {
        // Only the name tells whether the whole file is compressed, because a bagz begins with a compressed
        // record too.
        let packed = matches!(path.extension().and_then(|end| end.to_str()), Some("zst" | "gz"));
        let unpacked = if packed { Some(unpack(path)?) } else { None };
        let mut file = match &unpacked {
            Some(file) => file.try_clone()?,
            None => File::open(path)?,
        };
        let len = file.seek(SeekFrom::End(0))?;
        let mut bag = Self { path: path.into(), unpacked, compressed, kind, limits: len, count: 0 };
        if len == 0 {
            return Ok(Ok(bag));
        }
        if len < LIMIT as u64 {
            return Ok(Err(Problem::new(0, format!("{len} bytes are too few for a bag"))));
        }
        file.seek(SeekFrom::Start(len - LIMIT as u64))?;
        let mut last = [0; LIMIT];
        file.read_exact(&mut last)?;
        bag.limits = u64::from_le_bytes(last);
        if bag.limits > len - LIMIT as u64 || !(len - bag.limits).is_multiple_of(LIMIT as u64) {
            let problem = format!("the records would end at byte {}, which cannot be", bag.limits);
            return Ok(Err(Problem::new((len - LIMIT as u64) as usize, problem)));
        }
        bag.count = (len - bag.limits) / LIMIT as u64;
        Ok(Ok(bag))
    }

    /// The file from a byte offset on. Every reader keeps its own offset.
    fn reader(&self, at: u64) -> io::Result<BufReader<ReadAt>> {
        let file = match &self.unpacked {
            None => File::open(&self.path)?,
            Some(file) => file.try_clone()?,
        };
        Ok(BufReader::with_capacity(1 << 18, ReadAt { file, at }))
    }
}

/// Decompresses a file into an unlinked temporary file, which disappears with its last handle.
fn unpack(path: &Path) -> io::Result<File> {
    let mut input = tandem_util::input::open(path)?;
    let name = format!("tandem-bag-{}-{:p}", std::process::id(), &input);
    let place = std::env::temp_dir().join(name);
    let mut file = File::options().read(true).write(true).create_new(true).open(&place)?;
    std::fs::remove_file(&place)?;
    io::copy(&mut input, &mut file)?;
    Ok(file)
}

/// Reads from a shared file at an offset of its own, so that readers do not move each other's position.
struct ReadAt {
    file: File,
    at: u64,
}

impl Read for ReadAt {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(&self.file, bytes, self.at)?;
        #[cfg(not(unix))]
        let read = {
            self.file.seek(SeekFrom::Start(self.at))?;
            self.file.read(bytes)?
        };
        self.at += read as u64;
        Ok(read)
    }
}

/// Reads records and their end offsets side by side. A block is the number of records, the length of each,
/// and the records.
struct BagCut {
    streams: io::Result<(BufReader<ReadAt>, BufReader<ReadAt>)>,
    left: u64,
    at: u64,
    /// Fault behind the last block, to be returned by the next call.
    problem: Option<Problem>,
}

impl BagCut {
    /// Length of the next record in bytes, from its end offset.
    fn next_len(&mut self) -> io::Result<Result<u64, Problem>> {
        let (_, limits) =
            self.streams.as_mut().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        let mut limit = [0; LIMIT];
        limits.read_exact(&mut limit)?;
        let limit = u64::from_le_bytes(limit);
        self.left -= 1;
        let Some(len) = limit.checked_sub(self.at).filter(|&len| len <= MAX_RECORD) else {
            return Ok(Err(Problem::new(0, format!("a record would end at byte {limit}, which cannot be"))));
        };
        self.at = limit;
        Ok(Ok(len))
    }
}

impl Cut for BagCut {
    fn next(&mut self, _: &mut dyn BufRead, block: &mut Vec<u8>) -> io::Result<Result<bool, Problem>> {
        if let Some(problem) = self.problem.take() {
            return Ok(Err(problem));
        }
        let mut lens = Vec::with_capacity(RECORDS_PER_BLOCK);
        while lens.len() < RECORDS_PER_BLOCK && self.left > 0 {
            match self.next_len()? {
                Ok(len) => lens.push(len),
                Err(problem) if lens.is_empty() => return Ok(Err(problem)),
                Err(problem) => {
                    self.problem = Some(problem);
                    break;
                }
            }
        }
        if lens.is_empty() {
            return Ok(Ok(false));
        }
        block.extend((lens.len() as u32).to_le_bytes());
        block.extend(lens.iter().flat_map(|&len| (len as u32).to_le_bytes()));
        let total: u64 = lens.iter().sum();
        let (records, _) =
            self.streams.as_mut().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        let read = records.take(total).read_to_end(block)? as u64;
        if read < total {
            return Ok(Err(Problem::new(read as usize, "the file ends within a record")));
        }
        Ok(Ok(true))
    }

    fn length(&self, block: &[u8]) -> u64 {
        (block.len() - start_of_records(block)) as u64
    }

    fn skip_to(&mut self, _: &mut dyn BufRead, bytes: u64) -> io::Result<()> {
        while self.at < bytes && self.left > 0 {
            if self.next_len()?.is_err() {
                return Err(io::Error::other("the limits of the bag are damaged"));
            }
        }
        let (records, _) =
            self.streams.as_mut().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        io::copy(&mut records.take(bytes), &mut io::sink())?;
        Ok(())
    }
}

fn start_of_records(block: &[u8]) -> usize {
    let count = block.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
    4 + 4 * count
}

impl Codec for Bag {
    fn cut(&self) -> Box<dyn Cut> {
        let records = self.reader(0);
        let streams = records.and_then(|records| Ok((records, self.reader(self.limits)?)));
        Box::new(BagCut { streams, left: self.count, at: 0, problem: None })
    }

    fn decode(&self, block: &[u8], out: &mut Decoded) {
        let start = start_of_records(block);
        let mut at = start;
        for len in block[4..start].as_chunks::<4>().0 {
            let len = u32::from_le_bytes(*len) as usize;
            let bytes = &block[at..at + len];
            match decode_packed(bytes, self.kind, self.compressed) {
                Ok(record) => out.records.push(record),
                Err(problem) => out.fail(at - start, problem),
            }
            at += len;
        }
    }
}

fn decode_packed(bytes: &[u8], kind: BagKind, compressed: bool) -> Result<Record, String> {
    if !compressed || bytes.is_empty() {
        return decode_record(bytes, kind);
    }
    // Zstandard frames need not state their decompressed length.
    let mut unpacked = Vec::new();
    let decoder = zstd::stream::read::Decoder::new(bytes).map_err(|error| error.to_string())?;
    decoder.take(MAX_RECORD).read_to_end(&mut unpacked).map_err(|error| error.to_string())?;
    decode_record(&unpacked, kind)
}

/// Variable-length integer of seven bits a byte, least significant first.
fn read_varint(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0usize;
    for shift in (0..28).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= usize::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn read_text<'a>(bytes: &mut &'a [u8], what: &str) -> Result<&'a str, String> {
    let len = read_varint(bytes).ok_or_else(|| format!("the length of the {what} is missing"))?;
    let (text, rest) =
        bytes.split_at_checked(len).ok_or_else(|| format!("the record ends within the {what}"))?;
    *bytes = rest;
    std::str::from_utf8(text).map_err(|_| format!("the {what} is not text"))
}

fn decode_record(mut bytes: &[u8], kind: BagKind) -> Result<Record, String> {
    let text = read_text(&mut bytes, "position")?;
    let mut record = Record::new(Packed::from_fen(text)?);
    let mut mv = None;
    let mut win_probability = None;
    match kind {
        BagKind::ActionValue => {
            mv = Some(read_text(&mut bytes, "move")?);
            win_probability = Some(bytes);
        }
        BagKind::StateValue => win_probability = Some(bytes),
        BagKind::BehavioralCloning => {
            mv = Some(std::str::from_utf8(bytes).map_err(|_| "the move is not text".to_string())?);
        }
    }
    if let Some(mv) = mv {
        record.mv = Some(record.position.parse_move(mv)?);
    }
    if let Some(bytes) = win_probability {
        let bytes: [u8; 8] =
            bytes.try_into().map_err(|_| "the win probability is not eight bytes".to_string())?;
        let win_probability = f64::from_be_bytes(bytes);
        if !(0.0..=1.0).contains(&win_probability) {
            return Err(format!("{win_probability} is not a win probability"));
        }
        record.score = Some(Score::WinProbability(win_probability));
    }
    Ok(record)
}

pub(crate) struct BagEncoder {
    compressed: bool,
    kind: BagKind,
    written: u64,
    limits: Vec<u8>,
}

impl BagEncoder {
    pub(crate) fn new(compressed: bool, kind: BagKind) -> Self {
        Self { compressed, kind, written: 0, limits: Vec::new() }
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    let mut len = text.len();
    while len >= 0x80 {
        out.push(len as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
    out.extend(text.as_bytes());
}

impl Encode for BagEncoder {
    fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        let unsupported =
            |text: &str| Unsupported(format!("such a bag cannot carry a position without {text}"));
        let board = record.position.board().map_err(|error| Unsupported(error.to_string()))?;
        let mv = || {
            let mv = record.mv.ok_or_else(|| unsupported("a move"))?;
            Ok(uci::format(&board, mv, fen::is_chess960(&board)))
        };
        let win_probability =
            || Ok(record.score.ok_or_else(|| unsupported("a score"))?.win_probability().to_be_bytes());
        let mut bytes = Vec::new();
        put_text(&fen::format(&board), &mut bytes);
        match self.kind {
            BagKind::ActionValue => {
                put_text(&mv()?, &mut bytes);
                bytes.extend(win_probability()?);
            }
            BagKind::StateValue => bytes.extend(win_probability()?),
            BagKind::BehavioralCloning => bytes.extend(mv()?.as_bytes()),
        }
        if self.compressed {
            bytes = zstd::bulk::compress(&bytes, 3).map_err(|error| Unsupported(error.to_string()))?;
        }
        self.written += bytes.len() as u64;
        self.limits.extend(self.written.to_le_bytes());
        out.extend(bytes);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        out.append(&mut self.limits);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;

    fn directory(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("tandem-bag-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn bags_round_trip() {
        let dir = directory("trip");
        let mut records = samples::games(40);
        for record in &mut records {
            record.score = record.score.map(|score| Score::WinProbability(score.win_probability()));
        }
        for kind in [BagKind::ActionValue, BagKind::StateValue, BagKind::BehavioralCloning] {
            for (name, compressed) in [("x.bag", false), ("x.bagz", true)] {
                let mut bytes = Vec::new();
                let mut encoder = BagEncoder::new(compressed, kind);
                records.iter().for_each(|record| encoder.push(record, &mut bytes).unwrap());
                encoder.finish(&mut bytes).unwrap();
                std::fs::write(dir.join(name), &bytes).unwrap();
                let bag = Bag::open(&dir.join(name), compressed, kind).unwrap().unwrap();
                let decoded = samples::decode_all(&bag, b"");
                assert_eq!(decoded.problems, []);
                assert_eq!(decoded.records.len(), records.len());
                for (decoded, record) in decoded.records.iter().zip(&records) {
                    let mv = record.mv.filter(|_| kind != BagKind::StateValue);
                    let score = record.score.filter(|_| kind != BagKind::BehavioralCloning);
                    assert_eq!(*decoded, Record { mv, score, result: None, starts_game: false, ..*record });
                }
                for len in [1, 7, 9, bytes.len() / 2, bytes.len() - 1] {
                    std::fs::write(dir.join(name), &bytes[..len]).unwrap();
                    let bag = Bag::open(&dir.join(name), compressed, kind).unwrap();
                    let is_reported =
                        bag.map_or(true, |bag| !samples::decode_all(&bag, b"").problems.is_empty());
                    assert!(is_reported, "{len} bytes");
                }
            }
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// Bytes that DeepMind's own code writes for the same records.
    #[test]
    fn records_are_those_of_the_original() {
        let mut record = Record::new(Packed::new(&tandem_chess::Board::default()).unwrap());
        record.mv = Some(tandem_chess::Move {
            from: tandem_chess::Square::E2,
            to: tandem_chess::Square::E4,
            promotion: None,
        });
        record.score = Some(Score::WinProbability(0.5));
        let fen = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
        let mut position = vec![56];
        position.extend(fen.as_bytes());
        for (kind, rest) in [
            (BagKind::ActionValue, &b"\x04e2e4\x3f\xe0\0\0\0\0\0\0"[..]),
            (BagKind::StateValue, b"\x3f\xe0\0\0\0\0\0\0"),
            (BagKind::BehavioralCloning, b"e2e4"),
        ] {
            let mut bytes = Vec::new();
            let mut encoder = BagEncoder::new(false, kind);
            encoder.push(&record, &mut bytes).unwrap();
            assert_eq!(bytes, [&position[..], rest].concat(), "{kind:?}");
            // End offset of the only record, as in DeepMind's example, which has three.
            let len = bytes.len() as u64;
            encoder.finish(&mut bytes).unwrap();
            assert_eq!(bytes[len as usize..], len.to_le_bytes());
        }
    }

    /// DeepMind's own example: three records, none of which is a position.
    #[test]
    fn the_container_is_that_of_the_original() {
        let dir = directory("golden");
        let bytes = b"abcdef123catcat\x06\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x0f\0\0\0\0\0\0\0";
        std::fs::write(dir.join("x.bag"), bytes).unwrap();
        let bag = Bag::open(&dir.join("x.bag"), false, BagKind::StateValue).unwrap().unwrap();
        assert_eq!((bag.count, bag.limits), (3, 15));
        let decoded = samples::decode_all(&bag, b"");
        let places: Vec<usize> = decoded.problems.iter().map(|(_, problem)| problem.byte).collect();
        assert_eq!(places, [0, 6, 9]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn records_before_a_damaged_limit_are_read() {
        let dir = directory("limit");
        let records = &samples::games(1)[..3];
        let mut bytes = Vec::new();
        let mut encoder = BagEncoder::new(false, BagKind::BehavioralCloning);
        records.iter().for_each(|record| encoder.push(record, &mut bytes).unwrap());
        encoder.finish(&mut bytes).unwrap();
        let second = bytes.len() - 2 * LIMIT;
        bytes[second..second + LIMIT].fill(0xFF);
        std::fs::write(dir.join("x.bag"), &bytes).unwrap();
        let bag = Bag::open(&dir.join("x.bag"), false, BagKind::BehavioralCloning).unwrap().unwrap();
        let decoded = samples::decode_all(&bag, b"");
        assert_eq!((decoded.records.len(), decoded.problems.len()), (1, 1));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn shards_are_found_and_missing_ones_are_named() {
        let dir = directory("shards");
        for number in 0..3 {
            std::fs::write(dir.join(format!("av-0000{number}-of-00003_data.bag")), b"").unwrap();
        }
        let files = shards(&dir.join("av@3_data.bag")).unwrap();
        assert_eq!(files.len(), 3);
        assert!(files[2].ends_with("av-00002-of-00003_data.bag"));
        let error = shards(&dir.join("av@4_data.bag")).unwrap_err().to_string();
        assert!(error.contains("av-00000-of-00004_data.bag: this shard is missing"), "{error}");
        assert!(shards(Path::new("x@.bag")).is_err() && shards(Path::new("x@0.bag")).is_err());
        assert_eq!(shards(Path::new("dir@2/x.bag")).unwrap(), [PathBuf::from("dir@2/x.bag")]);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
