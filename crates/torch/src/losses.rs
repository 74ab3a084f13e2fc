//! Losses of a training step, one per head.
//!
//! A position without a target for a head adds nothing to that head's loss, and every loss is a sum over the
//! positions of a step divided by their number. So the gradients of a step are the mean over its
//! micro-batches, for any gradient accumulation. The load-balancing loss of experts is the exception: it is a
//! product of two means, and balances each micro-batch by itself.

use crate::batch::Batch;
use crate::model::{ModelOutput, Routing};
use std::f64::consts::FRAC_1_SQRT_2;
use tandem_train::transformer::{
    BucketTarget, MOVES_LEFT_HUBER_DELTA, MOVES_LEFT_UNIT, SOFT_TEMPERATURE, Targets,
};
use tandem_transformer::PolicyTarget;
use tch::{Device, Kind, Tensor};

/// Unweighted losses by head, and the weighted total that is differentiated.
pub(crate) struct Losses {
    pub(crate) total: Tensor,
    pub(crate) by_head: Vec<(String, Tensor)>,
}

/// Collects the losses of a batch with their weights.
struct LossCollector<'a> {
    batch: &'a Batch,
    by_head: Vec<(String, f64, Tensor)>,
}

impl LossCollector<'_> {
    /// Adds the loss of a head: one value per position, multiplied by a mask that is zero where the target is
    /// unknown.
    fn add(&mut self, name: &str, weight: f64, losses: &Tensor, mask: &Tensor) {
        let loss = (losses * mask).sum(Kind::Float) / self.batch.len as f64;
        self.by_head.push((name.to_owned(), weight, loss));
    }
}

/// Losses of a network's output against the targets of a batch.
pub(crate) fn compute_losses(output: &ModelOutput, batch: &Batch, targets: &Targets) -> Losses {
    let weights = &targets.weights;
    let mut collected = LossCollector { batch, by_head: Vec::new() };
    let head = |name: &str| output.heads.get(name).map(|values| values.to_kind(Kind::Float));
    let win_probability_known = known_mask(&batch.win_probability);
    let win_probability = batch.win_probability.nan_to_num(0.0, 0.0, 0.0);

    for (name, weight) in [("action_value", weights.action_value), ("state_value", weights.state_value)] {
        if let Some(logits) = head(name) {
            collected.add(
                name,
                weight,
                &bucket_cross_entropy(&logits, &win_probability, targets.buckets),
                &win_probability_known,
            );
        }
    }

    // Expected score from -1 to 1. Detached, because it serves as a constant for other losses.
    let expected_score = |wdl: &Tensor| wdl.select(1, 0) - wdl.select(1, 2);
    let predicted_score =
        head("value.wdl").map(|logits| expected_score(&logits.softmax(-1, Kind::Float)).detach());

    let move_targets = batch.policy.as_ref().map(MoveTargets::new);
    if let (Some(logits), Some(move_targets), Some(legal)) = (head("policy"), &move_targets, &batch.legal) {
        let policy = PolicyTargets::new(move_targets, legal, logits.size()[1], targets.label_smoothing);
        collected.add("policy", weights.policy, &policy.cross_entropy(&logits, 1.0), &move_targets.known);
        for target in PolicyTarget::ALL {
            let Some(logits) = head(target.name()) else { continue };
            let weight = weights.auxiliary_policy(target);
            match target {
                PolicyTarget::Soft => {
                    collected.add(
                        target.name(),
                        weight,
                        &policy.cross_entropy(&logits, SOFT_TEMPERATURE),
                        &move_targets.known,
                    );
                }
                PolicyTarget::Optimistic => {
                    let optimism = predicted_score.as_ref().map(|value| {
                        let result = expected_score(&batch.wdl.nan_to_num(0.0, 0.0, 0.0));
                        (result - value).clamp(0.0, 1.0) * known_mask(&batch.wdl.select(1, 0))
                    });
                    let mask = optimism.map_or_else(
                        || move_targets.known.shallow_clone(),
                        |optimism| optimism * &move_targets.known,
                    );
                    collected.add(target.name(), weight, &policy.cross_entropy(&logits, 1.0), &mask);
                }
                PolicyTarget::Opponent => {
                    let Some(replies) = &batch.opponent else { continue };
                    let index = replies.to_kind(Kind::Int64);
                    let known = index.ge(0).to_kind(Kind::Float);
                    let index = index.clamp_min(0).unsqueeze(1);
                    let losses = -logits.log_softmax(-1, Kind::Float).gather(1, &index, false).squeeze_dim(1);
                    collected.add(target.name(), weight, &losses, &known);
                }
            }
        }
    }
    if let (Some(values), Some(move_targets)) = (head("move_value"), &move_targets) {
        let value = values.gather(1, &move_targets.index, false).squeeze_dim(1);
        let losses = (value - (&win_probability * 2.0 - 1.0)).square();
        collected.add(
            "move_value",
            weights.move_value,
            &losses,
            &(&move_targets.known * &win_probability_known),
        );
    }

    let values = [
        ("value", weights.value, Some(&batch.wdl)),
        ("search_value", weights.search_value, batch.search.as_ref()),
        ("short_term", weights.short_term, batch.short_term.as_ref()),
    ];
    for (name, weight, outcomes) in values {
        let (Some(logits), Some(outcomes)) = (head(&format!("{name}.wdl")), outcomes) else { continue };
        let known = known_mask(&outcomes.select(1, 0));
        let outcomes = outcomes.nan_to_num(0.0, 0.0, 0.0);
        let smooth = &outcomes * (1.0 - targets.label_smoothing) + targets.label_smoothing / 3.0;
        let losses = -(logits.log_softmax(-1, Kind::Float) * smooth).sum_dim_intlist(1, false, Kind::Float);
        collected.add(&format!("{name}.wdl"), weight, &losses, &known);
        let (predicted, actual) =
            (expected_score(&logits.softmax(-1, Kind::Float)).detach(), expected_score(&outcomes));
        if let Some(error) = head(&format!("{name}.error")) {
            // Halved, so that the squared error of win probabilities stays between 0 and 1.
            let square = ((&actual - predicted) / 2.0).square();
            let losses = (error.squeeze_dim(1) - square).square();
            collected.add(&format!("{name}.error"), weights.error, &losses, &known);
        }
        if let Some(buckets) = head(&format!("{name}.buckets")) {
            let losses = bucket_cross_entropy(&buckets, &((actual + 1.0) / 2.0), targets.buckets);
            collected.add(&format!("{name}.buckets"), weights.value_buckets, &losses, &known);
        }
    }

    if let (Some(plies), Some(left)) = (head("moves_left"), &batch.moves_left) {
        let known = known_mask(left);
        let left = left.nan_to_num(0.0, 0.0, 0.0);
        let difference = ((plies.squeeze_dim(1) - left) / MOVES_LEFT_UNIT).abs();
        // Huber loss: quadratic, then linear, because positions far from the end of the game would dominate
        // otherwise.
        let clamped = difference.clamp_max(MOVES_LEFT_HUBER_DELTA);
        let losses = (&difference - &clamped * 0.5) * &clamped;
        collected.add("moves_left", weights.moves_left, &losses, &known);
    }

    if !output.routing.is_empty() {
        let (load_balance, z_loss) = router_losses(&output.routing);
        collected.by_head.push(("experts.balance".into(), weights.load_balance, load_balance));
        collected.by_head.push(("experts.z".into(), weights.router_z, z_loss));
    }

    let weighted = collected.by_head.iter().map(|(_, weight, loss)| loss * *weight);
    let total = weighted.reduce(|left, right| left + right);
    let total = total.unwrap_or_else(|| Tensor::zeros([], (Kind::Float, batch.win_probability.device())));
    let by_head = collected.by_head.into_iter().map(|(name, _, loss)| (name, loss.detach())).collect();
    Losses { total, by_head }
}

/// Mask that is 1 for known targets and 0 for NaN.
fn known_mask(values: &Tensor) -> Tensor {
    values.isnan().logical_not().to_kind(Kind::Float)
}

/// Indices of the played moves, and a mask that is zero where the move is unknown.
struct MoveTargets {
    index: Tensor,
    known: Tensor,
}

impl MoveTargets {
    fn new(moves: &Tensor) -> Self {
        let index = moves.to_kind(Kind::Int64);
        Self { known: index.ge(0).to_kind(Kind::Float), index: index.clamp_min(0).unsqueeze(1) }
    }
}

/// Targets of a policy head: the played move among the legal ones, with label smoothing.
struct PolicyTargets<'a> {
    move_targets: &'a MoveTargets,
    illegal: Tensor,
    legal: Tensor,
    /// Number of legal moves, at least 1.
    legal_count: Tensor,
    smoothing: f64,
}

impl<'a> PolicyTargets<'a> {
    fn new(move_targets: &'a MoveTargets, legal: &Tensor, moves_of_head: i64, smoothing: f64) -> Self {
        let bits = Tensor::arange(64, (Kind::Int64, legal.device()));
        let legal = legal.unsqueeze(2).bitwise_right_shift(&bits).bitwise_and(1);
        let legal = legal.reshape([legal.size()[0], -1]).narrow(1, 0, moves_of_head);
        let illegal = legal.eq(0);
        let legal = legal.to_kind(Kind::Float);
        Self {
            move_targets,
            legal_count: legal.sum_dim_intlist(1, false, Kind::Float).clamp_min(1.0),
            illegal,
            legal,
            smoothing,
        }
    }

    /// Policy loss: cross-entropy of each position over its legal moves, against the target distribution
    /// raised to the power of 1 / `temperature` and normalised again.
    fn cross_entropy(&self, logits: &Tensor, temperature: f64) -> Tensor {
        // A finite value instead of minus infinity, because 0 times infinity would be NaN.
        let log_probabilities = logits.masked_fill(&self.illegal, -1e9).log_softmax(-1, Kind::Float);
        let played = log_probabilities.gather(1, &self.move_targets.index, false).squeeze_dim(1);
        if self.smoothing == 0.0 {
            return -played;
        }
        let target_of_others = self.smoothing / &self.legal_count;
        let target_of_played =
            (&target_of_others + (1.0 - self.smoothing)).pow_tensor_scalar(1.0 / temperature);
        let target_of_others = target_of_others.pow_tensor_scalar(1.0 / temperature);
        let normaliser = &target_of_played + &target_of_others * (&self.legal_count - 1.0);
        let log_probability_sum = (log_probabilities * &self.legal).sum_dim_intlist(1, false, Kind::Float);
        -(played * (target_of_played - &target_of_others) + log_probability_sum * target_of_others)
            / normaliser
    }
}

/// Cross-entropy of a distribution over equal intervals of the win probability.
fn bucket_cross_entropy(logits: &Tensor, win_probability: &Tensor, target: BucketTarget) -> Tensor {
    let bucket_count = logits.size()[1];
    let log_probabilities = logits.log_softmax(-1, Kind::Float);
    match target {
        BucketTarget::CrossEntropy => {
            // A value on the edge of two buckets belongs to the lower one; f32 could round it to either.
            let bucket =
                (win_probability.to_kind(widest_float(logits.device())) * bucket_count as f64).ceil() - 1.0;
            let bucket = bucket.clamp(0.0, bucket_count as f64 - 1.0).to_kind(Kind::Int64).unsqueeze(1);
            -log_probabilities.gather(1, &bucket, false).squeeze_dim(1)
        }
        BucketTarget::HlGauss { sigma } => {
            let kind = widest_float(logits.device());
            let edges = Tensor::arange(bucket_count + 1, (kind, logits.device()));
            let position = win_probability.to_kind(kind).unsqueeze(1) * bucket_count as f64;
            let cdf = ((edges - position) * (FRAC_1_SQRT_2 / sigma)).erf();
            let probabilities = cdf.narrow(1, 1, bucket_count) - cdf.narrow(1, 0, bucket_count);
            let normaliser = cdf.narrow(1, bucket_count, 1) - cdf.narrow(1, 0, 1);
            let probabilities = (probabilities / normaliser).to_kind(Kind::Float);
            -(log_probabilities * probabilities).sum_dim_intlist(1, false, Kind::Float)
        }
    }
}

/// Widest floating-point type of a device, because Apple's GPUs do not support f64.
fn widest_float(device: Device) -> Kind {
    if device == Device::Mps { Kind::Float } else { Kind::Double }
}

/// Load-balancing loss of Switch Transformers and router z-loss of ST-MoE, each the mean over layers.
fn router_losses(routing: &[Routing]) -> (Tensor, Tensor) {
    let mean = |losses: Vec<Tensor>| Tensor::stack(&losses, 0).mean(Kind::Float);
    let load_balance = routing.iter().map(|layer| {
        let probabilities = layer.logits.softmax(-1, Kind::Float).mean_dim(&[0i64][..], false, Kind::Float);
        (&layer.load * probabilities).sum(Kind::Float) * layer.load.size()[0] as f64
    });
    let z_loss =
        routing.iter().map(|layer| layer.logits.logsumexp(&[-1i64][..], false).square().mean(Kind::Float));
    (mean(load_balance.collect()), mean(z_loss.collect()))
}
