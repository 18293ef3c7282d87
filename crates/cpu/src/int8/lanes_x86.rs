//! Panels on x86: 8 rows with AVX2 (with or without VNNI), 16 with AVX-512 VNNI.

use super::activation::{self, ActBlock};
use super::lanes::{Planes, RowLanes, in_lanes};
use super::panel::RowPointers;
use super::quantise_x86;
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// How 256-bit vectors multiply bytes.
pub(crate) trait Dot256: 'static {
    /// See [`RowLanes::BIAS`].
    const BIAS: u8;
    /// See [`RowLanes::dot`].
    unsafe fn dot(sum: __m256i, codes: __m256i, x: __m256i) -> __m256i;
}

/// Signed bytes through AVX2's product of unsigned with signed: the codes' signs move to the
/// values. Sums of two products fit 16 bits: at most 2 * 128 * 127.
#[derive(Debug)]
pub(crate) struct Madd;

impl Dot256 for Madd {
    const BIAS: u8 = 0;
    #[inline(always)]
    unsafe fn dot(sum: __m256i, codes: __m256i, x: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe {
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(x, codes));
            _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }
    }
}

/// AVX-VNNI.
#[derive(Debug)]
pub(crate) struct Vnni;

impl Dot256 for Vnni {
    const BIAS: u8 = 128;
    #[inline(always)]
    unsafe fn dot(sum: __m256i, codes: __m256i, x: __m256i) -> __m256i {
        // SAFETY: the caller has AVX-VNNI.
        unsafe { _mm256_dpbusd_avx_epi32(sum, codes, x) }
    }
}

/// Eight lanes.
#[derive(Debug)]
pub(crate) struct Avx2<D>(PhantomData<D>);

/// Sixteen lanes, with VNNI and VBMI.
#[derive(Debug)]
pub(crate) struct Avx512Vnni;

impl<D: Dot256> RowLanes for Avx2<D> {
    const ROWS: usize = 8;
    const PANELS: usize = 1;
    const BIAS: u8 = D::BIAS;
    type V = __m256i;
    type F = __m256;

    in_lanes! {
        fn splat(x: u32) -> __m256i = _mm256_set1_epi32(x as i32);
        fn columns(rows: &RowPointers, at: usize) -> [__m256i; 4] = {
            let z = [pair(rows, 0, at), pair(rows, 1, at), pair(rows, 2, at), pair(rows, 3, at)];
            let (a, b) = (_mm256_unpacklo_epi32(z[0], z[1]), _mm256_unpackhi_epi32(z[0], z[1]));
            let (c, d) = (_mm256_unpacklo_epi32(z[2], z[3]), _mm256_unpackhi_epi32(z[2], z[3]));
            [
                _mm256_unpacklo_epi64(a, c),
                _mm256_unpackhi_epi64(a, c),
                _mm256_unpacklo_epi64(b, d),
                _mm256_unpackhi_epi64(b, d),
            ]
        };
        fn and(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        fn or(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        fn xor(a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
        fn shl(a: __m256i, bits: u32) -> __m256i =
            _mm256_sllv_epi32(a, _mm256_set1_epi32(bits as i32));
        fn shr(a: __m256i, bits: u32) -> __m256i =
            _mm256_srlv_epi32(a, _mm256_set1_epi32(bits as i32));
        fn add32(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi32(a, b);
        fn add8(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi8(a, b);
        fn sub8(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi8(a, b);
        fn look_up(table: &[u8; 16], bytes: __m256i) -> __m256i = {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            _mm256_shuffle_epi8(table, bytes)
        };
        fn masks(bits: __m256i) -> __m256i = {
            // The low byte of each lane in all four of its bytes.
            let spread = _mm256_set_epi64x(
                0x0c0c_0c0c_0808_0808,
                0x0404_0404_0000_0000,
                0x0c0c_0c0c_0808_0808,
                0x0404_0404_0000_0000,
            );
            let select = _mm256_set1_epi32(0x0804_0201);
            let bits = _mm256_and_si256(_mm256_shuffle_epi8(bits, spread), select);
            _mm256_cmpeq_epi8(bits, select)
        };
        fn gather(table: &[u32], index: __m256i) -> __m256i =
            _mm256_i32gather_epi32::<4>(table.as_ptr().cast(), index);
        fn load(p: *const u8) -> __m256i = _mm256_loadu_si256(p.cast());
        fn load_halves(p: *const u8) -> __m256 = _mm256_cvtph_ps(_mm_loadu_si128(p.cast()));
        fn load_bytes(p: *const u8) -> __m256i = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()));
        fn store(p: *mut u8, v: __m256i) -> () = _mm256_storeu_si256(p.cast(), v);
        fn to_f32(v: __m256i) -> __m256 = _mm256_cvtepi32_ps(v);
        fn from_bits(v: __m256i) -> __m256 = _mm256_castsi256_ps(v);
        fn half(v: __m256i) -> __m256 = {
            let v = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
            let v = _mm256_packus_epi32(v, v);
            _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(v)))
        };
        fn splat_f32(x: f32) -> __m256 = _mm256_set1_ps(x);
        fn load_f32(p: *const f32) -> __m256 = _mm256_loadu_ps(p);
        fn store_f32(p: *mut f32, v: __m256) -> () = _mm256_storeu_ps(p, v);
        fn add_f32(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        fn mul_f32(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        fn fma(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        fn values(x: *const i8) -> __m256i = _mm256_set1_epi32(x.cast::<i32>().read_unaligned());
        fn dot(sum: __m256i, codes: __m256i, values: __m256i) -> __m256i =
            D::dot(sum, codes, values);
    }
}

/// 16 bytes of row `r` and of row `r + 4`.
///
/// # Safety
/// AVX2; both rows must have 16 bytes from `at`.
#[inline(always)]
unsafe fn pair(rows: &RowPointers, r: usize, at: usize) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let low = _mm_loadu_si128(rows.row(r).add(at).cast());
        let high = _mm_loadu_si128(rows.row(r + 4).add(at).cast());
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
    }
}

/// 16 bytes of rows `r`, `r + 4`, `r + 8` and `r + 12`.
///
/// # Safety
/// AVX-512; the rows must have 16 bytes from `at`.
#[inline(always)]
unsafe fn four(rows: &RowPointers, r: usize, at: usize) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let v = _mm512_castsi128_si512(_mm_loadu_si128(rows.row(r).add(at).cast()));
        let v = _mm512_inserti32x4::<1>(v, _mm_loadu_si128(rows.row(r + 4).add(at).cast()));
        let v = _mm512_inserti32x4::<2>(v, _mm_loadu_si128(rows.row(r + 8).add(at).cast()));
        _mm512_inserti32x4::<3>(v, _mm_loadu_si128(rows.row(r + 12).add(at).cast()))
    }
}

/// The lanes of [`Avx512Vnni::masks`] for each value of four bits.
static MASKS: [u32; 16] = masks();

const fn masks() -> [u32; 16] {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        let mut j = 0;
        while j < 4 {
            table[i] |= if i >> j & 1 == 1 { 0xff << (8 * j) } else { 0 };
            j += 1;
        }
        i += 1;
    }
    table
}

impl RowLanes for Avx512Vnni {
    const ROWS: usize = 16;
    const PANELS: usize = 2;
    const BIAS: u8 = 128;
    const PLANES: bool = true;
    type V = __m512i;
    type F = __m512;

    in_lanes! {
        fn splat(x: u32) -> __m512i = _mm512_set1_epi32(x as i32);
        fn columns(rows: &RowPointers, at: usize) -> [__m512i; 4] = {
            let z = [four(rows, 0, at), four(rows, 1, at), four(rows, 2, at), four(rows, 3, at)];
            let (a, b) = (_mm512_unpacklo_epi32(z[0], z[1]), _mm512_unpackhi_epi32(z[0], z[1]));
            let (c, d) = (_mm512_unpacklo_epi32(z[2], z[3]), _mm512_unpackhi_epi32(z[2], z[3]));
            [
                _mm512_unpacklo_epi64(a, c),
                _mm512_unpackhi_epi64(a, c),
                _mm512_unpacklo_epi64(b, d),
                _mm512_unpackhi_epi64(b, d),
            ]
        };
        fn and(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        fn or(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        fn xor(a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
        fn shl(a: __m512i, bits: u32) -> __m512i =
            _mm512_sllv_epi32(a, _mm512_set1_epi32(bits as i32));
        fn shr(a: __m512i, bits: u32) -> __m512i =
            _mm512_srlv_epi32(a, _mm512_set1_epi32(bits as i32));
        fn add32(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
        fn add8(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi8(a, b);
        fn sub8(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi8(a, b);
        fn look_up(table: &[u8; 16], bytes: __m512i) -> __m512i = {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            _mm512_shuffle_epi8(table, bytes)
        };
        fn masks(bits: __m512i) -> __m512i =
            _mm512_permutexvar_epi32(bits, _mm512_loadu_si512(MASKS.as_ptr().cast()));
        fn gather(table: &[u32], index: __m512i) -> __m512i =
            _mm512_i32gather_epi32::<4>(index, table.as_ptr().cast());
        fn load(p: *const u8) -> __m512i = _mm512_loadu_si512(p.cast());
        fn load_halves(p: *const u8) -> __m512 = _mm512_cvtph_ps(_mm256_loadu_si256(p.cast()));
        fn load_bytes(p: *const u8) -> __m512i = _mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()));
        fn store(p: *mut u8, v: __m512i) -> () = _mm512_storeu_si512(p.cast(), v);
        fn to_f32(v: __m512i) -> __m512 = _mm512_cvtepi32_ps(v);
        fn from_bits(v: __m512i) -> __m512 = _mm512_castsi512_ps(v);
        fn half(v: __m512i) -> __m512 = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
        fn splat_f32(x: f32) -> __m512 = _mm512_set1_ps(x);
        fn load_f32(p: *const f32) -> __m512 = _mm512_loadu_ps(p);
        fn store_f32(p: *mut f32, v: __m512) -> () = _mm512_storeu_ps(p, v);
        fn add_f32(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        fn mul_f32(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        fn fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        fn values(x: *const i8) -> __m512i = _mm512_set1_epi32(x.cast::<i32>().read_unaligned());
        fn dot(sum: __m512i, codes: __m512i, values: __m512i) -> __m512i =
            _mm512_dpbusd_epi32(sum, codes, values);
    }

    #[inline(always)]
    unsafe fn quantise(x: &[f32], block: &mut ActBlock) {
        match x.as_array() {
            // SAFETY: the trait's contract.
            Some(x) => unsafe { quantise_x86::quantise(x, block) },
            None => activation::quantise(x, block),
        }
    }

    #[inline(always)]
    unsafe fn fields_2(v: __m512i, at: u32) -> __m512i {
        // SAFETY: the trait's contract.
        unsafe {
            let fields = _mm512_multishift_epi64_epi8(bit_offsets([0, 2, 4, 6], at), v);
            _mm512_and_si512(fields, _mm512_set1_epi8(3))
        }
    }

    #[inline(always)]
    unsafe fn signed_2(
        table: &[u8; 16],
        (v, at): (__m512i, u32),
        (signs, sign): (__m512i, u32),
    ) -> __m512i {
        // SAFETY: the trait's contract.
        unsafe {
            let fields = _mm512_multishift_epi64_epi8(bit_offsets([0, 2, 4, 6], at), v);
            // Each byte's sign at its bit 2.
            let signs = _mm512_multishift_epi64_epi8(bit_offsets([62, 63, 64, 65], sign), signs);
            let index = select(_mm512_set1_epi8(3), fields, signs);
            Self::look_up(table, _mm512_and_si512(index, _mm512_set1_epi8(7)))
        }
    }

    #[inline(always)]
    unsafe fn signed_3(
        table: &[u8; 16],
        ([a, b], at): ([__m512i; 2], u32),
        (signs, sign): (__m512i, u32),
    ) -> __m512i {
        /// Bytes 2 and 3 of every lane.
        const UPPER: u64 = 0xcccc_cccc_cccc_cccc;
        // SAFETY: the trait's contract.
        unsafe {
            let offsets = bit_offsets([0, 3, 0, 3], at);
            let fields = _mm512_multishift_epi64_epi8(offsets, a);
            let fields = _mm512_mask_multishift_epi64_epi8(fields, UPPER, offsets, b);
            // Each byte's sign at its bit 3.
            let signs = _mm512_multishift_epi64_epi8(bit_offsets([61, 62, 63, 64], sign), signs);
            let index = select(_mm512_set1_epi8(7), fields, signs);
            Self::look_up(table, _mm512_and_si512(index, _mm512_set1_epi8(15)))
        }
    }

    #[inline(always)]
    unsafe fn planes<const N: usize>(
        table: &Planes<N>,
        low: __m512i,
        high: __m512i,
    ) -> [__m512i; 2] {
        const { assert!(N == 256 || N == 512 || N == 1024) }
        // SAFETY: the trait's contract; a plane is N / 256 quarters of 256 bytes.
        unsafe {
            let bit = [
                _mm512_test_epi8_mask(low, _mm512_set1_epi8(0x40)),
                _mm512_test_epi8_mask(low, _mm512_set1_epi8(i8::MIN)),
                _mm512_test_epi8_mask(high, _mm512_set1_epi8(1)),
                _mm512_test_epi8_mask(high, _mm512_set1_epi8(2)),
            ];
            let mut out = [low; 2];
            for (out, plane) in out.iter_mut().zip(&table.0) {
                let p = opaque(plane.as_ptr());
                *out = look_up_256(p, low, bit[0], bit[1]);
                if N >= 512 {
                    let upper = look_up_256(p.add(256), low, bit[0], bit[1]);
                    *out = _mm512_mask_blend_epi8(bit[2], *out, upper);
                }
                if N == 1024 {
                    let a = look_up_256(p.add(512), low, bit[0], bit[1]);
                    let b = look_up_256(p.add(768), low, bit[0], bit[1]);
                    let upper = _mm512_mask_blend_epi8(bit[2], a, b);
                    *out = _mm512_mask_blend_epi8(bit[3], *out, upper);
                }
            }
            out
        }
    }
}

/// Where the bytes of a lane begin for a multishift, which works on pairs of lanes.
///
/// # Safety
/// AVX-512.
#[inline(always)]
unsafe fn bit_offsets(offsets: [u32; 4], at: u32) -> __m512i {
    let [a, b, c, d] = offsets.map(|offset| u64::from((offset + at) & 63));
    let lane = a | b << 8 | c << 16 | d << 24;
    // The upper lane begins 32 bits further; offsets count modulo 64.
    let [a, b, c, d] = offsets.map(|offset| u64::from((offset + at + 32) & 63));
    let upper = a | b << 8 | c << 16 | d << 24;
    // SAFETY: the caller's promise.
    unsafe { _mm512_set1_epi64((lane | upper << 32) as i64) }
}

/// Bits of `a` where `mask` is set, of `b` elsewhere.
///
/// # Safety
/// AVX-512.
#[inline(always)]
unsafe fn select(mask: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_ternarylogic_epi64::<0xca>(mask, a, b) }
}

/// The same address, which the compiler no longer knows: what is read there stays where it is used,
/// in place of registers that are needed for other things.
#[inline(always)]
#[expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written")]
fn opaque(p: *const u8) -> *const u8 {
    let mut p = p;
    // SAFETY: no instruction at all.
    unsafe { std::arch::asm!("/* {0} */", inout(reg) p, options(nomem, nostack, preserves_flags)) };
    p
}

/// 256 bytes at `table` at every byte of `index`, whose bits 6 and 7 the masks hold.
///
/// # Safety
/// AVX-512 VBMI; `table` must have 256 bytes.
#[inline(always)]
unsafe fn look_up_256(table: *const u8, index: __m512i, bit6: u64, bit7: u64) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let part = [0, 64, 128, 192];
        let t = [
            _mm512_loadu_si512(table.add(part[0]).cast()),
            _mm512_loadu_si512(table.add(part[1]).cast()),
            _mm512_loadu_si512(table.add(part[2]).cast()),
            _mm512_loadu_si512(table.add(part[3]).cast()),
        ];
        let low = _mm512_permutexvar_epi8(index, t[0]);
        let low = _mm512_mask_permutexvar_epi8(low, bit6, index, t[1]);
        let high = _mm512_permutexvar_epi8(index, t[2]);
        let high = _mm512_mask_permutexvar_epi8(high, bit6, index, t[3]);
        _mm512_mask_blend_epi8(bit7, low, high)
    }
}
