//! Plan of a tuning: the parameters with their ranges, the number of games, and the gain at the end.

use std::fmt;

/// A search parameter that is tuned, with its start value, range and perturbation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunedParameter {
    /// Name of the parameter in the search's table, [`tandem_search::params::TABLE`].
    pub name: String,
    /// Value at the start of the tuning, usually the default.
    pub start: i32,
    /// Smallest value that the tuning may try.
    pub min: i32,
    /// Largest value that the tuning may try.
    pub max: i32,
    /// Size of the perturbation (the change up or down that is tried) at the end of the tuning; it is larger
    /// before (`c_end` of fishtest).
    pub step: i32,
}

impl TunedParameter {
    /// The parameter as it stands in the search's table, starting from its default.
    pub fn new(param: &tandem_search::params::Param) -> Self {
        let tandem_search::params::Param { name, default, min, max, step } = *param;
        Self { name: name.into(), start: default, min, max, step }
    }

    /// Parses the output of [`fmt::Display`].
    fn parse(line: &str) -> Option<Self> {
        let (name, rest) = line.strip_suffix(';')?.split_once(" = ")?;
        let (start, rest) = rest.split_once(" in ")?;
        let (range, step) = rest.split_once(", step ")?;
        let (min, max) = range.split_once("..=")?;
        let number = |text: &str| text.parse().ok();
        let tuned = Self {
            name: tandem_search::params::current_name(name).into(),
            start: number(start)?,
            min: number(min)?,
            max: number(max)?,
            step: number(step)?,
        };
        (tuned.min <= tuned.max && tuned.step > 0).then_some(tuned)
    }

    /// Row for the search's table of parameters, as Rust source, with `value` rounded to an integer as the
    /// new default.
    pub fn table_row(&self, value: f64) -> String {
        Self { start: value.round() as i32, ..self.clone() }.to_string()
    }

    /// Signed distance of `value` from the start value, in units of [`Self::step`].
    pub fn steps_from_start(&self, value: f64) -> f64 {
        (value - f64::from(self.start)) / f64::from(self.step)
    }

    pub(super) fn clip(&self, value: f64) -> f64 {
        value.clamp(f64::from(self.min), f64::from(self.max))
    }
}

/// Writes the row as the search's table has it.
impl fmt::Display for TunedParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, start, min, max, step } = self;
        write!(f, "{name} = {start} in {min}..={max}, step {step};")
    }
}

/// Plan of a tuning. A resumed run must have the same one.
#[derive(Clone, Debug, PartialEq)]
pub struct TuningPlan {
    /// Parameters to tune; every iteration perturbs all of them at once.
    pub parameters: Vec<TunedParameter>,
    /// Number of iterations, each with one perturbation and one update.
    pub iterations: u64,
    /// Number of game pairs per iteration; the two games of a pair swap colours.
    pub pairs: u64,
    /// Learning rate at the end of the tuning: change of a parameter, in units of [`TunedParameter::step`],
    /// for each game that the plus side won more than it lost (`r_end` of fishtest).
    pub r_end: f64,
    /// Seed of the random perturbations and openings.
    pub seed: u64,
    /// Conditions of the games as one line of text; see [`super::GameSettings::conditions`].
    pub conditions: String,
}

impl TuningPlan {
    /// Largest number of games of a plan; a larger one is taken for a mistake.
    pub const MAX_GAMES: u64 = 1 << 30;

    /// Number of games of the whole tuning, over all iterations.
    pub fn games(&self) -> u64 {
        2 * self.pairs * self.iterations
    }

    /// Parses the output of [`fmt::Display`].
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut next = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
        let iterations: u64 = next("iterations")?.parse().ok()?;
        let pairs: u64 = next("pairs")?.parse().ok()?;
        let r_end: f64 = next("rate")?.parse().ok()?;
        let seed = next("seed")?.parse().ok()?;
        let conditions = next("games")?.into();
        let parameters = lines.map(TunedParameter::parse).collect::<Option<_>>()?;
        let plan = Self { parameters, iterations, pairs, r_end, seed, conditions };
        let games = pairs.checked_mul(2).and_then(|games| games.checked_mul(iterations));
        let fits = games.is_some_and(|games| (1..=Self::MAX_GAMES).contains(&games));
        (fits && plan.r_end.is_finite()).then_some(plan)
    }
}

/// Writes one setting on each line, so that the first line in which two plans differ explains why a run is
/// refused.
impl fmt::Display for TuningPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { parameters, iterations, pairs, r_end, seed, conditions } = self;
        writeln!(f, "iterations {iterations}\npairs {pairs}\nrate {r_end}\nseed {seed}\ngames {conditions}")?;
        parameters.iter().try_for_each(|parameter| writeln!(f, "{parameter}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let parameters: Vec<TunedParameter> =
            tandem_search::params::TABLE.iter().map(TunedParameter::new).collect();
        let conditions = "evaluated by a = b; 2000 nodes".into();
        let plan =
            TuningPlan { parameters, iterations: 10_000, pairs: 2, r_end: 0.002, seed: u64::MAX, conditions };
        assert_eq!(TuningPlan::parse(&plan.to_string()), Some(plan.clone()));
        assert_eq!(plan.games(), 40_000);
        for pairs in [0, 2] {
            let endless = TuningPlan { iterations: u64::MAX, pairs, ..plan.clone() };
            assert_eq!(TuningPlan::parse(&endless.to_string()), None);
        }
        for wrong in ["", "iterations 3\npairs x", "x = 1 in 2..=1, step 3;"] {
            assert_eq!(TuningPlan::parse(wrong), None);
            assert_eq!(TuningPlan::parse(&format!("{plan}{wrong}x\n")), None);
        }
    }

    #[test]
    fn a_row_is_that_of_the_table() {
        let parameter = TunedParameter::parse("qs_see = -60 in -200..=50, step 12;")
            .expect("a row of the table can be read");
        assert_eq!(parameter.table_row(-71.6), "qs_see = -72 in -200..=50, step 12;");
        assert_eq!(parameter.steps_from_start(-66.0), -0.5);
    }
}
