//! Cached keys and values as they are stored, read straight into vectors.

use super::lanes::Lanes;
use super::stored::Stored;
use kernels::KvType;
use quant::{BlockFormat, F16, F32, Q8_0};

/// Values that share a scale where there are scales; vectors divide it.
pub(super) const GROUP: usize = Q8_0::ELEMENTS;

/// How a head of a cached row is stored. Decoded values are exact, so that a result is the same as
/// over decoded rows.
///
/// # Safety
/// The instruction set must be enabled, and the head must have the values in question.
pub(super) trait KvFormat {
    /// The scale of the values from number `i` on, a multiple of the vector's width.
    unsafe fn scale<L: Lanes>(head: *const u8, i: usize) -> L::V;

    /// As many values as a vector holds, from number `i` on, with their scale.
    unsafe fn load<L: Lanes>(head: *const u8, i: usize, scale: L::V) -> L::V;
}

macro_rules! float_format {
    ($name:ident) => {
        impl KvFormat for $name {
            #[inline(always)]
            unsafe fn scale<L: Lanes>(_: *const u8, _: usize) -> L::V {
                // SAFETY: passed on. Nothing reads it.
                unsafe { L::splat(1.0) }
            }

            #[inline(always)]
            unsafe fn load<L: Lanes>(head: *const u8, i: usize, _: L::V) -> L::V {
                // SAFETY: passed on.
                unsafe { <Self as Stored>::load::<L>(head.add(i * <Self as Stored>::BYTES)) }
            }
        }
    };
}

float_format!(F32);
float_format!(F16);

impl KvFormat for Q8_0 {
    #[inline(always)]
    unsafe fn scale<L: Lanes>(head: *const u8, i: usize) -> L::V {
        // SAFETY: passed on; a block begins with its scale.
        unsafe { L::splat_f16(head.add(i / GROUP * Self::BYTES).cast()) }
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(head: *const u8, i: usize, scale: L::V) -> L::V {
        const SCALE: usize = 2;
        // SAFETY: passed on; the codes come after the scale.
        unsafe {
            let codes = head.add(i / GROUP * Self::BYTES + SCALE + i % GROUP);
            L::mul(scale, L::load_i8(codes.cast()))
        }
    }
}

/// One key/value head of some cache positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cached<'a> {
    /// A row of `row_bytes` bytes per position.
    pub(crate) rows: &'a [u8],
    pub(crate) row_bytes: usize,
    /// Where in a row the head begins.
    pub(crate) first_byte: usize,
    /// Type of the values.
    pub(crate) ty: KvType,
    /// Width of a head, a multiple of the type's block.
    pub(crate) dim: usize,
    /// The positions in question.
    pub(crate) positions: &'a [u32],
}

impl Cached<'_> {
    /// Asserts that every position has a row.
    pub(super) fn check(&self) {
        assert!(self.dim.is_multiple_of(self.ty.block()));
        let last = self.positions.iter().copied().max().unwrap_or(0) as usize;
        let head_end = self.first_byte.saturating_add(self.ty.bytes(self.dim));
        let end = last.saturating_mul(self.row_bytes).saturating_add(head_end);
        assert!(self.positions.is_empty() || end <= self.rows.len());
    }

    /// The head at position number `i` of the list.
    ///
    /// # Safety
    /// Checked, and there are more than `i` positions.
    #[inline(always)]
    pub(super) unsafe fn row(&self, i: usize) -> *const u8 {
        // SAFETY: by the caller's promise.
        unsafe {
            let position = *self.positions.get_unchecked(i) as usize;
            self.rows.as_ptr().add(position * self.row_bytes + self.first_byte)
        }
    }
}
