//! Decoded weight rows, in the order in which products read them.

use super::{CHUNK, MAX_ROWS};

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

/// Where the blocks of a panel's rows are read: the same block of every row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) rows: &'a RowPointers,
    /// Bytes from the start of a row.
    pub(crate) at: usize,
}

/// Where decoded values go: one block's part of a panel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sink {
    pub(crate) codes: *mut u8,
    pub(crate) scales: *mut f32,
    pub(crate) offsets: *mut f32,
}
