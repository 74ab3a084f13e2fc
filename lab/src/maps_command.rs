//! `tandem-lab maps`: draws the attention of a transformer in a position as SVG.

mod attention;
mod colours;
mod picture;

use crate::error::LabError;
use crate::strategist::{EncodedPosition, evaluate};
use crate::transformer_file::TransformerFile;
use attention::{AttentionCollector, HeadMap, Quantity, TokenKind};
use clap::Args;
use picture::Subject;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tandem_chess::{Move, Position, Square, san, uci};
use tandem_transformer::encoding::text;
use tandem_transformer::{Architecture, Attention, Input, Isa, Network, Precision, Scratch};

/// Draw the attention maps of a transformer in a position
///
/// For each attention head, draws a chess board whose colours show the attention weights between squares, or
/// the logits (attention biases) that smolgen, lc0's generator of such biases, or a learned bias adds for
/// each pair of squares. All heads are in one picture, or with --layer those of one layer. A single head
/// (--layer and --head) is drawn in detail: as a board of 64 small boards, one for each square, with the
/// attention that this square pays to the others. If OUT is a folder, it gets the picture of all heads and a
/// detailed one for each head.
#[derive(Args, Debug)]
pub(crate) struct MapsArgs {
    /// Transformer to draw: a file in .ttn, .safetensors or lc0's .pb.gz format
    net: PathBuf,
    /// SVG file to write (a name that ends in .svg), or a folder for a picture of all heads (overview.svg)
    /// and one picture for each head
    #[arg(short = 'o', long = "output", value_name = "OUT")]
    output: PathBuf,
    /// Position to evaluate, as FEN (default: the starting position)
    #[arg(long)]
    fen: Option<String>,
    /// Quantity that the colours show
    #[arg(long, value_enum, default_value_t = Quantity::Attention)]
    show: Quantity,
    /// Draw only the heads of this layer, counted from 0 (default: all layers)
    #[arg(long)]
    layer: Option<usize>,
    /// Draw only this head of each layer, counted from 0 (default: all heads)
    #[arg(long)]
    head: Option<usize>,
    /// Draw only the attention that this token (the query) pays to the others: a square such as e4, or `move`
    /// if the network reads a move together with the position (default: the mean over all squares)
    #[arg(long, value_name = "SQUARE")]
    from: Option<String>,
    /// Move that the network evaluates, in SAN or UCI notation; only for networks that read a move together
    /// with the position (default: the move that the network scores best)
    #[arg(long = "move", value_name = "MOVE")]
    mv: Option<String>,
    /// Architecture to assume for a safetensors file that does not state its own: the name of a preset (see
    /// `tandem-lab inspect --preset`), or a TOML file
    #[arg(long, value_name = "NAME")]
    architecture: Option<String>,
}

/// File endings of pictures that cannot be written, and that are not taken for the name of a folder.
const OTHER_PICTURES: [&str; 8] = ["png", "jpg", "jpeg", "gif", "webp", "bmp", "pdf", "html"];

/// Runs the command.
///
/// # Errors
///
/// When the file is not a transformer, the network lacks what is to be drawn, or a file cannot be written.
pub(crate) fn run(args: &MapsArgs) -> Result<(), LabError> {
    let position = match &args.fen {
        Some(text) => Position::from_fen(text).map_err(|error| LabError::Usage(format!("--fen: {error}")))?,
        None => Position::startpos(),
    };
    let given = args.architecture.as_deref().map(crate::transformer_file::architecture_named).transpose()?;
    let Some(file) = TransformerFile::load(&args.net, given.as_ref())? else {
        let problem = format!("{}: not a transformer; only those have attention maps", args.net.display());
        return Err(LabError::Usage(problem));
    };
    let weights = file.weights()?;
    let architecture = weights.architecture();
    check(args, architecture)?;
    let from = args.from.as_deref().map(|text| parse_query(text, architecture)).transpose()?;

    let network = Network::new(weights, Precision::F32, Isa::best());
    let mut scratch = Scratch::default();
    let mv = read_move(args, &network, &position, &mut scratch)?;
    let mut gather = AttentionCollector::new(args.show, architecture, position.side_to_move());
    let moves = mv.map_or(Vec::new(), |mv| vec![mv]);
    EncodedPosition::new(architecture, &position, &moves).run(&network, &mut scratch, &mut gather)?;

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

/// Writes one picture, or a folder of them.
fn write(
    args: &MapsArgs,
    subject: &Subject<'_>,
    heads: &BTreeMap<(usize, usize), &HeadMap>,
) -> Result<(), LabError> {
    let write = |path: &Path, text: String| {
        tandem_util::output::write_atomically(path, text.as_bytes()).map_err(LabError::file(path))
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
        outln!("{}: {heads}", args.output.display());
        return Ok(());
    }
    std::fs::create_dir_all(&args.output).map_err(LabError::file(&args.output))?;
    write(&args.output.join("overview.svg"), overview())?;
    for (&(layer, head), map) in heads {
        let path = args.output.join(format!("layer-{layer}-head-{head}.svg"));
        write(&path, of_head((layer, head), map))?;
    }
    outln!("{}: overview.svg, and one picture for each of {} heads", args.output.display(), heads.len());
    Ok(())
}

/// Checks that the network has the layer, the head and the kind of attention that are to be drawn.
fn check(args: &MapsArgs, architecture: &Architecture) -> Result<(), LabError> {
    let body = &architecture.body;
    for (option, given, count) in [("--layer", args.layer, body.layers), ("--head", args.head, body.heads)] {
        if let Some(given) = given.filter(|&given| given >= count) {
            let problem = format!("{option} {given}: the network has 0 to {}", count - 1);
            return Err(LabError::Usage(problem));
        }
    }
    let extension = args.output.extension().and_then(|end| end.to_str()).map(str::to_ascii_lowercase);
    if extension.is_some_and(|end| OTHER_PICTURES.contains(&end.as_str())) && !args.output.is_dir() {
        return Err(LabError::Usage(format!(
            "{}: maps are drawn as SVG; name it {}, or a folder",
            args.output.display(),
            args.output.with_extension("svg").display()
        )));
    }
    if args.show == Quantity::Pairs && matches!(body.attention, Attention::Plain { .. }) {
        let problem = "the network has plain attention: no logits are added for pairs of squares";
        return Err(LabError::Usage(problem.into()));
    }
    Ok(())
}

fn parse_query(text: &str, architecture: &Architecture) -> Result<TokenKind, LabError> {
    if text == "move" {
        return match architecture.heads.action_value {
            Some(_) => Ok(TokenKind::Move),
            None => Err(LabError::Usage("--from move: the network does not read a move".into())),
        };
    }
    let square = text.parse::<Square>();
    square
        .map(TokenKind::Square)
        .map_err(|_| LabError::Usage(format!("--from {text}: not a square such as e4")))
}

/// The move that a network of action values evaluates; `None` for other networks.
fn read_move(
    args: &MapsArgs,
    network: &Network,
    position: &Position,
    scratch: &mut Scratch,
) -> Result<Option<Move>, LabError> {
    let reads_moves = network.architecture().heads.action_value.is_some();
    match (&args.mv, reads_moves) {
        (Some(_), false) => Err(LabError::Usage("--move: the network does not read a move".into())),
        (None, false) => Ok(None),
        (Some(given), true) => {
            let board = position.board();
            let mv =
                san::parse(board, given).or_else(|problem| uci::parse(board, given).map_err(|_| problem));
            let mv = mv.map_err(|error| LabError::Usage(format!("--move: {error}")))?;
            let unknown =
                || LabError::Usage(format!("--move {given}: the network has no action index for it"));
            text::action(board, mv).ok_or_else(unknown)?;
            Ok(Some(mv))
        }
        (None, true) => {
            let best = evaluate(network, position, scratch)?.best();
            let over = || LabError::Usage("--fen: there is no legal move that the network can read".into());
            best.map(|(mv, _)| Some(mv)).ok_or_else(over)
        }
    }
}
