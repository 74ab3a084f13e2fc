//! Field paths of all tensors in lc0's files.

use crate::{Architecture, PolicyTarget};

/// Field number, and the index among repeated fields of this number.
pub(super) type Step = (u32, usize);

/// Number of attention heads; an integer, not a tensor.
pub(super) const HEADCOUNT: u32 = 28;
/// Field of the transformer blocks, which is repeated, and fields of the messages of heads.
pub(super) const BLOCKS: u32 = 27;
pub(super) const VALUE_HEADS: u32 = 44;
pub(super) const POLICY_HEADS: u32 = 45;
/// Within the policy heads: the layer that all share, and the main head.
pub(super) const POLICY_SQUARES: u32 = 1;
pub(super) const VANILLA: u32 = 3;

/// The path of fields that leads to a tensor.
pub(super) struct TensorPath {
    pub(super) path: Vec<Step>,
    pub(super) tensor: String,
    pub(super) shape: Vec<usize>,
}

/// Field number of an auxiliary policy head.
pub(super) fn policy_head(target: PolicyTarget) -> u32 {
    match target {
        PolicyTarget::Optimistic => 4,
        PolicyTarget::Soft => 5,
        PolicyTarget::Opponent => 6,
    }
}

/// Paths of all tensors of a network that lc0 supports, in the architecture's order.
pub(super) fn tensor_paths(architecture: &Architecture) -> Vec<TensorPath> {
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
        let aux_targets = policy.aux_targets.iter().map(|&target| (policy_head(target), target.name()));
        for (number, name) in std::iter::once((VANILLA, "policy")).chain(aux_targets) {
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

    /// The bias field follows that of the weights, the offset field that of the scales.
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

    /// Sorts the paths in the architecture's order and adds the shapes.
    fn shaped(self, architecture: &Architecture) -> Vec<TensorPath> {
        let mut by_name: std::collections::HashMap<String, Vec<Step>> =
            self.found.into_iter().map(|(path, tensor)| (tensor, path)).collect();
        let specs = architecture.tensors().into_iter();
        let place = |spec: crate::TensorSpec| {
            by_name.remove(&spec.name).map(|path| TensorPath { path, tensor: spec.name, shape: spec.shape })
        };
        specs.filter_map(place).collect()
    }
}
