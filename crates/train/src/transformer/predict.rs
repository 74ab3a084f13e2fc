//! Predictions on the CPU with our own inference: the same outputs as
//! [`Trainer::predict`](crate::Trainer::predict), for evaluation without a trainer.

use super::samples::Samples;
use super::trainer::OutputsByHead;
use tandem_hybrid::{AccumulatorReader, Bridge, BridgeForm};
use tandem_transformer::encoding::Masks;
use tandem_transformer::{InputError, Inputs, Network, Outputs, Scratch};

/// Positions per forward pass; larger groups are not faster.
const GROUP: usize = 16;
/// Values of a channel: one for each square.
const SQUARES: usize = 64;

/// Outputs of a network for samples that were made for its architecture, by head;
/// [`head_outputs`](super::head_outputs) gives them their types.
///
/// Consecutive moves of one position share a forward pass, which costs little more than a single move if the
/// position's tokens do not attend to the move.
///
/// # Errors
/// If the arrays of the samples do not fit the network's input.
pub fn predict_samples(
    network: &Network,
    samples: &Samples,
    scratch: &mut Scratch,
) -> Result<OutputsByHead, InputError> {
    predict_samples_with_bridge(network, None, samples, scratch)
}

/// Like [`predict_samples`], but if `bridge` is given, its output is added to the network's encoding of the
/// board, or replaces it, as the bridge's form says. The samples must then have the accumulators in
/// [`Samples::bridge_inputs`].
///
/// # Errors
/// If the arrays of the samples do not fit the network's input or the bridge.
pub fn predict_samples_with_bridge(
    network: &Network,
    bridge: Option<&Bridge>,
    samples: &Samples,
    scratch: &mut Scratch,
) -> Result<OutputsByHead, InputError> {
    let mut outputs_by_head = OutputsByHead::new();
    let mut append = |outputs: &[Outputs]| {
        outputs.iter().for_each(|outputs| append_outputs(&mut outputs_by_head, outputs));
    };
    if let Some(channels) = network.architecture().input.channels() {
        let (mut rows, mut codes) = (Vec::new(), Vec::new());
        let (masks, levels) =
            (samples.masks.chunks(GROUP * channels), samples.levels.chunks(GROUP * channels));
        for (group, (masks, levels)) in masks.zip(levels).enumerate() {
            rows.resize(SQUARES * masks.len(), 0.0);
            let positions = masks.chunks_exact(channels).zip(levels.chunks_exact(channels));
            for ((masks, levels), rows) in positions.zip(rows.chunks_exact_mut(SQUARES * channels)) {
                Masks::expand(masks, levels, rows);
            }
            let inputs = match bridge {
                None => Inputs::Squares(&rows),
                Some(bridge) => {
                    let accumulators =
                        samples.bridge_inputs.chunks_exact(bridge.inputs()).skip(group * GROUP);
                    run_bridge(bridge, accumulators.take(GROUP), &mut codes);
                    match bridge.form() {
                        BridgeForm::Gated => Inputs::Coded { squares: &rows, codes: &codes },
                        BridgeForm::Plain => Inputs::Codes(&codes),
                    }
                }
            };
            append(network.run(&inputs, scratch)?);
        }
        return Ok(outputs_by_head);
    }
    let each = samples.tokens.len() / samples.len().max(1);
    if samples.actions.is_empty() {
        for tokens in samples.tokens.chunks((GROUP * each).max(1)) {
            append(network.run(&Inputs::Text { tokens, actions: &[] }, scratch)?);
        }
        return Ok(outputs_by_head);
    }
    let mut start = 0;
    for moves in samples.keys.chunk_by(|one, other| one == other) {
        let range = start..start + moves.len();
        start = range.end;
        let tokens = &samples.tokens[each * range.start..][..each];
        let actions = &[&samples.actions[range]];
        append(network.run(&Inputs::Text { tokens, actions }, scratch)?);
    }
    Ok(outputs_by_head)
}

/// Runs the bridge on the accumulators of some positions; `codes` gets its outputs, position by position.
fn run_bridge<'a>(bridge: &Bridge, accumulators: impl Iterator<Item = &'a [u8]>, codes: &mut Vec<f32>) {
    codes.clear();
    for bytes in accumulators {
        let values: Vec<f32> = bytes.iter().map(|&byte| f32::from(byte) / AccumulatorReader::BYTE).collect();
        let start = codes.len();
        codes.resize(start + bridge.outputs(), 0.0);
        bridge.forward(&values, &mut codes[start..]);
    }
}

/// Appends the outputs of one more sample.
fn append_outputs(outputs_by_head: &mut OutputsByHead, outputs: &Outputs) {
    let mut append = |name: &str, values: &[f32]| {
        if values.is_empty() {
            return;
        }
        match outputs_by_head.get_mut(name) {
            Some(row) => row.extend(values),
            None => drop(outputs_by_head.insert(name.to_owned(), values.to_vec())),
        }
    };
    append("action_value", &outputs.action_value);
    append("state_value", &outputs.state_value);
    append("policy", &outputs.policy);
    for (target, values) in &outputs.aux_policies {
        append(target.name(), values);
    }
    for (name, value) in ["value", "search_value", "short_term"].into_iter().zip(&outputs.values) {
        let Some(value) = value else { continue };
        append(&format!("{name}.wdl"), &value.wdl);
        append(&format!("{name}.error"), value.error.as_slice());
        append(&format!("{name}.buckets"), &value.buckets);
    }
    append("moves_left", outputs.moves_left.as_slice());
    append("move_value", &outputs.move_value);
}

#[cfg(test)]
mod tests {
    use super::super::samples::test_games::games;
    use super::super::{Augmentation, LabelConfig, SampleShape};
    use super::*;
    use tandem_chess::Position;
    use tandem_data::Record;
    use tandem_transformer::{Architecture, Isa, Precision, Preset, Weights};

    const LABELS: LabelConfig = LabelConfig { scale: 400.0, wdl: 0.0, value_wdl: 1.0 };

    fn shallow(preset: Preset) -> Architecture {
        let mut architecture = preset.architecture();
        architecture.body.layers = 1;
        architecture
    }

    fn samples(architecture: &Architecture, records: &[Record]) -> Samples {
        let shape = SampleShape::of(architecture);
        let mut samples = Samples::default();
        for at in 0..records.len() {
            samples.push(&shape, (records, at), true, Augmentation::default(), &LABELS).unwrap();
        }
        samples
    }

    /// The outputs for a sample do not depend on the samples around it.
    #[test]
    fn outputs_do_not_depend_on_the_other_samples() {
        let mut records = games(1, 3);
        records.truncate(20);
        let position = Position::from(records[5].position.board().unwrap());
        let moves = position.legal_moves();
        let all_moves: Vec<Record> =
            moves.iter().map(|&mv| Record { mv: Some(mv), ..records[5] }).chain(records.clone()).collect();
        for (preset, records) in [(Preset::BtSmall, &records), (Preset::Byte, &all_moves)] {
            let architecture = shallow(preset);
            let network =
                Network::new(&Weights::random(architecture.clone(), 5), Precision::F32, Isa::best());
            let mut scratch = Scratch::default();
            let together = predict_samples(&network, &samples(&architecture, records), &mut scratch).unwrap();
            let heads: Vec<&str> = together.keys().map(String::as_str).collect();
            match preset {
                Preset::Byte => assert_eq!(heads, ["action_value"]),
                _ => assert_eq!(heads, ["moves_left", "policy", "value.wdl"]),
            }
            for (at, record) in records.iter().enumerate() {
                let alone = samples(&architecture, std::slice::from_ref(record));
                for (head, values) in predict_samples(&network, &alone, &mut scratch).unwrap() {
                    let among = &together[&head][at * values.len()..][..values.len()];
                    assert_eq!(among, values, "{head} of {at}");
                }
            }
        }
    }

    #[test]
    fn samples_of_another_network_are_refused() {
        let [board, text] = [Preset::BtSmall, Preset::Byte].map(shallow);
        let network = Network::new(&Weights::random(board, 5), Precision::F32, Isa::best());
        let outputs_by_head =
            predict_samples(&network, &Samples::default(), &mut Scratch::default()).unwrap();
        assert!(outputs_by_head.is_empty());
        let mut invalid = samples(&text, &games(1, 1)[..2]);
        invalid.masks = vec![0; 100];
        invalid.levels = vec![0.0; 100];
        assert!(predict_samples(&network, &invalid, &mut Scratch::default()).is_err());
    }
}
