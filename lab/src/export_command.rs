//! `tandem-lab export`.

mod accuracy;
mod nnue;
mod target;
mod transformer;

use crate::card::{Card, sha256};
use crate::data_command::FormatArgs;
use crate::error::LabError;
use crate::table::Table;
use crate::transformer_file::{TransformerFile, architecture_named};
use clap::Args;
use std::path::{Path, PathBuf};

pub(crate) use nnue::report_table;
pub(crate) use target::Target;
pub(crate) use transformer::{Numbers, encode};

/// Write a network in another format
///
/// NNUEs: from a network in floating point, which is quantised, or from one of integers, whose numbers stay as they are
/// unless --qa or --qb asks for others. Tells for each layer what quantising did to it. Transformers: from our own file,
/// safetensors or lc0's. Where numbers are rounded, tells how far the network in the file is from the one it was made
/// from. A card is written beside the network.
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
    /// Of a transformer, in .ttn: what the weights of its layers are; f32 if not given
    #[arg(long, value_enum)]
    precision: Option<Numbers>,
    /// Of a transformer whose numbers are rounded: so many positions are judged before and after
    #[arg(long, default_value_t = 200)]
    positions: usize,
    /// What the random games start from that these positions are of
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A file of positions, in any format of `tandem-lab data`, instead of random games
    #[arg(long, value_name = "PATH")]
    data: Option<String>,
    #[command(flatten)]
    options: FormatArgs,
    /// The architecture of a file of safetensors that does not say it: a preset's name, or a file of TOML
    #[arg(long, value_name = "NAME")]
    architecture: Option<String>,
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

/// A network as a file, and what is worth knowing of it.
struct Exported {
    bytes: Vec<u8>,
    /// What it is made of, in a line.
    architecture: String,
    parameters: usize,
    description: String,
    /// Whether its numbers are others than before.
    is_rounded: bool,
    /// What rounding did to it.
    losses: Vec<Losses>,
    facts: Vec<(String, String)>,
}

/// A table of what rounding did.
struct Losses {
    heading: String,
    table: Table,
    /// So many rows are printed; the card has all of them.
    shown: usize,
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
    let given = args.architecture.as_deref().map(architecture_named).transpose()?;
    let exported = match TransformerFile::load(&args.net, given.as_ref())? {
        Some(file) => transformer::export(&file, target, args)?,
        None => nnue::export(target, args)?,
    };

    let write = |path: &Path, bytes: &[u8]| {
        tandem_chess::output::write_whole(path, bytes).map_err(LabError::file(path))
    };
    write(&args.output, &exported.bytes)?;
    sayln!("{}: {} bytes, {}", args.output.display(), exported.bytes.len(), exported.architecture);
    if !exported.is_rounded {
        sayln!("nothing was quantised: the numbers are those of {}", args.net.display());
    }
    for Losses { heading, table, shown } in &exported.losses {
        if exported.losses.len() > 1 {
            sayln!("{heading}:");
        }
        let shown = if args.no_card { table.len() } else { *shown };
        say!("{}", table.first(shown).text());
        if table.len() > shown {
            sayln!("and {} more, which the card has", table.len() - shown);
        }
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
    let tables = exported.losses.into_iter().map(|losses| (losses.heading, losses.table)).collect();
    let mut card = Card { title: name(&args.output), recipe, tables, ..Card::default() };
    card.fact("architecture", exported.architecture);
    card.fact("parameters", exported.parameters.to_string());
    card.fact("format", target.name());
    card.fact("file size", format!("{} bytes", exported.bytes.len()));
    card.fact("sha256", sha256(&exported.bytes));
    card.fact("description", exported.description);
    card.fact("exported from", name(&args.net));
    card.facts.extend(exported.facts);
    notes.iter().for_each(|(key, value)| card.fact(key, *value));
    let path = Card::path(&args.output);
    write(&path, card.markdown().as_bytes())?;
    sayln!("{}: its card", path.display());
    Ok(())
}
