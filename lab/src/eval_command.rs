//! `tandem-lab eval`: what networks think of one position.

use crate::any_network::{AnyNetwork, STRATEGIST, TACTICIAN, load_transformer};
use crate::error::LabError;
use crate::strategist::evaluate;
use crate::transformer_file::is_transformer;
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tandem_chess::{Color, Position, san};
use tandem_transformer::Scratch;

/// Evaluate one position with networks, without search
///
/// Prints the score of each NNUE, and the win probability and the best moves of each transformer. All of them are
/// for the side to move. A win probability counts a draw as one half. An NNUE's centipawns and a transformer's win
/// probability are not on one scale.
#[derive(Args, Debug)]
pub(crate) struct EvalArgs {
    /// Network files; `tactician` and `strategist` name the built-in NNUE and transformer
    #[arg(default_values = [TACTICIAN, STRATEGIST])]
    nets: Vec<PathBuf>,
    /// Position to evaluate, as FEN (default: the starting position)
    #[arg(long)]
    fen: Option<String>,
    /// Number of best moves to print for each transformer
    #[arg(long, default_value_t = 5, value_name = "N")]
    moves: usize,
    /// Print JSON, with all legal moves of each transformer
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
///
/// When the position is not legal, or a file is not a network.
pub(crate) fn run(args: &EvalArgs) -> Result<(), LabError> {
    let position = match &args.fen {
        Some(text) => Position::from_fen(text).map_err(|error| LabError::Usage(format!("--fen: {error}")))?,
        None => Position::startpos(),
    };
    let networks = args.nets.iter().map(|path| facts(path, &position)).collect::<Result<Vec<_>, _>>()?;
    let side = if position.side_to_move() == Color::White { "white" } else { "black" };
    if args.json {
        outln!("{:#}", json!({ "fen": position.fen(), "side_to_move": side, "networks": networks }));
        return Ok(());
    }
    outln!("{}, for {side}:", position.fen());
    for network in &networks {
        outln!("{}", line(network, args.moves));
    }
    Ok(())
}

/// The evaluation by one network as JSON.
fn facts(path: &Path, position: &Position) -> Result<Value, LabError> {
    let name = path.display().to_string();
    if !is_transformer(path)? {
        let centipawns = AnyNetwork::load(path)?.0.centipawns(position.board());
        return Ok(json!({ "name": name, "kind": "NNUE", "centipawns": centipawns }));
    }
    let network = load_transformer(path)?;
    let evaluation = evaluate(&network, position, &mut Scratch::default())?;
    let mut moves = evaluation.moves.clone();
    moves.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    // A network of action values gives the win probability after each move, any other its policy.
    let score =
        if network.architecture().heads.action_value.is_some() { "win_probability" } else { "probability" };
    let moves: Vec<Value> = moves
        .iter()
        .map(|&(mv, value)| {
            let san = san::format(position.board(), mv);
            json!({ "move": mv.to_string(), "san": san, score: value })
        })
        .collect();
    let win_probability = evaluation.win_probability;
    Ok(json!({ "name": name, "kind": "transformer", "win_probability": win_probability, "moves": moves }))
}

/// The evaluation in one line, with the best `count` moves.
fn line(network: &Value, count: usize) -> String {
    let name = network["name"].as_str().unwrap_or_default();
    if let Some(centipawns) = network["centipawns"].as_f64() {
        return format!("  {name}: {centipawns:+.0} centipawns");
    }
    let percent = |value: &Value| value.as_f64().map(|value| format!("{:.1} %", 100.0 * value));
    let mut parts: Vec<String> =
        percent(&network["win_probability"]).map(|value| format!("{value} to win")).into_iter().collect();
    let moves = network["moves"].as_array().map(Vec::as_slice).unwrap_or_default();
    let scored = |mv: &Value| {
        let value = percent(&mv["probability"]).or_else(|| percent(&mv["win_probability"]));
        format!("{} {}", mv["san"].as_str().unwrap_or_default(), value.unwrap_or_default())
    };
    parts.extend(moves.iter().take(count).map(scored));
    if moves.is_empty() {
        parts.push("no legal move".into());
    }
    format!("  {name}: {}", parts.join(", "))
}
