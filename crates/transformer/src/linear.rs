//! Layers: products with weights, packed for the kernels in one of three precisions.

use crate::aligned::Aligned;
use crate::floats::to_bf16;
use crate::kernels::{GROUP, Kernels, PAIR, PANEL, Store, TILE_BYTES, TILE_ROWS, left_by_bytes};
use crate::quantise::{MOST_INPUTS, quantise_row};

/// In what numbers a network computes its products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Floating point of 32 bits.
    F32,
    /// Bytes: a scale for each output of a layer, and one for each row that it reads. Where much depends on a row it is read
    /// twice, as bytes and as what they leave.
    Int8,
    /// Floating point of 16 bits with 8 bits of precision; sums have 32 bits.
    Bf16,
}

impl Precision {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::F32, Self::Int8, Self::Bf16];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Int8 => "int8",
            Self::Bf16 => "bf16",
        }
    }
}

/// Rows at a time, so that they stay near while all weights pass by.
const ROWS: usize = 64;

/// A layer: `x W^T + b`.
#[derive(Debug)]
pub(crate) struct Linear {
    inputs: usize,
    outputs: usize,
    panels: Panels,
    /// A number for each column of the panels.
    bias: Aligned<f32>,
    /// Rows are read in two bytes where weights are bytes.
    fine: bool,
}

/// Weights in panels of 32 outputs; what is missing in the last one is zero.
#[derive(Debug)]
enum Panels {
    F32(Aligned<f32>),
    Int8 {
        weights: Aligned<i8>,
        /// What one is worth, for each output.
        scales: Aligned<f32>,
        /// Rows are bytes whose zero is 128; this takes it away again.
        starts: Aligned<i32>,
    },
    Bf16(Aligned<u16>),
}

/// The weights and biases of a layer as they are stored: a row of `inputs` numbers for each output.
#[derive(Clone, Copy)]
pub(crate) struct Plain<'a> {
    pub(crate) weights: &'a [f32],
    pub(crate) bias: Option<&'a [f32]>,
    pub(crate) inputs: usize,
    /// What the outputs are multiplied by.
    pub(crate) factor: f32,
}

/// Rows as layers of less than full precision read them, and room for their sums.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    bytes: Aligned<u8>,
    scales: Aligned<f32>,
    /// What the bytes leave of the rows, and that as bytes.
    rest: Aligned<f32>,
    rest_bytes: Aligned<u8>,
    rest_scales: Aligned<f32>,
    halves: Aligned<u16>,
    sums: Aligned<f32>,
    whole_sums: Aligned<i32>,
    rest_sums: Aligned<i32>,
}

impl Linear {
    /// Several layers that read the same rows, side by side.
    pub(crate) fn new(layers: &[Plain<'_>], precision: Precision) -> Self {
        let inputs = layers[0].inputs;
        let rows: Vec<(&[f32], f32)> = layers
            .iter()
            .flat_map(|layer| layer.weights.chunks_exact(inputs).map(|row| (row, layer.factor)))
            .collect();
        let outputs = rows.len();
        let mut bias = Aligned::zeroed(outputs.next_multiple_of(PANEL));
        let mut at = 0;
        for layer in layers {
            let count = layer.weights.len() / inputs;
            for (to, from) in bias[at..at + count].iter_mut().zip(layer.bias.into_iter().flatten()) {
                *to = from * layer.factor;
            }
            at += count;
        }
        let panels = match precision {
            Precision::Int8 if inputs <= MOST_INPUTS => Panels::int8(&rows, inputs),
            Precision::Bf16 => Panels::bf16(&rows, inputs),
            _ => Panels::f32(&rows, inputs),
        };
        Self { inputs, outputs, panels, bias, fine: false }
    }

    /// The same layer, which reads rows in two bytes where its weights are bytes: twice the products, and hardly an error.
    pub(crate) fn fine(self) -> Self {
        Self { fine: true, ..self }
    }

    /// Numbers of a row that it makes.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Numbers of a row that it reads.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Makes rows ready to be read by this layer, and by others of its precision and as fine.
    pub(crate) fn prepare(&self, kernels: &Kernels, x: &[f32], prepared: &mut Prepared) {
        let count = x.len() / self.inputs;
        let whole = count.next_multiple_of(TILE_ROWS);
        match &self.panels {
            Panels::F32(_) => {}
            Panels::Int8 { .. } => {
                let bytes = prepared.bytes.room(whole * self.inputs.next_multiple_of(TILE_BYTES));
                let scales = prepared.scales.room(count);
                kernels.quantise(bytes, scales, x, self.inputs, self.inputs);
                if self.fine {
                    let rest = prepared.rest.room(x.len());
                    left_by_bytes(rest, x, self.inputs);
                    let bytes = prepared.rest_bytes.room(whole * self.inputs.next_multiple_of(TILE_BYTES));
                    let scales = prepared.rest_scales.room(count);
                    kernels.quantise(bytes, scales, rest, self.inputs, self.inputs);
                }
            }
            Panels::Bf16(_) => {
                let halves = prepared.halves.room(whole * self.inputs.next_multiple_of(TILE_BYTES / 2));
                kernels.halve(halves, count, x, self.inputs, self.inputs);
            }
        }
    }

    /// Passes rows through the layer.
    pub(crate) fn apply(
        &self,
        kernels: &Kernels,
        x: &[f32],
        prepared: &mut Prepared,
        store: Store,
        out: &mut [f32],
    ) {
        self.prepare(kernels, x, prepared);
        self.apply_prepared(kernels, x, prepared, store, out);
    }

    /// The same for rows that were made ready before.
    pub(crate) fn apply_prepared(
        &self,
        kernels: &Kernels,
        x: &[f32],
        prepared: &mut Prepared,
        store: Store,
        out: &mut [f32],
    ) {
        let (inputs, stride) = (self.inputs, self.outputs);
        let count = x.len() / inputs;
        let Prepared { bytes, scales: row_scales, halves, sums: float_sums, whole_sums, .. } = prepared;
        let (rest_bytes, rest_scales, rest_sums) =
            (&prepared.rest_bytes, &prepared.rest_scales, &mut prepared.rest_sums);
        for first in (0..count).step_by(ROWS) {
            let rows = ROWS.min(count - first);
            for (panel, (bias, columns)) in self.columns().enumerate() {
                let size = (rows, columns);
                let out = &mut out[first * stride + panel * PANEL..];
                match &self.panels {
                    Panels::F32(weights) => {
                        let sums = float_sums.room(ROWS * PANEL);
                        let weights = &weights[panel * inputs * PANEL..][..inputs * PANEL];
                        kernels.multiply(sums, PANEL, &x[first * inputs..], inputs, rows, weights);
                        kernels.finish(out, stride, size, store, sums, bias);
                    }
                    Panels::Int8 { weights, scales, starts } => {
                        let sums = whole_sums.room(ROWS * PANEL);
                        let depth = inputs.next_multiple_of(TILE_BYTES);
                        let weights = &weights[panel * depth * PANEL..][..depth * PANEL];
                        let start = &starts.as_chunks().0[panel];
                        kernels.multiply_int8(sums, &bytes[first * depth..], rows, weights, start);
                        let scales = &scales.as_chunks().0[panel];
                        if self.fine {
                            let rest = rest_sums.room(ROWS * PANEL);
                            kernels.multiply_int8(rest, &rest_bytes[first * depth..], rows, weights, start);
                            let both = float_sums.room(ROWS * PANEL);
                            let row_scales = row_scales[first..].iter().zip(&rest_scales[first..]);
                            add_up(both, [sums, rest], row_scales.take(rows), scales);
                            kernels.finish(out, stride, size, store, both, bias);
                        } else {
                            let scales = (&row_scales[first..], scales, bias);
                            kernels.finish_int8(out, stride, size, store, sums, scales);
                        }
                    }
                    Panels::Bf16(weights) => {
                        let sums = float_sums.room(ROWS * PANEL);
                        let depth = inputs.next_multiple_of(TILE_BYTES / 2);
                        let weights = &weights[panel * depth * PANEL..][..depth * PANEL];
                        kernels.multiply_bf16(sums, &halves[first * depth..], rows, weights);
                        kernels.finish(out, stride, size, store, sums, bias);
                    }
                }
            }
        }
    }

    /// The biases of each panel, and how many of its columns are outputs.
    fn columns(&self) -> impl Iterator<Item = (&[f32; PANEL], usize)> {
        let counts = (0..self.outputs).step_by(PANEL).map(|first| PANEL.min(self.outputs - first));
        self.bias.as_chunks::<PANEL>().0.iter().zip(counts)
    }
}

/// The sums of rows in bytes and of what those leave, with the scales of both for each row and those of the columns.
fn add_up<'a>(
    to: &mut [f32],
    [sums, rest]: [&[i32]; 2],
    row_scales: impl Iterator<Item = (&'a f32, &'a f32)>,
    scales: &[f32; PANEL],
) {
    let sums = sums.as_chunks::<PANEL>().0.iter().zip(rest.as_chunks::<PANEL>().0);
    for ((to, (sums, rest)), (scale, rest_scale)) in
        to.as_chunks_mut::<PANEL>().0.iter_mut().zip(sums).zip(row_scales)
    {
        for column in 0..PANEL {
            let sum = sums[column] as f32 * scale + rest[column] as f32 * rest_scale;
            to[column] = sum * scales[column];
        }
    }
}

impl Panels {
    fn f32(rows: &[(&[f32], f32)], inputs: usize) -> Self {
        let mut panels = Aligned::zeroed(rows.len().next_multiple_of(PANEL) * inputs);
        for (output, (row, factor)) in rows.iter().enumerate() {
            let panel = &mut panels[output / PANEL * inputs * PANEL..];
            for (input, weight) in row.iter().enumerate() {
                panel[input * PANEL + output % PANEL] = weight * factor;
            }
        }
        Self::F32(panels)
    }

    fn int8(rows: &[(&[f32], f32)], inputs: usize) -> Self {
        let depth = inputs.next_multiple_of(TILE_BYTES);
        let columns = rows.len().next_multiple_of(PANEL);
        let mut weights = Aligned::zeroed(columns * depth);
        let (mut scales, mut starts) = (Aligned::zeroed(columns), Aligned::<i32>::zeroed(columns));
        for (output, (row, factor)) in rows.iter().enumerate() {
            let (scale, bytes) = quantise_row(row);
            scales[output] = scale * factor;
            let panel = &mut weights[output / PANEL * depth * PANEL..];
            for (input, byte) in bytes.enumerate() {
                panel[(input / GROUP * PANEL + output % PANEL) * GROUP + input % GROUP] = byte;
                starts[output] -= 128 * i32::from(byte);
            }
        }
        Self::Int8 { weights, scales, starts }
    }

    fn bf16(rows: &[(&[f32], f32)], inputs: usize) -> Self {
        let depth = inputs.next_multiple_of(TILE_BYTES / 2);
        let mut panels = Aligned::zeroed(rows.len().next_multiple_of(PANEL) * depth);
        for (output, (row, factor)) in rows.iter().enumerate() {
            let panel = &mut panels[output / PANEL * depth * PANEL..];
            for (input, weight) in row.iter().enumerate() {
                panel[(input / PAIR * PANEL + output % PANEL) * PAIR + input % PAIR] =
                    to_bf16(weight * factor);
            }
        }
        Self::Bf16(panels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use tandem_chess::random::SplitMix;

    /// Two bytes for each number of a row leave next to nothing of the error that one leaves; what is left is the weights'.
    #[test]
    fn rows_in_two_bytes_are_nearly_as_good_as_whole_numbers() {
        let mut random = SplitMix::new(5);
        let mut numbers =
            |count: usize| -> Vec<f32> { (0..count).map(|_| random.unit() as f32 - 0.5).collect() };
        let (inputs, outputs, rows) = (100, 70, 83);
        let (weights, bias, x) = (numbers(inputs * outputs), numbers(outputs), numbers(inputs * rows));
        // Weights that are bytes already, so that rows alone are to blame.
        let (bytes, scales) = crate::quantise_rows(&weights, outputs, inputs);
        let weights = crate::restore_rows(&bytes, &scales);
        let layer = |precision| {
            let plain = Plain { weights: &weights, bias: Some(&bias), inputs, factor: 2.0 };
            Linear::new(&[plain], precision)
        };
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let kernels = Kernels::start(isa);
            for store in [Store::Set, Store::Activate(crate::Activation::Mish), Store::Add(0.5), Store::Times]
            {
                let run = |layer: Linear| {
                    let mut out = vec![0.25; rows * outputs];
                    layer.apply(&kernels, &x, &mut Prepared::default(), store, &mut out);
                    out
                };
                let exact = run(layer(Precision::F32));
                let worst = |found: Vec<f32>| {
                    let off = found.iter().zip(&exact).map(|(found, exact)| (found - exact).abs());
                    off.fold(0f32, f32::max)
                };
                let (one, two) =
                    (worst(run(layer(Precision::Int8))), worst(run(layer(Precision::Int8).fine())));
                assert!(two < one / 60.0, "{}, {store:?}: {one} and {two}", isa.name());
            }
        }
    }
}
