//! How many kernels a token of a whole model takes: what decoding costs is mostly that.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::models::*;
use engine::{Feed, Want};
use kernels::Activations;

/// Kernels of a recurrent layer where a call has room for two products: two reads of the streams,
/// two calls of two projections, scan, gate, output; two calls of router and shared expert, plan,
/// gate and up, activation, sum.
const RECURRENT: u64 = 2 + 2 + 3 + 2 + 2 + 4;

/// Of an attention layer past its budget: three calls of projections, append, scores, choice,
/// attention, merge, output in place of those of a recurrent one.
const ATTENTION: u64 = RECURRENT - 5 + 9;

/// Embedding, n-gram features, the last row and the head.
const OTHERS: u64 = 9;

#[test]
fn one_token_takes_few_kernels() {
    // Eight layers, every fourth with attention.
    with_engine(Activations::Int8, &checkpoint("quantmix"), sizes(), |engine| {
        let mut calls = |tokens: &[u32]| {
            let before = engine.backend_mut().calls();
            engine.forward(&[Feed::new(0, tokens, Want::Last)]).unwrap();
            engine.backend_mut().calls() - before
        };
        calls(&prompt("quantmix", "budget_edge"));
        for tokens in [&[7][..], &[7, 8, 9, 10]] {
            let found = calls(tokens);
            let most = 6 * RECURRENT + 2 * ATTENTION + OTHERS;
            assert!(found <= most, "{found} kernels of {} tokens, at most {most}", tokens.len());
        }
    });
}
