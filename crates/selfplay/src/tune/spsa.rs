//! Simultaneous perturbation stochastic approximation (Spall, 1992) with the gain sequences that fishtest
//! uses.
//!
//! A trial perturbs every parameter at once, up or down at random, and lets the settings on either side of
//! the current values play each other. All parameters move towards the winner's; the random effect on those
//! that did not matter averages out over many trials.

use super::plan::TuningPlan;
use tandem_util::random::SplitMix;

/// Exponent with which the learning rate decays (Spall's α).
const ALPHA: f64 = 0.602;
/// Exponent with which the perturbation shrinks (Spall's γ).
const GAMMA: f64 = 0.101;
/// Stability constant A as a fraction of all trials; it keeps the first updates from being too large.
const STABILITY_FRACTION: f64 = 0.1;

/// Two settings that play each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trial {
    /// Values of the plus side, one for each parameter.
    pub(super) plus: Vec<i32>,
    /// Values of the minus side, perturbed in the opposite direction.
    pub(super) minus: Vec<i32>,
}

/// Current values of the parameters, not rounded.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spsa {
    values: Vec<f64>,
}

impl Spsa {
    pub(super) fn new(plan: &TuningPlan) -> Self {
        Self { values: plan.parameters.iter().map(|parameter| f64::from(parameter.start)).collect() }
    }

    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    /// Perturbed settings of an iteration. Values are rounded stochastically, up or down with a probability
    /// given by the fraction, so that a parameter with a small step does not get stuck.
    pub(super) fn trial(&self, plan: &TuningPlan, iteration: u64) -> Trial {
        let size = gains(plan, iteration).0;
        let mut random = iteration_rng(plan, iteration);
        let signs: Vec<f64> = plan.parameters.iter().map(|_| sign(&mut random)).collect();
        let mut trial = Trial { plus: Vec::new(), minus: Vec::new() };
        for ((parameter, value), sign) in plan.parameters.iter().zip(&self.values).zip(signs) {
            let away = size * f64::from(parameter.step) * sign;
            let rounding = random.unit();
            let rounded = |value: f64| parameter.clip((parameter.clip(value) + rounding).floor()) as i32;
            trial.plus.push(rounded(value + away));
            trial.minus.push(rounded(value - away));
        }
        trial
    }

    /// Updates the values by the wins minus losses of the plus side of a trial.
    pub(super) fn update(&mut self, plan: &TuningPlan, iteration: u64, net_wins: i64) {
        let change = gains(plan, iteration).1 * net_wins as f64;
        let mut random = iteration_rng(plan, iteration);
        for (parameter, value) in plan.parameters.iter().zip(&mut self.values) {
            *value = parameter.clip(*value + change * f64::from(parameter.step) * sign(&mut random));
        }
    }
}

/// Size of the perturbation and of the update for each net win, both in steps. Time is counted in pairs of
/// games.
fn gains(plan: &TuningPlan, iteration: u64) -> (f64, f64) {
    let all = (plan.pairs * plan.iterations) as f64;
    let now = (plan.pairs * iteration + 1) as f64;
    let stability = STABILITY_FRACTION * all;
    let size = (all / now).powf(GAMMA);
    (size, plan.r_end * ((stability + all) / (stability + now)).powf(ALPHA) / size)
}

/// Random generator of an iteration: the signs of its trial first, then the rounding.
fn iteration_rng(plan: &TuningPlan, iteration: u64) -> SplitMix {
    SplitMix::new(!plan.seed ^ SplitMix::new(iteration).next_u64())
}

fn sign(random: &mut SplitMix) -> f64 {
    if random.below(2) == 0 { 1.0 } else { -1.0 }
}

#[cfg(test)]
mod tests {
    use super::super::plan::TunedParameter;
    use super::*;

    fn plan(iterations: u64, r_end: f64) -> TuningPlan {
        let parameter =
            |name: &str, start, min, max, step| TunedParameter { name: name.into(), start, min, max, step };
        let parameters = vec![
            parameter("rises", 40, 0, 200, 10),
            parameter("falls", 900, 0, 1500, 60),
            parameter("small", 3, 1, 8, 1),
            parameter("bound", 20, 0, 100, 8),
            parameter("stays", 50, 0, 100, 8),
        ];
        TuningPlan { parameters, iterations, pairs: 1, r_end, seed: 3, conditions: String::new() }
    }

    /// Optimum of each parameter; that of the fourth is outside its range.
    const BEST: [f64; 5] = [110.0, 500.0, 5.0, 200.0, 50.0];

    /// Strength of a setting: minus the squared distance from the optimum, in steps.
    fn strength(plan: &TuningPlan, values: &[i32]) -> f64 {
        let away = |((parameter, &value), best): ((&TunedParameter, &i32), f64)| {
            ((f64::from(value) - best) / f64::from(parameter.step)).powi(2)
        };
        -plan.parameters.iter().zip(values).zip(BEST).map(away).sum::<f64>()
    }

    #[test]
    fn the_best_is_found_through_noise() {
        let plan = plan(60_000, 0.004);
        let mut spsa = Spsa::new(&plan);
        let mut random = SplitMix::new(1);
        for iteration in 0..plan.iterations {
            let trial = spsa.trial(&plan, iteration);
            let ahead = strength(&plan, &trial.plus) - strength(&plan, &trial.minus);
            // Two games, of which the stronger side wins slightly more often.
            let win_probability = 1.0 / (1.0 + (-0.05 * ahead).exp());
            let lead = (0..2).map(|_| if random.unit() < win_probability { 1 } else { -1 }).sum();
            spsa.update(&plan, iteration, lead);
        }
        for ((parameter, &value), best) in plan.parameters.iter().zip(spsa.values()).zip(BEST) {
            let away = (value - parameter.clip(best)) / f64::from(parameter.step);
            assert!(away.abs() < 1.5, "{} is {value}, {away:.2} steps away", parameter.name);
        }
    }

    #[test]
    fn gains_end_where_they_should() {
        let plan = plan(10_000, 0.002);
        let (size, change) = gains(&plan, plan.iterations - 1);
        assert!((size - 1.0).abs() < 1e-9 && (change - 0.002).abs() < 1e-9, "{size} {change}");
        let (size, change) = gains(&plan, 0);
        assert!((size - 2.535).abs() < 1e-3 && (change - 0.00334).abs() < 1e-5, "{size} {change}");
        // Four pairs at once progress as far as the same number of games one by one.
        let fours = TuningPlan { iterations: 2_500, pairs: 4, ..plan.clone() };
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
            for ((parameter, plus), minus) in plan.parameters.iter().zip(&trial.plus).zip(&trial.minus) {
                assert!(
                    (parameter.min..=parameter.max).contains(plus)
                        && (parameter.min..=parameter.max).contains(minus)
                );
                assert_ne!(plus, minus, "{}", parameter.name);
            }
            spsa.update(&plan, iteration, if trial.plus[2] > trial.minus[2] { 2 } else { -2 });
        }
        assert!((400..600).contains(&ups));
        assert_eq!(spsa.values()[2], 8.0, "what always wins goes to the end of its range");
    }
}
