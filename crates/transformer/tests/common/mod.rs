//! Networks and positions that several tests share.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

use tandem_transformer::*;
use tandem_util::random::SplitMix;

/// Small networks of every kind, with sizes that are multiples of nothing in particular, so that all tails
/// are tested.
pub fn small() -> Vec<(&'static str, Architecture)> {
    let preset = |preset: Preset, change: &dyn Fn(&mut Architecture)| {
        let mut architecture = preset.architecture();
        architecture.body.layers = 2;
        change(&mut architecture);
        architecture.check().unwrap();
        architecture
    };
    let text = |change: &dyn Fn(&mut Architecture)| {
        preset(Preset::Byte, &|architecture| {
            (architecture.body.width, architecture.body.heads) = (20, 4);
            architecture.body.feed_forward = FeedForward::Dense { width: 30, biases: true };
            change(architecture);
        })
    };
    let squares = |change: &dyn Fn(&mut Architecture)| {
        preset(Preset::BtSmall, &|architecture| {
            (architecture.body.width, architecture.body.heads) = (36, 3);
            architecture.embedding = Embedding::DenseBoard(DenseBoard { channels: 3, feed_forward: 41 });
            let smolgen = Smolgen {
                biases: true,
                compressed: 5,
                hidden: 14,
                generated: 7,
                activation: Activation::Silu,
            };
            architecture.body.attention = Attention::Smolgen(smolgen);
            architecture.body.feed_forward = FeedForward::Dense { width: 50, biases: true };
            architecture.heads = Heads {
                policy: Some(PolicyHead {
                    kind: PolicyKind::Attention,
                    width: 24,
                    aux_targets: vec![PolicyTarget::Optimistic, PolicyTarget::Soft],
                }),
                value: Some(ValueHead { channels: 5, hidden: 13, error: true, buckets: 32 }),
                short_term: Some(ValueHead { channels: 4, hidden: 9, error: false, buckets: 0 }),
                moves_left: Some(MovesLeftHead { channels: 2, hidden: 11 }),
                move_value: Some(MoveValueHead { width: 17 }),
                ..Heads::default()
            };
            change(architecture);
        })
    };
    let experts =
        |gated| FeedForward::Experts(Experts { count: 5, chosen: 2, width: 22, gated, biases: gated });
    vec![
        ("byte", text(&|architecture| architecture.body.feed_forward = experts(false))),
        (
            "searchless",
            preset(Preset::Searchless9M, &|architecture| {
                (architecture.body.width, architecture.body.heads) = (40, 2);
                architecture.body.feed_forward = FeedForward::Gated { width: 70, biases: false };
            }),
        ),
        (
            "state value",
            text(&|architecture| {
                architecture.body.mask = Mask::Full;
                architecture.body.activation = Activation::Gelu;
                architecture.body.norm.kind = NormKind::Rms;
                architecture.heads = Heads {
                    state_value: Some(BucketHead { buckets: 33 }),
                    policy: Some(PolicyHead { kind: PolicyKind::Actions, width: 0, aux_targets: vec![] }),
                    ..Heads::default()
                };
            }),
        ),
        ("bt", squares(&|_| {})),
        (
            "squares",
            squares(&|architecture| {
                architecture.input = Input::Squares;
                architecture.embedding = Embedding::Positions;
                architecture.body.attention = Attention::Bias { biases: false };
                architecture.body.feed_forward = experts(true);
                architecture.body.activation = Activation::SquaredRelu;
                architecture.body.norm.deepnorm = false;
                architecture.body.norm.last = true;
            }),
        ),
        (
            "planes",
            squares(&|architecture| {
                architecture.embedding = Embedding::Positions;
                architecture.body.attention = Attention::Plain { biases: true };
                architecture.body.feed_forward = FeedForward::Gated { width: 30, biases: true };
                architecture.body.activation = Activation::Relu;
                architecture.body.norm = Norm {
                    kind: NormKind::Layer,
                    place: NormPlace::Pre,
                    epsilon: 1e-5,
                    deepnorm: false,
                    last: false,
                };
                // A head that is wider than a panel.
                (architecture.body.width, architecture.body.heads) = (40, 1);
            }),
        ),
    ]
}

/// Random positions as plain arrays, without the encoders.
pub struct Positions {
    tokens: Vec<u16>,
    actions: Vec<Vec<u16>>,
    squares: Vec<f32>,
}

impl Positions {
    pub fn random(architecture: &Architecture, count: usize, seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let (mut tokens, mut actions, mut squares) = (vec![], vec![], vec![]);
        for position in 0..count {
            if let Some(channels) = architecture.input.channels() {
                squares.extend((0..64 * channels).map(|index| {
                    let large = index % channels == channels - 3;
                    if large { 37.0 } else { f32::from(random.below(4) == 0) }
                }));
            } else {
                tokens.push(0);
                tokens.extend((0..77).map(|_| random.below(31) as u16));
                if architecture.heads.action_value.is_some() {
                    let moves = [3, 0, 1, 7][position % 4];
                    actions.push((0..moves).map(|_| random.below(1968) as u16).collect());
                }
            }
        }
        Self { tokens, actions, squares }
    }

    /// Calls `take` with `count` positions from `first` on.
    pub fn with<T>(&self, first: usize, count: usize, mut take: impl FnMut(&Inputs<'_>) -> T) -> T {
        if self.tokens.is_empty() {
            let each = self.squares.len() / self.len();
            return take(&Inputs::Squares(&self.squares[first * each..(first + count) * each]));
        }
        let all: Vec<&[u16]> = self.actions.iter().map(Vec::as_slice).collect();
        let actions = if all.is_empty() { &[] } else { &all[first..first + count] };
        take(&Inputs::Text { tokens: &self.tokens[first * 78..(first + count) * 78], actions })
    }

    pub fn len(&self) -> usize {
        let squares = self.squares.len() / 64;
        let channels = if squares.is_multiple_of(112) { 112 } else { 19 };
        if self.tokens.is_empty() { squares / channels } else { self.tokens.len() / 78 }
    }

    pub fn tokens(&self, position: usize) -> &[u16] {
        &self.tokens[position * 78..][..78]
    }

    pub fn actions(&self, position: usize) -> &[u16] {
        self.actions.get(position).map_or(&[], Vec::as_slice)
    }

    pub fn squares(&self, position: usize) -> &[f32] {
        let each = self.squares.len() / self.len();
        &self.squares[position * each..][..each]
    }
}

/// All output values of a position, concatenated.
pub fn flat(outputs: &Outputs) -> Vec<f32> {
    let Outputs { action_value, state_value, policy, aux_policies, values, moves_left, move_value } = outputs;
    let mut all = [action_value.as_slice(), state_value, policy].concat();
    aux_policies.iter().for_each(|(_, policy)| all.extend(policy));
    for value in values.iter().flatten() {
        all.extend(value.wdl);
        all.extend(value.error);
        all.extend(&value.buckets);
    }
    all.extend(moves_left);
    all.extend(move_value);
    all
}

/// Outputs of a network for all positions.
pub fn run(network: &Network, positions: &Positions) -> Vec<Outputs> {
    let mut scratch = Scratch::default();
    positions.with(0, positions.len(), |inputs| network.run(inputs, &mut scratch).unwrap().to_vec())
}
