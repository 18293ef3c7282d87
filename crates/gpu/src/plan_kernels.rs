//! The kernels that make a plan.

use crate::buffer::Held;
use crate::kernel::Kernel;
use crate::open::SharedCall;
use crate::params::params;
use crate::shader::{Shader, read, write};

/// Threads of a workgroup that plans.
pub(crate) const THREADS: u32 = 256;

/// Threads that choose the experts of a row, of so many: keys of all are in workgroup memory.
fn group(experts: u32) -> u32 {
    if experts <= 1024 { 128 } else { THREADS }
}

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
        /// Vectors of the shared expert's activation that are made besides.
        vectors: u32,
    }
}

/// A step of making a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PlanStep {
    /// All of it, for windows of few pairs, of so many experts.
    Few(u32),
    /// The same beside the shared expert's activation.
    FewBeside(u32),
    /// Experts and weights of every row.
    Choose(u32),
    /// Pairs by expert, of so many experts.
    Group(u32),
}

impl PlanStep {
    pub(crate) fn shader(self) -> Shader {
        let chosen = [write("experts", "u32"), write("weights", "u32"), read("logits", "u32")];
        let grouped = [write("order", "u32"), write("tiles", "vec4<u32>")];
        let order = include_str!("../shaders/order.wgsl");
        let choose = include_str!("../shaders/plan_choose.wgsl");
        match self {
            Self::Few(experts) | Self::FewBeside(experts) => {
                let group = ("GROUP", group(experts));
                let constants = [("THREADS", THREADS), group, ("EXPERTS", experts)];
                let mut bindings: Vec<_> = chosen.into_iter().chain(grouped).collect();
                let mut sources = vec![order, choose, include_str!("../shaders/plan_few.wgsl")];
                if matches!(self, Self::Few(_)) {
                    sources.push(include_str!("../shaders/plan_alone.wgsl"));
                    return Shader::new::<PlanParams>("plan_few", &constants, bindings, &sources);
                }
                bindings.extend([write("out", "vec4<f32>"), write("codes", "u32")]);
                bindings.extend([write("scales", "vec2<u32>"), read("x", "vec4<f32>")]);
                sources.extend([
                    include_str!("../shaders/math.wgsl"),
                    include_str!("../shaders/swiglu_from_out.wgsl"),
                    include_str!("../shaders/swiglu_codes.wgsl"),
                    include_str!("../shaders/codes.wgsl"),
                    include_str!("../shaders/plan_beside.wgsl"),
                ]);
                Shader::new::<PlanParams>("plan_beside", &constants, bindings, &sources)
            }
            Self::Choose(experts) => {
                let group = group(experts);
                let constants = [("THREADS", group), ("GROUP", group), ("EXPERTS", experts)];
                let sources = [order, choose, include_str!("../shaders/plan_rows.wgsl")];
                Shader::new::<PlanParams>("plan_choose", &constants, chosen.to_vec(), &sources)
            }
            Self::Group(experts) => {
                let constants = [("THREADS", THREADS), ("EXPERTS", experts)];
                let bindings = grouped.into_iter().chain([read("experts", "u32")]).collect();
                let sources = [include_str!("../shaders/plan_group.wgsl")];
                Shader::new::<PlanParams>("plan_group", &constants, bindings, &sources)
            }
        }
    }
}

/// A plan of few pairs that is not recorded yet.
#[derive(Debug)]
pub(crate) struct FewPlan {
    /// Experts and weights of every row, logits, order, tiles.
    pub(crate) buffers: Vec<Held>,
    pub(crate) params: PlanParams,
}

/// `a = silu(a) * b`, in 8 bits too.
#[derive(Debug)]
pub(crate) struct SwigluCodes {
    /// a, codes, scales, b.
    pub(crate) buffers: [Held; 4],
    /// Vectors of four.
    pub(crate) vectors: usize,
}

impl FewPlan {
    /// Whether the two have nothing to do with each other.
    pub(crate) fn takes(&self, swiglu: &SwigluCodes) -> bool {
        swiglu.buffers.iter().all(|buffer| !self.buffers.contains(buffer))
    }

    pub(crate) fn call(self, swiglu: Option<SwigluCodes>) -> SharedCall {
        let Self { mut buffers, mut params } = self;
        let mut step = PlanStep::Few(params.experts);
        let mut grid = [1, 1, 1];
        if let Some(swiglu) = swiglu {
            step = PlanStep::FewBeside(params.experts);
            params.vectors = swiglu.vectors as u32;
            grid[0] += params.vectors.div_ceil(THREADS);
            buffers.extend(swiglu.buffers);
        }
        let params = bytemuck::cast_slice(&[params]).to_vec();
        SharedCall { kernel: Kernel::Plan(step), buffers, constants: None, params, grid }
    }
}
