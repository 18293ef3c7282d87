//! A tile changes no bit: every value of every parameter, on every instruction set, for matrices
//! and for experts, forced and from a table.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::Cpu;
use gguf::TensorType;
use kernels::host::Plan;
use kernels::moe::{GateUp, MoeChoice};
use kernels::tiles::{RowClass, Shape, Tile, TileTable, Tunable};
use kernels::weight::WeightShape;
use kernels::{Activations, Device, Gemv, Moe, Weight};

const N_IN: usize = 256;
const N_OUT: usize = 70;
const EXPERTS: MoeChoice = MoeChoice { experts: 6, used: 2 };

const CASES: [(TensorType, Activations); 5] = [
    (TensorType::IQ3_S, Activations::Int8),
    (TensorType::Q8_0, Activations::Int8),
    (TensorType::Q4_K, Activations::Int8),
    (TensorType::IQ3_S, Activations::F32),
    (TensorType::F16, Activations::F32),
];

/// Bits of the products of a window with a matrix, and with the experts of its rows.
fn products(cpu: &mut Cpu, weights: &[Weight; 2], of: Activations, rows: usize) -> Vec<u32> {
    let x = Random::new(rows as u64).values(rows * N_IN, 2.0);
    let matrix = cpu.load_matrix(&weights[0], of).unwrap();
    let stack = cpu.load_matrix(&weights[1], of).unwrap();
    let mut y = poisoned(rows * N_OUT);
    cpu.matmul(&matrix, &x, rows, &mut y);
    let mut plan = Plan::default();
    let logits = Random::new(9).values(rows * EXPERTS.experts, 1.0);
    cpu.moe_plan(&logits, rows, EXPERTS, &mut plan);
    let mut act = poisoned(rows * EXPERTS.used * N_OUT);
    cpu.moe_gate_up(&plan, GateUp::Separate { gate: &stack, up: &stack }, &x, &mut act);
    let pairs = Random::new(5).values(rows * EXPERTS.used * N_IN, 1.0);
    let mut part = poisoned(rows * EXPERTS.used * N_OUT);
    cpu.moe_down(&plan, &stack, &pairs, &mut part);
    let all = y.iter().chain(&act).chain(&part);
    assert!(all.clone().all(|value| value.is_finite()));
    all.map(|value| value.to_bits()).collect()
}

/// A matrix, and a stack of experts.
fn weights(ty: TensorType) -> [Weight; 2] {
    [1, EXPERTS.experts]
        .map(|experts| weight(ty, WeightShape { n_in: N_IN, n_out: N_OUT, experts }))
}

/// One parameter after the other, then two at once.
fn tiles(cpu: &Cpu, shape: &Shape, rows: RowClass) -> Vec<Tile> {
    let parameters = cpu.tile_parameters(shape, rows);
    let mut all = Vec::new();
    for (name, values) in &parameters {
        all.extend(values.iter().map(|value| Tile::new([(*name, *value)])));
    }
    let every = parameters.iter().map(|(name, values)| (*name, values[values.len() - 1]));
    all.push(Tile::new(every));
    all
}

#[test]
fn a_tile_changes_no_bit() {
    let rows: &[usize] = if is_slow() { &[1, 5] } else { &[1, 2, 3, 4, 7, 33] };
    for mut cpu in every_isa() {
        for (ty, activations) in CASES {
            let weights = weights(ty);
            for &rows in rows {
                let expected = products(&mut cpu, &weights, activations, rows);
                let shape = Shape::of(&weights[0], activations);
                for tile in tiles(&cpu, &shape, RowClass::of(rows)) {
                    cpu.force_tile(Some(&tile)).unwrap();
                    let found = products(&mut cpu, &weights, activations, rows);
                    let (isa, name) = (cpu.isa().name(), shape.name());
                    assert!(found == expected, "{name}, {rows} rows, {tile}, {isa}");
                }
                cpu.force_tile(None).unwrap();
            }
        }
    }
}

#[test]
fn a_table_is_for_its_shapes_and_rows_and_may_hold_nonsense() {
    let mut cpu = every_isa().pop().unwrap();
    let weights = weights(TensorType::Q8_0);
    let expected = products(&mut cpu, &weights, Activations::Int8, 3);
    let mut table = TileTable::default();
    for weight in &weights {
        let shape = Shape::of(weight, Activations::Int8).name();
        table.insert(shape.clone(), RowClass::of(3), Tile::new([("panels", 1), ("tasks", 2)]));
        table.insert(shape, RowClass::of(1), Tile::new([("panels", 77)]));
    }
    table.insert("no shape at all".to_owned(), RowClass::of(3), Tile::new([("lanes", 1)]));
    cpu.set_tiles(table);
    assert!(products(&mut cpu, &weights, Activations::Int8, 3) == expected);
    products(&mut cpu, &weights, Activations::Int8, 1);
}
