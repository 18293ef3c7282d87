//! Every operation of every family, timed, with the bytes that it has to move.

use super::part::{Moved, Part};
use super::{HostBackend, Timed, TimedMatrix, f32_bytes};
use kernels::gdn::{GdnInput, GdnSlot};
use kernels::hc::HcRead;
use kernels::host::{KvSlot, Selection};
use kernels::moe::{ExpertMatrices, GateUp, MoeChoice, RoutingDials, SharedExpert};
use kernels::mtp::MtpNorms;
use kernels::ple::PleInput;
use kernels::qsa::{AttendQuery, IndexQuery, QsaKeys};
use kernels::stored::StoredExperts;
use kernels::{
    Gdn, GdnShape, Gemv, Hc, HcShape, HcWeights, Head, Moe, Mtp, Ple, PleShape, PleWeights, Qsa,
    QsaShape, Window,
};
use std::ops::Range;

impl<B: HostBackend> Gemv for Timed<B> {
    fn matmul(&mut self, w: &Self::Matrix, x: &B::Buffer, rows: usize, y: &mut B::Buffer) {
        let moved = Moved::weights(w.expert_bytes);
        self.timed(w.part, moved, |inner| inner.matmul(&w.inner, x, rows, y));
    }
}

/// The matrices inside, and the bytes of an expert in them.
fn inner_gate_up<'a, M>(experts: &GateUp<'a, TimedMatrix<M>>) -> (GateUp<'a, M>, usize) {
    match *experts {
        GateUp::Separate { gate, up } => (
            GateUp::Separate { gate: &gate.inner, up: &up.inner },
            gate.expert_bytes + up.expert_bytes,
        ),
        GateUp::Fused(both) => (GateUp::Fused(&both.inner), both.expert_bytes),
    }
}

impl<B: HostBackend> Moe for Timed<B> {
    fn moe_plan(&mut self, logits: &B::Buffer, rows: usize, choice: MoeChoice, plan: &mut B::Plan) {
        let moved = Moved::nothing();
        self.timed(Part::MOE_PLAN, moved, |inner| inner.moe_plan(logits, rows, choice, plan));
    }

    fn experts_in_use(&self, plan: &B::Plan) -> Option<usize> {
        self.inner.experts_in_use(plan)
    }

    fn moe_gate_up(
        &mut self,
        plan: &B::Plan,
        experts: GateUp<'_, Self::Matrix>,
        u: &B::Buffer,
        act: &mut B::Buffer,
    ) {
        let (experts, bytes) = inner_gate_up(&experts);
        let moved = Moved::weights(plan.groups().len() * bytes);
        self.timed(Part::GATE_UP, moved, |inner| inner.moe_gate_up(plan, experts, u, act));
    }

    fn moe_down(
        &mut self,
        plan: &B::Plan,
        down: &Self::Matrix,
        act: &B::Buffer,
        part: &mut B::Buffer,
    ) {
        let moved = Moved::weights(plan.groups().len() * down.expert_bytes);
        self.timed(Part::DOWN, moved, |inner| inner.moe_down(plan, &down.inner, act, part));
    }

    fn moe_plan_dialled(
        &mut self,
        logits: &B::Buffer,
        rows: usize,
        choice: MoeChoice,
        dials: (&RoutingDials, &[bool]),
        plan: &mut B::Plan,
    ) {
        let call = |inner: &mut B| inner.moe_plan_dialled(logits, rows, choice, dials, plan);
        self.timed(Part::MOE_PLAN, Moved::nothing(), call);
    }

    fn moe_want(&mut self, plan: &B::Plan, stored: &StoredExperts) {
        self.inner.moe_want(plan, stored);
    }

    fn moe_experts(
        &mut self,
        plan: &B::Plan,
        experts: ExpertMatrices<'_, Self::Matrix>,
        u: &B::Buffer,
        (act, part): (&mut B::Buffer, &mut B::Buffer),
    ) {
        let ExpertMatrices { gate_up, down, stored } = experts;
        if stored.is_none() {
            self.moe_gate_up(plan, gate_up, u, act);
            self.moe_down(plan, down, act, part);
            return;
        }
        let (gate_up, bytes) = inner_gate_up(&gate_up);
        let moved = Moved::weights(plan.groups().len() * (bytes + down.expert_bytes));
        let experts = ExpertMatrices { gate_up, down: &down.inner, stored };
        let call = |inner: &mut B| inner.moe_experts(plan, experts, u, (act, part));
        self.timed(Part::STORED, moved, call);
    }

    fn swiglu(&mut self, a: &mut B::Buffer, b: &B::Buffer, len: usize) {
        self.timed(Part::SWIGLU, Moved::nothing(), |inner| inner.swiglu(a, b, len));
    }

    fn moe_combine(
        &mut self,
        plan: &B::Plan,
        part: &B::Buffer,
        shared: SharedExpert<'_, B::Buffer>,
        y: &mut B::Buffer,
    ) {
        let moved = Moved::nothing();
        self.timed(Part::COMBINE, moved, |inner| inner.moe_combine(plan, part, shared, y));
    }
}

impl<B: HostBackend> Gdn for Timed<B> {
    fn gdn_conv(
        &mut self,
        shape: &GdnShape,
        taps: &B::Vector,
        window: &Window,
        state: &mut B::GdnState,
        io: (&B::Buffer, &mut B::Buffer),
    ) {
        let state_bytes = read_and_written(window, shape.conv_len());
        let moved = Moved { weights: f32_bytes(taps.len()), state: state_bytes };
        let call = |inner: &mut B| inner.gdn_conv(shape, taps, window, state, io);
        self.timed(Part::GDN_CONV, moved, call);
    }

    fn gdn_scan(
        &mut self,
        shape: &GdnShape,
        window: &Window,
        input: GdnInput<'_, B::Buffer, B::Vector>,
        state: &mut B::GdnState,
        o: &mut B::Buffer,
    ) {
        let weights = f32_bytes(input.a.len() + input.dt.len());
        let moved = Moved { weights, state: read_and_written(window, shape.state_len()) };
        let call = |inner: &mut B| inner.gdn_scan(shape, window, input, state, o);
        self.timed(Part::GDN_SCAN, moved, call);
    }

    fn gdn_output_gate(
        &mut self,
        shape: &GdnShape,
        norm: &B::Vector,
        z: &B::Buffer,
        rows: usize,
        o: &mut B::Buffer,
    ) {
        let moved = Moved::weights(f32_bytes(norm.len()));
        let call = |inner: &mut B| inner.gdn_output_gate(shape, norm, z, rows, o);
        self.timed(Part::GDN_GATE, moved, call);
    }

    fn export_gdn(&mut self, state: &B::GdnState, slot: usize) -> GdnSlot {
        self.inner.export_gdn(state, slot)
    }

    fn import_gdn(
        &mut self,
        state: &mut B::GdnState,
        slot: usize,
        from: &GdnSlot,
    ) -> Result<(), kernels::Error> {
        self.inner.import_gdn(state, slot, from)
    }
}

impl<B: HostBackend> Qsa for Timed<B> {
    fn qsa_append(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        keys: QsaKeys<'_, B::Buffer, B::Vector>,
        state: &mut B::QsaState,
    ) {
        let (index_dim, index_norm) =
            keys.index.as_ref().map_or((0, 0), |(_, norm)| (shape.index_dim, norm.len()));
        let row_bytes = 2 * state.kv().bytes(shape.kv_dim()) + f32_bytes(index_dim);
        let state_bytes = window.rows() * row_bytes;
        let weights = f32_bytes(keys.k_norm.len() + index_norm);
        let moved = Moved { weights, state: state_bytes };
        let call = |inner: &mut B| inner.qsa_append(shape, window, keys, state);
        self.timed(Part::APPEND, moved, call);
    }

    fn qsa_select(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        query: Option<IndexQuery<'_, B::Buffer, B::Vector>>,
        state: &B::QsaState,
        selection: &mut Selection,
    ) {
        let weights = query.as_ref().map_or(0, |query| f32_bytes(query.norm.len()));
        let moved = Moved { weights, state: scored_bytes(shape, window) };
        let call = |inner: &mut B| inner.qsa_select(shape, window, query, state, selection);
        self.timed(Part::SELECT, moved, call);
    }

    fn qsa_attend(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        query: AttendQuery<'_, B::Buffer, B::Vector, Selection>,
        state: &B::QsaState,
        o: &mut B::Buffer,
    ) {
        let attended = attended(query.selection, window);
        let state_bytes = attended * 2 * state.kv().bytes(shape.kv_dim());
        let moved = Moved { weights: f32_bytes(query.norm.len()), state: state_bytes };
        let call = |inner: &mut B| inner.qsa_attend(shape, window, query, state, o);
        self.timed(Part::ATTEND, moved, call);
    }

    fn selected_blocks(&mut self, selection: &Selection) -> Vec<Vec<u32>> {
        self.inner.selected_blocks(selection)
    }

    fn export_qsa(&mut self, state: &B::QsaState, slot: usize) -> KvSlot {
        self.inner.export_qsa(state, slot)
    }

    fn export_qsa_rows(
        &mut self,
        shape: &QsaShape,
        state: &B::QsaState,
        slot: usize,
        rows: Range<usize>,
    ) -> KvSlot {
        self.inner.export_qsa_rows(shape, state, slot, rows)
    }

    fn import_qsa_rows(
        &mut self,
        shape: &QsaShape,
        state: &mut B::QsaState,
        slot: usize,
        piece: (usize, &KvSlot),
    ) -> Result<(), kernels::Error> {
        self.inner.import_qsa_rows(shape, state, slot, piece)
    }
}

impl<B: HostBackend> Hc for Timed<B> {
    fn hc_read(
        &mut self,
        shape: &HcShape,
        w: &HcWeights<'_, Self::Matrix, B::Vector>,
        x: &B::Buffer,
        rows: usize,
        out: HcRead<'_, B::Buffer>,
    ) {
        let matrices = [Some(w.down), Some(w.up), w.inject];
        let bytes: usize = matrices.iter().flatten().map(|matrix| matrix.expert_bytes).sum();
        let moved = Moved::weights(bytes + f32_bytes(w.norm.len()));
        let part = if w.inject.is_some() { Part::HC_READ } else { Part::OUTPUT_HC };
        let (down, up) = (&w.down.inner, &w.up.inner);
        let inject = w.inject.map(|matrix| &matrix.inner);
        let w = HcWeights { norm: w.norm, down, up, inject };
        self.timed(part, moved, |inner| inner.hc_read(shape, &w, x, rows, out));
    }

    fn hc_inject(
        &mut self,
        shape: &HcShape,
        weights: &B::Buffer,
        y: &B::Buffer,
        rows: usize,
        x: &mut B::Buffer,
    ) {
        let moved = Moved::nothing();
        self.timed(Part::HC_INJECT, moved, |inner| inner.hc_inject(shape, weights, y, rows, x));
    }
}

impl<B: HostBackend> Ple for Timed<B> {
    fn ple_gather(&mut self, table: &Self::Matrix, ids: &[u64], e: &mut B::Buffer) {
        let moved = Moved::weights(ids.len() * table.row_bytes);
        self.timed(Part::PLE_GATHER, moved, |inner| inner.ple_gather(&table.inner, ids, e));
    }

    fn ple_mix(
        &mut self,
        shape: &PleShape,
        w: &PleWeights<'_, B::Vector>,
        window: &Window,
        input: PleInput<'_, B::Buffer, B::PleState>,
        x: &mut B::Buffer,
    ) {
        let vectors = [w.norm_key, w.norm_query, w.norm_conv, w.taps];
        let weights = vectors.iter().map(|vector| f32_bytes(vector.len())).sum();
        let moved = Moved { weights, state: read_and_written(window, shape.conv_len()) };
        self.timed(Part::PLE_MIX, moved, |inner| inner.ple_mix(shape, w, window, input, x));
    }

    fn export_ple(&mut self, state: &B::PleState, slot: usize) -> Vec<f32> {
        self.inner.export_ple(state, slot)
    }

    fn import_ple(
        &mut self,
        state: &mut B::PleState,
        slot: usize,
        from: &[f32],
    ) -> Result<(), kernels::Error> {
        self.inner.import_ple(state, slot, from)
    }
}

impl<B: HostBackend> Head for Timed<B> {
    fn embed(&mut self, table: &Self::Matrix, tokens: &[u32], streams: usize, x: &mut B::Buffer) {
        let moved = Moved::weights(tokens.len() * table.row_bytes);
        self.timed(Part::EMBED, moved, |inner| inner.embed(&table.inner, tokens, streams, x));
    }

    fn gather_rows(
        &mut self,
        x: &B::Buffer,
        rows: &[usize],
        width: usize,
        out: (&mut B::Buffer, usize),
    ) {
        let moved = Moved::nothing();
        self.timed(Part::GATHER_ROWS, moved, |inner| inner.gather_rows(x, rows, width, out));
    }

    fn argmax(&mut self, logits: &B::Buffer, rows: usize, width: usize) -> Vec<Option<u32>> {
        self.inner.argmax(logits, rows, width)
    }
}

impl<B: HostBackend> Mtp for Timed<B> {
    fn mtp_input(
        &mut self,
        shape: &HcShape,
        norms: &MtpNorms<'_, B::Vector>,
        io: (&B::Buffer, &B::Buffer),
        rows: usize,
        out: &mut B::Buffer,
    ) {
        let moved = Moved::weights(f32_bytes(norms.embedding.len() + norms.streams.len()));
        self.timed(Part::MTP_INPUT, moved, |inner| inner.mtp_input(shape, norms, io, rows, out));
    }
}

/// Bytes of a state of `len` values per slot that each run of the window reads and writes once.
fn read_and_written(window: &Window, len: usize) -> usize {
    2 * f32_bytes(window.runs().len() * len)
}

/// Bytes of the block keys that the window's last rows score; where all blocks are within the
/// budget there is nothing to score.
fn scored_bytes(shape: &QsaShape, window: &Window) -> usize {
    let blocks = |len: usize| len.checked_div(shape.block).unwrap_or(0);
    let scored = window.runs().iter().map(|run| blocks(run.first_pos + run.len));
    let scored: usize = scored.filter(|&blocks| blocks > shape.max_blocks()).sum();
    f32_bytes(scored * shape.index_dim)
}

/// Cache positions that the window reads, those that rows of a run share counted once.
fn attended(selection: &Selection, window: &Window) -> usize {
    let of_run = |run: &kernels::Run| union(run.rows().flat_map(|row| selection.ranges(row)));
    window.runs().iter().map(of_run).sum()
}

/// Number of positions that are in any of the ranges.
fn union(ranges: impl Iterator<Item = Range<usize>>) -> usize {
    let mut ranges: Vec<Range<usize>> = ranges.collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let (mut count, mut end) = (0, 0);
    for range in ranges {
        count += range.end.saturating_sub(range.start.max(end));
        end = end.max(range.end);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranges_share_counts_once() {
        assert_eq!(union([0..3, 2..5, 8..9, 0..3].into_iter()), 6);
        assert_eq!(union([4..8, 0..100, 8..12].into_iter()), 100);
        assert_eq!(union(std::iter::empty()), 0);
    }
}
