//! Cosines and sines of every position, on the device.
//!
//! They are made on the host, in f64, as for every other backend: a device's own sine of a large
//! angle is not exact. All layers of a shape share one table, which grows with the longest
//! sequence.

use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use kernels::QsaShape;
use kernels::rope::{Rope, RopeScaling, RopeShape};
use std::sync::Arc;

/// Positions that are added at a time.
const STEP: usize = 1024;

/// What a table is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AnglesKey {
    dims: usize,
    /// Rotated features of index heads, where they are not as many.
    index_dims: Option<usize>,
    base: u32,
    /// Bits of the factor, and the original context.
    scaling: Option<(u32, usize)>,
}

/// A table: for each position the pairs of a head, then those of an index head where they differ.
#[derive(Debug)]
pub(crate) struct Angles {
    buffer: Arc<GpuBuffer>,
    /// Positions that are filled in.
    filled: usize,
}

/// A table as kernels see it.
#[derive(Clone, Debug)]
pub(crate) struct AnglesView {
    pub(crate) buffer: Arc<GpuBuffer>,
    /// Pairs of a position.
    pub(crate) stride: u32,
    /// The first pair of an index head.
    pub(crate) index_first: u32,
}

impl AnglesKey {
    fn new(shape: &QsaShape) -> Self {
        let RopeShape { dims, base, scaling } = shape.rope();
        let index_dims = shape.index_rope().dims;
        let scaling = match scaling {
            RopeScaling::None => None,
            RopeScaling::Yarn { factor, original_context } => {
                Some((factor.to_bits(), original_context))
            }
        };
        let index_dims = (shape.block > 0 && index_dims != dims).then_some(index_dims);
        Self { dims, index_dims, base: base.to_bits(), scaling }
    }

    fn stride(&self) -> usize {
        self.dims / 2 + self.index_dims.unwrap_or(0) / 2
    }
}

impl Gpu {
    /// The angles of the positions below `len`; `None` if memory is short, which is kept as a
    /// fault. What was recorded may be submitted.
    pub(crate) fn angles(&mut self, shape: &QsaShape, len: usize) -> Option<AnglesView> {
        let key = AnglesKey::new(shape);
        let stride = key.stride();
        let index_first = key.index_dims.map_or(0, |_| key.dims / 2);
        let view = |buffer: &Arc<GpuBuffer>| AnglesView {
            buffer: buffer.clone(),
            stride: stride as u32,
            index_first: index_first as u32,
        };
        let filled = self.angles.get(&key).map_or(0, |table| table.filled);
        if filled >= len
            && let Some(table) = self.angles.get(&key)
        {
            return Some(view(&table.buffer));
        }
        let until = len.next_multiple_of(STEP);
        let old = self.angles.get(&key).map(|table| table.buffer.clone());
        let buffer = match old {
            Some(buffer) if buffer.len() >= until * 2 * stride => buffer,
            old => {
                let capacity = until.max(filled + filled / 2);
                let made = Arc::new(self.kept_alloc(capacity * 2 * stride, "angles")?);
                if let Some(old) = old {
                    self.recorder.copy((&old, 0), (&made, 0), filled * 2 * stride);
                }
                made
            }
        };
        let words = words(shape, &key, filled..until);
        self.recorder.upload(&words, &buffer, filled * 2 * stride);
        let shown = view(&buffer);
        self.angles.insert(key, Angles { buffer, filled: until });
        Some(shown)
    }
}

fn words(shape: &QsaShape, key: &AnglesKey, positions: std::ops::Range<usize>) -> Vec<u32> {
    let rope = Rope::new(shape.rope());
    let index_rope = key.index_dims.map(|_| Rope::new(shape.index_rope()));
    let mut pairs = Vec::with_capacity(positions.len() * key.stride());
    for pos in positions {
        rope.angles(pos, &mut pairs);
        if let Some(rope) = &index_rope {
            rope.angles(pos, &mut pairs);
        }
    }
    pairs.iter().flat_map(|(cos, sin)| [cos.to_bits(), sin.to_bits()]).collect()
}
