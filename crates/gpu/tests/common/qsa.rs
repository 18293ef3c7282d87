//! A sparse attention layer on any device, and texts to run through it.

use super::{download, upload};
use kernels::host::KvSlot;
use kernels::qsa::{AttendQuery, IndexQuery};
use kernels::rope::{Rope, RopeScaling};
use kernels::{Device, KvType, Qsa, QsaKeys, QsaShape, Window};
use lab::Random;

/// A shape that tests change.
pub(crate) const SMALL: QsaShape = QsaShape {
    heads: 4,
    kv_heads: 2,
    head_dim: 32,
    rope_dims: 8,
    rope_base: 1e4,
    rope_scaling: RopeScaling::None,
    index_heads: 2,
    index_dim: 8,
    budget: 48,
    block: 4,
    eps: 1e-6,
};

/// That of the model, with another budget.
pub(crate) const REAL: QsaShape = QsaShape { budget: 48, ..lab::cases::QSA };

/// Nothing is a multiple of 4; more than one pass over index heads, query heads that do not go
/// evenly into workgroups, blocks that do not fill the budget.
pub(crate) const ODD: QsaShape = QsaShape {
    heads: 34,
    kv_heads: 2,
    head_dim: 7,
    rope_dims: 6,
    rope_base: 1e4,
    rope_scaling: RopeScaling::None,
    index_heads: 11,
    index_dim: 5,
    budget: 48,
    block: 5,
    eps: 1e-5,
};

pub(crate) fn dense(shape: QsaShape) -> QsaShape {
    QsaShape { block: 0, ..shape }
}

/// What the tokens of a sequence bring to a layer.
#[derive(Clone)]
pub(crate) struct Text {
    pub(crate) k: Vec<f32>,
    pub(crate) v: Vec<f32>,
    pub(crate) raw: Vec<f32>,
    pub(crate) q: Vec<f32>,
    pub(crate) index_q: Vec<f32>,
}

impl Text {
    pub(crate) fn new(shape: &QsaShape, seed: u64, len: usize) -> Self {
        let mut random = Random::new(seed);
        let mut values = |width: usize| random.values(len * width, 2.0);
        Self {
            k: values(shape.kv_dim()),
            v: values(shape.kv_dim()),
            raw: values(shape.index_dim),
            q: values(2 * shape.query_dim()),
            index_q: values(shape.index_heads * shape.index_dim),
        }
    }

    /// A text of the same length of nothing but NaN.
    pub(crate) fn nan(&self) -> Self {
        let nan = |values: &Vec<f32>| vec![f32::NAN; values.len()];
        let Self { k, v, raw, q, index_q } = self;
        Self { k: nan(k), v: nan(v), raw: nan(raw), q: nan(q), index_q: nan(index_q) }
    }
}

/// Some tokens of a text as the rows of a slot.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) slot: usize,
    pub(crate) text: &'a Text,
    pub(crate) first: usize,
    pub(crate) len: usize,
}

/// What a window gave, row by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    pub(crate) o: Vec<Vec<f32>>,
    pub(crate) blocks: Vec<Vec<u32>>,
}

/// A layer with its norms and caches.
pub(crate) struct Layer<D: Qsa> {
    pub(crate) shape: QsaShape,
    pub(crate) state: D::QsaState,
    k_norm: D::Vector,
    q_norm: D::Vector,
    index_k_norm: D::Vector,
    index_q_norm: D::Vector,
    selection: D::Selection,
}

/// Norm weights of a layer, the same on every device.
pub(crate) fn norm(width: usize, seed: u64) -> Vec<f32> {
    Random::new(seed).values(width, 0.5).iter().map(|w| 1.0 + w).collect()
}

impl<D: Qsa + Device<Vector = <D as Device>::Buffer>> Layer<D> {
    pub(crate) fn new(device: &mut D, shape: QsaShape, kv: KvType, slots: usize) -> Self {
        let context = 1 << 14;
        let (head, index) = (shape.head_dim, shape.index_dim);
        Self {
            shape,
            state: device.new_qsa_state(&shape, slots, context, kv).unwrap(),
            k_norm: upload(device, &norm(head, 1)),
            q_norm: upload(device, &norm(head, 2)),
            index_k_norm: upload(device, &norm(index, 3)),
            index_q_norm: upload(device, &norm(index, 4)),
            selection: device.new_selection(),
        }
    }

    /// Appends the parts, which are one window.
    pub(crate) fn append(&mut self, device: &mut D, parts: &[Part<'_>]) {
        let shape = self.shape;
        for part in parts {
            let len = part.first + part.len;
            device.reserve_qsa(&shape, &mut self.state, part.slot, len).unwrap();
        }
        let mut rows = |width: usize, of: fn(&Text) -> &Vec<f32>| {
            let gathered = gather(parts, width, of);
            upload(device, &gathered)
        };
        let k = rows(shape.kv_dim(), |text| &text.k);
        let v = rows(shape.kv_dim(), |text| &text.v);
        let raw = rows(shape.index_dim, |text| &text.raw);
        let index = (shape.block > 0).then_some((&raw, &self.index_k_norm));
        let keys = QsaKeys { k: &k, v: &v, k_norm: &self.k_norm, index };
        device.qsa_append(&shape, &window(parts), keys, &mut self.state);
    }

    /// Chooses and attends for the parts, which are in the cache.
    pub(crate) fn attend(&mut self, device: &mut D, parts: &[Part<'_>]) -> Rows {
        let shape = self.shape;
        let window = window(parts);
        let width = shape.index_heads * shape.index_dim;
        let index_q = upload(device, &gather(parts, width, |text| &text.index_q));
        let q = upload(device, &gather(parts, 2 * shape.query_dim(), |text| &text.q));
        let query = IndexQuery { q: &index_q, norm: &self.index_q_norm };
        let query = (shape.block > 0).then_some(query);
        device.qsa_select(&shape, &window, query, &self.state, &mut self.selection);
        let len = window.rows() * shape.query_dim();
        let mut o = upload(device, &vec![f32::NAN; len]);
        let query = AttendQuery { q: &q, norm: &self.q_norm, selection: &self.selection };
        device.qsa_attend(&shape, &window, query, &self.state, &mut o);
        let blocks = device.selected_blocks(&self.selection);
        let o = download(device, &o, len);
        Rows { o: o.chunks(shape.query_dim()).map(<[f32]>::to_vec).collect(), blocks }
    }

    /// A whole step.
    pub(crate) fn step(&mut self, device: &mut D, parts: &[Part<'_>]) -> Rows {
        self.append(device, parts);
        self.attend(device, parts)
    }

    /// A slot's cache.
    pub(crate) fn export(&self, device: &mut D, slot: usize) -> KvSlot {
        device.export_qsa(&self.state, slot)
    }
}

fn window(parts: &[Part<'_>]) -> Window {
    let mut window = Window::new();
    parts.iter().for_each(|part| window.push(part.slot, part.first, part.len));
    window
}

fn gather(parts: &[Part<'_>], width: usize, of: fn(&Text) -> &Vec<f32>) -> Vec<f32> {
    let rows = |part: &Part<'_>| of(part.text)[part.first * width..][..part.len * width].to_vec();
    parts.iter().flat_map(rows).collect()
}

/// Scores of the blocks that a token at `pos` sees, over the pooled keys of a cache.
pub(crate) fn scores(shape: &QsaShape, text: &Text, pos: usize, blocks: &[f32]) -> Vec<f64> {
    let width = shape.index_dim;
    let weights = norm(width, 4);
    let rope = Rope::new(shape.index_rope());
    let all = &text.index_q[pos * shape.index_heads * width..][..shape.index_heads * width];
    let head = |raw: &[f32]| {
        let mean: f64 = raw.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / width as f64;
        let scale = 1.0 / (mean + f64::from(shape.eps)).sqrt();
        let mut head: Vec<f32> =
            raw.iter().zip(&weights).map(|(&x, w)| (f64::from(x) * scale) as f32 * w).collect();
        rope.rotate(pos, &mut head);
        head
    };
    let heads: Vec<Vec<f32>> = all.chunks(width).map(head).collect();
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    let score = |key: &[f32]| -> f64 { heads.iter().map(|head| dot(head, key).max(0.0)).sum() };
    blocks.chunks(width).take((pos + 1) / shape.block).map(score).collect()
}
