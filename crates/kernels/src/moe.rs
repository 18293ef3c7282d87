//! Family `moe` (and `moe_mm` for prompts): routed experts and the shared expert.

use crate::Device;
use crate::stored::StoredExperts;

/// Routed experts over the rows of a window, each expert's weights read once.
///
/// A *pair* is one (row, choice): pair `t * used + j` is the j-th choice of row `t`. Choices are in
/// order of falling router logit, equal logits in order of rising expert index.
pub trait Moe: Device {
    /// Chooses the `used` largest of `logits` `[rows, experts]` for every row, with weights that
    /// are the softmax over the chosen ones, and groups the pairs by expert. Non-finite logits give
    /// some choice of valid experts, never a fault; a NaN makes the row's weights NaN.
    fn moe_plan(
        &mut self,
        logits: &Self::Buffer,
        rows: usize,
        choice: MoeChoice,
        plan: &mut Self::Plan,
    );

    /// As [`Moe::moe_plan`], with dials turned; `held[e]` tells which experts are in memory.
    /// Devices without use for dials choose as the router does.
    fn moe_plan_dialled(
        &mut self,
        logits: &Self::Buffer,
        rows: usize,
        choice: MoeChoice,
        (dials, held): (&RoutingDials, &[bool]),
        plan: &mut Self::Plan,
    ) {
        let _ = (dials, held);
        self.moe_plan(logits, rows, choice, plan);
    }

    /// Experts of which `plan` has pairs; `None` on a device that keeps it to itself.
    fn experts_in_use(&self, plan: &Self::Plan) -> Option<usize> {
        let _ = plan;
        None
    }

    /// `act[pair] = silu(gate_e u[t]) * (up_e u[t])`: `u` is `[rows, H]`, `act` is `[rows * used,
    /// F]`.
    fn moe_gate_up(
        &mut self,
        plan: &Self::Plan,
        experts: GateUp<'_, Self::Matrix>,
        u: &Self::Buffer,
        act: &mut Self::Buffer,
    );

    /// `part[pair] = down_e act[pair]`: `part` is `[rows * used, H]`.
    fn moe_down(
        &mut self,
        plan: &Self::Plan,
        down: &Self::Matrix,
        act: &Self::Buffer,
        part: &mut Self::Buffer,
    );

    /// What is wanted of experts that a store holds begins to be read, see
    /// [`crate::stored::ExpertSource::want`]. For devices without a use for a store there is
    /// nothing to do.
    fn moe_want(&mut self, plan: &Self::Plan, stored: &StoredExperts) {
        let _ = (plan, stored);
    }

    /// [`Moe::moe_gate_up`] and [`Moe::moe_down`]. Experts that a store holds, and of which
    /// [`Moe::moe_want`] told it, may be taken from there instead of from the matrices: the bytes
    /// are the same.
    fn moe_experts(
        &mut self,
        plan: &Self::Plan,
        experts: ExpertMatrices<'_, Self::Matrix>,
        u: &Self::Buffer,
        (act, part): (&mut Self::Buffer, &mut Self::Buffer),
    ) {
        self.moe_gate_up(plan, experts.gate_up, u, act);
        self.moe_down(plan, experts.down, act, part);
    }

    /// `a = silu(a) * b`, element by element over `len` values: the shared expert's activation.
    fn swiglu(&mut self, a: &mut Self::Buffer, b: &Self::Buffer, len: usize);

    /// `y[t] = sum over j of weight[t, j] * part[t, j] + sigma(gate[t]) * shared[t]`, added in the
    /// order of j, the shared expert last: `shared` and `y` are `[rows, H]`, `gate` is `[rows]`.
    fn moe_combine(
        &mut self,
        plan: &Self::Plan,
        part: &Self::Buffer,
        shared: SharedExpert<'_, Self::Buffer>,
        y: &mut Self::Buffer,
    );
}

/// Other experts than the router's first choices, to read less. Both change results.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoutingDials {
    /// In place of a chosen expert that is not in memory, the likeliest one is used that is, not
    /// chosen yet, and has at least this share of the chosen one's probability: above 0, at most 1.
    pub prefer_resident: Option<f32>,
    /// A window of 2 to [`MAX_DEFERRED`](crate::window::MAX_DEFERRED) rows, as checking drafts
    /// makes them, uses at most so many experts of a layer: those of the largest probability summed
    /// over its rows.
    pub window_experts: Option<usize>,
}

impl RoutingDials {
    /// Whether every expert is the router's own choice.
    pub fn is_exact(&self) -> bool {
        *self == Self::default()
    }
}

/// How many experts there are and how many a row uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoeChoice {
    /// All routed experts.
    pub experts: usize,
    /// Experts per row, at most `experts`.
    pub used: usize,
}

/// Gate and up projections of the routed experts.
#[derive(Debug)]
pub enum GateUp<'a, M> {
    /// Two stacks of `{H, F}`.
    Separate {
        /// Gate projections.
        gate: &'a M,
        /// Up projections.
        up: &'a M,
    },
    /// One stack of `{H, 2 F}`: the first F rows of an expert are gate, the others up.
    Fused(&'a M),
}

/// All matrices of the routed experts.
#[derive(Debug)]
pub struct ExpertMatrices<'a, M> {
    /// Gate and up projections.
    pub gate_up: GateUp<'a, M>,
    /// Down projections.
    pub down: &'a M,
    /// Where the same experts are to be had without touching the file's memory map.
    pub stored: Option<&'a StoredExperts>,
}

/// Output of the shared expert and its gate's logit.
#[derive(Debug)]
pub struct SharedExpert<'a, B> {
    /// `[rows, H]`.
    pub y: &'a B,
    /// `[rows]`, before the sigmoid.
    pub gate: &'a B,
    /// H, the width of a row of `y`.
    pub width: usize,
}
