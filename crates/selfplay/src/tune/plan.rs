//! What is tuned, for how long and by which games.

use std::fmt;

/// A number that is tuned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// Its name in the search's table.
    pub name: String,
    /// Where it starts.
    pub start: i32,
    /// Its least value.
    pub min: i32,
    /// Its greatest value.
    pub max: i32,
    /// How far a trial is from the value in hand when the tuning ends.
    pub step: i32,
}

impl Tuned {
    /// A row of the search's table.
    pub fn new(param: &tandem_search::params::Param) -> Self {
        let tandem_search::params::Param { name, default, min, max, step } = *param;
        Self { name: name.into(), start: default, min, max, step }
    }

    /// Reads what [`fmt::Display`] writes.
    fn parse(line: &str) -> Option<Self> {
        let (name, rest) = line.strip_suffix(';')?.split_once(" = ")?;
        let (start, rest) = rest.split_once(" in ")?;
        let (range, step) = rest.split_once(", step ")?;
        let (min, max) = range.split_once("..=")?;
        let number = |text: &str| text.parse().ok();
        let tuned = Self {
            name: name.into(),
            start: number(start)?,
            min: number(min)?,
            max: number(max)?,
            step: number(step)?,
        };
        (tuned.min <= tuned.max && tuned.step > 0).then_some(tuned)
    }

    /// The number as it stands in the table once it is found to be `value`.
    pub fn row(&self, value: f64) -> String {
        Self { start: value.round() as i32, ..self.clone() }.to_string()
    }

    /// How far `value` is from the start, in steps.
    pub fn steps(&self, value: f64) -> f64 {
        (value - f64::from(self.start)) / f64::from(self.step)
    }

    pub(super) fn clip(&self, value: f64) -> f64 {
        value.clamp(f64::from(self.min), f64::from(self.max))
    }
}

/// A row as the search's table has it.
impl fmt::Display for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, start, min, max, step } = self;
        write!(f, "{name} = {start} in {min}..={max}, step {step};")
    }
}

/// A whole tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The numbers.
    pub numbers: Vec<Tuned>,
    /// How often two settings meet.
    pub iterations: u64,
    /// Pairs of games in a meeting.
    pub pairs: u64,
    /// How far a game that one side won more than the other moves the numbers at the end, in steps.
    pub rate: f64,
    /// What chance starts from.
    pub seed: u64,
    /// What the games are like, in a line that games of another kind would not have.
    pub conditions: String,
}

impl Plan {
    /// More games than this nobody waits for.
    pub const MOST_GAMES: u64 = 1 << 30;

    /// Games in all.
    pub fn games(&self) -> u64 {
        2 * self.pairs * self.iterations
    }

    /// Reads what [`fmt::Display`] writes.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut next = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
        let iterations: u64 = next("iterations")?.parse().ok()?;
        let pairs: u64 = next("pairs")?.parse().ok()?;
        let rate: f64 = next("rate")?.parse().ok()?;
        let seed = next("seed")?.parse().ok()?;
        let conditions = next("games")?.into();
        let numbers = lines.map(Tuned::parse).collect::<Option<_>>()?;
        let plan = Self { numbers, iterations, pairs, rate, seed, conditions };
        let games = pairs.checked_mul(2).and_then(|games| games.checked_mul(iterations));
        let fits = games.is_some_and(|games| (1..=Self::MOST_GAMES).contains(&games));
        (fits && plan.rate.is_finite()).then_some(plan)
    }
}

/// One thing a line, so that the line in which two plans differ says why one is not the other.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { numbers, iterations, pairs, rate, seed, conditions } = self;
        writeln!(f, "iterations {iterations}\npairs {pairs}\nrate {rate}\nseed {seed}\ngames {conditions}")?;
        numbers.iter().try_for_each(|number| writeln!(f, "{number}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let numbers: Vec<Tuned> = tandem_search::params::TABLE.iter().map(Tuned::new).collect();
        let conditions = "judged by a = b; 2000 nodes".into();
        let plan = Plan { numbers, iterations: 10_000, pairs: 2, rate: 0.002, seed: u64::MAX, conditions };
        assert_eq!(Plan::parse(&plan.to_string()), Some(plan.clone()));
        assert_eq!(plan.games(), 40_000);
        for pairs in [0, 2] {
            let endless = Plan { iterations: u64::MAX, pairs, ..plan.clone() };
            assert_eq!(Plan::parse(&endless.to_string()), None);
        }
        for wrong in ["", "iterations 3\npairs x", "x = 1 in 2..=1, step 3;"] {
            assert_eq!(Plan::parse(wrong), None);
            assert_eq!(Plan::parse(&format!("{plan}{wrong}x\n")), None);
        }
    }

    #[test]
    fn a_row_is_that_of_the_table() {
        let number =
            Tuned::parse("qs_see = -60 in -200..=50, step 12;").expect("a row of the table can be read");
        assert_eq!(number.row(-71.6), "qs_see = -72 in -200..=50, step 12;");
        assert_eq!(number.steps(-66.0), -0.5);
    }
}
