//! Curves without branches, for single numbers, of which the compiler makes vectors, and for vectors written by hand.
//!
//! They are made of sums and products alone, in an order that is written down, so that every instruction set gives the
//! same bits. How far they are from the truth is said at each and tested.

use crate::Activation;

/// Added to a number below 2^22 and taken away again, it leaves the nearest whole number; in between, that number
/// stands in the lowest bits.
pub(super) const ROUND: f32 = 12_582_912.0;

/// One number, or a vector of them.
pub(super) trait Lanes: Copy {
    /// The same number in all lanes.
    fn all(number: f32) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    fn size(self) -> Self;
    /// The larger one; where one is no number, `self`.
    fn at_least(self, bound: Self) -> Self;
    /// The smaller one; where one is no number, `self`.
    fn at_most(self, bound: Self) -> Self;
    /// `yes` where it is above zero.
    fn if_positive(self, yes: Self, no: Self) -> Self;
    /// Two to the power of the whole number that stands in its lowest bits.
    fn power(self) -> Self;
}

/// Several at once. Their steps stand side by side, so that none waits for the one before it.
impl<V: Lanes, const N: usize> Lanes for [V; N] {
    #[inline(always)]
    fn all(number: f32) -> Self {
        [V::all(number); N]
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        each(self, other, V::plus)
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        each(self, other, V::minus)
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        each(self, other, V::times)
    }

    #[inline(always)]
    fn over(self, other: Self) -> Self {
        each(self, other, V::over)
    }

    #[inline(always)]
    fn size(self) -> Self {
        each(self, self, |number, _| number.size())
    }

    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        each(self, bound, V::at_least)
    }

    #[inline(always)]
    fn at_most(self, bound: Self) -> Self {
        each(self, bound, V::at_most)
    }

    #[inline(always)]
    fn if_positive(mut self, yes: Self, no: Self) -> Self {
        for (index, number) in self.iter_mut().enumerate() {
            *number = number.if_positive(yes[index], no[index]);
        }
        self
    }

    #[inline(always)]
    fn power(self) -> Self {
        each(self, self, |number, _| number.power())
    }
}

#[inline(always)]
fn each<V: Copy, const N: usize>(mut left: [V; N], right: [V; N], operation: impl Fn(V, V) -> V) -> [V; N] {
    for (left, right) in left.iter_mut().zip(right) {
        *left = operation(*left, right);
    }
    left
}

impl Lanes for f32 {
    #[inline(always)]
    fn all(number: f32) -> Self {
        number
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self - other
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self * other
    }

    #[inline(always)]
    fn over(self, other: Self) -> Self {
        self / other
    }

    #[inline(always)]
    fn size(self) -> Self {
        self.abs()
    }

    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        if self < bound { bound } else { self }
    }

    #[inline(always)]
    fn at_most(self, bound: Self) -> Self {
        if self > bound { bound } else { self }
    }

    #[inline(always)]
    fn if_positive(self, yes: Self, no: Self) -> Self {
        if self > 0.0 { yes } else { no }
    }

    #[inline(always)]
    fn power(self) -> Self {
        f32::from_bits((self.to_bits() << 23).wrapping_add(127 << 23))
    }
}

/// A sum of powers of `x`, the highest first.
#[inline(always)]
fn series<V: Lanes, const N: usize>(x: V, coefficients: [f32; N]) -> V {
    let mut sum = V::all(coefficients[0]);
    for &coefficient in &coefficients[1..] {
        sum = sum.times(x).plus(V::all(coefficient));
    }
    sum
}

/// e^x, within (2 + |x|) · 1e-7 of itself; beyond ±87 it stays what it is there.
#[inline(always)]
pub(super) fn exp<V: Lanes>(x: V) -> V {
    let x = x.at_least(V::all(-87.0)).at_most(V::all(87.0));
    // A power of two: a whole one, and what is left, between -1/2 and 1/2.
    let power = x.times(V::all(std::f32::consts::LOG2_E));
    let shifted = power.plus(V::all(ROUND));
    let rest = power.minus(shifted.minus(V::all(ROUND)));
    let fraction = series(
        rest,
        [1.330_060_5e-3, 9.669_691e-3, 5.550_558_5e-2, 0.240_222_83, std::f32::consts::LN_2, 1.0],
    );
    fraction.times(shifted.power())
}

#[inline(always)]
fn negative<V: Lanes>(x: V) -> V {
    V::all(0.0).minus(x)
}

/// The logistic curve, within 3e-7.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Within 3e-7.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let small = exp(-2.0 * x.abs());
    ((1.0 - small) / (1.0 + small)).copysign(x)
}

/// Within 4e-7 of the larger of |x| and 1, as the next two.
#[inline(always)]
pub(super) fn silu<V: Lanes>(x: V) -> V {
    x.over(V::all(1.0).plus(exp(negative(x))))
}

/// tanh(log(1 + e^x)) is n / (n + 2) with n = e^x (e^x + 2).
#[inline(always)]
pub(super) fn mish<V: Lanes>(x: V) -> V {
    // Beyond 20 the fraction is one.
    let power = exp(x.at_most(V::all(20.0)));
    let n = power.times(power.plus(V::all(2.0)));
    x.times(n.over(n.plus(V::all(2.0))))
}

/// With the error function of Abramowitz and Stegun 7.1.26, written for its far side, where nothing cancels.
#[inline(always)]
pub(super) fn gelu<V: Lanes>(x: V) -> V {
    let z = x.size().times(V::all(std::f32::consts::FRAC_1_SQRT_2));
    let t = V::all(1.0).over(V::all(1.0).plus(V::all(0.327_591_1).times(z)));
    let share = series(t, [1.061_405_4, -1.453_152, 1.421_413_7, -0.284_496_73, 0.254_829_6]).times(t);
    let beyond = V::all(0.5).times(x).times(share.times(exp(negative(z).times(z))));
    x.if_positive(x.minus(beyond), beyond)
}

#[inline(always)]
pub(super) fn relu<V: Lanes>(x: V) -> V {
    x.if_positive(x, V::all(0.0))
}

#[inline(always)]
pub(super) fn squared_relu<V: Lanes>(x: V) -> V {
    relu(x).times(relu(x))
}

/// A curve of one kind or another.
#[inline(always)]
pub(super) fn bent<V: Lanes>(x: V, activation: Activation) -> V {
    match activation {
        Activation::Silu => silu(x),
        Activation::Mish => mish(x),
        Activation::Gelu => gelu(x),
        Activation::SquaredRelu => squared_relu(x),
        Activation::Relu => relu(x),
    }
}

/// A curve over all numbers of a slice.
#[inline(always)]
pub(super) fn activate(values: &mut [f32], activation: Activation) {
    #[inline(always)]
    fn over_all(values: &mut [f32], curve: impl Fn(f32) -> f32) {
        let (parts, rest) = values.as_chunks_mut::<16>();
        for part in parts {
            *part = part.map(&curve);
        }
        for value in rest {
            *value = curve(*value);
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

    /// The error function by its series, and by its continued fraction far out.
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

    fn worst(curve: fn(f32) -> f32, truth: impl Fn(f64) -> f64, unit: impl Fn(f64, f64) -> f64) -> f64 {
        let off = |x: f32| {
            let (x, y) = (f64::from(x), f64::from(curve(x)));
            (y - truth(x)).abs() / unit(x, truth(x))
        };
        points().map(off).fold(0.0, f64::max)
    }

    #[test]
    fn curves_are_as_near_as_they_say() {
        let sigmoid_of = |x: f64| 1.0 / (1.0 + (-x).exp());
        let one = |_: f64, _: f64| 1.0;
        let larger = |x: f64, _: f64| x.abs().max(1.0);
        let exact = worst(exp, |x| x.clamp(-87.0, 87.0).exp(), |x, y| y * (2.0 + x.abs().min(87.0)));
        assert!(exact < 1e-7, "exp: {exact:e}");
        let cases = [
            ("sigmoid", worst(sigmoid, sigmoid_of, one), 3e-7),
            ("tanh", worst(tanh, f64::tanh, one), 3e-7),
            ("silu", worst(silu, |x| x * sigmoid_of(x), larger), 4e-7),
            ("mish", worst(mish, |x| x * x.exp().ln_1p().tanh(), larger), 4e-7),
            (
                "gelu",
                worst(
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
    fn no_number_stays_none() {
        for curve in [exp::<f32>, silu, mish, gelu, tanh] {
            assert!(curve(f32::NAN).is_nan());
        }
    }
}
