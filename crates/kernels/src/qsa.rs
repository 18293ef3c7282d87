//! Family `qsa`: attention over the blocks of the cache that an indexer selects.

use crate::host::KvSlot;
use crate::rope::{RopeScaling, RopeShape};
use crate::{Device, Error, Window};
use std::ops::Range;

/// Sizes of a sparse attention layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QsaShape {
    /// Query heads.
    pub heads: usize,
    /// Key/value heads; query head h uses `h / (heads / kv_heads)`.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Leading features of a head that are rotated.
    pub rope_dims: usize,
    /// Base of the rotation frequencies.
    pub rope_base: f32,
    /// How positions beyond the model's own context are reached, by index heads too.
    pub rope_scaling: RopeScaling,
    /// Query heads of the indexer.
    pub index_heads: usize,
    /// Width of an index head.
    pub index_dim: usize,
    /// Tokens that the selected blocks may hold.
    pub budget: usize,
    /// Tokens per block; 0 means dense attention over everything, without an indexer.
    pub block: usize,
    /// Epsilon of the norms.
    pub eps: f32,
}

impl QsaShape {
    /// Width of all query heads together.
    pub fn query_dim(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of all key heads together.
    pub fn kv_dim(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Blocks that a row may select.
    pub fn max_blocks(&self) -> usize {
        self.budget.checked_div(self.block).unwrap_or(0)
    }

    /// Rotation of a head.
    pub fn rope(&self) -> RopeShape {
        RopeShape { dims: self.rope_dims, base: self.rope_base, scaling: self.rope_scaling }
    }

    /// Rotation of an index head.
    pub fn index_rope(&self) -> RopeShape {
        RopeShape { dims: self.rope_dims.min(self.index_dim), ..self.rope() }
    }
}

/// Selection and attention over the cache.
///
/// The calls of one layer come in this order: `qsa_append`, `qsa_select`, `qsa_attend`.
pub trait Qsa: Device {
    /// Appends the window's keys and values, in place of any that the cache holds from a run's
    /// first position on, and closes the blocks that become complete.
    ///
    /// ```text
    /// key_g = rope(RMS(k)_g * k_norm, p)         stored rotated, with v_g
    /// r     = index key, stored as it comes
    /// K_b   = rope(RMS(mean of r over block b) * index_k_norm, first position of b)
    /// ```
    ///
    /// Keys and values are stored in the state's [`crate::KvType`], r and K_b in f32.
    fn qsa_append(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        keys: QsaKeys<'_, Self::Buffer, Self::Vector>,
        state: &mut Self::QsaState,
    );

    /// For the row at position p with `n = (p+1) / block` complete blocks: the `max_blocks` blocks
    /// of the largest score, and always the tail after them. Equal scores go to the lower block.
    /// Where a choice is due and a score is NaN, the row gets no positions: a damaged indexer must
    /// show.
    ///
    /// ```text
    /// x_h = rope(RMS(index query)_h * index_q_norm, p)
    /// s_b = sum over h of max(0, x_h . K_b) / sqrt(index_dim)
    /// ```
    ///
    /// `index_q` is `[rows, index_heads * index_dim]`. A dense layer selects everything up to p.
    fn qsa_select(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        query: Option<IndexQuery<'_, Self::Buffer, Self::Vector>>,
        state: &Self::QsaState,
        selection: &mut Self::Selection,
    );

    /// Attends the selected positions, lowest first, and applies the output gate. Keys and values
    /// are those that are stored, also of the window's own rows.
    ///
    /// ```text
    /// q_h = rope(RMS(query_h) * q_norm, p)
    /// o_h = softmax(q_h . key / sqrt(head_dim)) value * sigma(gate_h)
    /// ```
    ///
    /// `q` is `[rows, heads * 2 * head_dim]`: per head the query, then the gate. `o` is
    /// `[rows, query_dim]`, NaN in a row without positions.
    fn qsa_attend(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        query: AttendQuery<'_, Self::Buffer, Self::Vector, Self::Selection>,
        state: &Self::QsaState,
        o: &mut Self::Buffer,
    );

    /// The blocks that each row of `selection` chose, in rising order; empty rows for a dense
    /// layer.
    fn selected_blocks(&mut self, selection: &Self::Selection) -> Vec<Vec<u32>>;

    /// A copy of one slot's cache, decoded to f32; it may hold rows behind the end of the sequence, which the next
    /// window drops.
    fn export_qsa(&mut self, state: &Self::QsaState, slot: usize) -> KvSlot;

    /// A copy of the rows `rows` of one slot's cache, as they are stored: keys, values, raw index
    /// keys, and the pooled keys of the blocks whose last token is among the rows. So a cache is cut
    /// anywhere, and its pieces in order are the cache.
    ///
    /// # Panics
    /// If the cache holds fewer rows.
    fn export_qsa_rows(
        &mut self,
        shape: &QsaShape,
        state: &Self::QsaState,
        slot: usize,
        rows: Range<usize>,
    ) -> KvSlot;

    /// Puts a piece `from` of a cache, which begins at row `at`, behind the first `at` rows of
    /// `slot`, in place of any that it holds from there on.
    ///
    /// # Errors
    /// [`Error::StateSize`] if the piece belongs to another shape or place, the slot holds fewer
    /// than `at` rows, or the context is exceeded; a lack of memory. The cache is as it was then.
    fn import_qsa_rows(
        &mut self,
        shape: &QsaShape,
        state: &mut Self::QsaState,
        slot: usize,
        piece: (usize, &KvSlot),
    ) -> Result<(), Error>;
}

/// What [`Qsa::qsa_append`] stores.
#[derive(Debug)]
pub struct QsaKeys<'a, B, V> {
    /// `[rows, kv_dim]`.
    pub k: &'a B,
    /// `[rows, kv_dim]`.
    pub v: &'a B,
    /// `[head_dim]`.
    pub k_norm: &'a V,
    /// Raw index keys `[rows, index_dim]` and their norm `[index_dim]`; absent in a dense layer.
    pub index: Option<(&'a B, &'a V)>,
}

/// The indexer's queries.
#[derive(Debug)]
pub struct IndexQuery<'a, B, V> {
    /// `[rows, index_heads * index_dim]`.
    pub q: &'a B,
    /// `[index_dim]`.
    pub norm: &'a V,
}

/// The attention's queries and what they may see.
#[derive(Debug)]
pub struct AttendQuery<'a, B, V, S> {
    /// `[rows, heads * 2 * head_dim]`.
    pub q: &'a B,
    /// `[head_dim]`.
    pub norm: &'a V,
    /// Positions to attend, from [`Qsa::qsa_select`] on the same window.
    pub selection: &'a S,
}
