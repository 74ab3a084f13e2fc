//! Who gets the credit: moves that did well, and those tried before them that did not.

use crate::history::{QuietContext, Threats};
use crate::movepick::is_noisy;
use crate::params::*;
use crate::worker::Worker;
use tandem_chess::Move;

/// A bonus that grows with depth up to a ceiling.
pub(crate) fn bonus(depth: i32, slope: i32, base: i32, max: i32) -> i32 {
    (slope * depth - base).clamp(0, max)
}

impl Worker {
    /// Credits a quiet move, or debits it.
    pub(crate) fn reward_quiet(&mut self, mv: Move, threats: &Threats, credit: i32) {
        let piece = self.moving_piece(mv);
        let context = QuietContext {
            color: self.position.side_to_move(),
            threats,
            pawn_key: self.position.keys().pawn,
            earlier: &self.line,
        };
        self.histories.update_quiet(&context, mv, piece, credit);
    }

    /// Credits the best move and debits those tried before it.
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
                let credit = bonus(depth, noisy_bonus(), noisy_bonus_base(), noisy_bonus_max());
                let piece = self.moving_piece(best);
                self.histories.update_capture(us, piece, best.to, victim, credit);
            }
            // A promotion is ordered by what it gains and needs no record.
            None if is_noisy(&self.position, best) => {}
            None => {
                self.reward_quiet(
                    best,
                    threats,
                    bonus(depth, quiet_bonus(), quiet_bonus_base(), quiet_bonus_max()),
                );
                let malus = bonus(depth, quiet_malus(), quiet_malus_base(), quiet_malus_max());
                for &mv in quiets {
                    self.reward_quiet(mv, threats, -malus);
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
