//! Leela's training data: a game is a gzip file of fixed-size records, and a tar archive holds many of them.
//!
//! Versions 3 to 7 are read, version 6 is written, with the classical input planes: positions of PGN files
//! and all other data become what Leela's trainers read, with the move played as the policy and the result as
//! the value.

mod record;

use super::tar;
use crate::codec::*;
use crate::formats::Opened;
use crate::record::Record;
use flate2::read::MultiGzDecoder;
use record::{Layout, WRITTEN, decode, encode, has_empty_history, is_canonical};
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::sync::Arc;
use tandem_chess::*;

/// Smallest number of records in a block. It ends at the next start of a game, or at [`MAX_BLOCK_RECORDS`]
/// records if none is found.
const MIN_BLOCK_RECORDS: usize = 512;
const MAX_BLOCK_RECORDS: usize = 4096;
/// Largest archive member in bytes; a larger one is taken for damage.
const MAX_MEMBER: u64 = 256 << 20;

pub(crate) fn open(input: &mut dyn BufRead) -> io::Result<Opened> {
    // Only the first four bytes may be peeked at before any are consumed. An archive begins with a file name,
    // which is not a valid version.
    let start = input.fill_buf()?;
    Ok(match Layout::of_first(start) {
        _ if start.is_empty() => Ok((Arc::new(Lc0 { archive: false, layout: None }), 0)),
        Ok(layout) => Ok((Arc::new(Lc0 { archive: false, layout: Some(layout) }), 0)),
        Err(_) if start[0].is_ascii_graphic() => Ok((Arc::new(Lc0 { archive: true, layout: None }), 0)),
        Err(problem) => Err(Problem::new(0, problem)),
    })
}

struct Lc0 {
    archive: bool,
    layout: Option<Layout>,
}

/// Cuts an archive: each member is a block.
struct ArchiveCut {
    /// Bytes of the archive that belong to the last block, headers and padding included.
    used: u64,
}

impl Cut for ArchiveCut {
    fn next(&mut self, input: &mut dyn BufRead, block: &mut Vec<u8>) -> io::Result<Result<bool, Problem>> {
        self.used = 0;
        loop {
            let at = self.used as usize;
            let (len, wanted) = match tar::next_member(input)? {
                tar::Member::File { name, len } => (len, !name.ends_with("LICENSE")),
                tar::Member::Other { len } => (len, false),
                tar::Member::End => return Ok(Ok(false)),
                tar::Member::Broken(problem) => return Ok(Err(Problem::new(at, problem))),
            };
            let whole = len.saturating_add(tar::padding(len.min(u64::MAX / 2)));
            self.used += 512 + whole;
            if wanted && len > MAX_MEMBER {
                return Ok(Err(Problem::new(at, format!("a game of {len} bytes is longer than any"))));
            }
            if wanted {
                read_up_to(input, block, len as usize)?;
                if (block.len() as u64) < len {
                    return Ok(Err(Problem::new(at, "the archive ends within a game")));
                }
                io::copy(&mut io::Read::take(&mut *input, whole - len), &mut io::sink())?;
                return Ok(Ok(true));
            }
            io::copy(&mut io::Read::take(&mut *input, whole), &mut io::sink())?;
        }
    }

    fn length(&self, _: &[u8]) -> u64 {
        self.used
    }
}

/// Cuts fixed-size records where a game begins, because a move number follows from the record before.
struct ChunkCut {
    layout: Layout,
    /// First record of the next block, read to find the boundary.
    held: Vec<u8>,
}

impl Cut for ChunkCut {
    fn next(&mut self, input: &mut dyn BufRead, block: &mut Vec<u8>) -> io::Result<Result<bool, Problem>> {
        let size = self.layout.size;
        block.append(&mut self.held);
        read_up_to(input, block, MIN_BLOCK_RECORDS * size)?;
        while (MIN_BLOCK_RECORDS * size..MAX_BLOCK_RECORDS * size).contains(&block.len()) {
            let end = block.len();
            read_up_to(input, block, end + size)?;
            if block.len() == end {
                break;
            }
            if begins_game(&block[end - size..end], &block[end..], self.layout) {
                self.held = block.split_off(end);
                break;
            }
        }
        Ok(Ok(!block.is_empty()))
    }
}

/// Cuts an empty file, which has no version and thus no layout.
struct EmptyCut;

impl Cut for EmptyCut {
    fn next(&mut self, input: &mut dyn BufRead, block: &mut Vec<u8>) -> io::Result<Result<bool, Problem>> {
        read_up_to(input, block, 1)?;
        Ok(Ok(!block.is_empty()))
    }
}

/// True if a game begins with the second of two consecutive records.
fn begins_game(before: &[u8], bytes: &[u8], layout: Layout) -> bool {
    // An incomplete record at the end is reported by the decoder.
    if bytes.len() < layout.size {
        return false;
    }
    if !is_canonical(bytes, layout) {
        return has_empty_history(bytes, layout);
    }
    match (decode(before, layout), decode(bytes, layout)) {
        (Ok((_, before)), Ok((_, board))) => !is_successor(&before, &board),
        _ => false,
    }
}

/// True if a position may belong to the same game as an earlier one, with `gap` unreadable positions between
/// them.
fn follows(before: &Board, gap: u16, board: &Board) -> bool {
    match gap {
        0 => is_successor(before, board),
        _ => (before.side_to_move() == board.side_to_move()) == (gap % 2 == 1),
    }
}

/// True if some legal move leads from `before` to `board`. It may differ from the record's own move, because
/// older versions store only visit counts.
fn is_successor(before: &Board, board: &Board) -> bool {
    before.generate_moves(|moves| {
        moves.into_iter().any(|mv| {
            let mut after = before.clone();
            after.play_unchecked(mv);
            after.hash_without_ep() == board.hash_without_ep()
        })
    })
}

impl Codec for Lc0 {
    fn cut(&self) -> Box<dyn Cut> {
        match self.layout {
            _ if self.archive => Box::new(ArchiveCut { used: 0 }),
            Some(layout) => Box::new(ChunkCut { layout, held: Vec::new() }),
            None => Box::new(EmptyCut),
        }
    }

    fn decode(&self, block: &[u8], out: &mut Decoded) {
        let mut unpacked = Vec::new();
        let mut bytes = block;
        if block.starts_with(&[0x1F, 0x8B]) {
            let read = MultiGzDecoder::new(block).take(MAX_MEMBER).read_to_end(&mut unpacked);
            if let Err(error) = read {
                // A truncated game would seem to end differently from how it did.
                return out.fail_with_rest(0, format!("a game cannot be unpacked: {error}; it is left out"));
            }
            bytes = &unpacked;
        }
        let layout = match self.layout.map_or_else(|| Layout::of_first(bytes), Ok) {
            Ok(layout) => layout,
            Err(problem) => return out.fail_with_rest(0, format!("{problem}; the game is left out")),
        };
        let rest = bytes.len() % layout.size;
        if self.archive && rest > 0 {
            let problem =
                format!("the game ends with {rest} bytes of a record of {}; it is left out", layout.size);
            return out.fail_with_rest(0, problem);
        }
        let first = out.records.len();
        decode_records(bytes, layout, out);
        // Each member of an archive is one game, from whatever position it starts.
        if self.archive {
            for (number, record) in out.records[first..].iter_mut().enumerate() {
                record.starts_game = number == 0;
            }
        }
    }
}

fn decode_records(bytes: &[u8], layout: Layout, out: &mut Decoded) {
    // Board of the last readable record, and its move number, which records do not store.
    let mut last: Option<(Board, u16)> = None;
    // Number of broken records since then.
    let mut gap = 0;
    let whole = bytes.chunks_exact(layout.size);
    let rest = whole.remainder().len();
    for (number, bytes) in whole.enumerate() {
        match decode(bytes, layout) {
            Ok((mut record, board)) => {
                let continues = last.as_ref().filter(|(last, _)| follows(last, gap, &board));
                record.starts_game = match &last {
                    _ if !is_canonical(bytes, layout) => has_empty_history(bytes, layout),
                    Some(_) => {
                        continues.is_none() || has_empty_history(bytes, layout) && board == Board::default()
                    }
                    // Blocks end with games, unless a game is too long. Behind a broken record the start of a
                    // game is unknown.
                    None => number == 0,
                };
                if let Some((last, fullmove)) = continues.filter(|_| !record.starts_game) {
                    let plies = gap + 1 + u16::from(last.side_to_move() == Color::Black);
                    record.position.fullmove = fullmove + plies / 2;
                    record.ply = record.position.ply();
                }
                last = Some((board, record.position.fullmove));
                gap = 0;
                out.records.push(record);
            }
            Err(problem) => {
                gap += 1;
                out.fail(number * layout.size, problem);
            }
        }
    }
    if rest > 0 {
        out.fail(bytes.len() - rest, format!("{rest} bytes of a record of {}", layout.size));
    }
}

/// Writes games, each as soon as it is complete: as gzip members of an archive, or as consecutive records.
pub(crate) struct Lc0Encoder {
    archive: bool,
    tracker: super::game::GameTracker,
    game: Vec<Record>,
    games: usize,
}

impl Lc0Encoder {
    pub(crate) fn new(path: &Path) -> Self {
        let archive =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.contains(".tar"));
        Self { archive, tracker: Default::default(), game: Vec::new(), games: 0 }
    }

    fn end_game(&mut self, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        if self.game.is_empty() {
            return Ok(());
        }
        let bytes = encode_game(&std::mem::take(&mut self.game))?;
        if self.archive {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            let packed = io::Write::write_all(&mut packed, &bytes).and_then(|()| packed.finish());
            let packed = packed.map_err(|error| Unsupported(error.to_string()))?;
            tar::write_member(&format!("game_{:06}.gz", self.games), &packed, out);
        } else {
            out.extend(bytes);
        }
        self.games += 1;
        Ok(())
    }
}

impl Encode for Lc0Encoder {
    fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        let unsupported = |text: &str| Unsupported(format!("Leela's training data cannot carry {text}"));
        if record.mv.is_none() {
            return Err(unsupported("a position without a move"));
        }
        if record.result.is_none() {
            return Err(unsupported("a position without a result"));
        }
        super::bin::ordinary_rights(&record.position)
            .ok_or_else(|| unsupported("castling rights of Chess960"))?;
        let continues = self.tracker.continues_game(record);
        self.tracker.advance(record).map_err(Unsupported)?;
        if !continues {
            self.end_game(out)?;
        }
        self.game.push(*record);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        self.end_game(out)?;
        if self.archive {
            tar::write_end(out);
        }
        Ok(())
    }
}

fn encode_game(game: &[Record]) -> Result<Vec<u8>, Unsupported> {
    let Some(first) = game.first() else { return Ok(Vec::new()) };
    let start = first.position.board().map_err(|error| Unsupported(error.to_string()))?;
    let mut position = Position::from(start);
    let mut out = Vec::with_capacity(game.len() * WRITTEN);
    for (number, record) in game.iter().enumerate() {
        encode(record, &position, (game.len() - number) as f32, &mut out);
        if let Some(mv) = record.mv {
            position.try_play(mv).map_err(|error| Unsupported(error.to_string()))?;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::record::{make_canonical, make_version_5};
    use super::*;
    use crate::formats::samples;
    use crate::packed::Packed;
    use crate::record::Score;

    /// Games encoded as a file of this name holds them.
    fn encoded(name: &str, records: &[Record]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Lc0Encoder::new(Path::new(name));
        records.iter().for_each(|record| encoder.push(record, &mut bytes).unwrap());
        encoder.finish(&mut bytes).unwrap();
        bytes
    }

    /// Positions of records with their plies and game starts.
    fn places(records: &[Record]) -> Vec<(Packed, u16, bool)> {
        records.iter().map(|record| (record.position, record.ply, record.starts_game)).collect()
    }

    fn decode_file(bytes: &[u8]) -> Decoded {
        let mut input = bytes;
        let (codec, _) = open(&mut input).unwrap().unwrap();
        samples::decode_all(&*codec, input)
    }

    #[test]
    fn games_round_trip_in_archives_and_as_bare_records() {
        let records = samples::games(12);
        assert!(records.len() > MIN_BLOCK_RECORDS, "more than one block of bare records");
        for name in ["x.tar", "x.lc0"] {
            let decoded = decode_file(&encoded(name, &records));
            assert_eq!(decoded.problems, []);
            assert_eq!(decoded.records.len(), records.len());
            for (at, (decoded, record)) in decoded.records.iter().zip(&records).enumerate() {
                let Some(Score::WinProbability(probability)) = decoded.score else {
                    panic!("a win probability")
                };
                assert!((probability - record.score.unwrap().win_probability()).abs() < 1e-6);
                assert_eq!(*decoded, Record { score: decoded.score, ..*record }, "{name}, record {at}");
            }
        }
    }

    #[test]
    fn canonical_games_are_complete_although_they_drop_their_history() {
        let records = samples::games(12);
        let starts = |records: &[Record]| records.iter().map(|record| record.starts_game).collect::<Vec<_>>();
        let mut bytes = encoded("x.lc0", &records);
        let forgetful = |bytes: &[u8]| {
            let layout = Layout::of(6).unwrap();
            bytes.chunks_exact(layout.size).filter(|record| has_empty_history(record, layout)).count()
        };
        assert_eq!(forgetful(&bytes), 12);
        make_canonical(&mut bytes);
        assert!(forgetful(&bytes) > 100, "{} records have no past", forgetful(&bytes));
        let decoded = decode_file(&bytes);
        assert_eq!(decoded.problems, []);
        assert_eq!(starts(&decoded.records), starts(&records));
        let moves = |records: &[Record]| {
            records.iter().map(|record| (record.position, record.mv)).collect::<Vec<_>>()
        };
        assert_eq!(moves(&decoded.records), moves(&records));

        let cut = decode_file(&bytes[..MIN_BLOCK_RECORDS * Layout::of(6).unwrap().size + 100]);
        assert_eq!((cut.records.len(), cut.problems.len()), (MIN_BLOCK_RECORDS, 1));

        // Each member of an archive holds one game.
        let first = records.iter().skip(1).position(|record| record.starts_game).unwrap() + 1;
        let mut archive = Vec::new();
        let game = &bytes[..first * Layout::of(6).unwrap().size];
        tar::write_member("game.gz", game, &mut archive);
        tar::write_end(&mut archive);
        assert_eq!(starts(&decode_file(&archive).records), starts(&records[..first]));
    }

    #[test]
    fn plies_continue_although_another_move_has_the_most_visits() {
        let records = samples::games(3);
        let decoded = decode_file(&make_version_5(&encoded("x.lc0", &records)));
        assert_eq!(decoded.problems, []);
        let others = decoded.records.iter().zip(&records).filter(|(decoded, record)| decoded.mv != record.mv);
        assert!(others.count() > records.len() / 2);
        assert_eq!(places(&decoded.records), places(&records));
    }

    #[test]
    fn a_broken_record_does_not_begin_a_game() {
        let records = samples::games(1);
        let mut bytes = encoded("x.lc0", &records);
        make_canonical(&mut bytes);
        let size = Layout::of(6).unwrap().size;
        bytes[records.len() / 2 * size] = 99;
        let decoded = decode_file(&bytes);
        assert_eq!((decoded.records.len(), decoded.problems.len()), (records.len() - 1, 1));
        let mut others = records.clone();
        others.remove(records.len() / 2);
        assert_eq!(places(&decoded.records), places(&others));
    }

    #[test]
    fn a_game_begins_behind_another_whose_end_is_broken() {
        let records = samples::games(2);
        let second = records.iter().skip(1).position(|record| record.starts_game).unwrap() + 1;
        let mut bytes = encoded("x.lc0", &records);
        make_canonical(&mut bytes);
        bytes[(second - 1) * Layout::of(6).unwrap().size] = 99;
        let decoded = decode_file(&bytes);
        assert_eq!(decoded.problems.len(), 1);
        let starts = decoded.records.iter().enumerate().filter(|(_, record)| record.starts_game);
        assert_eq!(starts.map(|(at, _)| at).collect::<Vec<_>>(), [0, second - 1]);
    }

    #[test]
    fn a_game_of_part_of_a_record_is_left_out() {
        let game = encoded("x.lc0", &samples::games(1));
        let mut archive = Vec::new();
        tar::write_member("cut.gz", &game[..game.len() - 1], &mut archive);
        tar::write_member("whole.gz", &game, &mut archive);
        tar::write_end(&mut archive);
        let decoded = decode_file(&archive);
        assert_eq!(decoded.records.len(), samples::games(1).len());
        let [(0, Problem { with_rest: true, .. })] = decoded.problems[..] else {
            panic!("{:?}", decoded.problems)
        };
    }

    #[test]
    fn a_game_that_cannot_be_unpacked_is_left_out() {
        let packed = encoded("x.tar", &samples::games(1));
        let tar::Member::File { len, .. } = tar::next_member(&mut &packed[..]).unwrap() else {
            panic!("a game")
        };
        let half = &packed[512..][..len as usize / 2];
        let mut archive = Vec::new();
        tar::write_member("game.gz", half, &mut archive);
        tar::write_end(&mut archive);
        let decoded = decode_file(&archive);
        assert_eq!(decoded.records, []);
        let [(0, Problem { with_rest: true, .. })] = decoded.problems[..] else { panic!("{decoded:?}") };
    }

    #[test]
    fn damage_is_reported() {
        let bytes = encoded("x.tar", &samples::games(2));
        for len in [100, 600, 5000, bytes.len() - 3000] {
            let is_reported = open(&mut &bytes[..len])
                .unwrap()
                .map_or(true, |(codec, _)| !samples::decode_all(&*codec, &bytes[..len]).problems.is_empty());
            assert!(is_reported, "{len} bytes");
        }
        for at in (0..bytes.len()).step_by(97) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x5A;
            if let Ok(Ok((codec, _))) = open(&mut &damaged[..]) {
                let _ = samples::decode_all(&*codec, &damaged);
            }
        }
        assert!(open(&mut &[9u8, 0, 0, 0][..]).unwrap().is_err());
    }
}
