//! Metrics of a network's outputs against the labels of samples. They are computed in double precision on the
//! CPU, independently of the trainer's loss, so that each checks the other.

use super::rank_correlation::{argmax, kendall, searchless_kendall};
use super::samples::{NO_MOVE, SampleShape, Samples};
use super::targets::{BucketTarget, Targets};
use crate::metric::{Head, Metric};
use crate::metrics::{Metrics, WHOLE, phase_group};
use tandem_transformer::encoding::buckets::Buckets;

/// Temperature of the soft policy target: probabilities are raised to the power 1/4.
pub const SOFT_TEMPERATURE: f64 = 4.0;
/// Plies per unit of the moves-left loss, as in lc0's training, so that its size is comparable with that of
/// other losses.
pub const MOVES_LEFT_UNIT: f64 = 20.0;
/// δ of the moves-left Huber loss in units of [`MOVES_LEFT_UNIT`]: beyond it the loss is linear.
pub const MOVES_LEFT_HUBER_DELTA: f64 = 0.5;

/// Added to probabilities in the search loss, because a search finds moves that have probability 0 too.
const SEARCH_FLOOR: f64 = 0.003;
/// Probabilities above which a label counts as found, for the metrics `policy_above_1` to `policy_above_10`.
const THRESHOLDS: [f64; 4] = [0.01, 0.02, 0.05, 0.10];

/// Outputs of a value head for a batch of samples, sample after sample; an array that the head does not
/// compute is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct ValueHeadOutputs<'a> {
    /// Logits of win, draw and loss, three for each sample.
    pub wdl: &'a [f32],
    /// The head's own estimate of its squared error against the label, in win probability from 0 to 1; one
    /// value for each sample.
    pub error: &'a [f32],
    /// Logits over the buckets of the win probability, which are equal intervals from 0 (lost) to 1 (won).
    pub buckets: &'a [f32],
}

/// Outputs of all heads of a network for a batch, sample after sample; the array of a head that it does not
/// have is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadOutputs<'a> {
    /// Logits over intervals (buckets) of the win probability after the move in the input, for the side that
    /// plays it.
    pub action_value: &'a [f32],
    /// Logits over intervals (buckets) of the win probability of the side to move.
    pub state_value: &'a [f32],
    /// Logits of all policy moves, legal or not; illegal ones are masked out here.
    pub policy: &'a [f32],
    /// Soft policy: logits of all policy moves, trained on a target of higher temperature.
    pub soft_policy: &'a [f32],
    /// Optimistic policy: logits of all policy moves, trained on games that went better than expected.
    pub optimistic_policy: &'a [f32],
    /// Opponent's reply: logits of all policy moves from the opponent's view.
    pub opponent_policy: &'a [f32],
    /// Predicted result of the game, as win, draw and loss.
    pub value: ValueHeadOutputs<'a>,
    /// Win, draw and loss by the score of a search.
    pub search_value: ValueHeadOutputs<'a>,
    /// Win, draw and loss by the scores of the next plies.
    pub short_term: ValueHeadOutputs<'a>,
    /// Predicted number of plies to the end of the game.
    pub moves_left: &'a [f32],
    /// Value after each policy move, from −1 to 1; only that of the move played is trained.
    pub move_value: &'a [f32],
}

impl Metrics {
    /// Adds a transformer's outputs for a batch of samples to the running metrics.
    ///
    /// # Panics
    /// If the length of an output is not a multiple of the number of samples.
    pub fn add_samples(
        &mut self,
        samples: &Samples,
        shape: &SampleShape,
        targets: &Targets,
        outputs: &HeadOutputs<'_>,
    ) {
        let mut batch = BatchMetrics { metrics: self, samples, shape, targets };
        for row in 0..samples.len() {
            batch.metrics.add_position(&batch.groups(row));
            batch.add_buckets(row, outputs);
            batch.add_policies(row, outputs);
            batch.add_values(row, outputs);
            batch.add_moves(row, outputs);
        }
        batch.add_rankings(outputs);
    }
}

/// A batch whose outputs are being added to the metrics, sample by sample.
struct BatchMetrics<'a> {
    metrics: &'a mut Metrics,
    samples: &'a Samples,
    shape: &'a SampleShape,
    targets: &'a Targets,
}

impl<'a> BatchMetrics<'a> {
    /// Groups to which a sample belongs.
    fn groups(&self, row: usize) -> [usize; 2] {
        [WHOLE, phase_group(self.samples.phases[row])]
    }

    fn count(&mut self, row: usize, metric: Metric, value: f64) {
        self.metrics.add_value(&self.groups(row), metric, value);
    }

    fn count_if(&mut self, row: usize, metric: Metric, is_hit: bool) {
        self.count(row, metric, f64::from(u8::from(is_hit)));
    }

    /// Values of a head for a sample; `None` if the network lacks the head.
    fn row<'v>(&self, values: &'v [f32], row: usize) -> Option<&'v [f32]> {
        if values.is_empty() {
            return None;
        }
        let size = values.len() / self.samples.len();
        assert_eq!(values.len(), size * self.samples.len(), "as many values for each sample");
        Some(&values[row * size..][..size])
    }

    fn add_buckets(&mut self, row: usize, outputs: &HeadOutputs<'_>) {
        let label = f64::from(self.samples.win_probability[row]);
        for (head, values) in
            [(Head::ActionValue, outputs.action_value), (Head::StateValue, outputs.state_value)]
        {
            let Some(logits) = self.row(values, row).filter(|_| !label.is_nan()) else { continue };
            let Some(buckets) = Buckets::new(logits.len()) else { continue };
            self.count(row, Metric::Loss(head), self.bucket_loss(buckets, logits, label));
            let rank = rank_of(logits.iter().copied().enumerate(), buckets.bucket(label));
            self.count_if(row, Metric::BucketTop1, rank < 1);
            self.count_if(row, Metric::BucketTop5, rank < 5);
            if outputs.value.wdl.is_empty() {
                let error = 2.0 * (buckets.win_probability(logits) - label);
                self.count(row, Metric::ValueError, error * error);
            }
        }
    }

    fn bucket_loss(&self, buckets: Buckets, logits: &[f32], label: f64) -> f64 {
        let log_sum = log_sum_exp(logits.iter().copied());
        match self.targets.buckets {
            BucketTarget::CrossEntropy => log_sum - f64::from(logits[buckets.bucket(label)]),
            BucketTarget::HlGauss { sigma } => {
                let mut target = vec![0.0; logits.len()];
                buckets.hl_gauss(label, sigma, &mut target);
                let probabilities = target.iter().zip(logits).filter(|(p, _)| **p > 0.0);
                probabilities.map(|(p, logit)| f64::from(*p) * (log_sum - f64::from(*logit))).sum()
            }
        }
    }

    fn add_policies(&mut self, row: usize, outputs: &HeadOutputs<'_>) {
        let Some(&index) = self.samples.policy.get(row).filter(|index| **index != NO_MOVE) else { return };
        let words = self.shape.legal_words();
        let legal = set_bits(&self.samples.legal[row * words..][..words]);
        let best = usize::from(index);
        let smoothing = self.targets.label_smoothing;
        // Label smoothing: the probability of the label, and of every other legal move.
        let rest = smoothing / legal.len() as f64;
        let probabilities = (1.0 - smoothing + rest, rest);
        if let Some(logits) = self.row(outputs.policy, row) {
            let (loss, entropy) = policy_loss(logits, &legal, best, probabilities);
            self.count(row, Metric::Loss(Head::Policy), loss);
            self.count(row, Metric::ReduciblePolicyLoss, loss - entropy);
            let log_sum = log_sum_exp(legal.iter().map(|&at| logits[at]));
            let p = (f64::from(logits[best]) - log_sum).exp();
            self.count(row, Metric::SearchPolicyLoss, 1.0 / (p + SEARCH_FLOOR));
            let rank = rank_of(legal.iter().map(|&at| (at, logits[at])), best);
            for (metric, most) in [(Metric::PolicyTop1, 1), (Metric::PolicyTop3, 3), (Metric::PolicyTop5, 5)]
            {
                self.count_if(row, metric, rank < most);
            }
            let above =
                [Metric::PolicyAbove1, Metric::PolicyAbove2, Metric::PolicyAbove5, Metric::PolicyAbove10];
            for (metric, threshold) in above.into_iter().zip(THRESHOLDS) {
                self.count_if(row, metric, p > threshold);
            }
        }
        if let Some(logits) = self.row(outputs.soft_policy, row) {
            let soft =
                (probabilities.0.powf(1.0 / SOFT_TEMPERATURE), probabilities.1.powf(1.0 / SOFT_TEMPERATURE));
            let sum = soft.0 + soft.1 * (legal.len() - 1) as f64;
            let (loss, _) = policy_loss(logits, &legal, best, (soft.0 / sum, soft.1 / sum));
            self.count(row, Metric::Loss(Head::SoftPolicy), loss);
        }
        if let Some(logits) = self.row(outputs.optimistic_policy, row) {
            let (loss, _) = policy_loss(logits, &legal, best, probabilities);
            self.count(
                row,
                Metric::Loss(Head::OptimisticPolicy),
                self.optimistic_weight(row, outputs) * loss,
            );
        }
        let reply = self.samples.opponent.get(row).filter(|reply| **reply != NO_MOVE);
        if let (Some(logits), Some(&reply)) = (self.row(outputs.opponent_policy, row), reply) {
            let loss = log_sum_exp(logits.iter().copied()) - f64::from(logits[usize::from(reply)]);
            self.count(row, Metric::Loss(Head::OpponentPolicy), loss);
        }
    }

    /// Weight of the optimistic policy: how much better the game ended than the value head predicted, clamped
    /// to 0 … 1. It is 1 for networks without a value head, and 0 for games without a result.
    fn optimistic_weight(&self, row: usize, outputs: &HeadOutputs<'_>) -> f64 {
        let Some(logits) = self.row(outputs.value.wdl, row) else { return 1.0 };
        let Some(end) = self.samples.wdl.get(row).filter(|end| !end[0].is_nan()) else { return 0.0 };
        let predicted = softmax(logits);
        (f64::from(end[0] - end[2]) - (predicted[0] - predicted[2])).clamp(0.0, 1.0)
    }

    fn add_values(&mut self, row: usize, outputs: &HeadOutputs<'_>) {
        let samples = self.samples;
        // The three value heads count alike, as in the training loss.
        let (mut errors, mut bucket_losses) = (None, None);
        for (head, outputs, labels) in [
            (Head::Value, outputs.value, &samples.wdl),
            (Head::SearchValue, outputs.search_value, &samples.search),
            (Head::ShortTerm, outputs.short_term, &samples.short_term),
        ] {
            let Some(target) = labels.get(row).filter(|target| !target[0].is_nan()) else { continue };
            let Some(logits) = self.row(outputs.wdl, row) else { continue };
            let target = target.map(f64::from);
            let log_sum = log_sum_exp(logits.iter().copied());
            let smoothing = self.targets.label_smoothing;
            let smoothed = target.map(|p| (1.0 - smoothing) * p + smoothing / 3.0);
            let terms = logits.iter().zip(smoothed).map(|(logit, p)| p * (log_sum - f64::from(*logit)));
            self.count(row, Metric::Loss(head), terms.sum());
            let wdl = softmax(logits);
            let (value, label) = (wdl[0] - wdl[2], target[0] - target[2]);
            let error = (value - label) * (value - label);
            if head == Head::Value {
                self.count_if(row, Metric::ValueAccuracy, argmax(&wdl) == argmax(&target));
                self.count(row, Metric::ValueError, error);
            }
            if let Some(predicted) = self.row(outputs.error, row) {
                // The target is the squared error of the win probability, whose range 0 … 1 is half that of
                // values, −1 … 1.
                let difference = f64::from(predicted[0]) - error / 4.0;
                *errors.get_or_insert(0.0) += difference * difference;
            }
            let logits = self.row(outputs.buckets, row);
            if let Some((logits, buckets)) = logits.and_then(|row| Some((row, Buckets::new(row.len())?))) {
                let loss = self.bucket_loss(buckets, logits, (label + 1.0) / 2.0);
                *bucket_losses.get_or_insert(0.0) += loss;
            }
        }
        for (head, loss) in [(Head::Error, errors), (Head::ValueBuckets, bucket_losses)] {
            loss.into_iter().for_each(|loss| self.count(row, Metric::Loss(head), loss));
        }
    }

    fn add_moves(&mut self, row: usize, outputs: &HeadOutputs<'_>) {
        let left = self.samples.moves_left.get(row).filter(|left| !left.is_nan());
        if let (Some(predicted), Some(&left)) = (self.row(outputs.moves_left, row), left) {
            let error = f64::from(predicted[0] - left).abs() / MOVES_LEFT_UNIT;
            let beyond = MOVES_LEFT_HUBER_DELTA * (error - MOVES_LEFT_HUBER_DELTA / 2.0);
            let loss = if error <= MOVES_LEFT_HUBER_DELTA { error * error / 2.0 } else { beyond };
            self.count(row, Metric::Loss(Head::MovesLeft), loss);
        }
        let index = self.samples.policy.get(row).filter(|index| **index != NO_MOVE);
        let label = f64::from(self.samples.win_probability[row]);
        if let (Some(predicted), Some(&index), false) =
            (self.row(outputs.move_value, row), index, label.is_nan())
        {
            let error = f64::from(predicted[usize::from(index)]) - (2.0 * label - 1.0);
            self.count(row, Metric::Loss(Head::MoveValue), error * error);
        }
    }

    /// Ranks the moves of a position, which are consecutive samples with the same key.
    fn add_rankings(&mut self, outputs: &HeadOutputs<'_>) {
        if outputs.action_value.is_empty() {
            return;
        }
        let samples = self.samples;
        let mut start = 0;
        for moves in samples.keys.chunk_by(|one, other| one == other) {
            let place = start..start + moves.len();
            start = place.end;
            let right: Vec<f64> =
                samples.win_probability[place.clone()].iter().map(|&label| label.into()).collect();
            if moves.len() < 2 || right.iter().any(|label| label.is_nan()) {
                continue;
            }
            let predicted = place.clone().filter_map(|row| {
                let logits = self.row(outputs.action_value, row)?;
                Some(Buckets::new(logits.len())?.win_probability(logits))
            });
            let predicted: Vec<f64> = predicted.collect();
            let (Some(chosen), Some(best)) = (argmax(&predicted), argmax(&right)) else { continue };
            self.count_if(place.start, Metric::ActionAccuracy, right[chosen] == right[best]);
            if let Some(tau) = kendall(&predicted, &right) {
                self.count(place.start, Metric::KendallTau, tau);
            }
            if let Some(tau) = searchless_kendall(&predicted, &right) {
                self.count(place.start, Metric::SearchlessTau, tau);
            }
        }
    }
}

/// Indices of the bits that are set, in increasing order, which are the legal moves.
fn set_bits(words: &[u64]) -> Vec<usize> {
    let mut values = Vec::with_capacity(64);
    for (at, &word) in words.iter().enumerate() {
        let mut left = word;
        while left != 0 {
            values.push(64 * at + left.trailing_zeros() as usize);
            left &= left - 1;
        }
    }
    values
}

/// Cross-entropy of a policy over the legal moves, and the entropy of its target, which is `to_best` for the
/// best move and `to_others` for each of the others.
fn policy_loss(logits: &[f32], legal: &[usize], best: usize, (to_best, to_others): (f64, f64)) -> (f64, f64) {
    let log_sum = log_sum_exp(legal.iter().map(|&at| logits[at]));
    let (mut loss, mut entropy) = (0.0, 0.0);
    for &at in legal {
        let p = if at == best { to_best } else { to_others };
        if p > 0.0 {
            loss += p * (log_sum - f64::from(logits[at]));
            entropy -= p * p.ln();
        }
    }
    (loss, entropy)
}

/// Probabilities from logits: the softmax, in double precision.
fn softmax(logits: &[f32]) -> Vec<f64> {
    let log_sum = log_sum_exp(logits.iter().copied());
    logits.iter().map(|logit| (f64::from(*logit) - log_sum).exp()).collect()
}

/// Logarithm of the sum of exponentials, shifted by the maximum so that it does not overflow.
fn log_sum_exp(logits: impl Iterator<Item = f32> + Clone) -> f64 {
    let max = logits.clone().fold(f32::NEG_INFINITY, f32::max);
    let max = f64::from(if max.is_finite() { max } else { 0.0 });
    max + logits.map(|logit| (f64::from(logit) - max).exp()).sum::<f64>().ln()
}

/// Number of logits ranked before that of an index: all greater ones, and equal ones with a smaller index.
fn rank_of(logits: impl Iterator<Item = (usize, f32)> + Clone, index: usize) -> usize {
    let own = logits.clone().find(|(at, _)| *at == index).map_or(f32::NAN, |(_, own)| own);
    // NaN must not look like success: it ranks before all others, and last if it is the label's.
    if own.is_nan() {
        return usize::MAX;
    }
    let before = |&(at, logit): &(usize, f32)| at != index && !(logit < own || (logit == own && at > index));
    logits.filter(before).count()
}

#[cfg(test)]
mod tests {
    use super::super::samples::test_games::games;
    use super::super::samples::{Augmentation, LabelConfig};
    use super::super::targets::HeadWeights;
    use super::*;
    use tandem_chess::Position;
    use tandem_data::{Record, Score};
    use tandem_transformer::Preset;
    use tandem_util::random::SplitMix;

    const LABELS: LabelConfig = LabelConfig { scale: 300.0, wdl: 0.0, value_wdl: 1.0 };

    fn near(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!((found - expected).abs() < 1e-6 * expected.abs().max(1.0), "{found} {expected}");
    }

    fn samples(preset: Preset, records: &[Record]) -> (Samples, SampleShape) {
        let shape = SampleShape::of(&preset.architecture());
        let mut samples = Samples::default();
        for at in 0..records.len() {
            samples.push(&shape, (records, at), true, Augmentation::default(), &LABELS).unwrap();
        }
        (samples, shape)
    }

    #[test]
    fn a_policy_is_evaluated_over_legal_moves() {
        let records = games(3, 2);
        let (samples, shape) = samples(Preset::BtSmall, &records);
        let legal = |row: usize| set_bits(&samples.legal[row * 30..][..30]);
        // Equal logits for legal moves, and far higher ones for illegal moves.
        let mut logits = vec![0.0f32; 1858 * samples.len()];
        for row in 0..samples.len() {
            logits[row * 1858..][..1858].fill(50.0);
            legal(row).iter().for_each(|&at| logits[row * 1858 + at] = 1.0);
        }
        let mut metrics = Metrics::default();
        let targets = Targets::default();
        metrics.add_samples(
            &samples,
            &shape,
            &targets,
            &HeadOutputs { policy: &logits, ..HeadOutputs::default() },
        );
        let mean = |of: &dyn Fn(usize) -> f64| (0..samples.len()).map(of).sum::<f64>() / samples.len() as f64;
        let count = |row: usize| legal(row).len() as f64;
        let whole = metrics.overall();
        near(whole.get(Metric::Loss(Head::Policy)), mean(&|row| count(row).ln()));
        near(whole.get(Metric::SearchPolicyLoss), mean(&|row| 1.0 / (1.0 / count(row) + 0.003)));
        near(whole.get(Metric::PolicyAbove1), 1.0);
        let above = whole.get(Metric::PolicyAbove5).unwrap();
        assert!(above > 0.0 && above <= mean(&|row| f64::from(u8::from(count(row) <= 20.0))));
        let place =
            |row: usize| legal(row).iter().position(|&at| at == usize::from(samples.policy[row])).unwrap();
        near(whole.get(Metric::PolicyTop3), mean(&|row| f64::from(u8::from(place(row) < 3))));
        // The label above all others.
        for row in 0..samples.len() {
            logits[row * 1858 + usize::from(samples.policy[row])] = 20.0;
        }
        let mut metrics = Metrics::default();
        let smoothing = Targets { label_smoothing: 0.1, ..Targets::default() };
        metrics.add_samples(
            &samples,
            &shape,
            &smoothing,
            &HeadOutputs { policy: &logits, ..HeadOutputs::default() },
        );
        for metric in [Metric::PolicyTop1, Metric::PolicyTop5, Metric::PolicyAbove10] {
            near(metrics.overall().get(metric), 1.0);
        }
        let [loss, reducible] = [Metric::Loss(Head::Policy), Metric::ReduciblePolicyLoss]
            .map(|metric| metrics.overall().get(metric).unwrap());
        assert!(0.0 < reducible && reducible < loss);
        assert_eq!(metrics.overall().get(Metric::Loss(Head::Value)), None);
        let phases = metrics.phases().map(|phase| phase.count(Metric::PolicyTop1));
        assert_eq!(phases.iter().sum::<u64>(), samples.len() as u64);
    }

    #[test]
    fn buckets_and_values_are_compared_with_their_targets() {
        let records = games(2, 3);
        let (samples, shape) = samples(Preset::Byte, &records);
        let mut logits = vec![0.0f32; 128 * samples.len()];
        let metrics_of = |logits: &[f32], buckets: BucketTarget| {
            let mut metrics = Metrics::default();
            let targets = Targets { buckets, ..Targets::default() };
            metrics.add_samples(
                &samples,
                &shape,
                &targets,
                &HeadOutputs { action_value: logits, ..HeadOutputs::default() },
            );
            metrics
        };
        for buckets in [BucketTarget::CrossEntropy, BucketTarget::HlGauss { sigma: 0.75 }] {
            near(metrics_of(&logits, buckets).overall().get(Metric::Loss(Head::ActionValue)), 128f64.ln());
        }
        for row in 0..samples.len() {
            let bucket = Buckets::SEARCHLESS.bucket(samples.win_probability[row].into());
            logits[row * 128 + bucket] = 100.0;
        }
        let sure = metrics_of(&logits, BucketTarget::CrossEntropy);
        near(sure.overall().get(Metric::Loss(Head::ActionValue)), 0.0);
        near(sure.overall().get(Metric::BucketTop1), 1.0);
        assert!(sure.overall().get(Metric::ValueError).unwrap() < 1e-4);
        assert!(
            metrics_of(&logits, BucketTarget::HlGauss { sigma: 0.75 })
                .overall()
                .get(Metric::Loss(Head::ActionValue))
                .unwrap()
                > 1.0
        );

        let (samples, shape) = self::samples(Preset::BtSmall, &records);
        let wdl: Vec<f32> = samples.wdl.iter().flatten().map(|p| 30.0 * p).collect();
        let left: Vec<f32> = samples.moves_left.iter().map(|left| left + 20.0).collect();
        let error = vec![0.25; samples.len()];
        let value = ValueHeadOutputs { wdl: &wdl, error: &error, buckets: &[] };
        let mut metrics = Metrics::default();
        metrics.add_samples(
            &samples,
            &shape,
            &Targets::default(),
            &HeadOutputs { value, moves_left: &left, ..HeadOutputs::default() },
        );
        near(metrics.overall().get(Metric::ValueAccuracy), 1.0);
        near(metrics.overall().get(Metric::ValueError), 0.0);
        near(metrics.overall().get(Metric::Loss(Head::Error)), 0.0625);
        // Error predictions of several value heads are summed.
        let mut two_heads = Metrics::default();
        let searched = Samples { search: samples.wdl.clone(), ..samples.clone() };
        let outputs = HeadOutputs { value, search_value: value, ..HeadOutputs::default() };
        two_heads.add_samples(&searched, &shape, &Targets::default(), &outputs);
        near(two_heads.overall().get(Metric::Loss(Head::Error)), 0.125);
        assert_eq!(two_heads.overall().count(Metric::Loss(Head::Error)), samples.len() as u64);
        if shape.moves_left {
            // One unit off with δ = 0.5: quadratic up to δ, linear beyond it.
            near(metrics.overall().get(Metric::Loss(Head::MovesLeft)), 0.375);
        }
        let weights = HeadWeights { value: 2.0, error: 4.0, moves_left: 0.0, ..HeadWeights::default() };
        near(metrics.overall().weighted_loss(&weights), 0.25);
        assert_eq!(Metrics::default().overall().weighted_loss(&weights), None);
    }

    #[test]
    fn the_moves_of_a_position_are_ranked() {
        let mut random = SplitMix::new(4);
        let mut records = Vec::new();
        for record in games(3, 5).iter().step_by(9) {
            let position = Position::from(record.position.board().unwrap());
            for mv in position.legal_moves() {
                let score = Some(Score::WinProbability(random.unit()));
                records.push(Record { mv: Some(mv), score, ..*record });
            }
        }
        let (samples, shape) = samples(Preset::Byte, &records);
        let metrics_of = |label: &dyn Fn(f64) -> f64| {
            let mut logits = vec![0.0f32; 2 * samples.len()];
            // Two buckets; the logit of the upper one grows with the win probability.
            for row in 0..samples.len() {
                logits[2 * row + 1] = label(samples.win_probability[row].into()) as f32;
            }
            let mut metrics = Metrics::default();
            metrics.add_samples(
                &samples,
                &shape,
                &Targets::default(),
                &HeadOutputs { action_value: &logits, ..HeadOutputs::default() },
            );
            metrics
        };
        let right = metrics_of(&|label| label);
        let positions = games(3, 5).len().div_ceil(9) as u64;
        assert!(
            right.overall().count(Metric::ActionAccuracy) <= positions
                && right.overall().count(Metric::ActionAccuracy) > 5
        );
        for metric in [Metric::ActionAccuracy, Metric::KendallTau, Metric::SearchlessTau] {
            near(right.overall().get(metric), 1.0);
        }
        let wrong = metrics_of(&|label| -label);
        near(wrong.overall().get(Metric::ActionAccuracy), 0.0);
        near(wrong.overall().get(Metric::KendallTau), -1.0);
    }

    #[test]
    fn merged_parts_equal_the_whole() {
        let records = games(4, 6);
        let (samples, shape) = samples(Preset::BtSmall, &records);
        let mut random = SplitMix::new(1);
        let mut values =
            |count: usize| -> Vec<f32> { (0..count).map(|_| random.unit() as f32 * 8.0 - 4.0).collect() };
        let policy = values(1858 * samples.len());
        let wdl = values(3 * samples.len());
        let value = ValueHeadOutputs { wdl: &wdl, ..ValueHeadOutputs::default() };
        let targets = Targets::default();
        let mut whole = Metrics::default();
        whole.add_samples(
            &samples,
            &shape,
            &targets,
            &HeadOutputs { policy: &policy, value, ..HeadOutputs::default() },
        );
        let half = records.len() / 2;
        let parts = [0..half, half..records.len()].map(|rows| {
            let mut part = Samples::default();
            for at in rows.clone() {
                part.push(&shape, (&records, at), true, Augmentation::default(), &LABELS).unwrap();
            }
            let value =
                ValueHeadOutputs { wdl: &wdl[3 * rows.start..3 * rows.end], ..ValueHeadOutputs::default() };
            let mut metrics = Metrics::default();
            let policy = &policy[1858 * rows.start..1858 * rows.end];
            metrics.add_samples(
                &part,
                &shape,
                &targets,
                &HeadOutputs { policy, value, ..HeadOutputs::default() },
            );
            metrics
        });
        let mut merged = parts[0].clone();
        merged.merge(&parts[1]);
        for metric in Metric::all() {
            assert_eq!(merged.overall().count(metric), whole.overall().count(metric));
            match whole.overall().get(metric) {
                Some(expected) => near(merged.overall().get(metric), expected),
                None => assert_eq!(merged.overall().get(metric), None),
            }
        }
    }

    #[test]
    fn nan_outputs_count_as_misses() {
        let (samples, shape) = samples(Preset::BtSmall, &games(1, 1));
        let logits = vec![f32::NAN; 1858 * samples.len()];
        let mut metrics = Metrics::default();
        metrics.add_samples(
            &samples,
            &shape,
            &Targets::default(),
            &HeadOutputs { policy: &logits, ..HeadOutputs::default() },
        );
        near(metrics.overall().get(Metric::PolicyAbove1), 0.0);
        near(metrics.overall().get(Metric::PolicyTop1), 0.0);
        assert!(metrics.overall().get(Metric::Loss(Head::Policy)).unwrap().is_nan());
    }
}
