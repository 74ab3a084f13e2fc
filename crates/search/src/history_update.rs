//! Updates of the history tables after a node: a bonus for the move that did well, a malus for those tried
//! before it.

use crate::history::{QuietContext, Threats};
use crate::movepick::is_noisy;
use crate::params::*;
use crate::worker::Worker;
use tandem_chess::Move;

/// Size of a bonus or malus, `per_ply * depth - base`, from 0 to `max`.
pub(crate) fn bonus(depth: i32, per_ply: i32, base: i32, max: i32) -> i32 {
    (per_ply * depth - base).clamp(0, max)
}

impl Worker {
    /// Adds a bonus, or a malus if negative, to all histories of a quiet move: butterfly, pawn and
    /// continuation history.
    pub(crate) fn update_quiet_history(&mut self, mv: Move, threats: &Threats, bonus: i32) {
        let piece = self.moving_piece(mv);
        let context = QuietContext {
            color: self.position.side_to_move(),
            threats,
            pawn_key: self.position.keys().pawn,
            earlier: &self.continuation_stack,
        };
        self.histories.update_quiet(&context, mv, piece, bonus);
    }

    /// Adds a bonus to the histories of the best move and a malus to those of the moves tried before it.
    pub(crate) fn update_histories(
        &mut self,
        best: Move,
        depth: i32,
        threats: &Threats,
        quiets: &[Move],
        noisies: &[Move],
    ) {
        let us = self.position.side_to_move();
        let malus = bonus(depth, noisy_malus(), noisy_malus_base(), noisy_malus_max());
        match self.position.captured_by(best) {
            Some(victim) => {
                let capture_bonus = bonus(depth, noisy_bonus(), noisy_bonus_base(), noisy_bonus_max());
                let piece = self.moving_piece(best);
                self.histories.update_capture(us, piece, best.to, victim, capture_bonus);
            }
            // Promotions are ordered by the material they gain and have no history.
            None if is_noisy(&self.position, best) => {}
            None => {
                self.update_quiet_history(
                    best,
                    threats,
                    bonus(depth, quiet_bonus(), quiet_bonus_base(), quiet_bonus_max()),
                );
                let malus = bonus(depth, quiet_malus(), quiet_malus_base(), quiet_malus_max());
                for &mv in quiets {
                    self.update_quiet_history(mv, threats, -malus);
                }
            }
        }
        for &mv in noisies {
            if let Some(victim) = self.position.captured_by(mv) {
                let piece = self.moving_piece(mv);
                self.histories.update_capture(us, piece, mv.to, victim, -malus);
            }
        }
    }
}
