//! The cases of `lab` against the reference: every family, with every format of weights, of keys
//! and values, and of activations.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::shared_gpu;
use lab::parity::Extent;

#[test]
fn every_case_agrees_with_the_reference() {
    let Some(mut gpu) = shared_gpu() else { return };
    let cases = Extent::Quick.cases(Extent::Quick.rows(), &[]);
    let misses: Vec<String> = cases
        .iter()
        .filter_map(|case| case.check(&mut *gpu).err())
        .map(|miss| miss.to_string())
        .collect();
    let (missed, all) = (misses.len(), cases.len());
    assert!(misses.is_empty(), "{missed} of {all} cases:\n{}", misses.join("\n"));
}
