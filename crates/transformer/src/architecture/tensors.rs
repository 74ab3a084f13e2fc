//! Names and shapes of a network's tensors. Files, trainers and packed networks all derive their tensors from
//! this list.

use super::*;

/// Name and shape of a tensor. Linear layers are stored as [outputs, inputs], a row for each output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name in every file format, for example `layers.0.attention.query.weight`.
    pub name: String,
    /// Sizes of all dimensions, outermost first: [outputs, inputs] for the weights of a linear layer.
    pub shape: Vec<usize>,
}

impl TensorSpec {
    /// Number of elements, which is the product of all dimensions.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// True if a dimension is zero, which no tensor of a checked architecture has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Tensors collected so far, in order of use.
#[derive(Default)]
pub(crate) struct List(Vec<TensorSpec>);

impl List {
    pub(crate) fn add(&mut self, name: String, shape: &[usize]) {
        self.0.push(TensorSpec { name, shape: shape.to_vec() });
    }

    pub(crate) fn layer(&mut self, name: &str, inputs: usize, outputs: usize, biases: bool) {
        self.add(format!("{name}.weight"), &[outputs, inputs]);
        if biases {
            self.add(format!("{name}.bias"), &[outputs]);
        }
    }

    pub(crate) fn norm(&mut self, name: &str, kind: NormKind, width: usize) {
        self.add(format!("{name}.scale"), &[width]);
        if kind == NormKind::Layer {
            self.add(format!("{name}.offset"), &[width]);
        }
    }

    /// Two or three linear layers that map a width to itself through a hidden width.
    pub(crate) fn feed_forward(&mut self, name: &str, width: usize, inner: usize, gated: bool, biases: bool) {
        self.layer(&format!("{name}.in"), width, inner, biases);
        if gated {
            self.layer(&format!("{name}.gate"), width, inner, biases);
        }
        self.layer(&format!("{name}.out"), inner, width, biases);
    }

    /// Compresses every square to a few channels, and then all of them to a hidden vector.
    fn compressed(&mut self, name: &str, width: usize, channels: usize, hidden: usize) {
        self.layer(&format!("{name}.squares"), width, channels, true);
        self.layer(&format!("{name}.board"), SQUARES * channels, hidden, true);
    }
}

impl Architecture {
    /// All tensors of a network with this architecture, in the order in which a forward pass uses them.
    pub fn tensors(&self) -> Vec<TensorSpec> {
        let mut list = List::default();
        self.list_embedding(&mut list);
        for layer in 0..self.body.layers {
            self.list_block(&mut list, &format!("layers.{layer}"));
        }
        let width = self.body.width;
        self.body.attention.list_shared(&mut list);
        if self.body.norm.last {
            list.norm("last_norm", self.body.norm.kind, width);
        }
        self.list_heads(&mut list);
        list.0
    }

    /// Number of trainable parameters, for example 8,954,240 for `searchless-9m`.
    pub fn parameters(&self) -> usize {
        self.tensors().iter().map(TensorSpec::len).sum()
    }

    fn list_embedding(&self, list: &mut List) {
        let width = self.body.width;
        match (&self.embedding, self.input.channels()) {
            (Embedding::Positions, None) => {
                list.add("embedding.table".into(), &[VOCABULARY, width]);
                list.add("embedding.positions".into(), &[self.tokens(), width]);
            }
            (Embedding::Positions, Some(channels)) => {
                list.layer("embedding.squares", channels, width, true);
                list.add("embedding.positions".into(), &[SQUARES, width]);
            }
            (Embedding::DenseBoard(board), channels) => {
                list.layer("embedding.board", SQUARES * PIECE_CHANNELS, SQUARES * board.channels, true);
                list.layer("embedding.squares", channels.unwrap_or(0) + board.channels, width, true);
                list.norm("embedding.norm", self.body.norm.kind, width);
                list.add("embedding.gate.scale".into(), &[SQUARES, width]);
                list.add("embedding.gate.offset".into(), &[SQUARES, width]);
                list.feed_forward("embedding.feed_forward", width, board.feed_forward, false, true);
                list.norm("embedding.feed_forward_norm", self.body.norm.kind, width);
            }
        }
    }

    fn list_block(&self, list: &mut List, name: &str) {
        let Body { norm, width, attention, feed_forward, .. } = &self.body;
        attention.list(&self.body, name, list);
        list.norm(&format!("{name}.attention_norm"), norm.kind, *width);
        feed_forward.list(&self.body, name, list);
        list.norm(&format!("{name}.feed_forward_norm"), norm.kind, *width);
    }

    fn list_heads(&self, list: &mut List) {
        let width = self.body.width;
        let Heads { action_value, state_value, policy, moves_left, move_value, .. } = &self.heads;
        for (name, head) in [("action_value", action_value), ("state_value", state_value)] {
            if let Some(head) = head {
                list.layer(name, width, head.buckets, true);
            }
        }
        let pairs = |list: &mut List, name: &str, size: usize| {
            list.layer(&format!("{name}.query"), size, size, true);
            list.layer(&format!("{name}.key"), size, size, true);
            list.layer(&format!("{name}.promotion"), size, 4, false);
        };
        match policy {
            Some(PolicyHead { kind: PolicyKind::Attention, width: size, aux_targets }) => {
                list.layer("policy.squares", width, *size, true);
                pairs(list, "policy", *size);
                for target in aux_targets {
                    pairs(list, target.name(), *size);
                }
            }
            Some(PolicyHead { kind: PolicyKind::Actions, .. }) => {
                list.layer("policy", width, VOCABULARY, true);
            }
            None => {}
        }
        for (name, head) in self.heads.values() {
            let Some(head) = head else { continue };
            list.compressed(name, width, head.channels, head.hidden);
            list.layer(&format!("{name}.wdl"), head.hidden, 3, true);
            if head.error {
                list.layer(&format!("{name}.error"), head.hidden, 1, true);
            }
            if head.buckets > 0 {
                list.layer(&format!("{name}.buckets"), head.hidden, head.buckets, true);
            }
        }
        if let Some(head) = moves_left {
            list.compressed("moves_left", width, head.channels, head.hidden);
            list.layer("moves_left.plies", head.hidden, 1, true);
        }
        if let Some(head) = move_value {
            list.layer("move_value.squares", width, head.width, true);
            pairs(list, "move_value", head.width);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_shapes_have_no_zero() {
        for preset in Preset::ALL {
            let tensors = preset.architecture().tensors();
            let names: std::collections::HashSet<&str> =
                tensors.iter().map(|spec| spec.name.as_str()).collect();
            assert_eq!(names.len(), tensors.len());
            assert!(tensors.iter().all(|spec| !spec.is_empty()), "{preset:?}");
        }
    }

    /// The published count is 8.954 M, taken from the code that was released with the weights.
    #[test]
    fn searchless_has_as_many_parameters_as_published() {
        let (width, layers) = (256, 8);
        let block = 16 * width * width + 4 * width;
        let expected = (1968 + 79) * width + layers * block + 2 * width + width * 128 + 128;
        let count = Preset::Searchless9M.architecture().parameters();
        assert_eq!((count, expected), (8_954_240, 8_954_240));
    }

    /// The published counts are 105.5 M and 191.3 M; the sizes of the heads were not published.
    #[test]
    fn the_bt_networks_are_as_large_as_published() {
        let millions = |preset: Preset| preset.architecture().parameters() as f64 / 1e6;
        assert!((millions(Preset::Bt3) - 105.5).abs() < 1.0, "{}", millions(Preset::Bt3));
        assert!((millions(Preset::Bt4) - 191.3).abs() < 1.5, "{}", millions(Preset::Bt4));
    }
}
