//! `tandem-lab verify`.

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

/// Prove that every way to evaluate a network gives the same
///
/// The same positions go through plain integers, every instruction set of this machine, accumulators that follow the moves
/// forth and back, the C interface, and floating point. Ways of integers must agree to the last bit; floating point to what
/// rounding costs.
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The network file; one in floating point is quantised first
    net: PathBuf,
    /// The network in floating point that it was made from; if not given, its own integers in floating point
    #[arg(long, value_name = "FLOAT")]
    against: Option<PathBuf>,
    /// So many positions
    #[arg(long, default_value_t = 10_000)]
    positions: usize,
    /// What the random games start from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A file of positions, in any format of `tandem-lab data`, instead of random games
    #[arg(long, value_name = "PATH")]
    data: Option<String>,
    /// A Stockfish 15.1: it must load the network and say the same of 200 of the positions
    #[arg(long, value_name = "PROGRAM")]
    stockfish: Option<PathBuf>,
    #[command(flatten)]
    options: FormatArgs,
}

/// A network in floating point and what was made of it differ by no more than this on average, in centipawns.
const PLAUSIBLE: f64 = 15.0;

/// Positions that Stockfish is asked about.
const ASKED: usize = 200;

/// A way's row of the table.
fn row(name: String, distance: &Distance, differ: String) -> Vec<String> {
    let (largest, mean) = (format!("{:.2}", distance.largest()), format!("{:.3}", distance.mean()));
    vec![name, distance.count().to_string(), differ, largest, mean]
}

/// Runs the command.
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

    let mut table = Table::new(&["way", "compared", "differ", "largest cp", "mean cp"]);
    let mut wrong = Vec::new();
    let mut integer = |name: String, distance: Distance| {
        if distance.differ() > 0 {
            wrong.push(name.clone());
        }
        table.push(row(name, &distance, distance.differ().to_string()));
    };
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let network = network.clone().with_isa(isa);
        if isa != Isa::Portable {
            integer(format!("{} from nothing", isa.name()), from_nothing(&network, &lines, &expected));
        }
        integer(format!("{} along the moves", isa.name()), along_the_moves(&network, &lines, &expected));
    }
    let (boards, fens) = through_c(&network, &lines, &expected)?;
    integer("C interface from nothing".into(), fens);
    integer("C interface along the moves".into(), boards);
    let rounding = against_float(&float, &lines, &expected);
    let mean = rounding.mean();
    // No number of floating point is an integer's; how far they are apart is what counts.
    table.push(row(measure, &rounding, "-".into()));

    let count: usize = expected.iter().map(Vec::len).sum();
    sayln!("{}: {}", args.net.display(), network.architecture());
    sayln!("{count} positions, each way against plain integers from nothing");
    say!("{}", table.text());
    if !wrong.is_empty() {
        return Err(LabError::Usage(format!(
            "{} differ from plain integers, which no network may make them: this is a bug of ours, please report it with \
             the network",
            wrong.join(", ")
        )));
    }
    if mean > PLAUSIBLE {
        return Err(LabError::Usage(format!(
            "quantising costs {mean:.1} centipawns on average, more than {PLAUSIBLE}: `tandem-lab export` shows which \
             layers lose; train with weights held to the range of their integers, or choose other --qa and --qb"
        )));
    }
    sayln!("all ways of integers agree");
    if let Some(program) = &args.stockfish {
        let positions: Vec<_> = lines.iter().flat_map(Line::positions).collect();
        // From the whole length of them, half as many again for those in check.
        let step = (2 * positions.len() / (3 * ASKED)).max(1);
        let mut asked: Vec<_> = positions.into_iter().step_by(step).collect();
        asked.retain(|position| position.board().checkers().is_empty());
        asked.truncate(ASKED);
        let count = stockfish::compare(program, &network, &asked)?;
        sayln!("{} says the same of {count} positions", program.display());
    }
    Ok(())
}

/// The network of integers, the one in floating point that it is measured by, and what that is.
fn load(args: &VerifyArgs) -> Result<(Network, FloatNetwork, String), LabError> {
    let given = match &args.against {
        None => None,
        Some(path) => match AnyNetwork::load(path)?.0 {
            AnyNetwork::Float(float, _) => Some(*float),
            AnyNetwork::Integer(_) => {
                let problem = format!("{}: --against wants a network in floating point", path.display());
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
        return Err(LabError::Usage(format!("these are not one network: {one} and {other}")));
    }
    Ok((network, float, measure.into()))
}

/// The difference of two judgements in centipawns; not zero where any bit of them differs.
fn difference(one: Evaluation, other: Evaluation) -> f64 {
    let difference = f64::from(one.value()) - f64::from(other.value());
    if difference == 0.0 && one != other {
        return f64::EPSILON;
    }
    difference * 100.0 / f64::from(one.pawn())
}

fn from_nothing(network: &Network, lines: &[Line], expected: &[Vec<Evaluation>]) -> Distance {
    let mut distance = Distance::default();
    for (line, expected) in lines.iter().zip(expected) {
        for (position, &expected) in line.positions().zip(expected) {
            distance.add(difference(network.evaluate(position.board()), expected));
        }
    }
    distance
}

/// Forth and back: every position is judged when it comes, and every second one again when the moves are taken back.
fn along_the_moves(network: &Network, lines: &[Line], expected: &[Vec<Evaluation>]) -> Distance {
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

/// Boards that follow the moves, and positions as FEN.
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
    let mut judge = |line: &Line, expected: &[Evaluation]| -> Result<(), String> {
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
        judge(line, expected).map_err(|problem| LabError::Usage(format!("the C interface: {problem}")))?;
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

/// A file for those who read networks only from files.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(ending: &str, bytes: &[u8]) -> Result<Self, LabError> {
        let path = std::env::temp_dir().join(format!("tandem-verify-{}.{ending}", std::process::id()));
        let write = |path: &Path| tandem_chess::output::write_whole(path, bytes);
        write(&path).map_err(LabError::file(&path))?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
