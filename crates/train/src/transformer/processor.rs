//! What a network says of samples, computed by our own inference: what a trainer's `judge` says, without a trainer.

use super::samples::Samples;
use super::trainer::Judged;
use tandem_hybrid::{Bridge, BridgeForm, Onlooker};
use tandem_transformer::encoding::Masks;
use tandem_transformer::{InputError, Inputs, Network, Outputs, Scratch};

/// Positions that are judged at a time: more would be no faster.
const AT_A_TIME: usize = 16;
/// Numbers of a channel.
const SQUARES: usize = 64;

/// What a network says of samples that were made for it, head by head; [`answers_of`](super::answers_of) reads it.
///
/// Moves of one position that stand together are judged together, which costs little more than one of them where the
/// position does not see the move.
pub fn judge_samples(
    network: &Network,
    samples: &Samples,
    scratch: &mut Scratch,
) -> Result<Judged, InputError> {
    judge_joined(network, None, samples, scratch)
}

/// The same of a network that a bridge leads to, where there is one: then samples have what the bridge reads.
pub fn judge_joined(
    network: &Network,
    bridge: Option<&Bridge>,
    samples: &Samples,
    scratch: &mut Scratch,
) -> Result<Judged, InputError> {
    let mut judged = Judged::new();
    let mut say = |outputs: &[Outputs]| outputs.iter().for_each(|outputs| add(&mut judged, outputs));
    if let Some(channels) = network.architecture().input.channels() {
        let (mut rows, mut codes) = (Vec::new(), Vec::new());
        let (masks, levels) =
            (samples.masks.chunks(AT_A_TIME * channels), samples.levels.chunks(AT_A_TIME * channels));
        for (group, (masks, levels)) in masks.zip(levels).enumerate() {
            rows.resize(SQUARES * masks.len(), 0.0);
            let positions = masks.chunks_exact(channels).zip(levels.chunks_exact(channels));
            for ((masks, levels), rows) in positions.zip(rows.chunks_exact_mut(SQUARES * channels)) {
                Masks::expand(masks, levels, rows);
            }
            let inputs = match bridge {
                None => Inputs::Squares(&rows),
                Some(bridge) => {
                    let seen = samples.seen.chunks_exact(bridge.inputs()).skip(group * AT_A_TIME);
                    cross(bridge, seen.take(AT_A_TIME), &mut codes);
                    match bridge.form() {
                        BridgeForm::Gated => Inputs::Coded { squares: &rows, codes: &codes },
                        BridgeForm::Plain => Inputs::Codes(&codes),
                    }
                }
            };
            say(network.run(&inputs, scratch)?);
        }
        return Ok(judged);
    }
    let each = samples.tokens.len() / samples.len().max(1);
    if samples.actions.is_empty() {
        for tokens in samples.tokens.chunks((AT_A_TIME * each).max(1)) {
            say(network.run(&Inputs::Text { tokens, actions: &[] }, scratch)?);
        }
        return Ok(judged);
    }
    let mut start = 0;
    for moves in samples.keys.chunk_by(|one, other| one == other) {
        let place = start..start + moves.len();
        start = place.end;
        let tokens = &samples.tokens[each * place.start..][..each];
        let actions = &[&samples.actions[place]];
        say(network.run(&Inputs::Text { tokens, actions }, scratch)?);
    }
    Ok(judged)
}

/// The codes of some boards, by what an NNUE sees of them.
fn cross<'a>(bridge: &Bridge, seen: impl Iterator<Item = &'a [u8]>, codes: &mut Vec<f32>) {
    codes.clear();
    for bytes in seen {
        let numbers: Vec<f32> = bytes.iter().map(|&byte| f32::from(byte) / Onlooker::BYTE).collect();
        let start = codes.len();
        codes.resize(start + bridge.outputs(), 0.0);
        bridge.forward(&numbers, &mut codes[start..]);
    }
}

/// Adds what was said of one more sample.
fn add(judged: &mut Judged, outputs: &Outputs) {
    let mut say = |name: &str, numbers: &[f32]| {
        if numbers.is_empty() {
            return;
        }
        match judged.get_mut(name) {
            Some(row) => row.extend(numbers),
            None => drop(judged.insert(name.to_owned(), numbers.to_vec())),
        }
    };
    say("action_value", &outputs.action_value);
    say("state_value", &outputs.state_value);
    say("policy", &outputs.policy);
    for (target, numbers) in &outputs.beside {
        say(target.name(), numbers);
    }
    for (name, value) in ["value", "search_value", "short_term"].into_iter().zip(&outputs.values) {
        let Some(value) = value else { continue };
        say(&format!("{name}.wdl"), &value.wdl);
        say(&format!("{name}.error"), value.error.as_slice());
        say(&format!("{name}.buckets"), &value.buckets);
    }
    say("moves_left", outputs.moves_left.as_slice());
    say("move_value", &outputs.move_value);
}

#[cfg(test)]
mod tests {
    use super::super::samples::test_games::games;
    use super::super::{Aim, SampleShape, View};
    use super::*;
    use tandem_chess::Position;
    use tandem_data::Record;
    use tandem_transformer::{Architecture, Isa, Precision, Preset, Weights};

    const AIM: Aim = Aim { scale: 400.0, result_share: 0.0, value_result_share: 1.0 };

    fn shallow(preset: Preset) -> Architecture {
        let mut architecture = preset.architecture();
        architecture.body.layers = 1;
        architecture
    }

    fn samples(architecture: &Architecture, records: &[Record]) -> Samples {
        let shape = SampleShape::of(architecture);
        let mut samples = Samples::default();
        for at in 0..records.len() {
            samples.push(&shape, (records, at), true, View::default(), &AIM).unwrap();
        }
        samples
    }

    /// Whatever stands around a sample, the network says the same of it.
    #[test]
    fn samples_are_judged_as_each_would_be_alone() {
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
            let together = judge_samples(&network, &samples(&architecture, records), &mut scratch).unwrap();
            let heads: Vec<&str> = together.keys().map(String::as_str).collect();
            match preset {
                Preset::Byte => assert_eq!(heads, ["action_value"]),
                _ => assert_eq!(heads, ["moves_left", "policy", "value.wdl"]),
            }
            for (at, record) in records.iter().enumerate() {
                let alone = samples(&architecture, std::slice::from_ref(record));
                for (head, numbers) in judge_samples(&network, &alone, &mut scratch).unwrap() {
                    let among = &together[&head][at * numbers.len()..][..numbers.len()];
                    assert_eq!(among, numbers, "{head} of {at}");
                }
            }
        }
    }

    #[test]
    fn samples_of_another_network_are_refused() {
        let [board, text] = [Preset::BtSmall, Preset::Byte].map(shallow);
        let network = Network::new(&Weights::random(board, 5), Precision::F32, Isa::best());
        let judged = judge_samples(&network, &Samples::default(), &mut Scratch::default()).unwrap();
        assert!(judged.is_empty());
        let mut wrong = samples(&text, &games(1, 1)[..2]);
        wrong.masks = vec![0; 100];
        wrong.levels = vec![0.0; 100];
        assert!(judge_samples(&network, &wrong, &mut Scratch::default()).is_err());
    }
}
