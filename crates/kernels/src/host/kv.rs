//! Keys and values in the type that the cache stores them in.

use super::memory::reserve;
use super::state::KvSlot;
use crate::{Error, KvType, QsaShape};
use quant::{Half, decode_row, quantise_activation};
use std::ops::Range;

/// Rows of keys or values of one slot, encoded one by one as they come.
#[derive(Clone, Debug)]
pub struct KvRows {
    ty: KvType,
    width: usize,
    bytes: Vec<u8>,
}

impl KvRows {
    /// No rows yet, each of `width` values, which must be a multiple of the type's block.
    pub fn new(ty: KvType, width: usize) -> Self {
        Self { ty, width, bytes: Vec::new() }
    }

    /// Type of the values.
    pub fn ty(&self) -> KvType {
        self.ty
    }

    /// The encoded rows, one after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.bytes.len().checked_div(self.row_bytes()).unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends values: whole heads, or whole rows. What is not finite stays so, in 8 bits for its
    /// whole block.
    ///
    /// # Panics
    /// If they are no multiple of the type's block.
    pub fn append(&mut self, values: &[f32]) {
        assert!(values.len().is_multiple_of(self.ty.block()), "values in part of a block");
        match self.ty {
            KvType::F32 => self.bytes.extend(values.iter().flat_map(|x| x.to_le_bytes())),
            KvType::F16 => {
                let half = |x: &f32| Half::from_f32(*x).to_bits().to_le_bytes();
                self.bytes.extend(values.iter().flat_map(half));
            }
            KvType::Q8_0 => {
                let start = self.bytes.len();
                self.bytes.resize(start + self.ty.bytes(values.len()), 0);
                quantise_activation(self.ty.tensor_type(), values, &mut self.bytes[start..])
                    .expect("a whole number of blocks");
            }
        }
    }

    /// Keeps the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.bytes.truncate(rows * self.row_bytes());
    }

    /// Some rows, decoded `[rows, width]`.
    pub fn rows(&self, rows: Range<usize>) -> Vec<f32> {
        self.decode_bytes(&self.bytes[rows.start * self.row_bytes()..rows.end * self.row_bytes()])
    }

    /// All rows, decoded `[len, width]`. Appended again, they decode to the same values.
    pub fn decode(&self) -> Vec<f32> {
        self.decode_bytes(&self.bytes)
    }

    fn decode_bytes(&self, bytes: &[u8]) -> Vec<f32> {
        let ty = self.ty.tensor_type();
        let mut values = vec![0.0; bytes.len() / ty.block_bytes() * ty.block_elements()];
        decode_row(ty, bytes, &mut values).expect("whole blocks of a type that has values");
        values
    }

    fn row_bytes(&self) -> usize {
        self.ty.bytes(self.width)
    }
}

/// Cache of one slot in one sparse attention layer; grows with the sequence.
#[derive(Clone, Debug)]
pub struct KvCache {
    /// Rotated keys `[len, kv_dim]`.
    pub k: KvRows,
    /// Values `[len, kv_dim]`.
    pub v: KvRows,
    /// Raw index keys `[len, index_dim]`. They stay f32, as do `blocks`: they decide what is
    /// attended at all.
    pub index: Vec<f32>,
    /// Pooled, normalised and rotated keys of the complete blocks `[blocks, index_dim]`.
    pub blocks: Vec<f32>,
}

impl KvCache {
    /// The cache of a fresh sequence.
    pub(super) fn new(kv: KvType, kv_dim: usize) -> Self {
        let rows = KvRows::new(kv, kv_dim);
        Self { k: rows.clone(), v: rows, index: Vec::new(), blocks: Vec::new() }
    }

    /// Makes room for `rows` tokens, of at most `most` that there will ever be.
    pub(super) fn reserve(
        &mut self,
        shape: &QsaShape,
        rows: usize,
        most: usize,
    ) -> Result<(), Error> {
        let row_bytes = self.k.row_bytes();
        reserve(&mut self.k.bytes, (rows, most), row_bytes)?;
        reserve(&mut self.v.bytes, (rows, most), row_bytes)?;
        let whole = |rows: usize| rows.checked_div(shape.block);
        if let (Some(blocks), Some(most_blocks)) = (whole(rows), whole(most)) {
            reserve(&mut self.index, (rows, most), shape.index_dim)?;
            reserve(&mut self.blocks, (blocks, most_blocks), shape.index_dim)?;
        }
        Ok(())
    }

    /// A decoded copy.
    pub fn export(&self) -> KvSlot {
        KvSlot {
            k: self.k.decode(),
            v: self.v.decode(),
            index: self.index.clone(),
            blocks: self.blocks.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(ty: KvType, values: &[f32]) -> KvRows {
        let mut rows = KvRows::new(ty, 32);
        rows.append(values);
        rows
    }

    fn values(scale: f32) -> Vec<f32> {
        (0..96).map(|i| (i as f32 * 0.7311).sin() * scale).collect()
    }

    #[test]
    fn rows_are_rounded_as_their_type_says() {
        let x = values(3.0);
        assert_eq!(rows(KvType::F32, &x).decode(), x);
        let half = rows(KvType::F16, &x).decode();
        // The spacing of halves is at most 2^-10 of a value.
        assert!(x.iter().zip(&half).all(|(x, h)| (x - h).abs() <= x.abs() / 2048.0));
        // Both lie in the middle of two halves: the even one is taken.
        let ties = [1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0, 65504.0, 70000.0];
        let found = rows(KvType::F16, &[&ties[..], &[0.0; 28]].concat()).decode();
        assert_eq!(found[..4], [1.0, 1.0 + 1.0 / 512.0, 65504.0, f32::INFINITY]);
        let eight = rows(KvType::Q8_0, &x).decode();
        assert!(x.iter().zip(&eight).all(|(x, y)| (x - y).abs() <= 3.0 / 127.0 * 0.51));
        assert_eq!(rows(KvType::Q8_0, &x).bytes().len(), 3 * 34);
    }

    #[test]
    fn what_was_decoded_is_stored_as_it_was() {
        for ty in KvType::ALL {
            for scale in [1e-30, 1e-7, 1e-4, 1.0, 50.0, 6e4] {
                let first = rows(ty, &values(scale));
                assert_eq!(rows(ty, &first.decode()).decode(), first.decode(), "{ty} {scale}");
            }
        }
    }

    #[test]
    fn rows_are_cut_and_read_one_by_one() {
        for ty in KvType::ALL {
            let mut cache = rows(ty, &values(1.0));
            let all = cache.decode();
            assert_eq!((cache.len(), cache.is_empty(), cache.ty()), (3, false, ty));
            assert_eq!(cache.rows(1..3), all[32..]);
            cache.truncate(1);
            assert_eq!(cache.decode(), all[..32]);
        }
    }

    #[test]
    fn what_is_not_finite_shows() {
        for ty in KvType::ALL {
            for bad in [f32::NAN, f32::INFINITY] {
                let mut x = values(1.0);
                x[40] = bad;
                let found = rows(ty, &x).decode();
                assert!(!found[40].is_finite() && found[0].is_finite(), "{ty} {bad}");
            }
        }
    }
}
