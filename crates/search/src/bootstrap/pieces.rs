//! Terms of the pieces: mobility, threats, attacks on the king, and blockers of passed pawns.

use super::Ledger;
use super::pawns::{AHEAD, PawnEntry, king_ring, stop_square};
use super::tables::term;
use tandem_chess::{
    BitBoard, Board, Color, Piece, Square, get_bishop_moves, get_king_moves, get_knight_moves,
    get_rook_moves, pawn_attacks,
};

/// Squares that the pieces of one side attack.
#[derive(Clone, Copy, Default)]
pub(super) struct Attacks {
    by: [BitBoard; 6],
    all: BitBoard,
    twice: BitBoard,
    /// Pressure on the opponent's king by attacks on the squares around it.
    pressure: i32,
}

impl Attacks {
    #[inline]
    fn add(&mut self, piece: Piece, squares: BitBoard) {
        self.by[piece as usize] |= squares;
        self.twice |= self.all & squares;
        self.all |= squares;
    }
}

/// Pressure for each square around the king that a piece of each kind attacks.
const PRESSURE: [i32; 6] = [0, 2, 2, 3, 4, 0];
/// Pressure for the possibility of a safe check by each kind of piece.
const CHECK_PRESSURE: [i32; 6] = [0, 6, 4, 7, 6, 0];
/// Pressure for each square around the king that only king or queen defends.
const WEAK_PRESSURE: i32 = 2;
/// Bound of the pressure, the number of values in the table of king danger.
const PRESSURES: i32 = 48;

/// Enters mobility, outposts and files of one side's pieces, and returns their attacks.
#[inline]
pub(super) fn piece_terms(
    board: &Board,
    color: Color,
    pawns: &PawnEntry,
    ledger: &mut impl Ledger,
) -> Attacks {
    let ours = board.colors(color);
    let all_pawns = board.pieces(Piece::Pawn);
    let our_pawns = all_pawns & ours;
    let queens = board.pieces(Piece::Queen);
    let occupied = board.occupied();
    let ring = king_ring(board.king(!color));
    let ours_by_pawns = pawn_attacks(board, color);
    let area = !(pawn_attacks(board, !color) | our_pawns | ours & board.pieces(Piece::King));
    let unreachable = !pawns.reach[!color as usize];

    let mut attacks = Attacks::default();
    attacks.add(Piece::Pawn, ours_by_pawns);
    attacks.add(Piece::King, get_king_moves(board.king(color)));

    for square in ours & board.pieces(Piece::Knight) {
        let squares = get_knight_moves(square);
        attacks.add(Piece::Knight, squares);
        attacks.pressure += PRESSURE[Piece::Knight as usize] * (squares & ring).len() as i32;
        ledger.enter(term::KNIGHT_MOBILITY + (squares & area).len() as usize, 1);
        if is_outpost(square, color, ours_by_pawns & unreachable) {
            ledger.enter(term::OUTPOST, 1);
        }
    }
    let bishops = ours & board.pieces(Piece::Bishop);
    for square in bishops {
        let squares = get_bishop_moves(square, occupied ^ queens);
        attacks.add(Piece::Bishop, squares);
        attacks.pressure += PRESSURE[Piece::Bishop as usize] * (squares & ring).len() as i32;
        ledger.enter(term::BISHOP_MOBILITY + (squares & area).len() as usize, 1);
        if is_outpost(square, color, ours_by_pawns & unreachable) {
            ledger.enter(term::OUTPOST + 1, 1);
        }
        let same =
            if BitBoard::DARK_SQUARES.has(square) { BitBoard::DARK_SQUARES } else { BitBoard::LIGHT_SQUARES };
        ledger.enter(term::BISHOP_PAWNS, (our_pawns & same).len() as i32);
    }
    if bishops.len() >= 2 {
        ledger.enter(term::BISHOP_PAIR, 1);
    }
    let rooks = ours & board.pieces(Piece::Rook);
    for square in rooks {
        let squares = get_rook_moves(square, occupied ^ (queens | rooks));
        attacks.add(Piece::Rook, squares);
        attacks.pressure += PRESSURE[Piece::Rook as usize] * (squares & ring).len() as i32;
        ledger.enter(term::ROOK_MOBILITY + (squares & area).len() as usize, 1);
        let file = square.file().bitboard();
        if (file & all_pawns).is_empty() {
            ledger.enter(term::ROOK_OPEN, 1);
        } else if (file & our_pawns).is_empty() {
            ledger.enter(term::ROOK_HALF_OPEN, 1);
        }
        if !(file & our_pawns & pawns.passed & AHEAD[color as usize][square as usize]).is_empty() {
            ledger.enter(term::ROOK_BEHIND_PASSED, 1);
        }
    }
    for square in ours & queens {
        let squares = get_bishop_moves(square, occupied) | get_rook_moves(square, occupied);
        attacks.add(Piece::Queen, squares);
        attacks.pressure += PRESSURE[Piece::Queen as usize] * (squares & ring).len() as i32;
        ledger.enter(term::QUEEN_MOBILITY + (squares & area).len() as usize, 1);
    }
    attacks
}

/// True for a minor piece on ranks 4 to 6, on a post that no pawn of the opponent can contest.
#[inline]
fn is_outpost(square: Square, color: Color, posts: BitBoard) -> bool {
    posts.has(square) && (3..=5).contains(&(square.relative_to(color).rank() as usize))
}

/// Enters threats to the opponent's pieces and to its king.
#[inline]
pub(super) fn attack_terms(
    board: &Board,
    color: Color,
    ours: &Attacks,
    theirs: &Attacks,
    ledger: &mut impl Ledger,
) {
    let enemies = board.colors(!color);
    let minors = ours.by[Piece::Knight as usize] | ours.by[Piece::Bishop as usize];
    for (index, victim) in [Piece::Knight, Piece::Bishop, Piece::Rook, Piece::Queen].into_iter().enumerate() {
        let victims = enemies & board.pieces(victim);
        ledger.enter(term::PAWN_THREAT + index, (victims & ours.by[Piece::Pawn as usize]).len() as i32);
        ledger.enter(term::MINOR_THREAT + index, (victims & minors).len() as i32);
        ledger.enter(term::ROOK_THREAT + index, (victims & ours.by[Piece::Rook as usize]).len() as i32);
    }
    let hanging = enemies & ours.all & !theirs.all;
    let pawns = board.pieces(Piece::Pawn);
    ledger.enter(term::HANGING, (hanging & !pawns).len() as i32);
    ledger.enter(term::HANGING + 1, (hanging & pawns).len() as i32);
    let pieces = enemies & !pawns;
    ledger.enter(term::PUSH_THREAT, (push_attacks(board, color, theirs) & pieces).len() as i32);

    ledger.enter(term::KING_DANGER + king_danger(board, color, ours, theirs), 1);
}

/// Squares that own pawns would attack after an advance to a safe square.
#[inline]
fn push_attacks(board: &Board, color: Color, theirs: &Attacks) -> BitBoard {
    let pawns = board.colored_pieces(color, Piece::Pawn).0;
    let free = !(board.occupied() | theirs.by[Piece::Pawn as usize]).0 & !theirs.all.0;
    let stepped = free & if color == Color::White { pawns << 8 } else { pawns >> 8 };
    let sides = (stepped & !0x8080_8080_8080_8080) << 1 | (stepped & !0x0101_0101_0101_0101) >> 1;
    BitBoard(if color == Color::White { sides << 8 } else { sides >> 8 })
}

/// Index of a term of [`term::KING_DANGER`], the danger of one side's attack on the other king. The second
/// half of the terms is for attacks with a queen.
#[inline]
fn king_danger(board: &Board, color: Color, ours: &Attacks, theirs: &Attacks) -> usize {
    let king = board.king(!color);
    let by = |piece: Piece| ours.by[piece as usize];
    let guarded_by_pieces = theirs.by[Piece::Pawn as usize]
        | theirs.by[Piece::Knight as usize]
        | theirs.by[Piece::Bishop as usize]
        | theirs.by[Piece::Rook as usize];
    let weak = ours.all & !theirs.twice & !guarded_by_pieces;
    let mut pressure = ours.pressure + WEAK_PRESSURE * (weak & king_ring(king)).len() as i32;

    let safe = !board.colors(color) & (!theirs.all | weak & ours.twice);
    let occupied = board.occupied();
    let diagonal = get_bishop_moves(king, occupied) & safe;
    let straight = get_rook_moves(king, occupied) & safe;
    let mut check = |piece: Piece, squares: BitBoard| {
        pressure += CHECK_PRESSURE[piece as usize] * i32::from(!(squares & by(piece)).is_empty());
    };
    check(Piece::Knight, get_knight_moves(king) & safe);
    check(Piece::Bishop, diagonal);
    check(Piece::Rook, straight);
    check(Piece::Queen, diagonal | straight);

    let queen = !board.colored_pieces(color, Piece::Queen).is_empty();
    (i32::from(queen) * PRESSURES + pressure.min(PRESSURES - 1)) as usize
}

/// Enters passed pawns of one side, by the possibility to advance.
#[inline]
pub(super) fn passed_terms(
    board: &Board,
    color: Color,
    passed: BitBoard,
    theirs: &Attacks,
    ledger: &mut impl Ledger,
) {
    for pawn in passed & board.colors(color) {
        let rank = pawn.relative_to(color).rank() as usize;
        let stop = stop_square(pawn, color);
        let path = pawn.file().bitboard() & AHEAD[color as usize][pawn as usize];
        if board.occupied().has(stop) {
            ledger.enter(term::PASSED_BLOCKED + rank, 1);
        } else if (path & (board.occupied() | theirs.all)).is_empty() {
            ledger.enter(term::PASSED_FREE + rank, 1);
        } else if !theirs.all.has(stop) {
            ledger.enter(term::PASSED_STEP + rank, 1);
        }
    }
}
