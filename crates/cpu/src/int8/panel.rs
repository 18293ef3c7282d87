//! Decoded weight rows, in the order in which products read them.

use super::lanes::RowLanes;
use super::{CHUNK, MAX_ROWS, fetch};

/// A few weight rows over [`CHUNK`] values.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Panel {
    /// `[quad][row][4]`: quad q holds values `4 * q ..` of every row, as signed bytes xored with
    /// the bias of the instruction set.
    pub(crate) codes: [u8; MAX_ROWS * CHUNK],
    /// `[group][row]`, for groups of 32 or 16 values.
    pub(crate) scales: [f32; MAX_ROWS * CHUNK / 16],
    /// `[group][row]`, where the format has offsets.
    pub(crate) offsets: [f32; MAX_ROWS * CHUNK / 16],
}

impl Panel {
    pub(crate) const ZERO: Self = Self {
        codes: [0; MAX_ROWS * CHUNK],
        scales: [0.0; MAX_ROWS * CHUNK / 16],
        offsets: [0.0; MAX_ROWS * CHUNK / 16],
    };
}

/// The first byte of each row of a panel; a panel with fewer rows repeats its last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowPointers {
    rows: [*const u8; MAX_ROWS],
}

impl RowPointers {
    /// Rows of `row_bytes` bytes, one after the other in `bytes`.
    ///
    /// # Panics
    /// If `bytes` holds no row.
    pub(crate) fn new(bytes: &[u8], row_bytes: usize) -> Self {
        let count = bytes.len() / row_bytes;
        assert!(count > 0, "a panel has at least one row");
        let row = |r: usize| bytes[r.min(count - 1) * row_bytes..].as_ptr();
        Self { rows: std::array::from_fn(row) }
    }

    #[inline(always)]
    pub(crate) fn row(&self, r: usize) -> *const u8 {
        self.rows[r]
    }
}

/// Where a block of each of a panel's rows is read; fields are bytes from the start of a block.
///
/// # Safety
/// The methods may only run where the instruction set of `L` is enabled, and what they read must lie
/// inside the blocks.
pub(crate) trait Blocks: Copy {
    /// 16 bytes of every row from `field`: vector j holds four of them, `field + 4 * j ..`.
    unsafe fn columns<L: RowLanes>(self, field: usize) -> [L::V; 4];
    /// The f16 at `field`, which is not the last of a block.
    unsafe fn half<L: RowLanes>(self, field: usize) -> L::F;
    /// The f16 that ends blocks of `bytes` bytes.
    unsafe fn last_half<L: RowLanes>(self, bytes: usize) -> L::F;
    /// The byte at `field`.
    unsafe fn byte<L: RowLanes>(self, field: usize) -> L::V;
    /// The whole block of row `r`, for formats whose blocks are not interleaved.
    fn row(self, r: usize) -> *const u8;
}

/// Blocks of rows that lie one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InRows<'a> {
    pub(crate) rows: &'a RowPointers,
    /// Bytes from the start of a row.
    pub(crate) at: usize,
}

impl Blocks for InRows<'_> {
    #[inline(always)]
    unsafe fn columns<L: RowLanes>(self, field: usize) -> [L::V; 4] {
        // SAFETY: the caller's promise.
        unsafe { L::columns(self.rows, self.at + field) }
    }

    #[inline(always)]
    unsafe fn half<L: RowLanes>(self, field: usize) -> L::F {
        // SAFETY: the caller's promise; blocks have 16 bytes from every field that is not the last.
        unsafe { L::half(L::columns(self.rows, self.at + field)[0]) }
    }

    #[inline(always)]
    unsafe fn last_half<L: RowLanes>(self, bytes: usize) -> L::F {
        // The upper half of the last word: nothing behind the block is read.
        // SAFETY: the caller's promise.
        unsafe { L::half(L::shr(L::columns(self.rows, self.at + bytes - 16)[3], 16)) }
    }

    #[inline(always)]
    unsafe fn byte<L: RowLanes>(self, field: usize) -> L::V {
        // SAFETY: as for `half`.
        unsafe { L::and(L::columns(self.rows, self.at + field)[0], L::splat(0xff)) }
    }

    #[inline(always)]
    fn row(self, r: usize) -> *const u8 {
        self.rows.row(r).wrapping_add(self.at)
    }
}

/// A block of every row of a panel as [`super::interleave`] arranges them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InTurn(pub(crate) *const u8);

impl Blocks for InTurn {
    #[inline(always)]
    unsafe fn columns<L: RowLanes>(self, field: usize) -> [L::V; 4] {
        // SAFETY: the caller's promise: the words of all rows at `field` lie together.
        unsafe {
            let word = |j: usize| self.0.add(L::ROWS * (field + 4 * j));
            fetch::stream(word(0), 4 * 4 * L::ROWS);
            [L::load(word(0)), L::load(word(1)), L::load(word(2)), L::load(word(3))]
        }
    }

    #[inline(always)]
    unsafe fn half<L: RowLanes>(self, field: usize) -> L::F {
        // SAFETY: as above, for halves.
        unsafe { L::load_halves(self.0.add(L::ROWS * field)) }
    }

    #[inline(always)]
    unsafe fn last_half<L: RowLanes>(self, bytes: usize) -> L::F {
        // SAFETY: passed on.
        unsafe { self.half::<L>(bytes - 2) }
    }

    #[inline(always)]
    unsafe fn byte<L: RowLanes>(self, field: usize) -> L::V {
        // SAFETY: as above, for bytes.
        unsafe { L::load_bytes(self.0.add(L::ROWS * field)) }
    }

    fn row(self, _: usize) -> *const u8 {
        unreachable!("formats that are read row by row are not interleaved")
    }
}

/// Where decoded values go: one block's part of a panel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sink {
    pub(crate) codes: *mut u8,
    pub(crate) scales: *mut f32,
    pub(crate) offsets: *mut f32,
}
