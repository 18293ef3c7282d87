//! What a probe sees of the routers: the logits that decide, and forecasts computed as documented.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::Isa;
use engine::timed::{Group, Timed};
use engine::{Engine, Feed, Probe, RouterView, Want};
use kernels::hc::HcRead;
use kernels::host::Plan;
use kernels::moe::MoeChoice;
use kernels::reference::Reference;
use kernels::weight::WeightShape;
use kernels::{Activations, Backend, Device, Gemv, Hc, HcShape, HcWeights, Weight};
use model::{Checkpoint, Tensor};

/// All that is to be seen of routers, and the streams.
#[derive(Default)]
struct Recorder {
    streams: Vec<Vec<f32>>,
    routers: Vec<(usize, RouterView, Vec<f32>)>,
}

impl Recorder {
    fn of(&self, layer: usize, seen: RouterView) -> &[f32] {
        &self.routers.iter().find(|(n, view, _)| (*n, *view) == (layer, seen)).unwrap().2
    }
}

impl Probe for Recorder {
    fn wants_streams(&self) -> bool {
        true
    }

    fn streams(&mut self, stage: usize, values: &[f32]) {
        assert_eq!(stage, self.streams.len());
        self.streams.push(values.to_vec());
    }

    fn wants_routers(&self) -> bool {
        true
    }

    fn router(&mut self, layer: usize, seen: RouterView, logits: &[f32]) {
        self.routers.push((layer, seen, logits.to_vec()));
    }
}

fn record<B: Backend>(engine: &mut Engine<B>, tokens: &[u32]) -> (Vec<f32>, Recorder) {
    engine.reset(0).unwrap();
    let mut recorder = Recorder::default();
    let feeds = [Feed::new(0, tokens, Want::All)];
    let logits = engine.forward_probed(&feeds, &mut recorder).unwrap();
    (logits, recorder)
}

#[test]
fn looking_changes_no_bit() {
    for model in MODELS {
        let tokens = prompt(model, "eos");
        let mut engine = cpu_engine(model, config(1, 64));
        let plain = engine.forward(&[Feed::new(0, &tokens, Want::All)]).unwrap();
        assert!(bits(&record(&mut engine, &tokens).0) == bits(&plain), "{model}");
    }
}

#[test]
fn every_layer_is_seen_with_its_forecasts_before_it() {
    let layers = checkpoint("quantmix").hp.layers.len();
    let (_, found) = record(&mut cpu_engine("quantmix", config(1, 64)), &[5, 6]);
    let seen: Vec<_> = found.routers.iter().map(|(n, view, _)| (*n, *view)).collect();
    let mut expected = Vec::new();
    for layer in 0..layers {
        let next = layer + 1;
        let more = (next < layers).then_some(next);
        expected.extend(more.map(|n| (n, RouterView::Early)));
        expected.push((layer, RouterView::Own));
        expected.extend(more.map(|n| (n, RouterView::InputBefore)));
        expected.extend(more.map(|n| (n, RouterView::Late)));
    }
    assert_eq!(seen, expected);
}

#[test]
fn own_logits_choose_the_experts_that_are_read() {
    for model in MODELS {
        let hp = checkpoint(model).hp;
        let moe = &hp.moe;
        let tokens = &prompt(model, "chunk")[..7];
        let mut engine = engine_on(Timed::new(cpu(2, Isa::detect())), model, config(1, 64));
        engine.backend_mut().take_profile();
        let (_, found) = record(&mut engine, tokens);
        let profile = engine.backend_mut().take_profile();
        let down = |part: &engine::timed::Part| part.group == Group::Experts && part.name == "down";
        let read = profile.parts().iter().find(|(part, _)| down(part)).unwrap().1.weight_bytes;

        let checkpoint = checkpoint(model);
        let expected = checkpoint.layers.iter().enumerate().map(|(layer, weights)| {
            let mut plan = Plan::default();
            let choice = MoeChoice { experts: moe.experts, used: moe.used };
            plan.build(found.of(layer, RouterView::Own), choice);
            plan.groups().len() * weights.moe.down.bytes.len() / moe.experts
        });
        assert_eq!(read, expected.sum::<usize>() as u64, "{model}");
    }
}

fn weight(tensor: &Tensor) -> Weight {
    let shape = WeightShape { n_in: tensor.n_in, n_out: tensor.n_out, experts: tensor.experts };
    Weight::new(tensor.name.clone(), tensor.ty, shape, tensor.bytes.clone()).unwrap()
}

/// The router logits of layer `n` for streams `x`, from the tensors of the file.
fn route(checkpoint: &Checkpoint, n: usize, x: &[f32]) -> Vec<f32> {
    let (layer, hp) = (&checkpoint.layers[n], &checkpoint.hp);
    let shape = HcShape { streams: hp.hc.streams, width: hp.embd, eps: hp.rms_eps };
    let mut device = Reference;
    let mut matrix = |t: &Tensor| device.load_matrix(&weight(t), Activations::F32).unwrap();
    let (down, up) = (matrix(&layer.hc_ffn.read.down), matrix(&layer.hc_ffn.read.up));
    let router = matrix(&layer.moe.router);
    let norm = device.load_vector(&weight(&layer.hc_ffn.read.norm)).unwrap();
    let rows = x.len() / (shape.streams * shape.width);
    let (mut u, mut unused) = (vec![0.0; rows * shape.width], Vec::new());
    let weights = HcWeights { norm: &norm, down: &down, up: &up, inject: None };
    let out = HcRead { u: &mut u, weights: &mut unused };
    device.hc_read(&shape, &weights, &x.to_vec(), rows, out);
    let mut logits = vec![0.0; rows * hp.moe.experts];
    device.matmul(&router, &u, rows, &mut logits);
    logits
}

#[test]
fn a_late_forecast_is_the_next_router_on_the_finished_streams() {
    let (checkpoint, tokens) = (checkpoint("tiny-f32"), prompt("tiny-f32", "eos"));
    let mut engine = engine_on(Reference, "tiny-f32", config(1, 64));
    let (_, found) = record(&mut engine, &tokens);
    for n in 1..checkpoint.hp.layers.len() {
        // The same code on the same numbers: stage n is what layer n - 1 left.
        let expected = route(&checkpoint, n, &found.streams[n]);
        assert!(bits(found.of(n, RouterView::Late)) == bits(&expected), "layer {n}");
        // An early forecast does not know the experts of the layer before; it is no copy.
        assert!(found.of(n, RouterView::Early) != found.of(n, RouterView::Late));
        assert!(found.of(n, RouterView::InputBefore) != found.of(n, RouterView::Early));
    }
}
