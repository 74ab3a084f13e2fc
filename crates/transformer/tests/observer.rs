//! An observer receives the attention weights, and does not change the outputs.

mod common;

use common::{Positions, run, small};
use std::collections::HashMap;
use tandem_transformer::*;

/// Rows of weights by layer, head, position, move and token.
type Seen = HashMap<(usize, usize, usize, Option<usize>, usize), Vec<f32>>;

#[derive(Default)]
struct All {
    layer: usize,
    weights: Seen,
    added: Seen,
}

impl AttentionObserver for All {
    fn layer(&mut self, layer: usize) {
        self.layer = layer;
    }

    fn attention(&mut self, view: &AttentionView<'_>) {
        let key = |token| (self.layer, view.head, view.position, view.action, token);
        for (token, weights) in view.weights() {
            let before = self.weights.insert(key(token), weights.collect());
            assert!(before.is_none(), "seen twice");
        }
        for (token, logits) in view.added_logits().into_iter().flatten() {
            self.added.insert(key(token), logits.to_vec());
        }
    }
}

fn observed(weights: &Weights, positions: &Positions) -> (All, Vec<Outputs>) {
    let network = Network::new(weights, Precision::F32, Isa::best());
    let (mut all, mut scratch) = (All::default(), Scratch::default());
    let outputs = positions.with(0, positions.len(), |inputs| {
        network.run_observed(inputs, &mut scratch, &mut all).unwrap().to_vec()
    });
    assert_eq!(outputs, run(&network, positions));
    (all, outputs)
}

#[test]
fn attention_weights_of_every_query_add_up_to_one() {
    for (name, architecture) in small() {
        let weights = Weights::random(architecture, 1);
        let Architecture { body, heads, input, .. } = weights.architecture();
        let positions = Positions::random(weights.architecture(), 4, 2);
        let (all, answers) = observed(&weights, &positions);
        for (key, row) in &all.weights {
            let sum: f32 = row.iter().sum();
            assert!((sum - 1.0).abs() < 1e-5 && row.iter().all(|weight| *weight >= 0.0), "{name} {key:?}");
        }
        // Outputs of 4 positions, or of the 3 + 0 + 1 + 7 moves that they have.
        let answers = answers.len();
        let [first, last] = match (input, body.mask, heads.action_value) {
            (Input::Text, Mask::Prefix, _) => [4 * 78 + answers, answers],
            (Input::Text, Mask::Full, Some(_)) => [79 * answers, answers],
            (Input::Text, Mask::Full, None) => [78 * answers, answers],
            _ => [64 * answers; 2],
        };
        assert_eq!(all.weights.len(), body.heads * ((body.layers - 1) * first + last), "{name}");
        let has_added = !matches!(body.attention, Attention::Plain { .. });
        assert_eq!(all.added.len(), if has_added { all.weights.len() } else { 0 }, "{name}");
    }
}

/// With zero queries the weights are the softmax of the added logits alone.
#[test]
fn added_logits_enter_the_softmax() {
    for (name, architecture) in small() {
        if matches!(architecture.body.attention, Attention::Plain { .. }) {
            continue;
        }
        let mut weights = Weights::random(architecture, 1);
        for layer in 0..2 {
            for part in ["weight", "bias"] {
                if let Some(query) = weights.get_mut(&format!("layers.{layer}.attention.query.{part}")) {
                    query.fill(0.0);
                }
            }
        }
        let positions = Positions::random(weights.architecture(), 3, 5);
        let (all, _) = observed(&weights, &positions);
        for (key, row) in &all.weights {
            let logits = &all.added[key];
            let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
            for (weight, logit) in row.iter().zip(logits) {
                let expected = f64::from(*logit).exp() / sum;
                assert!((f64::from(*weight) - expected).abs() < 1e-6, "{name} {key:?}");
            }
            if let Some(pairs) = weights.get(&format!("layers.{}.attention.pairs", key.0)) {
                assert_eq!(logits[..], pairs[(key.1 * 64 + key.4) * 64..][..64], "{name} {key:?}");
            }
        }
    }
}
