//! The move picker: hands out moves in stages (TT move, good captures, quiets, bad captures), so that a beta
//! cutoff saves the rest of the work.

use crate::history::{Histories, QuietContext, Threats};
use crate::params::*;
use crate::strategist_effect::order_bonus;
use crate::strategist_eval::StrategistEval;
use arrayvec::ArrayVec;
use tandem_chess::{
    BitBoard, MAX_MOVES, Move, Piece, Position, Rank, checking_squares, exchange_value, generate_noisy,
    get_bishop_rays, get_rook_rays,
};

/// Moves with scores, from which the best is taken repeatedly. Keys are in an array of their own, so that the
/// search for the maximum is a few vector instructions. Quiet moves follow the captures in the same arrays,
/// so that a node touches no more memory than its moves need.
struct Scores {
    moves: ArrayVec<Move, MAX_MOVES>,
    /// Score in the upper bits, index in the lower ones, so that the greatest key names its move and the
    /// earlier of two equals wins.
    keys: ArrayVec<i32, MAX_MOVES>,
    /// Moves before this index belong to a finished stage.
    start: usize,
    left: usize,
}

impl Scores {
    const INDEX_BITS: u32 = 9;
    const INDEX_MASK: i32 = (1 << Self::INDEX_BITS) - 1;
    const TAKEN: i32 = i32::MIN;

    fn new() -> Self {
        Self { moves: ArrayVec::new(), keys: ArrayVec::new(), start: 0, left: 0 }
    }

    /// Begins the list of a new stage.
    fn begin(&mut self) {
        self.start = self.moves.len();
        self.left = 0;
    }

    #[inline]
    fn push(&mut self, mv: Move, score: i32) {
        const LIMIT: i32 = (1 << 22) - 1;
        let index = self.moves.len() as i32;
        self.moves.push(mv);
        self.keys.push(score.clamp(-LIMIT, LIMIT) << Self::INDEX_BITS | (Self::INDEX_MASK - index));
        self.left += 1;
    }

    /// Removes the best move and returns it with its score.
    #[inline]
    fn take_best(&mut self) -> Option<(Move, i32)> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let best = self.keys[self.start..].iter().copied().max()?;
        let index = (Self::INDEX_MASK - (best & Self::INDEX_MASK)) as usize;
        self.keys[index] = Self::TAKEN;
        Some((self.moves[index], best >> Self::INDEX_BITS))
    }
}

/// Set of moves that a picker hands out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All legal moves.
    All,
    /// Captures and promotions only, for quiescence.
    Noisy,
    /// Captures and promotions whose exchange (SEE) wins at least this many centipawns, for ProbCut.
    Winning(i32),
}

/// Quiet moves that are still handed out; pruning narrows the set while the picker runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Quiets {
    None,
    Checks,
    All,
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
pub(crate) struct MovePicker<'a> {
    kind: Kind,
    stage: Stage,
    tt_move: Option<Move>,
    scores: Scores,
    /// Captures that lose by exchange. If there are more than fit, the rest is handed out at once.
    bad_noisy: ArrayVec<Move, 32>,
    bad_index: usize,
    quiets: Quiets,
    /// The strategist's evaluation of the position, for the order of quiet moves.
    strategist_eval: Option<&'a StrategistEval>,
}

impl<'a> MovePicker<'a> {
    /// Picks all moves. The TT move must be legal.
    pub(crate) fn all(tt_move: Option<Move>) -> Self {
        Self::new(Kind::All, tt_move)
    }

    /// Picks captures and promotions. The TT move must be legal, and is left out if it is quiet.
    pub(crate) fn noisy(position: &Position, tt_move: Option<Move>) -> Self {
        Self::new(Kind::Noisy, tt_move.filter(|&mv| is_noisy(position, mv)))
    }

    /// Picks captures and promotions that gain at least `threshold` centipawns by exchange.
    pub(crate) fn winning(position: &Position, tt_move: Option<Move>, threshold: i32) -> Self {
        let tt_move = tt_move.filter(|&mv| is_noisy(position, mv) && position.see_ge(mv, threshold));
        Self::new(Kind::Winning(threshold), tt_move)
    }

    fn new(kind: Kind, tt_move: Option<Move>) -> Self {
        Self {
            kind,
            stage: if tt_move.is_some() { Stage::TtMove } else { Stage::ScoreNoisy },
            tt_move,
            scores: Scores::new(),
            bad_noisy: ArrayVec::new(),
            bad_index: 0,
            quiets: Quiets::All,
            strategist_eval: None,
        }
    }

    /// Adds the strategist's policy to the scores of quiet moves.
    #[inline]
    pub(crate) fn set_strategist_eval(&mut self, strategist_eval: Option<&'a StrategistEval>) {
        self.strategist_eval = strategist_eval.filter(|_| use_strategist_order());
    }

    /// Skips all further quiet moves.
    pub(crate) fn skip_quiets(&mut self) {
        self.quiets = Quiets::None;
    }

    /// Skips all further quiet moves except those that give check.
    pub(crate) fn only_checks(&mut self) {
        self.quiets = self.quiets.min(Quiets::Checks);
    }

    /// True in the last stage, when captures that lose material by exchange are handed out.
    pub(crate) fn in_bad_noisy(&self) -> bool {
        self.stage >= Stage::BadNoisy
    }

    /// Returns the next move; `None` after the last one.
    #[inline]
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
                    self.score_noisy(position, histories);
                    self.stage = Stage::GoodNoisy;
                }
                Stage::GoodNoisy => {
                    while let Some((mv, score)) = self.scores.take_best() {
                        let good = match self.kind {
                            Kind::All => {
                                position.see_ge(mv, -score / good_capture_see())
                                    || self.bad_noisy.try_push(mv).is_err()
                            }
                            Kind::Noisy => true,
                            Kind::Winning(threshold) => position.see_ge(mv, threshold),
                        };
                        if good {
                            return Some(mv);
                        }
                    }
                    self.stage = if self.kind == Kind::All { Stage::ScoreQuiets } else { Stage::Done };
                }
                Stage::ScoreQuiets => {
                    self.scores.begin();
                    if self.quiets != Quiets::None {
                        self.score_quiets(position, histories, context);
                    }
                    self.stage = Stage::Quiets;
                }
                Stage::Quiets => {
                    while self.quiets != Quiets::None
                        && let Some((mv, _)) = self.scores.take_best()
                    {
                        if self.quiets == Quiets::All || position.gives_check(mv) {
                            return Some(mv);
                        }
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

    /// Not inlined into [`Self::next`], whose usual path is short.
    #[inline(never)]
    fn score_noisy(&mut self, position: &Position, histories: &Histories) {
        let us = position.side_to_move();
        generate_noisy(position.board(), |generated| {
            for mv in generated {
                if Some(mv) == self.tt_move {
                    continue;
                }
                let victim = position.captured_by(mv);
                let mut score = match mv.promotion {
                    None => 0,
                    Some(promotion @ (Piece::Queen | Piece::Knight)) => {
                        exchange_value(promotion) * capture_victim()
                    }
                    // Other promotions are scored with the quiet moves unless they capture.
                    Some(_) if victim.is_none() => continue,
                    Some(_) => 0,
                };
                if let Some(victim) = victim {
                    score += exchange_value(victim) * capture_victim()
                        + histories.capture(us, generated.piece, mv.to, victim);
                }
                self.scores.push(mv, score);
            }
        });
    }

    #[inline(never)]
    fn score_quiets(&mut self, position: &Position, histories: &Histories, context: &QuietContext<'_>) {
        let us = position.side_to_move();
        let board = position.board();
        let theirs = board.colors(!us);
        let king = board.king(!us);
        let checks = checking_squares(board);
        let promoting = Rank::Eighth.relative_to(us).bitboard();
        // Squares where each kind of piece can be taken by a cheaper one.
        let Threats { by_pawn, by_minor, by_rook, .. } = *context.threats;
        let cheaper = [BitBoard::EMPTY, by_pawn, by_pawn, by_minor, by_rook, BitBoard::EMPTY];
        // A move that leaves a line to the king, castles or promotes may give check in another way.
        let king_lines = get_bishop_rays(king) | get_rook_rays(king);
        let tables = histories.quiet_tables(context);
        board.generate_moves(|mut generated| {
            let piece = generated.piece;
            generated.to &= !theirs;
            if self.quiets == Quiets::Checks && piece != Piece::King && !king_lines.has(generated.from) {
                generated.to &= checks[piece as usize] | promoting;
            }
            let threatened = cheaper[piece as usize];
            for mv in generated {
                if Some(mv) == self.tt_move || piece == Piece::Pawn && is_noisy(position, mv) {
                    continue;
                }
                let mut score = tables.score(mv, piece);
                if threatened.has(mv.from) {
                    score += threat_escape() * (1 + i32::from(piece == Piece::Queen));
                }
                if threatened.has(mv.to) {
                    score -= threat_escape() * (1 + i32::from(piece == Piece::Queen));
                } else if checks[piece as usize].has(mv.to) && mv.promotion.is_none() {
                    score += check_bonus();
                }
                if mv.promotion.is_some() {
                    score += underpromotion();
                }
                if let Some(strategist_eval) = self.strategist_eval {
                    score += order_bonus(strategist_eval, mv);
                }
                self.scores.push(mv, score);
            }
            false
        });
    }
}

/// True for captures, and for promotions to a queen or a knight: the moves that quiescence searches.
#[inline]
pub(crate) fn is_noisy(position: &Position, mv: Move) -> bool {
    match mv.promotion {
        Some(Piece::Queen | Piece::Knight) => true,
        _ => position.captured_by(mv).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Color;

    fn picked(position: &Position, mut picker: MovePicker) -> Vec<Move> {
        let histories = Histories::new();
        let threats = Threats::default();
        let context = QuietContext { color: Color::White, threats: &threats, pawn_key: 0, earlier: &[] };
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
    fn restricted_to_checks_it_gives_every_quiet_check_and_no_other_quiet_move() {
        for fen in [
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
            "5k2/8/8/8/8/8/8/4K2R w K - 0 1",
            "4k3/8/8/8/4N3/8/8/K3R3 w - - 0 1",
            "2k5/4P3/8/8/8/8/8/4K3 w - - 0 1",
        ] {
            let position = Position::from_fen(fen).unwrap();
            let mut picker = MovePicker::all(None);
            picker.only_checks();
            let picked = picked(&position, picker);
            for mv in position.legal_moves() {
                let wanted = is_noisy(&position, mv) || position.gives_check(mv);
                assert_eq!(picked.contains(&mv), wanted, "{mv} in {fen}");
            }
        }
    }

    #[test]
    fn more_queens_than_a_game_can_have_do_no_harm() {
        let fen = "6rk/6pp/Q2Q3Q/1Q3Q2/Q2Q3Q/1Q3Q2/Q2Q3Q/K1Q2Q2 w - - 0 1";
        let position = Position::from_fen(fen).unwrap();
        let legal = position.legal_moves().len();
        assert_eq!(picked(&position, MovePicker::all(None)).len(), legal);
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
