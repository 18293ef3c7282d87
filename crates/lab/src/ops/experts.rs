//! Projections of the routed experts (family `moe`).

use super::activations_name;
use crate::blocks::{DISTINCT_ROWS, Rows, weight_from};
use crate::bound::{Bound, Products};
use crate::case::{Call, Op};
use crate::compare::Expected;
use crate::memory::{Output, poisoned, upload};
use crate::{Cost, Input, Random};
use gguf::TensorType;
use kernels::host::Plan;
use kernels::moe::{GateUp, MoeChoice};
use kernels::reference::Reference;
use kernels::scalar::silu;
use kernels::weight::WeightShape;
use kernels::{Activations, Backend, Error, Weight};

/// Which projection of the experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// Gate and up from two stacks, with SwiGLU.
    GateUp,
    /// The same from one stack.
    FusedGateUp,
    /// Down.
    Down,
}

/// One projection of the experts that a window's rows chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// Which one.
    pub projection: Projection,
    /// Format of the weights.
    pub ty: TensorType,
    /// Values per weight row.
    pub n_in: usize,
    /// Results per pair.
    pub n_out: usize,
    /// All experts and how many a row uses.
    pub choice: MoeChoice,
    /// Experts that all rows have in common, at most `choice.used`.
    pub shared: usize,
    /// Rows of activations (T).
    pub rows: usize,
    /// What the stacks are loaded for.
    pub activations: Activations,
}

/// The distinct row with which the stack of up projections begins: its rows are others than those
/// of the gates, so that it shows which is which.
const UP_STACK_BEGINS: usize = 3;

/// Most experts that a stack is given more than the case has: devices count no more.
const MOST_EXPERTS: usize = 2048;

/// The stacks of a projection.
enum Stacks<M> {
    /// Gate and up.
    Separate(M, M),
    One(M),
}

impl Experts {
    /// Rows of one expert in one stack.
    fn stack_rows(&self) -> usize {
        if self.projection == Projection::FusedGateUp { 2 * self.n_out } else { self.n_out }
    }

    fn stacks(&self, experts: usize, rows: Rows) -> Result<Stacks<Weight>, Error> {
        let shape = WeightShape { n_in: self.n_in, n_out: self.stack_rows(), experts };
        let stack = |first| weight_from(first, self.ty, shape, rows);
        Ok(match self.projection {
            Projection::GateUp => Stacks::Separate(stack(0)?, stack(UP_STACK_BEGINS)?),
            Projection::FusedGateUp | Projection::Down => Stacks::One(stack(0)?),
        })
    }

    fn load<B: Backend>(
        &self,
        backend: &mut B,
        experts: usize,
        rows: Rows,
    ) -> Result<Stacks<B::Matrix>, Error> {
        let mut load = |stack| backend.load_matrix(stack, self.activations);
        Ok(match &self.stacks(experts, rows)? {
            Stacks::Separate(gate, up) => Stacks::Separate(load(gate)?, load(up)?),
            Stacks::One(stack) => Stacks::One(load(stack)?),
        })
    }

    /// Router logits by which row t chooses the shared experts and others of its own, out of as
    /// many experts as the case has, beginning with expert `shift`.
    fn logits(&self, choice: MoeChoice, shift: usize) -> Vec<f32> {
        let MoeChoice { experts, used } = choice;
        let mut logits = Random::new(8).values(self.rows * experts, 1.0);
        let (own, free) = (used - self.shared, self.choice.experts - self.shared);
        for (t, row) in logits.chunks_exact_mut(experts).enumerate() {
            let others = (0..own).map(|j| self.shared + (t * own + j) % free);
            for e in (0..self.shared).chain(others) {
                row[(e + shift) % experts] += 4.0;
            }
        }
        logits
    }

    fn plan<B: Backend>(
        &self,
        backend: &mut B,
        experts: usize,
        shift: usize,
    ) -> Result<B::Plan, Error> {
        let choice = MoeChoice { experts, used: self.choice.used };
        let logits = upload(backend, &self.logits(choice, shift))?;
        let mut plan = backend.new_plan();
        backend.moe_plan(&logits, self.rows, choice, &mut plan);
        Ok(plan)
    }

    fn host_plan(&self) -> Plan {
        let mut plan = Plan::default();
        plan.build(&self.logits(self.choice, 0), self.choice);
        plan
    }

    fn pairs(&self) -> usize {
        self.rows * self.choice.used
    }

    /// Rows of the activations: one per row of the window, or per pair.
    fn input_rows(&self) -> usize {
        if self.projection == Projection::Down { self.pairs() } else { self.rows }
    }

    fn expert_bytes(&self) -> usize {
        let row = self.n_in / self.ty.block_elements() * self.ty.block_bytes();
        row * self.n_out * if self.projection == Projection::Down { 1 } else { 2 }
    }

    fn call<B: Backend>(
        &self,
        backend: &mut B,
        (plan, stacks): (&B::Plan, &Stacks<B::Matrix>),
        x: &B::Buffer,
        y: &mut B::Buffer,
    ) {
        match (stacks, self.projection) {
            (Stacks::Separate(gate, up), _) => {
                backend.moe_gate_up(plan, GateUp::Separate { gate, up }, x, y);
            }
            (Stacks::One(down), Projection::Down) => backend.moe_down(plan, down, x, y),
            (Stacks::One(both), _) => backend.moe_gate_up(plan, GateUp::Fused(both), x, y),
        }
    }

    /// How far each value may be off, `[pairs, n_out]`.
    fn bounds(&self, input: Input) -> Result<Vec<f64>, Error> {
        let x = input.rows(self.input_rows(), self.n_in);
        let products = |first| -> Result<Products, Error> {
            let shape = WeightShape { n_in: self.n_in, n_out: DISTINCT_ROWS, experts: 1 };
            let weight = weight_from(first, self.ty, shape, Rows::Edge)?;
            Ok(Products::new(&weight, &x, input.precision(self.activations)))
        };
        let (first, second) = (products(0)?, products(UP_STACK_BEGINS)?);
        let mut bounds = Vec::with_capacity(self.pairs() * self.n_out);
        let plan = self.host_plan();
        for (pair, &expert) in plan.experts().iter().enumerate() {
            let t = pair / plan.used();
            let row = expert as usize * self.stack_rows();
            bounds.extend((row..row + self.n_out).map(|row| match self.projection {
                Projection::Down => first.at(pair, row).1,
                Projection::GateUp => swiglu_bound(first.at(t, row), second.at(t, row)),
                Projection::FusedGateUp => {
                    swiglu_bound(first.at(t, row), first.at(t, row + self.n_out))
                }
            }));
        }
        Ok(bounds)
    }
}

/// The error of `silu(g) * u` where g and u are up to `off_g` and `off_u` off. The slope of silu is
/// less than 1.1 everywhere. Its own evaluation in f32 is allowed 16 roundings; its factor
/// sigma(g), below the normal numbers where g is very negative, may become zero, and so may the
/// result.
fn swiglu_bound((g, off_g): (f32, f64), (u, off_u): (f32, f64)) -> f64 {
    let activated = f64::from(silu(g).abs());
    let off = 1.1 * off_g + activated * 2f64.powi(-20) + 2f64.powi(-125) * f64::from(g.abs());
    off * (f64::from(u.abs()) + off_u) + activated * off_u + 2f64.powi(-126)
}

impl Op for Experts {
    fn name(&self) -> String {
        let Self { ty, n_in, n_out, choice, shared, rows, activations, .. } = self;
        let MoeChoice { experts, used } = choice;
        let projection = match self.projection {
            Projection::GateUp => "gate_up",
            Projection::FusedGateUp => "fused_gate_up",
            Projection::Down => "down",
        };
        let (ty, activations) = (ty.name(), activations_name(*activations));
        let sizes = format!("{n_in}x{n_out}/{used}of{experts}/shared{shared}");
        format!("moe_{projection}/{ty}/{sizes}/T{rows}/{activations}")
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn cost(&self) -> Cost {
        let stacks = if self.projection == Projection::Down { 1 } else { 2 };
        Cost {
            bytes: (self.host_plan().groups().len() * self.expert_bytes()) as u64,
            ops: 2 * stacks * (self.pairs() * self.n_in * self.n_out) as u64,
        }
    }

    fn bound(&self) -> Bound {
        match self.activations {
            Activations::F32 => Bound::Product,
            Activations::Int8 => Bound::Product8,
        }
    }

    fn inputs(&self) -> &'static [Input] {
        Input::ALL
    }

    fn run<B: Backend>(&self, backend: &mut B, input: Input) -> Result<Vec<Output>, Error> {
        let stacks = self.load(backend, self.choice.experts, Rows::Edge)?;
        let plan = self.plan(backend, self.choice.experts, 0)?;
        let x = upload(backend, &input.rows(self.input_rows(), self.n_in))?;
        let len = self.pairs() * self.n_out;
        let mut y = poisoned(backend, len)?;
        self.call(backend, (&plan, &stacks), &x, &mut y);
        let what = if self.projection == Projection::Down { "part" } else { "act" };
        Ok(vec![Output::fetch(backend, &y, (what, self.n_out, len))?])
    }

    fn expected(&self, input: Input) -> Result<Vec<Expected>, Error> {
        let outputs = self.run(&mut Reference, input)?.into_iter();
        outputs.map(|output| Ok(Expected { bounds: self.bounds(input)?, output })).collect()
    }

    /// The plans take turns over a stack of enough experts, or over several.
    fn prepare<'a, B: Backend + 'a>(
        &'a self,
        backend: &mut B,
        cold: usize,
    ) -> Result<Call<'a, B>, Error> {
        let distinct = self.host_plan().groups().len();
        let wanted = cold / self.expert_bytes() + distinct;
        let experts = wanted.min(MOST_EXPERTS).max(self.choice.experts);
        let stacks = (0..wanted.div_ceil(experts))
            .map(|_| self.load(backend, experts, Rows::Usual))
            .collect::<Result<Vec<_>, _>>()?;
        let plans = (0..experts / distinct)
            .map(|i| self.plan(backend, experts, i * distinct))
            .collect::<Result<Vec<_>, _>>()?;
        let x = upload(backend, &Input::Uniform.rows(self.input_rows(), self.n_in))?;
        let mut y = backend.alloc(self.pairs() * self.n_out)?;
        Ok(Box::new(move |backend, i| {
            let (plan, stack) = (i % plans.len(), i / plans.len() % stacks.len());
            self.call(backend, (&plans[plan], &stacks[stack]), &x, &mut y);
            Ok(())
        }))
    }
}
