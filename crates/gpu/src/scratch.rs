//! Buffers between the kernels of one operation, kept from call to call.

use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use crate::formats::Book;
use std::sync::Arc;

/// What a buffer is for; two uses of one operation are never the same buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scratch {
    /// Codes of activations of 8 bits, at one of some places.
    Codes(usize),
    /// Their scales and sums.
    Scales(usize),
    /// Activations whose rows are padded to whole units.
    Padded,
    /// Gate projections of the routed experts, or gate and up of a fused stack.
    Gate,
    /// Up projections.
    Up,
    /// Indices of a read-back.
    Indices,
    /// Largest logits of pieces of rows.
    Maxima,
    /// The largest logits of rows.
    Best,
    /// Products and sums of a read of the residual streams.
    HcPart,
    /// Normed streams.
    HcNormed,
    /// Low values.
    HcLow,
    /// Gates before the sigmoid.
    HcGates,
    /// Columns of the features' convolution.
    PleColumns,
    /// Gates of the features.
    PleGates,
    /// A state on its way to the host.
    Export,
    /// Rows and choices on their way to the host.
    Fetched,
    /// Pairs of experts that are on the device, where not all are.
    Order,
    /// Tiles of them.
    Tiles,
    /// Results of the host.
    FromHost,
    /// Scores of blocks.
    Scores,
    /// Sums of splits of attention.
    Sums,
}

impl Gpu {
    /// A buffer of at least `len` values, with whatever is in it; `None` if memory is short, which
    /// is kept as a fault.
    pub(crate) fn scratch(&mut self, what: Scratch, len: usize) -> Option<Arc<GpuBuffer>> {
        if let Some(buffer) = self.scratch.get(&what)
            && buffer.len() >= len
        {
            return Some(buffer.clone());
        }
        let buffer = Arc::new(self.kept_alloc(len, "buffers between kernels")?);
        self.scratch.insert(what, buffer.clone());
        Some(buffer)
    }

    /// The table of a layout.
    pub(crate) fn book(&mut self, book: Book) -> Option<Arc<GpuBuffer>> {
        if let Some(buffer) = self.books.get(&book) {
            return Some(buffer.clone());
        }
        let words = book.words();
        let buffer = Arc::new(self.kept_alloc(words.len(), "codebooks")?);
        self.recorder.upload(&words, &buffer, 0);
        self.books.insert(book, buffer.clone());
        Some(buffer)
    }

    /// A buffer, or a fault that is kept.
    pub(crate) fn kept_alloc(&mut self, len: usize, what: &'static str) -> Option<GpuBuffer> {
        let made = self.recorder.allocator.storage(len, what);
        made.map_err(|error| self.recorder.faults.add(error)).ok()
    }
}
