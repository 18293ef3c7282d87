//! Routed experts: each expert in use is read once, its rows spread over all threads.

use super::experts::{Experts, Found};
use super::gemv::quantise;
use super::spread::{part, spread};
use crate::device::{Cpu, CpuMatrix};
use crate::share::Shared;
use crate::simd::elementwise::SwiGlu;
use kernels::host::Plan;
use kernels::moe::{ExpertMatrices, GateUp, SharedExpert};
use kernels::scalar::sigmoid;
use kernels::stored::{StoredExperts, TakenExpert};
use kernels::{Error, Moe};

/// Values per task of the shared expert's activation.
const SWIGLU: usize = 8 * 1024;

/// The matrices of gate and up, and the rows that each has of an expert.
fn gate_and_up<'a>(experts: &GateUp<'a, CpuMatrix>) -> ([&'a CpuMatrix; 2], usize) {
    match *experts {
        GateUp::Separate { gate, up } => ([gate, up], gate.weight.n_out()),
        GateUp::Fused(both) => ([both, both], both.weight.n_out() / 2),
    }
}

impl Cpu {
    /// Gate, up and down of the experts that a store was told to fetch, in the order in which it
    /// has them: first those in memory, while others are read. A pair's results lie in its own
    /// place and are summed later, so the order shows in none of them.
    fn stored_experts(
        &mut self,
        plan: &Plan,
        (experts, stored): (ExpertMatrices<'_, CpuMatrix>, &StoredExperts),
        u: &[f32],
        (act, part): (&mut [f32], &mut [f32]),
    ) {
        let ([gate, up], width) = gate_and_up(&experts.gate_up);
        let products = gate.int8.as_ref().zip(up.int8.as_ref());
        if products.is_some() {
            let Self { pool, work, int8, .. } = self;
            quantise(pool, *int8, (u, plan.rows()), gate.weight.n_in(), &mut work.acts);
        }
        let mut taken = std::mem::take(&mut self.work.taken);
        let mut done = 0;
        while self.fault.is_none() {
            if let Err(error) = stored.source.take(&mut taken) {
                self.fault = Some(error);
                break;
            }
            if taken.is_empty() {
                break;
            }
            let find = |n: usize| {
                let TakenExpert { place, parts: [a, b, _] } = &taken[n];
                let weights = [gate.encoded_as(a), up.encoded_as(b)];
                Found { group: &plan.groups()[*place], weights }
            };
            let some = Experts { plan, count: taken.len(), find: &find };
            match products {
                Some((a, b)) => self.gate_up_int8(some, (gate, [a, b]), width, act),
                None => self.gate_up(some, [gate, up], width, (u, act)),
            }
            let find = |n: usize| {
                let TakenExpert { place, parts: [.., down] } = &taken[n];
                Found { group: &plan.groups()[*place], weights: [experts.down.encoded_as(down)] }
            };
            let some = Experts { plan, count: taken.len(), find: &find };
            self.down(some, experts.down, (act, part));
            done += taken.len();
        }
        let chosen = plan.groups().len();
        if done < chosen && self.fault.is_none() {
            let why = format!("{done} experts of {chosen} came; nobody asked for the others");
            self.fault = Some(Error::Storage { why });
        }
        taken.clear();
        self.work.taken = taken;
    }
}

impl Moe for Cpu {
    kernels::host_plans!();

    fn moe_want(&mut self, plan: &Plan, stored: &StoredExperts) {
        let mut experts = plan.groups().iter().map(|group| group.expert);
        stored.source.want(stored.layer, &mut experts, plan.rows());
    }

    fn moe_experts(
        &mut self,
        plan: &Plan,
        experts: ExpertMatrices<'_, CpuMatrix>,
        u: &Vec<f32>,
        (act, part): (&mut Vec<f32>, &mut Vec<f32>),
    ) {
        match experts.stored {
            Some(stored) => self.stored_experts(plan, (experts, stored), u, (act, part)),
            None => {
                self.moe_gate_up(plan, experts.gate_up, u, act);
                self.moe_down(plan, experts.down, act, part);
            }
        }
    }

    fn moe_gate_up(
        &mut self,
        plan: &Plan,
        experts: GateUp<'_, CpuMatrix>,
        u: &Vec<f32>,
        act: &mut Vec<f32>,
    ) {
        let (matrices, width) = gate_and_up(&experts);
        let int8 = matrices.iter().all(|matrix| matrix.int8.is_some());
        let rows =
            matrices.map(|matrix| if int8 { matrix.encoded_stack() } else { matrix.in_file() });
        let find = |n: usize| {
            let group = &plan.groups()[n];
            let weights = match experts {
                GateUp::Separate { .. } => rows.map(|rows| rows.part(group.expert * width, width)),
                GateUp::Fused(_) => {
                    [0, 1].map(|half| rows[0].part((2 * group.expert + half) * width, width))
                }
            };
            Found { group, weights }
        };
        let all = Experts { plan, count: plan.groups().len(), find: &find };
        self.gate_up(all, matrices, width, (u, act));
    }

    fn moe_down(&mut self, plan: &Plan, down: &CpuMatrix, act: &Vec<f32>, part: &mut Vec<f32>) {
        let width = down.weight.n_out();
        let rows = if down.int8.is_some() { down.encoded_stack() } else { down.in_file() };
        let find = |n: usize| {
            let group = &plan.groups()[n];
            Found { group, weights: [rows.part(group.expert * width, width)] }
        };
        self.down(Experts { plan, count: plan.groups().len(), find: &find }, down, (act, part));
    }

    fn swiglu(&mut self, a: &mut Vec<f32>, b: &Vec<f32>, len: usize) {
        let (simd, out) = (self.simd, Shared::new(&mut a[..len]));
        spread(&mut self.pool, 4 * len, len.div_ceil(SWIGLU), &|task| {
            let own = part(len, SWIGLU, task);
            // SAFETY: a value belongs to one task.
            simd.map(SwiGlu {}, [&b[own.clone()]], unsafe { out.slice(own) });
        });
    }

    fn moe_combine(
        &mut self,
        plan: &Plan,
        part: &Vec<f32>,
        shared: SharedExpert<'_, Vec<f32>>,
        y: &mut Vec<f32>,
    ) {
        let (used, width, simd) = (plan.used(), shared.width, self.simd);
        let rows = plan.rows();
        let out = Shared::new(&mut y[..rows * width]);
        spread(&mut self.pool, rows * used * width / 2, rows, &|t| {
            // SAFETY: task `t` writes row `t` alone.
            let y = unsafe { out.slice(t * width..(t + 1) * width) };
            y.fill(0.0);
            for pair in t * used..(t + 1) * used {
                simd.axpy(plan.weights()[pair], &part[pair * width..][..width], y);
            }
            simd.axpy(sigmoid(shared.gate[t]), &shared.y[t * width..][..width], y);
        });
    }
}
