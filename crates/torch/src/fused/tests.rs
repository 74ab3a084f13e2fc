//! Kernels against plain operations in numbers of 32 bits: on a processor, where `csrc/emulated.cpp` runs them, and on a
//! card, where there is one.

use super::*;
use crate::Compute;
use crate::model::bent;
use crate::parameters::numbers_of;
use crate::shim::{compile, load_card, load_cuda};
use std::ffi::c_int;
use std::ptr::{null, null_mut};
use tandem_chess::random::SplitMix;
use tandem_transformer::Activation;

/// Of the largest number of a tensor. A number of bf16 is off by 0.4% at most, and a few roundings follow each other.
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
        normed_slopes: *const u16,
        sum_slopes: *const u16,
        x_slopes: *mut u16,
        branch_slopes: *mut u16,
        parts: *mut f32,
    ) -> c_int;
    fn tandem_emulated_bend(
        curve: c_int,
        x: *const u16,
        bias: *const u16,
        rows: c_int,
        width: c_int,
        blocks: c_int,
        out: *mut u16,
        out_slopes: *const u16,
        x_slopes: *mut u16,
        parts: *mut f32,
    ) -> c_int;
    fn tandem_emulated_attention(
        all: *const u16,
        bias: *const u16,
        batch: c_int,
        heads: c_int,
        head: c_int,
        bias_stride: c_int,
        out: *mut u16,
        out_slopes: *const u16,
        all_slopes: *mut u16,
        bias_slopes: *mut u16,
        bias_parts: *mut f32,
        blocks: c_int,
    ) -> c_int;
}

/// Numbers without sense that bf16 can hold.
fn given(shape: &[i64], seed: u64) -> Tensor {
    let mut random = SplitMix::new(seed);
    let count: i64 = shape.iter().product();
    let numbers: Vec<f32> = (0..count).map(|_| random.below(4001) as f32 / 1000.0 - 2.0).collect();
    Tensor::from_slice(&numbers).view(shape).to_kind(Kind::BFloat16).to_kind(Kind::Float)
}

/// The numbers as a kernel reads them.
fn bits(tensor: &Tensor) -> Vec<u16> {
    numbers_of(tensor).into_iter().map(|number| (number.to_bits() >> 16) as u16).collect()
}

/// Room for a kernel to write to, full of what is no number.
fn room(tensor: &Tensor) -> Vec<u16> {
    vec![0x7fc0; tensor.numel()]
}

fn tensor_of(bits: &[u16], like: &Tensor) -> Tensor {
    let numbers: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(u32::from(bits) << 16)).collect();
    Tensor::from_slice(&numbers).view_as(like)
}

/// Named tensors, of which two sets are compared.
type Results = Vec<(&'static str, Tensor)>;

fn compare(found: &Results, expected: &Results, case: &str) {
    assert_eq!(found.len(), expected.len(), "{case}");
    for ((name, found), (_, expected)) in found.iter().zip(expected) {
        let found = found.to_device(Device::Cpu).to_kind(Kind::Float);
        let largest = expected.abs().max().double_value(&[]);
        let off = (found - expected).abs().max().double_value(&[]);
        assert!(off <= TOLERANCE * largest, "{name} of {case}: {off} off where the largest is {largest}");
    }
}

/// As what slopes are wanted of, on a card in bf16, on a processor as it is.
fn leaf(tensor: &Tensor, device: Device) -> Tensor {
    let kind = if device == Device::Cpu { Kind::Float } else { Kind::BFloat16 };
    tensor.to_device(device).to_kind(kind).detach().set_requires_grad(true)
}

fn shape(width: i64, head: i64) -> KernelShape {
    KernelShape { width, head, curve: Activation::Mish }
}

/// Kernels on the card of this machine; none where there is no card.
fn kernels_of_card(shape: KernelShape) -> Option<Fused> {
    let Ok(compute) = Compute::named("cuda") else {
        eprintln!("skipped: there is no card");
        return None;
    };
    Some(Fused::new(shape, compute.device()).expect("a card has kernels"))
}

struct NormCase {
    x: Tensor,
    branch: Option<Tensor>,
    scale: Tensor,
    offset: Option<Tensor>,
    factor: f64,
    normed_slopes: Tensor,
    /// None where nobody uses the sum, as after norms that follow branches.
    sum_slopes: Option<Tensor>,
}

const EPSILON: f64 = 1e-3;

impl NormCase {
    fn new(rows: i64, width: i64, kind: Norming, centred: bool) -> Self {
        let shape = [rows, width];
        let has_branch = kind != Norming::Alone;
        Self {
            x: given(&shape, 1),
            branch: has_branch.then(|| given(&shape, 2)),
            scale: given(&[width], 3),
            offset: centred.then(|| given(&[width], 4)),
            factor: if kind == Norming::AfterBranch { 0.375 } else { 1.0 },
            normed_slopes: given(&shape, 5),
            sum_slopes: (kind == Norming::BeforeBranch).then(|| given(&shape, 6)),
        }
    }

    /// What is said and learnt where `join` computes on a device.
    fn learn(
        &self,
        device: Device,
        join: impl Fn(&Tensor, Option<&Tensor>, &Tensor, Option<&Tensor>) -> Joined,
    ) -> Results {
        let (x, scale) = (leaf(&self.x, device), leaf(&self.scale, device));
        let branch = self.branch.as_ref().map(|branch| leaf(branch, device));
        let offset = self.offset.as_ref().map(|offset| leaf(offset, device));
        let Joined { sum, normed } = join(&x, branch.as_ref(), &scale, offset.as_ref());
        let weighed = |numbers: &Tensor, slopes: &Tensor| {
            (numbers.to_kind(Kind::Float) * slopes.to_device(device)).sum(Kind::Float)
        };
        let mut all = weighed(&normed, &self.normed_slopes);
        if let Some(slopes) = &self.sum_slopes {
            all += weighed(&sum, slopes);
        }
        all.backward();
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
        self.learn(Device::Cpu, |x, branch, scale, offset| {
            let sum = branch.map_or_else(|| x.shallow_clone(), |branch| x + branch * self.factor);
            let mean = sum.mean_dim(&[-1i64][..], true, Kind::Float);
            let centred = if offset.is_some() { &sum - mean } else { sum.shallow_clone() };
            let size = (centred.square().mean_dim(&[-1i64][..], true, Kind::Float) + EPSILON).rsqrt();
            let normed = centred * size * scale;
            let normed = offset.map_or_else(|| normed.shallow_clone(), |offset| &normed + offset);
            Joined { sum, normed }
        })
    }

    fn on_card(&self, kernels: &Fused) -> Results {
        self.learn(kernels.device, |x, branch, scale, offset| {
            let norm = NormNumbers { scale, offset, epsilon: EPSILON, centred: offset.is_some() };
            kernels.add_norm(x, branch, self.factor, norm).expect("there is a kernel")
        })
    }

    fn emulated(&self) -> Results {
        let (rows, width, blocks) = (self.x.size()[0], self.x.size()[1], 2);
        let maybe = |tensor: &Option<Tensor>| tensor.as_ref().map(bits);
        let pointer = |bits: &Option<Vec<u16>>| bits.as_ref().map_or(null(), |bits| bits.as_ptr());
        let (x, scale, normed_slopes) = (bits(&self.x), bits(&self.scale), bits(&self.normed_slopes));
        let (branch, offset, sum_slopes) =
            (maybe(&self.branch), maybe(&self.offset), maybe(&self.sum_slopes));
        let (mut sum, mut normed, mut x_slopes) = (x.clone(), room(&self.x), room(&self.x));
        let mut branch_slopes = (branch.is_some() && self.factor != 1.0).then(|| room(&self.x));
        let mut parts = vec![f32::NAN; blocks * 2 * width as usize];
        // SAFETY: all have the sizes that rows, width and blocks say, or are missing where they may be.
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
                normed_slopes.as_ptr(),
                pointer(&sum_slopes),
                x_slopes.as_mut_ptr(),
                branch_slopes.as_mut().map_or(null_mut(), |room| room.as_mut_ptr()),
                parts.as_mut_ptr(),
            )
        };
        assert_eq!(code, 0);
        let sums = Tensor::from_slice(&parts).view([blocks as i64, 2, width]).sum_dim_intlist(
            &[0i64][..],
            false,
            Kind::Float,
        );
        let of_rows = |bits: &[u16]| tensor_of(bits, &self.x);
        let mut results = vec![
            ("sum", of_rows(&sum)),
            ("normed", of_rows(&normed)),
            ("x", of_rows(&x_slopes)),
            ("scale", sums.get(0)),
        ];
        if branch.is_some() {
            results.push(("branch", of_rows(branch_slopes.as_ref().unwrap_or(&x_slopes))));
        }
        if offset.is_some() {
            results.push(("offset", sums.get(1)));
        }
        results
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Norming {
    /// Without a branch.
    Alone,
    /// The sum goes on beside the norm.
    BeforeBranch,
    /// The norm alone goes on.
    AfterBranch,
}

fn norm_cases(mut check: impl FnMut(i64, i64, Norming, bool)) {
    for (rows, width) in [(1, 64), (37, 96), (200, 256), (35, 512), (21, 800), (19, 1024)] {
        for kind in [Norming::Alone, Norming::BeforeBranch, Norming::AfterBranch] {
            [true, false].into_iter().for_each(|centred| check(rows, width, kind, centred));
        }
    }
}

const CURVES: [Activation; 5] =
    [Activation::Silu, Activation::Mish, Activation::Gelu, Activation::SquaredRelu, Activation::Relu];

struct BendCase {
    x: Tensor,
    bias: Option<Tensor>,
    slopes: Tensor,
    curve: Activation,
}

impl BendCase {
    fn new(rows: i64, width: i64, has_bias: bool, curve: Activation) -> Self {
        // Far enough out for every curve to be straight there.
        let x = given(&[rows, width], 21) * 16.0;
        let bias = has_bias.then(|| given(&[width], 22));
        Self { x, bias, slopes: given(&[rows, width], 23), curve }
    }

    fn learn(&self, device: Device, bend: impl Fn(&Tensor, Option<&Tensor>) -> Tensor) -> Results {
        let x = leaf(&self.x, device);
        let bias = self.bias.as_ref().map(|bias| leaf(bias, device));
        let out = bend(&x, bias.as_ref());
        (out.to_kind(Kind::Float) * self.slopes.to_device(device)).sum(Kind::Float).backward();
        let mut results = vec![("bent", out.detach()), ("x", x.grad())];
        results.extend(bias.map(|bias| ("bias", bias.grad())));
        results
    }

    fn expected(&self) -> Results {
        self.learn(Device::Cpu, |x, bias| {
            bent(&bias.map_or_else(|| x.shallow_clone(), |bias| x + bias), self.curve)
        })
    }

    fn on_card(&self, kernels: &Fused) -> Results {
        self.learn(kernels.device, |x, bias| kernels.bend(x, bias).expect("there is a kernel"))
    }

    fn emulated(&self) -> Results {
        let (rows, width, blocks) = (self.x.size()[0], self.x.size()[1], 2);
        let (x, slopes) = (bits(&self.x), bits(&self.slopes));
        let bias = self.bias.as_ref().map(bits);
        let (mut out, mut x_slopes) = (room(&self.x), room(&self.x));
        let mut parts = bias.as_ref().map(|_| vec![f32::NAN; (blocks * width) as usize]);
        let curve = KernelShape { curve: self.curve, ..shape(64, 32) }.curve_number();
        // SAFETY: all have the sizes that rows, width and blocks say, or are missing where they may be.
        let code = unsafe {
            tandem_emulated_bend(
                curve,
                x.as_ptr(),
                bias.as_ref().map_or(null(), |bias| bias.as_ptr()),
                rows as c_int,
                width as c_int,
                blocks as c_int,
                out.as_mut_ptr(),
                slopes.as_ptr(),
                x_slopes.as_mut_ptr(),
                parts.as_mut().map_or(null_mut(), |parts| parts.as_mut_ptr()),
            )
        };
        assert_eq!(code, 0);
        let mut results = vec![("bent", tensor_of(&out, &self.x)), ("x", tensor_of(&x_slopes, &self.x))];
        if let Some(parts) = parts {
            let parts = Tensor::from_slice(&parts).view([blocks, width]);
            results.push(("bias", parts.sum_dim_intlist(&[0i64][..], false, Kind::Float)));
        }
        results
    }
}

fn bend_cases(mut check: impl FnMut(i64, i64, bool, Activation)) {
    for (rows, width) in [(1, 8), (53, 264), (30, 1024)] {
        for curve in CURVES {
            [true, false].into_iter().for_each(|has_bias| check(rows, width, has_bias, curve));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bias {
    Missing,
    OneForAll,
    OneForEach,
}

impl Bias {
    const ALL: [Self; 3] = [Self::Missing, Self::OneForAll, Self::OneForEach];
}

struct AttentionCase {
    rows: Tensor,
    bias: Option<Tensor>,
    slopes: Tensor,
    heads: i64,
    head: i64,
}

impl AttentionCase {
    fn new(batch: i64, heads: i64, head: i64, bias: Bias) -> Self {
        let width = heads * head;
        let bias = match bias {
            Bias::Missing => None,
            Bias::OneForAll => Some(given(&[heads, SQUARES, SQUARES], 12)),
            Bias::OneForEach => Some(given(&[batch, heads, SQUARES, SQUARES], 13)),
        };
        let rows = given(&[batch, SQUARES, 3 * width], 11);
        Self { rows, bias, slopes: given(&[batch, SQUARES, width], 14), heads, head }
    }

    fn learn(&self, device: Device, attend: impl Fn(&Tensor, Option<&Tensor>) -> Tensor) -> Results {
        let rows = leaf(&self.rows, device);
        let bias = self.bias.as_ref().map(|bias| leaf(bias, device));
        let seen = attend(&rows, bias.as_ref());
        (seen.to_kind(Kind::Float) * self.slopes.to_device(device)).sum(Kind::Float).backward();
        let mut results = vec![("seen", seen.detach())];
        let slopes = rows.grad().chunk(3, -1);
        results.extend(["queries", "keys", "values"].into_iter().zip(slopes));
        results.extend(bias.map(|bias| ("bias", bias.grad())));
        results
    }

    fn expected(&self) -> Results {
        self.learn(Device::Cpu, |rows, bias| {
            let parts = rows.view([-1, SQUARES, 3, self.heads, self.head]);
            let part = |part: i64| parts.select(2, part).transpose(1, 2);
            let logits = part(0).matmul(&part(1).transpose(2, 3)) / (self.head as f64).sqrt();
            let logits = bias.map_or_else(|| logits.shallow_clone(), |bias| &logits + bias);
            let seen = logits.softmax(-1, Kind::Float).matmul(&part(2));
            seen.transpose(1, 2).reshape([-1, SQUARES, self.heads * self.head])
        })
    }

    fn on_card(&self, kernels: &Fused) -> Results {
        self.learn(kernels.device, |rows, bias| kernels.attend(rows, bias).expect("there is a kernel"))
    }

    fn emulated(&self) -> Results {
        let (batch, pairs) = (self.rows.size()[0], (self.heads * SQUARES * SQUARES) as usize);
        let is_summed = self.bias.as_ref().is_some_and(|bias| bias.dim() == 3);
        let is_own = self.bias.is_some() && !is_summed;
        let chunks = if is_summed { batch.min(2) } else { batch };
        let (rows, slopes) = (bits(&self.rows), bits(&self.slopes));
        let bias = self.bias.as_ref().map(bits);
        let (mut seen, mut row_slopes) = (room(&self.slopes), room(&self.rows));
        let mut bias_slopes = is_own.then(|| vec![0x7fc0u16; pairs * batch as usize]);
        let mut parts = is_summed.then(|| vec![f32::NAN; pairs * chunks as usize]);
        // SAFETY: all have the sizes that batch, heads and blocks say, or are missing where they may be.
        let code = unsafe {
            tandem_emulated_attention(
                rows.as_ptr(),
                bias.as_ref().map_or(null(), |bias| bias.as_ptr()),
                batch as c_int,
                self.heads as c_int,
                self.head as c_int,
                if is_own { pairs as c_int } else { 0 },
                seen.as_mut_ptr(),
                slopes.as_ptr(),
                row_slopes.as_mut_ptr(),
                bias_slopes.as_mut().map_or(null_mut(), |room| room.as_mut_ptr()),
                parts.as_mut().map_or(null_mut(), |room| room.as_mut_ptr()),
                chunks as c_int,
            )
        };
        assert_eq!(code, 0);
        let mut results = vec![("seen", tensor_of(&seen, &self.slopes))];
        let row_slopes = tensor_of(&row_slopes, &self.rows).chunk(3, -1);
        results.extend(["queries", "keys", "values"].into_iter().zip(row_slopes));
        if let (Some(slopes), Some(bias)) = (&bias_slopes, &self.bias) {
            results.push(("bias", tensor_of(slopes, bias)));
        }
        if let Some(parts) = parts {
            let parts = Tensor::from_slice(&parts).view([chunks, self.heads, SQUARES, SQUARES]);
            results.push(("bias", parts.sum_dim_intlist(&[0i64][..], false, Kind::Float)));
        }
        results
    }
}

#[test]
fn norms_on_an_emulated_card_are_plain_ones() {
    norm_cases(|rows, width, kind, centred| {
        let case = NormCase::new(rows, width, kind, centred);
        compare(&case.emulated(), &case.expected(), &format!("{rows} x {width}, {kind:?}, {centred}"));
    });
}

#[test]
fn curves_on_an_emulated_card_are_plain_ones() {
    bend_cases(|rows, width, has_bias, curve| {
        let case = BendCase::new(rows, width, has_bias, curve);
        compare(&case.emulated(), &case.expected(), &format!("{rows} x {width}, {curve:?}, {has_bias}"));
    });
}

#[test]
fn attention_on_an_emulated_card_is_the_plain_one() {
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
fn norms_on_a_card_are_plain_ones() {
    norm_cases(|rows, width, kind, centred| {
        let Some(kernels) = kernels_of_card(shape(width, 32)) else { return };
        // More rows than blocks have warps, too.
        for rows in [rows, rows * 3, 64 * 64 * 3] {
            let case = NormCase::new(rows, width, kind, centred);
            let name = format!("{rows} x {width}, {kind:?}, {centred}");
            compare(&case.on_card(&kernels), &case.expected(), &name);
        }
    });
}

#[test]
fn curves_on_a_card_are_plain_ones() {
    bend_cases(|rows, width, has_bias, curve| {
        let Some(kernels) = kernels_of_card(KernelShape { curve, ..shape(64, 32) }) else { return };
        for rows in [rows, rows * 3, 64 * 64 * 3] {
            let case = BendCase::new(rows, width, has_bias, curve);
            let name = format!("{rows} x {width}, {curve:?}, {has_bias}");
            compare(&case.on_card(&kernels), &case.expected(), &name);
        }
    });
}

#[test]
fn attention_on_a_card_is_the_plain_one() {
    for (heads, head) in [(8, 32), (6, 16), (3, 64)] {
        let Some(kernels) = kernels_of_card(shape(heads * head, head)) else { return };
        for batch in [1, 3, 64] {
            for bias in Bias::ALL {
                let case = AttentionCase::new(batch, heads, head, bias);
                let name = format!("{batch} x {heads} heads of {head}, {bias:?}");
                compare(&case.on_card(&kernels), &case.expected(), &name);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_left_to_libtorch() {
    let Some(kernels) = kernels_of_card(shape(64, 32)) else { return };
    let rows = |shape: &[i64], kind: Kind| given(shape, 1).to_device(kernels.device).to_kind(kind);
    assert!(kernels.attend(&rows(&[2, 64, 192], Kind::BFloat16), None).is_some());
    assert!(kernels.attend(&rows(&[2, 79, 192], Kind::BFloat16), None).is_none());
    assert!(kernels.attend(&rows(&[2, 64, 192], Kind::Float), None).is_none());
    assert!(kernels.attend(&rows(&[2, 64, 96], Kind::BFloat16), None).is_none());
    let bias = rows(&[2, 64, 63], Kind::BFloat16);
    assert!(kernels.attend(&rows(&[2, 64, 192], Kind::BFloat16), Some(&bias)).is_none());
}

/// NVRTC needs no card to compile for one.
#[test]
fn kernels_compile_for_cards_that_are_not_here() {
    if let Err(error) = load_cuda().and_then(|()| load_card()) {
        eprintln!("skipped: {error}");
        return;
    }
    let shapes = [(90, 256, 32), (80, 64, 16), (90, 768, 64), (100, 512, 32), (90, 1024, 32)];
    for ((generation, width, head), curve) in shapes.into_iter().zip(CURVES) {
        match compile(generation, KernelShape { width, head, curve }) {
            Err(error) if error.to_string().contains("cannot be found") => return,
            outcome => outcome.unwrap(),
        }
    }
}
