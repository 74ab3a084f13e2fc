//! Branch-free activation functions, generic over scalars, which the compiler vectorises, and vectors written
//! by hand.
//!
//! They use only basic arithmetic in a fixed order without fused multiply-add, so that every instruction set
//! gives the same bits. The error bound of each is documented there and tested.

use crate::Activation;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// Added to a value below 2^22 and subtracted again, it rounds to the nearest integer; in between, that
/// integer is in the lowest bits.
pub(super) const ROUND: f32 = 12_582_912.0;

/// One f32, or a vector of them. Arithmetic is that of IEEE 754 in every lane, never fused.
pub(super) trait Lanes:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// The same value in all lanes, mostly a constant of a formula.
    fn splat(value: f32) -> Self;
    /// Absolute value of each lane.
    fn abs(self) -> Self;
    /// The larger of the two values; `self` if either is NaN.
    fn max(self, bound: Self) -> Self;
    /// The smaller of the two values; `self` if either is NaN.
    fn min(self, bound: Self) -> Self;
    /// `yes` in lanes where `self` is above zero, `no` in the others.
    fn select_gt0(self, yes: Self, no: Self) -> Self;
    /// Two to the power of the integer that is in the lowest bits, which adding [`ROUND`] puts there.
    fn exp2i(self) -> Self;
}

/// Several vectors at once: their operations are interleaved, so that none waits for the result of the one
/// before it.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "only vectors written by hand are unrolled")
)]
pub(super) struct Unrolled<V, const N: usize>(pub(super) [V; N]);

impl<V: Copy, const N: usize> Unrolled<V, N> {
    #[inline(always)]
    fn each(mut self, operation: impl Fn(V) -> V) -> Self {
        for value in &mut self.0 {
            *value = operation(*value);
        }
        self
    }

    #[inline(always)]
    fn each_with(mut self, other: Self, operation: impl Fn(V, V) -> V) -> Self {
        for (value, other) in self.0.iter_mut().zip(other.0) {
            *value = operation(*value, other);
        }
        self
    }
}

/// Implements operators lane by lane.
macro_rules! unrolled_operators {
    ($($operator:ident $method:ident),*) => {
        $(impl<V: Lanes, const N: usize> $operator for Unrolled<V, N> {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                self.each_with(other, V::$method)
            }
        })*
    };
}

unrolled_operators!(Add add, Sub sub, Mul mul, Div div);

impl<V: Lanes, const N: usize> Neg for Unrolled<V, N> {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        self.each(V::neg)
    }
}

impl<V: Lanes, const N: usize> Lanes for Unrolled<V, N> {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self([V::splat(value); N])
    }

    #[inline(always)]
    fn abs(self) -> Self {
        self.each(V::abs)
    }

    #[inline(always)]
    fn max(self, bound: Self) -> Self {
        self.each_with(bound, V::max)
    }

    #[inline(always)]
    fn min(self, bound: Self) -> Self {
        self.each_with(bound, V::min)
    }

    #[inline(always)]
    fn select_gt0(mut self, yes: Self, no: Self) -> Self {
        for (index, value) in self.0.iter_mut().enumerate() {
            *value = value.select_gt0(yes.0[index], no.0[index]);
        }
        self
    }

    #[inline(always)]
    fn exp2i(self) -> Self {
        self.each(V::exp2i)
    }
}

impl Lanes for f32 {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn abs(self) -> Self {
        f32::abs(self)
    }

    #[inline(always)]
    fn max(self, bound: Self) -> Self {
        if self < bound { bound } else { self }
    }

    #[inline(always)]
    fn min(self, bound: Self) -> Self {
        if self > bound { bound } else { self }
    }

    #[inline(always)]
    fn select_gt0(self, yes: Self, no: Self) -> Self {
        if self > 0.0 { yes } else { no }
    }

    #[inline(always)]
    fn exp2i(self) -> Self {
        f32::from_bits((self.to_bits() << 23).wrapping_add(127 << 23))
    }
}

/// Evaluates a polynomial by Horner's rule, the highest coefficient first.
#[inline(always)]
fn horner<V: Lanes, const N: usize>(x: V, coefficients: [f32; N]) -> V {
    let mut sum = V::splat(coefficients[0]);
    for &coefficient in &coefficients[1..] {
        sum = sum * x + V::splat(coefficient);
    }
    sum
}

/// e^x, with a relative error below (2 + |x|) · 1e-7; the argument is clamped to ±87.
#[inline(always)]
pub(super) fn exp<V: Lanes>(x: V) -> V {
    let x = x.max(V::splat(-87.0)).min(V::splat(87.0));
    // The exponent is split into an integer and a fraction between -1/2 and 1/2.
    let exponent = x * V::splat(std::f32::consts::LOG2_E);
    let shifted = exponent + V::splat(ROUND);
    let fraction = exponent - (shifted - V::splat(ROUND));
    let mantissa = horner(
        fraction,
        [1.330_060_5e-3, 9.669_691e-3, 5.550_558_5e-2, 0.240_222_83, std::f32::consts::LN_2, 1.0],
    );
    mantissa * shifted.exp2i()
}

/// Logistic function, with an absolute error below 3e-7.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Hyperbolic tangent, with an absolute error below 3e-7.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let small = exp(-2.0 * x.abs());
    ((1.0 - small) / (1.0 + small)).copysign(x)
}

/// SiLU, with an error below 4e-7 of the larger of |x| and 1; the same bound holds for Mish and GELU.
#[inline(always)]
pub(super) fn silu<V: Lanes>(x: V) -> V {
    x / (V::splat(1.0) + exp(-x))
}

/// Mish: tanh(log(1 + e^x)) is n / (n + 2) with n = e^x (e^x + 2).
#[inline(always)]
pub(super) fn mish<V: Lanes>(x: V) -> V {
    // Beyond 20 the fraction rounds to one.
    let power = exp(x.min(V::splat(20.0)));
    let n = power * (power + V::splat(2.0));
    x * (n / (n + V::splat(2.0)))
}

/// GELU, with erfc by Abramowitz and Stegun 7.1.26, which does not cancel far from zero.
#[inline(always)]
pub(super) fn gelu<V: Lanes>(x: V) -> V {
    let z = x.abs() * V::splat(std::f32::consts::FRAC_1_SQRT_2);
    let t = V::splat(1.0) / (V::splat(1.0) + V::splat(0.327_591_1) * z);
    let series = horner(t, [1.061_405_4, -1.453_152, 1.421_413_7, -0.284_496_73, 0.254_829_6]) * t;
    let tail = V::splat(0.5) * x * (series * exp(-z * z));
    x.select_gt0(x - tail, tail)
}

#[inline(always)]
pub(super) fn relu<V: Lanes>(x: V) -> V {
    x.select_gt0(x, V::splat(0.0))
}

#[inline(always)]
pub(super) fn squared_relu<V: Lanes>(x: V) -> V {
    relu(x) * relu(x)
}

/// Applies an activation function to all lanes.
#[inline(always)]
pub(super) fn activate<V: Lanes>(x: V, activation: Activation) -> V {
    match activation {
        Activation::Silu => silu(x),
        Activation::Mish => mish(x),
        Activation::Gelu => gelu(x),
        Activation::SquaredRelu => squared_relu(x),
        Activation::Relu => relu(x),
    }
}

/// Applies an activation function to all values of a slice.
#[inline(always)]
pub(super) fn activate_slice(values: &mut [f32], activation: Activation) {
    #[inline(always)]
    fn over_all(values: &mut [f32], function: impl Fn(f32) -> f32) {
        let (parts, rest) = values.as_chunks_mut::<16>();
        for part in parts {
            *part = part.map(&function);
        }
        for value in rest {
            *value = function(*value);
        }
    }
    match activation {
        Activation::Silu => over_all(values, silu),
        Activation::Mish => over_all(values, mish),
        Activation::Gelu => over_all(values, gelu),
        Activation::SquaredRelu => over_all(values, squared_relu),
        Activation::Relu => over_all(values, relu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// erfc by its series, and by its continued fraction for large arguments.
    fn erfc(x: f64) -> f64 {
        if x < 2.5 {
            let (mut term, mut sum) = (x, x);
            for n in 1..200 {
                term *= -x * x / f64::from(n);
                sum += term / f64::from(2 * n + 1);
            }
            return 1.0 - sum * 2.0 / std::f64::consts::PI.sqrt();
        }
        let mut fraction = 0.0;
        for n in (1..100).rev() {
            fraction = f64::from(n) / 2.0 / (x + fraction);
        }
        (-x * x).exp() / std::f64::consts::PI.sqrt() / (x + fraction)
    }

    fn points() -> impl Iterator<Item = f32> {
        let far = (-6000..=6000).map(|step| step as f32 * 0.014_3);
        far.chain((-4000..=4000).map(|step| step as f32 * 0.000_7))
    }

    fn max_error(
        function: fn(f32) -> f32,
        truth: impl Fn(f64) -> f64,
        unit: impl Fn(f64, f64) -> f64,
    ) -> f64 {
        let off = |x: f32| {
            let (x, y) = (f64::from(x), f64::from(function(x)));
            (y - truth(x)).abs() / unit(x, truth(x))
        };
        points().map(off).fold(0.0, f64::max)
    }

    #[test]
    fn activations_are_within_their_error_bounds() {
        let sigmoid_of = |x: f64| 1.0 / (1.0 + (-x).exp());
        let one = |_: f64, _: f64| 1.0;
        let larger = |x: f64, _: f64| x.abs().max(1.0);
        let exact = max_error(exp, |x| x.clamp(-87.0, 87.0).exp(), |x, y| y * (2.0 + x.abs().min(87.0)));
        assert!(exact < 1e-7, "exp: {exact:e}");
        let cases = [
            ("sigmoid", max_error(sigmoid, sigmoid_of, one), 3e-7),
            ("tanh", max_error(tanh, f64::tanh, one), 3e-7),
            ("silu", max_error(silu, |x| x * sigmoid_of(x), larger), 4e-7),
            ("mish", max_error(mish, |x| x * x.exp().ln_1p().tanh(), larger), 4e-7),
            (
                "gelu",
                max_error(
                    gelu,
                    |x| {
                        let far = 0.5 * erfc(x.abs() / 2f64.sqrt());
                        if x > 0.0 { x - x * far } else { x * far }
                    },
                    larger,
                ),
                4e-7,
            ),
        ];
        for (name, error, bound) in cases {
            assert!(error < bound, "{name}: {error:e}");
        }
    }

    #[test]
    fn nan_stays_nan() {
        for function in [exp::<f32>, silu, mish, gelu, tanh] {
            assert!(function(f32::NAN).is_nan());
        }
    }
}
