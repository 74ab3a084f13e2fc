//! Leela's training data: a game is a gzip file of records of one size, an archive holds many of them.
//!
//! Versions 3 to 7 are read, version 6 is written, with the classical input planes: positions of PGN files and all other
//! data become what Leela's trainers read, with the move played as the policy and the result as the value.

use super::tar;
use crate::codec::*;
use crate::format::Opened;
use crate::packed::*;
use crate::record::{Outcome, Record, Score};
use flate2::read::MultiGzDecoder;
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::sync::Arc;
use tandem_chess::history::{BOARDS, HistoryFill, last_boards};
use tandem_chess::move_map::lc0 as policy;
use tandem_chess::*;

/// Moves that the policy tells apart.
const MOVES: usize = 1858;
/// Bitboards of each of the last boards: six kinds of ours, six of theirs, repetition.
const PLANES: usize = 13;
/// Records of a block at least; it ends with a game, if games end at all before there are so many.
const TOGETHER: usize = 512;
const MOST_TOGETHER: usize = 4096;
/// No packed game is longer.
const MAX_MEMBER: u64 = 256 << 20;

/// Where things are in a record of some version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    version: u32,
    size: usize,
    probabilities: usize,
    planes: usize,
    castling: usize,
}

impl Layout {
    fn of(version: u32) -> Option<Self> {
        let size = match version {
            3 => 8276,
            4 => 8292,
            5 => 8308,
            6 => 8356,
            7 => 8396,
            _ => return None,
        };
        // From version 5 on the format of the input planes stands before all else.
        let probabilities = if version >= 5 { 8 } else { 4 };
        let planes = probabilities + 4 * MOVES;
        Some(Self { version, size, probabilities, planes, castling: planes + 8 * BOARDS * PLANES })
    }
}

pub(crate) fn open(input: &mut dyn BufRead) -> io::Result<Opened> {
    // No more than four bytes can be counted on before any are used; an archive begins with the name of a file, which
    // is no version.
    let start = input.fill_buf()?;
    let version = start.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    Ok(match Layout::of(version) {
        _ if start.is_empty() => Ok((Arc::new(Lc0 { archive: false, layout: None }), 0)),
        Some(layout) => Ok((Arc::new(Lc0 { archive: false, layout: Some(layout) }), 0)),
        None if start[0].is_ascii_graphic() => Ok((Arc::new(Lc0 { archive: true, layout: None }), 0)),
        None => Err(Problem::new(
            0,
            format!("version {version} of Leela's training data is unknown; there are 3 to 7"),
        )),
    })
}

struct Lc0 {
    archive: bool,
    layout: Option<Layout>,
}

/// A member of an archive is a block.
struct ArchiveCut {
    /// Bytes of the archive that belong to the last block.
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

/// Records of one size, cut where a game begins: the number of a move follows from the record before.
struct ChunkCut {
    layout: Layout,
    /// The first record of the next block.
    held: Vec<u8>,
}

impl Cut for ChunkCut {
    fn next(&mut self, input: &mut dyn BufRead, block: &mut Vec<u8>) -> io::Result<Result<bool, Problem>> {
        let size = self.layout.size;
        block.append(&mut self.held);
        read_up_to(input, block, TOGETHER * size)?;
        while (TOGETHER * size..MOST_TOGETHER * size).contains(&block.len()) {
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

/// Nothing at all, which has no layout.
struct EmptyCut;

impl Cut for EmptyCut {
    fn next(&mut self, input: &mut dyn BufRead, block: &mut Vec<u8>) -> io::Result<Result<bool, Problem>> {
        read_up_to(input, block, 1)?;
        Ok(Ok(!block.is_empty()))
    }
}

/// Whether a record knows of no board before its own.
fn knows_no_past(bytes: &[u8], layout: Layout) -> bool {
    let before = layout.planes + 8 * PLANES;
    bytes.get(before..before + 8 * PLANES).is_some_and(|planes| planes.iter().all(|&byte| byte == 0))
}

/// The canonical formats forget the boards before a move that cannot be taken back, so that nothing follows from having none.
fn is_canonical(bytes: &[u8], layout: Layout) -> bool {
    layout.version >= 5 && u32_at(bytes, 4) >= 3
}

/// Whether a game begins with a record, which another one comes before.
fn begins_game(before: &[u8], bytes: &[u8], layout: Layout) -> bool {
    // What a cut file ends with is left to the decoder to tell.
    if bytes.len() < layout.size {
        return false;
    }
    if !is_canonical(bytes, layout) {
        return knows_no_past(bytes, layout);
    }
    match (decode(before, layout), decode(bytes, layout)) {
        (Ok((_, board)), Ok((record, _))) => !comes_of(&board, &record.position),
        _ => false,
    }
}

/// Whether some move leads to a position. The record before may name another: the one that was looked at most.
fn comes_of(before: &Board, position: &Packed) -> bool {
    before.generate_moves(|moves| {
        moves.into_iter().any(|mv| {
            let mut board = before.clone();
            board.play_unchecked(mv);
            Packed::new(&board).is_some_and(|after| {
                after.codes_by_square() == position.codes_by_square()
                    && after.side_to_move() == position.side_to_move()
            })
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
                out.fail_with_rest(0, format!("a game cannot be unpacked to its end: {error}"));
            }
            bytes = &unpacked;
        }
        let version = bytes.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let Some(layout) = self.layout.or_else(|| Layout::of(version)) else {
            return out
                .fail(0, format!("version {version} of Leela's training data is unknown; there are 3 to 7"));
        };
        let first = out.records.len();
        decode_records(bytes, layout, out);
        // A member of an archive is a game, wherever it starts from.
        if self.archive {
            for (number, record) in out.records[first..].iter_mut().enumerate() {
                record.starts_game = number == 0;
            }
        }
    }
}

fn decode_records(bytes: &[u8], layout: Layout, out: &mut Decoded) {
    let mut next: Option<Packed> = None;
    // The board of the record before. With nothing before it a record of a canonical format begins a game: there a
    // block ends.
    let mut before: Option<Board> = None;
    let whole = bytes.chunks_exact(layout.size);
    let rest = whole.remainder().len();
    for (number, bytes) in whole.enumerate() {
        let at = number * layout.size;
        match decode(bytes, layout) {
            Ok((mut record, board)) => {
                record.starts_game = if is_canonical(bytes, layout) {
                    !before.as_ref().is_some_and(|before| comes_of(before, &record.position))
                } else {
                    knows_no_past(bytes, layout)
                };
                // Records do not tell the number of the move: it is counted on from the one before.
                if let Some(before) = next.filter(|before| {
                    Packed { fullmove: record.position.fullmove, ..*before } == record.position
                }) {
                    record.position.fullmove = before.fullmove;
                    record.ply = record.position.ply();
                }
                next = record.mv.and_then(|mv| {
                    let mut board = board.clone();
                    board.play_unchecked(mv);
                    let packed = Packed::new(&board)?;
                    let black = record.position.side_to_move() == Color::Black;
                    Some(Packed { fullmove: record.position.fullmove + u16::from(black), ..packed })
                });
                before = Some(board);
                out.records.push(record);
            }
            Err(problem) => {
                (next, before) = (None, None);
                out.fail(at, problem);
            }
        }
    }
    if rest > 0 {
        out.fail(bytes.len() - rest, format!("{rest} bytes of a record of {}", layout.size));
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn f32_at(bytes: &[u8], at: usize) -> f32 {
    f32::from_bits(u32_at(bytes, at))
}

/// A plane as it is stored: a byte for each rank of the side to move, the file a in the highest bit.
fn plane(bytes: &[u8], layout: Layout, number: usize) -> BitBoard {
    let at = layout.planes + 8 * number;
    let mut ranks = [0; 8];
    ranks.copy_from_slice(&bytes[at..at + 8]);
    BitBoard(u64::from_le_bytes(ranks.map(u8::reverse_bits)))
}

/// How the canonical formats turn the board, and how it is turned back.
#[derive(Clone, Copy)]
struct Turned {
    /// Bits: along the diagonal, upside down, left for right.
    how: u8,
    /// Black is to move, and looks at the board from the other side.
    black: bool,
}

impl Turned {
    /// From the board of the record to the real one.
    fn back(self, square: Square) -> Square {
        let (mut file, mut rank) = (square as usize % 8, square as usize / 8);
        if self.how & 4 != 0 {
            // Along the diagonal from a8 to h1.
            (file, rank) = (7 - rank, 7 - file);
        }
        if (self.how & 2 != 0) != self.black {
            rank = 7 - rank;
        }
        if self.how & 1 != 0 {
            file = 7 - file;
        }
        Square::index(8 * rank + file)
    }
}

/// A record by itself: whether a game begins with it is not seen here.
fn decode(bytes: &[u8], layout: Layout) -> Result<(Record, Board), String> {
    let version = u32_at(bytes, 0);
    if version != layout.version {
        return Err(format!("version {version} among records of version {}", layout.version));
    }
    let input = if layout.version >= 5 { u32_at(bytes, 4) } else { 1 };
    if ![1, 2, 3, 4, 5, 132, 133].contains(&input) {
        return Err(format!("input format {input} is unknown"));
    }
    let canonical = is_canonical(bytes, layout);
    let fields = &bytes[layout.castling..];
    let (castling, side_or_passant, rule50, invariance) = (&fields[..4], fields[4], fields[5], fields[6]);
    let black = if canonical { invariance & 0x80 != 0 } else { side_or_passant != 0 };
    let side = if black { Color::Black } else { Color::White };
    let turned = Turned { how: if canonical { invariance & 7 } else { 0 }, black };
    let real = |square: Square| turned.back(square);

    let mut codes = [None; 64];
    let mut ours = BitBoard::EMPTY;
    for (owner, shade) in [u8::from(black) * BLACK, u8::from(!black) * BLACK].into_iter().enumerate() {
        for kind in 0..6 {
            for square in plane(bytes, layout, 6 * owner + kind) {
                if codes[real(square) as usize].replace(kind as u8 | shade).is_some() {
                    return Err("two pieces stand on one square".into());
                }
                if owner == 0 {
                    ours |= real(square).bitboard();
                }
            }
        }
    }
    // Castling: ours the long way, ours the short way, theirs. In later formats a bit for the file of the rook.
    for (number, &right) in castling.iter().enumerate().filter(|(_, right)| **right != 0) {
        let owner = if number < 2 { side } else { !side };
        let long = number % 2 == 0;
        let file = match (input, long) {
            (1, true) => 0,
            (1, false) => 7,
            _ => right.trailing_zeros() as usize,
        };
        let square = Square::new(File::index(file), Rank::First.relative_to(owner));
        let shade = if owner == Color::Black { BLACK } else { 0 };
        match &mut codes[square as usize] {
            Some(code) if *code == Piece::Rook as u8 | shade => *code = CASTLING_ROOK | shade,
            _ => return Err("a right to castle without a rook in its place".into()),
        }
    }
    let pieces = Square::ALL.into_iter().filter_map(|square| Some((square, codes[square as usize]?)));
    let passant = passant_of(bytes, layout, canonical.then_some(side_or_passant), real);
    let position = Packed::from_parts(pieces, side, passant, (rule50, 1)).ok_or("more than 32 pieces")?;
    let board = position.board().map_err(|error| error.to_string())?;
    let position = Packed::new(&board).ok_or("more than 32 pieces")?;

    let index = if layout.version >= 6 { played(bytes) } else { most_visited(bytes, layout) };
    let mv = index.map(|index| move_of(&board, index, turned)).transpose()?;
    let record = Record {
        position,
        mv,
        score: chance_of(bytes, layout).map(Score::WinChance),
        result: outcome_of(bytes, layout)?,
        ply: position.ply(),
        starts_game: false,
    };
    Ok((record, board))
}

/// The square behind a pawn that has just jumped: told by later formats, and else seen by comparing with the position
/// before.
fn passant_of(
    bytes: &[u8],
    layout: Layout,
    told: Option<u8>,
    real: impl Fn(Square) -> Square,
) -> Option<Square> {
    const THEIR_PAWNS: usize = 6;
    match told {
        Some(0) => None,
        Some(files) => Some(real(Square::new(File::index(files.trailing_zeros() as usize % 8), Rank::Sixth))),
        None => {
            let now = plane(bytes, layout, THEIR_PAWNS);
            let before = plane(bytes, layout, PLANES + THEIR_PAWNS);
            let (come, gone) = (now & !before, before & !now);
            let (Some(to), Some(from)) = (come.next_square(), gone.next_square()) else { return None };
            let jumped = come.len() == 1
                && gone.len() == 1
                && from.rank() == Rank::Seventh
                && to.rank() == Rank::Fifth
                && from.file() == to.file();
            jumped.then(|| real(Square::new(to.file(), Rank::Sixth)))
        }
    }
}

const PLAYED: usize = 8344;

fn played(bytes: &[u8]) -> Option<usize> {
    let index = usize::from(u16::from_le_bytes([bytes[PLAYED], bytes[PLAYED + 1]]));
    (index < MOVES).then_some(index)
}

fn most_visited(bytes: &[u8], layout: Layout) -> Option<usize> {
    let share = |index: usize| f32_at(bytes, layout.probabilities + 4 * index);
    (0..MOVES).filter(|&index| share(index) > 0.0).max_by(|&a, &b| share(a).total_cmp(&share(b)))
}

fn move_of(board: &Board, index: usize, turned: Turned) -> Result<Move, String> {
    let illegal = || format!("the move with index {index} is not legal here");
    let index = policy::PolicyIndex::new(index).ok_or_else(illegal)?;
    if turned.how == 0 {
        return policy::move_of(board, index).ok_or_else(illegal);
    }
    // The index belongs to the turned board: the legal move whose turned image has it is meant.
    let text = policy::text(index);
    let mut moves = Vec::new();
    board.generate_moves(|generated| {
        moves.extend(generated);
        false
    });
    let square = |text: &str| text.parse::<Square>().ok().map(|square| turned.back(square));
    let (from, to) = (square(&text[..2]), square(&text[2..4]));
    let promotion = match &text[4..] {
        "q" => Some(Piece::Queen),
        "r" => Some(Piece::Rook),
        "b" => Some(Piece::Bishop),
        _ => None,
    };
    let fits = |mv: &&Move| {
        let kind = mv.promotion.filter(|&piece| piece != Piece::Knight);
        Some(mv.from) == from && Some(mv.to) == to && kind == promotion
    };
    moves.iter().find(fits).copied().ok_or_else(illegal)
}

/// The chance of the best move, as the search saw it.
fn chance_of(bytes: &[u8], layout: Layout) -> Option<f64> {
    const BEST_Q: usize = 12;
    let q = match layout.version {
        3 => return None,
        _ => f32_at(bytes, layout.castling + BEST_Q),
    };
    (q.abs() <= 1.0).then(|| (f64::from(q) + 1.0) / 2.0)
}

fn outcome_of(bytes: &[u8], layout: Layout) -> Result<Option<Outcome>, String> {
    if layout.version < 6 {
        let sign = bytes[layout.castling + 7] as i8;
        return Outcome::from_sign(sign)
            .map(Some)
            .ok_or_else(|| format!("the result is {sign}, none of 1, 0, -1"));
    }
    // Rescoring may have softened the result: the likeliest is taken.
    let (q, d) = (f32_at(bytes, 8308), f32_at(bytes, 8312));
    if !(q.abs() <= 1.001 && (-0.001..=1.001).contains(&d)) {
        return Err(format!("a result of {q} with draws of {d} is none"));
    }
    let (win, loss) = ((1.0 + q - d) / 2.0, (1.0 - q - d) / 2.0);
    Ok(Some(if d >= win && d >= loss {
        Outcome::Draw
    } else if win > loss {
        Outcome::Win
    } else {
        Outcome::Loss
    }))
}

/// Writes games, each as soon as it is whole: gzip files in an archive, or records one after the other.
pub(crate) struct Lc0Encoder {
    archive: bool,
    follower: super::game::Follower,
    game: Vec<Record>,
    games: usize,
}

impl Lc0Encoder {
    pub(crate) fn new(path: &Path) -> Self {
        let archive =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.contains(".tar"));
        Self { archive, follower: Default::default(), game: Vec::new(), games: 0 }
    }

    fn end_game(&mut self, out: &mut Vec<u8>) -> Result<(), Unfit> {
        if self.game.is_empty() {
            return Ok(());
        }
        let bytes = encode_game(&std::mem::take(&mut self.game))?;
        if self.archive {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            let packed = io::Write::write_all(&mut packed, &bytes).and_then(|()| packed.finish());
            let packed = packed.map_err(|error| Unfit(error.to_string()))?;
            tar::write_member(&format!("game_{:06}.gz", self.games), &packed, out);
        } else {
            out.extend(bytes);
        }
        self.games += 1;
        Ok(())
    }
}

impl Encode for Lc0Encoder {
    fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unfit> {
        let unfit = |text: &str| Unfit(format!("Leela's training data cannot carry {text}"));
        if record.mv.is_none() {
            return Err(unfit("a position without a move"));
        }
        if record.result.is_none() {
            return Err(unfit("a position without a result"));
        }
        super::bin::ordinary_rights(&record.position).ok_or_else(|| unfit("Chess960's rights to castle"))?;
        let goes_on = self.follower.goes_on(record);
        self.follower.follow(record).map_err(Unfit)?;
        if !goes_on {
            self.end_game(out)?;
        }
        self.game.push(*record);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unfit> {
        self.end_game(out)?;
        if self.archive {
            tar::write_end(out);
        }
        Ok(())
    }
}

fn encode_game(game: &[Record]) -> Result<Vec<u8>, Unfit> {
    let Some(first) = game.first() else { return Ok(Vec::new()) };
    let start = first.position.board().map_err(|error| Unfit(error.to_string()))?;
    let mut position = Position::from(start);
    let mut out = Vec::with_capacity(game.len() * 8356);
    for (number, record) in game.iter().enumerate() {
        encode(record, &position, (game.len() - number) as f32, &mut out);
        if let Some(mv) = record.mv {
            position.try_play(mv).map_err(|error| Unfit(error.to_string()))?;
        }
    }
    Ok(out)
}

fn encode(record: &Record, position: &Position, plies_left: f32, out: &mut Vec<u8>) {
    let board = position.board();
    let side = board.side_to_move();
    let black = side == Color::Black;
    let start = out.len();
    out.extend(6u32.to_le_bytes());
    out.extend(1u32.to_le_bytes());

    let mut shares = [-1f32; MOVES];
    board.generate_moves(|generated| {
        for mv in generated {
            shares[policy::index_of(board, mv).get()] = 0.0;
        }
        false
    });
    let played = record.mv.map_or(MOVES, |mv| policy::index_of(board, mv).get());
    if let Some(share) = shares.get_mut(played) {
        *share = 1.0;
    }
    out.extend(shares.iter().flat_map(|share| share.to_le_bytes()));

    for past in last_boards(position, HistoryFill::FenOnly) {
        for squares in past.ours.into_iter().chain(past.theirs) {
            out.extend(squares.0.to_le_bytes().map(u8::reverse_bits));
        }
        out.extend(if past.repeated { [0xFF; 8] } else { [0; 8] });
    }

    for owner in [side, !side] {
        let rights = board.castle_rights(owner);
        out.extend([rights.long, rights.short].map(|right| u8::from(right.is_some())));
    }
    out.extend([u8::from(black), board.halfmove_clock(), 0, 0]);

    let (result_q, result_d) = match record.result {
        Some(Outcome::Win) => (1.0, 0.0),
        Some(Outcome::Loss) => (-1.0, 0.0),
        _ => (0.0f32, 1.0f32),
    };
    let (q, d) = match record.score {
        Some(score) => (2.0 * score.win_chance() as f32 - 1.0, 0.0),
        None => (result_q, result_d),
    };
    let numbers = [
        q,
        q,
        d,
        d,
        plies_left,
        plies_left,
        plies_left,
        result_q,
        result_d,
        q,
        d,
        plies_left,
        f32::NAN,
        f32::NAN,
        f32::NAN,
    ];
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    out.extend(0u32.to_le_bytes());
    out.extend((played as u16).to_le_bytes());
    out.extend((played as u16).to_le_bytes());
    out.extend(0f32.to_le_bytes());
    out.extend(0f32.to_le_bytes());
    debug_assert_eq!(out.len() - start, 8356);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;

    fn decode_file(bytes: &[u8]) -> Decoded {
        let mut input = bytes;
        let (codec, _) = open(&mut input).unwrap().unwrap();
        samples::decode_all(&*codec, input)
    }

    #[test]
    fn games_come_back_from_archives_and_from_bare_records() {
        let records = samples::games(12);
        assert!(records.len() > TOGETHER, "more than one block of bare records");
        for name in ["x.tar", "x.lc0"] {
            let mut bytes = Vec::new();
            let mut encoder = Lc0Encoder::new(Path::new(name));
            records.iter().for_each(|record| encoder.push(record, &mut bytes).unwrap());
            encoder.finish(&mut bytes).unwrap();
            let decoded = decode_file(&bytes);
            assert_eq!(decoded.problems, []);
            assert_eq!(decoded.records.len(), records.len());
            for (at, (decoded, record)) in decoded.records.iter().zip(&records).enumerate() {
                let Some(Score::WinChance(chance)) = decoded.score else { panic!("a chance") };
                assert!((chance - record.score.unwrap().win_chance()).abs() < 1e-6);
                assert_eq!(*decoded, Record { score: decoded.score, ..*record }, "{name}, record {at}");
            }
        }
    }

    /// As Leela's canonical format 3 writes a game: en passant is told, and what came before a move that cannot be taken back
    /// is forgotten.
    fn canonical(bytes: &mut [u8]) {
        let layout = Layout::of(6).unwrap();
        let castling = layout.castling;
        for record in bytes.chunks_exact_mut(layout.size) {
            let board = decode(record, layout).unwrap().1;
            record[4] = 3;
            let rights = [board.side_to_move(), !board.side_to_move()].map(|side| *board.castle_rights(side));
            let files = rights.iter().flat_map(|rights| [rights.long, rights.short]);
            for (number, file) in files.enumerate() {
                record[castling + number] = file.map_or(0, |file| 1 << file as u8);
            }
            let passant = board.en_passant().map_or(0, |file| 1 << file as u8);
            let black = board.side_to_move() == Color::Black;
            let forgets = record[castling + 5] == 0;
            record[castling + 4] = passant;
            record[castling + 6] = u8::from(black) << 7;
            if forgets {
                record[layout.planes + 8 * PLANES..castling].fill(0);
            }
        }
    }

    #[test]
    fn canonical_games_are_whole_though_they_forget_their_past() {
        let records = samples::games(12);
        let starts = |records: &[Record]| records.iter().map(|record| record.starts_game).collect::<Vec<_>>();
        let mut bytes = Vec::new();
        let mut encoder = Lc0Encoder::new(Path::new("x.lc0"));
        records.iter().for_each(|record| encoder.push(record, &mut bytes).unwrap());
        encoder.finish(&mut bytes).unwrap();
        let forgetful = |bytes: &[u8]| {
            let layout = Layout::of(6).unwrap();
            bytes.chunks_exact(layout.size).filter(|record| knows_no_past(record, layout)).count()
        };
        assert_eq!(forgetful(&bytes), 12);
        canonical(&mut bytes);
        assert!(forgetful(&bytes) > 100, "{} records have no past", forgetful(&bytes));
        let decoded = decode_file(&bytes);
        assert_eq!(decoded.problems, []);
        assert_eq!(starts(&decoded.records), starts(&records));
        let moves = |records: &[Record]| {
            records.iter().map(|record| (record.position, record.mv)).collect::<Vec<_>>()
        };
        assert_eq!(moves(&decoded.records), moves(&records));

        let cut = decode_file(&bytes[..TOGETHER * Layout::of(6).unwrap().size + 100]);
        assert_eq!((cut.records.len(), cut.problems.len()), (TOGETHER, 1));

        // An archive has a game in each member.
        let first = records.iter().skip(1).position(|record| record.starts_game).unwrap() + 1;
        let mut archive = Vec::new();
        let game = &bytes[..first * Layout::of(6).unwrap().size];
        tar::write_member("game.gz", game, &mut archive);
        tar::write_end(&mut archive);
        assert_eq!(starts(&decode_file(&archive).records), starts(&records[..first]));
    }

    #[test]
    fn damage_is_told() {
        let mut bytes = Vec::new();
        let mut encoder = Lc0Encoder::new(Path::new("x.tar"));
        samples::games(2).iter().for_each(|record| encoder.push(record, &mut bytes).unwrap());
        encoder.finish(&mut bytes).unwrap();
        for len in [100, 600, 5000, bytes.len() - 3000] {
            let told = open(&mut &bytes[..len])
                .unwrap()
                .map_or(true, |(codec, _)| !samples::decode_all(&*codec, &bytes[..len]).problems.is_empty());
            assert!(told, "{len} bytes");
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
