//! Linear layers: weights packed into panels for the kernels, in one of three precisions.

use crate::aligned::Aligned;
use crate::floats::to_bf16;
use crate::int8::{MAX_INPUTS, quantise_row};
use crate::kernels::{Epilogue, GROUP, Kernels, PAIR, PANEL, TILE_BYTES, TILE_ROWS, quantisation_residual};

/// Number format in which a network computes its matrix products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit floating point: the reference, with outputs that only differ by rounding between instruction
    /// sets.
    F32,
    /// int8 weights with a scale for each output of a layer, and uint8 inputs with a scale for each input
    /// vector. Sensitive layers read their input as two bytes: the quantised value, and its rounding error
    /// quantised in turn.
    Int8,
    /// bfloat16 factors with 8 bits of precision, and 32-bit sums.
    Bf16,
}

impl Precision {
    /// All precisions, full precision first, in the order in which tools list them.
    pub const ALL: [Self; 3] = [Self::F32, Self::Int8, Self::Bf16];

    /// Name on the command line and in messages: `f32`, `int8` or `bf16`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Int8 => "int8",
            Self::Bf16 => "bf16",
        }
    }
}

/// Input vectors that are multiplied at a time, so that they stay in cache while all weights are read.
const ROWS: usize = 64;

/// A linear layer, `x W^T + b`, or several that read the same input.
#[derive(Debug)]
pub(crate) struct Linear {
    inputs: usize,
    outputs: usize,
    panels: Panels,
    /// A value for each column of the panels; zero where a layer has no bias.
    bias: Aligned<f32>,
    /// int8 only: the input is quantised as two bytes, value and residual.
    residual: bool,
}

/// Weights in panels of 32 outputs; the last panel is padded with zeros.
#[derive(Debug)]
enum Panels {
    F32(Aligned<f32>),
    Int8 {
        weights: Aligned<i8>,
        /// Weight scale of each output.
        scales: Aligned<f32>,
        /// Sum of each output for an input of zeros, negated: zero is stored as 128 in the unsigned input
        /// bytes.
        starts: Aligned<i32>,
    },
    Bf16(Aligned<u16>),
}

/// Weights and biases of a layer as they are stored: a row of `inputs` weights for each output.
#[derive(Clone, Copy)]
pub(crate) struct UnpackedLinear<'a> {
    pub(crate) weights: &'a [f32],
    pub(crate) bias: Option<&'a [f32]>,
    pub(crate) inputs: usize,
    /// Factor that is folded into weights and biases, for example 1/√depth of queries.
    pub(crate) factor: f32,
}

/// Input vectors quantised for a layer, and buffers for its sums. Reused by all layers of a network.
#[derive(Debug, Default)]
pub(crate) struct LinearScratch {
    bytes: Aligned<u8>,
    scales: Aligned<f32>,
    /// Residual of the quantised input, then its own quantised form.
    residual: Aligned<f32>,
    residual_bytes: Aligned<u8>,
    residual_scales: Aligned<f32>,
    bf16: Aligned<u16>,
    sums: Aligned<f32>,
    int_sums: Aligned<i32>,
    residual_sums: Aligned<i32>,
}

impl Linear {
    /// Packs several layers that read the same input, side by side, as one.
    pub(crate) fn new(layers: &[UnpackedLinear<'_>], precision: Precision) -> Self {
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
            Precision::Int8 if inputs <= MAX_INPUTS => Panels::int8(&rows, inputs),
            Precision::Bf16 => Panels::bf16(&rows, inputs),
            _ => Panels::f32(&rows, inputs),
        };
        Self { inputs, outputs, panels, bias, residual: false }
    }

    /// The same layer with a two-byte input if its weights are int8: twice the products, and hardly any
    /// quantisation error.
    pub(crate) fn with_residual(self) -> Self {
        Self { residual: true, ..self }
    }

    /// Outputs for each input vector, over all joined layers.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Quantises input vectors for this layer, and for others of the same precision that treat the residual
    /// alike.
    pub(crate) fn prepare(&self, kernels: &Kernels, x: &[f32], prepared: &mut LinearScratch) {
        let count = x.len() / self.inputs;
        let whole = count.next_multiple_of(TILE_ROWS);
        match &self.panels {
            Panels::F32(_) => {}
            Panels::Int8 { .. } => {
                let bytes = prepared.bytes.buffer(whole * self.inputs.next_multiple_of(TILE_BYTES));
                let scales = prepared.scales.buffer(count);
                kernels.quantise(bytes, scales, x, self.inputs, self.inputs);
                if self.residual {
                    let residual = prepared.residual.buffer(x.len());
                    quantisation_residual(residual, x, self.inputs);
                    let bytes =
                        prepared.residual_bytes.buffer(whole * self.inputs.next_multiple_of(TILE_BYTES));
                    let scales = prepared.residual_scales.buffer(count);
                    kernels.quantise(bytes, scales, residual, self.inputs, self.inputs);
                }
            }
            Panels::Bf16(_) => {
                let bf16 = prepared.bf16.buffer(whole * self.inputs.next_multiple_of(TILE_BYTES / 2));
                kernels.convert_bf16(bf16, count, x, self.inputs, self.inputs);
            }
        }
    }

    /// Multiplies input vectors by the layer and stores the results by an epilogue.
    pub(crate) fn apply(
        &self,
        kernels: &Kernels,
        x: &[f32],
        prepared: &mut LinearScratch,
        epilogue: Epilogue,
        out: &mut [f32],
    ) {
        self.prepare(kernels, x, prepared);
        self.apply_prepared(kernels, x, prepared, epilogue, out);
    }

    /// The same for input vectors that [`Self::prepare`] has already quantised.
    pub(crate) fn apply_prepared(
        &self,
        kernels: &Kernels,
        x: &[f32],
        prepared: &mut LinearScratch,
        epilogue: Epilogue,
        out: &mut [f32],
    ) {
        let (inputs, stride) = (self.inputs, self.outputs);
        let count = x.len() / inputs;
        let LinearScratch { bytes, scales: row_scales, bf16, sums: float_sums, int_sums, .. } = prepared;
        let (residual_bytes, residual_scales, residual_sums) =
            (&prepared.residual_bytes, &prepared.residual_scales, &mut prepared.residual_sums);
        for first in (0..count).step_by(ROWS) {
            let rows = ROWS.min(count - first);
            for (panel, (bias, columns)) in self.columns().enumerate() {
                let size = (rows, columns);
                let out = &mut out[first * stride + panel * PANEL..];
                match &self.panels {
                    Panels::F32(weights) => {
                        let sums = float_sums.buffer(ROWS * PANEL);
                        let weights = &weights[panel * inputs * PANEL..][..inputs * PANEL];
                        kernels.multiply(sums, PANEL, &x[first * inputs..], inputs, rows, weights);
                        kernels.finish(out, stride, size, epilogue, sums, bias);
                    }
                    Panels::Int8 { weights, scales, starts } => {
                        let sums = int_sums.buffer(ROWS * PANEL);
                        let depth = inputs.next_multiple_of(TILE_BYTES);
                        let weights = &weights[panel * depth * PANEL..][..depth * PANEL];
                        let start = &starts.as_chunks().0[panel];
                        kernels.multiply_int8(sums, &bytes[first * depth..], rows, weights, start);
                        let scales = &scales.as_chunks().0[panel];
                        if self.residual {
                            let residual = residual_sums.buffer(ROWS * PANEL);
                            kernels.multiply_int8(
                                residual,
                                &residual_bytes[first * depth..],
                                rows,
                                weights,
                                start,
                            );
                            let both = float_sums.buffer(ROWS * PANEL);
                            let row_scales = row_scales[first..].iter().zip(&residual_scales[first..]);
                            add_residual_sums(both, [sums, residual], row_scales.take(rows), scales);
                            kernels.finish(out, stride, size, epilogue, both, bias);
                        } else {
                            let scales = (&row_scales[first..], scales, bias);
                            kernels.finish_int8(out, stride, size, epilogue, sums, scales);
                        }
                    }
                    Panels::Bf16(weights) => {
                        let sums = float_sums.buffer(ROWS * PANEL);
                        let depth = inputs.next_multiple_of(TILE_BYTES / 2);
                        let weights = &weights[panel * depth * PANEL..][..depth * PANEL];
                        kernels.multiply_bf16(sums, &bf16[first * depth..], rows, weights);
                        kernels.finish(out, stride, size, epilogue, sums, bias);
                    }
                }
            }
        }
    }

    /// Biases of each panel, and the number of its columns that are outputs.
    fn columns(&self) -> impl Iterator<Item = (&[f32; PANEL], usize)> {
        let counts = (0..self.outputs).step_by(PANEL).map(|first| PANEL.min(self.outputs - first));
        self.bias.as_chunks::<PANEL>().0.iter().zip(counts)
    }
}

/// Adds the sums of the quantised input and of its residual, with the input scales of both for each row and
/// the weight scale of each column.
fn add_residual_sums<'a>(
    to: &mut [f32],
    [sums, residual]: [&[i32]; 2],
    row_scales: impl Iterator<Item = (&'a f32, &'a f32)>,
    scales: &[f32; PANEL],
) {
    let sums = sums.as_chunks::<PANEL>().0.iter().zip(residual.as_chunks::<PANEL>().0);
    for ((to, (sums, residual)), (scale, residual_scale)) in
        to.as_chunks_mut::<PANEL>().0.iter_mut().zip(sums).zip(row_scales)
    {
        for column in 0..PANEL {
            let sum = sums[column] as f32 * scale + residual[column] as f32 * residual_scale;
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
    use tandem_util::random::SplitMix;

    /// A two-byte input leaves next to nothing of the error of a one-byte input; the residual is the error of the
    /// weights.
    #[test]
    fn two_byte_inputs_are_nearly_as_accurate_as_full_precision() {
        let mut random = SplitMix::new(5);
        let mut values =
            |count: usize| -> Vec<f32> { (0..count).map(|_| random.unit() as f32 - 0.5).collect() };
        let (inputs, outputs, rows) = (100, 70, 83);
        let (weights, bias, x) = (values(inputs * outputs), values(outputs), values(inputs * rows));
        // Weights that are int8 values already, so that only the input is quantised.
        let (bytes, scales) = crate::quantise_rows(&weights, outputs, inputs);
        let weights = crate::restore_rows(&bytes, &scales);
        let layer = |precision| {
            let unpacked = UnpackedLinear { weights: &weights, bias: Some(&bias), inputs, factor: 2.0 };
            Linear::new(&[unpacked], precision)
        };
        for isa in Isa::available() {
            let kernels = Kernels::start(isa);
            for epilogue in [
                Epilogue::Assign,
                Epilogue::Activate(crate::Activation::Mish),
                Epilogue::AddScaled(0.5),
                Epilogue::Multiply,
            ] {
                let run = |layer: Linear| {
                    let mut out = vec![0.25; rows * outputs];
                    layer.apply(&kernels, &x, &mut LinearScratch::default(), epilogue, &mut out);
                    out
                };
                let exact = run(layer(Precision::F32));
                let worst = |found: Vec<f32>| {
                    let off = found.iter().zip(&exact).map(|(found, exact)| (found - exact).abs());
                    off.fold(0f32, f32::max)
                };
                let (one, two) =
                    (worst(run(layer(Precision::Int8))), worst(run(layer(Precision::Int8).with_residual())));
                assert!(two < one / 60.0, "{}, {epilogue:?}: {one} and {two}", isa.name());
            }
        }
    }
}
