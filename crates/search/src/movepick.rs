//! The order in which moves are tried, produced in stages so that a cutoff spares the rest of the work.

use crate::history::{Histories, QuietContext};
use crate::params::*;
use arrayvec::ArrayVec;
use tandem_chess::{
    BitBoard, Move, Piece, PieceMoves, Position, Rank, attacks_by_kind, exchange_value, get_bishop_moves,
    get_knight_moves, get_pawn_attacks, get_rook_moves,
};

#[derive(Clone, Copy)]
struct Scored {
    mv: Move,
    score: i32,
}

type Scores = ArrayVec<Scored, 256>;

/// What a picker is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Every move.
    All,
    /// Captures and promotions only.
    Noisy,
    /// Captures and promotions that win at least so much by exchange.
    Winning(i32),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    TtMove,
    ScoreNoisy,
    GoodNoisy,
    ScoreQuiets,
    Quiets,
    BadNoisy,
    Done,
}

/// Hands out the moves of one position, the most promising first.
pub(crate) struct MovePicker {
    kind: Kind,
    stage: Stage,
    tt_move: Option<Move>,
    /// What the generator made; quiet moves are unpacked from it only if they are asked for.
    generated: ArrayVec<PieceMoves, 20>,
    noisy: Scores,
    bad_noisy: ArrayVec<Move, 256>,
    bad_index: usize,
    quiets: Scores,
    skip_quiets: bool,
}

impl MovePicker {
    /// All moves. The table's move must be legal.
    pub(crate) fn all(tt_move: Option<Move>) -> Self {
        Self::new(Kind::All, tt_move)
    }

    /// Captures and promotions. The table's move must be legal, and is left out if it is quiet.
    pub(crate) fn noisy(position: &Position, tt_move: Option<Move>) -> Self {
        Self::new(Kind::Noisy, tt_move.filter(|&mv| is_noisy(position, mv)))
    }

    /// Captures and promotions that gain at least `threshold` by exchange.
    pub(crate) fn winning(position: &Position, tt_move: Option<Move>, threshold: i32) -> Self {
        let tt_move = tt_move.filter(|&mv| is_noisy(position, mv) && position.see_ge(mv, threshold));
        Self::new(Kind::Winning(threshold), tt_move)
    }

    fn new(kind: Kind, tt_move: Option<Move>) -> Self {
        Self {
            kind,
            stage: if tt_move.is_some() { Stage::TtMove } else { Stage::ScoreNoisy },
            tt_move,
            generated: ArrayVec::new(),
            noisy: Scores::new(),
            bad_noisy: ArrayVec::new(),
            bad_index: 0,
            quiets: Scores::new(),
            skip_quiets: false,
        }
    }

    /// No more quiet moves, please.
    pub(crate) fn skip_quiets(&mut self) {
        self.skip_quiets = true;
    }

    /// Whether the moves that lose material by exchange are being handed out.
    pub(crate) fn is_late(&self) -> bool {
        self.stage >= Stage::BadNoisy
    }

    /// The next move.
    pub(crate) fn next(
        &mut self,
        position: &Position,
        histories: &Histories,
        context: &QuietContext<'_>,
    ) -> Option<Move> {
        loop {
            match self.stage {
                Stage::TtMove => {
                    self.stage = Stage::ScoreNoisy;
                    return self.tt_move;
                }
                Stage::ScoreNoisy => {
                    position.board().generate_moves(|moves| {
                        self.generated.push(moves);
                        false
                    });
                    self.score_noisy(position, histories);
                    self.stage = Stage::GoodNoisy;
                }
                Stage::GoodNoisy => {
                    while let Some(Scored { mv, score }) = take_best(&mut self.noisy) {
                        let threshold = match self.kind {
                            Kind::All => -score / good_capture_see(),
                            Kind::Noisy => return Some(mv),
                            Kind::Winning(threshold) => threshold,
                        };
                        if position.see_ge(mv, threshold) {
                            return Some(mv);
                        }
                        self.bad_noisy.push(mv);
                    }
                    self.stage = if self.kind == Kind::All { Stage::ScoreQuiets } else { Stage::Done };
                }
                Stage::ScoreQuiets => {
                    if !self.skip_quiets {
                        self.score_quiets(position, histories, context);
                    }
                    self.stage = Stage::Quiets;
                }
                Stage::Quiets => {
                    if !self.skip_quiets
                        && let Some(Scored { mv, .. }) = take_best(&mut self.quiets)
                    {
                        return Some(mv);
                    }
                    self.stage = Stage::BadNoisy;
                }
                Stage::BadNoisy => {
                    let mv = self.bad_noisy.get(self.bad_index).copied();
                    self.bad_index += 1;
                    if mv.is_none() {
                        self.stage = Stage::Done;
                    }
                    return mv;
                }
                Stage::Done => return None,
            }
        }
    }

    fn score_noisy(&mut self, position: &Position, histories: &Histories) {
        let us = position.side_to_move();
        let theirs = position.board().colors(!us);
        let last_rank = Rank::Eighth.relative_to(us).bitboard();
        let en_passant = position.board().en_passant().map_or(BitBoard::EMPTY, |file| {
            tandem_chess::Square::new(file, Rank::Sixth.relative_to(us)).bitboard()
        });
        for generated in &self.generated {
            let mut noisy = *generated;
            noisy.to &= match generated.piece {
                Piece::Pawn => theirs | last_rank | en_passant,
                _ => theirs,
            };
            for mv in noisy {
                // Underpromotions other than to a knight are left to the quiet moves.
                if Some(mv) == self.tt_move || !is_noisy(position, mv) {
                    continue;
                }
                let mut score = 0;
                if let Some(victim) = position.captured_by(mv) {
                    score += exchange_value(victim) * capture_victim()
                        + histories.capture(us, generated.piece, mv.to, victim);
                }
                if let Some(promotion) = mv.promotion {
                    score += exchange_value(promotion) * capture_victim();
                }
                self.noisy.push(Scored { mv, score });
            }
        }
    }

    fn score_quiets(&mut self, position: &Position, histories: &Histories, context: &QuietContext<'_>) {
        let us = position.side_to_move();
        let board = position.board();
        let theirs = board.colors(!us);
        let occupied = board.occupied();
        let king = board.king(!us);
        // Squares from which each kind of piece gives check.
        let diagonal = get_bishop_moves(king, occupied);
        let straight = get_rook_moves(king, occupied);
        let checks = [
            get_pawn_attacks(king, !us),
            get_knight_moves(king),
            diagonal,
            straight,
            diagonal | straight,
            BitBoard::EMPTY,
        ];
        // Squares where each kind of piece can be taken by something cheaper.
        let by_pawn = attacks_by_kind(board, !us, &[Piece::Pawn]);
        let by_minor = by_pawn | attacks_by_kind(board, !us, &[Piece::Knight, Piece::Bishop]);
        let by_rook = by_minor | attacks_by_kind(board, !us, &[Piece::Rook]);
        let cheaper = [BitBoard::EMPTY, by_pawn, by_pawn, by_minor, by_rook, BitBoard::EMPTY];
        for generated in &self.generated {
            let piece = generated.piece;
            let mut quiet = *generated;
            quiet.to &= !theirs;
            for mv in quiet {
                if Some(mv) == self.tt_move || is_noisy(position, mv) {
                    continue;
                }
                let mut score = histories.quiet(context, mv, piece);
                let threatened = cheaper[piece as usize];
                if threatened.has(mv.from) {
                    score += threat_escape() * (1 + i32::from(piece == Piece::Queen));
                }
                if threatened.has(mv.to) {
                    score -= threat_escape() * (1 + i32::from(piece == Piece::Queen));
                } else if checks[piece as usize].has(mv.to) && mv.promotion.is_none() {
                    score += check_bonus();
                }
                if mv.promotion.is_some() {
                    score -= 20_000;
                }
                self.quiets.push(Scored { mv, score });
            }
        }
    }
}

/// Whether a move takes something or promotes to a queen or a knight: what quiescence looks at.
#[inline]
pub(crate) fn is_noisy(position: &Position, mv: Move) -> bool {
    match mv.promotion {
        Some(Piece::Queen | Piece::Knight) => true,
        _ => position.captured_by(mv).is_some(),
    }
}

/// Takes the best move out of the list. The order of the others does not matter.
#[inline]
fn take_best(moves: &mut Scores) -> Option<Scored> {
    let mut best = 0;
    let mut score = moves.first()?.score;
    for (index, scored) in moves.iter().enumerate().skip(1) {
        if scored.score > score {
            (best, score) = (index, scored.score);
        }
    }
    Some(moves.swap_remove(best))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Color;

    fn picked(position: &Position, mut picker: MovePicker) -> Vec<Move> {
        let histories = Histories::new();
        let context =
            QuietContext { color: Color::White, threats: BitBoard::EMPTY, pawn_key: 0, earlier: &[] };
        std::iter::from_fn(|| picker.next(position, &histories, &context)).collect()
    }

    #[test]
    fn every_legal_move_comes_exactly_once() {
        for fen in [
            "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
            "4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1",
            "4k3/8/8/8/8/8/4q3/4K3 w - - 0 1",
            "1rk1r3/8/8/8/8/8/8/1RK1R3 w EBeb - 0 1",
        ] {
            let position = Position::from_fen(fen).unwrap();
            let mut legal: Vec<Move> = position.legal_moves().into_iter().collect();
            let key = |mv: &Move| mv.to_string();
            legal.sort_by_key(key);
            for tt_move in [None].into_iter().chain(legal.iter().map(|&mv| Some(mv))) {
                let mut all = picked(&position, MovePicker::all(tt_move));
                assert!(tt_move.is_none_or(|mv| all[0] == mv));
                all.sort_by_key(key);
                assert_eq!(all, legal, "{fen}");
                let mut noisy = picked(&position, MovePicker::noisy(&position, tt_move));
                noisy.sort_by_key(key);
                let expected: Vec<Move> =
                    legal.iter().copied().filter(|&mv| is_noisy(&position, mv)).collect();
                assert_eq!(noisy, expected, "{fen}");
            }
        }
    }

    #[test]
    fn good_captures_come_before_quiet_moves_and_bad_ones_after() {
        // The queen can take a free knight on d5 or a guarded pawn on a6.
        let position = Position::from_fen("4k3/1p6/p7/3n4/8/3Q4/8/4K3 w - - 0 1").unwrap();
        let order = picked(&position, MovePicker::all(None));
        assert_eq!(order.first().map(Move::to_string), Some("d3d5".into()));
        assert_eq!(order.last().map(Move::to_string), Some("d3a6".into()));
    }
}
