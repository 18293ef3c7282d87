//! Both ways to the device, past wgpu's bookkeeping and through wgpu, make the same calls and get
//! the same bits.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::models::*;
use common::{bits, gpu_on};
use engine::Engine;
use gpu::{Gpu, Route};
use kernels::{Activations, Device, Head};
use std::collections::BTreeMap;

/// Two of the fixture models, which together meet nearly every kernel.
const MODELS: [&str; 2] = ["tiny-f32", "quantmix"];

/// What a text leaves behind.
#[derive(Debug, PartialEq)]
struct Outcome {
    logits: Vec<u32>,
    state: u64,
    calls: u64,
}

fn engine(model: &str, route: Route) -> Option<Engine<Gpu>> {
    let gpu = gpu_on(Activations::Int8, route)?;
    assert_eq!(gpu.route(), route, "{} has no such route", gpu.title());
    Some(Engine::new(gpu, &checkpoint(model), sizes(), &mut |_| {}).unwrap())
}

/// A whole text past the indexer's budget, in windows that go to kernels for few and many rows.
fn outcome(model: &str, route: Route) -> Option<Outcome> {
    let mut engine = engine(model, route)?;
    let tokens = prompt(model, if full() { "chunk" } else { "budget_edge" });
    let before = engine.backend_mut().calls();
    let logits = bits(&logits_in_chunks(&mut engine, &tokens, &[40, 1, 1, 3, 8, 1]));
    let calls = engine.backend_mut().calls() - before;
    Some(Outcome { logits, state: engine.state_hash(0).unwrap(), calls })
}

#[test]
fn both_routes_give_the_same_bits_with_as_many_calls() {
    for model in MODELS {
        let [Some(direct), Some(wgpu)] = [Route::Direct, Route::Wgpu].map(|r| outcome(model, r))
        else {
            return;
        };
        assert!(direct.logits == wgpu.logits, "{model}: logits");
        assert_eq!((direct.state, direct.calls), (wgpu.state, wgpu.calls), "{model}");
        assert!(direct.calls > 0, "{model}");
    }
}

/// Every kernel's calls are timed, and what is timed has the bits of what is not.
#[test]
fn both_routes_time_the_same_calls() {
    let profiled = |route| {
        let mut engine = engine(MODELS[0], route)?;
        let tokens = prompt(MODELS[0], "short");
        let plain = bits(&logits_in_chunks(&mut engine, &tokens, &[5, 1]));
        engine.reset(0).unwrap();
        engine.backend_mut().profile(true);
        let timed = bits(&logits_in_chunks(&mut engine, &tokens, &[5, 1]));
        let times = engine.backend_mut().profile(false);
        assert!(plain == timed, "{route:?}");
        assert!(times.values().all(|time| (0.0..60.0).contains(&time.seconds)), "{times:?}");
        let counts = times.into_iter().map(|(kernel, time)| (kernel, time.calls));
        Some(counts.collect::<BTreeMap<_, _>>())
    };
    let [Some(direct), Some(wgpu)] = [Route::Direct, Route::Wgpu].map(profiled) else { return };
    assert_eq!(direct, wgpu);
}

/// What waits in lists outlives those who asked for it.
#[test]
fn buffers_may_go_before_the_lists_that_use_them() {
    for route in [Route::Direct, Route::Wgpu] {
        let Some(mut gpu) = gpu_on(Activations::Int8, route) else { return };
        let weight = common::f32_weight(32, 2, &[1.0; 64]);
        let mut out = gpu.alloc(64).unwrap();
        for round in 0..50 {
            let table = gpu.load_matrix(&weight, Activations::F32).unwrap();
            let mut rows = gpu.alloc(64).unwrap();
            gpu.embed(&table, &[round % 2, 1], 1, &mut rows);
            gpu.gather_rows(&rows, &[1, 0], 32, (&mut out, 0));
        }
        let mut found = [0.0; 64];
        gpu.download(&out, &mut found).unwrap();
        assert_eq!(found, [1.0; 64]);
    }
}
