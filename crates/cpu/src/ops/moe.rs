//! Routed experts: each expert in use is read once, its rows spread over all threads.

use super::gemv::{rows_times, task_count, task_rows};
use super::spread::{part, spread};
use crate::device::{Cpu, CpuMatrix};
use crate::share::Shared;
use crate::simd::elementwise::SwiGlu;
use kernels::Moe;
use kernels::host::{Group, Plan};
use kernels::moe::{GateUp, MoeChoice, SharedExpert};
use kernels::scalar::{sigmoid, silu};
use std::cell::RefCell;

/// Values per task of the shared expert's activation.
const SWIGLU: usize = 8 * 1024;

thread_local! {
    /// Gate values of the running task `[rows of x, weight rows]`.
    static GATES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Activation rows of a group: `row_of(pair)` rows of `width` values.
fn group_rows<'a>(
    plan: &'a Plan,
    group: &Group,
    x: &'a [f32],
    width: usize,
    row_of: impl Fn(usize) -> usize,
) -> Vec<&'a [f32]> {
    let row = |&pair: &u32| &x[row_of(pair as usize) * width..][..width];
    plan.pairs_of(group).iter().map(row).collect()
}

impl Moe for Cpu {
    fn moe_plan(&mut self, logits: &Vec<f32>, rows: usize, choice: MoeChoice, plan: &mut Plan) {
        plan.build(&logits[..rows * choice.experts], choice);
    }

    fn moe_gate_up(
        &mut self,
        plan: &Plan,
        experts: GateUp<'_, CpuMatrix>,
        u: &Vec<f32>,
        act: &mut Vec<f32>,
    ) {
        // Stack, rows of one expert in it, and first row of the part, for gate and for up.
        let (gate, up, width) = match experts {
            GateUp::Separate { gate, up } => {
                let width = gate.weight.n_out();
                ((gate, width, 0), (up, width, 0), width)
            }
            GateUp::Fused(both) => {
                let width = both.weight.n_out() / 2;
                ((both, 2 * width, 0), (both, 2 * width, width), width)
            }
        };
        let (simd, tasks) = (self.simd, task_count(width));
        let out = Shared::new(&mut act[..plan.experts().len() * width]);
        self.pool.run(plan.groups().len() * tasks, &|task| {
            let group = &plan.groups()[task / tasks];
            let (first, last) = task_rows(width, task % tasks);
            let n_in = gate.0.weight.n_in();
            let x = group_rows(plan, group, u, n_in, |pair| pair / plan.used());
            let range = |(_, rows, offset): (&CpuMatrix, usize, usize)| {
                let base = group.expert * rows + offset;
                (base, (base + first, base + last))
            };
            GATES.with_borrow_mut(|gates| {
                let count = last - first;
                let gates = crate::device::room(gates, x.len() * count);
                let (base, rows) = range(gate);
                rows_times(&simd, gate.0, rows, &x, |t, row, value| {
                    gates[t * count + (row - base - first)] = silu(value);
                });
                let (base, rows) = range(up);
                let pairs = plan.pairs_of(group);
                rows_times(&simd, up.0, rows, &x, |t, row, value| {
                    let row = row - base;
                    let value = gates[t * count + (row - first)] * value;
                    // SAFETY: a pair belongs to one group, a weight row of it to one task.
                    unsafe { out.set(pairs[t] as usize * width + row, value) }
                });
            });
        });
    }

    fn moe_down(&mut self, plan: &Plan, down: &CpuMatrix, act: &Vec<f32>, part: &mut Vec<f32>) {
        let (n_in, n_out) = (down.weight.n_in(), down.weight.n_out());
        let (simd, tasks) = (self.simd, task_count(n_out));
        let out = Shared::new(&mut part[..plan.experts().len() * n_out]);
        self.pool.run(plan.groups().len() * tasks, &|task| {
            let group = &plan.groups()[task / tasks];
            let (first, last) = task_rows(n_out, task % tasks);
            let base = group.expert * n_out;
            let x = group_rows(plan, group, act, n_in, |pair| pair);
            let pairs = plan.pairs_of(group);
            rows_times(&simd, down, (base + first, base + last), &x, |t, row, value| {
                // SAFETY: a pair belongs to one group, a weight row of it to one task.
                unsafe { out.set(pairs[t] as usize * n_out + row - base, value) }
            });
        });
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
