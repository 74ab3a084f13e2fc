//! `tandem-lab maps`.

mod colours;
mod looks;
mod picture;

use crate::error::LabError;
use crate::strategist::{Reading, judge};
use crate::transformer_file::TransformerFile;
use clap::Args;
use looks::{Gather, HeadMap, Place, Show};
use picture::Subject;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tandem_chess::{Move, Position, Square, san, uci};
use tandem_transformer::encoding::text;
use tandem_transformer::{Architecture, Attention, Input, Isa, Network, Precision, Scratch};

/// Draw what a transformer looks at in a position
///
/// For each head of attention a board in colours: by what weights squares see each other, or what smolgen adds for each pair of
/// squares. One picture with all heads; with --layer those of a layer; with --head too, a board of boards, one for each
/// square. Into a folder: the picture of all heads, and one of each.
#[derive(Args, Debug)]
pub(crate) struct MapsArgs {
    /// The network file: .ttn, .safetensors or lc0's .pb.gz
    net: PathBuf,
    /// The picture to write (.svg), or a folder for many
    #[arg(short = 'o', long = "output", value_name = "OUT")]
    output: PathBuf,
    /// The position; the start of the game if not given
    #[arg(long)]
    fen: Option<String>,
    /// What is drawn
    #[arg(long, value_enum, default_value_t = Show::Attention)]
    show: Show,
    /// Only this layer, the first being 0
    #[arg(long)]
    layer: Option<usize>,
    /// Only this head of each layer, the first being 0
    #[arg(long)]
    head: Option<usize>,
    /// From where: a square such as e4, or `move` for a network that reads one; on average from all squares if not given
    #[arg(long, value_name = "SQUARE")]
    from: Option<String>,
    /// For a network that reads a move: which, as SAN or UCI; the one that it likes best if not given
    #[arg(long = "move", value_name = "MOVE")]
    mv: Option<String>,
    /// The architecture of a file of safetensors that does not say it: a preset's name, or a file of TOML
    #[arg(long, value_name = "NAME")]
    architecture: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &MapsArgs) -> Result<(), LabError> {
    let position = match &args.fen {
        Some(text) => Position::from_fen(text).map_err(|error| LabError::Usage(format!("--fen: {error}")))?,
        None => Position::startpos(),
    };
    let given = args.architecture.as_deref().map(crate::transformer_file::architecture_named).transpose()?;
    let Some(file) = TransformerFile::load(&args.net, given.as_ref())? else {
        let problem = format!("{}: no transformer; only those have maps", args.net.display());
        return Err(LabError::Usage(problem));
    };
    let weights = file.weights()?;
    let architecture = weights.architecture();
    check(args, architecture)?;
    let from = args.from.as_deref().map(|text| place_named(text, architecture)).transpose()?;

    let network = Network::new(weights, Precision::F32, Isa::best());
    let mut scratch = Scratch::default();
    let mv = read_move(args, &network, &position, &mut scratch)?;
    let mut gather = Gather::new(args.show, architecture, position.side_to_move());
    let moves = mv.map_or(Vec::new(), |mv| vec![mv]);
    Reading::new(architecture, &position, &moves).run(&network, &mut scratch, &mut gather)?;

    let name = args.net.file_name().unwrap_or_default().to_string_lossy();
    let mv = mv.map(|mv| san::format(position.board(), mv));
    let pairs = match architecture.body.attention {
        Attention::Smolgen(_) => "Smolgen",
        _ => "The learned bias",
    };
    let subject = Subject {
        network: &name,
        board: position.board(),
        pairs,
        show: args.show,
        from,
        mv: mv.as_deref(),
        reads_text: architecture.input == Input::Text,
    };
    let heads: BTreeMap<(usize, usize), &HeadMap> = gather
        .heads
        .iter()
        .filter(|((layer, head), _)| {
            args.layer.is_none_or(|only| only == *layer) && args.head.is_none_or(|only| only == *head)
        })
        .map(|(&key, map)| (key, map))
        .collect();
    write(args, &subject, &heads)
}

/// Writes a picture, or a folder of them.
fn write(
    args: &MapsArgs,
    subject: &Subject<'_>,
    heads: &BTreeMap<(usize, usize), &HeadMap>,
) -> Result<(), LabError> {
    let write = |path: &Path, text: String| {
        tandem_chess::output::write_whole(path, text.as_bytes()).map_err(LabError::file(path))
    };
    let of_head = |key: (usize, usize), map: &HeadMap| match subject.from {
        None if map.has_squares() => subject.board_of_boards(key, map),
        _ => subject.large_board(key, map),
    };
    let overview = || match heads.iter().next() {
        Some((&key, map)) if heads.len() == 1 => of_head(key, map),
        _ => subject.sheet(heads),
    };
    if args.output.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg")) {
        write(&args.output, overview())?;
        let heads = if heads.len() == 1 { "1 head".into() } else { format!("{} heads", heads.len()) };
        sayln!("{}: {heads}", args.output.display());
        return Ok(());
    }
    std::fs::create_dir_all(&args.output).map_err(LabError::file(&args.output))?;
    write(&args.output.join("overview.svg"), overview())?;
    for (&(layer, head), map) in heads {
        let path = args.output.join(format!("layer-{layer}-head-{head}.svg"));
        write(&path, of_head((layer, head), map))?;
    }
    sayln!("{}: overview.svg, and a picture of each of {} heads", args.output.display(), heads.len());
    Ok(())
}

/// Whether the network has what is to be drawn.
fn check(args: &MapsArgs, architecture: &Architecture) -> Result<(), LabError> {
    let body = &architecture.body;
    for (option, given, count) in [("--layer", args.layer, body.layers), ("--head", args.head, body.heads)] {
        if let Some(given) = given.filter(|&given| given >= count) {
            let problem = format!("{option} {given}: the network has 0 to {}", count - 1);
            return Err(LabError::Usage(problem));
        }
    }
    if args.show == Show::Pairs && matches!(body.attention, Attention::Plain { .. }) {
        let problem = "the network has plain attention: nothing is added for pairs of squares";
        return Err(LabError::Usage(problem.into()));
    }
    Ok(())
}

fn place_named(text: &str, architecture: &Architecture) -> Result<Place, LabError> {
    if text == "move" {
        return match architecture.heads.action_value {
            Some(_) => Ok(Place::Move),
            None => Err(LabError::Usage("--from move: the network reads no move".into())),
        };
    }
    let square = text.parse::<Square>();
    square.map(Place::Square).map_err(|_| LabError::Usage(format!("--from {text}: no square, such as e4")))
}

/// The move that a network of action values reads; none for others.
fn read_move(
    args: &MapsArgs,
    network: &Network,
    position: &Position,
    scratch: &mut Scratch,
) -> Result<Option<Move>, LabError> {
    let reads_moves = network.architecture().heads.action_value.is_some();
    match (&args.mv, reads_moves) {
        (Some(_), false) => Err(LabError::Usage("--move: the network reads no move".into())),
        (None, false) => Ok(None),
        (Some(given), true) => {
            let board = position.board();
            let mv =
                san::parse(board, given).or_else(|problem| uci::parse(board, given).map_err(|_| problem));
            let mv = mv.map_err(|error| LabError::Usage(format!("--move: {error}")))?;
            let unknown = || LabError::Usage(format!("--move {given}: the network has no number for it"));
            text::action(board, mv).ok_or_else(unknown)?;
            Ok(Some(mv))
        }
        (None, true) => {
            let best = judge(network, position, scratch)?.best();
            let over = || LabError::Usage("--fen: there is no move that the network could read".into());
            best.map(|(mv, _)| Some(mv)).ok_or_else(over)
        }
    }
}
