//! What the strategist says of a position.

use tandem_chess::{Move, PackedMove};
use tandem_transformer::Prospect;
use tandem_transformer::encoding::buckets::centipawns_of_chance;
use tandem_transformer::encoding::outcomes::centipawns_of_outcomes;

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
        let centipawns = prospect.map(|prospect| centipawns_of(prospect).round() as i32);
        Self { prospect, centipawns, policy: packed.collect(), entropy: entropy.max(0.0) as f32 }
    }

    /// The same for a search whose NNUE counts otherwise: one of its centipawns is worth so many of the curve's.
    pub(crate) fn in_units_of(self, factor: f32) -> Self {
        let counted = |prospect: Prospect| (centipawns_of(prospect) / f64::from(factor)).round() as i32;
        Self { centipawns: self.prospect.map(counted), ..self }
    }

    /// What the side to move can expect, if the network says so.
    pub fn prospect(&self) -> Option<Prospect> {
        self.prospect
    }

    /// The same as an evaluation in the NNUE's centipawns, by the curve that such networks are taught by.
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

/// By the curve that value heads are taught by; chances that buckets tell of are on the one that Lichess measured.
fn centipawns_of(prospect: Prospect) -> f64 {
    match prospect {
        Prospect::Outcomes { .. } => centipawns_of_outcomes(prospect.chance()),
        Prospect::Mate | Prospect::Draw | Prospect::Chance(_) => centipawns_of_chance(prospect.chance()),
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
        let [win, draw, loss] = tandem_transformer::encoding::outcomes::chances_of_outcomes(150.0);
        let opinion = Opinion::new(Some(Prospect::Outcomes { win, draw, loss }), &[]);
        assert_eq!(opinion.centipawns(), Some(150));
        assert_eq!(opinion.in_units_of(1.5).centipawns(), Some(100));
        let even = Opinion::new(Some(Prospect::Chance(0.5)), &[]);
        assert_eq!((even.centipawns(), Opinion::default().centipawns()), (Some(0), None));
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
