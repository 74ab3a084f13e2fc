//! Our kernels against plain f32 operations of libtorch: on the CPU, where `csrc/emulated.cpp` runs them, and
//! on a GPU if there is one.

use super::*;
use crate::Compute;
use crate::model::activate;
use crate::parameters::to_vec;
use crate::shim::{compile, load_cuda, load_gpu_library};
use std::ffi::c_int;
use std::ptr::{null, null_mut};
use tandem_transformer::Activation;
use tandem_util::random::SplitMix;

/// Largest error, relative to the largest value of a tensor. Rounding to bf16 costs up to 0.4%, and a few
/// roundings add up.
const TOLERANCE: f64 = 0.02;

unsafe extern "C" {
    fn tandem_emulated_norm(
        x: *const u16,
        branch: *const u16,
        scale: *const u16,
        offset: *const u16,
        factor: f32,
        epsilon: f32,
        centred: c_int,
        rows: c_int,
        width: c_int,
        blocks: c_int,
        sum: *mut u16,
        normed: *mut u16,
        normed_grad: *const u16,
        sum_grad: *const u16,
        x_grad: *mut u16,
        branch_grad: *mut u16,
        partials: *mut f32,
    ) -> c_int;
    fn tandem_emulated_bias_activation(
        activation: c_int,
        x: *const u16,
        bias: *const u16,
        rows: c_int,
        width: c_int,
        blocks: c_int,
        out: *mut u16,
        out_grad: *const u16,
        x_grad: *mut u16,
        partials: *mut f32,
    ) -> c_int;
    fn tandem_emulated_attention(
        qkv: *const u16,
        bias: *const u16,
        batch: c_int,
        heads: c_int,
        head: c_int,
        bias_stride: c_int,
        out: *mut u16,
        out_grad: *const u16,
        qkv_grad: *mut u16,
        bias_grad: *mut u16,
        bias_grad_partials: *mut f32,
        blocks: c_int,
    ) -> c_int;
}

/// Pseudo-random values that bf16 represents exactly.
fn random_values(shape: &[i64], seed: u64) -> Tensor {
    let mut random = SplitMix::new(seed);
    let count: i64 = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|_| random.below(4001) as f32 / 1000.0 - 2.0).collect();
    Tensor::from_slice(&values).view(shape).to_kind(Kind::BFloat16).to_kind(Kind::Float)
}

/// The values as bf16, which kernels read.
fn bf16_bits(tensor: &Tensor) -> Vec<u16> {
    to_vec(tensor).into_iter().map(|value| (value.to_bits() >> 16) as u16).collect()
}

/// An output buffer filled with NaN, so that values that a kernel does not write are noticed.
fn nan_buffer(tensor: &Tensor) -> Vec<u16> {
    vec![0x7fc0; tensor.numel()]
}

fn from_bf16_bits(bf16_bits: &[u16], like: &Tensor) -> Tensor {
    let values: Vec<f32> =
        bf16_bits.iter().map(|&bf16_bits| f32::from_bits(u32::from(bf16_bits) << 16)).collect();
    Tensor::from_slice(&values).view_as(like)
}

/// Outputs and gradients by name, to be compared.
type Results = Vec<(&'static str, Tensor)>;

fn compare(actual: &Results, expected: &Results, case: &str) {
    assert_eq!(actual.len(), expected.len(), "{case}");
    for ((name, actual), (_, expected)) in actual.iter().zip(expected) {
        let actual = actual.to_device(Device::Cpu).to_kind(Kind::Float);
        let largest = expected.abs().max().double_value(&[]);
        let error = (actual - expected).abs().max().double_value(&[]);
        assert!(error <= TOLERANCE * largest, "{name} of {case}: error {error}, largest value {largest}");
    }
}

/// A leaf tensor that requires gradients: bf16 on a GPU, f32 on the CPU.
fn leaf(tensor: &Tensor, device: Device) -> Tensor {
    let kind = if device == Device::Cpu { Kind::Float } else { Kind::BFloat16 };
    tensor.to_device(device).to_kind(kind).detach().set_requires_grad(true)
}

fn shape(width: i64, head: i64) -> KernelShape {
    KernelShape { width, head, activation: Activation::Mish }
}

/// Kernels on this machine's GPU.
fn gpu_kernels(shape: KernelShape) -> FusedKernels {
    let gpu = Compute::from_name("cuda").expect("a GPU");
    FusedKernels::new(shape, gpu.device()).expect("kernels for this GPU")
}

struct NormCase {
    x: Tensor,
    branch: Option<Tensor>,
    scale: Tensor,
    offset: Option<Tensor>,
    factor: f64,
    normed_grad: Tensor,
    /// `None` if the sum has no further use, as with post-norm.
    sum_grad: Option<Tensor>,
}

const EPSILON: f64 = 1e-3;

impl NormCase {
    fn new(rows: i64, width: i64, kind: NormCaseKind, centred: bool) -> Self {
        let shape = [rows, width];
        let has_branch = kind != NormCaseKind::Alone;
        Self {
            x: random_values(&shape, 1),
            branch: has_branch.then(|| random_values(&shape, 2)),
            scale: random_values(&[width], 3),
            offset: centred.then(|| random_values(&[width], 4)),
            factor: if kind == NormCaseKind::AfterBranch { 0.375 } else { 1.0 },
            normed_grad: random_values(&shape, 5),
            sum_grad: (kind == NormCaseKind::BeforeBranch).then(|| random_values(&shape, 6)),
        }
    }

    /// Outputs and gradients of `join` on a device.
    fn run(
        &self,
        device: Device,
        join: impl Fn(&Tensor, Option<&Tensor>, &Tensor, Option<&Tensor>) -> NormedSum,
    ) -> Results {
        let (x, scale) = (leaf(&self.x, device), leaf(&self.scale, device));
        let branch = self.branch.as_ref().map(|branch| leaf(branch, device));
        let offset = self.offset.as_ref().map(|offset| leaf(offset, device));
        let NormedSum { sum, normed } = join(&x, branch.as_ref(), &scale, offset.as_ref());
        let weighted = |values: &Tensor, grads: &Tensor| {
            (values.to_kind(Kind::Float) * grads.to_device(device)).sum(Kind::Float)
        };
        let mut weighted_sum = weighted(&normed, &self.normed_grad);
        if let Some(grads) = &self.sum_grad {
            weighted_sum += weighted(&sum, grads);
        }
        weighted_sum.backward();
        let mut results = vec![
            ("sum", sum.detach()),
            ("normed", normed.detach()),
            ("x", x.grad()),
            ("scale", scale.grad()),
        ];
        results.extend(branch.map(|branch| ("branch", branch.grad())));
        results.extend(offset.map(|offset| ("offset", offset.grad())));
        results
    }

    fn expected(&self) -> Results {
        self.run(Device::Cpu, |x, branch, scale, offset| {
            let sum = branch.map_or_else(|| x.shallow_clone(), |branch| x + branch * self.factor);
            let mean = sum.mean_dim(&[-1i64][..], true, Kind::Float);
            let centred = if offset.is_some() { &sum - mean } else { sum.shallow_clone() };
            let size = (centred.square().mean_dim(&[-1i64][..], true, Kind::Float) + EPSILON).rsqrt();
            let normed = centred * size * scale;
            let normed = offset.map_or_else(|| normed.shallow_clone(), |offset| &normed + offset);
            NormedSum { sum, normed }
        })
    }

    fn on_gpu(&self, kernels: &FusedKernels) -> Results {
        self.run(kernels.device, |x, branch, scale, offset| {
            let norm = NormParameters { scale, offset, epsilon: EPSILON, centred: offset.is_some() };
            kernels.add_norm(x, branch, self.factor, norm).expect("the shapes are supported")
        })
    }

    fn emulated(&self) -> Results {
        let (rows, width, blocks) = (self.x.size()[0], self.x.size()[1], 2);
        let maybe = |tensor: &Option<Tensor>| tensor.as_ref().map(bf16_bits);
        let pointer =
            |bf16_bits: &Option<Vec<u16>>| bf16_bits.as_ref().map_or(null(), |bf16_bits| bf16_bits.as_ptr());
        let (x, scale, normed_grad) =
            (bf16_bits(&self.x), bf16_bits(&self.scale), bf16_bits(&self.normed_grad));
        let (branch, offset, sum_grad) = (maybe(&self.branch), maybe(&self.offset), maybe(&self.sum_grad));
        let (mut sum, mut normed, mut x_grad) = (x.clone(), nan_buffer(&self.x), nan_buffer(&self.x));
        let mut branch_grad = (branch.is_some() && self.factor != 1.0).then(|| nan_buffer(&self.x));
        let mut partials = vec![f32::NAN; blocks * 2 * width as usize];
        // SAFETY: all buffers have the sizes that rows, width and blocks require, or are null where that is
        // allowed.
        let code = unsafe {
            tandem_emulated_norm(
                x.as_ptr(),
                pointer(&branch),
                scale.as_ptr(),
                pointer(&offset),
                self.factor as f32,
                EPSILON as f32,
                offset.is_some().into(),
                rows as c_int,
                width as c_int,
                blocks as c_int,
                sum.as_mut_ptr(),
                normed.as_mut_ptr(),
                normed_grad.as_ptr(),
                pointer(&sum_grad),
                x_grad.as_mut_ptr(),
                branch_grad.as_mut().map_or(null_mut(), |buffer| buffer.as_mut_ptr()),
                partials.as_mut_ptr(),
            )
        };
        assert_eq!(code, 0);
        let sums = Tensor::from_slice(&partials).view([blocks as i64, 2, width]).sum_dim_intlist(
            &[0i64][..],
            false,
            Kind::Float,
        );
        let of_rows = |bf16_bits: &[u16]| from_bf16_bits(bf16_bits, &self.x);
        let mut results = vec![
            ("sum", of_rows(&sum)),
            ("normed", of_rows(&normed)),
            ("x", of_rows(&x_grad)),
            ("scale", sums.get(0)),
        ];
        if branch.is_some() {
            results.push(("branch", of_rows(branch_grad.as_ref().unwrap_or(&x_grad))));
        }
        if offset.is_some() {
            results.push(("offset", sums.get(1)));
        }
        results
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NormCaseKind {
    /// A norm without a branch.
    Alone,
    /// Pre-norm: both the sum and its norm are used.
    BeforeBranch,
    /// Post-norm: only the norm is used.
    AfterBranch,
}

fn norm_cases(mut check: impl FnMut(i64, i64, NormCaseKind, bool)) {
    for (rows, width) in [(1, 64), (37, 96), (200, 256), (35, 512), (21, 800), (19, 1024)] {
        for kind in [NormCaseKind::Alone, NormCaseKind::BeforeBranch, NormCaseKind::AfterBranch] {
            [true, false].into_iter().for_each(|centred| check(rows, width, kind, centred));
        }
    }
}

const ACTIVATIONS: [Activation; 5] =
    [Activation::Silu, Activation::Mish, Activation::Gelu, Activation::SquaredRelu, Activation::Relu];

struct ActivationCase {
    x: Tensor,
    bias: Option<Tensor>,
    grads: Tensor,
    activation: Activation,
}

impl ActivationCase {
    fn new(rows: i64, width: i64, has_bias: bool, activation: Activation) -> Self {
        // Far enough from zero to reach the linear parts of every activation.
        let x = random_values(&[rows, width], 21) * 16.0;
        let bias = has_bias.then(|| random_values(&[width], 22));
        Self { x, bias, grads: random_values(&[rows, width], 23), activation }
    }

    fn run(&self, device: Device, activation: impl Fn(&Tensor, Option<&Tensor>) -> Tensor) -> Results {
        let x = leaf(&self.x, device);
        let bias = self.bias.as_ref().map(|bias| leaf(bias, device));
        let out = activation(&x, bias.as_ref());
        (out.to_kind(Kind::Float) * self.grads.to_device(device)).sum(Kind::Float).backward();
        let mut results = vec![("activated", out.detach()), ("x", x.grad())];
        results.extend(bias.map(|bias| ("bias", bias.grad())));
        results
    }

    fn expected(&self) -> Results {
        self.run(Device::Cpu, |x, bias| {
            activate(&bias.map_or_else(|| x.shallow_clone(), |bias| x + bias), self.activation)
        })
    }

    fn on_gpu(&self, kernels: &FusedKernels) -> Results {
        self.run(kernels.device, |x, bias| {
            kernels.bias_activation(x, bias).expect("the shapes are supported")
        })
    }

    fn emulated(&self) -> Results {
        let (rows, width, blocks) = (self.x.size()[0], self.x.size()[1], 2);
        let (x, grads) = (bf16_bits(&self.x), bf16_bits(&self.grads));
        let bias = self.bias.as_ref().map(bf16_bits);
        let (mut out, mut x_grad) = (nan_buffer(&self.x), nan_buffer(&self.x));
        let mut partials = bias.as_ref().map(|_| vec![f32::NAN; (blocks * width) as usize]);
        let activation = KernelShape { activation: self.activation, ..shape(64, 32) }.activation_id();
        // SAFETY: all buffers have the sizes that rows, width and blocks require, or are null where that is
        // allowed.
        let code = unsafe {
            tandem_emulated_bias_activation(
                activation,
                x.as_ptr(),
                bias.as_ref().map_or(null(), |bias| bias.as_ptr()),
                rows as c_int,
                width as c_int,
                blocks as c_int,
                out.as_mut_ptr(),
                grads.as_ptr(),
                x_grad.as_mut_ptr(),
                partials.as_mut().map_or(null_mut(), |partials| partials.as_mut_ptr()),
            )
        };
        assert_eq!(code, 0);
        let mut results =
            vec![("activated", from_bf16_bits(&out, &self.x)), ("x", from_bf16_bits(&x_grad, &self.x))];
        if let Some(partials) = partials {
            let partials = Tensor::from_slice(&partials).view([blocks, width]);
            results.push(("bias", partials.sum_dim_intlist(&[0i64][..], false, Kind::Float)));
        }
        results
    }
}

fn activation_cases(mut check: impl FnMut(i64, i64, bool, Activation)) {
    for (rows, width) in [(1, 8), (53, 264), (30, 1024)] {
        for activation in ACTIVATIONS {
            [true, false].into_iter().for_each(|has_bias| check(rows, width, has_bias, activation));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bias {
    Missing,
    Shared,
    PerPosition,
}

impl Bias {
    const ALL: [Self; 3] = [Self::Missing, Self::Shared, Self::PerPosition];
}

struct AttentionCase {
    qkv: Tensor,
    bias: Option<Tensor>,
    grads: Tensor,
    heads: i64,
    head: i64,
}

impl AttentionCase {
    fn new(batch: i64, heads: i64, head: i64, bias: Bias) -> Self {
        let width = heads * head;
        let bias = match bias {
            Bias::Missing => None,
            Bias::Shared => Some(random_values(&[heads, SQUARES, SQUARES], 12)),
            Bias::PerPosition => Some(random_values(&[batch, heads, SQUARES, SQUARES], 13)),
        };
        let qkv = random_values(&[batch, SQUARES, 3 * width], 11);
        Self { qkv, bias, grads: random_values(&[batch, SQUARES, width], 14), heads, head }
    }

    fn run(&self, device: Device, attend: impl Fn(&Tensor, Option<&Tensor>) -> Tensor) -> Results {
        let qkv = leaf(&self.qkv, device);
        let bias = self.bias.as_ref().map(|bias| leaf(bias, device));
        let out = attend(&qkv, bias.as_ref());
        (out.to_kind(Kind::Float) * self.grads.to_device(device)).sum(Kind::Float).backward();
        let mut results = vec![("out", out.detach())];
        let grads = qkv.grad().chunk(3, -1);
        results.extend(["queries", "keys", "values"].into_iter().zip(grads));
        results.extend(bias.map(|bias| ("bias", bias.grad())));
        results
    }

    fn expected(&self) -> Results {
        self.run(Device::Cpu, |qkv, bias| {
            let qkv = qkv.view([-1, SQUARES, 3, self.heads, self.head]);
            let part = |part: i64| qkv.select(2, part).transpose(1, 2);
            let logits = part(0).matmul(&part(1).transpose(2, 3)) / (self.head as f64).sqrt();
            let logits = bias.map_or_else(|| logits.shallow_clone(), |bias| &logits + bias);
            let out = logits.softmax(-1, Kind::Float).matmul(&part(2));
            out.transpose(1, 2).reshape([-1, SQUARES, self.heads * self.head])
        })
    }

    fn on_gpu(&self, kernels: &FusedKernels) -> Results {
        self.run(kernels.device, |qkv, bias| kernels.attend(qkv, bias).expect("the shapes are supported"))
    }

    fn emulated(&self) -> Results {
        let (batch, pairs) = (self.qkv.size()[0], (self.heads * SQUARES * SQUARES) as usize);
        let is_summed = self.bias.as_ref().is_some_and(|bias| bias.dim() == 3);
        let is_own = self.bias.is_some() && !is_summed;
        let chunks = if is_summed { batch.min(2) } else { batch };
        let (qkv, grads) = (bf16_bits(&self.qkv), bf16_bits(&self.grads));
        let bias = self.bias.as_ref().map(bf16_bits);
        let (mut out, mut qkv_grads) = (nan_buffer(&self.grads), nan_buffer(&self.qkv));
        let mut bias_grad = is_own.then(|| vec![0x7fc0u16; pairs * batch as usize]);
        let mut partials = is_summed.then(|| vec![f32::NAN; pairs * chunks as usize]);
        // SAFETY: all buffers have the sizes that batch, heads and blocks require, or are null where that is
        // allowed.
        let code = unsafe {
            tandem_emulated_attention(
                qkv.as_ptr(),
                bias.as_ref().map_or(null(), |bias| bias.as_ptr()),
                batch as c_int,
                self.heads as c_int,
                self.head as c_int,
                if is_own { pairs as c_int } else { 0 },
                out.as_mut_ptr(),
                grads.as_ptr(),
                qkv_grads.as_mut_ptr(),
                bias_grad.as_mut().map_or(null_mut(), |buffer| buffer.as_mut_ptr()),
                partials.as_mut().map_or(null_mut(), |buffer| buffer.as_mut_ptr()),
                chunks as c_int,
            )
        };
        assert_eq!(code, 0);
        let mut results = vec![("out", from_bf16_bits(&out, &self.grads))];
        let qkv_grads = from_bf16_bits(&qkv_grads, &self.qkv).chunk(3, -1);
        results.extend(["queries", "keys", "values"].into_iter().zip(qkv_grads));
        if let (Some(grads), Some(bias)) = (&bias_grad, &self.bias) {
            results.push(("bias", from_bf16_bits(grads, bias)));
        }
        if let Some(partials) = partials {
            let partials = Tensor::from_slice(&partials).view([chunks, self.heads, SQUARES, SQUARES]);
            results.push(("bias", partials.sum_dim_intlist(&[0i64][..], false, Kind::Float)));
        }
        results
    }
}

#[test]
fn emulated_norms_match_libtorch() {
    norm_cases(|rows, width, kind, centred| {
        let case = NormCase::new(rows, width, kind, centred);
        compare(&case.emulated(), &case.expected(), &format!("{rows} x {width}, {kind:?}, {centred}"));
    });
}

#[test]
fn emulated_activations_match_libtorch() {
    activation_cases(|rows, width, has_bias, activation| {
        let case = ActivationCase::new(rows, width, has_bias, activation);
        compare(&case.emulated(), &case.expected(), &format!("{rows} x {width}, {activation:?}, {has_bias}"));
    });
}

#[test]
fn emulated_attention_matches_libtorch() {
    for (batch, heads, head) in [(1, 3, 16), (3, 2, 32), (2, 1, 64)] {
        for bias in Bias::ALL {
            let case = AttentionCase::new(batch, heads, head, bias);
            compare(
                &case.emulated(),
                &case.expected(),
                &format!("{batch} x {heads} heads of {head}, {bias:?}"),
            );
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn norms_on_a_gpu_match_libtorch() {
    norm_cases(|rows, width, kind, centred| {
        let kernels = gpu_kernels(shape(width, 32));
        // Also more rows than all warps together.
        for rows in [rows, rows * 3, 64 * 64 * 3] {
            let case = NormCase::new(rows, width, kind, centred);
            let name = format!("{rows} x {width}, {kind:?}, {centred}");
            compare(&case.on_gpu(&kernels), &case.expected(), &name);
        }
    });
}

#[test]
#[ignore = "needs a GPU"]
fn activations_on_a_gpu_match_libtorch() {
    activation_cases(|rows, width, has_bias, activation| {
        let kernels = gpu_kernels(KernelShape { activation, ..shape(64, 32) });
        for rows in [rows, rows * 3, 64 * 64 * 3] {
            let case = ActivationCase::new(rows, width, has_bias, activation);
            let name = format!("{rows} x {width}, {activation:?}, {has_bias}");
            compare(&case.on_gpu(&kernels), &case.expected(), &name);
        }
    });
}

#[test]
#[ignore = "needs a GPU"]
fn attention_on_a_gpu_matches_libtorch() {
    for (heads, head) in [(8, 32), (6, 16), (3, 64)] {
        let kernels = gpu_kernels(shape(heads * head, head));
        for batch in [1, 3, 64] {
            for bias in Bias::ALL {
                let case = AttentionCase::new(batch, heads, head, bias);
                let name = format!("{batch} x {heads} heads of {head}, {bias:?}");
                compare(&case.on_gpu(&kernels), &case.expected(), &name);
            }
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn unsupported_shapes_are_left_to_libtorch() {
    let kernels = gpu_kernels(shape(64, 32));
    let rows = |shape: &[i64], kind: Kind| random_values(shape, 1).to_device(kernels.device).to_kind(kind);
    assert!(kernels.attend(&rows(&[2, 64, 192], Kind::BFloat16), None).is_some());
    assert!(kernels.attend(&rows(&[2, 79, 192], Kind::BFloat16), None).is_none());
    assert!(kernels.attend(&rows(&[2, 64, 192], Kind::Float), None).is_none());
    assert!(kernels.attend(&rows(&[2, 64, 96], Kind::BFloat16), None).is_none());
    let bias = rows(&[2, 64, 63], Kind::BFloat16);
    assert!(kernels.attend(&rows(&[2, 64, 192], Kind::BFloat16), Some(&bias)).is_none());
}

/// NVRTC compiles for any GPU without having one.
#[test]
#[ignore = "needs libtorch with CUDA"]
fn kernels_compile_for_gpus_that_are_not_present() {
    load_cuda().and_then(|()| load_gpu_library()).unwrap();
    let shapes = [(90, 256, 32), (80, 64, 16), (90, 768, 64), (100, 512, 32), (90, 1024, 32)];
    for ((capability, width, head), activation) in shapes.into_iter().zip(ACTIVATIONS) {
        compile(capability, KernelShape { width, head, activation }).unwrap();
    }
}
