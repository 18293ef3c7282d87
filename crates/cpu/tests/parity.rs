//! What `tuff parity --quick` does, with every instruction set and every tile: nothing misses.
//! Emulated processors look at formats of every kind, the others at all.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use lab::parity::{Extent, Named, Tiles, run};

/// One format of each kind of kernel, and every family without formats.
const FEW: [&str; 12] = [
    "gemv/Q8_0/160",
    "gemv/Q4_K/",
    "gemv/IQ3_S/",
    "gemv/F16/160",
    "moe_gate_up/IQ4_NL/",
    "moe_down/Q8_0/96",
    "hc_",
    "gdn_",
    "qsa_sparse/f16",
    "ple_mix",
    "mtp_input",
    "argmax",
];

#[test]
fn a_quick_parity_run_has_no_miss() {
    let few: Vec<String> = if is_slow() { FEW.map(str::to_owned).into() } else { Vec::new() };
    let cases = Extent::Quick.cases(&[3], &few);
    let named = |cpu: cpu::Cpu| Named { name: cpu.isa().name().to_owned(), backend: cpu };
    let mut devices: Vec<_> = every_isa().into_iter().map(named).collect();
    let report = run(&mut devices, &cases, Tiles::All, &mut |_| true).unwrap();
    let misses: Vec<String> = report.misses.iter().map(ToString::to_string).collect();
    assert!(misses.is_empty(), "{} misses, the first: {}", misses.len(), misses[0]);
    assert_eq!(report.cases(), cases.len() * devices.len());
    assert!(report.tiles() > report.cases(), "products have several tiles");
}
