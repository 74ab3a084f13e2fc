//! Exporting NNUEs: quantising them, and writing them in our format, Stockfish's, Jomfish's, bullet's and
//! others.

use super::{ExportArgs, Exported, RoundingErrors, Target};
use crate::any_network::{AnyNetwork, parameters};
use crate::error::LabError;
use crate::plural::counted;
use crate::table::Table;
use tandem_chess::Position;
use tandem_nnue::{FloatNetwork, HeadShape, LayerReport, Network, Quantisation};

/// Converts an NNUE to the target format, and measures its quantisation error.
///
/// # Errors
///
/// When the network is missing or damaged, its values do not fit into integers, or the format cannot hold it.
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
    let rounding_errors = RoundingErrors { heading: "Quantisation".into(), shown: table.len(), table };
    let architecture = network.architecture();
    Ok(Exported {
        bytes,
        architecture: architecture.to_string(),
        parameters: parameters(&architecture),
        description: network.description().into(),
        summary: (!reports.is_empty()).then(|| summary(&reports)),
        is_rounded: !rounding_errors.table.is_empty(),
        rounding_errors: if rounding_errors.table.is_empty() { Vec::new() } else { vec![rounding_errors] },
        facts,
    })
}

/// The bytes of the file, the quantisation error of each layer, and further properties for the model card.
type Encoded = (Vec<u8>, Vec<LayerReport>, Vec<(String, String)>);

fn encode(network: &AnyNetwork, args: &ExportArgs, target: Target) -> Result<Encoded, LabError> {
    let ones = (args.qa, args.qb);
    if target == Target::Safetensors {
        if ones != (None, None) {
            let problem = "--qa and --qb are for quantised networks; floating point has none";
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
                "features {}, {} values, {}, scale {}, {}: not stored in the file",
                layout.features.name(),
                layout.outputs,
                layout.activation.name(),
                layout.scale,
                counted(layout.buckets as u64, "output bucket", "output buckets")
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
    // Every file is read back before it is written to disk.
    let again = again.map_err(|error| LabError::Usage(format!("the file cannot be read back: {error}")))?;
    let start = Position::startpos();
    let (before, after) = (network.evaluate(start.board()), again.evaluate(start.board()));
    if before.value() != after.value() {
        let (before, after) = (before.value(), after.value());
        let problem = format!("the file evaluates the starting position as {after}, the network as {before}");
        return Err(LabError::Usage(problem));
    }
    if before.pawn() != after.pawn() {
        let pawn = format!(
            "{} units in this format, {} in the network: its centipawns change by this ratio",
            after.pawn(),
            before.pawn()
        );
        facts.push(("a pawn".into(), pawn));
    }
    Ok((bytes, reports, facts))
}

/// Clipped weights, which should be none, and the largest rounding error.
fn summary(reports: &[LayerReport]) -> String {
    let clipped: usize = reports.iter().map(|report| report.clipped).sum();
    let weights: usize = reports.iter().map(|report| report.parameters).sum();
    let worst = reports.iter().max_by(|one, other| one.max_error.total_cmp(&other.max_error));
    let error = worst.map_or_else(String::new, |layer| {
        format!("; largest rounding error {:.6}, in {}", layer.max_error, layer.name)
    });
    match clipped {
        0 => format!("no weight was clipped{error}"),
        _ => format!(
            "{clipped} of {weights} weights were CLIPPED to the range of their integers, so the network has changed; \
             train with `training.clip_weights = true`{error}"
        ),
    }
}

pub(crate) fn report_table(reports: &[LayerReport]) -> Table {
    let mut table =
        Table::new(&["layer", "weights", "scale", "max weight", "clipped", "max error", "RMS error"]);
    for report in reports {
        table.push(vec![
            report.name.clone(),
            report.parameters.to_string(),
            format!("{:.2}", report.scale),
            format!("{:.4}", report.max_abs),
            report.clipped.to_string(),
            format!("{:.6}", report.max_error),
            format!("{:.6}", report.rms_error),
        ]);
    }
    table
}
