//! Network outputs restricted to the legal moves of a position.

mod repetition;

pub use crate::softmax::Temperature;
pub use repetition::allows_repetition;

use crate::PolicyKind;
use crate::softmax::unnormalised_softmax;
use tandem_chess::move_map::{lc0, searchless};
use tandem_chess::{Board, Move};

/// Policy probabilities of the legal moves, in the board's order: the softmax over the legal logits only.
/// They add up to one whatever the logits are, even if some are infinite or NaN; see [`Temperature`].
///
/// `logits` has a value for each move in the encoding of `kind`. A legal move without an index, which is
/// castling in Chess960 for [`PolicyKind::Actions`], gets probability zero, or an equal one if no legal move
/// has an index.
///
/// # Panics
/// If `logits` has another length.
pub fn probabilities(
    board: &Board,
    kind: PolicyKind,
    logits: &[f32],
    temperature: Temperature,
) -> Vec<(Move, f32)> {
    let count = match kind {
        PolicyKind::Attention => lc0::COUNT,
        PolicyKind::Actions => searchless::COUNT,
    };
    assert_eq!(logits.len(), count, "a logit for each move");
    let index = |mv| match kind {
        PolicyKind::Attention => Some(lc0::index_of(board, mv).get()),
        PolicyKind::Actions => searchless::index_of(board, mv).map(|index| index.get()),
    };
    let mut moves = Vec::new();
    board.generate_moves(|generated| {
        moves.extend(generated.into_iter().map(|mv| (mv, index(mv).map_or(f32::NAN, |index| logits[index]))));
        false
    });
    softmax_in_place(&mut moves, temperature);
    moves
}

/// Replaces the number of each move by its softmax probability. The numbers may be logits, or win
/// probabilities after the moves; the temperature decides how strongly greater ones are preferred.
pub fn softmax_in_place(moves: &mut [(Move, f32)], temperature: Temperature) {
    let powers: Vec<f64> = unnormalised_softmax(moves.iter().map(|&(_, value)| value), temperature).collect();
    let total: f64 = powers.iter().sum();
    for ((_, value), power) in moves.iter_mut().zip(powers) {
        *value = (power / total) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tandem_chess::{Position, fen, uci};
    use tandem_util::random::SplitMix;

    fn of(moves: &[(Move, f32)], board: &Board, text: &str) -> f32 {
        let mv = uci::parse(board, text).unwrap();
        moves.iter().find(|(other, _)| *other == mv).unwrap().1
    }

    #[test]
    fn logits_are_read_by_the_index_of_each_move() {
        let board = fen::parse("r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1").unwrap();
        // Kingside castling by its index in each encoding; and an illegal move, of which the network is sure.
        for (kind, count, castling) in [(PolicyKind::Attention, 1858, 103), (PolicyKind::Actions, 1968, 1714)]
        {
            let mut logits = vec![0.0; count];
            logits[castling] = 3f32.ln();
            logits[500] = 1e9;
            let moves = probabilities(&board, kind, &logits, Temperature::ONE);
            let expected = 1.0 / (moves.len() as f32 + 2.0);
            assert_eq!(moves.len(), Position::from(board.clone()).legal_moves().len());
            assert!((of(&moves, &board, "e8g8") - 3.0 * expected).abs() < 1e-6);
            assert!((of(&moves, &board, "e8c8") - expected).abs() < 1e-6);
        }
    }

    #[test]
    fn a_move_without_an_index_has_probability_zero() {
        let board = fen::parse("1rk1r3/8/8/8/8/8/8/1RK1R3 w EBeb - 0 1").unwrap();
        let moves = probabilities(&board, PolicyKind::Actions, &vec![0.0; 1968], Temperature::ONE);
        assert_eq!(of(&moves, &board, "c1b1"), 0.0);
        assert!(of(&moves, &board, "c1d1") > 0.0);
        let moves = probabilities(&board, PolicyKind::Attention, &vec![0.0; 1858], Temperature::ONE);
        assert_eq!(of(&moves, &board, "c1b1"), of(&moves, &board, "c1d1"));
    }

    #[test]
    fn probabilities_follow_the_differences_of_values() {
        let moves = Position::startpos().legal_moves();
        let mut values = [(moves[0], 0.5), (moves[1], 0.6), (moves[2], 0.5)];
        softmax_in_place(&mut values, Temperature::new(0.1).unwrap());
        let expected = [1.0, 1f32.exp(), 1.0].map(|weight| weight / (2.0 + 1f32.exp()));
        assert!(
            values
                .iter()
                .zip(expected)
                .all(|((_, probability), expected)| (probability - expected).abs() < 1e-5)
        );
    }

    /// Values that a trained network should not produce.
    fn hostile() -> impl Strategy<Value = f32> {
        prop_oneof![
            any::<f32>(),
            -20f32..20.0,
            Just(f32::NAN),
            Just(f32::INFINITY),
            Just(f32::NEG_INFINITY),
            Just(f32::MAX),
            Just(f32::MIN),
            Just(-0.0),
        ]
    }

    fn temperature() -> impl Strategy<Value = Temperature> {
        let any =
            prop_oneof![0f32..4.0, Just(0.0), Just(1.0), Just(1e-45), Just(f32::MAX), Just(f32::INFINITY)];
        any.prop_filter_map("a temperature", Temperature::new)
    }

    proptest! {
        #[test]
        fn probabilities_add_up_to_one_for_any_logits(
            few in prop::collection::vec(hostile(), 1..40),
            temperature in temperature(),
            seed: u64,
            plies in 0usize..120,
        ) {
            let mut random = SplitMix::new(seed);
            let mut position = Position::startpos();
            for _ in 0..plies {
                let moves = position.legal_moves();
                if moves.is_empty() {
                    break;
                }
                position.play(moves[random.below(moves.len() as u32) as usize]);
            }
            for (kind, count) in [(PolicyKind::Attention, lc0::COUNT), (PolicyKind::Actions, searchless::COUNT)] {
                let logits: Vec<f32> = (0..count).map(|_| few[random.below(few.len() as u32) as usize]).collect();
                let moves = probabilities(position.board(), kind, &logits, temperature);
                let order: Vec<Move> = moves.iter().map(|&(mv, _)| mv).collect();
                prop_assert_eq!(&order[..], &position.legal_moves()[..]);
                prop_assert!(moves.iter().all(|(_, probability)| (0.0..=1.0).contains(probability)));
                let sum: f64 = moves.iter().map(|&(_, probability)| f64::from(probability)).sum();
                prop_assert!(moves.is_empty() || (sum - 1.0).abs() < 1e-5, "{}", sum);
            }
        }
    }
}
