//! One value as a vector, for the columns that fill no vector.

use super::lanes::Lanes;

/// A single value.
#[derive(Debug)]
pub(crate) struct Single;

impl Lanes for Single {
    type V = f32;
    const WIDTH: usize = 1;
    const ROWS: usize = 1;

    #[inline(always)]
    unsafe fn splat(x: f32) -> f32 {
        x
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> f32 {
        // SAFETY: the caller promises a readable value; the read is unaligned.
        unsafe { p.read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self::V {
        // SAFETY: the caller promises a readable value.
        quant::Half::from_bits(unsafe { p.read_unaligned() }).to_f32()
    }

    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self::V {
        // SAFETY: the caller promises a readable value.
        f32::from_bits(u32::from(unsafe { p.read_unaligned() }) << 16)
    }

    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> f32 {
        // SAFETY: the caller promises a readable value.
        f32::from(unsafe { *p })
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, v: f32) {
        // SAFETY: the caller promises a writable value.
        unsafe { *p = v }
    }

    #[inline(always)]
    unsafe fn add(a: f32, b: f32) -> f32 {
        a + b
    }

    #[inline(always)]
    unsafe fn mul(a: f32, b: f32) -> f32 {
        a * b
    }

    #[inline(always)]
    unsafe fn fma(a: f32, b: f32, c: f32) -> f32 {
        // Not fused: without the instruction a fused operation is a slow library call.
        a * b + c
    }

    #[inline(always)]
    unsafe fn sum(v: f32) -> f32 {
        v
    }
}
