//! Networks as ONNX, which most inference engines read: operators of opset 17, with a dynamic batch size.
//!
//! Inputs: `squares`, f32 [batch, 64, channels], a1 first, as the side to move sees the board; or `tokens`,
//! `i64 [batch, 78]`, and for a network with an action-value head `action`, `i64 [batch]`. Outputs have the names
//! of the heads; those of a value head are `value.wdl`, `value.error` and `value.buckets`.

mod blocks;
pub(crate) mod graph;
mod heads;

use crate::Weights;
use graph::Graph;

impl Weights {
    /// The network as an ONNX file, with the architecture in its metadata. The same network always gives the
    /// same bytes.
    pub fn to_onnx(&self) -> Vec<u8> {
        let mut graph = Graph::new(self);
        let embedded = graph.embedding();
        let mut rows = embedded;
        for layer in 0..self.architecture().body.layers {
            rows = graph.block(rows, &format!("layers.{layer}"));
        }
        if self.architecture().body.norm.last {
            rows = graph.norm(&rows, "last_norm");
        }
        graph.heads(&rows);
        graph.into_model()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Architecture;
    use tandem_util::protobuf::MessageView;

    fn all(part: MessageView<'_>, field: u32) -> Vec<MessageView<'_>> {
        part.messages(field).map(Result::unwrap).collect()
    }

    /// Checks that every value of the graph is defined once, before its use. `scripts/check_onnx.py` compares
    /// the outputs with a plain reference.
    #[test]
    fn every_value_is_defined_once_before_its_use() {
        for text in crate::test_nets::ARCHITECTURES {
            let weights = Weights::random(Architecture::from_toml(text).unwrap(), 1);
            let bytes = weights.to_onnx();
            let model = MessageView { bytes: &bytes, offset: 0 };
            let graph = model.message(7).unwrap().unwrap();
            let name = |part: MessageView<'_>, field| part.message(field).unwrap().unwrap().bytes.to_vec();
            let mut made: Vec<Vec<u8>> = Vec::new();
            made.extend(all(graph, 5).into_iter().map(|tensor| name(tensor, 8)));
            made.extend(all(graph, 11).into_iter().map(|input| name(input, 1)));
            for node in all(graph, 1) {
                for input in all(node, 1) {
                    assert!(made.iter().any(|name| name == input.bytes));
                }
                made.extend(all(node, 2).into_iter().map(|output| output.bytes.to_vec()));
            }
            let outputs = all(graph, 12);
            assert!(!outputs.is_empty());
            assert!(outputs.into_iter().all(|output| made.contains(&name(output, 1))));
            let count = made.len();
            made.sort();
            made.dedup();
            assert_eq!(made.len(), count);
            assert_eq!(weights.to_onnx(), bytes);
        }
    }
}
