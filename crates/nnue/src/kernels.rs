//! The inner loops, in one small vocabulary for every instruction set.
//!
//! Work on whole rows of the first layer is written once, in plain Rust, and compiled again for each instruction set;
//! the compiler vectorises it well. By hand are written the two sums of products ([`Kernels::affine`], [`Kernels::dot`]),
//! for the instructions that add up several products at once have no name in the language, and what AVX-512 does on
//! vectors twice as long as the compiler dares to use. All variants give the same bits: they compute in integers; the
//! accumulators are kept modulo 2^16, and no other step can overflow for weights that a loader has let in.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::str::FromStr;
use thiserror::Error;

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
    type Err = IsaError;

    /// Reads a name that [`Self::name`] gives; the processor must have what it names.
    fn from_str(text: &str) -> Result<Self, IsaError> {
        let found = Self::ALL.into_iter().find(|isa| isa.name() == text);
        let isa = found.ok_or_else(|| IsaError::Unknown(text.into()))?;
        if isa.is_available() { Ok(isa) } else { Err(IsaError::NotHere(isa)) }
    }
}

/// A name that is no instruction set to use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IsaError {
    /// There is none of that name.
    #[error("no instruction set {0:?}; there are portable, sse41, avx2, avx512")]
    Unknown(String),
    /// This processor does not have it.
    #[error("this processor has no {}", .0.name())]
    NotHere(Isa),
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

/// What is known of a value times a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Products {
    /// It fits into 16 bits.
    Narrow,
    /// It does so when the weight is split into 128 times an upper part, and a lower one.
    Split,
    /// Nothing.
    Any,
}

impl Products {
    /// For weights up to `largest` and values up to `one`.
    pub(crate) fn of(largest: u16, one: i16) -> Self {
        let fits = |weight: u16| i64::from(weight) * i64::from(one) <= i64::from(i16::MAX);
        let upper = largest.saturating_add(64) >> 7;
        match largest {
            _ if fits(largest) => Self::Narrow,
            // The upper part is rounded, for which the weight must leave room.
            ..=0x7fbf if fits(upper) && fits(64) => Self::Split,
            _ => Self::Any,
        }
    }
}

/// The kernels of one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    pub(crate) isa: Isa,
    update: Update,
    clip: unsafe fn(&mut [u8], &[i16]),
    pairwise: unsafe fn(&mut [u8], &[i16], &[i16], i16, u32),
    affine: unsafe fn(&mut [i32], &[u8], &[i8]),
    dot: unsafe fn(Activation, Products, &[i16], &[i16], i16) -> i32,
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

    /// The sum of products of activated values and weights. The loader has seen to it that it fits, and says what is known of
    /// a single product.
    #[inline]
    pub(crate) fn dot(
        &self,
        activation: Activation,
        products: Products,
        values: &[i16],
        weights: &[i16],
        one: i16,
    ) -> i32 {
        // SAFETY: as above.
        unsafe { (self.dot)(activation, products, values, weights, one) }
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
    use crate::features::FeatureSet;
    use crate::features::tests::random_positions;
    use crate::test_nets;
    use proptest::prelude::*;

    fn others() -> Vec<Kernels> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available()).map(Kernels::new).collect()
    }

    #[test]
    fn this_machine_runs_what_it_has() {
        assert!(others().iter().zip(Isa::ALL).all(|(kernels, isa)| kernels.isa == isa));
    }

    /// Numbers of any size from a seed, every fourth of them as large or as small as can be, or none.
    fn numbers<T>(seed: u64, count: usize, convert: impl Fn(i32) -> T) -> Vec<T> {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as i32
        };
        (0..count)
            .map(|_| {
                convert(match next() & 15 {
                    0 => i32::from(i16::MIN),
                    1 => i32::from(i16::MAX),
                    2 | 3 => 0,
                    4..8 => next() % 300,
                    _ => i32::from(next() as i16),
                })
            })
            .collect()
    }

    fn i16s(seed: u64, count: usize) -> Vec<i16> {
        numbers(seed, count, |number| number as i16)
    }

    const WIDTHS: [usize; 5] = [32, 96, 256, 512, 1024];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn updates_agree(
            seed in any::<u64>(),
            adds in prop::collection::vec(0..40u32, 0..9),
            subs in prop::collection::vec(0..40u32, 0..9),
            width in prop::sample::select(&WIDTHS[..]),
        ) {
            let weights = i16s(seed, 40 * width);
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

        /// Pairs take half of a width, so that those are widths here too.
        #[test]
        fn clips_and_products_agree(
            seed in any::<u64>(),
            width in prop::sample::select(&[16, 32, 48, 96, 128, 256, 512, 1024][..]),
        ) {
            let (left, right) = (i16s(seed, width), i16s(!seed, width));
            for kernels in others() {
                let mut out = vec![0; width];
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
            seed in any::<u64>(),
            inputs in prop::sample::select(&[4usize, 32, 64, 68, 128, 1024, 1060, 3072][..]),
            bias in prop::collection::vec(-1_000_000..1_000_000i32, 32),
            outputs in prop::sample::select(&[16usize, 32][..]),
        ) {
            let input = numbers(seed, inputs, |number| number.clamp(0, 127) as u8);
            let weights = numbers(!seed, inputs * outputs, |number| number.clamp(-128, 127) as i8);
            let mut expected = bias[..outputs].to_vec();
            for (output, sum) in expected.iter_mut().enumerate() {
                for (index, &value) in input.iter().enumerate() {
                    let weight = weights[(index / 4 * outputs + output) * 4 + index % 4];
                    *sum += i32::from(value) * i32::from(weight);
                }
            }
            for kernels in others() {
                let mut out = bias[..outputs].to_vec();
                kernels.affine(&mut out, &input, &weights);
                prop_assert_eq!(&out, &expected, "{:?}", kernels);
            }
        }

        #[test]
        fn output_sums_agree(seed in any::<u64>(), width in prop::sample::select(&WIDTHS[..])) {
            // So that all sums fit into 32 bits: 1,024 values, squared up to 255 or plain up to 32,767.
            const ACTIVATIONS: [(Activation, i16); 3] =
                [(Activation::Relu, 60), (Activation::Crelu, 128), (Activation::Screlu, 30)];
            let values = i16s(seed, width);
            for (activation, most) in ACTIVATIONS {
                let weights = numbers(!seed, width, |number| (number as i16).clamp(-most, most));
                let mut expected = 0i64;
                for (&value, &weight) in values.iter().zip(&weights) {
                    let value = i64::from(match activation {
                        Activation::Relu => value.max(0),
                        _ => value.clamp(0, 255),
                    });
                    let power = if activation == Activation::Screlu { value * value } else { value };
                    expected += power * i64::from(weight);
                }
                for kernels in others() {
                    for products in [Products::Narrow, Products::Split, Products::Any] {
                        let sum = kernels.dot(activation, products, &values, &weights, 255);
                        prop_assert_eq!(i64::from(sum), expected, "{:?} {:?}", kernels, activation);
                    }
                }
            }
        }
    }

    /// Few values, so that the sums fit although the weights are as large as they may be.
    #[test]
    fn split_weights_give_the_same_sums() {
        assert_eq!(Products::of(128, 255), Products::Narrow);
        assert_eq!(Products::of(129, 255), Products::Split);
        assert_eq!(Products::of(16_383, 255), Products::Split);
        assert_eq!(Products::of(16_449, 255), Products::Any);
        assert_eq!(Products::of(600, 512), Products::Any);
        for weight in
            [-16_383i16, -129, -128, -65, -64, -63, -1, 0, 1, 63, 64, 65, 127, 128, 191, 192, 16_383]
        {
            for value in [0i16, 1, 128, 254, 255, 300] {
                let mut values = [0; 64];
                let mut weights = [0; 64];
                (values[7], weights[7], values[40], weights[40]) = (value, weight, 200, 3);
                let held = i32::from(value.min(255));
                let expected = held * held * i32::from(weight) + 200 * 200 * 3;
                for kernels in others() {
                    let sum = kernels.dot(Activation::Screlu, Products::Split, &values, &weights, 255);
                    assert_eq!(sum, expected, "{kernels:?} {weight} {value}");
                }
            }
        }
    }

    /// Whole networks, of every kind of head and of widths that take other ways through the kernels.
    #[test]
    fn networks_evaluate_alike() {
        let mut networks = vec![test_nets::untied(FeatureSet::half_kp(), 32, 3)];
        for width in [32, 96, 256, 1024] {
            networks.push(test_nets::flat(FeatureSet::plain(), width, 1));
            networks.push(test_nets::stacks(FeatureSet::plain(), width, 2));
        }
        for network in networks {
            let portable = network.clone().with_isa(Isa::Portable);
            for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
                let other = network.clone().with_isa(isa);
                assert_eq!(other.isa(), isa);
                for position in random_positions(71, 60) {
                    let board = position.board();
                    assert_eq!(other.evaluate(board), portable.evaluate(board), "{isa:?}");
                }
            }
        }
    }

    #[test]
    fn names_are_read() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            assert_eq!(isa.name().parse(), Ok(isa));
        }
        assert_eq!("mmx".parse::<Isa>(), Err(IsaError::Unknown("mmx".into())));
    }
}
