//! Products with 8-bit activations have the same bits on every instruction set that fuses multiply
//! and add: the integers are exact and the sums over groups run in one order, whatever the vectors'
//! width.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::Cpu;
use gguf::TensorType;
use kernels::weight::WeightShape;
use kernels::{Activations, Device, Gemv};

/// Rows of the window.
const ROWS: usize = 5;
/// Panels of 8 and of 16 rows, whole and in part.
const N_OUT: usize = 37;

fn activations(n_in: usize) -> Vec<f32> {
    Random::new(n_in as u64).values(ROWS * n_in, 3.0)
}

/// One product of every format and row length, by its bits.
fn products(cpu: &mut Cpu) -> Vec<(TensorType, usize, Vec<u32>)> {
    let lengths: &[usize] = if is_slow() { &[96, 256] } else { &[64, 96, 640, 2560] };
    let mut found = Vec::new();
    for ty in weight_types().into_iter().filter(|ty| ty.block_elements() > 1) {
        // A row must be whole blocks.
        for n_in in lengths.iter().copied().filter(|n| n.is_multiple_of(ty.block_elements())) {
            let weight = weight(ty, WeightShape { n_in, n_out: N_OUT, experts: 1 });
            let matrix = cpu.load_matrix(&weight, Activations::Int8).unwrap();
            let mut y = poisoned(ROWS * N_OUT);
            cpu.matmul(&matrix, &activations(n_in), ROWS, &mut y);
            assert!(y.iter().all(|y| y.is_finite()), "{} {n_in}", ty.name());
            found.push((ty, n_in, y.iter().map(|y| y.to_bits()).collect()));
        }
    }
    found
}

#[test]
fn instruction_sets_that_fuse_give_the_same_bits() {
    // The first is plain Rust, which does not fuse.
    let mut fusing = every_isa().into_iter().skip(1);
    let Some(mut first) = fusing.next() else { return };
    let expected = products(&mut first);
    assert!(expected.len() >= 25, "{}", expected.len());
    for mut cpu in fusing {
        for (found, expected) in products(&mut cpu).iter().zip(&expected) {
            let (ty, n_in, _) = expected;
            let (isa, base) = (cpu.isa().name(), first.isa().name());
            assert!(found == expected, "{} {n_in}: {isa} against {base}", ty.name());
        }
    }
}

/// A sum adds at most one product and one offset per 16 values. Without fusing each is rounded
/// before it is added; so two such sums differ by at most three roundings of each, of 2^-24 of the
/// magnitudes that went in: codes and offsets are at most twice and once the largest weight.
#[test]
fn plain_rust_differs_by_rounding_alone() {
    let mut all = every_isa().into_iter();
    let Some(mut plain) = all.next() else { return };
    let Some(mut fusing) = all.next() else { return };
    for ((ty, n_in, a), (_, _, b)) in products(&mut plain).iter().zip(&products(&mut fusing)) {
        let weight = weight(*ty, WeightShape { n_in: *n_in, n_out: N_OUT, experts: 1 });
        let (x, decoded) = (activations(*n_in), weight.decode());
        let roundings = (3 * 2 * n_in.div_ceil(16)) as f32 * 2f32.powi(-24);
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            let (a, b) = (f32::from_bits(*a), f32::from_bits(*b));
            let (w, x) = (&decoded[i % N_OUT * n_in..][..*n_in], &x[i / N_OUT * n_in..][..*n_in]);
            let largest = w.iter().fold(0f32, |m, w| m.max(w.abs()));
            let limit = roundings * 3.0 * largest * x.iter().map(|x| x.abs()).sum::<f32>();
            assert!((a - b).abs() <= limit, "{} {n_in}, value {i}: {a} and {b}", ty.name());
        }
    }
}
