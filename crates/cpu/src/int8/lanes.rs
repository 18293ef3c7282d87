//! The vector type of a panel: one 32-bit lane per weight row.

use super::MAX_ROWS;
use super::activation::{self, ActBlock};
use super::panel::RowPointers;

/// A table of two bytes per entry, the first bytes together and the second bytes together.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Planes<const N: usize>(pub(crate) [[u8; N]; 2]);

/// A vector with one lane per weight row, and what decoding and multiplying panels needs of it.
///
/// A lane is a number of 32 bits or four bytes, lowest first: four values of a weight row, or four
/// bytes of its encoding.
///
/// # Safety
/// The methods may only run where the instruction set is enabled. Pointers must be valid for what a
/// method says it reads or writes; they need no alignment.
pub(crate) trait RowLanes: 'static {
    /// Lanes: weight rows of a panel.
    const ROWS: usize;
    /// Panels that share a pass over activations, 1 or 2.
    const PANELS: usize;
    /// What code bytes are xored with in a panel: 128 turns them into unsigned bytes for products
    /// of unsigned with signed bytes.
    const BIAS: u8;
    /// Whether [`RowLanes::planes`] beats [`RowLanes::gather`].
    const PLANES: bool = false;
    /// Integers.
    type V: Copy;
    /// f32 values.
    type F: Copy;

    unsafe fn splat(x: u32) -> Self::V;
    /// Four consecutive lanes' worth of each row, 16 bytes from `at`: vector j holds bytes
    /// `4 * j ..` of every row.
    unsafe fn columns(rows: &RowPointers, at: usize) -> [Self::V; 4];
    unsafe fn and(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn or(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn xor(a: Self::V, b: Self::V) -> Self::V;
    /// Lanes shifted left, zeros come in.
    unsafe fn shl(a: Self::V, bits: u32) -> Self::V;
    /// Lanes shifted right, zeros come in.
    unsafe fn shr(a: Self::V, bits: u32) -> Self::V;
    unsafe fn add32(a: Self::V, b: Self::V) -> Self::V;
    /// Bytes added, wrapping.
    unsafe fn add8(a: Self::V, b: Self::V) -> Self::V;
    /// Bytes subtracted, wrapping.
    unsafe fn sub8(a: Self::V, b: Self::V) -> Self::V;
    /// `table` at every byte, which must be below 16.
    unsafe fn look_up(table: &[u8; 16], bytes: Self::V) -> Self::V;
    /// Byte j of a lane is 0xFF where bit j of the lane is set, for the lowest four bits.
    unsafe fn masks(bits: Self::V) -> Self::V;
    /// `table` at every lane, which must be below its length.
    unsafe fn gather(table: &[u32], index: Self::V) -> Self::V;
    /// Both planes of `table` at every byte of `low`, with the same byte of `high` above it: below
    /// N.
    #[inline(always)]
    unsafe fn planes<const N: usize>(
        table: &Planes<N>,
        low: Self::V,
        high: Self::V,
    ) -> [Self::V; 2] {
        let (mut lows, mut highs) = ([0u8; 4 * MAX_ROWS], [0u8; 4 * MAX_ROWS]);
        let mut out = [[0u8; 4 * MAX_ROWS]; 2];
        // SAFETY: the arrays have room for the widest vector.
        unsafe {
            Self::store(lows.as_mut_ptr(), low);
            Self::store(highs.as_mut_ptr(), high);
            for (i, (&low, &high)) in lows.iter().zip(&highs).enumerate() {
                let index = usize::from(low) | usize::from(high) << 8;
                out[0][i] = table.0[0][index];
                out[1][i] = table.0[1][index];
            }
            [Self::load(out[0].as_ptr()), Self::load(out[1].as_ptr())]
        }
    }
    /// Byte j of a lane is two bits of it, from bit `at + 2 * j`; `at` is at most 24.
    #[inline(always)]
    unsafe fn fields_2(v: Self::V, at: u32) -> Self::V {
        // SAFETY: passed on.
        unsafe {
            let v = Self::and(Self::shr(v, at), Self::splat(0xff));
            let v = Self::and(Self::or(v, Self::shl(v, 12)), Self::splat(0x000f_000f));
            Self::and(Self::or(v, Self::shl(v, 6)), Self::splat(0x0303_0303))
        }
    }
    /// `table` at four indices per lane: [`RowLanes::fields_2`] of `v` at `at`, above them bit
    /// `sign + j` of `signs`. A table of 8 entries.
    #[inline(always)]
    unsafe fn signed_2(
        table: &[u8; 16],
        (v, at): (Self::V, u32),
        (signs, sign): (Self::V, u32),
    ) -> Self::V {
        // SAFETY: passed on.
        unsafe {
            let minus = Self::and(Self::masks(Self::shr(signs, sign)), Self::splat(0x0404_0404));
            Self::look_up(table, Self::or(Self::fields_2(v, at), minus))
        }
    }
    /// The same for fields of three bits, the first two from bit `at` of `a`, the other two from
    /// bit `at` of `b`. A table of 16 entries.
    #[inline(always)]
    unsafe fn signed_3(
        table: &[u8; 16],
        ([a, b], at): ([Self::V; 2], u32),
        (signs, sign): (Self::V, u32),
    ) -> Self::V {
        // SAFETY: passed on.
        unsafe {
            let a = Self::and(Self::shr(a, at), Self::splat(0x3f));
            let b = Self::and(Self::shr(b, at), Self::splat(0x3f));
            let v = Self::or(a, Self::shl(b, 16));
            let codes = Self::and(Self::or(v, Self::shl(v, 5)), Self::splat(0x0707_0707));
            let minus = Self::and(Self::masks(Self::shr(signs, sign)), Self::splat(0x0808_0808));
            Self::look_up(table, Self::or(codes, minus))
        }
    }
    /// Reads 4 bytes per row.
    unsafe fn load(p: *const u8) -> Self::V;
    /// Reads an f16 per row.
    #[inline(always)]
    unsafe fn load_halves(p: *const u8) -> Self::F {
        let mut lanes = [0u32; MAX_ROWS];
        // SAFETY: the trait's contract; the array has room for every lane.
        unsafe {
            for (r, lane) in lanes[..Self::ROWS].iter_mut().enumerate() {
                *lane = u32::from(p.add(2 * r).cast::<u16>().read_unaligned());
            }
            Self::half(Self::load(lanes.as_ptr().cast()))
        }
    }
    /// Reads a byte per row, to the low end of its lane.
    #[inline(always)]
    unsafe fn load_bytes(p: *const u8) -> Self::V {
        let mut lanes = [0u32; MAX_ROWS];
        // SAFETY: the trait's contract; the array has room for every lane.
        unsafe {
            for (r, lane) in lanes[..Self::ROWS].iter_mut().enumerate() {
                *lane = u32::from(p.add(r).read());
            }
            Self::load(lanes.as_ptr().cast())
        }
    }
    /// Writes 4 bytes per row.
    unsafe fn store(p: *mut u8, v: Self::V);
    /// Lanes as signed integers.
    unsafe fn to_f32(v: Self::V) -> Self::F;
    /// Lanes as the bits of f32.
    unsafe fn from_bits(v: Self::V) -> Self::F;
    /// The low 16 bits of lanes as f16.
    unsafe fn half(v: Self::V) -> Self::F;

    unsafe fn splat_f32(x: f32) -> Self::F;
    unsafe fn load_f32(p: *const f32) -> Self::F;
    unsafe fn store_f32(p: *mut f32, v: Self::F);
    unsafe fn add_f32(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn mul_f32(a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, fused where the instruction set can.
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;

    /// [`activation::quantise`].
    #[inline(always)]
    unsafe fn quantise(x: &[f32], block: &mut ActBlock) {
        activation::quantise(x, block);
    }
    /// Four activations, made ready for [`RowLanes::dot`].
    unsafe fn values(x: *const i8) -> Self::V;
    /// Adds the products of four codes of every row with four activations, exactly.
    unsafe fn dot(sum: Self::V, codes: Self::V, values: Self::V) -> Self::V;
    /// Adds the products of `quads` quads at each of `codes` with the values at each of `x`,
    /// exactly.
    #[inline(always)]
    unsafe fn dots<const T: usize, const P: usize>(
        sums: &mut [[Self::V; P]; T],
        quads: usize,
        codes: [*const u8; P],
        x: [*const i8; T],
    ) {
        for quad in 0..quads {
            // SAFETY: passed on.
            unsafe {
                let mut of_panel = [Self::splat(0); P];
                for p in 0..P {
                    of_panel[p] = Self::load(codes[p].add(quad * 4 * Self::ROWS));
                }
                for t in 0..T {
                    let values = Self::values(x[t].add(4 * quad));
                    for p in 0..P {
                        sums[t][p] = Self::dot(sums[t][p], of_panel[p], values);
                    }
                }
            }
        }
    }
}

/// Methods of [`RowLanes`]: name, arguments and what they are.
macro_rules! in_lanes {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $body:expr;)+) => {$(
        #[inline(always)]
        unsafe fn $name($($arg: $ty),*) -> $out {
            // SAFETY: the trait's contract: the instruction set is enabled, pointers are valid.
            unsafe { $body }
        }
    )+};
}
pub(super) use in_lanes;
