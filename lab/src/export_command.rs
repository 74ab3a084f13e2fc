//! `tandem-lab export`: writes networks in other formats and precisions, and measures the effect of rounding.

mod accuracy;
mod nnue;
mod target;
mod transformer;

use crate::any_network::is_hybrid;
use crate::data_command::FormatArgs;
use crate::error::LabError;
use crate::model_card::{ModelCard, sha256};
use crate::table::Table;
use crate::transformer_file::{TransformerFile, architecture_named};
use clap::Args;
use std::path::{Path, PathBuf};

pub(crate) use nnue::report_table;
pub(crate) use target::Target;
pub(crate) use transformer::{WeightPrecision, encode};

/// Convert a network to another format
///
/// An NNUE in floating point is quantised (rounded to integers) for the formats that store integers, and the
/// quantisation error of each layer is printed; an NNUE that is already quantised keeps its weights unless
/// --qa or --qb asks for other scales. Transformers are converted from .ttn, .safetensors or lc0's .pb.gz. If
/// a transformer's weights are rounded, the evaluations of the written network are compared with those of the
/// original. A model card (a page in Markdown that describes the network) is written next to the network.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// Network file to read: an NNUE or a transformer
    net: PathBuf,
    /// Network file to write; its extension chooses the format unless --to does
    #[arg(short = 'o', long = "output", value_name = "OUT")]
    output: PathBuf,
    /// Format to write (default: by the extension of OUT)
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<Target>,
    /// Integer that stands for 1.0 in the accumulators of an NNUE with a single output layer, at least 1
    /// (default: 255)
    #[arg(long, value_parser = clap::value_parser!(i16).range(1..))]
    qa: Option<i16>,
    /// Integer that stands for 1.0 in the output weights of an NNUE with a single output layer, at least 1
    /// (default: 64)
    #[arg(long, value_parser = clap::value_parser!(i16).range(1..))]
    qb: Option<i16>,
    /// Precision in which a .ttn file stores the weights of a transformer's layers (default: f32)
    #[arg(long, value_enum)]
    precision: Option<WeightPrecision>,
    /// Number of positions on which a transformer with rounded weights is compared with the original
    #[arg(long, default_value_t = 200)]
    positions: usize,
    /// Seed of the random games that the positions for this comparison come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Take the positions for this comparison from this data set, in any format that `tandem-lab data
    /// formats` lists, instead of random games
    #[arg(long, value_name = "PATH")]
    data: Option<String>,
    #[command(flatten)]
    options: FormatArgs,
    /// Architecture to assume for a safetensors file that does not state its own: the name of a preset (see
    /// `tandem-lab inspect --preset`), or a TOML file
    #[arg(long, value_name = "NAME")]
    architecture: Option<String>,
    /// Do not write a model card next to the network
    #[arg(long)]
    no_card: bool,
    /// Line to add to the table of properties in the model card, for example author=Jane; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    note: Vec<String>,
    /// Recipe file (TOML) that the network was trained with; the model card then contains its text
    #[arg(long, value_name = "FILE")]
    recipe: Option<PathBuf>,
}

/// A network in its new format, with what the model card says about it.
struct Exported {
    bytes: Vec<u8>,
    /// The architecture in one line.
    architecture: String,
    parameters: usize,
    description: String,
    /// The most important of the rounding errors in one line, if there are any.
    summary: Option<String>,
    /// True if weights have been rounded, so that they differ from those of the input.
    is_rounded: bool,
    /// Measurements of what rounding has changed.
    rounding_errors: Vec<RoundingErrors>,
    facts: Vec<(String, String)>,
}

/// A table of rounding errors.
struct RoundingErrors {
    heading: String,
    table: Table,
    /// Number of rows to print; the model card has all of them.
    shown: usize,
}

/// Runs the command.
///
/// # Errors
///
/// When a file is missing, damaged or cannot be written, or the format cannot hold the network.
pub(crate) fn run(args: &ExportArgs) -> Result<(), LabError> {
    let notes = args.note.iter().map(|note| {
        let pair = note.split_once('=').filter(|(key, _)| !key.is_empty());
        pair.ok_or_else(|| LabError::Usage(format!("{note:?} is not a note; write KEY=VALUE")))
    });
    let notes: Vec<(&str, &str)> = notes.collect::<Result<_, _>>()?;
    let recipe = match &args.recipe {
        Some(path) => Some(std::fs::read_to_string(path).map_err(LabError::file(path))?),
        None => None,
    };
    if is_hybrid(&args.net) {
        return Err(LabError::Usage(format!(
            "{}: a hybrid has no other format. It holds what was learnt between an NNUE and a transformer, which \
             can be exported; `tandem-lab inspect` names them",
            args.net.display()
        )));
    }
    let target = args.to.map_or_else(|| Target::of_path(&args.output), Ok)?;
    let given = args.architecture.as_deref().map(architecture_named).transpose()?;
    let exported = match TransformerFile::load(&args.net, given.as_ref())? {
        Some(file) => transformer::export(&file, target, args)?,
        None => nnue::export(target, args)?,
    };

    let write = |path: &Path, bytes: &[u8]| {
        tandem_util::output::write_atomically(path, bytes).map_err(LabError::file(path))
    };
    write(&args.output, &exported.bytes)?;
    outln!("{}: {} bytes, {}", args.output.display(), exported.bytes.len(), exported.architecture);
    if let Some(summary) = &exported.summary {
        outln!("{summary}");
    }
    if !exported.is_rounded {
        outln!("nothing was quantised: the weights are those of {}", args.net.display());
    }
    for RoundingErrors { heading, table, shown } in &exported.rounding_errors {
        if exported.rounding_errors.len() > 1 {
            outln!("{heading}:");
        }
        let shown = if args.no_card { table.len() } else { *shown };
        out!("{}", table.first(shown).text());
        if table.len() > shown {
            outln!("and {} more, listed in the model card", table.len() - shown);
        }
    }
    for (name, value) in &exported.facts {
        outln!("{name}: {value}");
    }
    if args.no_card {
        return Ok(());
    }
    // File names without folders, because a model card moves with its network.
    let name =
        |path: &Path| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let tables = exported.rounding_errors.into_iter().map(|errors| (errors.heading, errors.table)).collect();
    let mut model_card = ModelCard { title: name(&args.output), recipe, tables, ..ModelCard::default() };
    model_card.property("architecture", exported.architecture);
    model_card.property("parameters", exported.parameters.to_string());
    model_card.property("format", target.name());
    model_card.property("file size", format!("{} bytes", exported.bytes.len()));
    model_card.property("sha256", sha256(&exported.bytes));
    model_card.property("description", exported.description);
    model_card.property("exported from", name(&args.net));
    model_card.properties.extend(exported.facts);
    notes.iter().for_each(|(key, value)| model_card.property(key, *value));
    let path = ModelCard::path(&args.output);
    write(&path, model_card.markdown().as_bytes())?;
    outln!("{}: model card", path.display());
    Ok(())
}
