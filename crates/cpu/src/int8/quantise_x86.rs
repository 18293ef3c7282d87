//! A whole block of activations brought to 8 bits with AVX-512: eight groups at once, so that what
//! belongs to a group, its largest magnitude and its sums, is a lane. Bits as
//! [`super::activation::quantise`] gives them, which tests hold.

use super::CHUNK;
use super::activation::{ActBlock, NEGLIGIBLE, SHIFT};
use std::arch::x86_64::*;

/// Values of a vector; a group has two.
const WIDTH: usize = 16;

/// Groups of a block.
const GROUPS: usize = CHUNK / (2 * WIDTH);

/// Quantises a block.
///
/// # Safety
/// AVX-512 with VNNI must be enabled in the caller.
#[inline(always)]
pub(crate) unsafe fn quantise(x: &[f32; CHUNK], block: &mut ActBlock) {
    // SAFETY: the caller's promise; every access lies inside the arrays.
    unsafe {
        let value = |i: usize| _mm512_loadu_ps(x.as_ptr().add(WIDTH * i));
        let magnitude = |i: usize| _mm512_castps_si512(_mm512_abs_ps(value(i)));
        let largest: [__m512i; GROUPS] =
            std::array::from_fn(|g| _mm512_max_epu32(magnitude(2 * g), magnitude(2 * g + 1)));
        // The order of bits is that of magnitudes, NaN above all.
        let largest = _mm256_castsi256_ps(largest_of_lanes(&largest));
        let (scale, factor) = scales(largest);
        _mm256_storeu_ps(block.scale.as_mut_ptr(), scale);
        let mut factors = [0.0; GROUPS];
        _mm256_storeu_ps(factors.as_mut_ptr(), factor);
        let shift = _mm512_set1_ps(SHIFT);
        for (i, q) in block.q.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
            let scaled = _mm512_mul_ps(value(i), _mm512_set1_ps(factors[i / 2]));
            // The code is the lowest byte.
            let rounded = _mm512_castps_si512(_mm512_add_ps(scaled, shift));
            _mm_storeu_si128(q.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(rounded));
        }
        sums(block);
    }
}

/// Scales of eight groups, and what their values are multiplied with, from their largest magnitudes.
///
/// # Safety
/// AVX-512.
#[inline(always)]
unsafe fn scales(largest: __m256) -> (__m256, __m256) {
    // SAFETY: the caller's promise.
    unsafe {
        let most = _mm256_set1_ps(127.0);
        let finite = _mm256_cmp_ps_mask::<_CMP_LT_OQ>(largest, _mm256_set1_ps(f32::INFINITY));
        let scale = _mm256_div_ps(largest, most);
        let scale = _mm256_mask_blend_ps(finite, _mm256_set1_ps(f32::NAN), scale);
        let factor = _mm256_div_ps(most, largest);
        // Not below, or NaN.
        let counts = _mm256_cmp_ps_mask::<_CMP_NLT_UQ>(largest, _mm256_set1_ps(NEGLIGIBLE));
        (_mm256_maskz_mov_ps(counts, scale), _mm256_maskz_mov_ps(counts, factor))
    }
}

/// The largest of all lanes of each vector, as unsigned numbers.
///
/// # Safety
/// AVX-512.
#[inline(always)]
unsafe fn largest_of_lanes(v: &[__m512i; GROUPS]) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        // Halves of 256 bits, of 128, of 64, of 32: each step leaves half as many lanes of a group.
        let halves = |a: __m512i, b: __m512i| {
            let (low, high) =
                (_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0xee>(a, b));
            _mm512_max_epu32(low, high)
        };
        let quarters = |a: __m512i, b: __m512i| {
            let (low, high) =
                (_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xdd>(a, b));
            _mm512_max_epu32(low, high)
        };
        let pairs =
            [halves(v[0], v[1]), halves(v[2], v[3]), halves(v[4], v[5]), halves(v[6], v[7])];
        // 128 bits of each of four groups.
        let [a, b] = [quarters(pairs[0], pairs[1]), quarters(pairs[2], pairs[3])];
        let both = _mm512_max_epu32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
        let all = _mm512_max_epu32(both, _mm512_srli_epi64::<32>(both));
        // Groups 0 and 4, 1 and 5, 2 and 6, 3 and 7, each in 64 bits.
        let order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0);
        _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, all))
    }
}

/// The sums of a block's codes.
///
/// # Safety
/// AVX-512 with VNNI.
#[inline(always)]
unsafe fn sums(block: &mut ActBlock) {
    // SAFETY: the caller's promise; every access lies inside the arrays.
    unsafe {
        let one = _mm512_set1_epi8(1);
        // Of 16 codes, in each of the four lanes of their 128 bits.
        let of_16 = |i: usize| {
            let codes = _mm512_loadu_si512(block.q.as_ptr().add(4 * WIDTH * i).cast());
            let fours = _mm512_dpbusd_epi32(_mm512_setzero_si512(), one, codes);
            let twos = _mm512_add_epi32(fours, _mm512_shuffle_epi32::<0xb1>(fours));
            _mm512_add_epi32(twos, _mm512_shuffle_epi32::<0x4e>(twos))
        };
        let pick = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 0, 0, 0, 0, 0, 0, 0);
        let low = _mm512_permutex2var_epi32(of_16(0), pick, of_16(1));
        let high = _mm512_permutex2var_epi32(of_16(2), pick, of_16(3));
        let all = _mm512_shuffle_i64x2::<0x44>(low, high);
        let minus_128 =
            |v: __m512i| _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32::<7>(v));
        let bias = minus_128(all);
        _mm512_storeu_si512(block.bias16.as_mut_ptr().cast(), bias);
        let pairs = _mm512_add_epi32(bias, _mm512_srli_epi64::<32>(bias));
        _mm256_storeu_si256(block.bias32.as_mut_ptr().cast(), _mm512_cvtepi64_epi32(pairs));
    }
}
