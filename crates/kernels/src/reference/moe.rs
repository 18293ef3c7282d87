//! Routed experts and the shared expert.

use super::Reference;
use super::gemv::expert_matmul;
use crate::host::Plan;
use crate::moe::{GateUp, SharedExpert};
use crate::scalar::{sigmoid, silu};
use crate::{Moe, Weight};

impl Moe for Reference {
    crate::host_plans!();

    fn moe_gate_up(
        &mut self,
        plan: &Plan,
        experts: GateUp<'_, Weight>,
        u: &Vec<f32>,
        act: &mut Vec<f32>,
    ) {
        for group in plan.groups() {
            let pairs = plan.pairs_of(group);
            let n_in = match &experts {
                GateUp::Separate { gate, .. } => gate.n_in(),
                GateUp::Fused(both) => both.n_in(),
            };
            let row = |&pair: &u32| &u[pair as usize / plan.used() * n_in..][..n_in];
            let x: Vec<&[f32]> = pairs.iter().map(row).collect();

            let (mut gates, mut ups) = (vec![Vec::new(); x.len()], vec![Vec::new(); x.len()]);
            match &experts {
                GateUp::Separate { gate, up } => {
                    expert_matmul(gate, group.expert, &x, |t, _, v| gates[t].push(v));
                    expert_matmul(up, group.expert, &x, |t, _, v| ups[t].push(v));
                }
                GateUp::Fused(both) => {
                    let width = both.n_out() / 2;
                    expert_matmul(both, group.expert, &x, |t, r, v| {
                        if r < width { gates[t].push(v) } else { ups[t].push(v) }
                    });
                }
            }
            for ((&pair, gate), up) in pairs.iter().zip(&gates).zip(&ups) {
                let act = &mut act[pair as usize * gate.len()..][..gate.len()];
                for ((a, &g), &u) in act.iter_mut().zip(gate).zip(up) {
                    *a = silu(g) * u;
                }
            }
        }
    }

    fn moe_down(&mut self, plan: &Plan, down: &Weight, act: &Vec<f32>, part: &mut Vec<f32>) {
        for group in plan.groups() {
            let pairs = plan.pairs_of(group);
            let row = |&pair: &u32| &act[pair as usize * down.n_in()..][..down.n_in()];
            let x: Vec<&[f32]> = pairs.iter().map(row).collect();
            expert_matmul(down, group.expert, &x, |t, r, v| {
                part[pairs[t] as usize * down.n_out() + r] = v;
            });
        }
    }

    fn swiglu(&mut self, a: &mut Vec<f32>, b: &Vec<f32>, len: usize) {
        for (a, &b) in a[..len].iter_mut().zip(b) {
            *a = silu(*a) * b;
        }
    }

    fn moe_combine(
        &mut self,
        plan: &Plan,
        part: &Vec<f32>,
        shared: SharedExpert<'_, Vec<f32>>,
        y: &mut Vec<f32>,
    ) {
        let (used, width) = (plan.used(), shared.width);
        for t in 0..plan.rows() {
            let gate = sigmoid(shared.gate[t]);
            for i in 0..width {
                let mut sum = 0.0;
                for pair in t * used..(t + 1) * used {
                    sum += f64::from(plan.weights()[pair]) * f64::from(part[pair * width + i]);
                }
                y[t * width + i] = sum as f32 + gate * shared.y[t * width + i];
            }
        }
    }
}
