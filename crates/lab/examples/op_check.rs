//! Holds the CPU's kernels against the reference on the standard cases whose name contains one of
//! the arguments, at full size: `tuff bench --kernels` times the same cases.
//!
//! `cargo run --release -p lab --example op_check -- gemv/IQ4`

use cpu::{Cpu, CpuOptions};
use lab::cases;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let mut cpu = Cpu::new(CpuOptions::default());
    for case in cases::matching(&names) {
        let worst = case.check(&mut cpu)?;
        println!("{}: {:.4} of the bound, {}", case.name(), worst.share, worst.place);
    }
    Ok(())
}
