//! How many kernels one token of a whole model takes: what decoding costs is mostly that.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::models::*;
use engine::{Feed, Want};
use kernels::Activations;

#[test]
fn one_token_takes_few_kernels() {
    with_engine(Activations::Int8, &checkpoint("quantmix"), sizes(), |engine| {
        let tokens = prompt("quantmix", "budget_edge");
        engine.forward(&[Feed::new(0, &tokens, Want::Last)]).unwrap();
        for _ in 0..2 {
            engine.forward(&[Feed::new(0, &[7], Want::Last)]).unwrap();
        }
        let before = engine.backend_mut().calls();
        engine.forward(&[Feed::new(0, &[7], Want::Last)]).unwrap();
        let count = engine.backend_mut().calls() - before;
        engine.backend_mut().profile(true);
        engine.forward(&[Feed::new(0, &[7], Want::Last)]).unwrap();
        let times = engine.backend_mut().profile(false);
        let list: Vec<String> =
            times.iter().map(|(name, time)| format!("{:4} {name}", time.calls)).collect();
        panic!("{count} kernels {:?}\n{}", engine.hyper_params(), list.join("\n"));
    });
}
