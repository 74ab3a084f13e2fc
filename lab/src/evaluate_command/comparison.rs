//! The comparison of networks on whole games, for `evaluate` with a transformer among them.
//!
//! Metrics are kept per unit (a game), because the standard errors and the bootstrap intervals are computed
//! over units.

use super::bootstrap_ci::{Difference, Estimate, UnitSum};
use super::fit::{ScaleFit, ScoredPosition};
use super::model::Model;
use super::predict::{
    FIRST_FURTHER, METRICS, MetricGroups, Prediction, Predictions, Scorer, VALUE_ERROR, add_value,
};
use super::units::{Unit, Units};
use super::{EvaluateArgs, Task};
use crate::data_command::report_skips;
use crate::distance::Distance;
use crate::error::LabError;
use crate::progress::Progress;
use crate::table::{Table, decimal};
use rayon::prelude::*;
use serde_json::{Map, Value, json};
use std::ops::Range;
use tandem_data::{Filter, RecordReader};
use tandem_train::transformer::LabelConfig;
use tandem_train::{Metric, Phase, Target, sigmoid};

/// Units that are read before the threads evaluate them.
const UNITS_PER_BLOCK: usize = 128;

/// The label of a position: its value from -1 to 1, if it is known, and its game phase.
#[derive(Clone, Copy, Debug)]
struct Label {
    value: Option<f64>,
    phase: Phase,
}

/// The results of one network over all units.
struct NetworkResults {
    name: String,
    description: String,
    /// Sums of the metrics, one entry for each unit.
    metrics: Vec<MetricGroups>,
    /// The prediction for each position; without a best move for networks that score positions.
    predictions: Vec<Prediction>,
    /// The fitted scale of the centipawns, for networks that score positions.
    fitted_scale: Option<f64>,
    is_transformer: bool,
}

/// The results of all networks on the same positions.
struct Comparison {
    networks: Vec<NetworkResults>,
    /// The label of each position; those of a unit are contiguous.
    labels: Vec<Label>,
    /// The number of positions in each unit.
    units: Vec<usize>,
}

/// Compares networks, at least one of which is a transformer.
///
/// # Errors
///
/// When a file cannot be read or written, no record has a label, or `--svg` is given, which is for networks
/// that score positions.
pub(super) fn run(
    args: &EvaluateArgs,
    task: &Task,
    filter: Filter,
    models: &[Model],
    mut reader: RecordReader,
    pool: &rayon::ThreadPool,
) -> Result<(), LabError> {
    if args.svg.is_some() {
        let problem =
            "--svg is for networks that score positions; leave it out if a transformer is among them";
        return Err(LabError::Usage(problem.into()));
    }
    let mut comparison = Comparison::new(models);
    let label_config = LabelConfig { scale: task.scale, wdl: task.wdl, ..LabelConfig::default() };
    let mut progress = Progress::new("positions", args.positions);
    let mut left = args.positions.unwrap_or(u64::MAX);
    let mut units = Units::new(reader.records(), filter);
    while left > 0 {
        let mut block = Vec::new();
        while block.len() < UNITS_PER_BLOCK && left > 0 {
            let Some(unit) = units.next() else { break };
            let mut unit = unit?;
            unit.kept.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= unit.kept.len() as u64;
            if !unit.kept.is_empty() {
                block.push(unit);
            }
        }
        if block.is_empty() {
            break;
        }
        let predictions: Vec<Vec<Predictions>> = pool.install(|| {
            let scorers = || models.iter().filter_map(Scorer::new).collect::<Vec<_>>();
            let predict = |scorers: &mut Vec<Scorer<'_>>, unit: &Unit| {
                scorers.iter_mut().map(|scorer| scorer.predict(unit, &label_config)).collect()
            };
            block.par_iter().map_init(scorers, predict).collect::<Result<_, LabError>>()
        })?;
        for (unit, predictions) in block.iter().zip(predictions) {
            progress.add(unit.kept.len() as u64);
            comparison.add(unit, predictions);
        }
    }
    drop(units);
    let summary = progress.finish();
    report_skips(reader.skips());
    if comparison.labels.is_empty() {
        return Err(LabError::Usage(
            "none of the records can be used: they have neither a move, a score nor a result. \
             `tandem-lab data head` shows what they have"
                .into(),
        ));
    }
    comparison.measure_values(task.scale);
    errln!("{summary}");
    out!("{}", comparison.main_table().text());
    outln!("\n{}", comparison.phase_table().text());
    let (pairs, agreement) = (comparison.pair_table(), comparison.agreement_table());
    for table in [comparison.further_table(), pairs, agreement].into_iter().filter(|table| !table.is_empty())
    {
        outln!("{}", table.text());
    }
    if let Some(path) = &args.json {
        let facts = json!({
            "data": args.data, "filter": args.filter, "scale": task.scale, "wdl": task.wdl,
            "positions": comparison.labels.len(), "units": comparison.units.len(),
            "networks": comparison.facts(),
        });
        let text = format!("{facts:#}\n");
        tandem_util::output::write_atomically(path, text.as_bytes()).map_err(LabError::file(path))?;
    }
    Ok(())
}

impl Comparison {
    fn new(models: &[Model]) -> Self {
        let network = |model: &Model| NetworkResults {
            name: model.name.clone(),
            description: model.description.clone(),
            metrics: Vec::new(),
            predictions: Vec::new(),
            fitted_scale: None,
            is_transformer: model.transformer().is_some(),
        };
        let networks = models.iter().map(network).collect();
        Self { networks, labels: Vec::new(), units: Vec::new() }
    }

    fn add(&mut self, unit: &Unit, predictions: Vec<Predictions>) {
        let all_moves = unit.has_all_moves();
        for &at in &unit.kept {
            let record = &unit.records[at];
            // If a position has several moves, the score is that of a move.
            let end = LabelConfig::default().outcome(record).filter(|_| !all_moves);
            let value = end.map(|[win, _, loss]| win - loss);
            self.labels.push(Label { value, phase: Phase::of(&record.position) });
        }
        self.units.push(unit.kept.len());
        for (network, predictions) in self.networks.iter_mut().zip(predictions) {
            network.metrics.push(predictions.metrics);
            network.predictions.extend(predictions.positions);
        }
    }

    /// Computes the error of the values, after the centipawns of networks that score positions have been
    /// scaled, and adds the best constant as one more network.
    fn measure_values(&mut self, scale: f64) {
        for network in &mut self.networks {
            if !network.is_transformer {
                network.fit(&self.labels, scale);
            }
        }
        let mut values = UnitSum::default();
        self.labels.iter().filter_map(|label| label.value).for_each(|value| values.add(value));
        if let Some(mean) = Estimate::of(&[values]) {
            let prediction = Prediction { value: Some(mean.value), best: None };
            self.networks.push(NetworkResults {
                name: "constant".into(),
                description: format!("the mean value of all positions, {:.4}", mean.value),
                metrics: vec![MetricGroups::default(); self.units.len()],
                predictions: vec![prediction; self.labels.len()],
                fitted_scale: None,
                is_transformer: false,
            });
        }
        for network in &mut self.networks {
            let mut first = 0;
            for (metrics, &len) in network.metrics.iter_mut().zip(&self.units) {
                let place = first..first + len;
                first = place.end;
                for (prediction, label) in network.predictions[place.clone()].iter().zip(&self.labels[place])
                {
                    if let (Some(value), Some(target)) = (prediction.value, label.value) {
                        add_value(metrics, label.phase, VALUE_ERROR, (value - target) * (value - target));
                    }
                }
            }
        }
    }

    /// The columns of these metrics that at least one network has.
    fn columns(&self, metrics: Range<usize>) -> Vec<usize> {
        metrics
            .filter(|&metric| self.networks.iter().any(|network| network.estimate(0, metric).is_some()))
            .collect()
    }

    fn heading(&self, first: &[&str], columns: &[usize], last: &[&str]) -> Table {
        let shown = columns.iter().map(|&metric| METRICS[metric].label());
        Table::new(&first.iter().copied().chain(shown).chain(last.iter().copied()).collect::<Vec<_>>())
    }

    fn main_table(&self) -> Table {
        let columns = self.columns(0..FIRST_FURTHER);
        let mut table = self.heading(&["network", "positions"], &columns, &["fitted scale"]);
        for network in &self.networks {
            let mut row = vec![network.name.clone(), network.positions(0).to_string()];
            row.extend(columns.iter().map(|&metric| cell(network.estimate(0, metric), METRICS[metric])));
            row.push(decimal(network.fitted_scale, 3));
            table.push(row);
        }
        table
    }

    /// The table of the less common metrics, for the networks that have any of them.
    fn further_table(&self) -> Table {
        let columns = self.columns(FIRST_FURTHER..METRICS.len());
        let mut table = self.heading(&["network"], &columns, &[]);
        for network in &self.networks {
            let estimates: Vec<_> = columns.iter().map(|&metric| network.estimate(0, metric)).collect();
            if estimates.iter().any(Option::is_some) {
                let cells =
                    estimates.into_iter().zip(&columns).map(|(found, &metric)| cell(found, METRICS[metric]));
                table.push([network.name.clone()].into_iter().chain(cells).collect());
            }
        }
        table
    }

    fn phase_table(&self) -> Table {
        let columns = self.columns(0..FIRST_FURTHER);
        let mut table = self.heading(&["phase", "network", "positions"], &columns, &[]);
        for (group, phase) in (1..).zip(Phase::ALL) {
            for network in self.networks.iter().filter(|network| network.positions(group) > 0) {
                let mut row =
                    vec![phase.name().into(), network.name.clone(), network.positions(group).to_string()];
                row.extend(
                    columns.iter().map(|&metric| cell(network.estimate(group, metric), METRICS[metric])),
                );
                table.push(row);
            }
        }
        table
    }

    fn differences<'a>(&'a self, columns: &'a [usize]) -> impl Iterator<Item = Option<Difference>> + 'a {
        let first = &self.networks[0];
        let others = self.networks.iter().skip(1);
        others.flat_map(move |other| {
            columns.iter().map(|&metric| Difference::of(&first.parts(0, metric), &other.parts(0, metric)))
        })
    }

    /// The table of differences from the first network, with 95 % bootstrap intervals.
    fn pair_table(&self) -> Table {
        let columns = self.columns(0..FIRST_FURTHER);
        let title = format!("against {}", self.networks[0].name);
        let mut table = self.heading(&[&title], &columns, &[]);
        let differences: Vec<Option<Difference>> = self.differences(&columns).collect();
        for (other, differences) in self.networks.iter().skip(1).zip(differences.chunks(columns.len().max(1)))
        {
            let cells = differences.iter().zip(&columns).map(|(&difference, &metric)| {
                let (unit, places) = METRICS[metric].scale();
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

    /// For each transformer, how often its best move is that of the first one, and the differences between
    /// their values.
    fn agreement(&self) -> Vec<(&NetworkResults, UnitSum, Distance)> {
        let (first, others) = (&self.networks[0], self.networks.iter().skip(1));
        let compare_with_first = |other: &NetworkResults| {
            let (mut same, mut distance) = (UnitSum::default(), Distance::default());
            for (one, two) in first.predictions.iter().zip(&other.predictions) {
                if let (Some(one), Some(two)) = (one.best, two.best) {
                    same.add(f64::from(u8::from(one == two)));
                }
                if let (Some(one), Some(two)) = (one.value, two.value) {
                    distance.add(two - one);
                }
            }
            (same, distance)
        };
        let transformers = others.filter(|other| first.is_transformer && other.is_transformer);
        let found = transformers.map(|other| {
            let (same, distance) = compare_with_first(other);
            (other, same, distance)
        });
        found.collect()
    }

    fn agreement_table(&self) -> Table {
        let title = format!("agreement with {}", self.networks[0].name);
        let mut table = Table::new(&[&title, "same best move", "mean value difference", "largest"]);
        for (other, same, distance) in self.agreement() {
            table.push(vec![
                other.name.clone(),
                crate::table::percent(Estimate::of(&[same]).map(|same| same.value)),
                decimal((distance.count() > 0).then(|| distance.mean()), 5),
                decimal((distance.count() > 0).then(|| distance.largest()), 5),
            ]);
        }
        table
    }

    /// All metrics as JSON, for other programs.
    fn facts(&self) -> Vec<Value> {
        let columns = self.columns(0..METRICS.len());
        let mut networks: Vec<Value> = self.networks.iter().map(|network| network.facts(&columns)).collect();
        let differences: Vec<Option<Difference>> = self.differences(&columns).collect();
        for (network, differences) in
            networks.iter_mut().skip(1).zip(differences.chunks(columns.len().max(1)))
        {
            let named = columns.iter().zip(differences).filter_map(|(&metric, difference)| {
                let Difference { value, low, high } = (*difference)?;
                Some((METRICS[metric].tag(), json!({"difference": value, "low": low, "high": high})))
            });
            network["against_first"] = Value::Object(named.collect());
        }
        for (other, same, distance) in self.agreement() {
            let found = networks.iter_mut().find(|network| network["name"] == other.name.as_str());
            if let Some(network) = found {
                network["agreement_with_first"] = json!({
                    "same_best_move": Estimate::of(&[same]).map(|same| same.value),
                    "mean_value_difference": distance.mean(), "largest_value_difference": distance.largest(),
                });
            }
        }
        networks
    }
}

impl NetworkResults {
    /// Turns centipawns into values, with the scale that minimises their error.
    fn fit(&mut self, labels: &[Label], scale: f64) {
        let scored = self.predictions.iter().zip(labels).filter_map(|(prediction, label)| {
            let win_probability = (1.0 + label.value?) / 2.0;
            Some(ScoredPosition {
                centipawns: prediction.value?,
                target: Target { score: 0.0, win_probability: win_probability as f32 },
            })
        });
        let scored: Vec<ScoredPosition> = scored.collect();
        self.fitted_scale = ScaleFit::of(&scored, scale).map(|fit| fit.scale);
        let factor = self.fitted_scale.unwrap_or(1.0) / scale;
        for prediction in &mut self.predictions {
            prediction.value = prediction.value.map(|centipawns| 2.0 * sigmoid(factor * centipawns) - 1.0);
        }
    }

    fn parts(&self, group: usize, metric: usize) -> Vec<UnitSum> {
        self.metrics.iter().map(|groups| groups[group][metric]).collect()
    }

    fn estimate(&self, group: usize, metric: usize) -> Option<Estimate> {
        Estimate::of(&self.parts(group, metric))
    }

    /// The number of positions of a group: the largest count among the metrics.
    fn positions(&self, group: usize) -> u64 {
        let counts = (0..METRICS.len()).filter_map(|metric| Some(self.estimate(group, metric)?.count));
        counts.max().unwrap_or(0)
    }

    fn facts(&self, columns: &[usize]) -> Value {
        let of = |group: usize| -> Map<String, Value> {
            let estimates = columns.iter().filter_map(|&metric| {
                let Estimate { value, error, count } = self.estimate(group, metric)?;
                let facts = json!({"value": value, "standard_error": error, "positions": count});
                Some((METRICS[metric].tag(), facts))
            });
            estimates.collect()
        };
        let phases: Map<String, Value> =
            (1..).zip(Phase::ALL).map(|(group, phase)| (phase.name().to_owned(), of(group).into())).collect();
        json!({
            "name": self.name, "architecture": self.description, "fitted_scale": self.fitted_scale,
            "metrics": of(0), "phases": phases,
        })
    }
}

/// A metric with its standard error.
fn cell(estimate: Option<Estimate>, metric: Metric) -> String {
    let (unit, places) = metric.scale();
    let Some(Estimate { value, error, .. }) = estimate else { return "-".into() };
    let value = unit * value;
    error.map_or_else(
        || format!("{value:.places$}"),
        |error| format!("{value:.places$} ± {:.places$}", unit * error),
    )
}
