//! The inner loops, in one small vocabulary for every instruction set.
//!
//! Work on whole rows of the first layer is written once, in plain Rust, and compiled again for each instruction set;
//! the compiler vectorises it well. By hand are written the product of small integers ([`Kernels::affine`]), for the
//! instructions that add up several products at once have no name in the language, and what AVX-512 does on vectors
//! twice as long as the compiler dares to use. All variants give the same bits: they compute in integers, and no step
//! can overflow for weights that a loader has let in.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::str::FromStr;

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Whatever every processor of the target has.
    Portable,
    /// 128-bit vectors.
    Sse41,
    /// 256-bit vectors.
    Avx2,
    /// 512-bit vectors with byte, word and neural-network instructions.
    Avx512,
}

impl Isa {
    /// All of them, the best last.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Sse41, Self::Avx2, Self::Avx512];

    /// The best that this processor has.
    pub fn best() -> Self {
        Self::ALL.into_iter().rfind(|isa| isa.is_available()).unwrap_or(Self::Portable)
    }

    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        self == Self::Portable || hardware_has(self)
    }

    /// The name, as [`Self::from_str`] reads it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Sse41 => "sse41",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn hardware_has(isa: Isa) -> bool {
    match isa {
        Isa::Portable => true,
        Isa::Sse41 => is_x86_feature_detected!("sse4.1"),
        Isa::Avx2 => is_x86_feature_detected!("avx2"),
        Isa::Avx512 => {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni")
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn hardware_has(isa: Isa) -> bool {
    isa == Isa::Portable
}

impl FromStr for Isa {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let isa = Self::ALL
            .into_iter()
            .find(|isa| isa.name() == text)
            .ok_or_else(|| format!("no instruction set {text:?}; there are portable, sse41, avx2, avx512"))?;
        if isa.is_available() { Ok(isa) } else { Err(format!("this processor has no {text}")) }
    }
}

/// Rows of the first layer: so many numbers each, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) weights: &'a [i16],
    pub(crate) width: usize,
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn row(self, index: u32) -> &'a [i16] {
        &self.weights[index as usize * self.width..][..self.width]
    }
}

/// What a hidden value becomes before it meets the output weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Negative values become zero.
    Relu,
    /// And those above one become one.
    Crelu,
    /// And the rest is squared.
    Screlu,
}

impl Activation {
    /// The name, as files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Relu => "relu",
            Self::Crelu => "crelu",
            Self::Screlu => "screlu",
        }
    }
}

/// `out`, `from`, all rows, which to add, which to remove.
type Update = unsafe fn(&mut [i16], &[i16], Rows<'_>, &[u32], &[u32]);

/// The kernels of one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    pub(crate) isa: Isa,
    update: Update,
    clip: unsafe fn(&mut [u8], &[i16]),
    pairwise: unsafe fn(&mut [u8], &[i16], &[i16], i16, u32),
    affine: unsafe fn(&mut [i32], &[u8], &[i8]),
    dot: unsafe fn(Activation, bool, &[i16], &[i16], i16) -> i32,
}

impl Kernels {
    /// Those of an instruction set, or portable ones where the processor does not have it.
    pub(crate) fn new(isa: Isa) -> Self {
        #[cfg(target_arch = "x86_64")]
        if isa.is_available() {
            match isa {
                Isa::Portable => {}
                Isa::Sse41 => return x86::SSE41,
                Isa::Avx2 => return x86::AVX2,
                Isa::Avx512 => return x86::AVX512,
            }
        }
        let _ = isa;
        portable::KERNELS
    }

    /// `out = from + the added rows - the removed rows`, modulo 2^16. A row's length is a multiple of 32.
    #[inline]
    pub(crate) fn update(&self, out: &mut [i16], from: &[i16], rows: Rows<'_>, adds: &[u32], subs: &[u32]) {
        // SAFETY: kernels are only handed out where the processor has their instructions.
        unsafe { (self.update)(out, from, rows, adds, subs) }
    }

    /// Values held between 0 and 127.
    #[inline]
    pub(crate) fn clip(&self, out: &mut [u8], values: &[i16]) {
        // SAFETY: as above.
        unsafe { (self.clip)(out, values) }
    }

    /// Products of pairs of values, each held between 0 and `max`, shifted down; `max² >> shift` is at most 127.
    #[inline]
    pub(crate) fn pairwise(&self, out: &mut [u8], left: &[i16], right: &[i16], max: i16, shift: u32) {
        // SAFETY: as above.
        unsafe { (self.pairwise)(out, left, right, max, shift) }
    }

    /// Adds to each output the products of inputs (at most 127, a multiple of four) and weights, which stand in
    /// groups: four weights of the first output, four of the second, and so on, then the next four inputs'. There are
    /// 16 or 32 outputs.
    #[inline]
    pub(crate) fn affine(&self, out: &mut [i32], input: &[u8], weights: &[i8]) {
        // SAFETY: as above.
        unsafe { (self.affine)(out, input, weights) }
    }

    /// The sum of products of activated values and weights. The loader has seen to it that it fits, and says whether a
    /// single product fits into 16 bits.
    #[inline]
    pub(crate) fn dot(
        &self,
        activation: Activation,
        narrow: bool,
        values: &[i16],
        weights: &[i16],
        one: i16,
    ) -> i32 {
        // SAFETY: as above.
        unsafe { (self.dot)(activation, narrow, values, weights, one) }
    }
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.isa.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn others() -> Vec<Kernels> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available()).map(Kernels::new).collect()
    }

    #[test]
    fn this_machine_runs_what_it_has() {
        assert!(others().iter().zip(Isa::ALL).all(|(kernels, isa)| kernels.isa == isa));
    }

    fn extreme_i16() -> impl Strategy<Value = i16> {
        prop_oneof![any::<i16>(), Just(i16::MIN), Just(i16::MAX), Just(0), -300..300i16]
    }

    fn extreme_i8() -> impl Strategy<Value = i8> {
        prop_oneof![any::<i8>(), Just(i8::MIN), Just(i8::MAX)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn updates_agree(
            weights in prop::collection::vec(extreme_i16(), 40 * 160),
            adds in prop::collection::vec(0..40u32, 0..9),
            subs in prop::collection::vec(0..40u32, 0..9),
            width in prop_oneof![Just(32usize), Just(128), Just(160)],
        ) {
            let rows = Rows { weights: &weights, width };
            let from = &weights[..width];
            let mut expected: Vec<i16> = from.to_vec();
            for (rows_of, sign) in [(&adds, 1i16), (&subs, -1)] {
                for &row in rows_of.iter() {
                    for (value, &weight) in expected.iter_mut().zip(&weights[row as usize * width..]) {
                        *value = value.wrapping_add(weight.wrapping_mul(sign));
                    }
                }
            }
            for kernels in others() {
                let mut out = vec![7; width];
                kernels.update(&mut out, from, rows, &adds, &subs);
                prop_assert_eq!(&out, &expected, "{:?}", kernels);
            }
        }

        #[test]
        fn clips_and_products_agree(
            left in prop::collection::vec(extreme_i16(), 96),
            right in prop::collection::vec(extreme_i16(), 96),
        ) {
            for kernels in others() {
                let mut out = vec![0; 96];
                kernels.clip(&mut out, &left);
                for (&out, &value) in out.iter().zip(&left) {
                    prop_assert_eq!(i16::from(out), value.clamp(0, 127));
                }
                for (max, shift) in [(127, 7), (255, 9)] {
                    kernels.pairwise(&mut out, &left, &right, max, shift);
                    for ((&out, &left), &right) in out.iter().zip(&left).zip(&right) {
                        let product = i32::from(left.clamp(0, max)) * i32::from(right.clamp(0, max));
                        prop_assert_eq!(i32::from(out), product >> shift, "{:?}", kernels);
                    }
                }
            }
        }

        #[test]
        fn products_with_small_weights_agree(
            input in prop::collection::vec(prop_oneof![3 => Just(0u8), 2 => 0..=127u8, 1 => Just(127)], 128),
            weights in prop::collection::vec(extreme_i8(), 128 * 32),
            bias in prop::collection::vec(-1_000_000..1_000_000i32, 32),
            outputs in prop_oneof![Just(16usize), Just(32)],
        ) {
            let mut expected = bias[..outputs].to_vec();
            for (output, sum) in expected.iter_mut().enumerate() {
                for (index, &value) in input.iter().enumerate() {
                    let weight = weights[(index / 4 * outputs + output) * 4 + index % 4];
                    *sum += i32::from(value) * i32::from(weight);
                }
            }
            for kernels in others() {
                let mut out = bias[..outputs].to_vec();
                kernels.affine(&mut out, &input, &weights[..128 * outputs]);
                prop_assert_eq!(&out, &expected, "{:?}", kernels);
            }
        }

        #[test]
        fn output_sums_agree(
            values in prop::collection::vec(extreme_i16(), 128),
            weights in prop::collection::vec(-128..=128i16, 128),
            larger in prop::collection::vec(-200..200i16, 128),
        ) {
            let activations = [Activation::Relu, Activation::Crelu, Activation::Screlu];
            let narrow = activations.map(|activation| (activation, true, &weights));
            let plain = activations.map(|activation| (activation, false, &larger));
            for (activation, narrow, weights) in narrow.into_iter().chain(plain) {
                let mut expected = 0i64;
                for (&value, &weight) in values.iter().zip(weights) {
                    let value = i64::from(match activation {
                        Activation::Relu => value.max(0),
                        _ => value.clamp(0, 255),
                    });
                    let power = if activation == Activation::Screlu { value * value } else { value };
                    expected += power * i64::from(weight);
                }
                for kernels in others() {
                    let sum = kernels.dot(activation, narrow, &values, weights, 255);
                    prop_assert_eq!(i64::from(sum), expected, "{:?} {:?}", kernels, activation);
                }
            }
        }
    }
}
