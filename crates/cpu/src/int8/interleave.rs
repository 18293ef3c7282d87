//! Weights in the order in which panels are decoded: a second copy in memory, made at load.
//!
//! In a file a weight row lies as a whole, so that a panel of 16 rows reads 16 places of memory in
//! turn and transposes what it reads. Here the same bytes lie panel after panel, in each block after
//! block, and in a block piece after piece, each of all rows: one stream, from which vectors are
//! loaded as they are.

use super::Product;

/// What a block is taken apart into: words of four bytes and, before or behind them, what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// Where the words begin.
    words_at: usize,
    words: usize,
    /// Where the rest lies, and its bytes.
    rest: (usize, usize),
}

impl Pieces {
    /// Blocks of so many bytes that end with words.
    pub(crate) const fn before_words(bytes: usize) -> Self {
        let rest = bytes % 4;
        Self { words_at: rest, words: bytes / 4, rest: (0, rest) }
    }

    /// Blocks of so many bytes that begin with words.
    pub(crate) const fn behind_words(bytes: usize) -> Self {
        let rest = bytes % 4;
        Self { words_at: 0, words: bytes / 4, rest: (bytes - rest, rest) }
    }

    const fn bytes(&self) -> usize {
        4 * self.words + self.rest.1
    }

    /// Arranges block `block` of all rows, which begin at the multiples of `row_bytes`; `to` has
    /// room for the block of `rows` rows. Rows that are missing repeat the last.
    fn arrange(&self, from: &[u8], row_bytes: usize, block: usize, rows: usize, to: &mut [u8]) {
        let (rest_at, rest) = self.rest;
        let last = from.len() / row_bytes - 1;
        for r in 0..rows {
            let start = r.min(last) * row_bytes + block * self.bytes();
            let own = &from[start..start + self.bytes()];
            let words = own[self.words_at..].as_chunks::<4>().0;
            let places = to[rows * self.words_at..].as_chunks_mut::<4>().0;
            for (word, place) in words.iter().zip(places[r..].iter_mut().step_by(rows)) {
                *place = *word;
            }
            to[rows * rest_at + r * rest..][..rest].copy_from_slice(&own[rest_at..][..rest]);
        }
    }
}

impl Product {
    /// Whether weights of this format can be interleaved.
    pub(crate) fn interleaves(&self) -> bool {
        self.pieces.is_some()
    }

    /// Arranges the rows of one panel, at most [`Product::panel_rows`], each of `row_bytes` bytes;
    /// `to` has room for a whole panel.
    ///
    /// # Panics
    /// If this format is not interleaved or there is no row.
    pub(crate) fn interleave(&self, from: &[u8], row_bytes: usize, to: &mut [u8]) {
        let pieces = self.pieces.expect("asked before");
        let rows = self.panel_rows();
        for (block, to) in to.chunks_exact_mut(rows * pieces.bytes()).enumerate() {
            pieces.arrange(from, row_bytes, block, rows, to);
        }
    }
}
