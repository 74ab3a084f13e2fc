//! An ensemble of evaluators.

use crate::evaluator::{Evaluator, EvaluatorFactory};
use crate::value::Centipawns;
use std::sync::Arc;
use tandem_chess::{Changes, Position};

/// An evaluator that returns the mean of several: slower than each of them, and with a smaller error, because
/// their errors differ. Used to score positions for training, not to play.
pub struct Committee(Vec<Box<dyn Evaluator>>);

impl Committee {
    /// A factory of committees with one member from each factory. A committee without members evaluates every
    /// position as 0.
    pub fn of(factories: Vec<Arc<EvaluatorFactory>>) -> Arc<EvaluatorFactory> {
        Arc::new(move || {
            Box::new(Self(factories.iter().map(|member| member()).collect())) as Box<dyn Evaluator>
        })
    }

    fn mean(&mut self, mut evaluate: impl FnMut(&mut dyn Evaluator) -> Centipawns) -> Centipawns {
        let sum: i32 = self.0.iter_mut().map(|member| evaluate(member.as_mut()).0).sum();
        Centipawns(sum / self.0.len().max(1) as i32)
    }
}

impl Evaluator for Committee {
    fn reset(&mut self, position: &Position) {
        self.0.iter_mut().for_each(|member| member.reset(position));
    }

    fn push(&mut self, changes: &Changes) {
        self.0.iter_mut().for_each(|member| member.push(changes));
    }

    fn pop(&mut self) {
        self.0.iter_mut().for_each(|member| member.pop());
    }

    fn evaluate(&mut self, position: &Position) -> Centipawns {
        self.mean(|member| member.evaluate(position))
    }

    fn psqt_positional_gap(&mut self, position: &Position) -> Centipawns {
        self.mean(|member| member.psqt_positional_gap(position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bootstrap;

    struct Fixed(i32);

    impl Evaluator for Fixed {
        fn reset(&mut self, _: &Position) {}
        fn push(&mut self, _: &Changes) {}
        fn pop(&mut self) {}
        fn evaluate(&mut self, _: &Position) -> Centipawns {
            Centipawns(self.0)
        }
        fn psqt_positional_gap(&mut self, _: &Position) -> Centipawns {
            Centipawns(2 * self.0)
        }
    }

    #[test]
    fn its_gap_is_the_mean_of_the_members_gaps() {
        let member = |value: i32| -> Arc<EvaluatorFactory> { Arc::new(move || Box::new(Fixed(value))) };
        let mut committee = Committee::of(vec![member(10), member(30)])();
        assert_eq!(committee.psqt_positional_gap(&Position::startpos()), Centipawns(40));
    }

    #[test]
    fn it_returns_the_mean_and_follows_the_moves() {
        let bootstrap = || -> Arc<EvaluatorFactory> { Arc::new(|| Box::new(Bootstrap::default())) };
        let mut single = bootstrap()();
        let mut committee = Committee::of(vec![bootstrap(), Arc::new(|| Box::new(Fixed(100)))])();
        let mut position = Position::from_fen("4k3/8/8/3q4/4P3/8/8/4K3 w - - 0 1").unwrap();
        for evaluator in [&mut single, &mut committee] {
            evaluator.reset(&position);
        }
        for uci in ["e4d5", "e8d7"] {
            position.play(tandem_chess::uci::parse(position.board(), uci).unwrap());
            single.push(position.changes());
            committee.push(position.changes());
            let expected = (single.evaluate(&position).0 + 100) / 2;
            assert_eq!(committee.evaluate(&position).0, expected);
        }
        position.undo();
        single.pop();
        committee.pop();
        assert_eq!(committee.evaluate(&position).0, (single.evaluate(&position).0 + 100) / 2);
    }
}
