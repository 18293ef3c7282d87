//! The vector type of a panel: one 32-bit lane per weight row.

use super::panel::RowPointers;

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
    /// Window rows that share a pass over a panel: as many as the registers hold sums for.
    const TILE: usize;
    /// What code bytes are xored with in a panel: 128 turns them into unsigned bytes for products
    /// of unsigned with signed bytes.
    const BIAS: u8;
    /// Integers.
    type V: Copy;
    /// f32 values.
    type F: Copy;
    /// Codes made ready for [`RowLanes::dot`].
    type W: Copy;

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

    /// Reads the codes of a quad: 4 bytes per row.
    unsafe fn codes(p: *const u8) -> Self::W;
    /// Adds the products of four codes of every row with the four values at `x`, exactly.
    unsafe fn dot(sum: Self::V, codes: Self::W, x: *const i8) -> Self::V;
    /// Adds the products of `quads` quads at `codes` with the values at each of `x`, exactly.
    #[inline(always)]
    unsafe fn dots<const T: usize>(
        sums: &mut [Self::V; T],
        quads: usize,
        codes: *const u8,
        x: [*const i8; T],
    ) {
        for quad in 0..quads {
            // SAFETY: passed on.
            unsafe {
                let codes = Self::codes(codes.add(quad * 4 * Self::ROWS));
                for t in 0..T {
                    sums[t] = Self::dot(sums[t], codes, x[t].add(4 * quad));
                }
            }
        }
    }
}
