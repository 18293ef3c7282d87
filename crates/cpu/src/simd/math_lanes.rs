//! What the elementary functions need of a vector type beyond [`Lanes`].

use super::lanes::{Lanes, Portable};

/// Values of the widest vector.
pub(crate) const MAX_WIDTH: usize = 16;

/// A vector type with division, comparison and scaling by powers of two.
///
/// # Safety
/// As for [`Lanes`]; `deinterleave` reads `4 * WIDTH` values. No closures in the implementations: a
/// closure would be compiled without the instruction set.
pub(crate) trait MathLanes: Lanes {
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    /// The larger of each pair; a NaN in `b` stays.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// The smaller of each pair; a NaN in `b` stays.
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// `a * 2^n` rounded once, for whole `n` from -151 to 129 and `a` near 1.
    unsafe fn scale(a: Self::V, n: Self::V) -> Self::V;
    /// Values 0, 4, 8, ... from `p` in the first vector, 1, 5, 9, ... in the second, and so on.
    #[inline(always)]
    unsafe fn deinterleave(p: *const f32) -> [Self::V; 4] {
        let mut parts = [[0f32; MAX_WIDTH]; 4];
        for i in 0..Self::WIDTH {
            for (k, part) in parts.iter_mut().enumerate() {
                // SAFETY: the caller promises `4 * WIDTH` readable values.
                part[i] = unsafe { *p.add(4 * i + k) };
            }
        }
        let [a, b, c, d] = &parts;
        // SAFETY: a part has at least `WIDTH` values.
        unsafe {
            [
                Self::load(a.as_ptr()),
                Self::load(b.as_ptr()),
                Self::load(c.as_ptr()),
                Self::load(d.as_ptr()),
            ]
        }
    }
    /// The sums of four vectors, all in one order, which need not be that of [`Lanes::sum`].
    #[inline(always)]
    unsafe fn sums([a, b, c, d]: [Self::V; 4]) -> [f32; 4] {
        // SAFETY: passed on from the caller.
        unsafe { [Self::sum(a), Self::sum(b), Self::sum(c), Self::sum(d)] }
    }
}

/// `2^n` for `n` from -126 to 127.
#[inline(always)]
fn power(n: i32) -> f32 {
    f32::from_bits(((n + 127) << 23) as u32)
}

impl MathLanes for Portable {
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] - b[i])
    }

    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] / b[i])
    }

    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    unsafe fn scale(a: Self::V, n: Self::V) -> Self::V {
        // In two steps, of which the first is exact: 2^n alone may lie beyond the format's ends.
        std::array::from_fn(|i| {
            let n = n[i] as i32;
            a[i] * power(n >> 1) * power(n - (n >> 1))
        })
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::MathLanes;
    use crate::simd::lanes::{Avx2, Avx512};
    use std::arch::x86_64::*;

    // SAFETY of every block here: the trait's contract is passed on to the intrinsics.
    impl MathLanes for Avx2 {
        #[inline(always)]
        unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm256_sub_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm256_div_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm256_max_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm256_min_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn scale(a: Self::V, n: Self::V) -> Self::V {
            // SAFETY: see the impl. In two steps, of which the first is exact: 2^n alone may lie
            // beyond the format's ends.
            unsafe {
                let n = _mm256_cvtps_epi32(n);
                let half = _mm256_srai_epi32::<1>(n);
                let rest = _mm256_sub_epi32(n, half);
                let bias = _mm256_set1_epi32(127);
                let first = _mm256_slli_epi32::<23>(_mm256_add_epi32(half, bias));
                let second = _mm256_slli_epi32::<23>(_mm256_add_epi32(rest, bias));
                let scaled = _mm256_mul_ps(a, _mm256_castsi256_ps(first));
                _mm256_mul_ps(scaled, _mm256_castsi256_ps(second))
            }
        }

        #[inline(always)]
        unsafe fn deinterleave(p: *const f32) -> [Self::V; 4] {
            // SAFETY: see the impl.
            unsafe {
                // Groups 0 and 4, 1 and 5, 2 and 6, 3 and 7 of four values.
                macro_rules! pair {
                    ($i:expr) => {
                        _mm256_insertf128_ps::<1>(
                            _mm256_castps128_ps256(_mm_loadu_ps(p.add(4 * $i))),
                            _mm_loadu_ps(p.add(4 * $i + 16)),
                        )
                    };
                }
                let (a, b, c, d) = (pair!(0), pair!(1), pair!(2), pair!(3));
                let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
                let (ab2, cd2) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
                [
                    _mm256_shuffle_ps::<0x44>(ab, cd),
                    _mm256_shuffle_ps::<0xEE>(ab, cd),
                    _mm256_shuffle_ps::<0x44>(ab2, cd2),
                    _mm256_shuffle_ps::<0xEE>(ab2, cd2),
                ]
            }
        }

        #[inline(always)]
        unsafe fn sums([a, b, c, d]: [Self::V; 4]) -> [f32; 4] {
            // SAFETY: see the impl.
            unsafe {
                let four = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
                let sums =
                    _mm_add_ps(_mm256_castps256_ps128(four), _mm256_extractf128_ps::<1>(four));
                let mut out = [0.0; 4];
                _mm_storeu_ps(out.as_mut_ptr(), sums);
                out
            }
        }
    }

    // SAFETY of every block here: the trait's contract is passed on to the intrinsics.
    impl MathLanes for Avx512 {
        #[inline(always)]
        unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm512_sub_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm512_div_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm512_max_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm512_min_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn scale(a: Self::V, n: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm512_scalef_ps(a, n) }
        }

        #[inline(always)]
        unsafe fn deinterleave(p: *const f32) -> [Self::V; 4] {
            // SAFETY: see the impl.
            unsafe {
                let (a, b) = (_mm512_loadu_ps(p), _mm512_loadu_ps(p.add(16)));
                let (c, d) = (_mm512_loadu_ps(p.add(32)), _mm512_loadu_ps(p.add(48)));
                // First the pairs 0, 1 and 2, 3 of two vectors' groups, then of all four.
                let first =
                    _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
                let last = _mm512_add_epi32(first, _mm512_set1_epi32(2));
                let (ab, cd) =
                    (_mm512_permutex2var_ps(a, first, b), _mm512_permutex2var_ps(c, first, d));
                let (ab2, cd2) =
                    (_mm512_permutex2var_ps(a, last, b), _mm512_permutex2var_ps(c, last, d));
                [
                    _mm512_shuffle_f32x4::<0x44>(ab, cd),
                    _mm512_shuffle_f32x4::<0xEE>(ab, cd),
                    _mm512_shuffle_f32x4::<0x44>(ab2, cd2),
                    _mm512_shuffle_f32x4::<0xEE>(ab2, cd2),
                ]
            }
        }

        #[inline(always)]
        unsafe fn sums([a, b, c, d]: [Self::V; 4]) -> [f32; 4] {
            // SAFETY: see the impl.
            unsafe {
                // Pairs of 128-bit parts, side by side for two vectors, then values.
                macro_rules! fold {
                    ($a:expr, $b:expr) => {
                        _mm512_add_ps(
                            _mm512_shuffle_f32x4::<0x44>($a, $b),
                            _mm512_shuffle_f32x4::<0xEE>($a, $b),
                        )
                    };
                }
                let (ab, cd) = (fold!(a, b), fold!(c, d));
                let even = _mm512_shuffle_f32x4::<0x88>(ab, cd);
                let parts = _mm512_add_ps(even, _mm512_shuffle_f32x4::<0xDD>(ab, cd));
                let swapped = _mm512_add_ps(parts, _mm512_permute_ps::<0b01_00_11_10>(parts));
                let sums = _mm512_add_ps(swapped, _mm512_permute_ps::<0b10_11_00_01>(swapped));
                let every_fourth =
                    _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
                let sums = _mm512_permutexvar_ps(every_fourth, sums);
                let mut out = [0.0; 4];
                _mm_storeu_ps(out.as_mut_ptr(), _mm512_castps512_ps128(sums));
                out
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::MathLanes;
    use crate::simd::lanes::Neon;
    use std::arch::aarch64::*;

    // SAFETY of every block here: the trait's contract is passed on to the intrinsics.
    impl MathLanes for Neon {
        #[inline(always)]
        unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { vsubq_f32(a, b) }
        }

        #[inline(always)]
        unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { vdivq_f32(a, b) }
        }

        #[inline(always)]
        unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { vmaxq_f32(a, b) }
        }

        #[inline(always)]
        unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { vminq_f32(a, b) }
        }

        #[inline(always)]
        unsafe fn scale(a: Self::V, n: Self::V) -> Self::V {
            // SAFETY: see the impl. In two steps, of which the first is exact: 2^n alone may lie
            // beyond the format's ends.
            unsafe {
                let n = vcvtq_s32_f32(n);
                let half = vshrq_n_s32::<1>(n);
                let rest = vsubq_s32(n, half);
                let bias = vdupq_n_s32(127);
                let first = vshlq_n_s32::<23>(vaddq_s32(half, bias));
                let second = vshlq_n_s32::<23>(vaddq_s32(rest, bias));
                let scaled = vmulq_f32(a, vreinterpretq_f32_s32(first));
                vmulq_f32(scaled, vreinterpretq_f32_s32(second))
            }
        }

        #[inline(always)]
        unsafe fn deinterleave(p: *const f32) -> [Self::V; 4] {
            // SAFETY: see the impl.
            let float32x4x4_t(a, b, c, d) = unsafe { vld4q_f32(p) };
            [a, b, c, d]
        }

        #[inline(always)]
        unsafe fn sums([a, b, c, d]: [Self::V; 4]) -> [f32; 4] {
            // SAFETY: see the impl.
            unsafe {
                let sums = vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d));
                let mut out = [0.0; 4];
                vst1q_f32(out.as_mut_ptr(), sums);
                out
            }
        }
    }
}
