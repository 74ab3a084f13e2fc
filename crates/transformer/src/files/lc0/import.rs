//! Reads lc0's files: checks the kind of network, derives the architecture from tensor sizes, and converts
//! the tensors.

use super::super::LoadError;
use super::layer::Layer;
use super::tensor_paths::{
    BLOCKS, HEADCOUNT, POLICY_HEADS, Step, TensorPath, VALUE_HEADS, VANILLA, policy_head, tensor_paths,
};
use super::{ACTIVATIONS, EPSILON, GZIP, MAGIC, field, known, layout};
use crate::architecture::SQUARES;
use crate::weights::SQUARES_LAYER;
use crate::*;
use flate2::read::MultiGzDecoder;
use std::collections::HashMap;
use std::io::Read;
use tandem_util::protobuf::{MessageView, Value};

/// Largest uncompressed size in bytes. The largest known networks have 0.4 GB.
const MAX_LEN: u64 = 1 << 30;
/// Largest ratio of the uncompressed size to the compressed one for files that unpack to more than [`FREE_LEN`].
/// Networks reach about 2, and some with many zeros 10.
const MAX_RATIO: u64 = 32;
/// Uncompressed size in bytes up to which any ratio is accepted.
const FREE_LEN: u64 = 1 << 26;
/// Largest number of blocks, far more than any network has.
const MAX_BLOCKS: usize = 1 << 12;
/// Highest field number among the known weights.
const MAX_FIELD: u32 = 45;

impl Weights {
    /// Reads a network of lc0's BT family, compressed or not. Offsets in errors are those of the uncompressed
    /// file.
    ///
    /// # Errors
    /// If the file is damaged, or is a network of another kind; the message names what was found and what can
    /// be read.
    pub fn from_lc0(bytes: &[u8]) -> Result<Self, LoadError> {
        if !bytes.starts_with(GZIP) {
            return Self::from_unpacked(bytes);
        }
        let max_len = (MAX_RATIO * bytes.len() as u64).clamp(FREE_LEN, MAX_LEN);
        let mut unpacked = Vec::new();
        MultiGzDecoder::new(bytes)
            .take(max_len + 1)
            .read_to_end(&mut unpacked)
            .map_err(|error| LoadError::new("gzip", unpacked.len(), error.to_string()))?;
        if unpacked.len() as u64 > max_len {
            let problem =
                format!("{} bytes unpack to more than {max_len}, which no network does", bytes.len());
            return Err(LoadError::new("gzip", 0, problem));
        }
        Self::from_unpacked(&unpacked)
    }

    fn from_unpacked(bytes: &[u8]) -> Result<Self, LoadError> {
        let net = MessageView { bytes, offset: 0 };
        if net.fixed_32(field::MAGIC)? != Some(MAGIC) {
            return Err(LoadError::new("magic", 0, "this is not a network of lc0"));
        }
        let kind = Kind::read(net)?;
        let Some(weights) = net.message(field::WEIGHTS)? else {
            return Err(LoadError::new("weights", 0, "there are none"));
        };
        let tree = Tree::read(weights)?;
        let mut architecture = tree.architecture(&kind)?;
        architecture
            .check()
            .map_err(|error| LoadError::new("architecture", weights.offset, error.to_string()))?;

        // All tensors are located before memory is allocated.
        let paths = tensor_paths(&architecture);
        let mut layers = Vec::with_capacity(paths.len());
        for TensorPath { path, tensor, shape } in &paths {
            let layer = tree.layer(path, tensor)?;
            if layer.len() != shape.iter().product::<usize>() {
                let problem = format!("{} values found, {shape:?} expected", layer.len());
                return Err(LoadError::new(tensor, layer.offset(), problem));
            }
            layers.push(layer);
        }
        let width = architecture.body.width;
        let mut ignores_history = false;
        let tensors: NamedTensors = paths
            .into_iter()
            .zip(layers)
            .map(|(TensorPath { tensor, shape, .. }, layer)| {
                let values = layout::ours(&tensor, width, layer.values());
                if tensor == SQUARES_LAYER {
                    ignores_history = layout::ignores_history(&values, width, layer.rounding());
                }
                (tensor, (shape, values))
            })
            .collect();
        // The format has no field for this, but the weights of such a network show it: those of the history
        // planes are zero.
        if ignores_history {
            architecture.input = Input::PlanesSingle;
        }
        let mut weights = Self::new(architecture, tensors)?;
        weights.zero_history_weights();
        Ok(weights)
    }
}

/// Properties that the format message declares.
struct Kind {
    activation: Activation,
    smolgen: Activation,
    moves_left: bool,
}

impl Kind {
    fn read(net: MessageView<'_>) -> Result<Self, LoadError> {
        let format = net.message(field::FORMAT)?.unwrap_or(MessageView { bytes: &[], offset: 0 });
        let Some(network) = format.message(field::NETWORK_FORMAT)? else {
            let problem = "a residual network of the first kind, without a description of itself; BT3 and BT4 can be read";
            return Err(LoadError::new("format", format.offset, problem));
        };
        let refuse = |what: &str, problem: String| {
            let problem = format!(
                "{problem}; networks of the BT family with many heads, such as BT3 and BT4, can be read"
            );
            LoadError::new(what, network.offset, problem)
        };
        let number = |number| network.varint(number).map(|found| found.unwrap_or(0));
        let structure = number(field::NETWORK)?;
        match structure {
            known::ATTENTION_BODY | known::ATTENTION_BODY_OF_MANY_HEADS => {}
            known::ATTENTION_BODY_OF_MANY_HEADS_EARLY => {}
            1 | 3 => return Err(refuse("network", "a residual network".into())),
            2 | 4 => return Err(refuse("network", "a residual network with squeeze and excitation".into())),
            5 => return Err(refuse("network", "a network in ONNX".into())),
            other => return Err(refuse("network", format!("a network of the unknown kind {other}"))),
        }
        let embedding = number(field::EMBEDDING)?;
        // Early files do not declare it: networks with several heads came with this embedding.
        if embedding != known::DENSE_BOARD && !(structure == known::ATTENTION_BODY && embedding == 0) {
            return Err(refuse("embedding", "an embedding that does not see the whole board".into()));
        }
        let encoding = format.varint(field::ENCODING)?.unwrap_or(0);
        for (what, found, wanted) in [
            ("input format", number(field::INPUT)?, known::PLANES_112),
            ("policy format", number(field::POLICY)?, known::POLICY_ATTENTION),
            ("value format", number(field::VALUE)?, known::VALUE_WDL),
            ("encoding", encoding, known::LINEAR_16),
        ] {
            if found != wanted {
                return Err(refuse(what, format!("{found} found, {wanted} expected")));
            }
        }
        let activation = match number(field::ACTIVATION)? {
            0 => Activation::Relu,
            1 => Activation::Mish,
            other => return Err(refuse("activation", format!("{other} is unknown"))),
        };
        let activation_of =
            |what, found: u64| match ACTIVATIONS.into_iter().find(|&(_, number)| number == found) {
                _ if found == 0 => Ok(activation),
                Some((found, _)) => Ok(found),
                None => Err(refuse(what, format!("{found} is unknown"))),
            };
        let smolgen = activation_of("activation of smolgen", number(field::SMOLGEN_ACTIVATION)?)?;
        let feed_forward =
            activation_of("activation of feed-forward layers", number(field::FEED_FORWARD_ACTIVATION)?)?;
        if feed_forward != activation {
            let problem = format!("{feed_forward:?}, but {activation:?} everywhere else");
            return Err(refuse("activation of feed-forward layers", problem));
        }
        Ok(Self { activation, smolgen, moves_left: number(field::MOVES_LEFT)? == known::MOVES_LEFT })
    }
}

/// All layers of a file, by the fields that lead to them.
struct Tree<'a> {
    layers: HashMap<Vec<Step>, MessageView<'a>>,
    offset: usize,
    blocks: usize,
    heads: usize,
}

/// True if a field is a message of further fields; otherwise it is a tensor.
fn is_message(fields: &[u32]) -> bool {
    match fields {
        [BLOCKS | 41 | VALUE_HEADS | POLICY_HEADS] | [BLOCKS, 1 | 4] | [BLOCKS, 1, 9] => true,
        [VALUE_HEADS, head] => (1..=3).contains(head),
        [POLICY_HEADS, head] => (VANILLA..=6).contains(head),
        _ => false,
    }
}

impl<'a> Tree<'a> {
    /// Finds all layers in a single pass over the file.
    fn read(weights: MessageView<'a>) -> Result<Self, LoadError> {
        let heads = weights.varint(HEADCOUNT)?.unwrap_or(0);
        let heads = usize::try_from(heads).unwrap_or(usize::MAX);
        let mut tree = Self { layers: HashMap::new(), offset: weights.offset, blocks: 0, heads };
        tree.add(weights, &mut Vec::new())?;
        Ok(tree)
    }

    fn add(&mut self, part: MessageView<'a>, path: &mut Vec<Step>) -> Result<(), LoadError> {
        for found in part.fields() {
            let (number, Value::Bytes(inner)) = found? else { continue };
            if number > MAX_FIELD {
                continue;
            }
            let mut index = 0;
            if path.is_empty() && number == BLOCKS {
                index = self.blocks;
                self.blocks += 1;
                if self.blocks > MAX_BLOCKS {
                    let problem = format!("more than {MAX_BLOCKS} of them are absurd");
                    return Err(LoadError::new("blocks", inner.offset, problem));
                }
            }
            path.push((number, index));
            let fields: Vec<u32> = path.iter().map(|&(number, _)| number).collect();
            if is_message(&fields) {
                self.add(inner, path)?;
            } else {
                self.layers.insert(path.clone(), inner);
            }
            path.pop();
        }
        Ok(())
    }

    fn layer(&self, path: &[Step], tensor: &str) -> Result<Layer<'a>, LoadError> {
        match self.layers.get(path) {
            Some(&part) => Layer::new(part),
            None => Err(LoadError::new(tensor, self.offset, "this tensor is missing")),
        }
    }

    /// Number of elements of a layer; 0 if it is missing.
    fn len(&self, path: &[Step]) -> Result<usize, LoadError> {
        self.layers.get(path).map_or(Ok(0), |&part| Ok(Layer::new(part)?.len()))
    }

    fn refuse<T>(&self, field: &str, problem: &str) -> Result<T, LoadError> {
        Err(LoadError::new(field, self.offset, problem))
    }

    /// Derives the architecture from the sizes of the tensors.
    fn architecture(&self, kind: &Kind) -> Result<Architecture, LoadError> {
        let at = |field| [(field, 0)];
        let width = self.len(&at(26))?;
        let (block, attention) = ((BLOCKS, 0), (1, 0));
        let smolgen = |field| [block, attention, (9, 0), (field, 0)];
        if width == 0 || self.blocks == 0 || self.heads == 0 {
            return self.refuse("weights", "a network without an embedding, blocks or attention heads");
        }
        if self.len(&at(38))? == 0 {
            return self.refuse("embedding", "a network whose embedding does not see the whole board");
        }
        if self.len(&smolgen(1))? == 0 {
            return self.refuse("attention", "a network without smolgen");
        }
        if self.layers.keys().any(|path| matches!(path[..], [(BLOCKS, _), (1, _), (10..=12, _)])) {
            return self.refuse("attention", "a network with relative positions, which are not supported");
        }
        let norm = Norm {
            kind: NormKind::Layer,
            place: NormPlace::Post,
            epsilon: EPSILON,
            deepnorm: true,
            last: false,
        };
        let attention = Attention::Smolgen(Smolgen {
            biases: true,
            compressed: self.len(&smolgen(1))? / width,
            hidden: self.len(&smolgen(3))?,
            generated: self.len(&smolgen(7))? / self.heads,
            activation: kind.smolgen,
        });
        let body = Body {
            width,
            layers: self.blocks,
            heads: self.heads,
            mask: Mask::Full,
            activation: kind.activation,
            norm,
            attention,
            feed_forward: FeedForward::Dense { width: self.len(&[block, (4, 0), (2, 0)])?, biases: true },
        };
        let board = DenseBoard {
            channels: self.len(&at(38))? / SQUARES,
            feed_forward: self.len(&[(41, 0), (2, 0)])?,
        };
        let [value, search_value, short_term] = [self.value(1)?, self.value(2)?, self.value(3)?];
        if value.is_none() {
            return self.refuse("value", "a network without the head that lc0 calls winner");
        }
        let moves_left = MovesLeftHead { channels: self.len(&at(32))?, hidden: self.len(&at(14))? };
        let heads = Heads {
            policy: Some(self.policy()?),
            value,
            search_value,
            short_term,
            moves_left: kind.moves_left.then_some(moves_left),
            ..Heads::default()
        };
        Ok(Architecture { input: Input::Planes, embedding: Embedding::DenseBoard(board), body, heads })
    }

    fn value(&self, number: u32) -> Result<Option<ValueHead>, LoadError> {
        let len = |field| self.len(&[(VALUE_HEADS, 0), (number, 0), (field, 0)]);
        let channels = len(2)?;
        let head = ValueHead { channels, hidden: len(4)?, error: len(8)? > 0, buckets: len(10)? };
        Ok((channels > 0).then_some(head))
    }

    fn policy(&self) -> Result<PolicyHead, LoadError> {
        let len = |head, field| self.len(&[(POLICY_HEADS, 0), (head, 0), (field, 0)]);
        let width = self.len(&[(POLICY_HEADS, 0), (2, 0)])?;
        if width == 0 {
            return self.refuse("policy", "a network whose policies do not share the layer on squares");
        }
        let mut aux_targets = Vec::new();
        for target in PolicyTarget::ALL {
            if len(policy_head(target), 4)? > 0 {
                aux_targets.push(target);
            }
        }
        let heads = || std::iter::once(VANILLA).chain(aux_targets.iter().map(|&target| policy_head(target)));
        for head in heads() {
            if len(head, 2)? > 0 {
                return self.refuse("policy", "a head with a layer on squares of its own");
            }
            if len(head, 4)? != width {
                return self.refuse("policy", "queries of another width than that of the layer on squares");
            }
        }
        let encoders = |path: &Vec<Step>| matches!(path[..], [(POLICY_HEADS, _), _, (8, _)]);
        if self.layers.keys().any(encoders) {
            return self.refuse("policy", "a head with blocks of its own");
        }
        Ok(PolicyHead { kind: PolicyKind::Attention, width, aux_targets })
    }
}
