//! Conversion of 16-bit floating-point formats, float16 and bfloat16.

/// Converts IEEE half precision: 5 bits of exponent, 10 of mantissa.
pub(crate) fn from_f16(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10 & 31);
    let fraction = u32::from(bits & 1023);
    match exponent {
        // Subnormal: multiples of 2^-24, which are normal in f32.
        0 => f32::from_bits(sign | (fraction as f32 / (1 << 24) as f32).to_bits()),
        31 => f32::from_bits(sign | 0x7F80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// Converts bfloat16, which is the upper half of an f32.
pub(crate) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds to the nearest bfloat16, ties to even. Values nearer to infinity than to the largest finite value
/// become infinite.
#[inline(always)]
pub(crate) fn to_bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    (bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16) as u16
}

/// The largest finite bfloat16.
pub(crate) const LARGEST_BF16: f32 = f32::from_bits(0x7F7F_0000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float16_follows_the_standard() {
        let known = [
            (0x3C00, 1.0),
            (0xC000, -2.0),
            (0x7BFF, 65504.0),
            (0x0001, 2f32.powi(-24)),
            (0x0400, 2f32.powi(-14)),
        ];
        for (bits, number) in known {
            assert_eq!(from_f16(bits), number);
        }
        assert_eq!(from_f16(0x3555), 0.333_251_95);
        assert!(from_f16(0x8000).is_sign_negative() && from_f16(0xFC00) == f32::NEG_INFINITY);
        assert!(from_f16(0x7E00).is_nan());
        let in_order = (0..0x7C00).map(from_f16).collect::<Vec<_>>();
        assert!(in_order.is_sorted_by(|left, right| left < right));
    }

    #[test]
    fn bfloat16_rounds_to_nearest() {
        for bits in 0..=u16::MAX {
            let number = from_bf16(bits);
            if number.is_finite() {
                assert_eq!(to_bf16(number), bits);
            }
        }
        assert_eq!(from_bf16(to_bf16(1.0 + 1.0 / 256.0)), 1.0);
        assert_eq!(from_bf16(to_bf16(1.0 + 1.1 / 256.0)), 1.0 + 1.0 / 128.0);
        assert_eq!(from_bf16(to_bf16(f32::NEG_INFINITY)), f32::NEG_INFINITY);
        assert_eq!(from_bf16(to_bf16(f32::MAX)), f32::INFINITY);
        assert_eq!(from_bf16(to_bf16(LARGEST_BF16)), LARGEST_BF16);
    }
}
