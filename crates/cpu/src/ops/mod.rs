//! The families, one file each.

pub(crate) mod angles;
mod attend;
mod conv;
mod experts;
mod gdn;
mod gemv;
mod hc;
mod head;
mod moe;
mod mtp;
mod ple;
mod qsa;
mod rows;
mod spread;
