//! Probing positions. Tables leave out what a capture decides, because that compresses better, and know nothing of
//! en passant. A search of the captures supplies both.

use crate::error::ProbeError;
use crate::result::{Dtz, Wdl};
use crate::{Kind, Material, Tables};
use tandem_chess::{BitBoard, Board, File, Move, Piece, Rank, Square, attackers_to};

/// Result of a position, and if a capture or pawn move is known to reach it.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    wdl: Wdl,
    /// A win by a capture, or by the only move, en passant. Then tables of distances have no entry.
    by_reset: bool,
}

/// Square of the pawn's arrival if it captures en passant.
fn en_passant_square(board: &Board) -> Option<Square> {
    let file: File = board.en_passant()?;
    Some(Square::new(file, Rank::Sixth.relative_to(board.side_to_move())))
}

/// Calls `visit` with each legal capture, and with whether it is en passant, until it returns an error.
#[inline]
fn try_for_captures<E>(board: &Board, mut visit: impl FnMut(Move, bool) -> Result<(), E>) -> Result<(), E> {
    let us = board.colors(board.side_to_move());
    // A king can be captured if the kings touch. No legal position has that, but a `Board` may.
    let theirs = board.colors(!board.side_to_move()) & !board.pieces(Piece::King);
    let en_passant = en_passant_square(board);
    // Most positions have no capture, which is found out faster than all moves are generated.
    let mut captors = if en_passant.is_some() { board.pieces(Piece::Pawn) } else { BitBoard::EMPTY };
    for square in theirs {
        captors |= attackers_to(board, square, board.occupied());
    }
    captors &= us;
    let mut result = Ok(());
    if captors.is_empty() {
        return result;
    }
    board.generate_moves_for(captors, |mut moves| {
        let all = moves.to;
        moves.to &= theirs;
        for mv in moves {
            result = visit(mv, false);
            if result.is_err() {
                return true;
            }
        }
        if let Some(to) = en_passant
            && moves.piece == Piece::Pawn
            && all.has(to)
        {
            result = visit(Move { from: moves.from, to, promotion: None }, true);
        }
        result.is_err()
    });
    result
}

fn after(board: &Board, mv: Move) -> Board {
    let mut next = board.clone();
    next.play_unchecked(mv);
    next
}

/// End of a search for captures before all were tried.
enum Stop {
    /// No other capture can be better.
    Cutoff(Wdl),
    Error(ProbeError),
}

impl From<ProbeError> for Stop {
    fn from(error: ProbeError) -> Self {
        Self::Error(error)
    }
}

impl Tables {
    /// Result of a position as if no move counted towards the fifty-move rule yet.
    ///
    /// # Errors
    ///
    /// If the position has too many pieces or castling rights, or a table that is needed is missing or damaged.
    pub fn wdl(&self, board: &Board) -> Result<Wdl, ProbeError> {
        self.check_coverage(board)?;
        Ok(self.outcome(board)?.wdl)
    }

    /// Distance of a position to the next capture or pawn move, as if no move counted towards the fifty-move rule yet.
    ///
    /// # Errors
    ///
    /// As for [`Self::wdl`]; tables of distances (`.rtbz`) are needed too.
    pub fn dtz(&self, board: &Board) -> Result<Dtz, ProbeError> {
        self.check_coverage(board)?;
        self.distance(board, true)
    }

    /// Result of a position that has no en passant capture, within the bounds `alpha` and `beta`: captures are
    /// searched by alpha-beta. Each takes a piece, so the depth is at most five.
    fn best_capture(&self, board: &Board, mut alpha: Wdl, beta: Wdl) -> Result<Wdl, ProbeError> {
        let searched = try_for_captures(board, |mv, _| {
            let wdl = -self.best_capture(&after(board, mv), -beta, -alpha)?;
            if wdl >= beta {
                return Err(Stop::Cutoff(wdl));
            }
            alpha = alpha.max(wdl);
            Ok(())
        });
        match searched {
            Err(Stop::Cutoff(wdl)) => Ok(wdl),
            Err(Stop::Error(error)) => Err(error),
            Ok(()) => Ok(alpha.max(self.stored_wdl(board)?)),
        }
    }

    fn outcome(&self, board: &Board) -> Result<Outcome, ProbeError> {
        let mut best = Wdl::Loss;
        let mut en_passant: Option<Wdl> = None;
        let searched = try_for_captures(board, |mv, is_en_passant| {
            let wdl = -self.best_capture(&after(board, mv), Wdl::Loss, -best)?;
            if wdl == Wdl::Win {
                return Err(Stop::Cutoff(wdl));
            }
            if is_en_passant {
                en_passant = en_passant.max(Some(wdl));
            } else {
                best = best.max(wdl);
            }
            Ok(())
        });
        match searched {
            Err(Stop::Cutoff(wdl)) => return Ok(Outcome { wdl, by_reset: true }),
            Err(Stop::Error(error)) => return Err(error),
            Ok(()) => {}
        }
        let stored = self.stored_wdl(board)?;
        if let Some(wdl) = en_passant {
            // The table does not know of this move. If it is the only one, the table has a stalemate.
            if wdl > best.max(stored) || (stored == Wdl::Draw && only_en_passant(board)) {
                return Ok(Outcome { wdl, by_reset: true });
            }
            best = best.max(wdl);
        }
        if best >= stored {
            return Ok(Outcome { wdl: best, by_reset: best.is_win() });
        }
        Ok(Outcome { wdl: stored, by_reset: false })
    }

    /// Distance of a position. If the table has only distances of the other side to move, all quiet moves are tried,
    /// which `look_ahead` must allow.
    fn distance(&self, board: &Board, look_ahead: bool) -> Result<Dtz, ProbeError> {
        let Outcome { wdl, by_reset } = self.outcome(board)?;
        let before_reset = wdl.distance_before_reset();
        if wdl == Wdl::Draw || by_reset {
            return Ok(Dtz(before_reset));
        }
        if wdl.is_win() && self.pawn_move_keeps(board, wdl)? {
            return Ok(Dtz(before_reset));
        }
        if let Some(distance) = self.stored_dtz(board, wdl)? {
            return Ok(Dtz(if wdl.is_win() { before_reset + distance } else { before_reset - distance }));
        }
        // After a quiet move the other side is to move, and the table has that position.
        if !look_ahead {
            return Err(ProbeError::Broken(Material::of(board), Kind::Dtz));
        }
        self.distance_by_quiet_moves(board, wdl)
    }

    /// True if a pawn move that is not a capture keeps a win.
    fn pawn_move_keeps(&self, board: &Board, wdl: Wdl) -> Result<bool, ProbeError> {
        let us = board.side_to_move();
        let pawns = board.colored_pieces(us, Piece::Pawn);
        let mut result = Ok(false);
        board.generate_moves_for(pawns, |mut moves| {
            // Captures leave the file, and so does en passant.
            moves.to &= moves.from.file().bitboard();
            for mv in moves {
                result = self.outcome(&after(board, mv)).map(|next| -next.wdl == wdl);
                if !matches!(result, Ok(false)) {
                    return true;
                }
            }
            false
        });
        result
    }

    fn distance_by_quiet_moves(&self, board: &Board, wdl: Wdl) -> Result<Dtz, ProbeError> {
        let pieces = !board.pieces(Piece::Pawn);
        // A loser without quiet moves is mated or must capture or move a pawn.
        let mut best = if wdl.is_win() { None } else { Some(wdl.distance_before_reset()) };
        let mut failed = None;
        board.generate_moves_for(pieces, |mut moves| {
            moves.to &= !board.occupied();
            for mv in moves {
                let next = after(board, mv);
                let distance = match self.distance(&next, false) {
                    Ok(distance) => -distance.0,
                    Err(error) => {
                        failed = Some(error);
                        return true;
                    }
                };
                if distance == 1 && is_mate(&next) {
                    best = Some(1);
                } else if wdl.is_win() && distance > 0 {
                    best = Some(best.map_or(distance + 1, |best| best.min(distance + 1)));
                } else if !wdl.is_win() {
                    best = best.map(|best| best.min(distance - 1));
                }
            }
            false
        });
        match (failed, best) {
            (Some(error), _) => Err(error),
            (None, Some(best)) => Ok(Dtz(best)),
            // A win that no move keeps.
            (None, None) => Err(ProbeError::Broken(Material::of(board), Kind::Dtz)),
        }
    }

    /// Distance of a position after a legal move, for the side that moved.
    pub(crate) fn distance_after(&self, before: &Board, mv: Move) -> Result<Dtz, ProbeError> {
        let next = after(before, mv);
        if is_mate(&next) {
            return Ok(Dtz(1));
        }
        // The move was a capture or a pawn move.
        if next.halfmove_clock() == 0 {
            return Ok(Dtz((-self.outcome(&next)?.wdl).distance_before_reset()));
        }
        let distance = -self.distance(&next, true)?;
        Ok(Dtz(distance.0 + distance.0.signum()))
    }
}

/// True if the side to move is not in check and has no legal move but en passant.
fn only_en_passant(board: &Board) -> bool {
    let en_passant = en_passant_square(board);
    let other = board.generate_moves(|mut moves| {
        if moves.piece == Piece::Pawn
            && let Some(to) = en_passant
        {
            moves.to &= !to.bitboard();
        }
        !moves.is_empty()
    });
    !other && board.checkers().is_empty()
}

/// True if the side to move is mated.
fn is_mate(board: &Board) -> bool {
    !board.checkers().is_empty() && !board.generate_moves(|_| true)
}
