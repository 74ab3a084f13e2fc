//! What a network would lose that says the same of every position: the entropy of the labels alone. Only below that has
//! anything been learnt of chess.

use super::figures::Head;
use super::samples::Samples;
use super::targets::{BucketTarget, Targets};
use tandem_transformer::Architecture;
use tandem_transformer::encoding::buckets::Buckets;

/// The targets of each head whose loss is surprise, added up: so processes put theirs together.
pub(super) fn target_sums(
    architecture: &Architecture,
    targets: &Targets,
    validation: &[Samples],
) -> Vec<f64> {
    let mut sums = Vec::new();
    for (head, size) in heads(architecture) {
        let mut sum = vec![0.0; size];
        for samples in validation {
            match (head, Buckets::new(size)) {
                (Head::ActionValue | Head::StateValue, Some(buckets)) => {
                    let known = samples.chance.iter().filter(|chance| !chance.is_nan());
                    known.for_each(|&chance| add_bucket(&mut sum, buckets, targets.buckets, chance.into()));
                }
                _ => {
                    for ends in samples.wdl.iter().filter(|ends| !ends[0].is_nan()) {
                        let smoothing = targets.label_smoothing;
                        sum.iter_mut().zip(ends).for_each(|(sum, share)| {
                            *sum += f64::from(*share) * (1.0 - smoothing) + smoothing / 3.0;
                        });
                    }
                }
            }
        }
        sums.extend(sum);
    }
    sums
}

/// The loss of each of those heads if it always gives the mean of the targets.
pub(super) fn losses(architecture: &Architecture, sums: &[f64]) -> Vec<(Head, f64)> {
    let mut rest = sums;
    let mut losses = Vec::new();
    for (head, size) in heads(architecture) {
        let (sum, more) = rest.split_at(size.min(rest.len()));
        rest = more;
        let total: f64 = sum.iter().sum();
        if total > 0.0 {
            let shares = sum.iter().map(|sum| sum / total).filter(|&share| share > 0.0);
            losses.push((head, -shares.map(|share| share * share.ln()).sum::<f64>()));
        }
    }
    losses
}

/// The heads that are asked for one of so many.
fn heads(architecture: &Architecture) -> Vec<(Head, usize)> {
    let heads = &architecture.heads;
    let buckets = |head: Head, size: Option<usize>| size.map(|size| (head, size));
    [
        buckets(Head::ActionValue, heads.action_value.as_ref().map(|head| head.buckets)),
        buckets(Head::StateValue, heads.state_value.as_ref().map(|head| head.buckets)),
        heads.value.as_ref().map(|_| (Head::Value, 3)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn add_bucket(sum: &mut [f64], buckets: Buckets, target: BucketTarget, chance: f64) {
    match target {
        BucketTarget::CrossEntropy => sum[buckets.bucket(chance)] += 1.0,
        BucketTarget::HlGauss { sigma } => {
            let mut shares = vec![0.0; sum.len()];
            buckets.hl_gauss(chance, sigma, &mut shares);
            sum.iter_mut().zip(shares).for_each(|(sum, share)| *sum += f64::from(share));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::recipe::TransformerRecipe;
    use super::super::samples::test_games::games;
    use super::super::samples::{Aim, SampleShape, View};
    use super::*;
    use crate::transformer::{Answers, Figure, TransformerMetrics, ValueAnswers};
    use tandem_transformer::Preset;

    /// The figures of a network that always says the mean of the targets are these losses.
    #[test]
    fn nothing_that_is_always_the_same_does_better() {
        let records = games(4, 3);
        for (preset, kind) in
            [(Preset::Byte, "hl-gauss"), (Preset::Byte, "cross-entropy"), (Preset::BtSmall, "hl-gauss")]
        {
            let text = format!(
                "name = \"x\"\n[network]\npreset = \"{}\"\n[targets]\nlabel_smoothing = 0.1\nbuckets = {{ kind = \"{kind}\" }}\n[data]\n\
                 train = [{{ path = \"x.vf\" }}]\n[training]\npositions = 60",
                preset.name()
            );
            let targets = TransformerRecipe::parse(&text).unwrap().targets;
            let architecture = preset.architecture();
            let shape = SampleShape::of(&architecture);
            let mut samples = Samples::default();
            for at in 0..records.len() {
                let aim = Aim { scale: 400.0, ..Aim::default() };
                samples.push(&shape, (&records, at), true, View::default(), &aim).unwrap();
            }
            let validation = [samples];
            let sums = target_sums(&architecture, &targets, &validation);
            let found = losses(&architecture, &sums);
            let [(head, loss)] = found[..] else { panic!("{found:?}") };
            let [samples] = validation;
            let total: f64 = sums.iter().sum();
            let lost = |change: f64| {
                let mut shares: Vec<f64> = sums.iter().map(|sum| sum / total + 1e-12).collect();
                shares[1] += change;
                let logits: Vec<f32> = shares.iter().map(|share| share.ln() as f32).collect();
                let said = logits.repeat(samples.len());
                let answers = match head {
                    Head::Value => Answers {
                        value: ValueAnswers { wdl: &said, ..Default::default() },
                        ..Default::default()
                    },
                    _ => Answers { action_value: &said, ..Default::default() },
                };
                let mut metrics = TransformerMetrics::default();
                metrics.add(&samples, &shape, &targets, &answers);
                metrics.whole().get(Figure::Loss(head)).unwrap()
            };
            assert!((lost(0.0) - loss).abs() < 1e-5 && loss > 0.1, "{preset:?} {kind}: {} {loss}", lost(0.0));
            assert!(lost(0.1) > loss + 1e-4, "{preset:?} {kind}");
        }
    }
}
