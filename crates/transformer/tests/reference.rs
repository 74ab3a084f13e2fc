//! Compares networks with a reference forward pass in double precision, written directly from the formulas.

mod common;

use common::{Positions, flat, run, small};
use tandem_chess::move_map::lc0;
use tandem_transformer::*;

type Matrix = Vec<Vec<f64>>;

/// The reference forward pass of a network.
struct Reference<'a>(&'a Weights);

fn erfc(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..400 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    1.0 - sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn activate(x: f64, activation: Activation) -> f64 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Mish => x * (1.0 + x.exp()).ln().tanh(),
        Activation::Gelu => 0.5 * x * erfc(-x / 2f64.sqrt()),
        Activation::SquaredRelu => x.max(0.0).powi(2),
        Activation::Relu => x.max(0.0),
    }
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::MIN, f64::max);
    let powers: Vec<f64> = logits.iter().map(|logit| (logit - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

impl Reference<'_> {
    fn tensor(&self, name: &str) -> Vec<f64> {
        self.0.get(name).unwrap_or_else(|| panic!("{name}")).iter().map(|&number| f64::from(number)).collect()
    }

    fn row(&self, name: &str, row: &[f64]) -> Vec<f64> {
        let weights = self.tensor(&format!("{name}.weight"));
        let mut out: Vec<f64> = weights.chunks(row.len()).map(|weights| dot(weights, row)).collect();
        if let Some(bias) = self.0.get(&format!("{name}.bias")) {
            out.iter_mut().zip(bias).for_each(|(out, &bias)| *out += f64::from(bias));
        }
        out
    }

    fn layer(&self, name: &str, rows: &Matrix) -> Matrix {
        rows.iter().map(|row| self.row(name, row)).collect()
    }

    fn activated_layer(&self, name: &str, rows: &Matrix, activation: Activation) -> Matrix {
        let rows = self.layer(name, rows);
        rows.into_iter().map(|row| row.into_iter().map(|x| activate(x, activation)).collect()).collect()
    }

    fn norm_row(&self, name: &str, row: &[f64], kind: NormKind, epsilon: f64) -> Vec<f64> {
        let scale = self.tensor(&format!("{name}.scale"));
        let count = row.len() as f64;
        match kind {
            NormKind::Layer => {
                let offset = self.tensor(&format!("{name}.offset"));
                let mean = row.iter().sum::<f64>() / count;
                let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
                let normed = |i: usize| (row[i] - mean) / (variance + epsilon).sqrt() * scale[i] + offset[i];
                (0..row.len()).map(normed).collect()
            }
            NormKind::Rms => {
                let square = row.iter().map(|x| x * x).sum::<f64>() / count;
                (0..row.len()).map(|i| row[i] / (square + epsilon).sqrt() * scale[i]).collect()
            }
        }
    }

    fn norm(&self, name: &str, rows: &Matrix) -> Matrix {
        let norm = self.0.architecture().body.norm;
        rows.iter().map(|row| self.norm_row(name, row, norm.kind, f64::from(norm.epsilon))).collect()
    }

    /// A feed-forward layer: two linear layers, or three with a gate.
    fn two_layers(&self, name: &str, row: &[f64]) -> Vec<f64> {
        let mut hidden = self.row(&format!("{name}.in"), row);
        hidden.iter_mut().for_each(|x| *x = activate(*x, self.0.architecture().body.activation));
        if self.0.get(&format!("{name}.gate.weight")).is_some() {
            let gate = self.row(&format!("{name}.gate"), row);
            hidden.iter_mut().zip(gate).for_each(|(x, gate)| *x *= gate);
        }
        self.row(&format!("{name}.out"), &hidden)
    }

    /// All experts are computed, and weighted by zero if they are not chosen.
    fn feed_forward(&self, block: &str, row: &[f64]) -> Vec<f64> {
        let FeedForward::Experts(experts) = self.0.architecture().body.feed_forward else {
            return self.two_layers(&format!("{block}.feed_forward"), row);
        };
        let mut gates = softmax(&self.row(&format!("{block}.router"), row));
        let mut sorted = gates.clone();
        sorted.sort_by(|left, right| right.total_cmp(left));
        gates
            .iter_mut()
            .for_each(|gate| *gate = if *gate >= sorted[experts.chosen - 1] { *gate } else { 0.0 });
        let sum: f64 = gates.iter().sum();
        let mut out = vec![0.0; row.len()];
        for (expert, gate) in gates.iter().enumerate() {
            let of_expert = self.two_layers(&format!("{block}.experts.{expert}"), row);
            out.iter_mut().zip(of_expert).for_each(|(out, x)| *out += gate / sum * x);
        }
        out
    }

    /// Biases of the attention logits, by head, query and key.
    fn added(&self, block: &str, rows: &Matrix) -> Option<Vec<f64>> {
        let smolgen = match self.0.architecture().body.attention {
            Attention::Plain { .. } => return None,
            Attention::Bias { .. } => return Some(self.tensor(&format!("{block}.attention.pairs"))),
            Attention::Smolgen(smolgen) => smolgen,
        };
        let compressed = self.layer(&format!("{block}.smolgen.squares"), rows).concat();
        let step = |name: &str, row: &[f64]| {
            let row = self.row(&format!("{block}.smolgen.{name}"), row);
            let row: Vec<f64> = row.into_iter().map(|x| activate(x, smolgen.activation)).collect();
            self.norm_row(&format!("{block}.smolgen.{name}_norm"), &row, NormKind::Layer, 1e-3)
        };
        let made = step("heads", &step("board", &compressed));
        let heads = made.chunks(smolgen.generated).map(|head| self.row("smolgen.generator", head));
        Some(heads.collect::<Vec<_>>().concat())
    }

    fn attention(&self, block: &str, rows: &Matrix) -> Matrix {
        let body = &self.0.architecture().body;
        let depth = body.width / body.heads;
        let added = self.added(block, rows);
        let [queries, keys, values] =
            ["query", "key", "value"].map(|part| self.layer(&format!("{block}.attention.{part}"), rows));
        let mut seen = vec![vec![]; rows.len()];
        for head in 0..body.heads {
            let part = |row: &Vec<f64>| row[head * depth..(head + 1) * depth].to_vec();
            for from in 0..rows.len() {
                let logits: Vec<f64> = (0..rows.len())
                    .map(|to| {
                        let hidden = body.mask == Mask::Prefix && from < 78 && to == 78;
                        let logit = dot(&part(&queries[from]), &part(&keys[to])) / (depth as f64).sqrt();
                        let more = added.as_ref().map_or(0.0, |added| added[(head * 64 + from) * 64 + to]);
                        if hidden { f64::NEG_INFINITY } else { logit + more }
                    })
                    .collect();
                let probabilities = softmax(&logits);
                for column in 0..depth {
                    let value = |to: usize| probabilities[to] * values[to][head * depth + column];
                    seen[from].push((0..rows.len()).map(value).sum());
                }
            }
        }
        self.layer(&format!("{block}.attention.out"), &seen)
    }

    fn body(&self, mut rows: Matrix) -> Matrix {
        let architecture = self.0.architecture();
        let factor = f64::from(architecture.branch_factor());
        let join = |rows: &Matrix, branch: Matrix| -> Matrix {
            let pairs = rows.iter().zip(branch);
            pairs
                .map(|(row, more)| row.iter().zip(more).map(|(x, more)| x + factor * more).collect())
                .collect()
        };
        for layer in 0..architecture.body.layers {
            let block = format!("layers.{layer}");
            let (first, second) = (format!("{block}.attention_norm"), format!("{block}.feed_forward_norm"));
            let feed = |rows: &Matrix| rows.iter().map(|row| self.feed_forward(&block, row)).collect();
            match architecture.body.norm.place {
                NormPlace::Pre => {
                    rows = join(&rows, self.attention(&block, &self.norm(&first, &rows)));
                    rows = join(&rows, feed(&self.norm(&second, &rows)));
                }
                NormPlace::Post => {
                    rows = self.norm(&first, &join(&rows, self.attention(&block, &rows)));
                    rows = self.norm(&second, &join(&rows, feed(&rows)));
                }
            }
        }
        if architecture.body.norm.last { self.norm("last_norm", &rows) } else { rows }
    }

    fn text_rows(&self, tokens: &[u16]) -> Matrix {
        let width = self.0.architecture().body.width;
        let (table, places) = (self.tensor("embedding.table"), self.tensor("embedding.positions"));
        let number = |place: usize, token: u16, column: usize| {
            table[usize::from(token) * width + column] * (width as f64).sqrt()
                + places[place * width + column]
        };
        let row =
            |(place, &token): (usize, &u16)| (0..width).map(|column| number(place, token, column)).collect();
        tokens.iter().enumerate().map(row).collect()
    }

    fn square_rows(&self, squares: &[f32]) -> Matrix {
        let architecture = self.0.architecture();
        let channels = squares.len() / 64;
        let mut rows: Matrix =
            squares.chunks(channels).map(|row| row.iter().map(|&x| f64::from(x)).collect()).collect();
        let Embedding::DenseBoard(dense) = architecture.embedding else {
            let places = self.tensor("embedding.positions");
            let mut rows = self.layer("embedding.squares", &rows).concat();
            rows.iter_mut().zip(places).for_each(|(x, place)| *x += place);
            return rows.chunks(architecture.body.width).map(<[f64]>::to_vec).collect();
        };
        let pieces: Vec<f64> = rows.iter().flat_map(|row| row[..12].to_vec()).collect();
        let board = self.row("embedding.board", &pieces);
        rows.iter_mut().zip(board.chunks(dense.channels)).for_each(|(row, more)| row.extend(more));
        let rows = self.activated_layer("embedding.squares", &rows, architecture.body.activation);
        let mut rows = self.norm("embedding.norm", &rows).concat();
        let (scale, offset) = (self.tensor("embedding.gate.scale"), self.tensor("embedding.gate.offset"));
        (0..rows.len()).for_each(|index| rows[index] = rows[index] * scale[index] + offset[index]);
        let rows: Matrix = rows.chunks(architecture.body.width).map(<[f64]>::to_vec).collect();
        let factor = f64::from(architecture.branch_factor());
        let fed = rows.iter().map(|row| {
            let more = self.two_layers("embedding.feed_forward", row);
            row.iter().zip(more).map(|(x, more)| x + factor * more).collect()
        });
        self.norm("embedding.feed_forward_norm", &fed.collect())
    }

    /// Logits of lc0's moves, from pairs of squares.
    fn pairs(&self, name: &str, squares: &Matrix) -> Vec<f64> {
        let root = (squares[0].len() as f64).sqrt();
        let (queries, keys) =
            (self.layer(&format!("{name}.query"), squares), self.layer(&format!("{name}.key"), squares));
        let logit = |index: lc0::PolicyIndex| {
            let text = lc0::text(index).into_bytes();
            let square = |at: usize| usize::from(text[at] - b'a') + 8 * usize::from(text[at + 1] - b'1');
            let (from, to) = (square(0), square(2));
            let mut logit = dot(&queries[from], &keys[to]);
            if let Some(piece) = text.get(4) {
                let offsets = self.row(&format!("{name}.promotion"), &keys[to]);
                let piece = b"qrb".iter().position(|other| other == piece).unwrap();
                logit += (offsets[piece] + offsets[3]) * root;
            }
            logit / root
        };
        lc0::PolicyIndex::all().map(logit).collect()
    }

    fn compressed(&self, name: &str, rows: &Matrix) -> Vec<f64> {
        let activation = self.0.architecture().body.activation;
        let squares = self.activated_layer(&format!("{name}.squares"), rows, activation).concat();
        self.row(&format!("{name}.board"), &squares).into_iter().map(|x| activate(x, activation)).collect()
    }

    /// Outputs of all heads for the last layer's tokens, in the order of [`flat`].
    fn heads(&self, rows: &Matrix) -> Vec<f64> {
        let Architecture { heads, body, .. } = self.0.architecture();
        let last = rows.last().unwrap();
        let mut all = vec![];
        if heads.action_value.is_some() {
            all.extend(self.row("action_value", last));
        }
        if heads.state_value.is_some() {
            all.extend(self.row("state_value", last));
        }
        match &heads.policy {
            Some(PolicyHead { kind: PolicyKind::Actions, .. }) => all.extend(self.row("policy", last)),
            Some(PolicyHead { aux_targets, .. }) => {
                let squares = self.activated_layer("policy.squares", rows, body.activation);
                all.extend(self.pairs("policy", &squares));
                aux_targets.iter().for_each(|target| all.extend(self.pairs(target.name(), &squares)));
            }
            None => {}
        }
        for (name, head) in heads.values() {
            let Some(head) = head else { continue };
            let board = self.compressed(name, rows);
            all.extend(self.row(&format!("{name}.wdl"), &board));
            if head.error {
                all.push(1.0 / (1.0 + (-self.row(&format!("{name}.error"), &board)[0]).exp()));
            }
            if head.buckets > 0 {
                all.extend(self.row(&format!("{name}.buckets"), &board));
            }
        }
        if heads.moves_left.is_some() {
            all.push(self.row("moves_left.plies", &self.compressed("moves_left", rows))[0].max(0.0));
        }
        if heads.move_value.is_some() {
            let squares = self.activated_layer("move_value.squares", rows, body.activation);
            all.extend(self.pairs("move_value", &squares).into_iter().map(f64::tanh));
        }
        all
    }

    /// Outputs of all positions or moves, each as one row of values.
    fn outputs(&self, positions: &Positions) -> Matrix {
        let architecture = self.0.architecture();
        let mut answers = vec![];
        for position in 0..positions.len() {
            if architecture.input != Input::Text {
                answers.push(self.heads(&self.body(self.square_rows(positions.squares(position)))));
                continue;
            }
            let tokens = positions.tokens(position);
            if architecture.heads.action_value.is_none() {
                answers.push(self.heads(&self.body(self.text_rows(tokens))));
            }
            for &action in positions.actions(position) {
                let tokens = [tokens, &[action]].concat();
                answers.push(self.heads(&self.body(self.text_rows(&tokens))));
            }
        }
        answers
    }
}

/// Instruction sets with kernels of their own.
fn available() -> impl Iterator<Item = Isa> {
    Isa::available().filter(|isa| *isa != Isa::Sse41)
}

/// Agreement within 1e-4 on every instruction set: embeddings, masks, all kinds of attention, experts, norms,
/// heads.
#[test]
fn networks_match_the_reference() {
    for (name, architecture) in small() {
        let weights = Weights::random(architecture, 11);
        let positions = Positions::random(weights.architecture(), 3, 12);
        let expected = Reference(&weights).outputs(&positions);
        for isa in available() {
            let answers = run(&Network::new(&weights, Precision::F32, isa), &positions);
            assert_eq!(answers.len(), expected.len(), "{name}");
            for (answer, expected) in answers.iter().zip(&expected) {
                let answer = flat(answer);
                assert_eq!(answer.len(), expected.len(), "{name}");
                for (index, (&near, truth)) in answer.iter().zip(expected).enumerate() {
                    let off = (f64::from(near) - truth).abs() / truth.abs().max(1.0);
                    assert!(off < 1e-4, "{name} {isa:?}: number {index} is {near} for {truth}");
                }
            }
        }
    }
}
