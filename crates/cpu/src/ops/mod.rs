//! The families, one file each.

mod experts;
mod gdn;
mod gemv;
mod hc;
mod head;
mod moe;
mod ple;
mod qsa;
mod rows;
