//! Recording the routes of a model.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

use cpu::{Cpu, CpuOptions};
use engine::{Engine, EngineConfig, Feed, Probe, RouterView, Want};
use kernels::Backend;
use kernels::host::Plan;
use kernels::moe::MoeChoice;
use kernels::reference::Reference;
use lab::routes::{FORECASTS, Routes, Statistics, record};
use model::Checkpoint;
use std::ops::ControlFlow;
use std::path::Path;

fn engine_on<B: Backend>(backend: B, context: usize, chunk: usize) -> Engine<B> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/qwen4exp/quantmix.gguf");
    let checkpoint = Checkpoint::load(&gguf::Gguf::open(path).unwrap()).unwrap();
    let config = EngineConfig { context, chunk, ..EngineConfig::default() };
    Engine::new(backend, &checkpoint, config, &mut |_| {}).unwrap()
}

fn engine(context: usize, chunk: usize) -> Engine<Cpu> {
    let cpu = Cpu::new(CpuOptions { threads: 1, ..CpuOptions::default() });
    engine_on(cpu, context, chunk)
}

fn text() -> Vec<u32> {
    (0..100).map(|i| (i * i * 7 + 3) % 500).collect()
}

fn routes<B: Backend>(mut engine: Engine<B>) -> Routes {
    let mut go_on = |_| ControlFlow::Continue(());
    record(&mut engine, &text(), "quantmix".to_owned(), &mut go_on).unwrap().unwrap()
}

/// Choices made from the logits of a probe of its own, one token at a time.
struct Own<'a> {
    routes: &'a Routes,
    token: usize,
    seen: usize,
}

impl Probe for Own<'_> {
    fn wants_routers(&self) -> bool {
        true
    }

    fn router(&mut self, layer: usize, seen: RouterView, logits: &[f32]) {
        let found = match seen {
            RouterView::Own => self.routes.chosen(self.token, layer),
            RouterView::InputBefore => self.routes.forecast(self.token, layer, 0).unwrap(),
            RouterView::Early => self.routes.forecast(self.token, layer, 1).unwrap(),
            RouterView::Late => self.routes.forecast(self.token, layer, 2).unwrap(),
        };
        let mut plan = Plan::default();
        plan.build(logits, MoeChoice { experts: self.routes.experts, used: self.routes.used });
        assert!(found.iter().map(|&expert| u32::from(expert)).eq(plan.experts().iter().copied()));
        self.seen += 1;
    }
}

#[test]
fn recorded_choices_are_those_of_every_token() {
    let routes = routes(engine(100, 16));
    let mut engine = engine(100, 1);
    let mut probe = Own { routes: &routes, token: 0, seen: 0 };
    for (token, id) in text().iter().enumerate() {
        probe.token = token;
        engine.forward_probed(&[Feed::new(0, &[*id], Want::Nothing)], &mut probe).unwrap();
    }
    let lists = 1 + (routes.layers - 1) * (1 + FORECASTS.len());
    assert_eq!(probe.seen, text().len() * lists);
}

#[test]
fn chunks_change_nothing_and_passages_begin_anew() {
    let whole = routes(engine(100, 16));
    assert_eq!(routes(engine(100, 64)).tokens, whole.tokens);
    assert_eq!(routes(engine(100, 64)), whole);
    assert_eq!(whole.passages().count(), 1);

    let cut = routes(engine(40, 16));
    assert_eq!(cut.passages().collect::<Vec<_>>(), [0..40, 40..80, 80..100]);
    for layer in 0..whole.layers {
        assert_eq!(cut.chosen(39, layer), whole.chosen(39, layer));
    }
    assert!((0..whole.layers).any(|layer| cut.chosen(41, layer) != whole.chosen(41, layer)));
}

#[test]
fn the_reference_routes_alike() {
    let found = Statistics::of(&routes(engine_on(Reference, 100, 16)));
    let expected = Statistics::of(&routes(engine(100, 16)));
    for (found, expected) in found.forecasts.iter().zip(&expected.forecasts) {
        // 8-bit activations turn a few near choices over.
        assert!((found.hit - expected.hit).abs() < 0.05, "{found:?} {expected:?}");
    }
}

#[test]
fn a_file_gives_the_routes_back_and_a_break_gives_none() {
    let routes = routes(engine(40, 16));
    let mut bytes = Vec::new();
    routes.write(&mut bytes).unwrap();
    assert_eq!(Routes::read(&bytes[..], bytes.len() as u64).unwrap(), routes);

    let mut engine = engine(40, 16);
    let mut stop = |_| ControlFlow::Break(());
    assert_eq!(record(&mut engine, &text(), String::new(), &mut stop).unwrap(), None);
    assert!(record(&mut engine, &[], String::new(), &mut stop).is_err());
}
