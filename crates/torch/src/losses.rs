//! How wrong what a network says is.
//!
//! A position that does not know a head's target adds nothing to that head's loss, and all losses are sums over the
//! positions of a step divided by their number: so the slopes of a step are the mean of its parts', however it is cut up. What
//! keeps experts busy is not: it is a product of two means, and balances each part by itself.

use crate::batch::Batch;
use crate::model::{Routing, Said};
use std::f64::consts::FRAC_1_SQRT_2;
use tandem_train::transformer::{BucketTarget, MOVES_LEFT_BEND, MOVES_LEFT_UNIT, SOFT_TEMPERATURE, Targets};
use tandem_transformer::PolicyTarget;
use tch::{Device, Kind, Tensor};

/// The losses of a step, by name, before they are weighted; and their weighted sum.
pub(crate) struct Wrong {
    pub(crate) sum: Tensor,
    pub(crate) parts: Vec<(String, Tensor)>,
}

/// Adds up what is wrong.
struct Sum<'a> {
    batch: &'a Batch,
    parts: Vec<(String, f64, Tensor)>,
}

impl Sum<'_> {
    /// A loss for each position, of which those with a weight of zero do not count.
    fn add(&mut self, name: &str, weight: f64, losses: &Tensor, known: &Tensor) {
        let loss = (losses * known).sum(Kind::Float) / self.batch.len as f64;
        self.parts.push((name.to_owned(), weight, loss));
    }
}

/// How wrong a network is about a batch.
pub(crate) fn wrong(said: &Said, batch: &Batch, targets: &Targets) -> Wrong {
    let weights = &targets.weights;
    let mut sum = Sum { batch, parts: Vec::new() };
    let head = |name: &str| said.heads.get(name).map(|numbers| numbers.to_kind(Kind::Float));
    let chance_known = known(&batch.chance);
    let chance = batch.chance.nan_to_num(0.0, 0.0, 0.0);

    for (name, weight) in [("action_value", weights.action_value), ("state_value", weights.state_value)] {
        if let Some(logits) = head(name) {
            sum.add(name, weight, &of_buckets(&logits, &chance, targets.buckets), &chance_known);
        }
    }

    // The value that is said, from -1 to 1, for what is measured by it.
    let balance = |wdl: &Tensor| wdl.select(1, 0) - wdl.select(1, 2);
    let value_said = head("value.wdl").map(|logits| balance(&logits.softmax(-1, Kind::Float)).detach());

    let played = batch.policy.as_ref().map(Played::new);
    if let (Some(logits), Some(played), Some(legal)) = (head("policy"), &played, &batch.legal) {
        let policy = Policy::new(played, legal, logits.size()[1], targets.label_smoothing);
        sum.add("policy", weights.policy, &policy.wrong(&logits, 1.0), &played.known);
        for target in PolicyTarget::ALL {
            let Some(logits) = head(target.name()) else { continue };
            let weight = weights.beside(target);
            match target {
                PolicyTarget::Soft => {
                    sum.add(target.name(), weight, &policy.wrong(&logits, SOFT_TEMPERATURE), &played.known);
                }
                PolicyTarget::Optimistic => {
                    let surprise = value_said.as_ref().map(|value| {
                        let result = balance(&batch.wdl.nan_to_num(0.0, 0.0, 0.0));
                        (result - value).clamp(0.0, 1.0) * known(&batch.wdl.select(1, 0))
                    });
                    let counted =
                        surprise.map_or_else(|| played.known.shallow_clone(), |share| share * &played.known);
                    sum.add(target.name(), weight, &policy.wrong(&logits, 1.0), &counted);
                }
                PolicyTarget::Opponent => {
                    let Some(answers) = &batch.opponent else { continue };
                    let number = answers.to_kind(Kind::Int64);
                    let there = number.ge(0).to_kind(Kind::Float);
                    let place = number.clamp_min(0).unsqueeze(1);
                    let losses = -logits.log_softmax(-1, Kind::Float).gather(1, &place, false).squeeze_dim(1);
                    sum.add(target.name(), weight, &losses, &there);
                }
            }
        }
    }
    if let (Some(values), Some(played)) = (head("move_value"), &played) {
        let value = values.gather(1, &played.place, false).squeeze_dim(1);
        let losses = (value - (&chance * 2.0 - 1.0)).square();
        sum.add("move_value", weights.move_value, &losses, &(&played.known * &chance_known));
    }

    let values = [
        ("value", weights.value, Some(&batch.wdl)),
        ("search_value", weights.search_value, batch.search.as_ref()),
        ("short_term", weights.short_term, batch.short_term.as_ref()),
    ];
    for (name, weight, outcomes) in values {
        let (Some(logits), Some(outcomes)) = (head(&format!("{name}.wdl")), outcomes) else { continue };
        let there = known(&outcomes.select(1, 0));
        let outcomes = outcomes.nan_to_num(0.0, 0.0, 0.0);
        let smooth = &outcomes * (1.0 - targets.label_smoothing) + targets.label_smoothing / 3.0;
        let losses = -(logits.log_softmax(-1, Kind::Float) * smooth).sum_dim_intlist(1, false, Kind::Float);
        sum.add(&format!("{name}.wdl"), weight, &losses, &there);
        let (said, wanted) = (balance(&logits.softmax(-1, Kind::Float)).detach(), balance(&outcomes));
        if let Some(error) = head(&format!("{name}.error")) {
            // Of chances, so that it stays between 0 and 1.
            let square = ((&wanted - said) / 2.0).square();
            let losses = (error.squeeze_dim(1) - square).square();
            sum.add(&format!("{name}.error"), weights.error, &losses, &there);
        }
        if let Some(buckets) = head(&format!("{name}.buckets")) {
            let losses = of_buckets(&buckets, &((wanted + 1.0) / 2.0), targets.buckets);
            sum.add(&format!("{name}.buckets"), weights.value_buckets, &losses, &there);
        }
    }

    if let (Some(plies), Some(left)) = (head("moves_left"), &batch.moves_left) {
        let there = known(left);
        let left = left.nan_to_num(0.0, 0.0, 0.0);
        let difference = ((plies.squeeze_dim(1) - left) / MOVES_LEFT_UNIT).abs();
        // A parabola that goes on as a line: games whose end is far off are not all that counts.
        let bent = difference.clamp_max(MOVES_LEFT_BEND);
        let losses = (&difference - &bent * 0.5) * &bent;
        sum.add("moves_left", weights.moves_left, &losses, &there);
    }

    if !said.routing.is_empty() {
        let (balance, size) = of_routers(&said.routing);
        sum.parts.push(("experts.balance".into(), weights.load_balance, balance));
        sum.parts.push(("experts.z".into(), weights.router_z, size));
    }

    let weighted = sum.parts.iter().map(|(_, weight, loss)| loss * *weight);
    let total = weighted.reduce(|left, right| left + right);
    let total = total.unwrap_or_else(|| Tensor::zeros([], (Kind::Float, batch.chance.device())));
    let parts = sum.parts.into_iter().map(|(name, _, loss)| (name, loss.detach())).collect();
    Wrong { sum: total, parts }
}

/// One where a number is known, zero where it is NaN.
fn known(numbers: &Tensor) -> Tensor {
    numbers.isnan().logical_not().to_kind(Kind::Float)
}

/// The moves that were played.
struct Played {
    place: Tensor,
    known: Tensor,
}

impl Played {
    fn new(moves: &Tensor) -> Self {
        let number = moves.to_kind(Kind::Int64);
        Self { known: number.ge(0).to_kind(Kind::Float), place: number.clamp_min(0).unsqueeze(1) }
    }
}

/// The moves that were played, among those that are legal.
struct Policy<'a> {
    played: &'a Played,
    illegal: Tensor,
    legal: Tensor,
    /// How many are legal.
    count: Tensor,
    smoothing: f64,
}

impl<'a> Policy<'a> {
    fn new(played: &'a Played, legal: &Tensor, moves_of_head: i64, smoothing: f64) -> Self {
        let bits = Tensor::arange(64, (Kind::Int64, legal.device()));
        let legal = legal.unsqueeze(2).bitwise_right_shift(&bits).bitwise_and(1);
        let legal = legal.reshape([legal.size()[0], -1]).narrow(1, 0, moves_of_head);
        let illegal = legal.eq(0);
        let legal = legal.to_kind(Kind::Float);
        Self {
            played,
            count: legal.sum_dim_intlist(1, false, Kind::Float).clamp_min(1.0),
            illegal,
            legal,
            smoothing,
        }
    }

    /// The surprise of each move, if the target is softened by a temperature.
    fn wrong(&self, logits: &Tensor, temperature: f64) -> Tensor {
        // Finite, so that nothing times it is nothing.
        let chances = logits.masked_fill(&self.illegal, -1e9).log_softmax(-1, Kind::Float);
        let played = chances.gather(1, &self.played.place, false).squeeze_dim(1);
        if self.smoothing == 0.0 {
            return -played;
        }
        let to_others = self.smoothing / &self.count;
        let to_played = (&to_others + (1.0 - self.smoothing)).pow_tensor_scalar(1.0 / temperature);
        let to_others = to_others.pow_tensor_scalar(1.0 / temperature);
        let whole = &to_played + &to_others * (&self.count - 1.0);
        let all = (chances * &self.legal).sum_dim_intlist(1, false, Kind::Float);
        -(played * (to_played - &to_others) + all * to_others) / whole
    }
}

/// The surprise of each chance that is told in buckets.
fn of_buckets(logits: &Tensor, chance: &Tensor, target: BucketTarget) -> Tensor {
    let count = logits.size()[1];
    let chances = logits.log_softmax(-1, Kind::Float);
    match target {
        BucketTarget::CrossEntropy => {
            // A chance between two buckets belongs to the lower one, which the last bit may decide.
            let bucket = (chance.to_kind(fine(logits.device())) * count as f64).ceil() - 1.0;
            let bucket = bucket.clamp(0.0, count as f64 - 1.0).to_kind(Kind::Int64).unsqueeze(1);
            -chances.gather(1, &bucket, false).squeeze_dim(1)
        }
        BucketTarget::HlGauss { sigma } => {
            let kind = fine(logits.device());
            let edges = Tensor::arange(count + 1, (kind, logits.device()));
            let place = chance.to_kind(kind).unsqueeze(1) * count as f64;
            let below = ((edges - place) * (FRAC_1_SQRT_2 / sigma)).erf();
            let shares = below.narrow(1, 1, count) - below.narrow(1, 0, count);
            let whole = below.narrow(1, count, 1) - below.narrow(1, 0, 1);
            let shares = (shares / whole).to_kind(Kind::Float);
            -(chances * shares).sum_dim_intlist(1, false, Kind::Float)
        }
    }
}

/// The finest numbers that a device has: Apple's cards have none of 64 bits.
fn fine(device: Device) -> Kind {
    if device == Device::Mps { Kind::Float } else { Kind::Double }
}

/// What keeps experts alike in load, and routers' logits small.
fn of_routers(routing: &[Routing]) -> (Tensor, Tensor) {
    let mean = |losses: Vec<Tensor>| Tensor::stack(&losses, 0).mean(Kind::Float);
    let balance = routing.iter().map(|layer| {
        let chances = layer.logits.softmax(-1, Kind::Float).mean_dim(&[0i64][..], false, Kind::Float);
        (&layer.load * chances).sum(Kind::Float) * layer.load.size()[0] as f64
    });
    let size =
        routing.iter().map(|layer| layer.logits.logsumexp(&[-1i64][..], false).square().mean(Kind::Float));
    (mean(balance.collect()), mean(size.collect()))
}
