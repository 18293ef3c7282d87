//! Products with the matrices of the experts in use, with 8-bit or f32 activations.

use super::gemv::{SCRATCH, copy_short, quantise};
use super::rows::{RowTasks, TokenRows, rows_times};
use crate::device::{Cpu, CpuMatrix, room};
use crate::int8::{Load, PanelRows, PanelTasks, Product};
use crate::share::Shared;
use crate::simd::elementwise::SwiGlu;
use kernels::host::Plan;
use kernels::scalar::silu;
use std::cell::RefCell;

thread_local! {
    /// Gate values of the running task `[rows of x, weight rows]`.
    static GATES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    /// Rows of the window that the running task's expert sees.
    static TOKENS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Gate or up projections inside a stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub(super) matrix: &'a CpuMatrix,
    /// Rows of one expert in the stack.
    rows: usize,
    /// First row of the part in an expert.
    offset: usize,
}

impl<'a> Part<'a> {
    pub(super) fn new(matrix: &'a CpuMatrix, rows: usize, offset: usize) -> Self {
        Self { matrix, rows, offset }
    }

    /// First row of the part of expert `expert` in the stack.
    fn base(&self, expert: usize) -> usize {
        expert * self.rows + self.offset
    }
}

/// Rows of an expert per window row that it sees, as an average: what a task's size is judged by.
fn average_group(plan: &Plan) -> usize {
    plan.experts().len().div_ceil(plan.groups().len().max(1)).max(1)
}

impl Cpu {
    pub(super) fn gate_up_int8(
        &mut self,
        plan: &Plan,
        [(gate, gate_product), (up, up_product)]: [(Part<'_>, &Product); 2],
        width: usize,
        (u, act): (&[f32], &mut [f32]),
    ) {
        let n_in = gate.matrix.weight.n_in();
        let simd = self.simd;
        let tile = gate.matrix.tile(self.forced, plan.rows());
        let Self { pool, work, int8, .. } = self;
        let acts = quantise(pool, *int8, (u, plan.rows()), n_in, &mut work.acts);
        let load = Load { matrices: plan.groups().len(), threads: pool.threads(), tile };
        let panels = PanelTasks::new(gate_product, (width, n_in), 2 * average_group(plan), load);
        let tasks = panels.count();
        let out = Shared::new(&mut act[..plan.experts().len() * width]);
        pool.run(plan.groups().len() * tasks, &|task| {
            let group = &plan.groups()[task / tasks];
            let pairs = plan.pairs_of(group);
            let (gate_base, up_base) = (gate.base(group.expert), up.base(group.expert));
            SCRATCH.with_borrow_mut(|scratch| {
                TOKENS.with_borrow_mut(|tokens| {
                    tokens.clear();
                    tokens.extend(pairs.iter().map(|&pair| pair / plan.used() as u32));
                    for panel in panels.panels(task % tasks) {
                        let PanelRows { first, last, .. } = panel;
                        let (weight, rows) = (&gate.matrix.weight, panel.of_expert(gate_base));
                        let stride = gate_product.panel(weight, rows, &acts, tokens, (scratch, 0));
                        let (weight, rows) = (&up.matrix.weight, panel.of_expert(up_base));
                        up_product.panel(weight, rows, &acts, tokens, (scratch, 1));
                        let (gates, ups) = scratch.sums_mut();
                        let sums = gates.chunks_exact(stride).zip(ups.chunks_exact(stride));
                        for (&pair, (gates, ups)) in pairs.iter().zip(sums) {
                            let at = pair as usize * width;
                            // SAFETY: a pair belongs to one group, a weight row of it to one task.
                            let act = unsafe { out.slice(at + first..at + last) };
                            copy_short(&gates[..last - first], act);
                            simd.map(SwiGlu {}, [&ups[..last - first]], act);
                        }
                    }
                });
            });
        });
    }

    pub(super) fn gate_up_f32(
        &mut self,
        plan: &Plan,
        [gate, up]: [Part<'_>; 2],
        width: usize,
        (u, act): (&[f32], &mut [f32]),
    ) {
        let each = gate.matrix.tile(self.forced, plan.rows()).task_rows();
        let (simd, split) = (self.simd, RowTasks { rows: width, each });
        let tasks = split.count();
        let out = Shared::new(&mut act[..plan.experts().len() * width]);
        self.pool.run(plan.groups().len() * tasks, &|task| {
            let group = &plan.groups()[task / tasks];
            let (first, last) = split.range(task % tasks);
            let n_in = gate.matrix.weight.n_in();
            let pairs = plan.pairs_of(group);
            GATES.with_borrow_mut(|gates| {
                TOKENS.with_borrow_mut(|tokens| {
                    tokens.clear();
                    tokens.extend(pairs.iter().map(|&pair| pair / plan.used() as u32));
                    let x = TokenRows { values: u, width: n_in, tokens };
                    let count = last - first;
                    let gates = room(gates, pairs.len() * count);
                    let base = gate.base(group.expert);
                    let rows = (base + first, base + last);
                    rows_times(&simd, gate.matrix, rows, x, |t, row, value| {
                        gates[t * count + (row - base - first)] = silu(value);
                    });
                    let base = up.base(group.expert);
                    let rows = (base + first, base + last);
                    rows_times(&simd, up.matrix, rows, x, |t, row, value| {
                        let row = row - base;
                        let value = gates[t * count + (row - first)] * value;
                        // SAFETY: a pair belongs to one group, a weight row of it to one task.
                        unsafe { out.set(pairs[t] as usize * width + row, value) }
                    });
                });
            });
        });
    }

    pub(super) fn down_int8(
        &mut self,
        plan: &Plan,
        down: &CpuMatrix,
        product: &Product,
        (act, part): (&[f32], &mut [f32]),
    ) {
        let (n_in, n_out) = (down.weight.n_in(), down.weight.n_out());
        let tile = down.tile(self.forced, plan.rows());
        let Self { pool, work, int8, .. } = self;
        let pairs = plan.experts().len();
        let acts = quantise(pool, *int8, (act, pairs), n_in, &mut work.acts);
        let load = Load { matrices: plan.groups().len(), threads: pool.threads(), tile };
        let panels = PanelTasks::new(product, (n_out, n_in), average_group(plan), load);
        let tasks = panels.count();
        let out = Shared::new(&mut part[..pairs * n_out]);
        pool.run(plan.groups().len() * tasks, &|task| {
            let group = &plan.groups()[task / tasks];
            let (base, pairs) = (group.expert * n_out, plan.pairs_of(group));
            SCRATCH.with_borrow_mut(|scratch| {
                for panel in panels.panels(task % tasks) {
                    let PanelRows { first, last, .. } = panel;
                    let rows = panel.of_expert(base);
                    let stride = product.panel(&down.weight, rows, &acts, pairs, (scratch, 0));
                    let (sums, _) = scratch.sums_mut();
                    for (&pair, sums) in pairs.iter().zip(sums.chunks_exact(stride)) {
                        let at = pair as usize * n_out;
                        // SAFETY: a pair belongs to one group, a weight row of it to one task.
                        let part = unsafe { out.slice(at + first..at + last) };
                        copy_short(&sums[..last - first], part);
                    }
                }
            });
        });
    }

    pub(super) fn down_f32(
        &mut self,
        plan: &Plan,
        down: &CpuMatrix,
        (act, part): (&[f32], &mut [f32]),
    ) {
        let (n_in, n_out) = (down.weight.n_in(), down.weight.n_out());
        let each = down.tile(self.forced, plan.rows()).task_rows();
        let (simd, split) = (self.simd, RowTasks { rows: n_out, each });
        let tasks = split.count();
        let out = Shared::new(&mut part[..plan.experts().len() * n_out]);
        self.pool.run(plan.groups().len() * tasks, &|task| {
            let group = &plan.groups()[task / tasks];
            let (first, last) = split.range(task % tasks);
            let base = group.expert * n_out;
            let pairs = plan.pairs_of(group);
            let x = TokenRows { values: act, width: n_in, tokens: pairs };
            rows_times(&simd, down, (base + first, base + last), x, |t, row, value| {
                // SAFETY: a pair belongs to one group, a weight row of it to one task.
                unsafe { out.set(pairs[t] as usize * n_out + row - base, value) }
            });
        });
    }
}
