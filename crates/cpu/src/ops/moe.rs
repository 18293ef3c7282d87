//! Routed experts: each expert in use is read once, its rows spread over all threads.

use super::experts::Part;
use super::spread::{part, spread};
use crate::device::{Cpu, CpuMatrix};
use crate::share::Shared;
use crate::simd::elementwise::SwiGlu;
use kernels::Moe;
use kernels::host::Plan;
use kernels::moe::{GateUp, MoeChoice, SharedExpert};
use kernels::scalar::sigmoid;

/// Values per task of the shared expert's activation.
const SWIGLU: usize = 8 * 1024;

impl Moe for Cpu {
    fn moe_plan(&mut self, logits: &Vec<f32>, rows: usize, choice: MoeChoice, plan: &mut Plan) {
        plan.build(&logits[..rows * choice.experts], choice);
    }

    fn experts_in_use(&self, plan: &Plan) -> Option<usize> {
        Some(plan.groups().len())
    }

    fn moe_gate_up(
        &mut self,
        plan: &Plan,
        experts: GateUp<'_, CpuMatrix>,
        u: &Vec<f32>,
        act: &mut Vec<f32>,
    ) {
        let (gate, up, width) = match experts {
            GateUp::Separate { gate, up } => {
                let width = gate.weight.n_out();
                (Part::new(gate, width, 0), Part::new(up, width, 0), width)
            }
            GateUp::Fused(both) => {
                let width = both.weight.n_out() / 2;
                (Part::new(both, 2 * width, 0), Part::new(both, 2 * width, width), width)
            }
        };
        match (&gate.matrix.int8, &up.matrix.int8) {
            (Some(a), Some(b)) => self.gate_up_int8(plan, [(gate, a), (up, b)], width, (u, act)),
            _ => self.gate_up_f32(plan, [gate, up], width, (u, act)),
        }
    }

    fn moe_down(&mut self, plan: &Plan, down: &CpuMatrix, act: &Vec<f32>, part: &mut Vec<f32>) {
        match &down.int8 {
            Some(product) => self.down_int8(plan, down, product, (act, part)),
            None => self.down_f32(plan, down, (act, part)),
        }
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
