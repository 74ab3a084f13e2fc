//! Baseline losses: the cross-entropy of a network that gives every position the same output, which is the
//! entropy of the labels' mean. A network has learnt something about chess only if its loss is below this.

use super::samples::Samples;
use super::targets::{BucketTarget, Targets};
use crate::metric::Head;
use tandem_transformer::Architecture;
use tandem_transformer::encoding::buckets::Buckets;

/// The targets of each head with a cross-entropy loss, added up over the samples. Sums of several processes
/// can be added, because [`losses`] needs only the totals.
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
                    let known = samples.win_probability.iter().filter(|p| !p.is_nan());
                    known.for_each(|&p| add_bucket(&mut sum, buckets, targets.buckets, p.into()));
                }
                _ => {
                    for wdl in samples.wdl.iter().filter(|wdl| !wdl[0].is_nan()) {
                        let smoothing = targets.label_smoothing;
                        sum.iter_mut().zip(wdl).for_each(|(sum, p)| {
                            *sum += f64::from(*p) * (1.0 - smoothing) + smoothing / 3.0;
                        });
                    }
                }
            }
        }
        sums.extend(sum);
    }
    sums
}

/// The loss of each of those heads if its output is always the mean of the targets: the entropy of that mean,
/// in nats.
pub(super) fn losses(architecture: &Architecture, sums: &[f64]) -> Vec<(Head, f64)> {
    let mut rest = sums;
    let mut losses = Vec::new();
    for (head, size) in heads(architecture) {
        let (sum, more) = rest.split_at(size.min(rest.len()));
        rest = more;
        let total: f64 = sum.iter().sum();
        if total > 0.0 {
            let mean = sum.iter().map(|sum| sum / total).filter(|&p| p > 0.0);
            losses.push((head, -mean.map(|p| p * p.ln()).sum::<f64>()));
        }
    }
    losses
}

/// Heads that classify, each with its number of classes.
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

fn add_bucket(sum: &mut [f64], buckets: Buckets, target: BucketTarget, win_probability: f64) {
    match target {
        BucketTarget::CrossEntropy => sum[buckets.bucket(win_probability)] += 1.0,
        BucketTarget::HlGauss { sigma } => {
            let mut target = vec![0.0; sum.len()];
            buckets.hl_gauss(win_probability, sigma, &mut target);
            sum.iter_mut().zip(target).for_each(|(sum, p)| *sum += f64::from(p));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::recipe::TransformerRecipe;
    use super::super::samples::test_games::games;
    use super::super::samples::{Augmentation, LabelConfig, SampleShape};
    use super::*;
    use crate::transformer::{HeadOutputs, Metric, Metrics, ValueHeadOutputs};
    use tandem_transformer::Preset;

    /// A network that always outputs the mean of the targets has exactly these losses.
    #[test]
    fn no_constant_output_has_a_lower_loss() {
        let records = games(4, 3);
        for (preset, keys) in [
            (Preset::Byte, "buckets = { kind = \"hl-gauss\" }"),
            (Preset::Byte, "buckets = { kind = \"cross-entropy\" }"),
            (Preset::BtSmall, "label_smoothing = 0.1"),
        ] {
            let text = format!(
                "name = \"x\"\n[network]\npreset = \"{}\"\n[targets]\n{keys}\n[data]\n\
                 train = [{{ path = \"x.vf\" }}]\n[training]\npositions = 60",
                preset.name()
            );
            let targets = TransformerRecipe::parse(&text).unwrap().targets;
            let architecture = preset.architecture();
            let shape = SampleShape::of(&architecture);
            let mut samples = Samples::default();
            for at in 0..records.len() {
                let labels = LabelConfig { scale: 400.0, ..LabelConfig::default() };
                samples.push(&shape, (&records, at), true, Augmentation::default(), &labels).unwrap();
            }
            let validation = [samples];
            let sums = target_sums(&architecture, &targets, &validation);
            let found = losses(&architecture, &sums);
            let [(head, loss)] = found[..] else { panic!("{found:?}") };
            let [samples] = validation;
            let total: f64 = sums.iter().sum();
            let loss_of = |change: f64| {
                let mut probabilities: Vec<f64> = sums.iter().map(|sum| sum / total + 1e-12).collect();
                probabilities[1] += change;
                let logits: Vec<f32> = probabilities.iter().map(|p| p.ln() as f32).collect();
                let output = logits.repeat(samples.len());
                let outputs = match head {
                    Head::Value => HeadOutputs {
                        value: ValueHeadOutputs { wdl: &output, ..Default::default() },
                        ..Default::default()
                    },
                    _ => HeadOutputs { action_value: &output, ..Default::default() },
                };
                let mut metrics = Metrics::default();
                metrics.add_samples(&samples, &shape, &targets, &outputs);
                metrics.overall().get(Metric::Loss(head)).unwrap()
            };
            assert!(
                (loss_of(0.0) - loss).abs() < 1e-5 && loss > 0.1,
                "{preset:?} {keys}: {} {loss}",
                loss_of(0.0)
            );
            assert!(loss_of(0.1) > loss + 1e-4, "{preset:?} {keys}");
        }
    }
}
