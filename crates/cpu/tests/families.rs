//! Every other family against the reference, on random inputs and poisoned buffers.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::Cpu;
use gguf::TensorType;
use kernels::gdn::{GdnInput, GdnSlot};
use kernels::hc::HcRead;
use kernels::moe::{GateUp, MoeChoice, SharedExpert};
use kernels::ple::PleInput;
use kernels::qsa::{AttendQuery, IndexQuery};
use kernels::reference::Reference;
use kernels::rope::RopeScaling;
use kernels::weight::WeightShape;
use kernels::{
    Activations, Backend, Device, GdnShape, Hc, HcShape, HcWeights, Moe, PleShape, PleWeights,
    QsaKeys, QsaShape, Window,
};

/// f32 sums of up to some thousand terms against f64 sums, through a few operations in a row.
const LIMIT: f32 = 2e-5;

/// Compares what `run` gives on the reference and on the CPU with every instruction set.
fn compare(what: &str, run: impl Fn(&mut dyn Run) -> Vec<Vec<f32>>) {
    let expected = run(&mut On(Reference));
    for cpu in every_isa() {
        let name = cpu.isa().name();
        let found = run(&mut On(cpu));
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let worst = relative_difference(found, expected);
            assert!(worst <= LIMIT, "{what}, output {i}, {name}: off by {worst}");
        }
    }
}

/// The operations under test behind one object, so that a test body serves every device.
trait Run {
    fn hc(&mut self, rows: usize) -> Vec<Vec<f32>>;
    fn moe(&mut self, rows: usize, fused: bool) -> Vec<Vec<f32>>;
    fn gdn(&mut self, conv_kernel: usize, windows: &[Window]) -> Vec<Vec<f32>>;
    fn qsa(&mut self, block: usize, scaling: RopeScaling, windows: &[Window]) -> Vec<Vec<f32>>;
    fn ple(&mut self, kernel: usize, windows: &[Window]) -> Vec<Vec<f32>>;
}

struct On<B>(B);

/// A window of one run per `(slot, first position, rows)`.
fn window(runs: &[(usize, usize, usize)]) -> Window {
    let mut window = Window::new();
    runs.iter().for_each(|&(slot, pos, len)| window.push(slot, pos, len));
    window
}

impl<B> Run for On<B>
where
    B: Backend<Buffer = Vec<f32>, Vector = Vec<f32>>,
{
    fn hc(&mut self, rows: usize) -> Vec<Vec<f32>> {
        let device = &mut self.0;
        let shape = HcShape { streams: 4, width: 320, eps: 1e-6 };
        let (wide, rank) = (1280, 40);
        let mut random = Random::new(1);
        let norm = random.values(wide, 2.0);
        let mut matrix =
            |n_in: usize, n_out: usize| f32_weight(n_in, n_out, &random.values(n_in * n_out, 0.1));
        let down = device.load_matrix(&matrix(wide, rank), Activations::F32).unwrap();
        let up = device.load_matrix(&matrix(rank, wide), Activations::F32).unwrap();
        let inject = device.load_matrix(&matrix(wide, 4), Activations::F32).unwrap();
        let w = HcWeights { norm: &norm, down: &down, up: &up, inject: Some(&inject) };
        let mut x = Random::new(2).values(rows * wide, 3.0);
        let (mut u, mut weights) = (poisoned(rows * 320), poisoned(rows * 4));
        let out = HcRead { u: &mut u, weights: &mut weights };
        device.hc_read(&shape, &w, &x, rows, out);
        let y = Random::new(3).values(rows * 320, 1.0);
        device.hc_inject(&shape, &weights, &y, rows, &mut x);
        vec![u, weights, x]
    }

    fn moe(&mut self, rows: usize, fused: bool) -> Vec<Vec<f32>> {
        let device = &mut self.0;
        let (h, f, experts, used) = (256, 96, 16, 4);
        let shape = |n_in, n_out| WeightShape { n_in, n_out, experts };
        let stack = weight(TensorType::IQ3_S, shape(h, 2 * f));
        let gate = weight(TensorType::Q4_K, shape(h, f));
        let up = weight(TensorType::IQ2_S, shape(h, f));
        let down = weight(TensorType::IQ4_NL, shape(f, h));
        let (both, gate) = (
            device.load_matrix(&stack, Activations::F32).unwrap(),
            device.load_matrix(&gate, Activations::F32).unwrap(),
        );
        let (up, down) = (
            device.load_matrix(&up, Activations::F32).unwrap(),
            device.load_matrix(&down, Activations::F32).unwrap(),
        );

        let mut random = Random::new(4);
        let logits = random.values(rows * experts, 3.0);
        let u = random.values(rows * h, 1.0);
        let mut plan = device.new_plan();
        device.moe_plan(&logits, rows, MoeChoice { experts, used }, &mut plan);
        let mut act = poisoned(rows * used * f);
        let weights = match fused {
            true => GateUp::Fused(&both),
            false => GateUp::Separate { gate: &gate, up: &up },
        };
        device.moe_gate_up(&plan, weights, &u, &mut act);
        let mut part = poisoned(rows * used * h);
        device.moe_down(&plan, &down, &act, &mut part);
        let (mut shared, gate) = (random.values(rows * h, 1.0), random.values(rows, 1.0));
        device.swiglu(&mut shared, &u, rows * h);
        let mut y = poisoned(rows * h);
        let expert = SharedExpert { y: &shared, gate: &gate, width: h };
        device.moe_combine(&plan, &part, expert, &mut y);
        vec![act, part, y]
    }

    fn gdn(&mut self, conv_kernel: usize, windows: &[Window]) -> Vec<Vec<f32>> {
        let device = &mut self.0;
        let shape = GdnShape { key_heads: 2, value_heads: 6, head_dim: 24, conv_kernel, eps: 1e-6 };
        let (channels, value_dim) = (shape.channels(), shape.value_dim());
        let mut random = Random::new(5);
        let taps = random.values(channels * conv_kernel, 0.5);
        let (dt, norm) = (random.values(6, 1.0), random.values(24, 1.0));
        let a: Vec<f32> = random.values(6, 1.0).iter().map(|a| -a.abs()).collect();
        let mut state = device.new_gdn_state(&shape, 3, 0).unwrap();
        let mut results = Vec::new();
        for window in windows {
            let rows = window.rows();
            let m = random.values(rows * channels, 1.0);
            let mut qkv = poisoned(rows * channels);
            device.gdn_conv(&shape, &taps, window, &mut state, (&m, &mut qkv));
            let (alpha, beta) = (random.values(rows * 6, 2.0), random.values(rows * 6, 2.0));
            let mut o = poisoned(rows * value_dim);
            let input = GdnInput { qkv: &qkv, alpha: &alpha, beta: &beta, a: &a, dt: &dt };
            device.gdn_scan(&shape, window, input, &mut state, &mut o);
            let z = random.values(rows * value_dim, 2.0);
            device.gdn_output_gate(&shape, &norm, &z, rows, &mut o);
            results.extend([qkv, o]);
        }
        for slot in 0..3 {
            let GdnSlot { s, conv } = device.export_gdn(&state, slot);
            results.extend([s, conv]);
        }
        results
    }

    fn qsa(
        &mut self,
        block: usize,
        rope_scaling: RopeScaling,
        windows: &[Window],
    ) -> Vec<Vec<f32>> {
        let device = &mut self.0;
        let shape = QsaShape {
            heads: 4,
            kv_heads: 2,
            head_dim: 40,
            rope_dims: 16,
            rope_base: 1e7,
            rope_scaling,
            index_heads: 2,
            index_dim: 24,
            budget: 8,
            block,
            eps: 1e-6,
        };
        let mut random = Random::new(6);
        let (q_norm, k_norm) = (random.values(40, 1.0), random.values(40, 1.0));
        let (iq_norm, ik_norm) = (random.values(24, 1.0), random.values(24, 1.0));
        let mut state = device.new_qsa_state(&shape, 3, 64, kernels::KvType::F32).unwrap();
        let mut selection = device.new_selection();
        let mut results = Vec::new();
        for window in windows {
            let rows = window.rows();
            let (k, v) = (random.values(rows * 80, 1.0), random.values(rows * 80, 1.0));
            let (q, raw) = (random.values(rows * 320, 2.0), random.values(rows * 24, 1.0));
            let index_q = random.values(rows * 48, 1.0);
            let index = (block > 0).then_some((&raw, &ik_norm));
            let keys = QsaKeys { k: &k, v: &v, k_norm: &k_norm, index };
            device.qsa_append(&shape, window, keys, &mut state);
            let query = (block > 0).then_some(IndexQuery { q: &index_q, norm: &iq_norm });
            device.qsa_select(&shape, window, query, &state, &mut selection);
            let mut o = poisoned(rows * 160);
            let query = AttendQuery { q: &q, norm: &q_norm, selection: &selection };
            device.qsa_attend(&shape, window, query, &state, &mut o);
            results.push(o);
            for blocks in device.selected_blocks(&selection) {
                results.push(blocks.iter().map(|&b| b as f32).collect());
            }
        }
        results
    }

    fn ple(&mut self, kernel: usize, windows: &[Window]) -> Vec<Vec<f32>> {
        let device = &mut self.0;
        let shape = PleShape { streams: 4, width: 40, kernel, dilation: 3, eps: 1e-6 };
        let wide = shape.channels();
        let mut random = Random::new(7);
        let (norm_key, norm_query) = (random.values(wide, 1.0), random.values(wide, 1.0));
        let (norm_conv, taps) = (random.values(wide, 1.0), random.values(wide * kernel, 0.5));
        let w = PleWeights {
            norm_key: &norm_key,
            norm_query: &norm_query,
            norm_conv: &norm_conv,
            taps: &taps,
        };
        let table = weight(TensorType::IQ4_NL, WeightShape { n_in: 32, n_out: 50, experts: 1 });
        let table = device.load_matrix(&table, Activations::F32).unwrap();
        let mut state = device.new_ple_state(&shape, 3, 0).unwrap();
        let mut results = Vec::new();
        for window in windows {
            let rows = window.rows();
            let ids: Vec<u64> = (0..rows * 2).map(|_| random.below(50) as u64).collect();
            let mut e = poisoned(rows * 64);
            device.ple_gather(&table, &ids, &mut e);
            let (key, value) = (random.values(rows * wide, 1.0), random.values(rows * 40, 1.0));
            let mut x = random.values(rows * wide, 1.0);
            let input = PleInput { key: &key, value: &value, state: &mut state };
            device.ple_mix(&shape, &w, window, input, &mut x);
            results.extend([e, x]);
        }
        results.extend((0..3).map(|slot| device.export_ple(&state, slot)));
        results
    }
}

/// Three windows over slots 0 and 2: mixed lengths, single tokens, then a longer run.
fn windows() -> Vec<Window> {
    vec![
        window(&[(2, 0, 5), (0, 0, 1)]),
        window(&[(0, 1, 1), (2, 5, 1)]),
        window(&[(0, 2, 21), (2, 6, 3)]),
    ]
}

#[test]
fn hyper_connections() {
    for rows in [1, 3, 9] {
        compare("hc", |on| on.hc(rows));
    }
}

#[test]
fn experts_separate_and_fused() {
    for rows in [1, 2, 8, 33] {
        for fused in [false, true] {
            compare("moe", |on| on.moe(rows, fused));
        }
    }
}

#[test]
fn delta_rule() {
    // One tap has no history.
    for kernel in [1, 2, 4] {
        compare("gdn", |on| on.gdn(kernel, &windows()));
    }
}

#[test]
fn fault_127_delta_rule_over_512_steps() {
    let steps: Vec<Window> = (0..512).map(|pos| window(&[(1, pos, 1)])).collect();
    compare("gdn, 512 steps", |on| on.gdn(4, &steps));
}

#[test]
fn fault_042_sparse_and_dense_attention_with_poisoned_buffers() {
    for block in [0, 2, 4] {
        for scaling in [RopeScaling::None, RopeScaling::yarn(4.0, 16)] {
            compare("qsa", |on| on.qsa(block, scaling, &windows()));
        }
    }
}

#[test]
fn ngram_features() {
    for kernel in [1, 2, 4] {
        compare("ple", |on| on.ple(kernel, &windows()));
    }
}

#[test]
fn fault_117_non_finite_router_logits_do_not_fault() {
    let mut cpu = Cpu::new(cpu::CpuOptions::default());
    let mut plan = kernels::Device::new_plan(&mut cpu);
    let choice = MoeChoice { experts: 4, used: 2 };
    cpu.moe_plan(&vec![f32::NAN; 8], 2, choice, &mut plan);
    assert_eq!(plan.experts().len(), 4);
}

#[test]
fn fault_117_overflow_in_a_norm_is_not_hidden_as_zeros() {
    for mut cpu in every_isa() {
        let shape = HcShape { streams: 1, width: 32, eps: 1e-6 };
        let norm = vec![1.0; 32];
        let matrix = cpu.load_matrix(&f32_weight(32, 32, &[0.1; 1024]), Activations::F32).unwrap();
        let w = HcWeights { norm: &norm, down: &matrix, up: &matrix, inject: None };
        // Finite, but its square is not.
        let x = vec![1e30; 32];
        let (mut u, mut weights) = (vec![0.0; 32], Vec::new());
        let out = HcRead { u: &mut u, weights: &mut weights };
        cpu.hc_read(&shape, &w, &x, 1, out);
        assert!(u.iter().all(|u| u.is_nan()), "{}: {u:?}", cpu.isa().name());
    }
}
