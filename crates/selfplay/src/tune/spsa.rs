//! Simultaneous perturbation stochastic approximation (Spall, 1992) with the gains by which engines are tuned.
//!
//! A trial moves every number at once, up or down by chance, and lets the settings on either side of the values in hand
//! play each other. The winner draws all numbers its way, however it came to win: what a number had no part in evens out
//! over many trials.

use super::plan::Plan;
use tandem_chess::random::SplitMix;

/// How fast what is learnt from a trial shrinks.
const ALPHA: f64 = 0.602;
/// How fast the distance of a trial shrinks.
const GAMMA: f64 = 0.101;
/// The share of all trials that the first are taken to come after, which keeps them from being wild.
const LEAD: f64 = 0.1;

/// Two settings that are to play each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trial {
    /// A value for each number.
    pub(super) plus: Vec<i32>,
    /// The values on the other side.
    pub(super) minus: Vec<i32>,
}

/// The values in hand.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spsa {
    values: Vec<f64>,
}

impl Spsa {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { values: plan.numbers.iter().map(|number| f64::from(number.start)).collect() }
    }

    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    /// What is to be tried. Values between two whole numbers become either, as often as they are near it: so a number
    /// whose step is small is not stuck.
    pub(super) fn trial(&self, plan: &Plan, iteration: u64) -> Trial {
        let distance = gains(plan, iteration).0;
        let mut random = chance(plan, iteration);
        let signs: Vec<f64> = plan.numbers.iter().map(|_| sign(&mut random)).collect();
        let mut trial = Trial { plus: Vec::new(), minus: Vec::new() };
        for ((number, value), sign) in plan.numbers.iter().zip(&self.values).zip(signs) {
            let away = distance * f64::from(number.step) * sign;
            let part = random.unit();
            let whole = |value: f64| number.clip((number.clip(value) + part).floor()) as i32;
            trial.plus.push(whole(value + away));
            trial.minus.push(whole(value - away));
        }
        trial
    }

    /// Learns by how many games the plus side of a trial won more than it lost.
    pub(super) fn learn(&mut self, plan: &Plan, iteration: u64, lead: i64) {
        let pull = gains(plan, iteration).1 * lead as f64;
        let mut random = chance(plan, iteration);
        for (number, value) in plan.numbers.iter().zip(&mut self.values) {
            *value = number.clip(*value + pull * f64::from(number.step) * sign(&mut random));
        }
    }
}

/// How far a trial goes to either side, and how far a game won pulls, both in steps. Time is counted in pairs of games.
fn gains(plan: &Plan, iteration: u64) -> (f64, f64) {
    let all = (plan.pairs * plan.iterations) as f64;
    let now = (plan.pairs * iteration + 1) as f64;
    let lead = LEAD * all;
    let distance = (all / now).powf(GAMMA);
    (distance, plan.rate * ((lead + all) / (lead + now)).powf(ALPHA) / distance)
}

/// What chance has for an iteration: the signs of its trial, and after them how it is rounded.
fn chance(plan: &Plan, iteration: u64) -> SplitMix {
    SplitMix::new(!plan.seed ^ SplitMix::new(iteration).next_u64())
}

fn sign(random: &mut SplitMix) -> f64 {
    if random.below(2) == 0 { 1.0 } else { -1.0 }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Tuned;
    use super::*;

    fn plan(iterations: u64, rate: f64) -> Plan {
        let number = |name: &str, start, min, max, step| Tuned { name: name.into(), start, min, max, step };
        let numbers = vec![
            number("rises", 40, 0, 200, 10),
            number("falls", 900, 0, 1500, 60),
            number("small", 3, 1, 8, 1),
            number("bound", 20, 0, 100, 8),
            number("stays", 50, 0, 100, 8),
        ];
        Plan { numbers, iterations, pairs: 1, rate, seed: 3, conditions: String::new() }
    }

    /// Where each number is best; the fourth would be, could it go there.
    const BEST: [f64; 5] = [110.0, 500.0, 5.0, 200.0, 50.0];

    /// How well a setting plays, in steps away from the best.
    fn strength(plan: &Plan, values: &[i32]) -> f64 {
        let away = |((number, &value), best): ((&Tuned, &i32), f64)| {
            ((f64::from(value) - best) / f64::from(number.step)).powi(2)
        };
        -plan.numbers.iter().zip(values).zip(BEST).map(away).sum::<f64>()
    }

    #[test]
    fn the_best_is_found_through_noise() {
        let plan = plan(60_000, 0.004);
        let mut spsa = Spsa::new(&plan);
        let mut random = SplitMix::new(1);
        for iteration in 0..plan.iterations {
            let trial = spsa.trial(&plan, iteration);
            let ahead = strength(&plan, &trial.plus) - strength(&plan, &trial.minus);
            // Two games, of which the better side wins a little more often.
            let chance = 1.0 / (1.0 + (-0.05 * ahead).exp());
            let lead = (0..2).map(|_| if random.unit() < chance { 1 } else { -1 }).sum();
            spsa.learn(&plan, iteration, lead);
        }
        for ((number, &value), best) in plan.numbers.iter().zip(spsa.values()).zip(BEST) {
            let away = (value - number.clip(best)) / f64::from(number.step);
            assert!(away.abs() < 1.5, "{} is {value}, {away:.2} steps away", number.name);
        }
    }

    #[test]
    fn gains_end_where_they_should() {
        let plan = plan(10_000, 0.002);
        let (distance, pull) = gains(&plan, plan.iterations - 1);
        assert!((distance - 1.0).abs() < 1e-9 && (pull - 0.002).abs() < 1e-9, "{distance} {pull}");
        let (distance, pull) = gains(&plan, 0);
        assert!((distance - 2.535).abs() < 1e-3 && (pull - 0.00334).abs() < 1e-5, "{distance} {pull}");
        // Four pairs at once are as far after as many games.
        let fours = Plan { iterations: 2_500, pairs: 4, ..plan.clone() };
        assert_eq!(gains(&fours, 500), gains(&plan, 2_000));
    }

    #[test]
    fn trials_lie_opposite_each_other_within_the_range() {
        let plan = plan(1000, 0.002);
        let mut spsa = Spsa::new(&plan);
        let mut ups = 0;
        for iteration in 0..plan.iterations {
            let trial = spsa.trial(&plan, iteration);
            assert_eq!(trial, spsa.trial(&plan, iteration));
            ups += usize::from(trial.plus[0] > trial.minus[0]);
            for ((number, plus), minus) in plan.numbers.iter().zip(&trial.plus).zip(&trial.minus) {
                assert!(
                    (number.min..=number.max).contains(plus) && (number.min..=number.max).contains(minus)
                );
                assert_ne!(plus, minus, "{}", number.name);
            }
            spsa.learn(&plan, iteration, if trial.plus[2] > trial.minus[2] { 2 } else { -2 });
        }
        assert!((400..600).contains(&ups));
        assert_eq!(spsa.values()[2], 8.0, "what always wins goes to the end of its range");
    }
}
