//! Curves without branches, which the compiler turns into vectors.
//!
//! They are made of sums and products alone, in an order that is written down, so that every instruction set gives the
//! same bits. How far they are from the truth is said at each and tested.

use crate::Activation;

/// Added to a number below 2^22 and taken away again, it leaves the nearest whole number; in between, that number
/// stands in the lowest bits.
pub(super) const ROUND: f32 = 12_582_912.0;

#[inline(always)]
fn held(x: f32, least: f32, most: f32) -> f32 {
    let x = if x < least { least } else { x };
    if x > most { most } else { x }
}

/// e^x, within 2e-7 of itself; beyond ±87 it stays what it is there.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let x = held(x, -87.0, 87.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    // ln 2 in two parts, the first of so few bits that its product is exact.
    let rest = (x - whole * 0.693_359_4) + whole * 2.121_944_4e-4;
    let mut series = 1.987_569_1e-4;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_66, 0.5] {
        series = series * rest + coefficient;
    }
    let fraction = series * rest * rest + rest + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    fraction * power
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
pub(super) fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// tanh(log(1 + e^x)) is n / (n + 2) with n = e^x (e^x + 2).
#[inline(always)]
pub(super) fn mish(x: f32) -> f32 {
    // Beyond 20 the fraction is one.
    let power = exp(if x > 20.0 { 20.0 } else { x });
    let n = power * (power + 2.0);
    x * (n / (n + 2.0))
}

/// With the error function of Abramowitz and Stegun 7.1.26, written for its far side, where nothing cancels.
#[inline(always)]
pub(super) fn gelu(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let mut series = 1.061_405_4;
    for coefficient in [-1.453_152, 1.421_413_7, -0.284_496_73, 0.254_829_6] {
        series = series * t + coefficient;
    }
    let beyond = 0.5 * x * (series * t * exp(-z * z));
    if x > 0.0 { x - beyond } else { beyond }
}

#[inline(always)]
pub(super) fn relu(x: f32) -> f32 {
    if x > 0.0 { x } else { 0.0 }
}

#[inline(always)]
pub(super) fn squared_relu(x: f32) -> f32 {
    relu(x) * relu(x)
}

/// A curve over all numbers of a slice.
#[inline(always)]
pub(super) fn activate(values: &mut [f32], activation: Activation) {
    #[inline(always)]
    fn each(values: &mut [f32], curve: impl Fn(f32) -> f32) {
        let (parts, rest) = values.as_chunks_mut::<16>();
        for part in parts {
            *part = part.map(&curve);
        }
        for value in rest {
            *value = curve(*value);
        }
    }
    match activation {
        Activation::Silu => each(values, silu),
        Activation::Mish => each(values, mish),
        Activation::Gelu => each(values, gelu),
        Activation::SquaredRelu => each(values, squared_relu),
        Activation::Relu => each(values, relu),
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
        let exact = worst(exp, |x| x.clamp(-87.0, 87.0).exp(), |_, y| y);
        assert!(exact < 2e-7, "exp: {exact:e}");
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
        for curve in [exp, silu, mish, gelu, tanh] {
            assert!(curve(f32::NAN).is_nan());
        }
    }
}
