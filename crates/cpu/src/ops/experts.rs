//! Products with the matrices of the experts in use, with 8-bit or f32 activations.

use super::gemv::{SCRATCH, copy_short, quantise, quantise_some};
use super::rows::{RowTasks, TokenRows, rows_times};
use crate::device::{Cpu, CpuMatrix, Encoded, room};
use crate::int8::{Acts, Load, PanelRows, PanelTasks, Product};
use crate::share::Shared;
use crate::simd::elementwise::SwiGlu;
use kernels::host::{Group, Plan};
use kernels::scalar::silu;
use std::cell::RefCell;

thread_local! {
    /// Gate values of the running task `[rows of x, weight rows]`.
    static GATES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    /// Rows of the window that the running task's expert sees.
    static TOKENS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// An expert's pairs, and where its rows are: gate and up, or down alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a, const N: usize> {
    pub(super) group: &'a Group,
    pub(super) weights: [Encoded<'a>; N],
}

/// Some experts of a plan, by number: all of them in the mapped file, or those that a store has
/// given.
#[derive(Clone, Copy)]
pub(super) struct Experts<'a, const N: usize> {
    pub(super) plan: &'a Plan,
    pub(super) count: usize,
    pub(super) find: &'a (dyn Fn(usize) -> Found<'a, N> + Sync),
}

/// The matrices behind [`Experts`], for their formats.
pub(super) type Matrices<'a, const N: usize> = [&'a CpuMatrix; N];

/// Rows of an expert per window row that it sees, as an average: what a task's size is judged by.
fn average_group(plan: &Plan) -> usize {
    plan.experts().len().div_ceil(plan.groups().len().max(1)).max(1)
}

impl Cpu {
    /// `act[pair] = silu(gate u) * (up u)` for the pairs of some experts.
    pub(super) fn gate_up(
        &mut self,
        experts: Experts<'_, 2>,
        [gate, up]: Matrices<'_, 2>,
        width: usize,
        (u, act): (&[f32], &mut [f32]),
    ) {
        match [&gate.int8, &up.int8] {
            [Some(a), Some(b)] => {
                let (rows, n_in) = (experts.plan.rows(), gate.weight.n_in());
                let Self { pool, work, int8, .. } = self;
                quantise(pool, *int8, (u, rows), n_in, &mut work.acts);
                self.gate_up_int8(experts, (gate, [a, b]), width, act);
            }
            _ => self.gate_up_f32(experts, gate, width, (u, act)),
        }
    }

    /// As [`Cpu::gate_up`], of rows that are quantised already.
    pub(super) fn gate_up_int8(
        &mut self,
        experts: Experts<'_, 2>,
        (gate, [gate_product, up_product]): (&CpuMatrix, [&Product; 2]),
        width: usize,
        act: &mut [f32],
    ) {
        let Experts { plan, count, find } = experts;
        let n_in = gate.weight.n_in();
        let simd = self.simd;
        let tile = gate.tile(self.forced, plan.rows());
        let Self { pool, work, .. } = self;
        let acts = Acts { blocks: &work.acts, rows: plan.rows() };
        let load = Load { matrices: count, threads: pool.threads(), tile };
        let panels = PanelTasks::new(gate_product, (width, n_in), 2 * average_group(plan), load);
        let tasks = panels.count();
        let out = Shared::new(&mut act[..plan.experts().len() * width]);
        pool.run(count * tasks, &|task| {
            let Found { group, weights: [gate_rows, up_rows] } = find(task / tasks);
            let pairs = plan.pairs_of(group);
            SCRATCH.with_borrow_mut(|scratch| {
                TOKENS.with_borrow_mut(|tokens| {
                    tokens.clear();
                    tokens.extend(pairs.iter().map(|&pair| pair / plan.used() as u32));
                    for panel in panels.panels(task % tasks) {
                        let PanelRows { first, last, .. } = panel;
                        let stride =
                            gate_product.panel(gate_rows, panel, &acts, tokens, (scratch, 0));
                        up_product.panel(up_rows, panel, &acts, tokens, (scratch, 1));
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

    fn gate_up_f32(
        &mut self,
        experts: Experts<'_, 2>,
        gate: &CpuMatrix,
        width: usize,
        (u, act): (&[f32], &mut [f32]),
    ) {
        let Experts { plan, count, find } = experts;
        let each = gate.tile(self.forced, plan.rows()).task_rows();
        let (simd, split) = (self.simd, RowTasks { rows: width, each });
        let tasks = split.count();
        let out = Shared::new(&mut act[..plan.experts().len() * width]);
        self.pool.run(count * tasks, &|task| {
            let Found { group, weights: [gate_rows, up_rows] } = find(task / tasks);
            let (first, last) = split.range(task % tasks);
            let n_in = gate.weight.n_in();
            let pairs = plan.pairs_of(group);
            GATES.with_borrow_mut(|gates| {
                TOKENS.with_borrow_mut(|tokens| {
                    tokens.clear();
                    tokens.extend(pairs.iter().map(|&pair| pair / plan.used() as u32));
                    let x = TokenRows { values: u, width: n_in, tokens };
                    let count = last - first;
                    let gates = room(gates, pairs.len() * count);
                    rows_times(&simd, gate_rows, (first, last), x, |t, row, value| {
                        gates[t * count + (row - first)] = silu(value);
                    });
                    rows_times(&simd, up_rows, (first, last), x, |t, row, value| {
                        let value = gates[t * count + (row - first)] * value;
                        // SAFETY: a pair belongs to one group, a weight row of it to one task.
                        unsafe { out.set(pairs[t] as usize * width + row, value) }
                    });
                });
            });
        });
    }

    /// `part[pair] = down act[pair]` for the pairs of some experts.
    pub(super) fn down(
        &mut self,
        experts: Experts<'_, 1>,
        down: &CpuMatrix,
        (act, part): (&[f32], &mut [f32]),
    ) {
        match &down.int8 {
            Some(product) => self.down_int8(experts, (down, product), (act, part)),
            None => self.down_f32(experts, down, (act, part)),
        }
    }

    fn down_int8(
        &mut self,
        Experts { plan, count, find }: Experts<'_, 1>,
        (down, product): (&CpuMatrix, &Product),
        (act, part): (&[f32], &mut [f32]),
    ) {
        let (n_in, n_out) = (down.weight.n_in(), down.weight.n_out());
        let tile = down.tile(self.forced, plan.rows());
        let Self { pool, work, int8, .. } = self;
        let pairs = plan.experts().len();
        let numbers = room(&mut work.pairs, pairs);
        let mut listed = 0;
        for n in 0..count {
            for &pair in plan.pairs_of(find(n).group) {
                numbers[listed] = pair;
                listed += 1;
            }
        }
        let some = (listed, |i: usize| numbers[i] as usize);
        let acts = quantise_some(pool, *int8, (act, pairs), n_in, some, &mut work.hidden_acts);
        let load = Load { matrices: count, threads: pool.threads(), tile };
        let panels = PanelTasks::new(product, (n_out, n_in), average_group(plan), load);
        let tasks = panels.count();
        let out = Shared::new(&mut part[..pairs * n_out]);
        pool.run(count * tasks, &|task| {
            let Found { group, weights: [rows] } = find(task / tasks);
            let pairs = plan.pairs_of(group);
            SCRATCH.with_borrow_mut(|scratch| {
                for panel in panels.panels(task % tasks) {
                    let PanelRows { first, last, .. } = panel;
                    let stride = product.panel(rows, panel, &acts, pairs, (scratch, 0));
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

    fn down_f32(
        &mut self,
        Experts { plan, count, find }: Experts<'_, 1>,
        down: &CpuMatrix,
        (act, part): (&[f32], &mut [f32]),
    ) {
        let (n_in, n_out) = (down.weight.n_in(), down.weight.n_out());
        let each = down.tile(self.forced, plan.rows()).task_rows();
        let (simd, split) = (self.simd, RowTasks { rows: n_out, each });
        let tasks = split.count();
        let out = Shared::new(&mut part[..plan.experts().len() * n_out]);
        self.pool.run(count * tasks, &|task| {
            let Found { group, weights: [rows] } = find(task / tasks);
            let pairs = plan.pairs_of(group);
            let x = TokenRows { values: act, width: n_in, tokens: pairs };
            rows_times(&simd, rows, split.range(task % tasks), x, |t, row, value| {
                // SAFETY: a pair belongs to one group, a weight row of it to one task.
                unsafe { out.set(pairs[t] as usize * n_out + row, value) }
            });
        });
    }
}
