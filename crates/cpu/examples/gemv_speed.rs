//! Prints how fast each format's mat-vec is on one thread: values and bytes per second for T = 1
//! and T = 4, per instruction set. Run with `--release`; the best of many short runs counts, so that
//! other work on the machine does not. Blocks come from the fixtures: arbitrary bytes would be full of
//! denormals, which are slow.

use cpu::{Cpu, CpuOptions, Isa};
use gguf::TensorType;
use kernels::weight::WeightShape;
use kernels::{Activations, Device, Gemv, Weight};
use std::time::{Duration, Instant};

const N_IN: usize = 2048;
const N_OUT: usize = 256;

fn seconds(cpu: &mut Cpu, weight: &Weight, rows: usize) -> Option<f64> {
    let matrix = cpu.load_matrix(weight, Activations::F32).ok()?;
    let (x, mut y) = (vec![0.5; rows * N_IN], vec![0.0; rows * N_OUT]);
    let started = Instant::now();
    let mut best = f64::INFINITY;
    while started.elapsed() < Duration::from_millis(150) {
        let run = Instant::now();
        cpu.matmul(&matrix, &x, rows, &mut y);
        best = best.min(run.elapsed().as_secs_f64());
    }
    Some(best)
}

fn main() {
    let only = std::env::args().nth(1);
    for isa in Isa::available() {
        let mut cpu = Cpu::new(CpuOptions { threads: 1, isa });
        println!("{:<8} {:>10} {:>8} {:>10}", isa.name(), "Mvalues/s", "GB/s", "T=4");
        for &ty in TensorType::ALL {
            if only.as_deref().is_some_and(|only| only != ty.name()) || ty.is_activation_only() {
                continue;
            }
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/formats");
            let Ok(blocks) = std::fs::read(format!("{file}/{}.rand.bin", ty.name())) else {
                continue;
            };
            let size = N_IN * N_OUT / ty.block_elements() * ty.block_bytes();
            let bytes: Vec<u8> = blocks.iter().copied().cycle().take(size).collect();
            let shape = WeightShape { n_in: N_IN, n_out: N_OUT, experts: 1 };
            let Ok(weight) = Weight::new(ty.name(), ty, shape, bytes.into()) else { continue };
            let Some(one) = seconds(&mut cpu, &weight, 1) else { continue };
            let Some(four) = seconds(&mut cpu, &weight, 4) else { continue };
            let rate = |t: f64| (N_IN * N_OUT) as f64 / t / 1e6;
            let bandwidth = size as f64 / one / 1e9;
            println!("{:<8} {:>10.0} {bandwidth:>8.2} {:>10.0}", ty.name(), rate(one), rate(four));
        }
    }
}
