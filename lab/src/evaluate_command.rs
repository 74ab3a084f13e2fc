//! `tandem-lab evaluate`: measures networks on positions whose scores, results or moves are known.
//!
//! Networks that score positions, and nothing else, go through this file; as soon as a transformer is among
//! them, `comparison` takes over, which works on whole games and knows policies too.

mod bootstrap_ci;
mod chart;
mod comparison;
mod fit;
mod model;
mod predict;
mod selector;
mod units;

use crate::data_command::{FormatArgs, default_threads, report_skips};
use crate::error::LabError;
use crate::plural::counted;
use crate::progress::Progress;
use crate::table::{Table, decimal};
use clap::Args;
use fit::{ScaleFit, ScoredPosition};
use model::Model;
use rayon::prelude::*;
use std::path::PathBuf;
use tandem_data::{BadFilter, Cursor, Filter, OnError, Record, RecordReader};
use tandem_train::selector::DEFAULT_MARGIN;
use tandem_train::{
    LabelledPrediction, Loss, Metric, MetricGroup, Metrics, PIECE_GROUPS, Phase, Target, sigmoid,
};

/// Compare networks on positions whose scores, results or moves are known
///
/// For NNUEs, prints one row per network, over all positions, then by game phase and by number of pieces. The
/// label of a position is its score in the data. The columns are the loss (mean square of the difference
/// between the win probability by the network's score and the target; see --scale and --wdl), the mean
/// absolute error in centipawns (MAE cp; labels beyond 2000 are excluded), the sign accuracy (how often the
/// score favours the side that won), the WDL accuracy (how often the game had the result, win, draw or loss,
/// that is most likely by the score), and the correlation of the scores with the labels.
///
/// With a transformer among the networks, prints other columns: how often the move played in the game is the
/// network's first move, or among its first three or five; the cross-entropy of its policy (its probabilities
/// of the moves); and the mean square error of its value, from -1 to 1, against the game's result (or the
/// score, if there is no result), next to that of the best constant. Scores in centipawns are turned into
/// values with a scale that is fitted to the same positions. Networks of action values, which read a position
/// and a move, are evaluated on every legal move; if the data has several moves of a position, their
/// predicted distributions and their ranking of the moves are measured.
///
/// With a transformer, standard errors are computed over games, because positions of a game are alike. The
/// other networks are compared with the first one on the same games (95 % intervals of 1000 bootstrap
/// resamples of games), and transformers also by their best moves and values.
#[derive(Args, Debug)]
pub(crate) struct EvaluateArgs {
    /// Network files to compare: NNUEs (.tnn, .nnue, .safetensors and others) or transformers (.ttn,
    /// .safetensors, .pb.gz)
    ///
    /// The word bootstrap stands for the hand-written evaluation. A hybrid (.hybrid: a transformer that also
    /// reads the NNUE's accumulators, the outputs of its first layer, through a bridge, a small layer) is
    /// evaluated as this transformer; both of its networks must be given too.
    #[arg(required = true)]
    nets: Vec<String>,
    /// File of positions to evaluate, with scores, results or moves, in any format that `tandem-lab data
    /// formats` lists; may be repeated
    #[arg(long, required = true, value_name = "PATH")]
    data: Vec<String>,
    #[command(flatten)]
    options: FormatArgs,
    /// Maximum number of positions to evaluate, from the start of the data (default: all)
    #[arg(long)]
    positions: Option<u64>,
    /// Evaluate only the records that satisfy these rules, separated by commas, for example
    /// no-checks,no-captures,no-mates (default: all records); an unknown rule prints the list of them
    #[arg(long, default_value = "")]
    filter: String,
    /// Divisor by which scores in centipawns are turned into win probabilities: sigmoid(score / SCALE), where
    /// sigmoid(x) = 1 / (1 + e^-x); for NNUEs
    #[arg(long, default_value_t = 400.0)]
    scale: f64,
    /// Weight of the game's result in the target win probability, from 0 (the label's score only) to 1 (the
    /// result only); for NNUEs
    #[arg(long, alias = "result-share", default_value_t = 0.0)]
    wdl: f64,

    /// Measure instead the selector of a hybrid: a classifier that decides which positions the transformer
    /// evaluates in addition to the NNUE
    ///
    /// Name the hybrid and both of its networks. The scores of the data are the reference and should come
    /// from deep searches. A position is positive if the transformer is closer to its score than the NNUE,
    /// by at least --margin. Prints the fraction of positive positions (base rate), the fraction that the
    /// selector sends to the transformer (usage), and its precision, recall and AUC. Then, for fractions of
    /// positions sent to the transformer from 0 to 100 %: the mean square error of the value (from -1 to 1),
    /// for the selector and for simple rules such as random order or endgames first; and precision and
    /// recall.
    #[arg(long, conflicts_with_all = ["scale", "wdl", "fit_scale", "svg"])]
    selector: bool,
    /// With --selector, the minimum difference in win probability, from 0 to 1, by which the transformer must
    /// be closer to the score than the NNUE for the position to be positive
    #[arg(long, default_value_t = DEFAULT_MARGIN, requires = "selector")]
    margin: f64,
    /// Also fit a scale to each network: the factor on its scores with the smallest loss, because a centipawn
    /// does not mean the same in all networks. Adds the columns of the factor and of the loss with it
    ///
    /// Needs 16 bytes of memory for each position and network.
    #[arg(long)]
    fit_scale: bool,
    /// Write all metrics as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a calibration plot (SVG) to this file: the win probability that each network predicts against
    /// the points scored in the games (1, 0.5 or 0) on average
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Number of threads that read and evaluate (default: all cores); the metrics do not depend on it
    #[arg(long)]
    threads: Option<usize>,
}

/// Records that a thread evaluates at a time. Sums are formed per chunk and then added in order, so that
/// results do not depend on the number of threads.
const CHUNK: usize = 1024;
/// Chunks that are read before the threads evaluate them.
const CHUNKS: usize = 64;

/// Number of games below which a part of the data is too uniform to compare networks.
const FEW_GAMES: u64 = 30;

/// The settings that are the same for all networks.
struct Task {
    scale: f64,
    wdl: f64,
    keep_scores: bool,
}

/// The sums of one network over the positions so far.
#[derive(Default)]
struct Accumulated {
    metrics: Metrics,
    scored: Vec<ScoredPosition>,
}

/// Runs the command.
///
/// # Errors
///
/// When an option is out of range, a network or the data cannot be read, or no record has a score or a
/// result.
pub(crate) fn run(args: &EvaluateArgs) -> Result<(), LabError> {
    if !(args.scale.is_finite() && args.scale > 0.0) {
        return Err(LabError::Usage(format!("a scale of {} is not positive; 400 is usual", args.scale)));
    }
    if !(0.0..=1.0).contains(&args.wdl) {
        return Err(LabError::Usage(format!("--wdl {} is not from 0 to 1", args.wdl)));
    }
    if !(0.0..=1.0).contains(&args.margin) {
        return Err(LabError::Usage(format!("a margin of {} is not from 0 to 1", args.margin)));
    }
    let filter: Filter = args.filter.parse().map_err(|bad: BadFilter| LabError::Usage(bad.to_string()))?;
    let threads = args.threads.unwrap_or_else(default_threads).max(1);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| LabError::Usage(format!("the threads cannot be started: {error}")))?;
    let sources = args.options.sources(&args.data)?;
    filter.check(&sources)?;
    if args.selector {
        let reader =
            RecordReader::new(sources, threads, OnError::Stop, filter.record_filter(), Cursor::default());
        return selector::run(args, reader, &pool);
    }
    let models = Model::load_all(&args.nets)?;
    let task = Task { scale: args.scale, wdl: args.wdl, keep_scores: args.fit_scale };
    if models.iter().any(|model| model.transformer().is_some()) {
        // All records are read, because those that the filter drops are the history of others.
        let reader = RecordReader::new(sources, threads, OnError::Stop, None, Cursor::default());
        return comparison::run(args, &task, filter, &models, reader, &pool);
    }
    let mut reader =
        RecordReader::new(sources, threads, OnError::Stop, filter.record_filter(), Cursor::default());

    let mut totals: Vec<Accumulated> = models.iter().map(|_| Accumulated::default()).collect();
    let mut progress = Progress::new("positions", args.positions);
    let mut left = args.positions.unwrap_or(u64::MAX);
    let (mut unlabelled, mut illegal) = (0u64, 0u64);
    let (mut games, mut last_ply) = (0u64, None);
    let mut pending: Vec<Record> = Vec::new();
    while left > 0 {
        let block = reader.next_block().transpose()?;
        let is_last = block.is_none();
        for record in block.into_iter().flat_map(|block| block.records) {
            if record.score.is_none() && record.result.is_none() {
                unlabelled += 1;
            } else if left > 0 {
                left -= 1;
                // Records that the filter dropped leave gaps in a game, but its plies still rise.
                games += u64::from(record.starts_game || last_ply.is_none_or(|last| record.ply <= last));
                last_ply = Some(record.ply);
                pending.push(record);
            }
        }
        if pending.len() < CHUNK * CHUNKS && !is_last && left > 0 {
            continue;
        }
        illegal += pool.install(|| evaluate(&task, &models, &pending, &mut totals));
        progress.add(pending.len() as u64);
        pending.clear();
        if is_last {
            break;
        }
    }
    let summary = progress.finish();
    report_skips(reader.skips());
    if totals[0].metrics.is_empty() {
        return Err(LabError::Usage(format!(
            "none of the records can be used: {unlabelled} have neither a score nor a result, {illegal} are not legal \
             positions. `tandem-lab data head` shows what they have"
        )));
    }
    let fits: Vec<Option<ScaleFit>> =
        totals.iter().map(|total| ScaleFit::of(&total.scored, task.scale)).collect();

    errln!("{summary}");
    if unlabelled + illegal > 0 {
        errln!("{unlabelled} records have neither a score nor a result, {illegal} are not legal positions");
    }
    if args.positions.is_some() && left == 0 && games < FEW_GAMES {
        errln!(
            "the first {} of the data come from {} only, whose positions are alike: the figures say little. Spread \
             them with --filter skip=0.9, or evaluate more",
            counted(args.positions.unwrap_or_default(), "position", "positions"),
            counted(games, "game", "games")
        );
    }
    out!("{}", main_table(&models, &totals, &fits).text());
    let phases = Phase::ALL.map(Phase::name);
    outln!("\n{}", groups("phase", &phases, &models, &totals, |metrics| metrics.phases()).text());
    out!("{}", groups("pieces", &PIECE_GROUPS, &models, &totals, |metrics| metrics.pieces()).text());
    if let Some(path) = &args.json {
        let facts = serde_json::json!({
            "data": args.data, "scale": args.scale, "wdl": args.wdl, "filter": args.filter,
            "networks": models.iter().zip(&totals).zip(&fits)
                .map(|((model, total), fit)| facts(model, &total.metrics, fit.as_ref()))
                .collect::<Vec<_>>(),
        });
        let text = format!("{facts:#}\n");
        tandem_util::output::write_atomically(path, text.as_bytes()).map_err(LabError::file(path))?;
    }
    if let Some(path) = &args.svg {
        let curves: Vec<_> = models
            .iter()
            .zip(&totals)
            .map(|(model, total)| (model.name.as_str(), total.metrics.calibration()))
            .collect();
        let svg = chart::calibration(&curves);
        tandem_util::output::write_atomically(path, svg.as_bytes()).map_err(LabError::file(path))?;
    }
    Ok(())
}

/// Evaluates every record with every network; returns the number of records without a legal position.
fn evaluate(task: &Task, models: &[Model], records: &[Record], totals: &mut [Accumulated]) -> u64 {
    let parts: Vec<(Vec<Accumulated>, u64)> =
        records.par_chunks(CHUNK).map(|records| evaluate_chunk(task, models, records)).collect();
    let mut illegal = 0;
    for (part, bad) in parts {
        illegal += bad;
        for (total, part) in totals.iter_mut().zip(part) {
            total.metrics.merge(&part.metrics);
            total.scored.extend(part.scored);
        }
    }
    illegal
}

fn evaluate_chunk(task: &Task, models: &[Model], records: &[Record]) -> (Vec<Accumulated>, u64) {
    let mut totals: Vec<Accumulated> = models.iter().map(|_| Accumulated::default()).collect();
    let mut scorers: Vec<_> = models.iter().filter_map(Model::position_scorer).collect();
    let mut illegal = 0;
    for record in records {
        let Ok(board) = record.position.board() else {
            illegal += 1;
            continue;
        };
        let target = Target::known(record, task.scale, task.wdl);
        let (pieces, phase) = (record.position.piece_count(), Phase::of(&record.position));
        for (scorer, total) in scorers.iter_mut().zip(&mut totals) {
            let centipawns = scorer.centipawns(&board);
            let output = centipawns / task.scale;
            total.metrics.add(&LabelledPrediction {
                centipawns,
                win_probability: sigmoid(output),
                score: record.score.map(|score| f64::from(score.centipawns())),
                loss: target.map(|target| Loss::default().value_and_grad(output, target).0),
                result: record.result,
                pieces,
                phase,
            });
            if let Some(target) = target.filter(|_| task.keep_scores) {
                total.scored.push(ScoredPosition { centipawns, target });
            }
        }
    }
    (totals, illegal)
}

/// The metrics of the tables, in their order.
const METRICS: [Metric; 5] =
    [Metric::TargetLoss, Metric::Mae, Metric::SignAccuracy, Metric::WdlAccuracy, Metric::Correlation];
/// Number of metrics in the tables of groups.
const GROUP_METRICS: usize = 4;

/// A table with some columns of its own, the number of positions, and metrics.
fn table_of(first: &[&str], metrics: &[Metric], last: &[&str]) -> Table {
    let columns: Vec<String> = metrics.iter().map(|metric| metric.column()).collect();
    let shown = ["positions"].into_iter().chain(columns.iter().map(String::as_str));
    Table::new(&first.iter().copied().chain(shown).chain(last.iter().copied()).collect::<Vec<_>>())
}

/// The cells of such a table: the number of positions, and the metrics.
fn cells(group: MetricGroup<'_>, metrics: &[Metric]) -> impl Iterator<Item = String> {
    let cells = metrics.iter().map(move |metric| metric.cell(group.get(*metric)));
    [group.positions().to_string()].into_iter().chain(cells)
}

fn main_table(models: &[Model], totals: &[Accumulated], fits: &[Option<ScaleFit>]) -> Table {
    let fitted = fits.iter().any(Option::is_some);
    let last: &[&str] = if fitted { &["fitted scale", "fitted loss"] } else { &[] };
    let mut table = table_of(&["network"], &METRICS, last);
    for ((model, total), fit) in models.iter().zip(totals).zip(fits) {
        let mut row = vec![model.name.clone()];
        row.extend(cells(total.metrics.overall(), &METRICS));
        if fitted {
            row.push(decimal(fit.as_ref().map(|fit| fit.scale), 3));
            row.push(decimal(fit.as_ref().map(|fit| fit.loss), 6));
        }
        table.push(row);
    }
    table
}

fn groups<const N: usize>(
    first_column: &str,
    names: &[&str; N],
    models: &[Model],
    totals: &[Accumulated],
    part: fn(&Metrics) -> [MetricGroup<'_>; N],
) -> Table {
    let metrics = &METRICS[..GROUP_METRICS];
    let mut table = table_of(&[first_column, "network"], metrics, &[]);
    for (number, name) in names.iter().enumerate() {
        for (model, total) in models.iter().zip(totals) {
            let mut row = vec![(*name).to_owned(), model.name.clone()];
            row.extend(cells(part(&total.metrics)[number], metrics));
            table.push(row);
        }
    }
    table
}

/// All metrics of a network as JSON, for other programs.
fn facts(model: &Model, metrics: &Metrics, fit: Option<&ScaleFit>) -> serde_json::Value {
    let of = |group: MetricGroup<'_>| -> serde_json::Map<String, serde_json::Value> {
        let values = METRICS.map(|metric| (metric.tag(), group.get(metric).into()));
        [("positions".to_owned(), group.positions().into())].into_iter().chain(values).collect()
    };
    let named = |names: &[&str], groups: &[MetricGroup<'_>]| -> serde_json::Map<String, serde_json::Value> {
        names.iter().zip(groups).map(|(name, group)| ((*name).to_owned(), of(*group).into())).collect()
    };
    let bins: Vec<_> = metrics
        .calibration()
        .iter()
        .map(|bin| serde_json::json!({"positions": bin.count, "predicted": bin.predicted, "actual": bin.actual}))
        .collect();
    serde_json::json!({
        "name": model.name,
        "architecture": model.description,
        "metrics": of(metrics.overall()),
        "phases": named(&Phase::ALL.map(Phase::name), &metrics.phases()),
        "pieces": named(&PIECE_GROUPS, &metrics.pieces()),
        "calibration": bins,
        "fit": fit.map(|fit| serde_json::json!({"fitted_scale": fit.scale, "loss": fit.loss})),
    })
}
