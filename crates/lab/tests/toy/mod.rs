//! A backend that computes as the reference does, but for products in which it commits a chosen
//! fault.
#![allow(dead_code, reason = "every test file uses its own part")]

mod tiles;

use kernels::gdn::{GdnInput, GdnSlot};
use kernels::hc::HcRead;
use kernels::host::{GdnState, KvSlot, Plan, PleState, QsaState, Selection};
use kernels::moe::{GateUp, MoeChoice, SharedExpert};
use kernels::mtp::MtpNorms;
use kernels::ple::PleInput;
use kernels::qsa::{AttendQuery, IndexQuery};
use kernels::reference::Reference;
use kernels::tiles::Tile;
use kernels::{
    Activations, Device, Error, Gdn, GdnShape, Gemv, Hc, HcShape, HcWeights, Head, Moe, Mtp, Ple,
    PleShape, PleWeights, Qsa, QsaKeys, QsaShape, Weight, Window,
};
use lab::bound::INT8_GROUP;
use std::ops::Range;

/// What the toy does in a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// As the reference.
    Exact,
    /// Activations of matrices that allow it are brought to 8 bits, as they may be.
    EightBits,
    /// So are those of matrices that do not allow it.
    EightBitsAlways,
    /// One result of the last row is off by a twentieth.
    WrongValue,
    /// One result is NaN.
    Nan,
    /// The last result is not written.
    Untouched,
    /// One value too many is written.
    PastEnd,
    /// The last 32 activations are taken to be the 32 before them.
    NeighbourGroup,
    /// 8 bits, the codes of the last 32 with the scale of the 32 before them.
    NeighbourScale,
    /// NaN and infinite activations count as zero.
    HidesNan,
    /// A row of a larger window is rounded otherwise.
    Company,
    /// The second row of weights is used for the first.
    WrongRow,
    /// With the tile `harmless=2` its driver refuses the kernel.
    Refused,
    /// With the tile `harmless=2` the device is lost.
    Lost,
}

#[derive(Debug)]
pub(crate) struct Toy {
    way: Way,
    /// The tile that every product uses.
    tile: Tile,
}

/// A matrix and what it was loaded for.
#[derive(Debug)]
pub(crate) struct Matrix(Weight, Activations);

/// The scale that brings `x` to 8 bits.
fn scale(x: &[f32]) -> f32 {
    // A NaN stays one.
    let amax = x.iter().fold(0f32, |m, x| if x.abs() <= m { m } else { x.abs() });
    amax / 127.0
}

fn eight_bits(x: &mut [f32], d: f32) {
    let by = if d == 0.0 { 0.0 } else { 1.0 / d };
    // A group whose scale is no normal number vanishes.
    let by = if by.is_infinite() { 0.0 } else { by };
    x.iter_mut().for_each(|x| *x = (*x * by).round().clamp(-127.0, 127.0) * d);
}

impl Toy {
    /// A toy that computes in this way.
    pub(crate) fn new(way: Way) -> Self {
        Self { way, tile: Tile::default() }
    }

    /// The activations as the toy sees them.
    fn see(&self, x: &mut [f32], n_in: usize, activations: Activations) {
        let Self { way, .. } = self;
        let rounds = match way {
            Way::EightBits | Way::NeighbourScale => activations == Activations::Int8,
            Way::EightBitsAlways => true,
            _ => false,
        };
        for row in x.chunks_exact_mut(n_in) {
            let last = n_in - INT8_GROUP;
            if *way == Way::NeighbourGroup {
                row.copy_within(last - INT8_GROUP..last, last);
            }
            if *way == Way::HidesNan {
                row.iter_mut().filter(|x| !x.is_finite()).for_each(|x| *x = 0.0);
            }
            if rounds {
                let scales: Vec<f32> = row.chunks(INT8_GROUP).map(scale).collect();
                let groups = row.chunks_mut(INT8_GROUP);
                groups.zip(&scales).for_each(|(group, d)| eight_bits(group, *d));
                if let ([.., before, own], Way::NeighbourScale) = (&scales[..], way) {
                    row[last..].iter_mut().for_each(|x| *x *= before / own);
                }
            }
        }
    }
}

impl Gemv for Toy {
    fn matmul(&mut self, w: &Matrix, x: &Vec<f32>, rows: usize, y: &mut Vec<f32>) {
        let Matrix(weight, activations) = w;
        let (mut x, end) = (x.clone(), rows * weight.n_out());
        if self.skips() {
            return y[..end].fill(0.0);
        }
        self.see(&mut x, weight.n_in(), *activations);
        let untouched = y[end - 1];
        Reference.matmul(weight, &x, rows, y);
        match self.way {
            Way::WrongValue => y[end - 5] *= 1.05,
            Way::Nan => y[end / 2] = f32::NAN,
            Way::Untouched => y[end - 1] = untouched,
            Way::PastEnd => y[end] = 0.0,
            Way::Company if rows > 1 => y.iter_mut().for_each(|y| *y *= 1.0 + f32::EPSILON),
            Way::WrongRow => y[0] = y[1],
            _ => {}
        }
        self.cut(&mut y[..end]);
    }
}

impl Device for Toy {
    type Matrix = Matrix;

    kernels::host_memory!();

    fn name(&self) -> &'static str {
        "toy"
    }

    fn load_matrix(&mut self, weight: &Weight, activations: Activations) -> Result<Matrix, Error> {
        self.faults()?;
        Ok(Matrix(Reference.load_matrix(weight, activations)?, activations))
    }

    fn load_vector(&mut self, weight: &Weight) -> Result<Vec<f32>, Error> {
        Reference.load_vector(weight)
    }
}

impl Moe for Toy {
    fn moe_plan(&mut self, logits: &Vec<f32>, rows: usize, choice: MoeChoice, plan: &mut Plan) {
        Reference.moe_plan(logits, rows, choice, plan);
    }

    fn moe_gate_up(
        &mut self,
        plan: &Plan,
        experts: GateUp<'_, Matrix>,
        u: &Vec<f32>,
        act: &mut Vec<f32>,
    ) {
        let (experts, first) = match experts {
            // The fault: gate and up change places.
            GateUp::Separate { gate, up } if self.way == Way::WrongRow => {
                (GateUp::Separate { gate: &up.0, up: &gate.0 }, gate)
            }
            GateUp::Separate { gate, up } => (GateUp::Separate { gate: &gate.0, up: &up.0 }, gate),
            GateUp::Fused(both) => (GateUp::Fused(&both.0), both),
        };
        let mut u = u.clone();
        self.see(&mut u, first.0.n_in(), first.1);
        Reference.moe_gate_up(plan, experts, &u, act);
        self.cut(&mut act[..1]);
    }

    fn moe_down(&mut self, plan: &Plan, down: &Matrix, act: &Vec<f32>, part: &mut Vec<f32>) {
        let mut act = act.clone();
        self.see(&mut act, down.0.n_in(), down.1);
        Reference.moe_down(plan, &down.0, &act, part);
        if self.way == Way::WrongRow {
            part[0] = part[1];
        }
        self.cut(&mut part[..1]);
    }

    fn swiglu(&mut self, a: &mut Vec<f32>, b: &Vec<f32>, len: usize) {
        Reference.swiglu(a, b, len);
    }

    fn moe_combine(
        &mut self,
        plan: &Plan,
        part: &Vec<f32>,
        shared: SharedExpert<'_, Vec<f32>>,
        y: &mut Vec<f32>,
    ) {
        Reference.moe_combine(plan, part, shared, y);
    }
}

impl Hc for Toy {
    /// The reference's formula around the toy's products.
    fn hc_read(
        &mut self,
        shape: &HcShape,
        w: &HcWeights<'_, Matrix, Vec<f32>>,
        x: &Vec<f32>,
        rows: usize,
        out: HcRead<'_, Vec<f32>>,
    ) {
        let HcShape { streams, width, eps } = *shape;
        let (wide, s) = (streams * width, streams as f32);
        let mut n = Vec::new();
        for (i, x) in x.chunks_exact(width).enumerate() {
            let mean = x.iter().map(|x| x * x).sum::<f32>() / width as f32;
            let norm = &w.norm[i % streams * width..][..width];
            n.extend(x.iter().zip(norm).map(|(x, norm)| x / (mean + eps).sqrt() * norm));
        }
        let sigmoid = kernels::scalar::sigmoid;
        // One value more than the results, for the fault that writes it.
        let mut low = vec![0.0; rows * w.down.0.n_out() + 1];
        self.matmul(w.down, &n, rows, &mut low);
        low.iter_mut().for_each(|v| *v = kernels::scalar::silu(*v / s));
        low.pop();
        let mut gate = vec![0.0; rows * wide + 1];
        self.matmul(w.up, &low, rows, &mut gate);
        for (i, u) in out.u[..rows * width].iter_mut().enumerate() {
            let at = |stream: usize| i / width * wide + stream * width + i % width;
            *u = (0..streams).map(|stream| sigmoid(gate[at(stream)]) * n[at(stream)]).sum::<f32>()
                / s;
        }
        if let Some(inject) = w.inject {
            Reference.matmul(&inject.0, &n, rows, out.weights);
            let weights = &mut out.weights[..rows * streams];
            weights.iter_mut().for_each(|v| *v = 2.0 * sigmoid(*v / s));
        }
    }

    fn hc_inject(
        &mut self,
        shape: &HcShape,
        weights: &Vec<f32>,
        y: &Vec<f32>,
        rows: usize,
        x: &mut Vec<f32>,
    ) {
        Reference.hc_inject(shape, weights, y, rows, x);
    }
}

impl Gdn for Toy {
    fn gdn_conv(
        &mut self,
        shape: &GdnShape,
        taps: &Vec<f32>,
        window: &Window,
        state: &mut GdnState,
        io: (&Vec<f32>, &mut Vec<f32>),
    ) {
        Reference.gdn_conv(shape, taps, window, state, io);
    }

    fn gdn_scan(
        &mut self,
        shape: &GdnShape,
        window: &Window,
        input: GdnInput<'_, Vec<f32>, Vec<f32>>,
        state: &mut GdnState,
        o: &mut Vec<f32>,
    ) {
        Reference.gdn_scan(shape, window, input, state, o);
        if self.way == Way::WrongValue {
            state.scan_mut().0[window.runs()[0].slot * shape.state_len() + 1] += 1e-3;
        }
    }

    fn gdn_output_gate(
        &mut self,
        shape: &GdnShape,
        norm: &Vec<f32>,
        z: &Vec<f32>,
        rows: usize,
        o: &mut Vec<f32>,
    ) {
        Reference.gdn_output_gate(shape, norm, z, rows, o);
    }

    fn export_gdn(&mut self, state: &GdnState, slot: usize) -> GdnSlot {
        Reference.export_gdn(state, slot)
    }

    fn import_gdn(
        &mut self,
        state: &mut GdnState,
        slot: usize,
        from: &GdnSlot,
    ) -> Result<(), Error> {
        Reference.import_gdn(state, slot, from)
    }
}

impl Qsa for Toy {
    fn qsa_append(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        keys: QsaKeys<'_, Vec<f32>, Vec<f32>>,
        state: &mut QsaState,
    ) {
        Reference.qsa_append(shape, window, keys, state);
    }

    fn qsa_select(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        query: Option<IndexQuery<'_, Vec<f32>, Vec<f32>>>,
        state: &QsaState,
        selection: &mut Selection,
    ) {
        // The fault: one block fewer may be chosen.
        let fewer = QsaShape { budget: shape.budget.saturating_sub(shape.block), ..*shape };
        let shape = if self.way == Way::WrongRow { &fewer } else { shape };
        Reference.qsa_select(shape, window, query, state, selection);
    }

    fn qsa_attend(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        query: AttendQuery<'_, Vec<f32>, Vec<f32>, Selection>,
        state: &QsaState,
        o: &mut Vec<f32>,
    ) {
        Reference.qsa_attend(shape, window, query, state, o);
    }

    fn selected_blocks(&mut self, selection: &Selection) -> Vec<Vec<u32>> {
        Reference.selected_blocks(selection)
    }

    fn export_qsa(&mut self, state: &QsaState, slot: usize) -> KvSlot {
        Reference.export_qsa(state, slot)
    }

    fn export_qsa_rows(
        &mut self,
        shape: &QsaShape,
        state: &QsaState,
        slot: usize,
        rows: Range<usize>,
    ) -> KvSlot {
        Reference.export_qsa_rows(shape, state, slot, rows)
    }

    fn import_qsa_rows(
        &mut self,
        shape: &QsaShape,
        state: &mut QsaState,
        slot: usize,
        piece: (usize, &KvSlot),
    ) -> Result<(), Error> {
        Reference.import_qsa_rows(shape, state, slot, piece)
    }
}

impl Ple for Toy {
    fn ple_gather(&mut self, table: &Matrix, ids: &[u64], e: &mut Vec<f32>) {
        Reference.ple_gather(&table.0, ids, e);
    }

    fn ple_mix(
        &mut self,
        shape: &PleShape,
        w: &PleWeights<'_, Vec<f32>>,
        window: &Window,
        input: PleInput<'_, Vec<f32>, PleState>,
        x: &mut Vec<f32>,
    ) {
        Reference.ple_mix(shape, w, window, input, x);
    }

    fn export_ple(&mut self, state: &PleState, slot: usize) -> Vec<f32> {
        let mut history = Reference.export_ple(state, slot);
        if self.way == Way::WrongRow {
            history.rotate_left(1);
        }
        history
    }

    fn import_ple(&mut self, state: &mut PleState, slot: usize, from: &[f32]) -> Result<(), Error> {
        Reference.import_ple(state, slot, from)
    }
}

impl Mtp for Toy {
    fn mtp_input(
        &mut self,
        shape: &HcShape,
        norms: &MtpNorms<'_, Vec<f32>>,
        io: (&Vec<f32>, &Vec<f32>),
        rows: usize,
        out: &mut Vec<f32>,
    ) {
        Reference.mtp_input(shape, norms, io, rows, out);
        if self.way == Way::WrongRow {
            // The fault: streams before the embedding.
            out[..2 * shape.width].rotate_left(shape.width);
        }
    }
}

impl Head for Toy {
    fn embed(&mut self, table: &Matrix, tokens: &[u32], streams: usize, x: &mut Vec<f32>) {
        Reference.embed(&table.0, tokens, streams, x);
    }

    fn gather_rows(
        &mut self,
        x: &Vec<f32>,
        rows: &[usize],
        width: usize,
        out: (&mut Vec<f32>, usize),
    ) {
        Reference.gather_rows(x, rows, width, out);
    }

    fn argmax(&mut self, logits: &Vec<f32>, rows: usize, width: usize) -> Vec<Option<u32>> {
        let mut best = Reference.argmax(logits, rows, width);
        if self.way == Way::WrongRow {
            // The fault: of equal logits the last.
            best[1] = best[1].map(|_| width as u32 - 1);
        }
        best
    }
}
