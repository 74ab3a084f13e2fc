//! lc0's networks of the BT family, `.pb.gz`: 112 planes, dense-board embedding, post-norm blocks, smolgen,
//! attention policy and win/draw/loss values.

mod import;
mod layer;
mod layout;
mod tensor_paths;

use super::UnsupportedNetwork;
use crate::{
    Activation, Architecture, Attention, Embedding, FeedForward, Heads, Input, Norm, NormKind, NormPlace,
    PolicyKind, Weights,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::io::Write;
use tandem_util::protobuf::Message;
use tensor_paths::{Step, TensorPath, tensor_paths};

/// Value of the first field of every file.
const MAGIC: u32 = 0x1C0;
/// First bytes of a compressed file, and of an uncompressed one.
pub(super) const GZIP: &[u8] = b"\x1F\x8B";
pub(super) const UNPACKED: &[u8] = b"\x0D\xC0\x01\0\0";
/// First version of lc0 that reads files with several heads of a kind.
const MIN_VERSION: [u64; 3] = [0, 31, 0];
/// Epsilon that lc0's norms add to the variance.
const EPSILON: f32 = 1e-3;
const PLANES: usize = crate::encoding::planes::CHANNELS;

/// Field numbers of the file, of its format message, and of the network description within that.
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

/// Values of those fields in the networks that can be read.
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

/// lc0's enum values of the activation functions, in the fields for smolgen and feed-forward layers. Zero
/// there stands for the network's default.
const ACTIVATIONS: [(Activation, u64); 4] =
    [(Activation::Mish, 1), (Activation::Relu, 2), (Activation::Silu, 7), (Activation::SquaredRelu, 8)];

impl Weights {
    /// The network in lc0's format, in 16-bit integers between the minimum and maximum of each tensor. The
    /// same network always gives the same bytes.
    ///
    /// # Errors
    /// If lc0 does not support a part of the architecture; the error names it.
    pub fn to_lc0(&self) -> Result<Vec<u8>, UnsupportedNetwork> {
        let [activation, smolgen] = check_support(self.architecture())?;
        let width = self.architecture().body.width;
        // lc0 feeds the history planes to every network.
        let mut shown = self.clone();
        shown.zero_history_weights();
        let mut root = Node::default();
        for TensorPath { path, tensor, .. } in tensor_paths(self.architecture()) {
            let values = shown.get(&tensor).unwrap_or_default();
            root.insert(&path, layer::write(&layout::theirs(&tensor, width, values)));
        }
        let mut weights = root.into_message();
        weights.varint(tensor_paths::HEADCOUNT, self.architecture().body.heads as u64);

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
        // Writing to memory cannot fail, and the header has no time stamp: the same network gives the same
        // file.
        let mut packed = GzEncoder::new(Vec::new(), Compression::new(6));
        let written = packed.write_all(&net.into_bytes()).and_then(|()| packed.finish());
        written.map_err(|error| unsupported(error.to_string()))
    }
}

/// A tree of nested messages, by the fields that lead to them.
#[derive(Default)]
struct Node {
    inner: BTreeMap<Step, Self>,
    layer: Message,
}

impl Node {
    fn insert(&mut self, path: &[Step], layer: Message) {
        match path {
            [] => self.layer = layer,
            [step, rest @ ..] => self.inner.entry(*step).or_default().insert(rest, layer),
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

fn unsupported(what: impl Into<String>) -> UnsupportedNetwork {
    UnsupportedNetwork { format: "lc0's format", what: what.into() }
}

/// Checks that lc0 supports all of the architecture. Returns lc0's enum values for the activation functions
/// of the network and of smolgen.
fn check_support(architecture: &Architecture) -> Result<[u64; 2], UnsupportedNetwork> {
    let Architecture { input, embedding, body, heads } = architecture;
    if !matches!(input, Input::Planes | Input::PlanesSingle) {
        return Err(unsupported("an input other than 112 planes"));
    }
    if !matches!(embedding, Embedding::DenseBoard(_)) {
        return Err(unsupported("an embedding other than dense-board"));
    }
    let norm =
        Norm { kind: NormKind::Layer, place: NormPlace::Post, epsilon: EPSILON, deepnorm: true, last: false };
    if body.norm != norm {
        return Err(unsupported(
            "norms other than layer norms after each branch, with deepnorm and an epsilon of 0.001",
        ));
    }
    let Attention::Smolgen(smolgen) = &body.attention else {
        return Err(unsupported("attention without smolgen"));
    };
    if !smolgen.biases {
        return Err(unsupported("attention without biases"));
    }
    if !matches!(body.feed_forward, FeedForward::Dense { biases: true, .. }) {
        return Err(unsupported("feed-forward layers other than dense ones with biases"));
    }
    let activation = match body.activation {
        Activation::Relu => 0,
        Activation::Mish => 1,
        other => return Err(unsupported(format!("the activation {other:?}; it has relu and mish"))),
    };
    let Some((_, smolgen_activation)) =
        ACTIVATIONS.into_iter().find(|(known, _)| *known == smolgen.activation)
    else {
        return Err(unsupported(format!("the activation {:?} of smolgen", smolgen.activation)));
    };
    let Heads { policy, value, move_value, .. } = heads;
    if !policy.as_ref().is_some_and(|head| head.kind == PolicyKind::Attention) || value.is_none() {
        return Err(unsupported("a network without a policy or without a value"));
    }
    if move_value.is_some() {
        return Err(unsupported("values of moves"));
    }
    Ok([activation, smolgen_activation])
}

#[cfg(test)]
mod tests;
