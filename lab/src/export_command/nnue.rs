//! NNUEs in other formats.

use super::{ExportArgs, Exported, Losses, Target};
use crate::any_network::{AnyNetwork, parameters};
use crate::error::LabError;
use crate::table::Table;
use tandem_chess::Position;
use tandem_nnue::{FloatNetwork, HeadShape, LayerReport, Network, Quantisation};

/// Writes an NNUE.
pub(super) fn export(target: Target, args: &ExportArgs) -> Result<Exported, LabError> {
    let (network, _) = AnyNetwork::load(&args.net)?;
    if !target.holds_nnues() {
        return Err(LabError::Usage(format!(
            "{} is an NNUE; this format holds transformers",
            args.net.display()
        )));
    }
    if args.precision.is_some() || args.data.is_some() {
        return Err(LabError::Usage("--precision and --data are for transformers".into()));
    }
    let (bytes, reports, facts) = encode(&network, args, target)?;
    let table = report_table(&reports);
    let losses = Losses { heading: "Quantisation".into(), shown: table.len(), table };
    let architecture = network.architecture();
    Ok(Exported {
        bytes,
        architecture: architecture.to_string(),
        parameters: parameters(&architecture),
        description: network.description().into(),
        is_rounded: !losses.table.is_empty(),
        losses: if losses.table.is_empty() { Vec::new() } else { vec![losses] },
        facts,
    })
}

/// A file's bytes, what quantising did to its layers, and what else is worth knowing.
type Encoded = (Vec<u8>, Vec<LayerReport>, Vec<(String, String)>);

fn encode(network: &AnyNetwork, args: &ExportArgs, target: Target) -> Result<Encoded, LabError> {
    let ones = (args.qa, args.qb);
    if target == Target::Safetensors {
        if ones != (None, None) {
            let problem = "--qa and --qb are for networks of integers; floating point has none";
            return Err(LabError::Usage(problem.into()));
        }
        let bytes = match network {
            AnyNetwork::Float(float, _) => float.to_safetensors()?,
            AnyNetwork::Integer(network) => network.to_float().to_safetensors()?,
        };
        return Ok((bytes, Vec::new(), Vec::new()));
    }
    let is_flat = matches!(network.architecture().head, HeadShape::Flat { .. });
    if !is_flat && ones != (None, None) {
        let problem = "the scales of stacks are fixed: --qa and --qb are for networks of one hidden layer";
        return Err(LabError::Usage(problem.into()));
    }
    let quantise = |float: &FloatNetwork, usual: Quantisation| {
        let quantisation = Quantisation { qa: ones.0.unwrap_or(usual.qa), qb: ones.1.unwrap_or(usual.qb) };
        float.quantise(quantisation).map_err(LabError::quantise(&args.net))
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
    Ok((bytes, reports, facts))
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
