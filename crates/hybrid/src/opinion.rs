//! What the strategist says of a position.

use tandem_chess::{Move, PackedMove};
use tandem_transformer::Prospect;
use tandem_transformer::encoding::buckets::centipawns_of_chance;
use tandem_transformer::encoding::outcomes::chances_of_outcomes;

/// How many of an NNUE's centipawns are worth a logit of its chances, if nobody has looked. The strategist's pupils learn
/// from scores that were made so.
pub(crate) const USUAL_SCALE: f32 = 125.0;

/// Nothing is worth more centipawns than this.
const MOST: f64 = 2000.0;

/// What the strategist says of a position, in little room, for a search keeps thousands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Opinion {
    prospect: Option<Prospect>,
    /// What the prospect is worth in the NNUE's centipawns.
    centipawns: Option<i32>,
    /// The legal moves, the most probable first.
    policy: Box<[(PackedMove, Share)]>,
    entropy: f32,
}

/// A part of one, in sixteen bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u16);

impl Share {
    const ONE: f32 = u16::MAX as f32;

    /// The nearest to a number from 0 to 1.
    pub fn new(share: f32) -> Self {
        Self((share * Self::ONE).round() as u16)
    }

    /// As a number from 0 to 1.
    pub fn get(self) -> f32 {
        f32::from(self.0) / Self::ONE
    }

    /// In parts of 1024, for those who count in whole numbers.
    #[inline]
    pub fn in_1024(self) -> i32 {
        i32::from(self.0) >> 6
    }
}

impl Opinion {
    /// What is expected of a position, if anything, and the probabilities of its legal moves, which add up to one if there
    /// are any.
    pub fn new(prospect: Option<Prospect>, moves: &[(Move, f32)]) -> Self {
        let mut sorted = moves.to_vec();
        // What is as probable stays in the board's order.
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        let packed = sorted.iter().map(|&(mv, share)| (PackedMove::new(Some(mv)), Share::new(share)));
        let terms = moves.iter().map(|&(_, share)| f64::from(share)).filter(|&share| share > 0.0);
        let entropy = -terms.map(|share| share * share.ln()).sum::<f64>();
        let told =
            Self { prospect, centipawns: None, policy: packed.collect(), entropy: entropy.max(0.0) as f32 };
        told.on_scale(USUAL_SCALE)
    }

    /// The same for a search whose NNUE counts otherwise: so many of its centipawns are worth a logit.
    pub(crate) fn on_scale(self, scale: f32) -> Self {
        let score = |chance: f64| {
            (f64::from(scale) * (chance / (1.0 - chance)).ln()).clamp(-MOST, MOST).round() as i32
        };
        Self { centipawns: self.chance().map(score), ..self }
    }

    /// What the side to move can expect, if the network says so.
    pub fn prospect(&self) -> Option<Prospect> {
        self.prospect
    }

    /// What the side to move can expect as one number, in which a draw counts half, on the curve that value heads are taught
    /// by; what buckets tell is brought over from the one that Lichess measured.
    pub fn chance(&self) -> Option<f64> {
        self.prospect.map(|told| match told {
            Prospect::Outcomes { .. } => told.chance(),
            Prospect::Mate | Prospect::Draw | Prospect::Chance(_) => {
                let [win, draw, _] = chances_of_outcomes(centipawns_of_chance(told.chance()));
                win + draw / 2.0
            }
        })
    }

    /// The same as an evaluation: the NNUE's centipawns that mean as much.
    pub fn centipawns(&self) -> Option<i32> {
        self.centipawns
    }

    /// The legal moves, the most probable first; none if the network has no opinion of moves.
    pub fn policy(&self) -> impl Iterator<Item = (Move, Share)> {
        self.policy.iter().filter_map(|&(mv, share)| Some((mv.unpack()?, share)))
    }

    /// The move that it likes best.
    #[inline]
    pub fn favourite(&self) -> Option<(Move, Share)> {
        let &(mv, share) = self.policy.first()?;
        Some((mv.unpack()?, share))
    }

    /// How probable a move is; `None` if it knows none such.
    #[inline]
    pub fn share(&self, mv: Move) -> Option<Share> {
        let packed = PackedMove::new(Some(mv));
        self.policy.iter().find(|(other, _)| *other == packed).map(|&(_, share)| share)
    }

    /// How unsure it is of the move, in nats: nothing if one move has all, and the logarithm of their number if all are
    /// alike. `None` if it has no opinion of moves.
    pub fn entropy(&self) -> Option<f32> {
        (!self.policy.is_empty()).then_some(self.entropy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tandem_chess::Position;
    use tandem_chess::random::SplitMix;
    use tandem_transformer::PolicyKind;
    use tandem_transformer::legal::{Temperature, probabilities};

    fn opinion_of(position: &Position, seed: u64) -> Opinion {
        let mut random = SplitMix::new(seed);
        let logits: Vec<f32> = (0..1858).map(|_| 8.0 * random.unit() as f32 - 4.0).collect();
        Opinion::new(None, &probabilities(position.board(), PolicyKind::Attention, &logits, Temperature::ONE))
    }

    #[test]
    fn entropy_is_least_for_one_move_and_greatest_for_equals() {
        let moves = Position::startpos().legal_moves();
        let even: Vec<(Move, f32)> = moves.iter().map(|&mv| (mv, 0.05)).collect();
        assert!((Opinion::new(None, &even).entropy().unwrap() - 20f32.ln()).abs() < 1e-5);
        let sure: Vec<(Move, f32)> = moves.iter().map(|&mv| (mv, f32::from(mv == moves[7]))).collect();
        let sure = Opinion::new(None, &sure);
        assert_eq!(sure.entropy(), Some(0.0));
        assert_eq!(sure.favourite().map(|(mv, share)| (mv, share.in_1024())), Some((moves[7], 1023)));
        assert_eq!(Opinion::default().entropy(), None);
        assert_eq!(Opinion::default().favourite(), None);
    }

    #[test]
    fn a_value_is_told_in_the_units_of_the_nnue() {
        // A chance of 3 to 1.
        let opinion = Opinion::new(Some(Prospect::Outcomes { win: 0.6, draw: 0.3, loss: 0.1 }), &[]);
        assert_eq!(opinion.centipawns(), Some((125.0 * 3f64.ln()).round() as i32));
        assert_eq!(opinion.on_scale(400.0).centipawns(), Some((400.0 * 3f64.ln()).round() as i32));
        let of = |prospect: Prospect| Opinion::new(Some(prospect), &[]).centipawns();
        assert_eq!([of(Prospect::Chance(0.5)), of(Prospect::Draw)], [Some(0); 2]);
        let [certain, lost] = [1.0, 0.0].map(|win| Prospect::Outcomes { win, draw: 0.0, loss: 1.0 - win });
        assert_eq!([of(certain), of(lost)], [Some(2000), Some(-2000)]);
        assert!(of(Prospect::Mate) > of(Prospect::Chance(0.9)));
        assert_eq!(Opinion::default().centipawns(), None);
    }

    proptest! {
        #[test]
        fn it_knows_the_legal_moves_and_no_other_and_they_add_up_to_one(seed: u64, plies in 0usize..100) {
            let mut random = SplitMix::new(seed);
            let mut position = Position::startpos();
            for _ in 0..plies {
                let moves = position.legal_moves();
                if moves.is_empty() {
                    break;
                }
                position.play(moves[random.below(moves.len() as u32) as usize]);
            }
            let opinion = opinion_of(&position, seed);
            let legal = position.legal_moves();
            prop_assert_eq!(opinion.policy().count(), legal.len());
            prop_assert!(legal.iter().all(|&mv| opinion.share(mv).is_some()));
            prop_assert!(opinion.policy().all(|(mv, _)| position.board().is_legal(mv)));
            prop_assert!(opinion.policy().is_sorted_by_key(|(_, share)| std::cmp::Reverse(share)));
            let sum: f32 = opinion.policy().map(|(_, share)| share.get()).sum();
            // Each was rounded to a part of 65535.
            prop_assert!(legal.is_empty() || (sum - 1.0).abs() < 0.01, "{}", sum);
        }
    }
}
