//! Caches on their way to the host and back: what a prompt cache keeps.

use super::QsaState;
use super::layout::Layout;
use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use kernels::Error;
use kernels::host::KvSlot;
use std::ops::Range;

/// An error unless `found` values are as many as the state has.
fn check(what: &'static str, found: usize, want: usize) -> Result<(), Error> {
    if found == want { Ok(()) } else { Err(Error::StateSize { what, want, found }) }
}

/// Pooled keys of the blocks whose last token is in `rows`.
fn blocks_in(layout: &Layout, rows: &Range<usize>) -> Range<usize> {
    let before = |end: usize| end.checked_div(layout.block as usize).unwrap_or(0);
    before(rows.start)..before(rows.end)
}

/// Rows of `width` values, each behind `stride - width` that are left out.
fn unpadded(words: &[u32], stride: usize, width: usize) -> Vec<f32> {
    let rows = words.chunks_exact(stride.max(1));
    rows.flat_map(|row| row[..width].iter().map(|&word| f32::from_bits(word))).collect()
}

/// Rows of `width` values as words, with zeros up to `stride`.
fn padded(values: &[f32], stride: usize, width: usize) -> Vec<u32> {
    let mut words = Vec::with_capacity(values.len() / width.max(1) * stride);
    for row in values.chunks_exact(width.max(1)) {
        words.extend(row.iter().map(|x| x.to_bits()));
        words.resize(words.len() + stride - width, 0);
    }
    words
}

impl Gpu {
    /// Some rows of a slot, decoded; empty where the device failed, which is kept as a fault.
    pub(super) fn export_rows(
        &mut self,
        state: &QsaState,
        slot: usize,
        rows: Range<usize>,
    ) -> KvSlot {
        let (layout, place) = (&state.layout, state.slot(slot));
        assert!(rows.start <= rows.end && rows.end <= place.len, "rows {rows:?} of {}", place.len);
        let Some(buffers) = &state.buffers else { return KvSlot::default() };
        let mut words = |buffer: &GpuBuffer, first: usize, rows: Range<usize>, width: usize| {
            self.words(buffer, (first + rows.start) * width..(first + rows.end) * width)
        };
        let kv = words(&buffers.kv, place.kv_first, rows.clone(), layout.row_words());
        let (width, stride) = (layout.index as usize, layout.index_words());
        let blocks = blocks_in(layout, &rows);
        let index = words(&buffers.index, place.index_first, rows, stride);
        let pooled = words(&buffers.index, place.block_first(), blocks, stride);
        match (kv, index, pooled) {
            (Ok(kv), Ok(index), Ok(pooled)) => {
                let (k, v) = layout.decode(&kv);
                let index = unpadded(&index, stride, width);
                KvSlot { k, v, index, blocks: unpadded(&pooled, stride, width) }
            }
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                self.recorder.faults.add(error);
                KvSlot::default()
            }
        }
    }

    /// Words of a buffer.
    fn words(&mut self, buffer: &GpuBuffer, range: Range<usize>) -> Result<Vec<u32>, Error> {
        let mut words = vec![0; range.len()];
        if !range.is_empty() {
            let copy = self.recorder.allocator.storage(range.len(), "a copy of a cache")?;
            self.recorder.copy((buffer, range.start), (&copy, 0), range.len());
            self.recorder.download(&copy, &mut words)?;
        }
        Ok(words)
    }

    /// Puts `from` behind the first `at` rows of `slot`.
    pub(super) fn import_rows(
        &mut self,
        state: &mut QsaState,
        slot: usize,
        (at, from): (usize, &KvSlot),
    ) -> Result<(), Error> {
        let layout = state.layout;
        let (kv_dim, width) = (layout.kv_dim(), layout.index as usize);
        let rows = at..at.saturating_add(from.k.len() / kv_dim);
        let blocks = blocks_in(&layout, &rows);
        check("keys", from.k.len(), rows.len() * kv_dim)?;
        check("values", from.v.len(), rows.len() * kv_dim)?;
        check("index keys", from.index.len(), rows.len() * width)?;
        check("pooled index keys", from.blocks.len(), blocks.len() * width)?;
        check("rows before those that come in", state.slot(slot).len.min(at), at)?;
        check("rows that fit", rows.end.min(state.context()), rows.end)?;
        state.reserve(&mut self.recorder, slot, rows.end)?;
        state.set_len(slot, rows.end);
        let Some(buffers) = &state.buffers else { return Ok(()) };
        let place = state.slot(slot);
        let mut put = |buffer: &GpuBuffer, row: usize, stride: usize, words: &[u32]| {
            if !words.is_empty() {
                self.recorder.upload(words, buffer, row * stride);
            }
        };
        let kv = layout.encode(&from.k, &from.v);
        put(&buffers.kv, place.kv_first + at, layout.row_words(), &kv);
        let stride = layout.index_words();
        let index = padded(&from.index, stride, width);
        put(&buffers.index, place.index_first + at, stride, &index);
        let pooled = padded(&from.blocks, stride, width);
        put(&buffers.index, place.block_first() + blocks.start, stride, &pooled);
        Ok(())
    }
}
