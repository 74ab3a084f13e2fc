//! `tandem-lab verify`: evaluates the same positions in every way there is, and compares the results.

mod c_interface;
mod stockfish;

use crate::any_network::AnyNetwork;
use crate::data_command::FormatArgs;
use crate::distance::Distance;
use crate::error::LabError;
use crate::lines::{self, Line};
use crate::table::Table;
use c_interface::CNetwork;
use clap::Args;
use std::path::{Path, PathBuf};
use tandem_nnue::{Accumulators, Evaluation, FloatNetwork, Isa, Network};

/// Verify that all implementations of an NNUE's inference agree
///
/// The same positions are evaluated by plain integer code, with every instruction set of this machine, by
/// accumulators (outputs of the first layer) that are updated along the moves and back, through the C
/// interface, and in floating point. All integer evaluations must be equal; floating point may differ by
/// rounding errors, on average by at most 15 centipawns. Otherwise the command fails.
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// NNUE file to verify; a network in floating point is quantised (converted to integers) first
    net: PathBuf,
    /// Floating-point file of the network that NET was quantised from, to compare it with (default: NET
    /// itself; if it is quantised, its integer weights, converted to floating point)
    #[arg(long, value_name = "FLOAT")]
    against: Option<PathBuf>,
    /// Number of positions to evaluate
    #[arg(long, default_value_t = 10_000)]
    positions: usize,
    /// Seed of the random games that the positions come from, or of the random moves with --data
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Take positions from this data set, in any format that `tandem-lab data formats` lists, each followed
    /// by a few random moves, instead of positions of random games
    #[arg(long, value_name = "PATH")]
    data: Option<String>,
    /// Path of a Stockfish 15.1 binary, which also loads the network and evaluates 200 of the positions; the
    /// command fails if its evaluations differ
    #[arg(long, value_name = "PROGRAM")]
    stockfish: Option<PathBuf>,
    #[command(flatten)]
    options: FormatArgs,
}

/// Largest plausible mean difference, in centipawns, between a network in floating point and its quantised
/// version.
const MAX_PLAUSIBLE_MEAN: f64 = 15.0;

/// Number of positions that Stockfish evaluates.
const STOCKFISH_POSITIONS: usize = 200;

/// A row of the table: name, number of positions, differing positions, largest and mean difference.
fn row(name: String, distance: &Distance, differ: String) -> Vec<String> {
    let (largest, mean) = (format!("{:.2}", distance.largest()), format!("{:.3}", distance.mean()));
    vec![name, distance.count().to_string(), differ, largest, mean]
}

/// Runs the command.
///
/// # Errors
///
/// When a file cannot be read, evaluations differ, quantisation costs too much, or Stockfish disagrees.
pub(crate) fn run(args: &VerifyArgs) -> Result<(), LabError> {
    if args.positions == 0 {
        return Err(LabError::Usage("at least one position is needed".into()));
    }
    let lines = match &args.data {
        Some(path) => {
            lines::from_data(args.options.sources(std::slice::from_ref(path))?, args.positions, args.seed)?
        }
        None => lines::random_games(args.positions, args.seed),
    };
    let (network, float, measure) = load(args)?;
    let network = network.with_isa(Isa::Portable);
    let expected: Vec<Vec<Evaluation>> = lines
        .iter()
        .map(|line| line.positions().map(|position| network.evaluate(position.board())).collect())
        .collect();

    let mut table = Table::new(&["method", "positions", "different", "max cp", "mean cp"]);
    let mut differing = Vec::new();
    let mut integer = |name: String, distance: Distance| {
        if distance.differ() > 0 {
            differing.push(name.clone());
        }
        table.push(row(name, &distance, distance.differ().to_string()));
    };
    for isa in Isa::available() {
        let network = network.clone().with_isa(isa);
        if network.isa() != isa {
            continue; // No kernels of its own.
        }
        if isa != Isa::Portable {
            integer(format!("{} from scratch", isa.name()), from_scratch(&network, &lines, &expected));
        }
        integer(format!("{} incremental", isa.name()), incremental(&network, &lines, &expected));
    }
    let (boards, fens) = through_c(&network, &lines, &expected)?;
    integer("C interface from scratch".into(), fens);
    integer("C interface incremental".into(), boards);
    let rounding = against_float(&float, &lines, &expected);
    let mean = rounding.mean();
    // Floating point never equals integers exactly; only the size of the difference counts.
    table.push(row(measure, &rounding, "-".into()));

    let count: usize = expected.iter().map(Vec::len).sum();
    outln!("{}: {}", args.net.display(), network.architecture());
    outln!("{count} positions, each method against plain integers from scratch");
    out!("{}", table.text());
    if !differing.is_empty() {
        return Err(LabError::Usage(format!(
            "{} differ from plain integers, whatever the network: this is a bug in Tandem, please report it with \
             the network",
            differing.join(", ")
        )));
    }
    if mean > MAX_PLAUSIBLE_MEAN {
        return Err(LabError::Usage(format!(
            "quantising costs {mean:.1} centipawns on average, more than {MAX_PLAUSIBLE_MEAN}: `tandem-lab export` shows which \
             layers lose; train with clip_weights = true, or choose other --qa and --qb"
        )));
    }
    outln!("all integer evaluations agree");
    if let Some(program) = &args.stockfish {
        let positions: Vec<_> = lines.iter().flat_map(Line::positions).collect();
        // Spread over all positions, with half as many again to replace those in check.
        let step = (2 * positions.len() / (3 * STOCKFISH_POSITIONS)).max(1);
        let mut selected: Vec<_> = positions.into_iter().step_by(step).collect();
        selected.retain(|position| position.board().checkers().is_empty());
        selected.truncate(STOCKFISH_POSITIONS);
        let count = stockfish::compare(program, &network, &selected)?;
        outln!("{} agrees on {count} positions", program.display());
    }
    Ok(())
}

/// Loads the quantised network, the network in floating point that it is compared with, and a name for the
/// latter.
fn load(args: &VerifyArgs) -> Result<(Network, FloatNetwork, String), LabError> {
    let given = match &args.against {
        None => None,
        Some(path) => match AnyNetwork::load(path)?.0 {
            AnyNetwork::Float(float, _) => Some(*float),
            AnyNetwork::Integer(_) => {
                let problem = format!("{}: --against needs a network in floating point", path.display());
                return Err(LabError::Usage(problem));
            }
        },
    };
    let (network, float, measure) = match AnyNetwork::load(&args.net)?.0 {
        AnyNetwork::Float(own, quantisation) => {
            let (network, _) = own.quantise(quantisation).map_err(LabError::quantise(&args.net))?;
            (network, given.unwrap_or(*own), "floating point")
        }
        AnyNetwork::Integer(network) => match given {
            Some(float) => (*network, float, "floating point"),
            None => {
                let float = network.to_float();
                (*network, float, "its own integers in floating point")
            }
        },
    };
    if float.architecture != network.architecture() {
        let (one, other) = (network.architecture(), &float.architecture);
        return Err(LabError::Usage(format!("these are not the same network: {one} and {other}")));
    }
    Ok((network, float, measure.into()))
}

/// The difference between two evaluations in centipawns; not zero if any bit of them differs.
fn difference(one: Evaluation, other: Evaluation) -> f64 {
    let difference = f64::from(one.value()) - f64::from(other.value());
    if difference == 0.0 && one != other {
        return f64::EPSILON;
    }
    difference * 100.0 / f64::from(one.pawn())
}

fn from_scratch(network: &Network, lines: &[Line], expected: &[Vec<Evaluation>]) -> Distance {
    let mut distance = Distance::default();
    for (line, expected) in lines.iter().zip(expected) {
        for (position, &expected) in line.positions().zip(expected) {
            distance.add(difference(network.evaluate(position.board()), expected));
        }
    }
    distance
}

/// Forwards and backwards: every position is evaluated when it is reached, and every second one again when
/// the moves are taken back.
fn incremental(network: &Network, lines: &[Line], expected: &[Vec<Evaluation>]) -> Distance {
    let mut distance = Distance::default();
    let mut accumulators = Accumulators::new(network);
    for (line, expected) in lines.iter().zip(expected) {
        let mut position = line.start.clone();
        accumulators.reset(network, position.board());
        distance.add(difference(accumulators.evaluate(network, position.board()), expected[0]));
        for (&mv, &expected) in line.moves.iter().zip(&expected[1..]) {
            position.play(mv);
            accumulators.push(network, position.changes());
            distance.add(difference(accumulators.evaluate(network, position.board()), expected));
        }
        for (ply, &expected) in expected.iter().enumerate().take(line.moves.len()).rev() {
            position.undo();
            accumulators.pop();
            if ply % 2 == 0 {
                distance.add(difference(accumulators.evaluate(network, position.board()), expected));
            }
        }
    }
    distance
}

/// Evaluates through the C interface, once with boards that follow the moves and once from FEN.
fn through_c(
    network: &Network,
    lines: &[Line],
    expected: &[Vec<Evaluation>],
) -> Result<(Distance, Distance), LabError> {
    let file = TemporaryFile::new("tnn", &network.to_bytes())?;
    let handle = CNetwork::load(&file.0).map_err(LabError::Usage)?;
    let (mut boards, mut fens) = (Distance::default(), Distance::default());
    let compare = |distance: &mut Distance, found: i32, expected: Evaluation| {
        distance.add(f64::from(found) - f64::from(expected.centipawns()));
    };
    let mut compare_line = |line: &Line, expected: &[Evaluation]| -> Result<(), String> {
        let mut board = handle.board(&line.start.fen())?;
        let mut position = line.start.clone();
        compare(&mut boards, board.evaluate()?, expected[0]);
        compare(&mut fens, handle.evaluate(&position.fen())?, expected[0]);
        for (&mv, &expected) in line.moves.iter().zip(&expected[1..]) {
            board.push(&mv.to_string())?;
            position.play(mv);
            compare(&mut boards, board.evaluate()?, expected);
            compare(&mut fens, handle.evaluate(&position.fen())?, expected);
        }
        for &expected in expected[..line.moves.len()].iter().rev() {
            board.pop()?;
            compare(&mut boards, board.evaluate()?, expected);
        }
        Ok(())
    };
    for (line, expected) in lines.iter().zip(expected) {
        compare_line(line, expected)
            .map_err(|problem| LabError::Usage(format!("the C interface: {problem}")))?;
    }
    Ok((boards, fens))
}

fn against_float(float: &FloatNetwork, lines: &[Line], expected: &[Vec<Evaluation>]) -> Distance {
    let mut distance = Distance::default();
    for (line, expected) in lines.iter().zip(expected) {
        for (position, &expected) in line.positions().zip(expected) {
            let exact = float.evaluate(position.board()) * 100.0 / f64::from(float.pawn);
            let found = f64::from(expected.value()) * 100.0 / f64::from(expected.pawn());
            distance.add(exact - found);
        }
    }
    distance
}

/// A temporary file for interfaces that load networks only from files; removed when dropped.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(ending: &str, bytes: &[u8]) -> Result<Self, LabError> {
        let path = std::env::temp_dir().join(format!("tandem-verify-{}.{ending}", std::process::id()));
        let write = |path: &Path| tandem_util::output::write_atomically(path, bytes);
        write(&path).map_err(LabError::file(&path))?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
