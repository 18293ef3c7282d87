//! How keys and values lie in the cache, and what a shader must know of a layer's shape.
//!
//! A head is a whole number of units of 4 values: f32 and f16 one after the other, 8-bit blocks
//! with the codes of the whole head first and its scales behind them, two in a word. A token's row
//! is its key heads, then its value heads.

use crate::NAME;
use bytemuck::cast_slice;
use kernels::host::KvRows;
use kernels::{Error, KvType, QsaShape};
use quant::Half;

/// Widest head: a kernel keeps one in workgroup memory.
const MAX_HEAD: usize = 1024;

/// Widest index head: four rows of one are in workgroup memory.
const MAX_INDEX: usize = 512;

/// Most heads: they are an axis of a grid.
const MAX_HEADS: usize = 65535;

/// Sizes that follow from a layer's shape and the type of its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    /// How keys and values are stored.
    pub(crate) kv: KvType,
    /// Key/value heads.
    pub(crate) kv_heads: u32,
    /// Query heads of each.
    pub(crate) group: u32,
    /// Width of a head.
    pub(crate) head: u32,
    /// Rotated pairs of a head.
    pub(crate) pairs: u32,
    /// Tokens per block; 0 in a dense layer.
    pub(crate) block: u32,
    /// Width of an index head; 0 in a dense layer.
    pub(crate) index: u32,
    /// Index heads; 0 in a dense layer.
    pub(crate) index_heads: u32,
    /// Rotated pairs of an index head; 0 in a dense layer.
    pub(crate) index_pairs: u32,
}

impl Layout {
    /// The layout of a layer.
    ///
    /// # Errors
    /// [`Error::KvWidth`], [`Error::KernelBuild`] for sizes that no kernel takes.
    pub(crate) fn new(shape: &QsaShape, kv: KvType) -> Result<Self, Error> {
        let QsaShape { heads, kv_heads, head_dim, index_heads, index_dim, block, .. } = *shape;
        if !head_dim.is_multiple_of(kv.block()) {
            return Err(Error::KvWidth { kv, head_dim });
        }
        let fits = |what: &str, found: usize, most: usize| {
            let why = format!("{found} {what}, 1 to {most} are possible");
            if (1..=most).contains(&found) { Ok(found as u32) } else { Err(refused(why)) }
        };
        let query_heads = fits("query heads", heads, MAX_HEADS)?;
        let kv_heads = fits("key/value heads", kv_heads, heads)?;
        if query_heads % kv_heads != 0 {
            let why = format!("{heads} query heads over {kv_heads} key/value heads");
            return Err(refused(why));
        }
        let head = fits("values of a head", head_dim, MAX_HEAD)?;
        fits("pairs of rotated values", shape.rope_dims / 2 + 1, head_dim / 2 + 1)?;
        let group = query_heads / kv_heads;
        let pairs = (shape.rope_dims / 2) as u32;
        let dense = Self {
            kv,
            kv_heads,
            group,
            head,
            pairs,
            block: 0,
            index: 0,
            index_heads: 0,
            index_pairs: 0,
        };
        if block == 0 {
            return Ok(dense);
        }
        Ok(Self {
            block: fits("tokens of a block", block, 1 << 20)?,
            index: fits("values of an index head", index_dim, MAX_INDEX)?,
            index_heads: fits("index heads", index_heads, MAX_HEADS)?,
            index_pairs: (shape.index_rope().dims / 2) as u32,
            ..dense
        })
    }

    /// Units of 4 values of a head.
    pub(crate) fn units(&self) -> u32 {
        self.head.div_ceil(4)
    }

    /// Units of 4 values of an index head.
    pub(crate) fn index_units(&self) -> u32 {
        self.index.div_ceil(4)
    }

    /// Words of a stored head.
    pub(crate) fn head_words(&self) -> u32 {
        match self.kv {
            KvType::F32 => 4 * self.units(),
            KvType::F16 => 2 * self.units(),
            KvType::Q8_0 => self.units() + self.head.div_ceil(64),
        }
    }

    /// Words of a stored token: keys and values.
    pub(crate) fn row_words(&self) -> usize {
        2 * self.kv_heads as usize * self.head_words() as usize
    }

    /// Words of a raw or of a pooled index key.
    pub(crate) fn index_words(&self) -> usize {
        4 * self.index_units() as usize
    }

    /// Values of a key or value row on the host.
    pub(crate) fn kv_dim(&self) -> usize {
        (self.kv_heads * self.head) as usize
    }

    /// Words of rows whose keys and values are given as f32, rounded as on every other device.
    pub(crate) fn encode(&self, k: &[f32], v: &[f32]) -> Vec<u32> {
        let rows = k.len() / self.kv_dim();
        let mut words = Vec::with_capacity(rows * self.row_words());
        for (k, v) in k.chunks_exact(self.kv_dim()).zip(v.chunks_exact(self.kv_dim())) {
            for head in [k, v].into_iter().flat_map(|x| x.chunks_exact(self.head as usize)) {
                self.encode_head(head, &mut words);
            }
        }
        words
    }

    fn encode_head(&self, head: &[f32], words: &mut Vec<u32>) {
        let end = words.len() + self.head_words() as usize;
        let mut rows = KvRows::new(self.kv, head.len());
        rows.append(head);
        let bytes = rows.bytes();
        let word = |bytes: &[u8]| {
            let byte = |i: usize| u32::from(bytes.get(i).copied().unwrap_or(0)) << (8 * i);
            (0..4).map(byte).sum::<u32>()
        };
        match self.kv {
            KvType::F32 | KvType::F16 => words.extend(bytes.chunks(4).map(word)),
            KvType::Q8_0 => {
                let blocks = || bytes.chunks_exact(KvType::Q8_0.bytes(32));
                words.extend(blocks().flat_map(|block| block[2..].chunks_exact(4)).map(word));
                let scales: Vec<u8> = blocks().flat_map(|block| block[..2].to_vec()).collect();
                words.extend(scales.chunks(4).map(word));
            }
        }
        words.resize(end, 0);
    }

    /// Keys and values of stored rows as f32.
    pub(crate) fn decode(&self, words: &[u32]) -> (Vec<f32>, Vec<f32>) {
        let (mut k, mut v) = (Vec::new(), Vec::new());
        let heads = self.kv_heads as usize;
        for (i, head) in words.chunks_exact(self.head_words() as usize).enumerate() {
            let out = if (i / heads).is_multiple_of(2) { &mut k } else { &mut v };
            self.decode_head(head, out);
        }
        (k, v)
    }

    fn decode_head(&self, words: &[u32], out: &mut Vec<f32>) {
        let half = |i: usize| {
            let word = words[i / 2] >> (16 * (i % 2));
            Half::from_bits(word as u16).to_f32()
        };
        let head = self.head as usize;
        match self.kv {
            KvType::F32 => out.extend(words[..head].iter().map(|&word| f32::from_bits(word))),
            KvType::F16 => out.extend((0..head).map(half)),
            KvType::Q8_0 => {
                let codes: &[i8] = cast_slice(&words[..head / 4]);
                let scale = |i: usize| half(head / 2 + i / 32);
                out.extend(codes.iter().enumerate().map(|(i, &c)| f32::from(c) * scale(i)));
            }
        }
    }
}

fn refused(why: String) -> Error {
    Error::KernelBuild { device: NAME, kernel: "of sparse attention".to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::rope::RopeScaling;

    fn shape(head_dim: usize) -> QsaShape {
        QsaShape {
            heads: 6,
            kv_heads: 2,
            head_dim,
            rope_dims: 2,
            rope_base: 1e7,
            rope_scaling: RopeScaling::None,
            index_heads: 2,
            index_dim: 6,
            budget: 8,
            block: 4,
            eps: 1e-6,
        }
    }

    #[test]
    fn rows_come_back_as_the_host_stores_them() {
        for (kv, widths) in [
            (KvType::F32, &[2, 5, 64][..]),
            (KvType::F16, &[2, 5, 64, 254]),
            (KvType::Q8_0, &[32, 64, 96, 256]),
        ] {
            for &width in widths {
                let layout = Layout::new(&shape(width), kv).unwrap();
                let row = |seed: usize| -> Vec<f32> {
                    (0..3 * 2 * width).map(|i| ((i * 7 + seed) as f32).sin() * 3.0).collect()
                };
                let (k, v) = (row(1), row(5));
                let words = layout.encode(&k, &v);
                assert_eq!(words.len(), 3 * layout.row_words());
                let rounded = |values: &[f32]| {
                    let mut rows = KvRows::new(kv, 2 * width);
                    rows.append(values);
                    rows.decode()
                };
                assert_eq!(layout.decode(&words), (rounded(&k), rounded(&v)), "{kv} {width}");
            }
        }
    }

    #[test]
    fn sizes_that_no_kernel_takes_are_refused_with_the_reason() {
        let wrong: [fn(&mut QsaShape); 8] = [
            |s| s.head_dim = 4096,
            |s| s.head_dim = 0,
            |s| s.heads = 0,
            |s| s.kv_heads = 4,
            |s| s.index_dim = 1 << 20,
            |s| s.index_heads = 1 << 40,
            |s| s.rope_dims = 64,
            |s| s.block = usize::MAX,
        ];
        for (i, change) in wrong.into_iter().enumerate() {
            let mut shape = shape(32);
            change(&mut shape);
            let error = Layout::new(&shape, KvType::F32).unwrap_err();
            assert!(matches!(error, Error::KernelBuild { .. }), "case {i}: {error}");
        }
        let error = Layout::new(&shape(48), KvType::Q8_0).unwrap_err();
        assert!(matches!(error, Error::KvWidth { head_dim: 48, .. }), "{error}");
    }
}
