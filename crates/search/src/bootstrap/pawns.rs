//! Terms of the pawns and kings alone. They recur from position to position, so they are cached.

use super::tables::term;
use super::{Ledger, Pair, Sum};
use tandem_chess::{BitBoard, Board, Color, File, Piece, Position, Square, get_king_moves, get_pawn_attacks};

/// Cached terms of one arrangement of pawns and kings.
#[derive(Clone, Copy, Default)]
pub(super) struct PawnEntry {
    key: u64,
    /// White's terms minus Black's.
    pub(super) value: Pair,
    /// Passed pawns of both sides.
    pub(super) passed: BitBoard,
    /// Squares that each side's pawns attack, or could attack after advancing.
    pub(super) reach: [BitBoard; 2],
}

const ENTRIES: usize = 4096;

/// Caches [`PawnEntry`]s by the key of the pawns and the squares of the kings.
pub(super) struct PawnCache(Box<[PawnEntry]>);

impl Default for PawnCache {
    fn default() -> Self {
        Self(vec![PawnEntry::default(); ENTRIES].into_boxed_slice())
    }
}

impl PawnCache {
    #[inline]
    pub(super) fn get(&mut self, position: &Position) -> &PawnEntry {
        let board = position.board();
        let kings = board.king(Color::White) as u64 * 64 + board.king(Color::Black) as u64 + 1;
        let key = position.keys().pawn ^ kings.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let entry = &mut self.0[key as usize % ENTRIES];
        if entry.key != key {
            *entry = PawnEntry { key, ..pawn_entry(board) };
        }
        entry
    }
}

pub(super) fn pawn_entry(board: &Board) -> PawnEntry {
    let mut entry = PawnEntry::default();
    let [mut white, mut black] = [Sum::default(); 2];
    for color in Color::ALL {
        let ledger = if color == Color::White { &mut white } else { &mut black };
        entry.passed |= pawn_terms(board, color, ledger);
        king_terms(board, color, ledger);
        entry.reach[color as usize] = reach(board, color);
    }
    entry.value = white.0 - black.0;
    entry
}

fn reach(board: &Board, color: Color) -> BitBoard {
    board.colored_pieces(color, Piece::Pawn).into_iter().fold(BitBoard::EMPTY, |set, pawn| {
        set | AHEAD[color as usize][pawn as usize] & pawn.file().adjacent()
    })
}

/// Enters passed, connected and weak pawns of one side, and returns its passed pawns.
pub(super) fn pawn_terms(board: &Board, color: Color, ledger: &mut impl Ledger) -> BitBoard {
    let ours = board.colored_pieces(color, Piece::Pawn);
    let theirs = board.colored_pieces(!color, Piece::Pawn);
    let mut all_passed = BitBoard::EMPTY;
    for pawn in ours {
        let file = pawn.file();
        let rank = pawn.relative_to(color).rank() as usize;
        let ahead = AHEAD[color as usize][pawn as usize];
        let adjacent = file.adjacent() & ours;
        let support = get_pawn_attacks(pawn, !color) & ours;
        let phalanx = adjacent & pawn.rank().bitboard();
        let opposed = !(ahead & file.bitboard() & theirs).is_empty();
        let doubled = !(ahead & file.bitboard() & ours).is_empty();

        if (ahead & (file.bitboard() | file.adjacent()) & theirs).is_empty() && !doubled {
            all_passed |= pawn.bitboard();
            ledger.enter(term::PASSED + rank, 1);
            if !(support | phalanx).is_empty() {
                ledger.enter(term::PASSED_CONNECTED + rank, 1);
            }
            if rank >= 3 {
                let stop = stop_square(pawn, color);
                let weight = rank as i32 - 2;
                ledger.enter(term::PASSED_OWN_KING + distance(board.king(color), stop), weight);
                ledger.enter(term::PASSED_ENEMY_KING + distance(board.king(!color), stop), weight);
            }
        }
        if !phalanx.is_empty() {
            ledger.enter(term::PHALANX + rank, 1);
        }
        if !support.is_empty() {
            ledger.enter(term::SUPPORTED + rank, support.len() as i32);
        }
        if adjacent.is_empty() {
            ledger.enter(term::ISOLATED + usize::from(!opposed), 1);
        } else if (adjacent & !ahead).is_empty() && phalanx.is_empty() {
            // All neighbours are ahead of it, so no own pawn can defend it any more. It is backward if a pawn
            // of the opponent attacks the square in front of it.
            let stop = stop_square(pawn, color);
            if !(get_pawn_attacks(stop, color) & theirs).is_empty() {
                ledger.enter(term::BACKWARD + usize::from(!opposed), 1);
            }
        }
        if doubled {
            ledger.enter(term::DOUBLED + usize::from(!support.is_empty()), 1);
        }
    }
    all_passed
}

/// Enters the nearest pawns before the king, own ones as a shelter and the opponent's as a storm, on its file
/// and the two beside it.
pub(super) fn king_terms(board: &Board, color: Color, ledger: &mut impl Ledger) {
    let king = board.king(color);
    let ours = board.colored_pieces(color, Piece::Pawn);
    let theirs = board.colored_pieces(!color, Piece::Pawn);
    let before = AHEAD[color as usize][king as usize] | king.rank().bitboard();
    let centre = (king.file() as usize).clamp(1, 6);
    for file in centre - 1..=centre + 1 {
        let on_file = File::index(file).bitboard() & before;
        let edge = file.min(7 - file);
        ledger.enter(term::SHELTER + edge * 8 + nearest_rank(on_file & ours, color), 1);
        ledger.enter(term::STORM + edge * 8 + nearest_rank(on_file & theirs, color), 1);
    }
}

/// The lowest rank in the set from one side's view; 0 if the set is empty, because pawns are never on that
/// rank.
fn nearest_rank(set: BitBoard, color: Color) -> usize {
    match color {
        _ if set.is_empty() => 0,
        Color::White => set.0.trailing_zeros() as usize / 8,
        Color::Black => set.0.leading_zeros() as usize / 8,
    }
}

/// The square in front of a pawn.
#[inline]
pub(super) fn stop_square(pawn: Square, color: Color) -> Square {
    Square::index(match color {
        Color::White => pawn as usize + 8,
        Color::Black => pawn as usize - 8,
    })
}

/// Distance of two squares in king moves.
#[inline]
pub(super) fn distance(a: Square, b: Square) -> usize {
    let files = (a.file() as i32 - b.file() as i32).abs();
    let ranks = (a.rank() as i32 - b.rank() as i32).abs();
    files.max(ranks) as usize
}

/// The squares where attacks endanger a king: its own and those around it.
#[inline]
pub(super) fn king_ring(king: Square) -> BitBoard {
    get_king_moves(king) | king.bitboard()
}

/// Squares on higher ranks than each square, from each side's view.
pub(super) static AHEAD: [[BitBoard; 64]; 2] = ahead();

const fn ahead() -> [[BitBoard; 64]; 2] {
    let mut sets = [[BitBoard::EMPTY; 64]; 2];
    let mut square = 0;
    while square < 64 {
        let rank = square as u32 / 8;
        sets[Color::White as usize][square] = BitBoard(if rank == 7 { 0 } else { !0 << ((rank + 1) * 8) });
        sets[Color::Black as usize][square] = BitBoard(if rank == 0 { 0 } else { !0 >> ((8 - rank) * 8) });
        square += 1;
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Rank;

    #[test]
    fn ahead_is_where_it_should_be() {
        assert_eq!(AHEAD[0][Square::E7 as usize], Rank::Eighth.bitboard());
        assert_eq!(AHEAD[1][Square::E2 as usize], Rank::First.bitboard());
    }

    #[test]
    fn passed_pawns_are_found() {
        let position = Position::from_fen("4k3/p4p2/8/1P1P4/8/3P2p1/7P/4K3 w - - 0 1").unwrap();
        let expected = Square::D5.bitboard() | Square::F7.bitboard();
        assert_eq!(pawn_entry(position.board()).passed, expected);
    }
}
