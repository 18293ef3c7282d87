//! Family `moe`: the plan is made on the device and never read back.

use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use crate::elementwise::Elementwise;
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::params::params;
use crate::product::Pairs;
use crate::recorder::{Call, spread};
use crate::scratch::Scratch;
use crate::shader::{Shader, read, write};
use crate::tile::Width;
use kernels::Moe;
use kernels::moe::{GateUp, MoeChoice, SharedExpert};

const THREADS: u32 = 128;

params! {
    /// What the kernels of a plan are told.
    PlanParams {
        /// Rows of the window.
        rows: u32,
        /// All experts.
        experts: u32,
        /// Experts per row.
        used: u32,
        /// Pairs of a tile, at most.
        tile: u32,
        /// Tiles that there may be.
        tiles: u32,
        /// Workgroups along the first axis of the grid.
        grid: u32,
    }
}

/// A step of making a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PlanStep {
    /// Experts and weights of every row.
    Choose,
    /// Pairs by expert.
    Group,
}

impl PlanStep {
    pub(crate) fn shader(self) -> Shader {
        let (family, bindings, source) = match self {
            Self::Choose => (
                "plan_choose",
                vec![write("experts", "u32"), write("weights", "u32"), read("logits", "u32")],
                include_str!("../shaders/plan_choose.wgsl"),
            ),
            Self::Group => (
                "plan_group",
                vec![
                    write("starts", "vec2<u32>"),
                    write("order", "u32"),
                    write("tiles", "vec4<u32>"),
                    read("experts", "u32"),
                ],
                include_str!("../shaders/plan_group.wgsl"),
            ),
        };
        let sources = [include_str!("../shaders/order.wgsl"), source];
        Shader::new::<PlanParams>(family, &[("THREADS", THREADS)], bindings, &sources)
    }
}

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
        let starts = self.scratch(Scratch::Starts, 2 * (experts + 1))?;
        let buffers = plan.buffers.as_ref()?;
        let grid = spread(rows);
        let params = PlanParams {
            rows: rows as u32,
            experts: experts as u32,
            used: used as u32,
            tile: plan.width?.tokens(),
            tiles: plan.tile_count as u32,
            grid: grid[0],
        };
        let kernel = Kernel::Plan(PlanStep::Choose);
        let slices = [buffers.experts.all(), buffers.weights.all(), logits.all()];
        self.recorder.dispatch(&Call { kernel, buffers: &slices, constants: None, grid }, &params);
        let kernel = Kernel::Plan(PlanStep::Group);
        let grid = [1, 1, 1];
        let Buffers { experts, order, tiles, .. } = buffers;
        let slices = [starts.all(), order.all(), tiles.all(), experts.all()];
        self.recorder.dispatch(&Call { kernel, buffers: &slices, constants: None, grid }, &params);
        Some(())
    }

    fn gate_up(
        &mut self,
        plan: &Plan,
        experts: &GateUp<'_, Matrix>,
        u: &GpuBuffer,
        act: &GpuBuffer,
    ) -> Option<()> {
        let count = plan.rows * plan.used;
        let pairs = plan.pairs(plan.used)?;
        let (first, width) = match experts {
            GateUp::Separate { gate, .. } => (*gate, gate.n_out),
            GateUp::Fused(both) => (*both, both.n_out / 2),
        };
        assert!(act.len() >= count * width, "{count} pairs of {width} results");
        let x = self.ready(first, u, plan.rows)?;
        let gate_out = self.scratch(Scratch::Gate, count * first.n_out)?;
        self.expert_product(first, &x, pairs, &gate_out);
        if let GateUp::Separate { up, .. } = experts {
            assert_eq!((up.n_in, up.n_out), (first.n_in, width), "gate and up differ");
            let x =
                if self.path(up) == self.path(first) { x } else { self.ready(up, u, plan.rows)? };
            let up_out = self.scratch(Scratch::Up, count * width)?;
            self.expert_product(up, &x, pairs, &up_out);
            let buffers = [act.all(), gate_out.all(), up_out.all()];
            self.elementwise(Elementwise::SwigluPair, &buffers, None, (count, width, 0));
        } else {
            let buffers = [act.all(), gate_out.all()];
            self.elementwise(Elementwise::SwigluRows, &buffers, None, (count, width, 0));
        }
        Some(())
    }
}

impl Moe for Gpu {
    fn moe_plan(&mut self, logits: &GpuBuffer, rows: usize, choice: MoeChoice, plan: &mut Plan) {
        let MoeChoice { experts, used } = choice;
        assert!(0 < used && used <= experts, "{used} of {experts} experts");
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
        self.gate_up(plan, &experts, u, act);
    }

    fn moe_down(&mut self, plan: &Plan, down: &Matrix, act: &GpuBuffer, part: &mut GpuBuffer) {
        let count = plan.rows * plan.used;
        assert!(part.len() >= count * down.n_out, "{count} pairs of {} results", down.n_out);
        let Some(pairs) = plan.pairs(1) else { return };
        if let Some(x) = self.ready(down, act, count) {
            self.expert_product(down, &x, pairs, part);
        }
    }

    fn swiglu(&mut self, a: &mut GpuBuffer, b: &GpuBuffer, len: usize) {
        assert!(len <= a.len() && len <= b.len(), "{len} values of {} and {}", a.len(), b.len());
        self.elementwise(Elementwise::Swiglu, &[a.all(), b.all()], None, (1, len, 0));
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
        let Some(Buffers { weights, .. }) = &plan.buffers else { return };
        let buffers = [y.all(), shared.y.all(), part.all(), weights.all(), shared.gate.all()];
        self.elementwise(Elementwise::Combine, &buffers, None, (rows, width, used));
    }
}
