//! How a tensor of the model file is put together from tensors of the folder: rows below each
//! other, rows side by side, columns in another order, values changed.

use std::ops::Range;

use gguf::TensorType;

use crate::transform::{self, SharedFile};

/// Rows of a tensor of the folder, which is taken as rows of the column's width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Index into [`Sources::tensors`].
    pub(crate) source: usize,
    pub(crate) first: u64,
    pub(crate) rows: u64,
}

/// Segments below each other, all `width` values wide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) width: u64,
    pub(crate) segments: Vec<Segment>,
}

/// The order of value heads. The folder has those of a key head next to each other, the file has
/// the first one of every key head, then the second one, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadOrder {
    pub(crate) key_heads: u64,
    pub(crate) value_heads: u64,
}

/// What is done to each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// The folder's norms are around zero, the file's around one.
    PlusOne,
    /// The folder has the logarithm of a decay rate.
    NegExp,
}

/// A tensor of the model file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assembly {
    /// Side by side.
    pub(crate) columns: Vec<Column>,
    /// Reorders the values of a row by value heads.
    pub(crate) order: Option<HeadOrder>,
    pub(crate) change: Change,
}

/// A tensor of the folder: where it is, and the type of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceTensor {
    pub(crate) name: String,
    pub(crate) file: usize,
    pub(crate) start: u64,
    pub(crate) ty: TensorType,
}

/// The tensors of a folder that are used.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) files: Vec<SharedFile>,
    pub(crate) tensors: Vec<SourceTensor>,
}

impl HeadOrder {
    /// The place in the folder of the file's value head `j`.
    pub(crate) fn source(&self, j: u64) -> u64 {
        let each = self.value_heads / self.key_heads;
        j % self.key_heads * each + j / self.key_heads
    }
}

impl Assembly {
    /// One column, unchanged.
    pub(crate) fn of(width: u64, segments: Vec<Segment>) -> Assembly {
        let columns = vec![Column { width, segments }];
        Assembly { columns, order: None, change: Change::None }
    }

    /// Values per row.
    pub(crate) fn n_in(&self) -> u64 {
        self.columns.iter().map(|column| column.width).sum()
    }

    /// The indices of all tensors that it is made of.
    pub(crate) fn sources(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().flat_map(|column| &column.segments).map(|segment| segment.source)
    }

    /// Fills `out`, `[rows][n_in]`.
    pub(crate) fn read(
        &self,
        rows: Range<u64>,
        sources: &Sources,
        raw: &mut Vec<u8>,
        out: &mut [f32],
    ) -> Result<(), transform::Error> {
        let n_in = self.n_in() as usize;
        let mut left = 0;
        let mut decoded = Vec::new();
        for column in &self.columns {
            let width = column.width as usize;
            column.read(&rows, sources, raw, &mut decoded)?;
            let pairs = out.chunks_exact_mut(n_in).zip(decoded.chunks_exact(width));
            pairs.for_each(|(row, part)| row[left..left + width].copy_from_slice(part));
            left += width;
        }
        for row in out.chunks_exact_mut(n_in) {
            if let Some(order) = &self.order {
                reorder(row, order, &mut decoded);
            }
            self.change.apply(row);
        }
        Ok(())
    }
}

impl Column {
    /// Replaces `out` with rows of all segments in turn.
    fn read(
        &self,
        rows: &Range<u64>,
        sources: &Sources,
        raw: &mut Vec<u8>,
        out: &mut Vec<f32>,
    ) -> Result<(), transform::Error> {
        out.clear();
        let mut top = 0;
        for segment in &self.segments {
            let (from, to) = (rows.start.max(top), rows.end.min(top + segment.rows));
            if from < to {
                let first = segment.first + from - top;
                sources.read(
                    segment.source,
                    first * self.width,
                    (to - from) * self.width,
                    raw,
                    out,
                )?;
            }
            top += segment.rows;
        }
        Ok(())
    }
}

impl Sources {
    /// Appends `count` values of a tensor, from number `first` on.
    fn read(
        &self,
        tensor: usize,
        first: u64,
        count: u64,
        raw: &mut Vec<u8>,
        out: &mut Vec<f32>,
    ) -> Result<(), transform::Error> {
        let source = &self.tensors[tensor];
        let bytes = source.ty.block_bytes() as u64;
        raw.resize((count * bytes) as usize, 0);
        self.files[source.file].read_at(source.start + first * bytes, raw)?;
        let done = out.len();
        out.resize(done + count as usize, 0.0);
        quant::decode_row(source.ty, raw, &mut out[done..]).map_err(|error| transform::Error::Row {
            tensor: source.name.clone(),
            row: first,
            source: error,
        })
    }
}

/// Brings the heads of a row into the file's order; `old` is memory to use.
fn reorder(row: &mut [f32], order: &HeadOrder, old: &mut Vec<f32>) {
    let width = row.len() / order.value_heads as usize;
    old.clear();
    old.extend_from_slice(row);
    for (head, j) in row.chunks_exact_mut(width).zip(0..) {
        let from = order.source(j) as usize * width;
        head.copy_from_slice(&old[from..from + width]);
    }
}

impl Change {
    fn apply(self, values: &mut [f32]) {
        match self {
            Change::None => {}
            Change::PlusOne => values.iter_mut().for_each(|value| *value += 1.0),
            Change::NegExp => values.iter_mut().for_each(|value| *value = -value.exp()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_heads_go_from_grouped_to_tiled() {
        // The released model: heads 3k, 3k+1, 3k+2 use key head k.
        let order = HeadOrder { key_heads: 16, value_heads: 48 };
        let places: Vec<u64> = [0, 1, 15, 16, 47].map(|j| order.source(j)).to_vec();
        assert_eq!(places, [0, 3, 45, 1, 47]);
        let same = HeadOrder { key_heads: 4, value_heads: 4 };
        assert!((0..4).all(|j| same.source(j) == j));
        let order = HeadOrder { key_heads: 2, value_heads: 6 };
        let mut row: Vec<f32> = (0..12).map(|x| x as f32).collect();
        reorder(&mut row, &order, &mut Vec::new());
        assert_eq!(row, [0.0, 1.0, 6.0, 7.0, 2.0, 3.0, 8.0, 9.0, 4.0, 5.0, 10.0, 11.0]);
    }

    #[test]
    fn values_change_in_f32() {
        let mut values = [0.5, -1.0];
        Change::PlusOne.apply(&mut values);
        assert_eq!(values, [1.5, 0.0]);
        Change::NegExp.apply(&mut values);
        assert_eq!(values, [-(1.5f32.exp()), -1.0]);
    }
}
