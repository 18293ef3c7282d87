//! Prints how fast each format's product is on cold weights: microseconds and GB/s of weight bytes
//! for T = 1, 4 and more, per instruction set.
//!
//!     cargo run --release -p cpu --example gemv_speed [FORMAT,...|all] [THREADS] [ISA] [f32]
//!
//! Several matrices are taken in turn, more bytes than the caches hold. Best of many runs, so that
//! other work on the machine does not count. Blocks come from the fixtures: arbitrary bytes would
//! be full of denormals, which are slow.

use cpu::{Cpu, CpuOptions, Isa};
use gguf::TensorType;
use kernels::weight::WeightShape;
use kernels::{Activations, Device, Gemv, Weight};
use std::time::Instant;

const N_IN: usize = 2560;
const N_OUT: usize = 10240;
const TOTAL: usize = 160 << 20;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |i: usize| args.get(i).map(String::as_str);
    let only = arg(0).filter(|&only| only != "all").map(|only| only.split(',').collect::<Vec<_>>());
    let threads = arg(1).and_then(|t| t.parse().ok()).unwrap_or(1);
    let activations = if arg(3) == Some("f32") { Activations::F32 } else { Activations::Int8 };
    for isa in Isa::available() {
        if arg(2).is_some_and(|name| name != isa.name()) {
            continue;
        }
        let mut cpu = Cpu::new(CpuOptions { threads, isa, ..CpuOptions::default() });
        println!(
            "{:<10} {:>9} {:>7} {:>9} {:>7} {:>9}",
            isa.name(),
            "us T=1",
            "GB/s",
            "us T=4",
            "x4",
            "us T=32"
        );
        for &ty in TensorType::ALL {
            if only.as_ref().is_some_and(|only| !only.contains(&ty.name()))
                || ty.is_activation_only()
            {
                continue;
            }
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/formats");
            let Ok(blocks) = std::fs::read(format!("{file}/{}.rand.bin", ty.name())) else {
                continue;
            };
            let size = N_IN * N_OUT / ty.block_elements() * ty.block_bytes();
            let bytes: Vec<u8> = blocks.iter().copied().cycle().take(size).collect();
            let shape = WeightShape { n_in: N_IN, n_out: N_OUT, experts: 1 };
            let mut load = || {
                let weight = Weight::new(ty.name(), ty, shape, bytes.clone().into()).ok()?;
                cpu.load_matrix(&weight, activations).ok()
            };
            let matrices: Option<Vec<_>> = (0..TOTAL.div_ceil(size)).map(|_| load()).collect();
            let Some(matrices) = matrices else { continue };
            let mut best = |rows: usize| {
                let (x, mut y) = (vec![0.5; rows * N_IN], vec![0.0; rows * N_OUT]);
                let mut best = f64::INFINITY;
                for _ in 0..if rows > 4 { 1 } else { 4 } {
                    for matrix in &matrices {
                        let run = Instant::now();
                        cpu.matmul(matrix, &x, rows, &mut y);
                        best = best.min(run.elapsed().as_secs_f64());
                    }
                }
                best
            };
            let (one, four, many) = (best(1), best(4), best(32));
            let bandwidth = size as f64 / one / 1e9;
            println!(
                "{:<10} {:>9.0} {bandwidth:>7.2} {:>9.0} {:>7.2} {:>9.0}",
                ty.name(),
                one * 1e6,
                four * 1e6,
                four / one,
                many * 1e6
            );
        }
    }
}
