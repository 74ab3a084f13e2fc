//! Sixteen f32 in a vector of 512 bits, with the arithmetic that activation functions are written in.

use crate::kernels::activations::Lanes;
use std::arch::x86_64::*;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A vector of sixteen f32. Operators of a foreign type cannot be implemented, so the intrinsic type is wrapped.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct F32x16(pub(super) __m512);

/// Implements operators by one intrinsic each.
macro_rules! operators {
    ($($operator:ident $method:ident $intrinsic:ident),*) => {
        $(impl $operator for F32x16 {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                // SAFETY: vectors are only made by kernels that are compiled for AVX-512 and called where it is available.
                Self(unsafe { $intrinsic(self.0, other.0) })
            }
        })*
    };
}

operators!(Add add _mm512_add_ps, Sub sub _mm512_sub_ps, Mul mul _mm512_mul_ps, Div div _mm512_div_ps);

impl Neg for F32x16 {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        // SAFETY: as above.
        Self(unsafe {
            let sign = _mm512_set1_epi32(i32::MIN);
            _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(self.0), sign))
        })
    }
}

impl Lanes for F32x16 {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_set1_ps(value) })
    }

    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_abs_ps(self.0) })
    }

    #[inline(always)]
    fn max(self, bound: Self) -> Self {
        // SAFETY: as above. If the two cannot be compared the instruction returns the second.
        Self(unsafe { _mm512_max_ps(bound.0, self.0) })
    }

    #[inline(always)]
    fn min(self, bound: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_min_ps(bound.0, self.0) })
    }

    #[inline(always)]
    fn select_gt0(self, yes: Self, no: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe {
            let positive = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(self.0, _mm512_setzero_ps());
            _mm512_mask_blend_ps(positive, no.0, yes.0)
        })
    }

    #[inline(always)]
    fn exp2i(self) -> Self {
        // SAFETY: as above.
        Self(unsafe {
            let exponent = _mm512_slli_epi32::<23>(_mm512_castps_si512(self.0));
            _mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(127 << 23)))
        })
    }
}
