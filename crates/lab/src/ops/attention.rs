//! Attention over a filled cache (family `qsa`): append, select, attend.

use super::{copies, window};
use crate::bound::Bound;
use crate::case::{Call, F32_SHARE, Op};
use crate::compare::Expected;
use crate::memory::{Output, poisoned, upload, vector};
use crate::{Cost, Input, Random};
use kernels::qsa::{AttendQuery, IndexQuery};
use kernels::reference::Reference;
use kernels::{Backend, Error, KvType, QsaKeys, QsaShape, Window};

/// The three calls of a layer, with `context` tokens in the cache already.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Sizes of the layer.
    pub shape: QsaShape,
    /// How keys and values are stored.
    pub kv: KvType,
    /// Tokens in the cache before the window.
    pub context: usize,
    /// Rows of the window (T).
    pub rows: usize,
}

/// The small weights of the layer.
struct Norms<V> {
    k: V,
    q: V,
    index_k: V,
    index_q: V,
}

/// The activations of a window.
struct Rows<B> {
    k: B,
    v: B,
    index_k: B,
    q: B,
    index_q: B,
}

impl Attention {
    fn norms<B: Backend>(&self, backend: &mut B) -> Result<Norms<B::Vector>, Error> {
        let QsaShape { head_dim, index_dim, .. } = self.shape;
        let mut random = Random::new(6);
        let mut norm = |n| vector(backend, &random.values(n, 1.0));
        Ok(Norms {
            k: norm(head_dim)?,
            q: norm(head_dim)?,
            index_k: norm(index_dim)?,
            index_q: norm(index_dim)?,
        })
    }

    fn inputs_of<B: Backend>(
        &self,
        backend: &mut B,
        (rows, scale): (usize, f32),
        random: &mut Random,
    ) -> Result<Rows<B::Buffer>, Error> {
        let shape = &self.shape;
        let index = shape.index_dim;
        let mut values = |n, scale| upload(backend, &random.values(rows * n, scale));
        Ok(Rows {
            k: values(shape.kv_dim(), scale)?,
            v: values(shape.kv_dim(), scale)?,
            index_k: values(index, scale)?,
            q: values(2 * shape.query_dim(), 2.0)?,
            index_q: values(shape.index_heads * index, scale)?,
        })
    }

    fn append<B: Backend>(
        &self,
        backend: &mut B,
        (norms, rows): (&Norms<B::Vector>, &Rows<B::Buffer>),
        window: &Window,
        state: &mut B::QsaState,
    ) -> Result<(), Error> {
        for run in window.runs() {
            backend.reserve_qsa(&self.shape, state, run.slot, run.first_pos + run.len)?;
        }
        let index = (self.shape.block > 0).then_some((&rows.index_k, &norms.index_k));
        let keys = QsaKeys { k: &rows.k, v: &rows.v, k_norm: &norms.k, index };
        backend.qsa_append(&self.shape, window, keys, state);
        Ok(())
    }

    fn attend<B: Backend>(
        &self,
        backend: &mut B,
        (norms, rows): (&Norms<B::Vector>, &Rows<B::Buffer>),
        (window, state): (&Window, &B::QsaState),
        (selection, o): (&mut B::Selection, &mut B::Buffer),
    ) {
        let query = IndexQuery { q: &rows.index_q, norm: &norms.index_q };
        let query = (self.shape.block > 0).then_some(query);
        backend.qsa_select(&self.shape, window, query, state, selection);
        let query = AttendQuery { q: &rows.q, norm: &norms.q, selection };
        backend.qsa_attend(&self.shape, window, query, state, o);
    }

    /// A state of `slots` slots that hold the context. The tokens come in chunks.
    fn filled<B: Backend>(
        &self,
        backend: &mut B,
        norms: &Norms<B::Vector>,
        slots: usize,
    ) -> Result<B::QsaState, Error> {
        const CHUNK: usize = 256;
        let mut random = Random::new(9);
        let most = self.context + self.rows;
        let mut state = backend.new_qsa_state(&self.shape, slots, most, self.kv)?;
        for first in (0..self.context).step_by(CHUNK) {
            let len = CHUNK.min(self.context - first);
            let rows = self.inputs_of(backend, (len, 1.0), &mut random)?;
            for slot in 0..slots {
                self.append(backend, (norms, &rows), &window(&[(slot, first, len)]), &mut state)?;
            }
        }
        Ok(state)
    }

    /// What keys near the edge of two codes may change, as a share of the largest output.
    ///
    /// With f32 rounding of some 1e-7, at most one key value in a thousand is that near (f16), so
    /// about one per position, and the code moves by one step: at most 2^-10 (f16) or 1/127 (q8_0)
    /// of the key's largest values, which are about as large as the query's, 4. That moves the
    /// position's score by `4 * 4 * step / sqrt(head_dim)` and its weight by that share. Positions
    /// move independently, and the weighted mean of their values by less than one alone would.
    fn edge_share(&self) -> f64 {
        let step = match self.kv {
            KvType::F32 => 0.0,
            KvType::F16 => 1.0 / 1024.0,
            KvType::Q8_0 => 1.0 / 127.0,
        };
        16.0 * step / (self.shape.head_dim as f64).sqrt()
    }

    /// Positions that the last row attends.
    fn attended(&self) -> usize {
        let seen = self.context + self.rows;
        match self.shape.block {
            0 => seen,
            block => seen.min(self.shape.budget + seen % block),
        }
    }
}

impl Op for Attention {
    fn name(&self) -> String {
        let QsaShape { heads, kv_heads, head_dim, block, .. } = self.shape;
        let kind = if block == 0 { "dense" } else { "sparse" };
        let heads = format!("{heads}q{kv_heads}kv{head_dim}");
        format!("qsa_{kind}/{}/{heads}/ctx{}/T{}", self.kv, self.context, self.rows)
    }

    fn rows(&self) -> usize {
        self.rows
    }

    /// Keys and values that a row attends and the block keys that it scores, each once.
    fn cost(&self) -> Cost {
        let shape = &self.shape;
        let blocks = (self.context + self.rows).checked_div(shape.block).unwrap_or(0);
        let attended = self.attended();
        let bytes = 2 * attended * self.kv.bytes(shape.kv_dim()) + 4 * blocks * shape.index_dim;
        let per_row =
            4 * attended * shape.query_dim() + 2 * blocks * shape.index_heads * shape.index_dim;
        Cost { bytes: bytes as u64, ops: (self.rows * per_row) as u64 }
    }

    fn bound(&self) -> Bound {
        Bound::ShareCodes
    }

    fn inputs(&self) -> &'static [Input] {
        Input::SCALED
    }

    /// Slot 1 holds the context; slot 0 begins in the same window.
    fn run<B: Backend>(&self, backend: &mut B, input: Input) -> Result<Vec<Output>, Error> {
        let norms = self.norms(backend)?;
        let most = self.context + self.rows;
        let mut state = backend.new_qsa_state(&self.shape, 2, most, self.kv)?;
        let mut random = Random::new(9);
        if self.context > 0 {
            let rows = self.inputs_of(backend, (self.context, input.scale()), &mut random)?;
            self.append(backend, (&norms, &rows), &window(&[(1, 0, self.context)]), &mut state)?;
        }
        let window = window(&[(0, 0, 1), (1, self.context, self.rows)]);
        let rows = self.inputs_of(backend, (window.rows(), input.scale()), &mut random)?;
        self.append(backend, (&norms, &rows), &window, &mut state)?;
        let (width, len) = (self.shape.query_dim(), window.rows() * self.shape.query_dim());
        let (mut selection, mut o) = (backend.new_selection(), poisoned(backend, len)?);
        self.attend(backend, (&norms, &rows), (&window, &state), (&mut selection, &mut o));

        let blocks = backend.selected_blocks(&selection).concat();
        let blocks = blocks.iter().map(|&b| b as f32).collect();
        let o = Output::fetch(backend, &o, ("o", width, len))?;
        Ok(vec![Output::new("blocks", self.shape.max_blocks().max(1), blocks), o])
    }

    /// The choice of blocks is exact: a near tie may in principle go either way, but the inputs are
    /// fixed and have none. Values are stored as they come, so all devices round them alike; a key
    /// is computed first, and where it comes out near the edge of two codes, devices may store
    /// either.
    fn expected(&self, input: Input) -> Result<Vec<Expected>, Error> {
        let outputs = self.run(&mut Reference, input)?.into_iter();
        let share = |what| if what == "blocks" { 0.0 } else { F32_SHARE + self.edge_share() };
        Ok(outputs
            .map(|output| {
                let share = share(output.what);
                Expected::within(output, share)
            })
            .collect())
    }

    /// Slots take turns. The window is appended once and then only selected for and attended: a
    /// slot cannot go back, and appending is little beside the rest.
    fn prepare<'a, B: Backend + 'a>(
        &'a self,
        backend: &mut B,
        cold: usize,
    ) -> Result<Call<'a, B>, Error> {
        let norms = self.norms(backend)?;
        let slots = copies(2 * self.context * self.kv.bytes(self.shape.kv_dim()), cold);
        let mut state = self.filled(backend, &norms, slots)?;
        let rows = self.inputs_of(backend, (self.rows, 1.0), &mut Random::new(10))?;
        let windows: Vec<Window> =
            (0..slots).map(|slot| window(&[(slot, self.context, self.rows)])).collect();
        for window in &windows {
            self.append(backend, (&norms, &rows), window, &mut state)?;
        }
        let mut o = backend.alloc(self.rows * self.shape.query_dim())?;
        let mut selection = backend.new_selection();
        Ok(Box::new(move |backend, i| {
            let read = (&windows[i % slots], &state);
            self.attend(backend, (&norms, &rows), read, (&mut selection, &mut o));
            Ok(())
        }))
    }
}
