//! The inner loops of inference, behind one interface for every instruction set.
//!
//! Work on whole weight rows is written once in plain Rust and compiled again for each instruction set,
//! because the compiler vectorises it well. Two things are written by hand: the dot products
//! ([`Kernels::affine`], [`Kernels::dot`]), because Rust has no portable name for instructions that multiply
//! and add pairs, and the AVX-512 code, because the compiler prefers 256-bit vectors. All variants give the
//! same bits: they compute in integers, accumulators are modulo 2^16, and no other step can overflow with
//! weights that a loader has accepted.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use tandem_util::isa::Isa;

/// The weight rows of the first layer in one slice, `width` values each.
#[derive(Clone, Copy)]
pub(crate) struct WeightRows<'a> {
    pub(crate) weights: &'a [i16],
    pub(crate) width: usize,
}

impl<'a> WeightRows<'a> {
    #[inline(always)]
    fn row(self, index: u32) -> &'a [i16] {
        &self.weights[index as usize * self.width..][..self.width]
    }
}

/// Arguments: `out`, `from`, all weight rows, indices to add, indices to subtract.
type Update = unsafe fn(&mut [i16], &[i16], WeightRows<'_>, &[u32], &[u32]);

/// A bound on the product of an activated value and a weight, which selects the fastest exact kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Products {
    /// Every product of one value and one weight fits into 16 bits.
    Narrow,
    /// Products fit into 16 bits after a weight is split into 128 times an upper part, plus a lower part.
    Split,
    /// No bound is known, so products need 32 bits.
    Any,
}

impl Products {
    /// The bound for weights up to `max_weight` in magnitude and values up to `max_value`.
    pub(crate) fn of(max_weight: u16, max_value: i16) -> Self {
        let fits = |weight: u16| i64::from(weight) * i64::from(max_value) <= i64::from(i16::MAX);
        let upper = max_weight.saturating_add(64) >> 7;
        match max_weight {
            _ if fits(max_weight) => Self::Narrow,
            // The upper part is rounded, so the largest weights must leave space for that.
            ..=0x7fbf if fits(upper) && fits(64) => Self::Split,
            _ => Self::Any,
        }
    }
}

/// The table of kernels for one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    pub(crate) isa: Isa,
    update: Update,
    clip: unsafe fn(&mut [u8], &[i16]),
    pairwise: unsafe fn(&mut [u8], &[i16], &[i16], i16, u32),
    affine: unsafe fn(&mut [i32], &[u8], &[i8]),
    dot: unsafe fn(bool, Products, &[i16], &[i16], i16) -> i32,
}

impl Kernels {
    /// The kernels of an instruction set, or portable ones if the processor lacks it.
    pub(crate) fn new(isa: Isa) -> Self {
        match isa {
            #[cfg(target_arch = "x86_64")]
            _ if !isa.is_available() => portable::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::Sse41 => x86::SSE41,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => x86::AVX2,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx => x86::AVX512,
            _ => portable::KERNELS,
        }
    }

    /// `out = from + added rows - subtracted rows`, modulo 2^16. The length of a row is a multiple of 32.
    #[inline]
    pub(crate) fn update(
        &self,
        out: &mut [i16],
        from: &[i16],
        rows: WeightRows<'_>,
        adds: &[u32],
        subs: &[u32],
    ) {
        // SAFETY: kernels are only handed out where the processor has their instructions.
        unsafe { (self.update)(out, from, rows, adds, subs) }
    }

    /// Clips values to 0..=127.
    #[inline]
    pub(crate) fn clip(&self, out: &mut [u8], values: &[i16]) {
        // SAFETY: as above.
        unsafe { (self.clip)(out, values) }
    }

    /// Products of pairs of values, each clipped to `0..=max`, shifted right by `shift`. `max² >> shift` is
    /// at most 127.
    #[inline]
    pub(crate) fn pairwise(&self, out: &mut [u8], left: &[i16], right: &[i16], max: i16, shift: u32) {
        // SAFETY: as above.
        unsafe { (self.pairwise)(out, left, right, max, shift) }
    }

    /// Adds the matrix product of 8-bit inputs and weights to `out`.
    ///
    /// Inputs are at most 127 and their number is a multiple of four. Weights come in groups: four of the
    /// first output, four of the second and so on, then the same for the next four inputs. There are 16 or 32
    /// outputs.
    #[inline]
    pub(crate) fn affine(&self, out: &mut [i32], input: &[u8], weights: &[i8]) {
        // SAFETY: as above.
        unsafe { (self.affine)(out, input, weights) }
    }

    /// Dot product of weights and values, which are clipped to `0..=max` and optionally squared, in 32 bits.
    /// The loader has checked that the sum fits; `products` bounds a single product of a clipped value and a
    /// weight.
    #[inline]
    pub(crate) fn dot(
        &self,
        is_squared: bool,
        products: Products,
        values: &[i16],
        weights: &[i16],
        max: i16,
    ) -> i32 {
        // SAFETY: as above.
        unsafe { (self.dot)(is_squared, products, values, weights, max) }
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
    use tandem_util::random::SplitMix;

    /// Instruction sets with kernels of their own.
    fn available() -> impl Iterator<Item = Isa> {
        Isa::available().filter(|isa| *isa <= Isa::Avx512)
    }

    fn available_kernels() -> Vec<Kernels> {
        available().map(Kernels::new).collect()
    }

    #[test]
    fn available_instruction_sets_are_used() {
        for isa in Isa::available() {
            assert_eq!(Kernels::new(isa).isa, isa.min(Isa::Avx512));
        }
    }

    /// Random integers from a seed. A quarter of them are the limits of 16 bits or zero.
    fn numbers<T>(seed: u64, count: usize, convert: impl Fn(i32) -> T) -> Vec<T> {
        let mut random = SplitMix::new(seed);
        let mut next = || random.next_u64() as i32;
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
            let rows = WeightRows { weights: &weights, width };
            let from = &weights[..width];
            let mut expected: Vec<i16> = from.to_vec();
            for (rows_of, sign) in [(&adds, 1i16), (&subs, -1)] {
                for &row in rows_of.iter() {
                    for (value, &weight) in expected.iter_mut().zip(&weights[row as usize * width..]) {
                        *value = value.wrapping_add(weight.wrapping_mul(sign));
                    }
                }
            }
            for kernels in available_kernels() {
                let mut out = vec![7; width];
                kernels.update(&mut out, from, rows, &adds, &subs);
                prop_assert_eq!(&out, &expected, "{:?}", kernels);
            }
        }

        /// Pairwise multiplication reads halves of an accumulator, so smaller widths occur here too.
        #[test]
        fn clipping_and_pairwise_multiplication_agree(
            seed in any::<u64>(),
            width in prop::sample::select(&[16, 32, 48, 96, 128, 256, 512, 1024][..]),
        ) {
            let (left, right) = (i16s(seed, width), i16s(!seed, width));
            for kernels in available_kernels() {
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
        fn matrix_products_agree(
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
            for kernels in available_kernels() {
                let mut out = bias[..outputs].to_vec();
                kernels.affine(&mut out, &input, &weights);
                prop_assert_eq!(&out, &expected, "{:?}", kernels);
            }
        }

        #[test]
        fn dot_products_agree(seed in any::<u64>(), width in prop::sample::select(&WIDTHS[..])) {
            // Weight limits that keep all sums within 32 bits: 1,024 values, squared up to 255 or plain up to
            // 32,767.
            const SHAPES: [(bool, i16, i16); 3] = [(false, i16::MAX, 60), (false, 255, 128), (true, 255, 30)];
            let values = i16s(seed, width);
            for (is_squared, max, limit) in SHAPES {
                let weights = numbers(!seed, width, |number| (number as i16).clamp(-limit, limit));
                let mut expected = 0i64;
                for (&value, &weight) in values.iter().zip(&weights) {
                    let value = i64::from(value.clamp(0, max));
                    let power = if is_squared { value * value } else { value };
                    expected += power * i64::from(weight);
                }
                for kernels in available_kernels() {
                    for products in [Products::Narrow, Products::Split, Products::Any] {
                        let sum = kernels.dot(is_squared, products, &values, &weights, max);
                        prop_assert_eq!(i64::from(sum), expected, "{:?} {} {}", kernels, is_squared, max);
                    }
                }
            }
        }
    }

    /// Only a few values, so that the sums fit although the weights are at their limits.
    #[test]
    fn split_weights_give_the_same_dot_product() {
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
                let clipped = i32::from(value.min(255));
                let expected = clipped * clipped * i32::from(weight) + 200 * 200 * 3;
                for kernels in available_kernels() {
                    let sum = kernels.dot(true, Products::Split, &values, &weights, 255);
                    assert_eq!(sum, expected, "{kernels:?} {weight} {value}");
                }
            }
        }
    }

    /// Whole networks with every kind of head, and widths that take different paths through the kernels.
    #[test]
    fn networks_evaluate_equally_with_every_instruction_set() {
        let mut networks = vec![test_nets::untied(FeatureSet::half_kp(), 32, 3)];
        for width in [32, 96, 256, 1024] {
            networks.push(test_nets::flat(FeatureSet::plain(), width, 1));
            networks.push(test_nets::stacks(FeatureSet::plain(), width, 2));
        }
        for network in networks {
            let portable = network.clone().with_isa(Isa::Portable);
            for isa in available() {
                let other = network.clone().with_isa(isa);
                assert_eq!(other.isa(), isa);
                for position in random_positions(71, 60) {
                    let board = position.board();
                    assert_eq!(other.evaluate(board), portable.evaluate(board), "{isa:?}");
                }
            }
        }
    }
}
