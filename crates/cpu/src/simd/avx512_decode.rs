//! Block decoders written for AVX-512: 32 codes at a time go straight to f32 in two registers.
//!
//! The generic decoders of `quant` compile to 1-6 G values a second here; these move several times
//! that (`examples/gemv_speed.rs`), because a 16-entry f32 table in one register turns nibbles into
//! values with one permutation, grid rows are fetched by gathers, and sign bytes are lane masks.
//! Values are the same bits as those of `quant::decode_row`: one product, and where the format has
//! an offset one sum, each rounded on its own.

use super::Decode;
use gguf::TensorType;
use quant::codebook::{
    IQ2S_GRID, IQ2XS_GRID, IQ2XXS_GRID, IQ3S_GRID, IQ3XXS_GRID, KVALUES_FP4, KVALUES_IQ4NL,
};
use quant::{
    IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4_NL, IQ4_XS, MXFP4, Packed, Q2_0, Q4_0, Q4_1, Q4_K,
    Q5_0, Q5_1, Q5_K, Q6_K, Q8_0,
};
use std::arch::x86_64::*;

/// Codes of 32 elements, as f32.
type Codes = [__m512; 2];

/// A format whose codes can be had 32 at a time.
trait Expand: Packed {
    /// The codes of elements `32 * chunk ..`.
    ///
    /// # Safety
    /// The processor must have AVX-512 F, BW, DQ and VL.
    unsafe fn expand(&self, chunk: usize) -> Codes;
}

/// The decoder of a format that is written for AVX-512.
pub(super) fn find(ty: TensorType) -> Option<Decode> {
    Some(match ty {
        TensorType::Q2_0 => decode::<Q2_0>,
        TensorType::Q4_0 => decode::<Q4_0>,
        TensorType::Q4_1 => decode::<Q4_1>,
        TensorType::Q5_0 => decode::<Q5_0>,
        TensorType::Q5_1 => decode::<Q5_1>,
        TensorType::Q8_0 => decode::<Q8_0>,
        TensorType::Q4_K => decode::<Q4_K>,
        TensorType::Q5_K => decode::<Q5_K>,
        TensorType::Q6_K => decode::<Q6_K>,
        TensorType::IQ2_XXS => decode::<IQ2_XXS>,
        TensorType::IQ2_XS => decode::<IQ2_XS>,
        TensorType::IQ2_S => decode::<IQ2_S>,
        TensorType::IQ3_XXS => decode::<IQ3_XXS>,
        TensorType::IQ3_S => decode::<IQ3_S>,
        TensorType::IQ4_NL => decode::<IQ4_NL>,
        TensorType::IQ4_XS => decode::<IQ4_XS>,
        TensorType::MXFP4 => decode::<MXFP4>,
        _ => return None,
    })
}

/// Decodes whole blocks.
///
/// # Safety
/// The processor must have AVX-512 F, BW, DQ and VL.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn decode<F: Expand>(bytes: &[u8], out: &mut [f32]) {
    for (block, values) in bytes.chunks_exact(F::BYTES).zip(out.chunks_exact_mut(F::ELEMENTS)) {
        let block: &F = bytemuck::from_bytes(block);
        let (scales, offsets) = (block.scales(), block.offsets());
        for (chunk, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            // SAFETY: the instruction set is enabled on this function; both stores are in bounds.
            unsafe {
                let codes = block.expand(chunk);
                for (half, codes) in codes.into_iter().enumerate() {
                    let group = (32 * chunk + 16 * half) / F::GROUP;
                    let scale = _mm512_set1_ps(scales.as_ref()[group]);
                    let mut value = _mm512_mul_ps(scale, codes);
                    if let Some(offsets) = &offsets {
                        value = _mm512_add_ps(value, _mm512_set1_ps(offsets.as_ref()[group]));
                    }
                    _mm512_storeu_ps(values.as_mut_ptr().add(16 * half), value);
                }
            }
        }
    }
}

/// The f32 value of each nibble in one register.
const fn table(values: [i8; 16]) -> [f32; 16] {
    let mut table = [0.0; 16];
    let mut i = 0;
    while i < 16 {
        table[i] = values[i] as f32;
        i += 1;
    }
    table
}

/// `from`, `from + step`, ... over `period` codes, repeated: higher bits of an index do not matter.
const fn steps(from: i8, step: i8, period: usize) -> [f32; 16] {
    let mut values = [0; 16];
    let mut i = 0;
    while i < 16 {
        values[i] = from + step * (i % period) as i8;
        i += 1;
    }
    table(values)
}

static PLAIN: [f32; 16] = steps(0, 1, 16);
static MINUS_8: [f32; 16] = steps(-8, 1, 16);
static MINUS_16: [f32; 16] = steps(-16, 1, 16);
static MINUS_32: [f32; 16] = steps(-32, 1, 16);
static TERNARY: [f32; 16] = steps(-1, 1, 4);
static SIXTEENS: [f32; 16] = steps(0, 16, 4);
static IQ4NL: [f32; 16] = table(KVALUES_IQ4NL);
static FP4: [f32; 16] = table(KVALUES_FP4);

/// Sixteen bytes, each in a lane of its own.
///
/// # Safety
/// AVX-512; `bytes` must have 16 bytes.
#[inline(always)]
unsafe fn widen(bytes: &[u8]) -> __m512i {
    debug_assert!(bytes.len() >= 16);
    // SAFETY: the caller's promise.
    unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.as_ptr().cast())) }
}

/// `table` at the low four bits of each lane.
///
/// # Safety
/// AVX-512.
#[inline(always)]
unsafe fn look_up(table: &[f32; 16], index: __m512i) -> __m512 {
    // SAFETY: the caller's promise; the table has 16 values.
    unsafe { _mm512_permutexvar_ps(index, _mm512_loadu_ps(table.as_ptr())) }
}

/// Lanes shifted right by `bits`.
///
/// # Safety
/// AVX-512.
#[inline(always)]
unsafe fn shift(lanes: __m512i, bits: u32) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_srlv_epi32(lanes, _mm512_set1_epi32(bits as i32)) }
}

/// Sixteen bytes with elements k in the low and k + 16 in the high nibbles.
///
/// # Safety
/// AVX-512.
#[inline(always)]
unsafe fn nibble_pairs(bytes: &[u8; 16], table: &[f32; 16]) -> Codes {
    // SAFETY: the caller's promise.
    unsafe {
        let lanes = widen(bytes);
        [look_up(table, lanes), look_up(table, shift(lanes, 4))]
    }
}

/// Adds 16 where the bit of `mask` is set: the fifth bits.
///
/// # Safety
/// AVX-512.
#[inline(always)]
unsafe fn add_16(codes: __m512, mask: u16) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { _mm512_mask_add_ps(codes, mask, codes, _mm512_set1_ps(16.0)) }
}

/// Sixteen magnitudes with the signs of `mask`, a set bit means negative.
///
/// # Safety
/// AVX-512.
#[inline(always)]
unsafe fn signed(magnitudes: __m128i, mask: u16) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let value = _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(magnitudes)));
        let minus = _mm512_set1_epi32(i32::MIN);
        _mm512_castsi512_ps(_mm512_mask_xor_epi32(value, mask, value, minus))
    }
}

/// Magnitudes of 32 elements with the signs of `signs`.
///
/// # Safety
/// AVX-512.
#[inline(always)]
unsafe fn with_signs(magnitudes: __m256i, signs: u32) -> Codes {
    // SAFETY: the caller's promise.
    unsafe {
        let (low, high) =
            (_mm256_castsi256_si128(magnitudes), _mm256_extracti128_si256::<1>(magnitudes));
        [signed(low, signs as u16), signed(high, (signs >> 16) as u16)]
    }
}

/// Sign bytes of four 7-bit fields, one per byte of `fields`: bit 7 makes the number of set bits
/// even.
#[inline(always)]
fn with_parity(fields: u32) -> u32 {
    let mut parity = (fields ^ (fields >> 4)) & 0x0f0f_0f0f;
    parity = (parity ^ (parity >> 2)) & 0x0303_0303;
    parity = (parity ^ (parity >> 1)) & 0x0101_0101;
    fields | (parity << 7)
}

/// The four 7-bit fields at the low end of `word`, one per byte.
#[inline(always)]
fn spread_7(word: u32) -> u32 {
    (word & 0x7f) | ((word << 1) & 0x7f00) | ((word << 2) & 0x7f_0000) | ((word << 3) & 0x7f00_0000)
}

/// Four grid rows of eight bytes.
///
/// # Safety
/// AVX2.
#[inline(always)]
unsafe fn grid_rows(rows: [[u8; 8]; 4]) -> __m256i {
    let [a, b, c, d] = rows.map(i64::from_le_bytes);
    // SAFETY: the caller's promise.
    unsafe { _mm256_set_epi64x(d, c, b, a) }
}

/// The eight 4-byte rows of `grid` at `index`.
///
/// # Safety
/// AVX2; every index must be below N.
#[inline(always)]
unsafe fn gather_rows<const N: usize>(grid: &[[u8; 4]; N], index: __m256i) -> __m256i {
    // SAFETY: the caller's promise; a row is as wide as the gathered element.
    unsafe { _mm256_i32gather_epi32::<4>(grid.as_ptr().cast(), index) }
}

/// The expression at 0 and at 16. A closure would be a function of its own, without the instruction
/// set, and the intrinsics in it calls.
macro_rules! halves {
    (|$at:ident| $codes:expr) => {
        [
            {
                let $at = 0;
                $codes
            },
            {
                let $at = 16;
                $codes
            },
        ]
    };
}

/// Implements [`Expand`] with a closure of (block, chunk).
macro_rules! expand {
    ($format:ident, |$block:ident, $chunk:ident| $codes:expr) => {
        impl Expand for $format {
            #[inline(always)]
            unsafe fn expand(&self, $chunk: usize) -> Codes {
                let $block = self;
                // SAFETY: the trait's contract is passed on.
                unsafe { $codes }
            }
        }
    };
}

expand!(Q4_0, |block, _chunk| nibble_pairs(&block.qs, &MINUS_8));
expand!(Q4_1, |block, _chunk| nibble_pairs(&block.qs, &PLAIN));
expand!(IQ4_NL, |block, _chunk| nibble_pairs(&block.qs, &IQ4NL));
expand!(IQ4_XS, |block, chunk| nibble_pairs(&block.qs[chunk], &IQ4NL));
expand!(MXFP4, |block, _chunk| nibble_pairs(&block.qs, &FP4));

expand!(Q5_0, |block, _chunk| {
    let ([low, high], bits) = (nibble_pairs(&block.qs, &MINUS_16), block.qh.get());
    [add_16(low, bits as u16), add_16(high, (bits >> 16) as u16)]
});
expand!(Q5_1, |block, _chunk| {
    let ([low, high], bits) = (nibble_pairs(&block.qs, &PLAIN), block.qh.get());
    [add_16(low, bits as u16), add_16(high, (bits >> 16) as u16)]
});

expand!(Q8_0, |block, _chunk| {
    let bytes: &[u8] = bytemuck::cast_slice(&block.qs);
    halves!(|at| {
        let lanes = _mm_loadu_si128(bytes[at..at + 16].as_ptr().cast());
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(lanes))
    })
});

expand!(Q2_0, |block, chunk| {
    let shifts = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    let words = &block.qs.as_chunks::<4>().0[2 * chunk..2 * chunk + 2];
    halves!(|at| {
        let word = i32::from_le_bytes(words[at / 16]);
        look_up(&TERNARY, _mm512_srlv_epi32(_mm512_set1_epi32(word), shifts))
    })
});

expand!(Q4_K, |block, chunk| {
    let bytes = &block.qs[32 * (chunk / 2)..][..32];
    let shifted = 4 * (chunk % 2) as u32;
    halves!(|at| look_up(&PLAIN, shift(widen(&bytes[at..at + 16]), shifted)))
});

expand!(Q5_K, |block, chunk| {
    let bytes = &block.qs[32 * (chunk / 2)..][..32];
    let (shifted, bit) = (4 * (chunk % 2) as u32, _mm512_set1_epi32(1 << chunk));
    halves!(|at| {
        let low = look_up(&PLAIN, shift(widen(&bytes[at..at + 16]), shifted));
        add_16(low, _mm512_test_epi32_mask(widen(&block.qh[at..at + 16]), bit))
    })
});

expand!(Q6_K, |block, chunk| {
    let (n, k) = (chunk / 4, chunk % 4);
    let low = &block.ql[64 * n + 32 * (k % 2)..][..32];
    let high = &block.qh[32 * n..][..32];
    halves!(|at| {
        let low = look_up(&MINUS_32, shift(widen(&low[at..at + 16]), 4 * (k / 2) as u32));
        let high = look_up(&SIXTEENS, shift(widen(&high[at..at + 16]), 2 * k as u32));
        _mm512_add_ps(low, high)
    })
});

expand!(IQ3_S, |block, chunk| {
    let low = _mm_loadl_epi64(block.qs[8 * chunk..8 * chunk + 8].as_ptr().cast());
    let bits = _mm256_set1_epi32(i32::from(block.qh[chunk]));
    let high = _mm256_sllv_epi32(bits, _mm256_set_epi32(1, 2, 3, 4, 5, 6, 7, 8));
    let high = _mm256_and_si256(high, _mm256_set1_epi32(0x100));
    let index = _mm256_or_si256(_mm256_cvtepu8_epi32(low), high);
    let signs = u32::from_le_bytes(block.signs.as_chunks::<4>().0[chunk]);
    with_signs(gather_rows(IQ3S_GRID, index), signs)
});

expand!(IQ3_XXS, |block, chunk| {
    let low = _mm_loadl_epi64(block.qs[8 * chunk..8 * chunk + 8].as_ptr().cast());
    let signs = with_parity(spread_7(block.signs_scales[chunk].get()));
    with_signs(gather_rows(IQ3XXS_GRID, _mm256_cvtepu8_epi32(low)), signs)
});

expand!(IQ2_XXS, |block, chunk| {
    let group = &block.groups[chunk];
    let rows = group.index.map(|i| IQ2XXS_GRID[usize::from(i)]);
    with_signs(grid_rows(rows), with_parity(spread_7(group.signs_scale.get())))
});

expand!(IQ2_XS, |block, chunk| {
    let codes = [0, 1, 2, 3].map(|l| block.qs[4 * chunk + l].get());
    let rows = codes.map(|q| IQ2XS_GRID[usize::from(q & 511)]);
    let fields = u32::from_le_bytes(codes.map(|q| (q >> 9) as u8));
    with_signs(grid_rows(rows), with_parity(fields))
});

expand!(IQ2_S, |block, chunk| {
    let high = usize::from(block.qh[chunk]);
    let index = |l: usize| usize::from(block.qs[4 * chunk + l]) | (high << (8 - 2 * l) & 0x300);
    let rows = [0, 1, 2, 3].map(|l| IQ2S_GRID[index(l)]);
    with_signs(grid_rows(rows), u32::from_le_bytes(block.signs.as_chunks::<4>().0[chunk]))
});
