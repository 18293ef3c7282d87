//! Vectors of f32 of one instruction set.

/// A vector type with the few operations that the loops need.
///
/// # Safety
/// The methods may only run where the instruction set is enabled. `load` and `store` touch
/// `WIDTH` values from the pointer, with no alignment needed.
pub(crate) trait Lanes {
    /// The vector.
    type V: Copy;
    /// Values in a vector.
    const WIDTH: usize;
    /// Weight rows per tile: with [`super::MAX_TILE`] rows of activations the accumulators must fit
    /// the registers.
    const ROWS: usize;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    /// Reads `WIDTH` f16 values.
    unsafe fn load_f16(p: *const u16) -> Self::V;
    /// Reads `WIDTH` bf16 values.
    unsafe fn load_bf16(p: *const u16) -> Self::V;
    /// Reads `WIDTH` integers of 8 bits.
    unsafe fn load_i8(p: *const i8) -> Self::V;
    /// One f16 value in all lanes.
    #[inline(always)]
    unsafe fn splat_f16(p: *const u16) -> Self::V {
        // SAFETY: the caller promises a readable value; the read is unaligned.
        unsafe { Self::splat(quant::Half::from_bits(p.read_unaligned()).to_f32()) }
    }
    unsafe fn store(p: *mut f32, v: Self::V);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, fused where the instruction set can.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// All values added in a fixed order.
    unsafe fn sum(v: Self::V) -> f32;
}

/// Eight values in plain Rust.
#[derive(Debug)]
pub(crate) struct Portable;

impl Lanes for Portable {
    type V = [f32; 8];
    const WIDTH: usize = 8;
    const ROWS: usize = 2;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; 8]
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        // SAFETY: the caller promises 8 readable values; the read is unaligned.
        unsafe { p.cast::<[f32; 8]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self::V {
        // SAFETY: the caller promises 8 readable values; the read is unaligned.
        let halves = unsafe { p.cast::<[u16; 8]>().read_unaligned() };
        halves.map(|half| quant::Half::from_bits(half).to_f32())
    }

    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self::V {
        // SAFETY: the caller promises 8 readable values; the read is unaligned.
        let values = unsafe { p.cast::<[u16; 8]>().read_unaligned() };
        values.map(|value| f32::from_bits(u32::from(value) << 16))
    }

    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> Self::V {
        // SAFETY: the caller promises 8 readable values.
        unsafe { p.cast::<[i8; 8]>().read() }.map(f32::from)
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        // SAFETY: the caller promises 8 writable values; the write is unaligned.
        unsafe { p.cast::<[f32; 8]>().write_unaligned(v) }
    }

    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] + b[i])
    }

    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i])
    }

    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // Not fused: without the instruction a fused operation is a slow library call.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }

    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f32 {
        let [a, b, c, d] = std::array::from_fn(|i| v[i] + v[i + 4]);
        (a + c) + (b + d)
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    /// Eight values in an AVX register.
    #[derive(Debug)]
    pub(crate) struct Avx2;

    // SAFETY of every block here: the trait's contract is passed on to the intrinsics.
    impl Lanes for Avx2 {
        type V = __m256;
        const WIDTH: usize = 8;
        const ROWS: usize = 2;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm256_set1_ps(x) }
        }

        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm256_loadu_ps(p) }
        }

        #[inline(always)]
        unsafe fn load_f16(p: *const u16) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
        }

        #[inline(always)]
        unsafe fn load_bf16(p: *const u16) -> Self::V {
            // SAFETY: see the impl.
            unsafe {
                let values = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(values))
            }
        }

        #[inline(always)]
        unsafe fn load_i8(p: *const i8) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast()))) }
        }

        #[inline(always)]
        unsafe fn splat_f16(p: *const u16) -> Self::V {
            // SAFETY: see the impl; the read is unaligned.
            unsafe { _mm256_cvtph_ps(_mm_set1_epi16(p.cast::<i16>().read_unaligned())) }
        }

        #[inline(always)]
        unsafe fn store(p: *mut f32, v: Self::V) {
            // SAFETY: see the impl.
            unsafe { _mm256_storeu_ps(p, v) }
        }

        #[inline(always)]
        unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm256_add_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm256_mul_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm256_fmadd_ps(a, b, c) }
        }

        #[inline(always)]
        unsafe fn sum(v: Self::V) -> f32 {
            // SAFETY: see the impl.
            unsafe {
                let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
                let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
            }
        }
    }

    /// Sixteen values in an AVX-512 register.
    #[derive(Debug)]
    pub(crate) struct Avx512;

    // SAFETY of every block here: the trait's contract is passed on to the intrinsics.
    impl Lanes for Avx512 {
        type V = __m512;
        const WIDTH: usize = 16;
        const ROWS: usize = 4;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm512_set1_ps(x) }
        }

        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm512_loadu_ps(p) }
        }

        #[inline(always)]
        unsafe fn load_f16(p: *const u16) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
        }

        #[inline(always)]
        unsafe fn load_bf16(p: *const u16) -> Self::V {
            // SAFETY: see the impl.
            unsafe {
                let values = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(values))
            }
        }

        #[inline(always)]
        unsafe fn load_i8(p: *const i8) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast()))) }
        }

        #[inline(always)]
        unsafe fn splat_f16(p: *const u16) -> Self::V {
            // SAFETY: see the impl; the read is unaligned.
            unsafe { _mm512_cvtph_ps(_mm256_set1_epi16(p.cast::<i16>().read_unaligned())) }
        }

        #[inline(always)]
        unsafe fn store(p: *mut f32, v: Self::V) {
            // SAFETY: see the impl.
            unsafe { _mm512_storeu_ps(p, v) }
        }

        #[inline(always)]
        unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm512_add_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm512_mul_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }

        #[inline(always)]
        unsafe fn sum(v: Self::V) -> f32 {
            // SAFETY: see the impl.
            unsafe { _mm512_reduce_add_ps(v) }
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub(crate) use arm::{Neon, half};

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::Lanes;
    use std::arch::aarch64::*;

    /// Four values in a NEON register.
    #[derive(Debug)]
    pub(crate) struct Neon;

    /// The low 16 bits of lanes as f16. The conversion has no stable intrinsic: normal numbers get
    /// the other bias of the exponent, denormals are counted in units of 2^-24, the largest exponent
    /// stays the largest.
    ///
    /// # Safety
    /// The processor must have NEON.
    #[inline(always)]
    pub(crate) unsafe fn half(v: uint32x4_t) -> float32x4_t {
        // SAFETY: the caller's promise.
        unsafe {
            let sign = vshlq_n_u32::<16>(vandq_u32(v, vdupq_n_u32(0x8000)));
            let magnitude = vandq_u32(v, vdupq_n_u32(0x7fff));
            let shifted = vshlq_n_u32::<13>(magnitude);
            let normal = vaddq_u32(shifted, vdupq_n_u32(112 << 23));
            let unit = vdupq_n_f32(1.0 / 16_777_216.0);
            let denormal = vreinterpretq_u32_f32(vmulq_f32(vcvtq_f32_u32(magnitude), unit));
            let special = vorrq_u32(shifted, vdupq_n_u32(0x7f80_0000));
            let small = vcltq_u32(magnitude, vdupq_n_u32(0x0400));
            let large = vcgeq_u32(magnitude, vdupq_n_u32(0x7c00));
            let finite = vbslq_u32(small, denormal, normal);
            vreinterpretq_f32_u32(vorrq_u32(sign, vbslq_u32(large, special, finite)))
        }
    }

    // SAFETY of every block here: the trait's contract is passed on to the intrinsics.
    impl Lanes for Neon {
        type V = float32x4_t;
        const WIDTH: usize = 4;
        const ROWS: usize = 4;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self::V {
            // SAFETY: see the impl.
            unsafe { vdupq_n_f32(x) }
        }

        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self::V {
            // SAFETY: see the impl.
            unsafe { vld1q_f32(p) }
        }

        #[inline(always)]
        unsafe fn load_f16(p: *const u16) -> Self::V {
            // SAFETY: see the impl.
            unsafe { half(vmovl_u16(vld1_u16(p))) }
        }

        #[inline(always)]
        unsafe fn load_bf16(p: *const u16) -> Self::V {
            // SAFETY: see the impl.
            unsafe { vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(p))) }
        }

        #[inline(always)]
        unsafe fn load_i8(p: *const i8) -> Self::V {
            // SAFETY: see the impl; the read is unaligned.
            unsafe {
                let bytes = vcreate_s8(u64::from(p.cast::<u32>().read_unaligned()));
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))))
            }
        }

        #[inline(always)]
        unsafe fn store(p: *mut f32, v: Self::V) {
            // SAFETY: see the impl.
            unsafe { vst1q_f32(p, v) }
        }

        #[inline(always)]
        unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { vaddq_f32(a, b) }
        }

        #[inline(always)]
        unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { vmulq_f32(a, b) }
        }

        #[inline(always)]
        unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            // SAFETY: see the impl.
            unsafe { vfmaq_f32(c, a, b) }
        }

        #[inline(always)]
        unsafe fn sum(v: Self::V) -> f32 {
            // SAFETY: see the impl.
            unsafe { vaddvq_f32(v) }
        }
    }
}
