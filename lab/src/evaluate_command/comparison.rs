//! Transformers on games, beside whoever else judges positions.

use super::contender::Contender;
use super::draws::{Difference, Estimate, Part};
use super::fit::{Answer, Fit};
use super::hearing::{FURTHER, Groups, Heard, Opinion, SHOWN, Speaker, VALUE, count};
use super::units::{Unit, Units};
use super::{EvaluateArgs, Task};
use crate::data_command::tell_skips;
use crate::distance::Distance;
use crate::error::LabError;
use crate::progress::Progress;
use crate::table::{Table, figure};
use rayon::prelude::*;
use serde_json::{Map, Value, json};
use std::ops::Range;
use tandem_data::{Filter, Reader};
use tandem_train::transformer::Aim;
use tandem_train::{Phase, Target, sigmoid};

/// Units that are read before they are judged.
const AT_A_TIME: usize = 128;

/// What is known of a position that was judged: its value, from -1 to 1, and how much of the game is left.
#[derive(Clone, Copy, Debug)]
struct Known {
    value: Option<f64>,
    phase: Phase,
}

/// What is known of a contender.
struct Account {
    name: String,
    told: String,
    /// The figures of each unit.
    figures: Vec<Groups>,
    /// What it thinks of each position; nothing of who says the same of all.
    opinions: Vec<Opinion>,
    /// What its centipawns were multiplied by, if it scores.
    factor: Option<f64>,
    weighs: bool,
}

/// Everything that was found.
struct Comparison {
    accounts: Vec<Account>,
    /// Of each position, those of a unit standing together.
    known: Vec<Known>,
    /// How many positions each unit has.
    units: Vec<usize>,
}

/// Compares contenders, of whom one at least is a transformer.
pub(super) fn run(
    args: &EvaluateArgs,
    task: &Task,
    filter: Filter,
    contenders: &[Contender],
    mut reader: Reader,
    pool: &rayon::ThreadPool,
) -> Result<(), LabError> {
    if args.svg.is_some() {
        let problem =
            "--svg draws networks that score positions; leave it out where a transformer is among them";
        return Err(LabError::Usage(problem.into()));
    }
    let mut comparison = Comparison::new(contenders);
    let aim = Aim { scale: task.scale, result_share: task.result_share, ..Aim::default() };
    let mut progress = Progress::new("positions", args.positions);
    let mut left = args.positions.unwrap_or(u64::MAX);
    let mut units = Units::new(reader.records(), filter);
    while left > 0 {
        let mut some = Vec::new();
        while some.len() < AT_A_TIME && left > 0 {
            let Some(unit) = units.next() else { break };
            let mut unit = unit?;
            unit.kept.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= unit.kept.len() as u64;
            if !unit.kept.is_empty() {
                some.push(unit);
            }
        }
        if some.is_empty() {
            break;
        }
        let heard: Vec<Vec<Heard>> = pool.install(|| {
            let speakers = || contenders.iter().filter_map(Speaker::new).collect::<Vec<_>>();
            let hear = |speakers: &mut Vec<Speaker<'_>>, unit: &Unit| {
                speakers.iter_mut().map(|speaker| speaker.hear(unit, &aim)).collect()
            };
            some.par_iter().map_init(speakers, hear).collect::<Result<_, LabError>>()
        })?;
        for (unit, heard) in some.iter().zip(heard) {
            progress.add(unit.kept.len() as u64);
            comparison.add(unit, heard);
        }
    }
    drop(units);
    let told = progress.finish();
    tell_skips(reader.skips());
    if comparison.known.is_empty() {
        return Err(LabError::Usage(
            "none of the records can be judged by: they have neither a move, a score nor a result. \
             `tandem-lab data head` shows what they have"
                .into(),
        ));
    }
    comparison.measure_values(task.scale);
    tellln!("{told}");
    say!("{}", comparison.main_table().text());
    sayln!("\n{}", comparison.phase_table().text());
    let (pairs, agreement) = (comparison.pair_table(), comparison.agreement_table());
    for table in [comparison.further_table(), pairs, agreement].into_iter().filter(|table| !table.is_empty())
    {
        sayln!("{}", table.text());
    }
    if let Some(path) = &args.json {
        let facts = json!({
            "data": args.data, "filter": args.filter, "scale": task.scale, "result_share": task.result_share,
            "positions": comparison.known.len(), "units": comparison.units.len(),
            "networks": comparison.facts(),
        });
        let text = format!("{facts:#}\n");
        tandem_chess::output::write_whole(path, text.as_bytes()).map_err(LabError::file(path))?;
    }
    Ok(())
}

impl Comparison {
    fn new(contenders: &[Contender]) -> Self {
        let account = |contender: &Contender| Account {
            name: contender.name.clone(),
            told: contender.told.clone(),
            figures: Vec::new(),
            opinions: Vec::new(),
            factor: None,
            weighs: contender.transformer().is_some(),
        };
        let accounts = contenders.iter().map(account).collect();
        Self { accounts, known: Vec::new(), units: Vec::new() }
    }

    fn add(&mut self, unit: &Unit, heard: Vec<Heard>) {
        let all_moves = unit.has_all_moves();
        for &at in &unit.kept {
            let record = &unit.records[at];
            // Of a position with several moves the score is that of a move.
            let end = Aim::default().end(record).filter(|_| !all_moves);
            let value = end.map(|[win, _, loss]| win - loss);
            self.known.push(Known { value, phase: Phase::of(&record.position) });
        }
        self.units.push(unit.kept.len());
        for (account, heard) in self.accounts.iter_mut().zip(heard) {
            account.figures.push(heard.figures);
            account.opinions.extend(heard.opinions);
        }
    }

    /// Reckons the error of the values, once the scale of those who score is known, and that of who says the same of all.
    fn measure_values(&mut self, scale: f64) {
        for account in &mut self.accounts {
            if !account.weighs {
                account.fit(&self.known, scale);
            }
        }
        let mut values = Part::default();
        self.known.iter().filter_map(|known| known.value).for_each(|value| values.add(value));
        if let Some(mean) = Estimate::of(&[values]) {
            let opinion = Opinion { value: Some(mean.value), best: None };
            self.accounts.push(Account {
                name: "constant".into(),
                told: format!("the mean value of all positions, {:.4}", mean.value),
                figures: vec![Groups::default(); self.units.len()],
                opinions: vec![opinion; self.known.len()],
                factor: None,
                weighs: false,
            });
        }
        for account in &mut self.accounts {
            let mut first = 0;
            for (figures, &len) in account.figures.iter_mut().zip(&self.units) {
                let place = first..first + len;
                first = place.end;
                for (opinion, known) in account.opinions[place.clone()].iter().zip(&self.known[place]) {
                    if let (Some(said), Some(wanted)) = (opinion.value, known.value) {
                        count(figures, known.phase, VALUE, (said - wanted) * (said - wanted));
                    }
                }
            }
        }
    }

    /// Those of these figures that anybody has.
    fn columns(&self, figures: Range<usize>) -> Vec<usize> {
        figures
            .filter(|&figure| self.accounts.iter().any(|account| account.estimate(0, figure).is_some()))
            .collect()
    }

    fn heading(&self, first: &[&str], columns: &[usize], last: &[&str]) -> Table {
        let shown = columns.iter().map(|&figure| SHOWN[figure].1);
        Table::new(&first.iter().copied().chain(shown).chain(last.iter().copied()).collect::<Vec<_>>())
    }

    fn main_table(&self) -> Table {
        let columns = self.columns(0..FURTHER);
        let mut table = self.heading(&["network", "positions"], &columns, &["factor"]);
        for account in &self.accounts {
            let mut row = vec![account.name.clone(), account.positions(0).to_string()];
            row.extend(columns.iter().map(|&figure| cell(account.estimate(0, figure), SHOWN[figure].2)));
            row.push(figure(account.factor, 3));
            table.push(row);
        }
        table
    }

    /// What fewer ask for, of those who say anything about it.
    fn further_table(&self) -> Table {
        let columns = self.columns(FURTHER..SHOWN.len());
        let mut table = self.heading(&["network"], &columns, &[]);
        for account in &self.accounts {
            let estimates: Vec<_> = columns.iter().map(|&figure| account.estimate(0, figure)).collect();
            if estimates.iter().any(Option::is_some) {
                let cells =
                    estimates.into_iter().zip(&columns).map(|(found, &figure)| cell(found, SHOWN[figure].2));
                table.push([account.name.clone()].into_iter().chain(cells).collect());
            }
        }
        table
    }

    fn phase_table(&self) -> Table {
        let columns = self.columns(0..FURTHER);
        let mut table = self.heading(&["phase", "network", "positions"], &columns, &[]);
        for (group, phase) in (1..).zip(Phase::ALL) {
            for account in self.accounts.iter().filter(|account| account.positions(group) > 0) {
                let mut row =
                    vec![phase.name().into(), account.name.clone(), account.positions(group).to_string()];
                row.extend(
                    columns.iter().map(|&figure| cell(account.estimate(group, figure), SHOWN[figure].2)),
                );
                table.push(row);
            }
        }
        table
    }

    fn differences<'a>(&'a self, columns: &'a [usize]) -> impl Iterator<Item = Option<Difference>> + 'a {
        let first = &self.accounts[0];
        let others = self.accounts.iter().skip(1);
        others.flat_map(move |other| {
            columns.iter().map(|&figure| Difference::of(&first.parts(0, figure), &other.parts(0, figure)))
        })
    }

    /// How the others differ from the first.
    fn pair_table(&self) -> Table {
        let columns = self.columns(0..FURTHER);
        let title = format!("against {}", self.accounts[0].name);
        let mut table = self.heading(&[&title], &columns, &[]);
        let differences: Vec<Option<Difference>> = self.differences(&columns).collect();
        for (other, differences) in self.accounts.iter().skip(1).zip(differences.chunks(columns.len().max(1)))
        {
            let cells = differences.iter().zip(&columns).map(|(&difference, &figure)| {
                let unit = if SHOWN[figure].2 { 100.0 } else { 1.0 };
                let places = if SHOWN[figure].2 { 2 } else { 4 };
                difference.map_or_else(
                    || "-".into(),
                    |found| {
                        let [value, low, high] = [found.value, found.low, found.high].map(|one| unit * one);
                        format!("{value:+.places$} [{low:+.places$}, {high:+.places$}]")
                    },
                )
            });
            table.push([other.name.clone()].into_iter().chain(cells).collect());
        }
        table
    }

    /// How often transformers like the same move as the first, and how far their values are from its.
    fn agreement(&self) -> Vec<(&Account, Part, Distance)> {
        let (first, others) = (&self.accounts[0], self.accounts.iter().skip(1));
        let beside_first = |other: &Account| {
            let (mut same, mut distance) = (Part::default(), Distance::default());
            for (one, two) in first.opinions.iter().zip(&other.opinions) {
                if let (Some(one), Some(two)) = (one.best, two.best) {
                    same.add(f64::from(u8::from(one == two)));
                }
                if let (Some(one), Some(two)) = (one.value, two.value) {
                    distance.add(two - one);
                }
            }
            (same, distance)
        };
        let weighing = others.filter(|other| first.weighs && other.weighs);
        let found = weighing.map(|other| {
            let (same, distance) = beside_first(other);
            (other, same, distance)
        });
        found.collect()
    }

    fn agreement_table(&self) -> Table {
        let title = format!("beside {}", self.accounts[0].name);
        let mut table = Table::new(&[&title, "same best move", "mean value distance", "largest"]);
        for (other, same, distance) in self.agreement() {
            table.push(vec![
                other.name.clone(),
                crate::table::percent(Estimate::of(&[same]).map(|same| same.value)),
                figure((distance.count() > 0).then(|| distance.mean()), 5),
                figure((distance.count() > 0).then(|| distance.largest()), 5),
            ]);
        }
        table
    }

    /// Everything, for machines.
    fn facts(&self) -> Vec<Value> {
        let columns = self.columns(0..SHOWN.len());
        let mut networks: Vec<Value> = self.accounts.iter().map(|account| account.facts(&columns)).collect();
        let differences: Vec<Option<Difference>> = self.differences(&columns).collect();
        for (network, differences) in
            networks.iter_mut().skip(1).zip(differences.chunks(columns.len().max(1)))
        {
            let named = columns.iter().zip(differences).filter_map(|(&figure, difference)| {
                let Difference { value, low, high } = (*difference)?;
                Some((SHOWN[figure].0.name(), json!({"difference": value, "low": low, "high": high})))
            });
            network["against_first"] = Value::Object(named.collect());
        }
        for (other, same, distance) in self.agreement() {
            let found = networks.iter_mut().find(|network| network["name"] == other.name.as_str());
            if let Some(network) = found {
                network["beside_first"] = json!({
                    "same_best_move": Estimate::of(&[same]).map(|same| same.value),
                    "value_distance": distance.mean(), "largest_value_distance": distance.largest(),
                });
            }
        }
        networks
    }
}

impl Account {
    /// Turns centipawns into values, by the factor that makes their error least.
    fn fit(&mut self, known: &[Known], scale: f64) {
        let answers = self.opinions.iter().zip(known).filter_map(|(opinion, known)| {
            let chance = (1.0 + known.value?) / 2.0;
            Some(Answer { centipawns: opinion.value?, target: Target { score: 0.0, chance: chance as f32 } })
        });
        let answers: Vec<Answer> = answers.collect();
        self.factor = Fit::of(&answers, scale).map(|fit| fit.factor);
        let factor = self.factor.unwrap_or(1.0) / scale;
        for opinion in &mut self.opinions {
            opinion.value = opinion.value.map(|centipawns| 2.0 * sigmoid(factor * centipawns) - 1.0);
        }
    }

    fn parts(&self, group: usize, figure: usize) -> Vec<Part> {
        self.figures.iter().map(|groups| groups[group][figure]).collect()
    }

    fn estimate(&self, group: usize, figure: usize) -> Option<Estimate> {
        Estimate::of(&self.parts(group, figure))
    }

    /// Positions that any figure is of.
    fn positions(&self, group: usize) -> u64 {
        let counts = (0..SHOWN.len()).filter_map(|figure| Some(self.estimate(group, figure)?.count));
        counts.max().unwrap_or(0)
    }

    fn facts(&self, columns: &[usize]) -> Value {
        let of = |group: usize| -> Map<String, Value> {
            let estimates = columns.iter().filter_map(|&figure| {
                let Estimate { value, error, count } = self.estimate(group, figure)?;
                let facts = json!({"value": value, "standard_error": error, "positions": count});
                Some((SHOWN[figure].0.name(), facts))
            });
            estimates.collect()
        };
        let phases: Map<String, Value> =
            (1..).zip(Phase::ALL).map(|(group, phase)| (phase.name().to_owned(), of(group).into())).collect();
        json!({
            "name": self.name, "architecture": self.told, "factor": self.factor,
            "figures": of(0), "phases": phases,
        })
    }
}

/// A figure with its error; shares in hundredths.
fn cell(estimate: Option<Estimate>, is_share: bool) -> String {
    let (unit, places) = if is_share { (100.0, 2) } else { (1.0, 4) };
    let Some(Estimate { value, error, .. }) = estimate else { return "-".into() };
    let value = unit * value;
    error.map_or_else(
        || format!("{value:.places$}"),
        |error| format!("{value:.places$} ± {:.places$}", unit * error),
    )
}
