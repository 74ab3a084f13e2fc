//! Where each tensor stands in the file.

use crate::{Architecture, PolicyTarget};

/// The number of a field, and which of those of this number it is.
pub(super) type Step = (u32, usize);

/// Not a tensor: how many heads attention has.
pub(super) const HEADCOUNT: u32 = 28;
/// The blocks.
pub(super) const BLOCKS: u32 = 27;
pub(super) const VALUE_HEADS: u32 = 44;
pub(super) const POLICY_HEADS: u32 = 45;
/// Among the heads of policies: the layer that all share, and the first head.
pub(super) const POLICY_SQUARES: u32 = 1;
pub(super) const VANILLA: u32 = 3;

/// The fields that lead to a tensor.
pub(super) struct Place {
    pub(super) path: Vec<Step>,
    pub(super) tensor: String,
    pub(super) shape: Vec<usize>,
}

/// The number of a policy's head.
pub(super) fn policy_head(target: PolicyTarget) -> u32 {
    match target {
        PolicyTarget::Optimistic => 4,
        PolicyTarget::Soft => 5,
        PolicyTarget::Opponent => 6,
    }
}

/// All tensors of a network that fits.
pub(super) fn places(architecture: &Architecture) -> Vec<Place> {
    let mut list = List { found: Vec::new() };
    list.layer(&[], 37, "embedding.board");
    list.layer(&[], 25, "embedding.squares");
    list.norm(&[], 39, "embedding.norm");
    list.add(&[], 33, "embedding.gate.scale");
    list.add(&[], 34, "embedding.gate.offset");
    list.feed_forward(&[], 41, "embedding.feed_forward");
    list.norm(&[], 42, "embedding.feed_forward_norm");
    for index in 0..architecture.body.layers {
        let (name, block) = (format!("layers.{index}"), (BLOCKS, index));
        let attention = [block, (1, 0)];
        for (field, part) in [(1, "query"), (3, "key"), (5, "value"), (7, "out")] {
            list.layer(&attention, field, &format!("{name}.attention.{part}"));
        }
        let smolgen = [block, (1, 0), (9, 0)];
        list.add(&smolgen, 1, &format!("{name}.smolgen.squares.weight"));
        list.layer(&smolgen, 2, &format!("{name}.smolgen.board"));
        list.norm(&smolgen, 4, &format!("{name}.smolgen.board_norm"));
        list.layer(&smolgen, 6, &format!("{name}.smolgen.heads"));
        list.norm(&smolgen, 8, &format!("{name}.smolgen.heads_norm"));
        list.norm(&[block], 2, &format!("{name}.attention_norm"));
        list.feed_forward(&[block], 4, &format!("{name}.feed_forward"));
        list.norm(&[block], 5, &format!("{name}.feed_forward_norm"));
    }
    list.add(&[], 35, "smolgen.generator.weight");
    let heads = &architecture.heads;
    for (number, (name, head)) in (1..).zip(heads.values()) {
        let Some(head) = head else { continue };
        let path = [(VALUE_HEADS, 0), (number, 0)];
        list.layer(&path, 1, &format!("{name}.squares"));
        list.layer(&path, 3, &format!("{name}.board"));
        list.layer(&path, 5, &format!("{name}.wdl"));
        if head.error {
            list.layer(&path, 7, &format!("{name}.error"));
        }
        if head.buckets > 0 {
            list.layer(&path, 9, &format!("{name}.buckets"));
        }
    }
    if let Some(policy) = &heads.policy {
        list.layer(&[(POLICY_HEADS, 0)], POLICY_SQUARES, "policy.squares");
        let beside = policy.beside.iter().map(|&target| (policy_head(target), target.name()));
        for (number, name) in std::iter::once((VANILLA, "policy")).chain(beside) {
            let path = [(POLICY_HEADS, 0), (number, 0)];
            list.layer(&path, 3, &format!("{name}.query"));
            list.layer(&path, 5, &format!("{name}.key"));
            list.add(&path, 7, &format!("{name}.promotion.weight"));
        }
    }
    if heads.moves_left.is_some() {
        list.layer(&[], 31, "moves_left.squares");
        list.layer(&[], 13, "moves_left.board");
        list.layer(&[], 15, "moves_left.plies");
    }
    list.shaped(architecture)
}

struct List {
    found: Vec<(Vec<Step>, String)>,
}

impl List {
    fn add(&mut self, path: &[Step], field: u32, tensor: &str) {
        let mut path = path.to_vec();
        path.push((field, 0));
        self.found.push((path, tensor.into()));
    }

    /// Biases follow the weights, and offsets the scales.
    fn layer(&mut self, path: &[Step], field: u32, name: &str) {
        self.add(path, field, &format!("{name}.weight"));
        self.add(path, field + 1, &format!("{name}.bias"));
    }

    fn norm(&mut self, path: &[Step], field: u32, name: &str) {
        self.add(path, field, &format!("{name}.scale"));
        self.add(path, field + 1, &format!("{name}.offset"));
    }

    fn feed_forward(&mut self, path: &[Step], field: u32, name: &str) {
        let mut path = path.to_vec();
        path.push((field, 0));
        self.layer(&path, 1, &format!("{name}.in"));
        self.layer(&path, 3, &format!("{name}.out"));
    }

    /// In the architecture's order, with its shapes.
    fn shaped(self, architecture: &Architecture) -> Vec<Place> {
        let mut by_name: std::collections::HashMap<String, Vec<Step>> =
            self.found.into_iter().map(|(path, tensor)| (tensor, path)).collect();
        let specs = architecture.tensors().into_iter();
        let place = |spec: crate::TensorSpec| {
            by_name.remove(&spec.name).map(|path| Place { path, tensor: spec.name, shape: spec.shape })
        };
        specs.filter_map(place).collect()
    }
}
