//! Panels on 64-bit Arm: 4 rows, with or without the dot product and matrix instructions.
//!
//! The dot product and matrix intrinsics are not stable, so those instructions are written as such.
#![expect(clippy::needless_range_loop, reason = "indices run over registers of several arrays")]

use super::lanes::{RowLanes, in_lanes};
use super::panel::RowPointers;
use std::arch::aarch64::*;
use std::arch::asm;
use std::marker::PhantomData;

/// How 128-bit vectors multiply bytes.
pub(crate) trait Dot128: 'static {
    /// See [`RowLanes::dot`].
    unsafe fn dot(sum: uint32x4_t, codes: uint32x4_t, values: uint32x4_t) -> uint32x4_t;

    /// Two rows of activations at once, where the processor has an instruction for that: see
    /// [`RowLanes::dots`]. Adds nothing and says so where it has not.
    #[inline(always)]
    unsafe fn pair_dots<const P: usize>(
        _sums: [&mut [uint32x4_t; P]; 2],
        _quads: usize,
        _codes: [*const u8; P],
        _x: [*const i8; 2],
    ) -> Paired {
        Paired::No
    }
}

/// Whether [`Dot128::pair_dots`] did the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paired {
    Yes,
    No,
}

/// Products of bytes widened to 16 bits: sums of two fit, at most 2 * 128 * 127.
#[derive(Debug)]
pub(crate) struct Widening;

impl Dot128 for Widening {
    #[inline(always)]
    unsafe fn dot(sum: uint32x4_t, codes: uint32x4_t, values: uint32x4_t) -> uint32x4_t {
        // SAFETY: the caller has NEON.
        unsafe {
            let (codes, x) = (vreinterpretq_s8_u32(codes), vreinterpretq_s8_u32(values));
            let low = vmull_s8(vget_low_s8(codes), vget_low_s8(x));
            let pairs = vpaddq_s16(low, vmull_high_s8(codes, x));
            vreinterpretq_u32_s32(vpadalq_s16(vreinterpretq_s32_u32(sum), pairs))
        }
    }
}

/// The dot product instruction.
#[derive(Debug)]
pub(crate) struct DotProduct;

impl Dot128 for DotProduct {
    #[inline(always)]
    unsafe fn dot(sum: uint32x4_t, codes: uint32x4_t, values: uint32x4_t) -> uint32x4_t {
        // SAFETY: the caller has NEON with the dot product.
        unsafe {
            let mut sum = sum;
            asm!(
                ".arch_extension dotprod",
                "sdot {sum:v}.4s, {codes:v}.16b, {x:v}.16b",
                sum = inout(vreg) sum,
                codes = in(vreg) codes,
                x = in(vreg) values,
                options(pure, nomem, nostack, preserves_flags),
            );
            sum
        }
    }
}

/// The matrix instruction for two rows of activations at a time: it multiplies two weight rows with
/// both over eight values.
#[derive(Debug)]
pub(crate) struct Matrix;

impl Dot128 for Matrix {
    #[inline(always)]
    unsafe fn dot(sum: uint32x4_t, codes: uint32x4_t, values: uint32x4_t) -> uint32x4_t {
        // SAFETY: passed on; processors with the matrix instruction have the dot product.
        unsafe { DotProduct::dot(sum, codes, values) }
    }

    #[inline(always)]
    unsafe fn pair_dots<const P: usize>(
        [first, second]: [&mut [uint32x4_t; P]; 2],
        quads: usize,
        codes: [*const u8; P],
        x: [*const i8; 2],
    ) -> Paired {
        // SAFETY: passed on; `quads` is even: a group has 8 or 4.
        unsafe {
            // [r0 t0, r0 t1, r1 t0, r1 t1] and the same of rows 2 and 3.
            let mut low = [vdupq_n_u32(0); P];
            let mut high = [vdupq_n_u32(0); P];
            for quad in (0..quads).step_by(2) {
                let both = vcombine_s8(vld1_s8(x[0].add(4 * quad)), vld1_s8(x[1].add(4 * quad)));
                for p in 0..P {
                    let codes = codes[p].add(16 * quad);
                    let (a, b) = (load(codes), load(codes.add(16)));
                    low[p] = matrix_step(low[p], vzip1q_u32(a, b), both);
                    high[p] = matrix_step(high[p], vzip2q_u32(a, b), both);
                }
            }
            for p in 0..P {
                first[p] = vaddq_u32(first[p], vuzp1q_u32(low[p], high[p]));
                second[p] = vaddq_u32(second[p], vuzp2q_u32(low[p], high[p]));
            }
        }
        Paired::Yes
    }
}

/// Adds the products of two rows of eight bytes with two others, as a matrix of 2 x 2.
///
/// # Safety
/// The processor must have the matrix instruction for bytes.
#[inline(always)]
unsafe fn matrix_step(sum: uint32x4_t, codes: uint32x4_t, x: int8x16_t) -> uint32x4_t {
    let mut sum = sum;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            ".arch_extension i8mm",
            "smmla {sum:v}.4s, {codes:v}.16b, {x:v}.16b",
            sum = inout(vreg) sum,
            codes = in(vreg) codes,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// Sixteen bytes.
///
/// # Safety
/// NEON; they must lie at `p`.
#[inline(always)]
unsafe fn load(p: *const u8) -> uint32x4_t {
    // SAFETY: the caller's promise.
    unsafe { vreinterpretq_u32_u8(vld1q_u8(p)) }
}

/// Four lanes.
#[derive(Debug)]
pub(crate) struct Neon<D>(PhantomData<D>);

impl<D: Dot128> RowLanes for Neon<D> {
    const ROWS: usize = 4;
    const PANELS: usize = 2;
    const BIAS: u8 = 0;
    type V = uint32x4_t;
    type F = float32x4_t;

    in_lanes! {
        fn splat(x: u32) -> uint32x4_t = vdupq_n_u32(x);
        fn columns(rows: &RowPointers, at: usize) -> [uint32x4_t; 4] = {
            let (r0, r1) = (load(rows.row(0).add(at)), load(rows.row(1).add(at)));
            let (r2, r3) = (load(rows.row(2).add(at)), load(rows.row(3).add(at)));
            let (a, b) = (vzip1q_u32(r0, r1), vzip1q_u32(r2, r3));
            let (c, d) = (vzip2q_u32(r0, r1), vzip2q_u32(r2, r3));
            [
                vcombine_u32(vget_low_u32(a), vget_low_u32(b)),
                vcombine_u32(vget_high_u32(a), vget_high_u32(b)),
                vcombine_u32(vget_low_u32(c), vget_low_u32(d)),
                vcombine_u32(vget_high_u32(c), vget_high_u32(d)),
            ]
        };
        fn and(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = vandq_u32(a, b);
        fn or(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = vorrq_u32(a, b);
        fn xor(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = veorq_u32(a, b);
        fn shl(a: uint32x4_t, bits: u32) -> uint32x4_t = vshlq_u32(a, vdupq_n_s32(bits as i32));
        fn shr(a: uint32x4_t, bits: u32) -> uint32x4_t = vshlq_u32(a, vdupq_n_s32(-(bits as i32)));
        fn add32(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = vaddq_u32(a, b);
        fn add8(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t =
            vreinterpretq_u32_u8(vaddq_u8(vreinterpretq_u8_u32(a), vreinterpretq_u8_u32(b)));
        fn sub8(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t =
            vreinterpretq_u32_u8(vsubq_u8(vreinterpretq_u8_u32(a), vreinterpretq_u8_u32(b)));
        fn look_up(table: &[u8; 16], bytes: uint32x4_t) -> uint32x4_t =
            vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(table.as_ptr()), vreinterpretq_u8_u32(bytes)));
        fn masks(bits: uint32x4_t) -> uint32x4_t = {
            // The low byte of each lane in all four of its bytes.
            const SPREAD: [u8; 16] = [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12];
            let select = vreinterpretq_u8_u32(vdupq_n_u32(0x0804_0201));
            let bits = vqtbl1q_u8(vreinterpretq_u8_u32(bits), vld1q_u8(SPREAD.as_ptr()));
            vreinterpretq_u32_u8(vtstq_u8(bits, select))
        };
        fn gather(table: &[u32], index: uint32x4_t) -> uint32x4_t = {
            let (mut lanes, mut out) = ([0u32; 4], [0u32; 4]);
            vst1q_u32(lanes.as_mut_ptr(), index);
            for (out, &i) in out.iter_mut().zip(&lanes) {
                *out = *table.get_unchecked(i as usize);
            }
            vld1q_u32(out.as_ptr())
        };
        fn load(p: *const u8) -> uint32x4_t = load(p);
        fn store(p: *mut u8, v: uint32x4_t) -> () = vst1q_u8(p, vreinterpretq_u8_u32(v));
        fn to_f32(v: uint32x4_t) -> float32x4_t = vcvtq_f32_s32(vreinterpretq_s32_u32(v));
        fn from_bits(v: uint32x4_t) -> float32x4_t = vreinterpretq_f32_u32(v);
        fn half(v: uint32x4_t) -> float32x4_t = crate::simd::lanes::half(v);
        fn splat_f32(x: f32) -> float32x4_t = vdupq_n_f32(x);
        fn load_f32(p: *const f32) -> float32x4_t = vld1q_f32(p);
        fn store_f32(p: *mut f32, v: float32x4_t) -> () = vst1q_f32(p, v);
        fn add_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t = vaddq_f32(a, b);
        fn mul_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t = vmulq_f32(a, b);
        fn fma(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = vfmaq_f32(c, a, b);
        fn values(x: *const i8) -> uint32x4_t =
            vreinterpretq_u32_s32(vdupq_n_s32(x.cast::<i32>().read_unaligned()));
        fn dot(sum: uint32x4_t, codes: uint32x4_t, values: uint32x4_t) -> uint32x4_t =
            D::dot(sum, codes, values);
    }

    #[inline(always)]
    unsafe fn dots<const T: usize, const P: usize>(
        sums: &mut [[uint32x4_t; P]; T],
        quads: usize,
        codes: [*const u8; P],
        x: [*const i8; T],
    ) {
        // SAFETY: passed on.
        unsafe {
            let mut done = 0;
            while done + 2 <= T {
                let (a, b) = sums[done..done + 2].split_at_mut(1);
                let pair = [&mut a[0], &mut b[0]];
                if D::pair_dots(pair, quads, codes, [x[done], x[done + 1]]) == Paired::No {
                    break;
                }
                done += 2;
            }
            for quad in 0..quads {
                let mut of_panel = [Self::splat(0); P];
                for p in 0..P {
                    of_panel[p] = Self::load(codes[p].add(16 * quad));
                }
                for t in done..T {
                    let values = Self::values(x[t].add(4 * quad));
                    for p in 0..P {
                        sums[t][p] = D::dot(sums[t][p], of_panel[p], values);
                    }
                }
            }
        }
    }
}
