//! lc0's networks of the BT family, `.pb.gz`: 112 planes, an embedding that sees the whole board, norms after each
//! branch, smolgen, a policy from pairs of squares, win, draw and loss.

mod import;
mod layer;
mod layout;
mod places;

use super::UnfitNetwork;
use super::wire::Message;
use crate::{
    Activation, Architecture, Attention, Embedding, FeedForward, Heads, Input, Norm, NormKind, NormPlace,
    PolicyKind, Weights,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use places::{Place, Step, places};
use std::collections::BTreeMap;
use std::io::Write;

/// The first field of every file.
const MAGIC: u32 = 0x1C0;
/// How a file begins that is packed, and one that is not.
pub(super) const GZIP: &[u8] = b"\x1F\x8B";
pub(super) const UNPACKED: &[u8] = b"\x0D\xC0\x01\0\0";
/// The first version of lc0 that reads files with several heads of a kind.
const MIN_VERSION: [u64; 3] = [0, 31, 0];
/// What lc0's norms add to the variance.
const EPSILON: f32 = 1e-3;
const PLANES: usize = crate::encoding::planes::CHANNELS;

/// Fields of the file, of its format and of what that says of the network.
mod field {
    pub(super) const MAGIC: u32 = 1;
    pub(super) const MIN_VERSION: u32 = 3;
    pub(super) const FORMAT: u32 = 4;
    pub(super) const WEIGHTS: u32 = 10;
    pub(super) const ENCODING: u32 = 1;
    pub(super) const NETWORK_FORMAT: u32 = 2;
    pub(super) const INPUT: u32 = 1;
    pub(super) const OUTPUT: u32 = 2;
    pub(super) const NETWORK: u32 = 3;
    pub(super) const POLICY: u32 = 4;
    pub(super) const VALUE: u32 = 5;
    pub(super) const MOVES_LEFT: u32 = 6;
    pub(super) const ACTIVATION: u32 = 7;
    pub(super) const SMOLGEN_ACTIVATION: u32 = 8;
    pub(super) const FEED_FORWARD_ACTIVATION: u32 = 9;
    pub(super) const EMBEDDING: u32 = 10;
}

/// What those fields say of the networks that we know.
mod known {
    pub(super) const LINEAR_16: u64 = 1;
    pub(super) const PLANES_112: u64 = 1;
    pub(super) const OUTPUT_WDL: u64 = 2;
    pub(super) const ATTENTION_BODY: u64 = 6;
    pub(super) const ATTENTION_BODY_OF_MANY_HEADS: u64 = 7;
    pub(super) const ATTENTION_BODY_OF_MANY_HEADS_EARLY: u64 = 134;
    pub(super) const POLICY_ATTENTION: u64 = 3;
    pub(super) const VALUE_WDL: u64 = 2;
    pub(super) const MOVES_LEFT: u64 = 1;
    pub(super) const DENSE_BOARD: u64 = 2;
}

/// Curves as the formats's fields for smolgen and feed-forward layers number them; zero is the network's own.
const ACTIVATIONS: [(Activation, u64); 4] =
    [(Activation::Mish, 1), (Activation::Relu, 2), (Activation::Silu, 7), (Activation::SquaredRelu, 8)];

impl Weights {
    /// The network as lc0 reads it, in numbers of 16 bits between the smallest and the largest of each tensor.
    pub fn to_lc0(&self) -> Result<Vec<u8>, UnfitNetwork> {
        let [activation, smolgen] = fit(self.architecture())?;
        let width = self.architecture().body.width;
        // lc0 shows every network the game.
        let mut shown = self.clone();
        shown.empty_unseen();
        let mut root = Node::default();
        for Place { path, tensor, .. } in places(self.architecture()) {
            let numbers = shown.get(&tensor).unwrap_or_default();
            root.put(&path, layer::write(&layout::theirs(&tensor, width, numbers)));
        }
        let mut weights = root.into_message();
        weights.varint(places::HEADCOUNT, self.architecture().body.heads as u64);

        let mut network = Message::default();
        let moves_left = u64::from(self.architecture().heads.moves_left.is_some()) * known::MOVES_LEFT;
        for (number, value) in [
            (field::INPUT, known::PLANES_112),
            (field::OUTPUT, known::OUTPUT_WDL),
            (field::NETWORK, known::ATTENTION_BODY_OF_MANY_HEADS),
            (field::POLICY, known::POLICY_ATTENTION),
            (field::VALUE, known::VALUE_WDL),
            (field::MOVES_LEFT, moves_left),
            (field::ACTIVATION, activation),
            (field::SMOLGEN_ACTIVATION, smolgen),
            (field::EMBEDDING, known::DENSE_BOARD),
        ] {
            network.varint(number, value);
        }
        let mut format = Message::default();
        format.varint(field::ENCODING, known::LINEAR_16);
        format.message(field::NETWORK_FORMAT, &network);
        let mut version = Message::default();
        for (number, value) in (1..).zip(MIN_VERSION) {
            version.varint(number, value);
        }
        let mut net = Message::default();
        net.fixed_32(field::MAGIC, MAGIC);
        net.message(field::MIN_VERSION, &version);
        net.message(field::FORMAT, &format);
        net.message(field::WEIGHTS, &weights);
        // Memory takes what is written to it, and the header has no time: the same network is the same file.
        let mut packed = GzEncoder::new(Vec::new(), Compression::new(6));
        let written = packed.write_all(&net.into_bytes()).and_then(|()| packed.finish());
        written.map_err(|error| unfit(error.to_string()))
    }
}

/// Messages within messages, by the fields that lead to them.
#[derive(Default)]
struct Node {
    inner: BTreeMap<Step, Self>,
    layer: Message,
}

impl Node {
    fn put(&mut self, path: &[Step], layer: Message) {
        match path {
            [] => self.layer = layer,
            [step, rest @ ..] => self.inner.entry(*step).or_default().put(rest, layer),
        }
    }

    fn into_message(self) -> Message {
        let mut message = self.layer;
        for ((number, _), node) in self.inner {
            message.message(number, &node.into_message());
        }
        message
    }
}

fn unfit(what: impl Into<String>) -> UnfitNetwork {
    UnfitNetwork { format: "lc0's format", what: what.into() }
}

/// The numbers of the curves of the network and of smolgen, if lc0 has a place for all that the network is made of.
fn fit(architecture: &Architecture) -> Result<[u64; 2], UnfitNetwork> {
    let Architecture { input, embedding, body, heads } = architecture;
    if !matches!(input, Input::Planes | Input::LonePlanes) {
        return Err(unfit("an input other than 112 planes"));
    }
    if !matches!(embedding, Embedding::DenseBoard(_)) {
        return Err(unfit("an embedding other than dense-board"));
    }
    let norm =
        Norm { kind: NormKind::Layer, place: NormPlace::Post, epsilon: EPSILON, deepnorm: true, last: false };
    if body.norm != norm {
        return Err(unfit(
            "norms other than layer norms after each branch, with deepnorm and an epsilon of 0.001",
        ));
    }
    let Attention::Smolgen(smolgen) = &body.attention else {
        return Err(unfit("attention without smolgen"));
    };
    if !smolgen.biases {
        return Err(unfit("attention without biases"));
    }
    if !matches!(body.feed_forward, FeedForward::Dense { biases: true, .. }) {
        return Err(unfit("feed-forward layers other than dense ones with biases"));
    }
    let activation = match body.activation {
        Activation::Relu => 0,
        Activation::Mish => 1,
        other => return Err(unfit(format!("the activation {other:?}; it has relu and mish"))),
    };
    let Some((_, of_smolgen)) = ACTIVATIONS.into_iter().find(|(known, _)| *known == smolgen.activation)
    else {
        return Err(unfit(format!("the activation {:?} of smolgen", smolgen.activation)));
    };
    let Heads { policy, value, move_value, .. } = heads;
    if !policy.as_ref().is_some_and(|head| head.kind == PolicyKind::Attention) || value.is_none() {
        return Err(unfit("a network without a policy or without a value"));
    }
    if move_value.is_some() {
        return Err(unfit("values of moves"));
    }
    Ok([activation, of_smolgen])
}

#[cfg(test)]
mod tests;
