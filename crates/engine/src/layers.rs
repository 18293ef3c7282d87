//! The decoder layers, in the order of the model: one straight function per kind of layer.
//!
//! Shapes at the buffers' declarations in `scratch.rs`; formulas in the kernel families' contracts.

use crate::Error;
use crate::forecast;
use crate::reads::WeightReads;
use crate::scratch::{AttentionScratch, GdnScratch, LayerScratch, MoeScratch, PleScratch};
use crate::slots::LayerState;
use crate::weights::{AttentionLayer, GdnLayer, Layer, Mixer, MoeLayer, PleLayer};
use kernels::hc::HcRead;
use kernels::moe::{ExpertMatrices, MoeChoice, RoutingDials, SharedExpert};
use kernels::ple::PleInput;
use kernels::qsa::{AttendQuery, IndexQuery, QsaKeys};
use kernels::stored::StoredExperts;
use kernels::{Backend, HcShape, Window};

/// What a layer works with besides its own weights and state.
pub(crate) struct LayerPass<'a, B: Backend> {
    pub(crate) backend: &'a mut B,
    pub(crate) hc: &'a HcShape,
    pub(crate) routing: Routing,
    pub(crate) window: &'a Window,
    pub(crate) scratch: &'a mut LayerScratch<B>,
    /// Where layers are counted.
    pub(crate) reads: &'a mut WeightReads,
}

/// How experts are chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routing {
    pub(crate) choice: MoeChoice,
    pub(crate) dials: RoutingDials,
}

/// Table rows of every token, `[T, heads]`; empty without n-gram features.
pub(crate) type NgramRows<'a> = &'a [u64];

impl<B: Backend> LayerPass<'_, B> {
    /// The first half of a layer: along the sequence.
    pub(crate) fn mix(&mut self, layer: &Layer<B>, state: &mut LayerState<B>, x: &mut B::Buffer) {
        let Self { backend, hc, window, scratch, .. } = self;
        let LayerScratch { u, inject, y, gdn, attention, .. } = &mut **scratch;
        let rows = window.rows();

        let out = HcRead { u: &mut *u, weights: &mut *inject };
        backend.hc_read(hc, &layer.hc_attn.weights(), x, rows, out);
        match (&layer.mixer, state) {
            (Mixer::Gdn(weights), LayerState::Gdn(state)) => {
                gdn_layer(*backend, weights, window, state, gdn, (&*u, &mut *y));
            }
            (Mixer::Attention(weights), LayerState::Attention(state)) => {
                attention_layer(*backend, weights, window, state, attention, (&*u, &mut *y));
            }
            _ => unreachable!("states are made from the same layer list as weights"),
        }
        backend.hc_inject(hc, inject, y, rows, x);
    }

    /// Reads ahead what the first layer will probably want of streams that are embeddings yet.
    pub(crate) fn foresee(&mut self, first: &Layer<B>, x: &B::Buffer) {
        if first.moe.stored.is_none() || first.moe.forecast.is_none() {
            return;
        }
        let Self { backend, hc, routing, window, scratch, .. } = self;
        let LayerScratch { u, inject, moe, .. } = &mut **scratch;
        let rows = window.rows();
        let out = HcRead { u: &mut *u, weights: &mut *inject };
        backend.hc_read(hc, &first.hc_ffn.weights(), x, rows, out);
        forecast::read_ahead(*backend, &first.moe, rows, routing.choice, &mut moe.forecast, u);
    }

    /// The second half of a layer: token by token. What the layer `after` it will want is read
    /// ahead, where experts are read at all.
    pub(crate) fn experts(
        &mut self,
        layer: &Layer<B>,
        after: Option<&Layer<B>>,
        x: &mut B::Buffer,
    ) {
        let Self { backend, hc, routing, window, scratch, reads } = self;
        let LayerScratch { u, inject, y, moe, .. } = &mut **scratch;
        let rows = window.rows();

        let out = HcRead { u: &mut *u, weights: &mut *inject };
        backend.hc_read(hc, &layer.hc_ffn.weights(), x, rows, out);
        choose_experts(*backend, &layer.moe, rows, routing, moe, u);
        let choice = routing.choice;
        let most = (rows * choice.used).min(choice.experts);
        reads.layer(layer.bytes, backend.experts_in_use(&moe.plan), most);
        if let Some(after) = after {
            forecast::read_ahead(*backend, &after.moe, rows, choice, &mut moe.forecast, u);
        }
        moe_layer(*backend, &layer.moe, rows, moe, (&*u, &mut *y));
        backend.hc_inject(hc, inject, y, rows, x);
    }

    /// `x += PLE(token history, x)`.
    pub(crate) fn ple(
        &mut self,
        layer: &PleLayer<B>,
        ngrams: NgramRows<'_>,
        state: &mut B::PleState,
        (s, x): (&mut PleScratch<B>, &mut B::Buffer),
    ) -> Result<(), Error> {
        let (backend, rows) = (&mut *self.backend, self.window.rows());
        self.reads.bytes += ngrams.len() as u64 * layer.table_row;
        match &layer.stored {
            Some(table) => table.gather(backend, ngrams, &mut s.e)?,
            None => backend.ple_gather(&layer.table, ngrams, &mut s.e),
        }
        backend.matmul(&layer.key, &s.e, rows, &mut s.key);
        backend.matmul(&layer.value, &s.e, rows, &mut s.value);
        let input = PleInput { key: &s.key, value: &s.value, state };
        backend.ple_mix(&layer.shape, &layer.weights(), self.window, input, x);
        Ok(())
    }

    /// Enters the rows that a slot set aside and that count into the layer's state: the window's
    /// runs have nothing but those.
    pub(crate) fn replay(&mut self, layer: &Layer<B>, state: &mut LayerState<B>) {
        let (Mixer::Gdn(weights), LayerState::Gdn(state)) = (&layer.mixer, state) else { return };
        let (backend, s) = (&mut *self.backend, &mut self.scratch.gdn);
        let shape = &weights.shape;
        backend.gdn_conv(shape, &weights.conv, self.window, state, (&s.m, &mut s.qkv));
        let input = weights.scan_input(&s.qkv, &s.alpha, &s.beta);
        backend.gdn_scan(shape, self.window, input, state, &mut s.o);
    }

    /// As [`LayerPass::replay`], of the n-gram features.
    pub(crate) fn replay_ple(
        &mut self,
        layer: &PleLayer<B>,
        state: &mut B::PleState,
        (s, x): (&mut PleScratch<B>, &mut B::Buffer),
    ) {
        let input = PleInput { key: &s.key, value: &s.value, state };
        self.backend.ple_mix(&layer.shape, &layer.weights(), self.window, input, x);
    }
}

/// Gated DeltaNet: `y = GDN(u)`.
fn gdn_layer<B: Backend>(
    backend: &mut B,
    layer: &GdnLayer<B>,
    window: &Window,
    state: &mut B::GdnState,
    s: &mut GdnScratch<B>,
    (u, y): (&B::Buffer, &mut B::Buffer),
) {
    let (shape, rows) = (&layer.shape, window.rows());
    // Products of the same rows follow each other: a device may do them at once, and convolve the
    // last one's results as it makes them.
    backend.matmul(&layer.gate, u, rows, &mut s.z);
    backend.matmul(&layer.alpha, u, rows, &mut s.alpha);
    backend.matmul(&layer.beta, u, rows, &mut s.beta);
    backend.matmul(&layer.qkv, u, rows, &mut s.m);
    backend.gdn_conv(shape, &layer.conv, window, state, (&s.m, &mut s.qkv));
    let input = layer.scan_input(&s.qkv, &s.alpha, &s.beta);
    backend.gdn_scan(shape, window, input, state, &mut s.o);
    backend.gdn_output_gate(shape, &layer.norm, &s.z, rows, &mut s.o);
    backend.matmul(&layer.out, &s.o, rows, y);
}

/// Indexed sparse attention: `y = QSA(u)`.
fn attention_layer<B: Backend>(
    backend: &mut B,
    layer: &AttentionLayer<B>,
    window: &Window,
    state: &mut B::QsaState,
    s: &mut AttentionScratch<B>,
    (u, y): (&B::Buffer, &mut B::Buffer),
) {
    let (shape, rows) = (&layer.shape, window.rows());
    backend.matmul(&layer.q, u, rows, &mut s.q);
    backend.matmul(&layer.k, u, rows, &mut s.k);
    backend.matmul(&layer.v, u, rows, &mut s.v);
    if let Some(index) = &layer.index {
        backend.matmul(&index.q, u, rows, &mut s.index_q);
        backend.matmul(&index.k, u, rows, &mut s.index_k);
    }

    let index = layer.index.as_ref().map(|index| (&s.index_k, &index.k_norm));
    let keys = QsaKeys { k: &s.k, v: &s.v, k_norm: &layer.k_norm, index };
    backend.qsa_append(shape, window, keys, state);
    let query = layer.index.as_ref().map(|i| IndexQuery { q: &s.index_q, norm: &i.q_norm });
    backend.qsa_select(shape, window, query, state, &mut s.selection);
    let query = AttendQuery { q: &s.q, norm: &layer.q_norm, selection: &s.selection };
    backend.qsa_attend(shape, window, query, state, &mut s.o);

    backend.matmul(&layer.out, &s.o, rows, y);
}

/// The routed experts of every row, and what the shared expert has to be multiplied with.
///
/// Experts that must be read are asked for as early as can be; the shared expert's products come
/// after it then, to be done meanwhile.
fn choose_experts<B: Backend>(
    backend: &mut B,
    layer: &MoeLayer<B>,
    rows: usize,
    routing: &Routing,
    s: &mut MoeScratch<B>,
    u: &B::Buffer,
) {
    backend.matmul(&layer.router, u, rows, &mut s.router);
    if let Some(stored) = &layer.stored {
        plan(backend, stored.into(), rows, routing, s);
        backend.moe_want(&s.plan, stored);
    }
    backend.matmul(&layer.shared_gate, u, rows, &mut s.shared_gate);
    backend.matmul(&layer.shared_up, u, rows, &mut s.shared_up);
    backend.matmul(&layer.shared_gate_inp, u, rows, &mut s.shared_gate_inp);
    if layer.stored.is_none() {
        plan(backend, None, rows, routing, s);
    }
}

/// The experts of every row by the router's logits.
fn plan<B: Backend>(
    backend: &mut B,
    stored: Option<&StoredExperts>,
    rows: usize,
    Routing { choice, dials }: &Routing,
    s: &mut MoeScratch<B>,
) {
    if dials.is_exact() {
        backend.moe_plan(&s.router, rows, *choice, &mut s.plan);
        return;
    }
    // Without a store all are as good as in memory.
    s.held.clear();
    s.held.resize(choice.experts, stored.is_none());
    if let Some(stored) = stored {
        stored.source.resident(stored.layer, &mut s.held);
    }
    backend.moe_plan_dialled(&s.router, rows, *choice, (dials, &s.held), &mut s.plan);
}

/// Routed experts, as they were chosen, and the shared expert: `y = MoE(u)`.
fn moe_layer<B: Backend>(
    backend: &mut B,
    layer: &MoeLayer<B>,
    rows: usize,
    s: &mut MoeScratch<B>,
    (u, y): (&B::Buffer, &mut B::Buffer),
) {
    // Beside the plan, where a device can do both at once.
    backend.swiglu(&mut s.shared_gate, &s.shared_up, rows * layer.shared_ff);

    let stored = layer.stored.as_ref();
    let experts = ExpertMatrices { gate_up: layer.experts.gate_up(), down: &layer.down, stored };
    backend.moe_experts(&s.plan, experts, u, (&mut s.act, &mut s.part));

    // All down projections follow each other, so that a device may add them up as it makes them.
    backend.matmul(&layer.shared_down, &s.shared_gate, rows, &mut s.shared);
    let shared = SharedExpert { y: &s.shared, gate: &s.shared_gate_inp, width: layer.width };
    backend.moe_combine(&s.plan, &s.part, shared, y);
}
