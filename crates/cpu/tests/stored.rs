//! Experts from a source that gives them in an order of its own, a few at a time: the same bits as
//! from the file. One that does not give all of them is a fault.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::Cpu;
use gguf::{Bytes, TensorType};
use kernels::host::Plan;
use kernels::moe::{ExpertMatrices, GateUp, MoeChoice};
use kernels::stored::{ExpertSource, StoredExperts, TakenExpert};
use kernels::weight::WeightShape;
use kernels::{Activations, Device, Error, Moe, Weight};
use std::sync::{Arc, Mutex};

const N: usize = 256;
const CHOICE: MoeChoice = MoeChoice { experts: 6, used: 2 };

/// Gives the last of the wanted experts first, two at a time, and none of the first `kept` ones.
#[derive(Debug)]
struct Backwards {
    weight: Weight,
    kept: usize,
    wanted: Mutex<Vec<(usize, usize)>>,
}

impl ExpertSource for Backwards {
    fn want(&self, _: usize, experts: &mut dyn Iterator<Item = usize>, _: usize) {
        *self.wanted.lock().unwrap() = experts.enumerate().skip(self.kept).collect();
    }

    fn take(&self, taken: &mut Vec<TakenExpert>) -> Result<(), Error> {
        taken.clear();
        let mut wanted = self.wanted.lock().unwrap();
        let rest = wanted.len().saturating_sub(2);
        for (place, expert) in wanted.drain(rest..).rev() {
            let bytes = N * self.weight.row_bytes();
            let own = &self.weight.bytes()[expert * bytes..(expert + 1) * bytes];
            let parts = [0, 1, 2].map(|_| Bytes::from(own.to_vec()));
            taken.push(TakenExpert { place, parts });
        }
        Ok(())
    }

    fn expect(&self, _: usize, _: &[u32]) {}

    fn resident(&self, _: usize, _: &mut [bool]) {}
}

/// Bits of what the experts of some rows give; `kept` says what a source keeps to itself.
fn run(
    cpu: &mut Cpu,
    ty: TensorType,
    of: Activations,
    kept: Option<usize>,
) -> Result<Vec<u32>, Error> {
    let rows = 7;
    let weight = weight(ty, WeightShape { n_in: N, n_out: N, experts: CHOICE.experts });
    let stack = cpu.load_matrix(&weight, of).unwrap();
    let stored = kept.map(|kept| {
        let source = Arc::new(Backwards { weight, kept, wanted: Mutex::default() });
        StoredExperts { source, layer: 0 }
    });
    let x = Random::new(3).values(rows * N, 2.0);
    let mut plan = Plan::default();
    cpu.moe_plan(&Random::new(9).values(rows * CHOICE.experts, 1.0), rows, CHOICE, &mut plan);
    assert!(plan.groups().len() > 3);
    if let Some(stored) = &stored {
        cpu.moe_want(&plan, stored);
    }
    let gate_up = GateUp::Separate { gate: &stack, up: &stack };
    let experts = ExpertMatrices { gate_up, down: &stack, stored: stored.as_ref() };
    let mut act = poisoned(rows * CHOICE.used * N);
    let mut part = poisoned(rows * CHOICE.used * N);
    cpu.moe_experts(&plan, experts, &x, (&mut act, &mut part));
    let mut out = vec![0.0; part.len()];
    cpu.download(&part, &mut out).unwrap();
    cpu.check()?;
    Ok(out.iter().map(|value| value.to_bits()).collect())
}

#[test]
fn the_order_of_experts_changes_no_bit_and_a_missing_one_is_a_fault() {
    let cases = [(TensorType::IQ3_S, Activations::Int8), (TensorType::F16, Activations::F32)];
    for mut cpu in every_isa() {
        for (ty, of) in cases {
            let expected = run(&mut cpu, ty, of, None).unwrap();
            assert!(run(&mut cpu, ty, of, Some(0)).unwrap() == expected, "{ty:?}");
            for kept in [1, 3, 99] {
                let Err(Error::Storage { why }) = run(&mut cpu, ty, of, Some(kept)) else {
                    panic!("{kept} of {ty:?} are missing");
                };
                assert!(why.contains("came"), "{why}");
            }
            // It is told once.
            assert!(run(&mut cpu, ty, of, Some(0)).unwrap() == expected, "{ty:?}");
        }
    }
}
