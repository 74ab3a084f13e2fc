//! What a transformer's answers are worth against samples.

use super::agreement::{greatest, kendall, searchless_kendall};
use super::figures::{FIGURES, Figure, Head};
use super::samples::{NO_MOVE, SampleShape, Samples};
use super::targets::{BucketTarget, HeadWeights, Targets};
use crate::metrics::{Mean, Phase};
use tandem_transformer::encoding::buckets::Buckets;

/// A softened policy is taught the root of this degree of what the first policy is taught.
pub const SOFT_TEMPERATURE: f64 = 4.0;
/// Plies that are left are compared in units of so many.
pub const MOVES_LEFT_UNIT: f64 = 20.0;
/// Differences of plies beyond so many units count by their size, and not by its square.
pub const MOVES_LEFT_BEND: f64 = 0.5;

/// What keeps the loss of a search finite where a policy leaves no chance to a move.
const SEARCH_FLOOR: f64 = 0.003;
/// Shares that a policy should give to the right move.
const THRESHOLDS: [f64; 4] = [0.01, 0.02, 0.05, 0.10];

/// What a head of values says of a batch: nothing where a row is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct ValueAnswers<'a> {
    /// Logits of win, draw and loss.
    pub wdl: &'a [f32],
    /// The square of the error that the value will have.
    pub error: &'a [f32],
    /// Logits of the value in buckets.
    pub buckets: &'a [f32],
}

/// What a network says of a batch, the first sample's numbers first; nothing where a row is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answers<'a> {
    /// Logits of the chance to win after the move that was read.
    pub action_value: &'a [f32],
    /// Logits of the chance to win.
    pub state_value: &'a [f32],
    /// Logits of all numbered moves, legal or not.
    pub policy: &'a [f32],
    /// The same of the softened policy.
    pub soft_policy: &'a [f32],
    /// Of the optimistic one.
    pub optimistic_policy: &'a [f32],
    /// Of the opponent's answer.
    pub opponent_policy: &'a [f32],
    /// How the game ends.
    pub value: ValueAnswers<'a>,
    /// What a search finds.
    pub search_value: ValueAnswers<'a>,
    /// How the next moves go.
    pub short_term: ValueAnswers<'a>,
    /// Plies that are left.
    pub moves_left: &'a [f32],
    /// The value after each numbered move, from −1 to 1.
    pub move_value: &'a [f32],
}

/// The figures of some samples.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerFigures {
    means: [Mean; FIGURES],
}

impl Default for TransformerFigures {
    fn default() -> Self {
        Self { means: [Mean::default(); FIGURES] }
    }
}

impl TransformerFigures {
    /// A figure, if anything had what it needs.
    pub fn get(&self, figure: Figure) -> Option<f64> {
        self.means[figure.place()].value()
    }

    /// How many samples or positions a figure is of.
    pub fn count(&self, figure: Figure) -> u64 {
        self.means[figure.place()].count
    }

    /// The losses of all heads by their weights; none where no head that counts has any.
    pub fn loss(&self, weights: &HeadWeights) -> Option<f64> {
        let losses = Head::ALL.into_iter().filter_map(|head| {
            let weight = head.weight(weights);
            self.get(Figure::Loss(head)).filter(|_| weight > 0.0).map(|loss| weight * loss)
        });
        losses.reduce(|sum, loss| sum + loss)
    }

    fn merge(&mut self, other: &Self) {
        self.means.iter_mut().zip(&other.means).for_each(|(own, more)| own.merge(more));
    }
}

/// What a network's answers are worth, over all samples and by how much of the game is left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransformerMetrics {
    whole: TransformerFigures,
    phases: [TransformerFigures; 3],
}

impl TransformerMetrics {
    /// Counts what a network says of a batch of samples.
    ///
    /// # Panics
    /// If answers are not as many numbers for each sample as their head has.
    pub fn add(&mut self, samples: &Samples, shape: &SampleShape, targets: &Targets, answers: &Answers<'_>) {
        let mut batch = Batch { metrics: self, samples, shape, targets };
        for row in 0..samples.len() {
            batch.add_buckets(row, answers);
            batch.add_policies(row, answers);
            batch.add_values(row, answers);
            batch.add_moves(row, answers);
        }
        batch.add_rankings(answers);
    }

    /// Counts what another has counted.
    pub fn merge(&mut self, other: &Self) {
        self.whole.merge(&other.whole);
        self.phases.iter_mut().zip(&other.phases).for_each(|(own, more)| own.merge(more));
    }

    /// Everything that was counted as a row of numbers, which may be added to those of others: so processes put their
    /// figures together.
    pub fn sums(&self) -> Vec<f64> {
        let groups = [&self.whole].into_iter().chain(&self.phases);
        groups.flat_map(|group| &group.means).flat_map(|mean| [mean.sum, mean.count as f64]).collect()
    }

    /// From such a row; none if it has another length.
    pub fn from_sums(sums: &[f64]) -> Option<Self> {
        let mut metrics = Self::default();
        let groups = [&mut metrics.whole].into_iter().chain(&mut metrics.phases);
        let means = groups.flat_map(|group| &mut group.means);
        let (pairs, rest) = sums.as_chunks::<2>();
        if pairs.len() != FIGURES * (1 + Phase::ALL.len()) || !rest.is_empty() {
            return None;
        }
        means.zip(pairs).for_each(|(mean, &[sum, count])| *mean = Mean { sum, count: count as u64 });
        Some(metrics)
    }

    /// The figures of all samples.
    pub fn whole(&self) -> &TransformerFigures {
        &self.whole
    }

    /// Those of each phase, in the order of [`Phase::ALL`].
    pub fn phases(&self) -> &[TransformerFigures; 3] {
        &self.phases
    }
}

/// Samples whose answers are being counted.
struct Batch<'a> {
    metrics: &'a mut TransformerMetrics,
    samples: &'a Samples,
    shape: &'a SampleShape,
    targets: &'a Targets,
}

impl<'a> Batch<'a> {
    fn count(&mut self, row: usize, figure: Figure, value: f64) {
        self.metrics.whole.means[figure.place()].add(value);
        self.metrics.phases[self.samples.phases[row] as usize].means[figure.place()].add(value);
    }

    fn count_if(&mut self, row: usize, figure: Figure, is_so: bool) {
        self.count(row, figure, f64::from(u8::from(is_so)));
    }

    /// The numbers of a head for a sample; none where the head is not there.
    fn row<'n>(&self, numbers: &'n [f32], row: usize) -> Option<&'n [f32]> {
        if numbers.is_empty() {
            return None;
        }
        let size = numbers.len() / self.samples.len();
        assert_eq!(numbers.len(), size * self.samples.len(), "as many numbers for each sample");
        Some(&numbers[row * size..][..size])
    }

    fn add_buckets(&mut self, row: usize, answers: &Answers<'_>) {
        let chance = f64::from(self.samples.chance[row]);
        for (head, numbers) in
            [(Head::ActionValue, answers.action_value), (Head::StateValue, answers.state_value)]
        {
            let Some(logits) = self.row(numbers, row).filter(|_| !chance.is_nan()) else { continue };
            let Some(buckets) = Buckets::new(logits.len()) else { continue };
            self.count(row, Figure::Loss(head), self.bucket_loss(buckets, logits, chance));
            let rank = rank_of(logits.iter().copied().enumerate(), buckets.bucket(chance));
            self.count_if(row, Figure::BucketTop1, rank < 1);
            self.count_if(row, Figure::BucketTop5, rank < 5);
            if answers.value.wdl.is_empty() {
                let error = 2.0 * (buckets.chance(logits) - chance);
                self.count(row, Figure::ValueError, error * error);
            }
        }
    }

    fn bucket_loss(&self, buckets: Buckets, logits: &[f32], chance: f64) -> f64 {
        let log_sum = log_sum_exp(logits.iter().copied());
        match self.targets.buckets {
            BucketTarget::CrossEntropy => log_sum - f64::from(logits[buckets.bucket(chance)]),
            BucketTarget::HlGauss { sigma } => {
                let mut target = vec![0.0; logits.len()];
                buckets.hl_gauss(chance, sigma, &mut target);
                let shares = target.iter().zip(logits).filter(|(share, _)| **share > 0.0);
                shares.map(|(share, logit)| f64::from(*share) * (log_sum - f64::from(*logit))).sum()
            }
        }
    }

    fn add_policies(&mut self, row: usize, answers: &Answers<'_>) {
        let Some(&number) = self.samples.policy.get(row).filter(|number| **number != NO_MOVE) else { return };
        let words = self.shape.legal_words();
        let legal = legal_numbers(&self.samples.legal[row * words..][..words]);
        let best = usize::from(number);
        let smoothing = self.targets.label_smoothing;
        // The best move has this share of the target, each of the others that.
        let rest = smoothing / legal.len() as f64;
        let shares = (1.0 - smoothing + rest, rest);
        if let Some(logits) = self.row(answers.policy, row) {
            let (loss, entropy) = policy_loss(logits, &legal, best, shares);
            self.count(row, Figure::Loss(Head::Policy), loss);
            self.count(row, Figure::ReduciblePolicyLoss, loss - entropy);
            let log_sum = log_sum_exp(legal.iter().map(|&at| logits[at]));
            let share = (f64::from(logits[best]) - log_sum).exp();
            self.count(row, Figure::SearchPolicyLoss, 1.0 / (share + SEARCH_FLOOR));
            let rank = rank_of(legal.iter().map(|&at| (at, logits[at])), best);
            for (figure, most) in [(Figure::PolicyTop1, 1), (Figure::PolicyTop3, 3), (Figure::PolicyTop5, 5)]
            {
                self.count_if(row, figure, rank < most);
            }
            let above =
                [Figure::PolicyAbove1, Figure::PolicyAbove2, Figure::PolicyAbove5, Figure::PolicyAbove10];
            for (figure, threshold) in above.into_iter().zip(THRESHOLDS) {
                self.count_if(row, figure, share > threshold);
            }
        }
        if let Some(logits) = self.row(answers.soft_policy, row) {
            let soft = (shares.0.powf(1.0 / SOFT_TEMPERATURE), shares.1.powf(1.0 / SOFT_TEMPERATURE));
            let sum = soft.0 + soft.1 * (legal.len() - 1) as f64;
            let (loss, _) = policy_loss(logits, &legal, best, (soft.0 / sum, soft.1 / sum));
            self.count(row, Figure::Loss(Head::SoftPolicy), loss);
        }
        if let Some(logits) = self.row(answers.optimistic_policy, row) {
            let (loss, _) = policy_loss(logits, &legal, best, shares);
            self.count(row, Figure::Loss(Head::OptimisticPolicy), self.surprise(row, answers) * loss);
        }
        let answer = self.samples.opponent.get(row).filter(|answer| **answer != NO_MOVE);
        if let (Some(logits), Some(&answer)) = (self.row(answers.opponent_policy, row), answer) {
            let loss = log_sum_exp(logits.iter().copied()) - f64::from(logits[usize::from(answer)]);
            self.count(row, Figure::Loss(Head::OpponentPolicy), loss);
        }
    }

    /// How much better than the network said it ended, from 0 to 1: so much does a move count for an optimist. All moves count
    /// alike where nothing is said of values.
    fn surprise(&self, row: usize, answers: &Answers<'_>) -> f64 {
        let Some(logits) = self.row(answers.value.wdl, row) else { return 1.0 };
        let Some(end) = self.samples.wdl.get(row).filter(|end| !end[0].is_nan()) else { return 0.0 };
        let said = chances(logits);
        (f64::from(end[0] - end[2]) - (said[0] - said[2])).clamp(0.0, 1.0)
    }

    fn add_values(&mut self, row: usize, answers: &Answers<'_>) {
        let samples = self.samples;
        // Each value head's counts as much as another's, as in a step.
        let (mut errors, mut surprises_of_buckets) = (None, None);
        for (head, said, known) in [
            (Head::Value, answers.value, &samples.wdl),
            (Head::SearchValue, answers.search_value, &samples.search),
            (Head::ShortTerm, answers.short_term, &samples.short_term),
        ] {
            let Some(target) = known.get(row).filter(|target| !target[0].is_nan()) else { continue };
            let Some(logits) = self.row(said.wdl, row) else { continue };
            let target = target.map(f64::from);
            let log_sum = log_sum_exp(logits.iter().copied());
            let smoothing = self.targets.label_smoothing;
            let taught = target.map(|share| (1.0 - smoothing) * share + smoothing / 3.0);
            let surprises =
                logits.iter().zip(taught).map(|(logit, share)| share * (log_sum - f64::from(*logit)));
            self.count(row, Figure::Loss(head), surprises.sum());
            let given = chances(logits);
            let (value, wanted) = (given[0] - given[2], target[0] - target[2]);
            let error = (value - wanted) * (value - wanted);
            if head == Head::Value {
                self.count_if(row, Figure::ValueAccuracy, greatest(&given) == greatest(&target));
                self.count(row, Figure::ValueError, error);
            }
            if let Some(foretold) = self.row(said.error, row) {
                // It foretells the error of chances, which go from 0 to 1 where values go from -1 to 1.
                let difference = f64::from(foretold[0]) - error / 4.0;
                *errors.get_or_insert(0.0) += difference * difference;
            }
            let logits = self.row(said.buckets, row);
            if let Some((logits, buckets)) = logits.and_then(|row| Some((row, Buckets::new(row.len())?))) {
                let loss = self.bucket_loss(buckets, logits, (wanted + 1.0) / 2.0);
                *surprises_of_buckets.get_or_insert(0.0) += loss;
            }
        }
        for (head, loss) in [(Head::Error, errors), (Head::ValueBuckets, surprises_of_buckets)] {
            loss.into_iter().for_each(|loss| self.count(row, Figure::Loss(head), loss));
        }
    }

    fn add_moves(&mut self, row: usize, answers: &Answers<'_>) {
        let left = self.samples.moves_left.get(row).filter(|left| !left.is_nan());
        if let (Some(said), Some(&left)) = (self.row(answers.moves_left, row), left) {
            let error = f64::from(said[0] - left).abs() / MOVES_LEFT_UNIT;
            let bent = MOVES_LEFT_BEND * (error - MOVES_LEFT_BEND / 2.0);
            let loss = if error <= MOVES_LEFT_BEND { error * error / 2.0 } else { bent };
            self.count(row, Figure::Loss(Head::MovesLeft), loss);
        }
        let number = self.samples.policy.get(row).filter(|number| **number != NO_MOVE);
        let chance = f64::from(self.samples.chance[row]);
        if let (Some(said), Some(&number), false) =
            (self.row(answers.move_value, row), number, chance.is_nan())
        {
            let error = f64::from(said[usize::from(number)]) - (2.0 * chance - 1.0);
            self.count(row, Figure::Loss(Head::MoveValue), error * error);
        }
    }

    /// Samples of one position that stand together are moves of it, which the network puts in an order.
    fn add_rankings(&mut self, answers: &Answers<'_>) {
        if answers.action_value.is_empty() {
            return;
        }
        let samples = self.samples;
        let mut start = 0;
        for moves in samples.keys.chunk_by(|one, other| one == other) {
            let place = start..start + moves.len();
            start = place.end;
            let right: Vec<f64> = samples.chance[place.clone()].iter().map(|&chance| chance.into()).collect();
            if moves.len() < 2 || right.iter().any(|chance| chance.is_nan()) {
                continue;
            }
            let said = place.clone().filter_map(|row| {
                let logits = self.row(answers.action_value, row)?;
                Some(Buckets::new(logits.len())?.chance(logits))
            });
            let said: Vec<f64> = said.collect();
            let (Some(chosen), Some(best)) = (greatest(&said), greatest(&right)) else { continue };
            self.count_if(place.start, Figure::ActionAccuracy, right[chosen] == right[best]);
            if let Some(tau) = kendall(&said, &right) {
                self.count(place.start, Figure::KendallTau, tau);
            }
            if let Some(tau) = searchless_kendall(&said, &right) {
                self.count(place.start, Figure::SearchlessTau, tau);
            }
        }
    }
}

/// The numbers of the moves in a set.
fn legal_numbers(words: &[u64]) -> Vec<usize> {
    let mut numbers = Vec::with_capacity(64);
    for (at, &word) in words.iter().enumerate() {
        let mut left = word;
        while left != 0 {
            numbers.push(64 * at + left.trailing_zeros() as usize);
            left &= left - 1;
        }
    }
    numbers
}

/// The surprise of a policy over the legal moves, of which the best should have one share and each of the others another;
/// and how much of it no policy can avoid.
fn policy_loss(logits: &[f32], legal: &[usize], best: usize, (to_best, to_others): (f64, f64)) -> (f64, f64) {
    let log_sum = log_sum_exp(legal.iter().map(|&at| logits[at]));
    let (mut loss, mut entropy) = (0.0, 0.0);
    for &at in legal {
        let share = if at == best { to_best } else { to_others };
        if share > 0.0 {
            loss += share * (log_sum - f64::from(logits[at]));
            entropy -= share * share.ln();
        }
    }
    (loss, entropy)
}

/// What logits are worth as chances.
fn chances(logits: &[f32]) -> Vec<f64> {
    let log_sum = log_sum_exp(logits.iter().copied());
    logits.iter().map(|logit| (f64::from(*logit) - log_sum).exp()).collect()
}

/// The logarithm of the sum of powers of e.
fn log_sum_exp(logits: impl Iterator<Item = f32> + Clone) -> f64 {
    let greatest = logits.clone().fold(f32::NEG_INFINITY, f32::max);
    let greatest = f64::from(if greatest.is_finite() { greatest } else { 0.0 });
    greatest + logits.map(|logit| (f64::from(logit) - greatest).exp()).sum::<f64>().ln()
}

/// How many logits come before that of a number: the greater ones, and of equal ones those with smaller numbers.
fn rank_of(logits: impl Iterator<Item = (usize, f32)> + Clone, number: usize) -> usize {
    let own = logits.clone().find(|(at, _)| *at == number).map_or(f32::NAN, |(_, own)| own);
    // What is no number must not look like success: it comes before others, and after all where it is asked for.
    if own.is_nan() {
        return usize::MAX;
    }
    let before =
        |&(at, logit): &(usize, f32)| at != number && !(logit < own || (logit == own && at > number));
    logits.filter(before).count()
}

#[cfg(test)]
mod tests {
    use super::super::samples::test_games::games;
    use super::super::samples::{Aim, View};
    use super::*;
    use tandem_chess::Position;
    use tandem_chess::random::SplitMix;
    use tandem_data::{Record, Score};
    use tandem_transformer::Preset;

    const AIM: Aim = Aim { scale: 300.0, result_share: 0.0, value_result_share: 1.0 };

    fn near(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!((found - expected).abs() < 1e-6 * expected.abs().max(1.0), "{found} {expected}");
    }

    fn samples(preset: Preset, records: &[Record]) -> (Samples, SampleShape) {
        let shape = SampleShape::of(&preset.architecture());
        let mut samples = Samples::default();
        for at in 0..records.len() {
            samples.push(&shape, (records, at), true, View::default(), &AIM).unwrap();
        }
        (samples, shape)
    }

    #[test]
    fn a_policy_is_judged_among_legal_moves() {
        let records = games(3, 2);
        let (samples, shape) = samples(Preset::BtSmall, &records);
        let legal = |row: usize| legal_numbers(&samples.legal[row * 30..][..30]);
        // All legal moves alike, and illegal ones far above.
        let mut logits = vec![0.0f32; 1858 * samples.len()];
        for row in 0..samples.len() {
            logits[row * 1858..][..1858].fill(50.0);
            legal(row).iter().for_each(|&at| logits[row * 1858 + at] = 1.0);
        }
        let mut metrics = TransformerMetrics::default();
        let targets = Targets::default();
        metrics.add(&samples, &shape, &targets, &Answers { policy: &logits, ..Answers::default() });
        let mean = |of: &dyn Fn(usize) -> f64| (0..samples.len()).map(of).sum::<f64>() / samples.len() as f64;
        let count = |row: usize| legal(row).len() as f64;
        let whole = metrics.whole();
        near(whole.get(Figure::Loss(Head::Policy)), mean(&|row| count(row).ln()));
        near(whole.get(Figure::SearchPolicyLoss), mean(&|row| 1.0 / (1.0 / count(row) + 0.003)));
        near(whole.get(Figure::PolicyAbove1), 1.0);
        let above = whole.get(Figure::PolicyAbove5).unwrap();
        assert!(above > 0.0 && above <= mean(&|row| f64::from(u8::from(count(row) <= 20.0))));
        let place =
            |row: usize| legal(row).iter().position(|&at| at == usize::from(samples.policy[row])).unwrap();
        near(whole.get(Figure::PolicyTop3), mean(&|row| f64::from(u8::from(place(row) < 3))));
        // The right move above all.
        for row in 0..samples.len() {
            logits[row * 1858 + usize::from(samples.policy[row])] = 20.0;
        }
        let mut metrics = TransformerMetrics::default();
        let smoothed = Targets { label_smoothing: 0.1, ..Targets::default() };
        metrics.add(&samples, &shape, &smoothed, &Answers { policy: &logits, ..Answers::default() });
        for figure in [Figure::PolicyTop1, Figure::PolicyTop5, Figure::PolicyAbove10] {
            near(metrics.whole().get(figure), 1.0);
        }
        let [loss, reducible] = [Figure::Loss(Head::Policy), Figure::ReduciblePolicyLoss]
            .map(|figure| metrics.whole().get(figure).unwrap());
        assert!(0.0 < reducible && reducible < loss);
        assert_eq!(metrics.whole().get(Figure::Loss(Head::Value)), None);
        let phases = metrics.phases().each_ref().map(|phase| phase.count(Figure::PolicyTop1));
        assert_eq!(phases.iter().sum::<u64>(), samples.len() as u64);
    }

    #[test]
    fn buckets_and_values_are_judged_by_their_targets() {
        let records = games(2, 3);
        let (samples, shape) = samples(Preset::Byte, &records);
        let mut logits = vec![0.0f32; 128 * samples.len()];
        let judge = |logits: &[f32], buckets: BucketTarget| {
            let mut metrics = TransformerMetrics::default();
            let targets = Targets { buckets, ..Targets::default() };
            metrics.add(&samples, &shape, &targets, &Answers { action_value: logits, ..Answers::default() });
            metrics.whole().clone()
        };
        for buckets in [BucketTarget::CrossEntropy, BucketTarget::HlGauss { sigma: 0.75 }] {
            near(judge(&logits, buckets).get(Figure::Loss(Head::ActionValue)), 128f64.ln());
        }
        for row in 0..samples.len() {
            let bucket = Buckets::SEARCHLESS.bucket(samples.chance[row].into());
            logits[row * 128 + bucket] = 100.0;
        }
        let sure = judge(&logits, BucketTarget::CrossEntropy);
        near(sure.get(Figure::Loss(Head::ActionValue)), 0.0);
        near(sure.get(Figure::BucketTop1), 1.0);
        assert!(sure.get(Figure::ValueError).unwrap() < 1e-4);
        assert!(
            judge(&logits, BucketTarget::HlGauss { sigma: 0.75 })
                .get(Figure::Loss(Head::ActionValue))
                .unwrap()
                > 1.0
        );

        let (samples, shape) = self::samples(Preset::BtSmall, &records);
        let wdl: Vec<f32> = samples.wdl.iter().flatten().map(|share| 30.0 * share).collect();
        let left: Vec<f32> = samples.moves_left.iter().map(|left| left + 20.0).collect();
        let error = vec![0.25; samples.len()];
        let value = ValueAnswers { wdl: &wdl, error: &error, buckets: &[] };
        let mut metrics = TransformerMetrics::default();
        metrics.add(
            &samples,
            &shape,
            &Targets::default(),
            &Answers { value, moves_left: &left, ..Answers::default() },
        );
        near(metrics.whole().get(Figure::ValueAccuracy), 1.0);
        near(metrics.whole().get(Figure::ValueError), 0.0);
        near(metrics.whole().get(Figure::Loss(Head::Error)), 0.0625);
        // The error of each value that is foretold counts.
        let mut of_two = TransformerMetrics::default();
        let searched = Samples { search: samples.wdl.clone(), ..samples.clone() };
        let answers = Answers { value, search_value: value, ..Answers::default() };
        of_two.add(&searched, &shape, &Targets::default(), &answers);
        near(of_two.whole().get(Figure::Loss(Head::Error)), 0.125);
        assert_eq!(of_two.whole().count(Figure::Loss(Head::Error)), samples.len() as u64);
        if shape.moves_left {
            // One unit off: half a unit bent, and straight from there.
            near(metrics.whole().get(Figure::Loss(Head::MovesLeft)), 0.375);
        }
        let weights = HeadWeights { value: 2.0, error: 4.0, moves_left: 0.0, ..HeadWeights::default() };
        near(metrics.whole().loss(&weights), 0.25);
        assert_eq!(TransformerMetrics::default().whole().loss(&weights), None);
    }

    #[test]
    fn moves_of_a_position_are_ranked() {
        let mut random = SplitMix::new(4);
        let mut records = Vec::new();
        for record in games(3, 5).iter().step_by(9) {
            let position = Position::from(record.position.board().unwrap());
            for mv in position.legal_moves() {
                let score = Some(Score::WinChance(random.unit()));
                records.push(Record { mv: Some(mv), score, ..*record });
            }
        }
        let (samples, shape) = samples(Preset::Byte, &records);
        let judge = |chance: &dyn Fn(f64) -> f64| {
            let mut logits = vec![0.0f32; 2 * samples.len()];
            // Two buckets, of which the upper one grows with the chance.
            for row in 0..samples.len() {
                logits[2 * row + 1] = chance(samples.chance[row].into()) as f32;
            }
            let mut metrics = TransformerMetrics::default();
            metrics.add(
                &samples,
                &shape,
                &Targets::default(),
                &Answers { action_value: &logits, ..Answers::default() },
            );
            metrics.whole().clone()
        };
        let right = judge(&|chance| chance);
        let positions = games(3, 5).len().div_ceil(9) as u64;
        assert!(right.count(Figure::ActionAccuracy) <= positions && right.count(Figure::ActionAccuracy) > 5);
        for figure in [Figure::ActionAccuracy, Figure::KendallTau, Figure::SearchlessTau] {
            near(right.get(figure), 1.0);
        }
        let wrong = judge(&|chance| -chance);
        near(wrong.get(Figure::ActionAccuracy), 0.0);
        near(wrong.get(Figure::KendallTau), -1.0);
    }

    #[test]
    fn parts_make_the_whole() {
        let records = games(4, 6);
        let (samples, shape) = samples(Preset::BtSmall, &records);
        let mut random = SplitMix::new(1);
        let mut numbers =
            |count: usize| -> Vec<f32> { (0..count).map(|_| random.unit() as f32 * 8.0 - 4.0).collect() };
        let policy = numbers(1858 * samples.len());
        let wdl = numbers(3 * samples.len());
        let value = ValueAnswers { wdl: &wdl, ..ValueAnswers::default() };
        let targets = Targets::default();
        let mut whole = TransformerMetrics::default();
        whole.add(&samples, &shape, &targets, &Answers { policy: &policy, value, ..Answers::default() });
        let half = records.len() / 2;
        let parts = [0..half, half..records.len()].map(|rows| {
            let mut part = Samples::default();
            for at in rows.clone() {
                part.push(&shape, (&records, at), true, View::default(), &AIM).unwrap();
            }
            let value = ValueAnswers { wdl: &wdl[3 * rows.start..3 * rows.end], ..ValueAnswers::default() };
            let mut metrics = TransformerMetrics::default();
            let policy = &policy[1858 * rows.start..1858 * rows.end];
            metrics.add(&part, &shape, &targets, &Answers { policy, value, ..Answers::default() });
            metrics
        });
        let mut merged = parts[0].clone();
        merged.merge(&parts[1]);
        let added: Vec<f64> =
            parts[0].sums().iter().zip(parts[1].sums()).map(|(one, other)| one + other).collect();
        assert_eq!(TransformerMetrics::from_sums(&added), Some(merged.clone()));
        assert_eq!(TransformerMetrics::from_sums(&added[1..]), None);
        for figure in Figure::all() {
            assert_eq!(merged.whole().count(figure), whole.whole().count(figure));
            match whole.whole().get(figure) {
                Some(expected) => near(merged.whole().get(figure), expected),
                None => assert_eq!(merged.whole().get(figure), None),
            }
        }
        let names: std::collections::HashSet<String> = Figure::all().map(Figure::name).collect();
        assert_eq!(names.len(), FIGURES);
    }

    #[test]
    fn what_is_no_number_is_no_success() {
        let (samples, shape) = samples(Preset::BtSmall, &games(1, 1));
        let logits = vec![f32::NAN; 1858 * samples.len()];
        let mut metrics = TransformerMetrics::default();
        metrics.add(
            &samples,
            &shape,
            &Targets::default(),
            &Answers { policy: &logits, ..Answers::default() },
        );
        near(metrics.whole().get(Figure::PolicyAbove1), 0.0);
        near(metrics.whole().get(Figure::PolicyTop1), 0.0);
        assert!(metrics.whole().get(Figure::Loss(Head::Policy)).unwrap().is_nan());
    }
}
