//! Times kernels on the CPU and prints a Markdown table of the standard cases whose name contains
//! one of the arguments; with `--check` it holds them against the reference instead.
//!
//! `cargo run --release -p lab --example op_speed -- gemv/IQ4 --threads 2`

use clap::Parser;
use cpu::{Cpu, CpuOptions};
use lab::report::{Line, Report, heading};
use lab::{Budget, OpCase, cases, read_bandwidth};
use std::time::Duration;

#[derive(Parser)]
struct Args {
    /// Parts of names, as in gemv/IQ3_S/2560x10240/T4/int8; none means every case.
    names: Vec<String>,
    /// Threads; 0 means one per processor.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Milliseconds per case.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// Mebibytes of weights that take turns; more than the last-level cache.
    #[arg(long, default_value_t = 512)]
    cold: usize,
    /// Data instead of a table.
    #[arg(long, conflicts_with = "check")]
    json: bool,
    /// Compare with the reference instead of timing.
    #[arg(long)]
    check: bool,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let mut cpu = Cpu::new(CpuOptions { threads: args.threads, ..CpuOptions::default() });
    let cases = cases::matching(&args.names);
    if args.check {
        return check(&mut cpu, &cases);
    }
    let budget = Budget { time: Duration::from_millis(args.ms), cold_bytes: args.cold << 20 };
    let bandwidth = read_bandwidth(cpu.threads(), budget.cold_bytes);
    let device = format!("cpu ({}, {} threads)", cpu.isa().name(), cpu.threads());
    if !args.json {
        print!("{}", heading(&device, bandwidth));
    }
    let print = |line: &Line| {
        if !args.json {
            println!("{}", line.markdown());
        }
    };
    let mut report = Report::measure(&mut cpu, &cases, (bandwidth, &budget), print)?;
    report.device = device;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(())
}

fn check(cpu: &mut Cpu, cases: &[OpCase]) -> Result<(), Box<dyn std::error::Error>> {
    for case in cases {
        let worst = case.check(cpu)?;
        println!("{}: {:.4} of the bound, {}", case.name(), worst.share, worst.place);
    }
    Ok(())
}
