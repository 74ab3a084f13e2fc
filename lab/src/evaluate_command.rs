//! `tandem-lab evaluate`.

mod chart;
mod comparison;
mod contender;
mod draws;
mod fit;
mod hearing;
mod selector;
mod units;

use crate::data_command::{FormatArgs, default_threads, tell_skips};
use crate::error::LabError;
use crate::progress::Progress;
use crate::table::{Table, figure, percent};
use clap::Args;
use contender::Contender;
use fit::{Answer, Fit};
use rayon::prelude::*;
use std::path::PathBuf;
use tandem_data::{BadFilter, Cursor, Filter, OnError, Reader, Record};
use tandem_train::selector::MARGIN;
use tandem_train::{Figures, Judgement, Loss, Metrics, PIECE_GROUPS, Phase, Target, sigmoid};

/// Compare networks on positions whose scores or results are known
///
/// One row for each network: the loss (the square of the difference between its chance to win and the target's), the mean
/// error in centipawns (labels beyond 2000 left out), how often its sign is on the winner's side, how often the game ended as
/// its score says is most likely, and the correlation with the labels. Then the same by phase and by number of pieces.
///
/// With a transformer among the networks: how often the move that was played is its first, or among its first three or five;
/// the surprise of its policy; the mean square error of its value from -1 to 1 against the game's result, or the score
/// where there is none, beside that of the best constant. Others' scores become values by a factor that is fitted to the
/// same positions. Networks of action values are asked about every move; on data with several moves of a position their
/// buckets and orders are judged. Standard errors are from game to game. The others are compared with the first network on
/// the same games (95 % of 1000 draws of games), and transformers by their best moves and values.
#[derive(Args, Debug)]
pub(crate) struct EvaluateArgs {
    /// Network files, NNUEs or transformers (.ttn, .safetensors, .pb.gz); the word bootstrap stands for the hand-written
    /// evaluation, and a hybrid (.hybrid) for its transformer with the bridge to it: its two networks are named beside it
    #[arg(required = true)]
    nets: Vec<String>,
    /// A file of positions, in any format of `tandem-lab data`; may be given more than once
    #[arg(long, required = true, value_name = "PATH")]
    data: Vec<String>,
    #[command(flatten)]
    options: FormatArgs,
    /// Look at so many positions, from the start of the data; at all of them if not given
    #[arg(long)]
    positions: Option<u64>,
    /// Rules for records, such as no-checks,no-captures,no-mates
    #[arg(long, default_value = "")]
    filter: String,
    /// So many centipawns are one in the curve from scores to chances
    #[arg(long, default_value_t = 400.0)]
    scale: f64,
    /// The share of the game's result in the target, from 0 to 1
    #[arg(long, default_value_t = 0.0)]
    result_share: f64,
    /// Judge the selector of a hybrid, beside which both its networks are named: where the strategist knows better by scores
    /// of deep searches, how often it is asked there, and the error of the value by the share that it is asked about, beside
    /// that of simple rules
    #[arg(long, conflicts_with_all = ["scale", "result_share", "fit_scale", "svg"])]
    selector: bool,
    /// By so much of the chance to win the strategist must be nearer to know better
    #[arg(long, default_value_t = MARGIN, requires = "selector")]
    margin: f64,
    /// Also find for each network the factor on its centipawns that makes the loss least: networks differ in what a
    /// centipawn means. Keeps 16 bytes for each position and network
    #[arg(long)]
    fit_scale: bool,
    /// Write all figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw how often each network's chances came true
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Threads that judge
    #[arg(long)]
    threads: Option<usize>,
}

/// Records that a thread judges together. The sums are made over these, in order, so that they do not depend on threads.
const CHUNK: usize = 1024;
/// Chunks that are read before they are judged.
const CHUNKS: usize = 64;

/// What the data asks of every network.
struct Task {
    scale: f64,
    result_share: f64,
    keep_answers: bool,
}

/// What is known of one network so far.
#[derive(Default)]
struct Account {
    metrics: Metrics,
    answers: Vec<Answer>,
}

/// Runs the command.
pub(crate) fn run(args: &EvaluateArgs) -> Result<(), LabError> {
    if !(args.scale.is_finite() && args.scale > 0.0) {
        return Err(LabError::Usage(format!("a scale of {} is none; 400 is usual", args.scale)));
    }
    if !(0.0..=1.0).contains(&args.result_share) {
        return Err(LabError::Usage(format!("a result share of {} is not from 0 to 1", args.result_share)));
    }
    if !(0.0..=1.0).contains(&args.margin) {
        return Err(LabError::Usage(format!("a margin of {} is not from 0 to 1", args.margin)));
    }
    let filter: Filter = args.filter.parse().map_err(|bad: BadFilter| LabError::Usage(bad.to_string()))?;
    let threads = args.threads.unwrap_or_else(default_threads).max(1);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| LabError::Usage(format!("no threads to work with: {error}")))?;
    let sources = args.options.sources(&args.data)?;
    filter.check(&sources)?;
    if args.selector {
        let reader = Reader::new(sources, threads, OnError::Stop, filter.sieve(), Cursor::default());
        return selector::run(args, reader, &pool);
    }
    let contenders = Contender::load_all(&args.nets)?;
    let task = Task { scale: args.scale, result_share: args.result_share, keep_answers: args.fit_scale };
    if contenders.iter().any(|contender| contender.transformer().is_some()) {
        // All records are read: those that are left out are the history of others.
        let reader = Reader::new(sources, threads, OnError::Stop, None, Cursor::default());
        return comparison::run(args, &task, filter, &contenders, reader, &pool);
    }
    let mut reader = Reader::new(sources, threads, OnError::Stop, filter.sieve(), Cursor::default());

    let mut accounts: Vec<Account> = contenders.iter().map(|_| Account::default()).collect();
    let mut progress = Progress::new("positions", args.positions);
    let mut left = args.positions.unwrap_or(u64::MAX);
    let (mut useless, mut unsound) = (0u64, 0u64);
    let mut waiting: Vec<Record> = Vec::new();
    while left > 0 {
        let block = reader.next_block().transpose()?;
        let is_last = block.is_none();
        for record in block.into_iter().flat_map(|block| block.records) {
            if record.score.is_none() && record.result.is_none() {
                useless += 1;
            } else if left > 0 {
                left -= 1;
                waiting.push(record);
            }
        }
        if waiting.len() < CHUNK * CHUNKS && !is_last && left > 0 {
            continue;
        }
        unsound += pool.install(|| judge(&task, &contenders, &waiting, &mut accounts));
        progress.add(waiting.len() as u64);
        waiting.clear();
        if is_last {
            break;
        }
    }
    let told = progress.finish();
    tell_skips(reader.skips());
    if accounts[0].metrics.count() == 0 {
        return Err(LabError::Usage(format!(
            "none of the records can be judged by: {useless} have neither a score nor a result, {unsound} are no \
             positions. `tandem-lab data head` shows what they have"
        )));
    }
    let fits: Vec<Option<Fit>> =
        accounts.iter().map(|account| Fit::of(&account.answers, task.scale)).collect();

    tellln!("{told}");
    if useless + unsound > 0 {
        tellln!("{useless} records have neither a score nor a result, {unsound} are no positions");
    }
    say!("{}", main_table(&contenders, &accounts, &fits).text());
    let phases = Phase::ALL.map(Phase::name);
    sayln!("\n{}", groups("phase", &phases, &contenders, &accounts, |metrics| metrics.phases()).text());
    say!("{}", groups("pieces", &PIECE_GROUPS, &contenders, &accounts, |metrics| metrics.pieces()).text());
    if let Some(path) = &args.json {
        let facts = serde_json::json!({
            "data": args.data, "scale": args.scale, "result_share": args.result_share, "filter": args.filter,
            "networks": contenders.iter().zip(&accounts).zip(&fits)
                .map(|((contender, account), fit)| facts(contender, &account.metrics, fit.as_ref()))
                .collect::<Vec<_>>(),
        });
        let text = format!("{facts:#}\n");
        tandem_chess::output::write_whole(path, text.as_bytes()).map_err(LabError::file(path))?;
    }
    if let Some(path) = &args.svg {
        let curves: Vec<_> = contenders
            .iter()
            .zip(&accounts)
            .map(|(contender, account)| (contender.name.as_str(), account.metrics.calibration()))
            .collect();
        let svg = chart::calibration(&curves);
        tandem_chess::output::write_whole(path, svg.as_bytes()).map_err(LabError::file(path))?;
    }
    Ok(())
}

/// Lets every network judge every record; returns how many records are no positions.
fn judge(task: &Task, contenders: &[Contender], records: &[Record], accounts: &mut [Account]) -> u64 {
    let parts: Vec<(Vec<Account>, u64)> =
        records.par_chunks(CHUNK).map(|records| judge_chunk(task, contenders, records)).collect();
    let mut unsound = 0;
    for (part, bad) in parts {
        unsound += bad;
        for (account, part) in accounts.iter_mut().zip(part) {
            account.metrics.merge(&part.metrics);
            account.answers.extend(part.answers);
        }
    }
    unsound
}

fn judge_chunk(task: &Task, contenders: &[Contender], records: &[Record]) -> (Vec<Account>, u64) {
    let mut accounts: Vec<Account> = contenders.iter().map(|_| Account::default()).collect();
    let mut seats: Vec<_> = contenders.iter().filter_map(Contender::seat).collect();
    let mut unsound = 0;
    for record in records {
        let Ok(board) = record.position.board() else {
            unsound += 1;
            continue;
        };
        let target = Target::known(record, task.scale, task.result_share);
        let (pieces, phase) = (record.position.piece_count(), Phase::of(&record.position));
        for (seat, account) in seats.iter_mut().zip(&mut accounts) {
            let centipawns = seat.centipawns(&board);
            let output = centipawns / task.scale;
            account.metrics.add(&Judgement {
                centipawns,
                chance: sigmoid(output),
                score: record.score.map(|score| f64::from(score.centipawns())),
                loss: target.map(|target| Loss::default().of(output, target).0),
                result: record.result,
                pieces,
                phase,
            });
            if let Some(target) = target.filter(|_| task.keep_answers) {
                account.answers.push(Answer { centipawns, target });
            }
        }
    }
    (accounts, unsound)
}

fn main_table(contenders: &[Contender], accounts: &[Account], fits: &[Option<Fit>]) -> Table {
    let fitted = fits.iter().any(Option::is_some);
    let columns =
        ["network", "positions", "loss", "MAE cp", "sign", "WDL", "correlation", "factor", "fitted loss"];
    let mut table = Table::new(&columns[..if fitted { 9 } else { 7 }]);
    for ((contender, account), fit) in contenders.iter().zip(accounts).zip(fits) {
        let figures = account.metrics.whole();
        let mut row = vec![contender.name.clone()];
        row.extend(cells(figures));
        row.push(figure(figures.correlation(), 4));
        if fitted {
            row.push(figure(fit.as_ref().map(|fit| fit.factor), 3));
            row.push(figure(fit.as_ref().map(|fit| fit.loss), 6));
        }
        table.push(row);
    }
    table
}

/// The figures that every table has.
fn cells(figures: &Figures) -> [String; 5] {
    [
        figures.count().to_string(),
        figure(figures.loss(), 6),
        figure(figures.mae(), 1),
        percent(figures.sign_accuracy()),
        percent(figures.wdl_accuracy()),
    ]
}

fn groups<const N: usize>(
    what: &str,
    names: &[&str; N],
    contenders: &[Contender],
    accounts: &[Account],
    part: fn(&Metrics) -> &[Figures; N],
) -> Table {
    let mut table = Table::new(&[what, "network", "positions", "loss", "MAE cp", "sign", "WDL"]);
    for (number, name) in names.iter().enumerate() {
        for (contender, account) in contenders.iter().zip(accounts) {
            let mut row = vec![(*name).to_owned(), contender.name.clone()];
            row.extend(cells(&part(&account.metrics)[number]));
            table.push(row);
        }
    }
    table
}

/// Everything that is known of a network, for machines.
fn facts(contender: &Contender, metrics: &Metrics, fit: Option<&Fit>) -> serde_json::Value {
    let of = |figures: &Figures| {
        serde_json::json!({
            "positions": figures.count(), "loss": figures.loss(), "mae": figures.mae(),
            "sign_accuracy": figures.sign_accuracy(), "wdl_accuracy": figures.wdl_accuracy(),
            "correlation": figures.correlation(),
        })
    };
    let named = |names: &[&str], figures: &[Figures]| -> serde_json::Map<String, serde_json::Value> {
        names.iter().zip(figures).map(|(name, figures)| ((*name).to_owned(), of(figures))).collect()
    };
    let bins: Vec<_> = metrics
        .calibration()
        .iter()
        .map(|bin| serde_json::json!({"positions": bin.count, "predicted": bin.predicted, "actual": bin.actual}))
        .collect();
    serde_json::json!({
        "name": contender.name,
        "architecture": contender.told,
        "figures": of(metrics.whole()),
        "phases": named(&Phase::ALL.map(Phase::name), metrics.phases()),
        "pieces": named(&PIECE_GROUPS, metrics.pieces()),
        "calibration": bins,
        "fit": fit.map(|fit| serde_json::json!({"factor": fit.factor, "loss": fit.loss})),
    })
}
