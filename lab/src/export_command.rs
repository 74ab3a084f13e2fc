//! `tandem-lab export`.

use crate::any_network::{AnyNetwork, parameters};
use crate::card::{Card, sha256};
use crate::error::LabError;
use crate::table::Table;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use tandem_chess::Position;
use tandem_nnue::{FloatNetwork, HeadShape, LayerReport, Network, Quantisation};

/// Write a network in another format
///
/// From a network in floating point, which is quantised, or from one of integers, whose numbers stay as they are unless --qa
/// or --qb asks for others. Tells for each layer what quantising did to it, and writes a card beside the network.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// The network file
    net: PathBuf,
    /// The file to write
    #[arg(short = 'o', long = "output", value_name = "OUT")]
    output: PathBuf,
    /// Its format; by the end of its name if not given
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<Target>,
    /// What stands for one in the accumulators of a network of one hidden layer: 255 if not given
    #[arg(long, value_parser = clap::value_parser!(i16).range(1..))]
    qa: Option<i16>,
    /// What stands for one in its output weights: 64 if not given
    #[arg(long, value_parser = clap::value_parser!(i16).range(1..))]
    qb: Option<i16>,
    /// Write no card
    #[arg(long)]
    no_card: bool,
    /// Something that the card should say; may be given more than once
    #[arg(long, value_name = "KEY=VALUE")]
    note: Vec<String>,
    /// The recipe that the network was trained by, for the card
    #[arg(long, value_name = "FILE")]
    recipe: Option<PathBuf>,
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Ours, .tnn: any network
    Tnn,
    /// Floating point, .safetensors: any network
    Safetensors,
    /// Stockfish's, .nnue: the architectures of 12 to 17 but for 15's
    Stockfish,
    /// Jomfish's, .jnn: HalfKP 256x2-32-32-1
    Jomfish,
    /// The student's, .halfkp16: HalfKP with weights of its own for each perspective
    Student,
    /// Bullet's, .bullet: one hidden layer; the file does not say what it is
    Bullet,
}

impl Target {
    fn of_path(path: &Path) -> Result<Self, LabError> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        Ok(match extension.to_ascii_lowercase().as_str() {
            "tnn" => Self::Tnn,
            "safetensors" => Self::Safetensors,
            "nnue" => Self::Stockfish,
            "jnn" => Self::Jomfish,
            "halfkp16" => Self::Student,
            "bullet" => Self::Bullet,
            _ => {
                return Err(LabError::Usage(format!(
                    "{}: the name does not tell the format (.tnn, .safetensors, .nnue, .jnn, .halfkp16, .bullet); say \
                     --to FORMAT",
                    path.display()
                )));
            }
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Tnn => "tandem",
            Self::Safetensors => "safetensors, floating point",
            Self::Stockfish => "stockfish",
            Self::Jomfish => "jomfish",
            Self::Student => "student (HALFKP16)",
            Self::Bullet => "bullet",
        }
    }
}

/// A file's bytes, and what is worth knowing of them.
struct Exported {
    bytes: Vec<u8>,
    reports: Vec<LayerReport>,
    facts: Vec<(String, String)>,
}

/// Runs the command.
pub(crate) fn run(args: &ExportArgs) -> Result<(), LabError> {
    let notes = args.note.iter().map(|note| {
        let pair = note.split_once('=').filter(|(key, _)| !key.is_empty());
        pair.ok_or_else(|| LabError::Usage(format!("{note:?} is no note; write KEY=VALUE")))
    });
    let notes: Vec<(&str, &str)> = notes.collect::<Result<_, _>>()?;
    let recipe = match &args.recipe {
        Some(path) => Some(std::fs::read_to_string(path).map_err(LabError::file(path))?),
        None => None,
    };
    let target = args.to.map_or_else(|| Target::of_path(&args.output), Ok)?;
    let (network, _) = AnyNetwork::load(&args.net)?;
    let architecture = network.architecture();
    let exported = export(&network, target, (args.qa, args.qb))?;

    let write = |path: &Path, bytes: &[u8]| {
        tandem_chess::output::write_whole(path, bytes).map_err(LabError::file(path))
    };
    write(&args.output, &exported.bytes)?;
    sayln!("{}: {} bytes, {architecture}", args.output.display(), exported.bytes.len());
    let table = report_table(&exported.reports);
    if table.is_empty() {
        sayln!("nothing was quantised: the numbers are those of {}", args.net.display());
    } else {
        say!("{}", table.text());
    }
    for (name, value) in &exported.facts {
        sayln!("{name}: {value}");
    }
    if args.no_card {
        return Ok(());
    }
    // Names without folders: a card goes where its network goes.
    let name =
        |path: &Path| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let mut card = Card { title: name(&args.output), recipe, ..Card::default() };
    card.fact("architecture", architecture.to_string());
    card.fact("parameters", parameters(&architecture).to_string());
    card.fact("format", target.name());
    card.fact("file size", format!("{} bytes", exported.bytes.len()));
    card.fact("sha256", sha256(&exported.bytes));
    card.fact("description", network.description());
    card.fact("exported from", name(&args.net));
    card.facts.extend(exported.facts);
    notes.iter().for_each(|(key, value)| card.fact(key, *value));
    if !table.is_empty() {
        card.tables.push(("Quantisation".into(), table));
    }
    let path = Card::path(&args.output);
    write(&path, card.markdown().as_bytes())?;
    sayln!("{}: its card", path.display());
    Ok(())
}

fn export(
    network: &AnyNetwork,
    target: Target,
    ones: (Option<i16>, Option<i16>),
) -> Result<Exported, LabError> {
    if target == Target::Safetensors {
        if ones != (None, None) {
            let problem = "--qa and --qb are for networks of integers; floating point has none";
            return Err(LabError::Usage(problem.into()));
        }
        let bytes = match network {
            AnyNetwork::Float(float, _) => float.to_safetensors()?,
            AnyNetwork::Integer(network) => network.to_float().to_safetensors()?,
        };
        return Ok(Exported { bytes, reports: Vec::new(), facts: Vec::new() });
    }
    let is_flat = matches!(network.architecture().head, HeadShape::Flat { .. });
    if !is_flat && ones != (None, None) {
        let problem = "the scales of stacks are fixed: --qa and --qb are for networks of one hidden layer";
        return Err(LabError::Usage(problem.into()));
    }
    let quantise = |float: &FloatNetwork, usual: Quantisation| {
        let quantisation = Quantisation { qa: ones.0.unwrap_or(usual.qa), qb: ones.1.unwrap_or(usual.qb) };
        float.quantise(quantisation)
    };
    let (network, reports) = match network {
        AnyNetwork::Float(float, usual) => quantise(float, *usual)?,
        AnyNetwork::Integer(network) if ones != (None, None) => {
            quantise(&network.to_float(), network.quantisation())?
        }
        AnyNetwork::Integer(network) => (Network::clone(network), Vec::new()),
    };
    let mut facts = Vec::new();
    if is_flat {
        let Quantisation { qa, qb } = network.quantisation();
        facts.push(("quantisation".into(), format!("qa {qa}, qb {qb}")));
    }
    let (bytes, again) = match target {
        Target::Bullet => {
            let (bytes, layout) = network.to_bullet()?;
            let needed = format!(
                "features {}, {} values, {}, scale {}, {} output buckets: the file does not say it",
                layout.features.name(),
                layout.outputs,
                layout.activation.name(),
                layout.scale,
                layout.buckets
            );
            facts.push(("layout".into(), needed));
            let again = Network::from_bullet(&bytes, &layout);
            (bytes, again)
        }
        _ => {
            let bytes = match target {
                Target::Stockfish => network.to_stockfish()?,
                Target::Jomfish => network.to_jomfish()?,
                Target::Student => network.to_student()?,
                _ => network.to_bytes(),
            };
            let again = Network::from_bytes(&bytes);
            (bytes, again)
        }
    };
    // Nothing leaves the house that it could not read itself.
    let again = again.map_err(|error| LabError::Usage(format!("the file would be no network: {error}")))?;
    let start = Position::startpos();
    let (before, after) = (network.evaluate(start.board()), again.evaluate(start.board()));
    if before.value() != after.value() {
        let (before, after) = (before.value(), after.value());
        let problem =
            format!("the file would say {after} of the starting position, the network says {before}");
        return Err(LabError::Usage(problem));
    }
    if before.pawn() != after.pawn() {
        let told = format!(
            "{} units in this format, {} in the network: its centipawns change by that",
            after.pawn(),
            before.pawn()
        );
        facts.push(("a pawn".into(), told));
    }
    Ok(Exported { bytes, reports, facts })
}

pub(crate) fn report_table(reports: &[LayerReport]) -> Table {
    let mut table =
        Table::new(&["layer", "numbers", "one is", "greatest", "clipped", "worst error", "rms error"]);
    for report in reports {
        table.push(vec![
            report.name.clone(),
            report.numbers.to_string(),
            format!("{:.2}", report.scale),
            format!("{:.4}", report.greatest),
            report.clipped.to_string(),
            format!("{:.6}", report.worst_error),
            format!("{:.6}", report.rms_error),
        ]);
    }
    table
}
