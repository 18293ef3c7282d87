//! The families, one file each.

mod gdn;
mod gemv;
mod hc;
mod head;
mod moe;
mod ple;
mod qsa;
