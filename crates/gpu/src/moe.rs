//! Family `moe`: the plan is made on the device and not read back, unless the device lacks some of
//! the experts (`split`).

use crate::buffer::{GpuBuffer, Held, Slice};
use crate::device::Gpu;
use crate::elementwise::Elementwise;
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::open::Combination;
use crate::plan_kernels::{FewPlan, PlanParams, PlanStep, SwigluCodes, THREADS};
use crate::product::Pairs;
use crate::recorder::{Call, spread};
use crate::scratch::Scratch;
use crate::tile::Width;
use kernels::Moe;
use kernels::moe::{ExpertMatrices, GateUp, MoeChoice, SharedExpert};

/// Rows of a window whose plan one workgroup makes.
const FEW_ROWS: usize = 8;

/// Most experts: they are counted in workgroup memory.
const MOST_EXPERTS: usize = 2048;

/// The rows of a window grouped by expert, on the device.
#[derive(Debug, Default)]
pub struct Plan {
    rows: usize,
    used: usize,
    tile_count: usize,
    /// Pairs of a tile, at most; `None` before the first choice.
    width: Option<Width>,
    buffers: Option<Buffers>,
}

#[derive(Debug)]
struct Buffers {
    /// `[rows, used]`.
    experts: GpuBuffer,
    /// `[rows, used]`.
    weights: GpuBuffer,
    /// Pairs by expert.
    order: GpuBuffer,
    /// `[tiles, 4]`: expert, first place in `order`, pairs.
    tiles: GpuBuffer,
}

impl Plan {
    /// For products; `None` if memory was short.
    fn pairs(&self, pairs_per_x: usize) -> Option<Pairs<'_>> {
        let Buffers { order, tiles, .. } = self.buffers.as_ref()?;
        let (tile_count, width) = (self.tile_count, self.width?);
        Some(Pairs { tiles, order, tile_count, width, pairs_per_x, rows: self.rows })
    }

    /// Rows of the window, and experts of each.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.rows, self.used)
    }

    /// The chosen experts `[rows, used]`, and how their pairs are multiplied; `None` if memory was
    /// short.
    pub(crate) fn chosen(&self) -> Option<(&GpuBuffer, Width)> {
        Some((&self.buffers.as_ref()?.experts, self.width?))
    }

    /// Makes room for so many pairs and tiles.
    fn reserve(&mut self, gpu: &mut Gpu, pairs: usize) -> Option<()> {
        let fits = |b: &Buffers| b.order.len() >= pairs && b.tiles.len() >= 4 * self.tile_count;
        if !self.buffers.as_ref().is_some_and(fits) {
            let mut make = |len: usize| gpu.kept_alloc(len, "expert plans");
            let (experts, weights, order) = (make(pairs)?, make(pairs)?, make(pairs)?);
            let tiles = make(4 * self.tile_count)?;
            self.buffers = Some(Buffers { experts, weights, order, tiles });
        }
        Some(())
    }
}

impl Gpu {
    fn plan(&mut self, logits: &GpuBuffer, choice: MoeChoice, plan: &mut Plan) -> Option<()> {
        let MoeChoice { experts, used } = choice;
        let (rows, pairs) = (plan.rows, plan.rows * used);
        plan.reserve(self, pairs)?;
        let Buffers { experts: chosen, weights, order, tiles } = plan.buffers.as_ref()?;
        let grid = spread(rows);
        let params = PlanParams {
            rows: rows as u32,
            experts: experts as u32,
            used: used as u32,
            tile: plan.width?.tokens(),
            tiles: plan.tile_count as u32,
            grid: grid[0],
            vectors: 0,
        };
        if pairs <= THREADS as usize && rows <= FEW_ROWS {
            let buffers = [chosen, weights, logits, order, tiles];
            buffers.iter().for_each(|buffer| buffer.touch());
            let buffers = buffers.map(Held::new).to_vec();
            self.recorder.plan(FewPlan { buffers, params });
            return Some(());
        }
        let mut dispatch = |step, buffers: &[Slice<'_>], grid| {
            let call = Call { kernel: Kernel::Plan(step), buffers, constants: None, grid };
            self.recorder.dispatch(&call, &params);
        };
        let (chosen, weights, logits) = (chosen.all(), weights.all(), logits.all());
        let (order, tiles) = (order.all(), tiles.all());
        dispatch(PlanStep::Choose(experts as u32), &[chosen, weights, logits], grid);
        dispatch(PlanStep::Group(experts as u32), &[order, tiles, chosen], [1, 1, 1]);
        Some(())
    }

    /// Gate, up and SwiGLU of some pairs, of `count` that the window has.
    pub(crate) fn gate_up(
        &mut self,
        (pairs, count): (Pairs<'_>, usize),
        experts: &GateUp<'_, Matrix>,
        u: &GpuBuffer,
        act: &GpuBuffer,
    ) -> Option<()> {
        let (first, width) = match experts {
            GateUp::Separate { gate, .. } => (*gate, gate.n_out),
            GateUp::Fused(both) => (*both, both.n_out / 2),
        };
        assert!(act.len() >= count * width, "{count} pairs of {width} results");
        let x = self.ready(first, u, pairs.rows)?;
        let gate_out = self.scratch(Scratch::Gate, count * first.n_out)?;
        self.expert_product(first, &x, pairs, &gate_out);
        if let GateUp::Separate { up, .. } = experts {
            assert_eq!((up.n_in, up.n_out), (first.n_in, width), "gate and up differ");
            let x =
                if self.path(up) == self.path(first) { x } else { self.ready(up, u, pairs.rows)? };
            let up_out = self.scratch(Scratch::Up, count * width)?;
            self.expert_product(up, &x, pairs, &up_out);
            self.swiglu_to(act, &[&gate_out, &up_out], (count, width));
        } else {
            self.swiglu_to(act, &[&gate_out], (count, width));
        }
        Some(())
    }

    /// Down of some pairs, of `count` that the window has.
    pub(crate) fn down(
        &mut self,
        (pairs, count): (Pairs<'_>, usize),
        down: &Matrix,
        act: &GpuBuffer,
        part: &GpuBuffer,
    ) -> Option<()> {
        assert!(part.len() >= count * down.n_out, "{count} pairs of {} results", down.n_out);
        let x = self.ready(down, act, count)?;
        self.expert_product(down, &x, pairs, part);
        Some(())
    }
}

impl Gpu {
    /// `act = silu(gate) * up` of gates and up projections that lie apart, or in one buffer row by
    /// row; in 8 bits too where products may want them.
    fn swiglu_to(&mut self, act: &GpuBuffer, from: &[&GpuBuffer], (rows, width): (usize, usize)) {
        let from = from.iter().map(|buffer| buffer.all());
        let apart = from.len() == 2;
        if let Some([codes, scales]) = self.codes_for(act, rows * width, width) {
            let kernel =
                if apart { Elementwise::SwigluPairCodes } else { Elementwise::SwigluRowsCodes };
            let buffers: Vec<_> =
                [act.all(), codes.all(), scales.all()].into_iter().chain(from).collect();
            self.elementwise(kernel, &buffers, None, (rows, width / 4, 0));
            self.note_codes(act, rows * width);
        } else {
            let kernel = if apart { Elementwise::SwigluPair } else { Elementwise::SwigluRows };
            let buffers: Vec<_> = [act.all()].into_iter().chain(from).collect();
            self.elementwise(kernel, &buffers, None, (rows, width, 0));
        }
    }

    /// `a = silu(a) * b`.
    fn swiglu_here(&mut self, a: &GpuBuffer, b: &GpuBuffer, len: usize) {
        if let Some([codes, scales]) = self.codes_for(a, len, len) {
            let held = [a, &*codes, &*scales, b].map(Held::new);
            let swiglu = SwigluCodes { buffers: held, vectors: len / 4 };
            if self.recorder.beside_plan(swiglu) {
                a.touch();
            } else {
                let buffers = [a.all(), codes.all(), scales.all(), b.all()];
                self.elementwise(Elementwise::SwigluCodes, &buffers, None, (1, len / 4, 0));
            }
            self.note_codes(a, len);
        } else {
            self.elementwise(Elementwise::Swiglu, &[a.all(), b.all()], None, (1, len, 0));
        }
    }
}

impl Moe for Gpu {
    fn moe_plan(&mut self, logits: &GpuBuffer, rows: usize, choice: MoeChoice, plan: &mut Plan) {
        let MoeChoice { experts, used } = choice;
        assert!(0 < used && used <= experts, "{used} of {experts} experts");
        assert!(experts <= MOST_EXPERTS, "{experts} experts, of which {MOST_EXPERTS} are counted");
        assert!(logits.len() >= rows * experts, "{rows} rows of {experts} logits");
        plan.rows = rows;
        plan.used = used;
        let pairs = rows * used;
        let width = Width::of_pairs(rows, pairs, experts);
        plan.width = Some(width);
        // Each expert in use may have one tile that is not full.
        plan.tile_count = pairs.min(experts + pairs / width.tokens() as usize);
        // A lack of memory is kept as a fault; what is computed with the plan is void then.
        if self.plan(logits, choice, plan).is_none() {
            plan.buffers = None;
        }
    }

    fn moe_gate_up(
        &mut self,
        plan: &Plan,
        experts: GateUp<'_, Matrix>,
        u: &GpuBuffer,
        act: &mut GpuBuffer,
    ) {
        let (GateUp::Separate { gate: first, .. } | GateUp::Fused(first)) = experts;
        assert!(first.divided.is_none(), "{} is not all here", first.name);
        let Some(pairs) = plan.pairs(plan.used) else { return };
        self.gate_up((pairs, plan.rows * plan.used), &experts, u, act);
    }

    fn moe_down(&mut self, plan: &Plan, down: &Matrix, act: &GpuBuffer, part: &mut GpuBuffer) {
        assert!(down.divided.is_none(), "{} is not all here", down.name);
        let Some(pairs) = plan.pairs(1) else { return };
        self.down((pairs, plan.rows * plan.used), down, act, part);
    }

    /// Experts that are not on the device are multiplied by the processors, at the same time.
    fn moe_experts(
        &mut self,
        plan: &Plan,
        experts: ExpertMatrices<'_, Matrix>,
        u: &GpuBuffer,
        (act, part): (&mut GpuBuffer, &mut GpuBuffer),
    ) {
        if !self.divided_experts(plan, &experts, u, (act, part)) {
            self.moe_gate_up(plan, experts.gate_up, u, act);
            self.moe_down(plan, experts.down, act, part);
        }
    }

    fn swiglu(&mut self, a: &mut GpuBuffer, b: &GpuBuffer, len: usize) {
        assert!(len <= a.len() && len <= b.len(), "{len} values of {} and {}", a.len(), b.len());
        self.swiglu_here(a, b, len);
    }

    fn moe_combine(
        &mut self,
        plan: &Plan,
        part: &GpuBuffer,
        shared: SharedExpert<'_, GpuBuffer>,
        y: &mut GpuBuffer,
    ) {
        let (rows, used, width) = (plan.rows, plan.used, shared.width);
        assert!(part.len() >= rows * used * width, "parts of {rows} rows");
        assert!(shared.y.len().min(y.len()) >= rows * width, "{rows} rows of {width}");
        assert!(shared.gate.len() >= rows, "gates of {rows} rows");
        let Some(Buffers { experts, weights, order, tiles }) = &plan.buffers else { return };
        let buffers = [&*y, shared.y, part, weights, shared.gate].map(Held::new);
        y.touch();
        let (used, experts) = (used as u32, Held::new(experts));
        let tiles_and_order = [tiles, order].map(Held::new);
        let combination = Combination { used, rows, width, buffers, experts, tiles_and_order };
        self.recorder.combine(combination);
    }
}
