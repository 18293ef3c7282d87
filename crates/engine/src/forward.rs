//! The window forward pass: embedding, layers, head.

use crate::Error;
use crate::layers::{LayerPass, NgramRows, Routing};
use crate::logits::{LogitRows, enough};
use crate::probe::Probe;
use crate::reads::WeightReads;
use crate::routers;
use crate::sampling::Short;
use crate::scratch::{HeadScratch, LOGIT_ROWS, Scratch};
use crate::slots::Slots;
use crate::weights::{HcReadWeights, Weights};
use kernels::hc::HcRead;
use kernels::{Backend, HcShape, Window};

/// Everything one pass works on.
pub(crate) struct Pass<'a, B: Backend> {
    pub(crate) backend: &'a mut B,
    pub(crate) weights: &'a Weights<B>,
    pub(crate) routing: Routing,
    pub(crate) slots: &'a mut Slots<B>,
    pub(crate) scratch: &'a mut Scratch<B>,
    pub(crate) window: &'a Window,
    pub(crate) reads: &'a mut WeightReads,
}

impl<B: Backend> Pass<'_, B> {
    /// Runs `tokens` (one per window row) through the trunk; the streams end up in `scratch.x`.
    pub(crate) fn trunk(
        &mut self,
        tokens: &[u32],
        ngrams: NgramRows<'_>,
        probe: &mut dyn Probe,
    ) -> Result<(), Error> {
        let Self { backend, weights, slots, scratch, window, routing, reads } = self;
        let Scratch { x, layers, ple: ple_scratch, .. } = &mut **scratch;
        let hc = &weights.hc;
        let streams = window.rows() * hc.streams * hc.width;
        backend.embed(&weights.token_embd, tokens, hc.streams, x);
        reads.bytes += tokens.len() as u64 * weights.embed_row;
        observe(*backend, probe, 0, x, streams)?;

        let (backend, routing, reads) = (&mut **backend, *routing, &mut **reads);
        let mut pass = LayerPass { backend, hc, routing, window, scratch: layers, reads };
        if let Some(first) = weights.layers.first() {
            pass.foresee(first, x);
        }
        for (n, (layer, state)) in weights.layers.iter().zip(&mut slots.layers).enumerate() {
            if let (Some(ple), Some(buffers), Some(state)) =
                (&layer.ple, &mut *ple_scratch, &mut slots.ple)
            {
                pass.ple(ple, ngrams, state, (buffers, &mut *x))?;
            }
            let after = weights.layers.get(n + 1);
            pass.mix(layer, state, x);
            if let (true, Some(next)) = (probe.wants_routers(), after) {
                routers::early(&mut pass, probe, (n + 1, next), x)?;
            }
            pass.experts(layer, after, x);
            if probe.wants_routers() {
                routers::own(&mut pass, probe, n)?;
            }
            if let (true, Some(next)) = (probe.wants_routers(), after) {
                routers::late(&mut pass, probe, (n + 1, next), x)?;
            }
            if probe.wants_selection() && layer.is_attention() {
                let chosen = pass.backend.selected_blocks(&pass.scratch.attention.selection);
                probe.selected(n, &chosen);
            }
            observe(pass.backend, probe, n + 1, x, streams)?;
        }
        Ok(())
    }

    /// Enters what the slots of the window set aside into their states: runs without rows.
    pub(crate) fn replay(&mut self) {
        let Self { backend, weights, slots, scratch, window, routing, reads } = self;
        let Scratch { x, layers, ple: ple_scratch, .. } = &mut **scratch;
        let (backend, hc, routing, reads) = (&mut **backend, &weights.hc, *routing, &mut **reads);
        let mut pass = LayerPass { backend, hc, routing, window, scratch: layers, reads };
        for (layer, state) in weights.layers.iter().zip(&mut slots.layers) {
            if let (Some(ple), Some(buffers), Some(state)) =
                (&layer.ple, &mut *ple_scratch, &mut slots.ple)
            {
                pass.replay_ple(ple, state, (buffers, &mut *x));
            }
            pass.replay(layer, state);
        }
    }

    /// Appends the logits of the window rows `wanted` to `out`, whole rows of `vocab` values, or
    /// lists where those are enough for the rows' `draws`.
    pub(crate) fn head(
        &mut self,
        (wanted, draws): (&[usize], &[Option<Short>]),
        vocab: usize,
        out: &mut LogitRows,
    ) -> Result<(), Error> {
        let Self { backend, weights, scratch, reads, .. } = self;
        let (mixer, matrix, hc) = (&weights.output_hc, &weights.output, &weights.hc);
        let bytes = weights.output_bytes;
        let head = HeadWeights { mixer, matrix, bytes, hc, rows: vocab };
        reads.bytes += head.bytes_read(wanted.len());
        let Scratch { x, layers, head: buffers, .. } = &mut **scratch;
        let (backend, unused) = (&mut **backend, &mut layers.inject);
        for (rows, draws) in wanted.chunks(LOGIT_ROWS).zip(draws.chunks(LOGIT_ROWS)) {
            head.compute(backend, (x, rows), (buffers, unused));
            if draws.iter().all(Option::is_some) {
                let lists = backend.best(&buffers.logits, rows.len(), vocab)?;
                if let Some(lists) = enough(lists, draws) {
                    out.add_lists(lists.into_iter());
                    continue;
                }
            }
            backend.download(&buffers.logits, out.whole(rows.len(), vocab))?;
        }
        Ok(())
    }
}

/// The way from the streams to the logits.
pub(crate) struct HeadWeights<'a, B: Backend> {
    pub(crate) mixer: &'a HcReadWeights<B>,
    pub(crate) matrix: &'a B::Matrix,
    /// Bytes of the matrix.
    pub(crate) bytes: u64,
    pub(crate) hc: &'a HcShape,
    /// Rows of the matrix.
    pub(crate) rows: usize,
}

impl<B: Backend> HeadWeights<'_, B> {
    /// Bytes of weights that the logits of so many rows take.
    pub(crate) fn bytes_read(&self, wanted: usize) -> u64 {
        wanted.div_ceil(LOGIT_ROWS) as u64 * (self.mixer.bytes + self.bytes)
    }

    /// Appends the logits of the rows `wanted` of the streams `x` to `out`, `[wanted, rows]`.
    pub(crate) fn logits(
        &self,
        backend: &mut B,
        (x, wanted): (&B::Buffer, &[usize]),
        (head, unused): (&mut HeadScratch<B>, &mut B::Buffer),
        out: &mut Vec<f32>,
    ) -> Result<(), Error> {
        for rows in wanted.chunks(LOGIT_ROWS) {
            self.compute(backend, (x, rows), (head, unused));
            let start = out.len();
            out.resize(start + rows.len() * self.rows, 0.0);
            backend.download(&head.logits, &mut out[start..])?;
        }
        Ok(())
    }

    /// Leaves the logits of the rows `rows` of the streams `x`, at most [`LOGIT_ROWS`], in the
    /// scratch.
    fn compute(
        &self,
        backend: &mut B,
        (x, rows): (&B::Buffer, &[usize]),
        (head, unused): (&mut HeadScratch<B>, &mut B::Buffer),
    ) {
        let hc = self.hc;
        backend.gather_rows(x, rows, hc.streams * hc.width, (&mut head.x, 0));
        let read = HcRead { u: &mut head.h, weights: unused };
        backend.hc_read(hc, &self.mixer.weights(), &head.x, rows.len(), read);
        backend.matmul(self.matrix, &head.h, rows.len(), &mut head.logits);
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
