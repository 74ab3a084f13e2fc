//! One record of Leela's training data: decoding of all versions, encoding of version 6.

use crate::packed::*;
use crate::record::{Outcome, Record, Score};
use tandem_chess::history::{BOARDS, HistoryFill, last_boards};
use tandem_chess::move_map::lc0 as policy;
use tandem_chess::*;

/// Size of the policy head: the number of moves that Leela's move map distinguishes.
const MOVES: usize = 1858;
/// Bitboards for each of the last boards: six kinds of ours, six of theirs, repetition.
const PLANES: usize = 13;
/// Size in bytes of a record of version 6, the one that is written.
pub(super) const WRITTEN: usize = 8356;

/// Byte offsets of the fields in a record of some version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    version: u32,
    /// Size of a record in bytes.
    pub(super) size: usize,
    probabilities: usize,
    planes: usize,
    castling: usize,
}

impl Layout {
    /// Layout of records that begin with these bytes, by the version number at their start.
    pub(super) fn of_first(bytes: &[u8]) -> Result<Self, String> {
        let version = u32_at(bytes, 0);
        Self::of(version)
            .ok_or_else(|| format!("version {version} of Leela's training data is unknown; there are 3 to 7"))
    }

    /// Layout of a version; `None` for unknown ones.
    pub(super) fn of(version: u32) -> Option<Self> {
        let size = match version {
            3 => 8276,
            4 => 8292,
            5 => 8308,
            6 => WRITTEN,
            7 => 8396,
            _ => return None,
        };
        // From version 5 on the format of the input planes precedes all other fields but the version.
        let probabilities = if version >= 5 { 8 } else { 4 };
        let planes = probabilities + 4 * MOVES;
        Some(Self { version, size, probabilities, planes, castling: planes + 8 * BOARDS * PLANES })
    }
}

/// True if the history planes of a record are empty, as they are at the start of a game.
pub(super) fn has_empty_history(bytes: &[u8], layout: Layout) -> bool {
    let before = layout.planes + 8 * PLANES;
    bytes.get(before..before + 8 * PLANES).is_some_and(|planes| planes.iter().all(|&byte| byte == 0))
}

/// True for the canonical input formats. They drop the history before an irreversible move, so that an empty
/// history does not mark the start of a game.
pub(super) fn is_canonical(bytes: &[u8], layout: Layout) -> bool {
    layout.version >= 5 && u32_at(bytes, 4) >= 3
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn f32_at(bytes: &[u8], at: usize) -> f32 {
    f32::from_bits(u32_at(bytes, at))
}

/// Reads a plane as it is stored: a byte for each rank of the side to move, the file a in the highest bit.
fn plane(bytes: &[u8], layout: Layout, number: usize) -> BitBoard {
    let at = layout.planes + 8 * number;
    let mut ranks = [0; 8];
    ranks.copy_from_slice(&bytes[at..at + 8]);
    BitBoard(u64::from_le_bytes(ranks.map(u8::reverse_bits)))
}

/// Symmetry that the canonical formats have applied to the stored board; [`Self::to_board`] undoes it.
#[derive(Clone, Copy)]
struct BoardTransform {
    /// Bits of the transform: 4 mirrors along the diagonal, 2 upside down, 1 left for right.
    bits: u8,
    /// True if Black is to move, so that the stored board is seen from the other side.
    black: bool,
}

impl BoardTransform {
    /// Maps a square of the stored board to the real one.
    fn to_board(self, square: Square) -> Square {
        let (mut file, mut rank) = (square as usize % 8, square as usize / 8);
        if self.bits & 4 != 0 {
            // Along the diagonal from a8 to h1.
            (file, rank) = (7 - rank, 7 - file);
        }
        if (self.bits & 2 != 0) != self.black {
            rank = 7 - rank;
        }
        if self.bits & 1 != 0 {
            file = 7 - file;
        }
        Square::index(8 * rank + file)
    }
}

/// Decodes a record without its neighbours: move number and start of the game are left for the caller.
pub(super) fn decode(bytes: &[u8], layout: Layout) -> Result<(Record, Board), String> {
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
    let transform = BoardTransform { bits: if canonical { invariance & 7 } else { 0 }, black };

    let mut codes = [None; 64];
    let mut ours = BitBoard::EMPTY;
    for (owner, color_bit) in [u8::from(black) * BLACK, u8::from(!black) * BLACK].into_iter().enumerate() {
        for kind in 0..6 {
            for square in plane(bytes, layout, 6 * owner + kind) {
                let square = transform.to_board(square);
                if codes[square as usize].replace(kind as u8 | color_bit).is_some() {
                    return Err("two pieces stand on one square".into());
                }
                if owner == 0 {
                    ours |= square.bitboard();
                }
            }
        }
    }
    // Castling rights: ours queenside, ours kingside, theirs. Later formats have a bit for the file of the
    // rook.
    for (number, &right) in castling.iter().enumerate().filter(|(_, right)| **right != 0) {
        let owner = if number < 2 { side } else { !side };
        let long = number % 2 == 0;
        let file = match (input, long) {
            (1, true) => 0,
            (1, false) => 7,
            _ => right.trailing_zeros() as usize,
        };
        let square = Square::new(File::index(file), Rank::First.relative_to(owner));
        let color_bit = if owner == Color::Black { BLACK } else { 0 };
        match &mut codes[square as usize] {
            Some(code) if *code == Piece::Rook as u8 | color_bit => *code = CASTLING_ROOK | color_bit,
            _ => return Err("a castling right without a rook in its place".into()),
        }
    }
    let pieces = Square::ALL.into_iter().filter_map(|square| Some((square, codes[square as usize]?)));
    let passant = passant_of(bytes, layout, canonical.then_some(side_or_passant), transform);
    let position = Packed::from_parts(pieces, side, passant, (rule50, 1)).ok_or("more than 32 pieces")?;
    let board = position.board().map_err(|error| error.to_string())?;
    let position = Packed::new(&board).ok_or("more than 32 pieces")?;

    let index = if layout.version >= 6 { played(bytes) } else { most_visited(bytes, layout) };
    let mv = index.map(|index| move_of(&board, index, transform)).transpose()?;
    let record = Record {
        position,
        mv,
        score: win_probability(bytes, layout).map(Score::WinProbability),
        result: outcome_of(bytes, layout)?,
        ply: position.ply(),
        starts_game: false,
    };
    Ok((record, board))
}

/// Square behind a pawn that has just jumped: stored in later formats, and otherwise found by comparison with
/// the previous board.
fn passant_of(bytes: &[u8], layout: Layout, stored: Option<u8>, transform: BoardTransform) -> Option<Square> {
    const THEIR_PAWNS: usize = 6;
    match stored {
        Some(0) => None,
        Some(files) => {
            let file = File::index(files.trailing_zeros() as usize % 8);
            Some(transform.to_board(Square::new(file, Rank::Sixth)))
        }
        None => {
            let now = plane(bytes, layout, THEIR_PAWNS);
            let before = plane(bytes, layout, PLANES + THEIR_PAWNS);
            let (added, removed) = (now & !before, before & !now);
            let (Some(to), Some(from)) = (added.next_square(), removed.next_square()) else { return None };
            let jumped = added.len() == 1
                && removed.len() == 1
                && from.rank() == Rank::Seventh
                && to.rank() == Rank::Fifth
                && from.file() == to.file();
            jumped.then(|| transform.to_board(Square::new(to.file(), Rank::Sixth)))
        }
    }
}

const PLAYED: usize = 8344;

fn played(bytes: &[u8]) -> Option<usize> {
    let index = usize::from(u16::from_le_bytes([bytes[PLAYED], bytes[PLAYED + 1]]));
    (index < MOVES).then_some(index)
}

fn most_visited(bytes: &[u8], layout: Layout) -> Option<usize> {
    let probability = |index: usize| f32_at(bytes, layout.probabilities + 4 * index);
    (0..MOVES)
        .filter(|&index| probability(index) > 0.0)
        .max_by(|&a, &b| probability(a).total_cmp(&probability(b)))
}

fn move_of(board: &Board, index: usize, transform: BoardTransform) -> Result<Move, String> {
    let illegal = || format!("the move with index {index} is not legal here");
    let index = policy::PolicyIndex::new(index).ok_or_else(illegal)?;
    if transform.bits == 0 {
        return policy::move_of(board, index).ok_or_else(illegal);
    }
    // The index belongs to the transformed board: it stands for the legal move whose transformed image has
    // this index.
    let text = policy::text(index);
    let mut moves = Vec::new();
    board.generate_moves(|generated| {
        moves.extend(generated);
        false
    });
    let square = |text: &str| text.parse::<Square>().ok().map(|square| transform.to_board(square));
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

/// Win probability of the best move, from the search's expected value `best_q`.
fn win_probability(bytes: &[u8], layout: Layout) -> Option<f64> {
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
            .ok_or_else(|| format!("the result is {sign}, not one of 1, 0, -1"));
    }
    // Rescoring may have softened the result, so the likeliest outcome is taken.
    let (q, d) = (f32_at(bytes, 8308), f32_at(bytes, 8312));
    if !(q.abs() <= 1.001 && (-0.001..=1.001).contains(&d)) {
        return Err(format!("a result of {q} with draws of {d} is impossible"));
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

/// Appends a record of version 6, with the classical planes, to `out`.
pub(super) fn encode(record: &Record, position: &Position, plies_left: f32, out: &mut Vec<u8>) {
    let board = position.board();
    let side = board.side_to_move();
    let black = side == Color::Black;
    let start = out.len();
    out.extend(6u32.to_le_bytes());
    out.extend(1u32.to_le_bytes());

    let mut probabilities = [-1f32; MOVES];
    board.generate_moves(|generated| {
        for mv in generated {
            probabilities[policy::index_of(board, mv).get()] = 0.0;
        }
        false
    });
    let played = record.mv.map_or(MOVES, |mv| policy::index_of(board, mv).get());
    if let Some(probability) = probabilities.get_mut(played) {
        *probability = 1.0;
    }
    out.extend(probabilities.iter().flat_map(|probability| probability.to_le_bytes()));

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
        Some(score) => (2.0 * score.win_probability() as f32 - 1.0, 0.0),
        None => (result_q, result_d),
    };
    let fields = [
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
    out.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
    out.extend(0u32.to_le_bytes());
    out.extend((played as u16).to_le_bytes());
    out.extend((played as u16).to_le_bytes());
    out.extend(0f32.to_le_bytes());
    out.extend(0f32.to_le_bytes());
    debug_assert_eq!(out.len() - start, WRITTEN);
}

/// Turns records of a game into what Leela's canonical format 3 makes of it: the en passant file is stored,
/// and the history before an irreversible move is dropped.
#[cfg(test)]
pub(super) fn make_canonical(bytes: &mut [u8]) {
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

/// Records of version 6 converted to version 5, where another move than the one played has the most visits.
#[cfg(test)]
pub(super) fn make_version_5(bytes: &[u8]) -> Vec<u8> {
    let [old, new] = [6, 5].map(|version| Layout::of(version).unwrap());
    let mut out = Vec::new();
    for record in bytes.chunks_exact(old.size) {
        let result = decode(record, old).unwrap().0.result.unwrap();
        let start = out.len();
        out.extend(&record[..new.size]);
        let record = &mut out[start..];
        record[0] = 5;
        record[new.castling + 7] = result.sign() as u8;
        let offset = |index: usize| new.probabilities + 4 * index;
        if let Some(other) = (0..MOVES).find(|&index| f32_at(record, offset(index)) == 0.0) {
            record[offset(other)..offset(other + 1)].copy_from_slice(&2f32.to_le_bytes());
        }
    }
    out
}
