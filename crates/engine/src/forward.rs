//! The window forward pass, in the order of the model: one straight function per kind of layer.
//!
//! Shapes at the buffers' declarations in `scratch.rs`; formulas in the kernel families' contracts.

use crate::Error;
use crate::probe::Probe;
use crate::scratch::{AttentionScratch, GdnScratch, LOGIT_ROWS, MoeScratch, PleScratch, Scratch};
use crate::slots::{LayerState, Slots};
use crate::weights::{AttentionLayer, GdnLayer, Mixer, MoeLayer, PleLayer, Weights};
use kernels::gdn::GdnInput;
use kernels::hc::HcRead;
use kernels::moe::{MoeChoice, SharedExpert};
use kernels::ple::PleInput;
use kernels::qsa::{AttendQuery, IndexQuery, QsaKeys};
use kernels::{Backend, Window};

/// Everything one pass works on.
pub(crate) struct Pass<'a, B: Backend> {
    pub(crate) backend: &'a mut B,
    pub(crate) weights: &'a Weights<B>,
    pub(crate) choice: MoeChoice,
    pub(crate) slots: &'a mut Slots<B>,
    pub(crate) scratch: &'a mut Scratch<B>,
    pub(crate) window: &'a Window,
}

/// Table rows of every token, `[T, heads]`; empty without n-gram features.
pub(crate) type NgramRows<'a> = &'a [u64];

impl<B: Backend> Pass<'_, B> {
    /// Runs `tokens` (one per window row) through the trunk; the streams end up in `scratch.x`.
    pub(crate) fn trunk(
        &mut self,
        tokens: &[u32],
        ngrams: NgramRows<'_>,
        probe: &mut dyn Probe,
    ) -> Result<(), Error> {
        let Self { backend, weights, slots, scratch, window, choice } = self;
        let (hc, rows) = (&weights.hc, window.rows());
        let streams = rows * hc.streams * hc.width;

        backend.embed(&weights.token_embd, tokens, hc.streams, &mut scratch.x);
        observe(*backend, probe, 0, &scratch.x, streams)?;

        for (n, (layer, state)) in weights.layers.iter().zip(&mut slots.layers).enumerate() {
            if let (Some(ple), Some(buffers), Some(state)) =
                (&layer.ple, &mut scratch.ple, &mut slots.ple)
            {
                let io = (buffers, &mut scratch.x);
                ple_layer(*backend, ple, window, ngrams, state, io);
            }

            let out = HcRead { u: &mut scratch.u, weights: &mut scratch.inject };
            backend.hc_read(hc, &layer.hc_attn.weights(), &scratch.x, rows, out);
            match (&layer.mixer, state) {
                (Mixer::Gdn(gdn), LayerState::Gdn(state)) => {
                    let io = (&scratch.u, &mut scratch.y);
                    gdn_layer(*backend, gdn, window, state, &mut scratch.gdn, io);
                }
                (Mixer::Attention(attention), LayerState::Attention(state)) => {
                    let io = (&scratch.u, &mut scratch.y);
                    attention_layer(*backend, attention, window, state, &mut scratch.attention, io);
                    if probe.wants_selection() {
                        let chosen = backend.selected_blocks(&scratch.attention.selection);
                        probe.selected(n, &chosen);
                    }
                }
                _ => unreachable!("states are made from the same layer list as weights"),
            }
            backend.hc_inject(hc, &scratch.inject, &scratch.y, rows, &mut scratch.x);

            let out = HcRead { u: &mut scratch.u, weights: &mut scratch.inject };
            backend.hc_read(hc, &layer.hc_ffn.weights(), &scratch.x, rows, out);
            let io = (&scratch.u, &mut scratch.y);
            moe_layer(*backend, &layer.moe, rows, *choice, &mut scratch.moe, io);
            backend.hc_inject(hc, &scratch.inject, &scratch.y, rows, &mut scratch.x);
            observe(*backend, probe, n + 1, &scratch.x, streams)?;
        }
        Ok(())
    }

    /// Appends the logits of the window rows `wanted` to `out`, `[wanted, vocab]`.
    pub(crate) fn head(
        &mut self,
        wanted: &[usize],
        vocab: usize,
        out: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let Self { backend, weights, scratch, .. } = self;
        let hc = &weights.hc;
        for rows in wanted.chunks(LOGIT_ROWS) {
            let head = &mut scratch.head;
            backend.gather_rows(&scratch.x, rows, hc.streams * hc.width, &mut head.x);
            let read = HcRead { u: &mut head.h, weights: &mut scratch.inject };
            backend.hc_read(hc, &weights.output_hc.weights(), &head.x, rows.len(), read);
            backend.matmul(&weights.output, &head.h, rows.len(), &mut head.logits);
            let start = out.len();
            out.resize(start + rows.len() * vocab, 0.0);
            backend.download(&head.logits, &mut out[start..])?;
        }
        Ok(())
    }
}

/// Shows the streams to a probe that wants them.
fn observe<B: Backend>(
    backend: &mut B,
    probe: &mut dyn Probe,
    stage: usize,
    x: &B::Buffer,
    len: usize,
) -> Result<(), Error> {
    if probe.wants_streams() {
        let mut streams = vec![0.0; len];
        backend.download(x, &mut streams)?;
        probe.streams(stage, &streams);
    }
    Ok(())
}

/// `x += PLE(token history, x)`.
fn ple_layer<B: Backend>(
    backend: &mut B,
    layer: &PleLayer<B>,
    window: &Window,
    ngrams: NgramRows<'_>,
    state: &mut B::PleState,
    (s, x): (&mut PleScratch<B>, &mut B::Buffer),
) {
    let rows = window.rows();
    backend.ple_gather(&layer.table, ngrams, &mut s.e);
    backend.matmul(&layer.key, &s.e, rows, &mut s.key);
    backend.matmul(&layer.value, &s.e, rows, &mut s.value);
    let input = PleInput { key: &s.key, value: &s.value, state };
    backend.ple_mix(&layer.shape, &layer.weights(), window, input, x);
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
    backend.matmul(&layer.qkv, u, rows, &mut s.m);
    backend.gdn_conv(shape, &layer.conv, window, state, (&s.m, &mut s.qkv));
    backend.matmul(&layer.alpha, u, rows, &mut s.alpha);
    backend.matmul(&layer.beta, u, rows, &mut s.beta);
    let input =
        GdnInput { qkv: &s.qkv, alpha: &s.alpha, beta: &s.beta, a: &layer.a, dt: &layer.dt };
    backend.gdn_scan(shape, window, input, state, &mut s.o);
    backend.matmul(&layer.gate, u, rows, &mut s.z);
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

/// Routed experts and the shared expert: `y = MoE(u)`.
fn moe_layer<B: Backend>(
    backend: &mut B,
    layer: &MoeLayer<B>,
    rows: usize,
    choice: MoeChoice,
    s: &mut MoeScratch<B>,
    (u, y): (&B::Buffer, &mut B::Buffer),
) {
    backend.matmul(&layer.router, u, rows, &mut s.router);
    backend.moe_plan(&s.router, rows, choice, &mut s.plan);
    backend.moe_gate_up(&s.plan, layer.experts.gate_up(), u, &mut s.act);
    backend.moe_down(&s.plan, &layer.down, &s.act, &mut s.part);

    backend.matmul(&layer.shared_gate, u, rows, &mut s.shared_gate);
    backend.matmul(&layer.shared_up, u, rows, &mut s.shared_up);
    backend.swiglu(&mut s.shared_gate, &s.shared_up, rows * layer.shared_ff);
    backend.matmul(&layer.shared_down, &s.shared_gate, rows, &mut s.shared);
    backend.matmul(&layer.shared_gate_inp, u, rows, &mut s.shared_gate_inp);

    let shared = SharedExpert { y: &s.shared, gate: &s.shared_gate_inp, width: layer.width };
    backend.moe_combine(&s.plan, &s.part, shared, y);
}
