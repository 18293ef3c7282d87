//! The families with a state give the same bits however a sequence is cut into windows, with
//! whatever number of threads.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::{Cpu, CpuOptions, Isa};
use kernels::gdn::GdnInput;
use kernels::ple::PleInput;
use kernels::qsa::{AttendQuery, IndexQuery};
use kernels::rope::RopeScaling;
use kernels::{
    Device, Gdn, GdnShape, Hc, HcShape, KvType, Ple, PleShape, PleWeights, Qsa, QsaKeys, QsaShape,
    Window,
};

const TOKENS: usize = 70;

/// Window lengths: alone, in drafts, in chunks, at once.
const CUTS: [&[usize]; 4] = [&[1; TOKENS], &[3, 1, 2, 64], &[33, 37], &[TOKENS]];

/// Calls `run` with every instruction set, number of threads and cut, and compares the bits.
fn compare(run: impl Fn(&mut Cpu, &[Window]) -> Vec<f32>) {
    for isa in Isa::available() {
        let mut expected: Option<Vec<u32>> = None;
        for threads in [1, 3] {
            for cut in CUTS {
                let mut first = 0;
                let window = |&len: &usize| {
                    let mut window = Window::new();
                    window.push(1, first, len);
                    first += len;
                    window
                };
                let windows: Vec<Window> = cut.iter().map(window).collect();
                let found = run(
                    &mut Cpu::new(CpuOptions { threads, isa, ..CpuOptions::default() }),
                    &windows,
                );
                assert!(found.iter().all(|x| x.is_finite()));
                let bits: Vec<u32> = found.iter().map(|x| x.to_bits()).collect();
                let expected = expected.get_or_insert_with(|| bits.clone());
                assert!(*expected == bits, "{}, {threads} threads, {cut:?}", isa.name());
            }
        }
    }
}

/// Rows of `all` that a window has.
fn rows(all: &[f32], window: &Window) -> Vec<f32> {
    let (width, run) = (all.len() / TOKENS, window.runs()[0]);
    all[run.first_pos * width..(run.first_pos + run.len) * width].to_vec()
}

#[test]
fn delta_rule_and_its_convolution() {
    for (head_dim, conv_kernel) in [(24, 4), (33, 3), (128, 4)] {
        let shape = GdnShape { key_heads: 2, value_heads: 4, head_dim, conv_kernel, eps: 1e-6 };
        let mut random = Random::new(1);
        let taps = random.values(shape.channels() * conv_kernel, 0.5);
        let (a, dt, norm) = (vec![-0.3; 4], random.values(4, 1.0), random.values(head_dim, 1.0));
        let m = random.values(TOKENS * shape.channels(), 1.0);
        let (alpha, beta) = (random.values(TOKENS * 4, 2.0), random.values(TOKENS * 4, 2.0));
        let z = random.values(TOKENS * shape.value_dim(), 2.0);
        compare(|cpu, windows| {
            let mut state = cpu.new_gdn_state(&shape, 2, 0).unwrap();
            let mut results = Vec::new();
            for window in windows {
                let mut qkv = poisoned(window.rows() * shape.channels());
                let mut o = poisoned(window.rows() * shape.value_dim());
                cpu.gdn_conv(&shape, &taps, window, &mut state, (&rows(&m, window), &mut qkv));
                let (alpha, beta) = (rows(&alpha, window), rows(&beta, window));
                let input = GdnInput { qkv: &qkv, alpha: &alpha, beta: &beta, a: &a, dt: &dt };
                cpu.gdn_scan(&shape, window, input, &mut state, &mut o);
                cpu.gdn_output_gate(&shape, &norm, &rows(&z, window), window.rows(), &mut o);
                results.extend(o);
            }
            let slot = cpu.export_gdn(&state, 1);
            [results, slot.s, slot.conv].concat()
        });
    }
}

#[test]
fn sparse_and_dense_attention() {
    use KvType::{F16, F32, Q8_0};
    let cases = [(0, 40, 4, [F32, F16]), (4, 64, 12, [F16, Q8_0]), (4, 37, 10, [F32, F16])];
    let each = cases.iter().flat_map(|(block, dim, heads, types)| {
        types.iter().map(move |&kv| (*block, *dim, *heads, kv))
    });
    for (block, head_dim, heads, kv) in each.chain([(0, 96, 6, Q8_0)]) {
        let shape = QsaShape {
            heads,
            kv_heads: 2,
            head_dim,
            rope_dims: 16,
            rope_base: 1e7,
            rope_scaling: RopeScaling::None,
            index_heads: 5,
            index_dim: 24,
            budget: 24,
            block,
            eps: 1e-6,
        };
        let mut random = Random::new(2);
        let (q_norm, k_norm) = (random.values(head_dim, 1.0), random.values(head_dim, 1.0));
        let (iq_norm, ik_norm) = (random.values(24, 1.0), random.values(24, 1.0));
        let mut draw = |width: usize| random.values(TOKENS * width, 1.5);
        let (k, v, q) = (draw(shape.kv_dim()), draw(shape.kv_dim()), draw(2 * shape.query_dim()));
        let (index_k, index_q) = (draw(24), draw(5 * 24));
        compare(|cpu, windows| {
            let mut state = cpu.new_qsa_state(&shape, 2, TOKENS, kv).unwrap();
            let mut selection = cpu.new_selection();
            let (mut results, mut chosen) = (Vec::new(), Vec::new());
            for window in windows {
                let (raw, index_q) = (rows(&index_k, window), rows(&index_q, window));
                let index = (block > 0).then_some((&raw, &ik_norm));
                let (k, v, q) = (rows(&k, window), rows(&v, window), rows(&q, window));
                let keys = QsaKeys { k: &k, v: &v, k_norm: &k_norm, index };
                cpu.qsa_append(&shape, window, keys, &mut state);
                let query = (block > 0).then_some(IndexQuery { q: &index_q, norm: &iq_norm });
                cpu.qsa_select(&shape, window, query, &state, &mut selection);
                let mut o = poisoned(window.rows() * shape.query_dim());
                let query = AttendQuery { q: &q, norm: &q_norm, selection: &selection };
                cpu.qsa_attend(&shape, window, query, &state, &mut o);
                results.extend(o);
                let blocks = cpu.selected_blocks(&selection);
                chosen.extend(blocks.iter().flatten().map(|&b| b as f32));
            }
            let slot = cpu.export_qsa(&state, 1);
            [results, chosen, slot.k, slot.v].concat()
        });
    }
}

#[test]
fn ngram_features() {
    for (width, kernel, dilation) in [(40, 4, 3), (531, 4, 1), (33, 2, 5), (20, 1, 3)] {
        let shape = PleShape { streams: 4, width, kernel, dilation, eps: 1e-6 };
        let wide = shape.channels();
        let mut random = Random::new(3);
        let [norm_key, norm_query, norm_conv] = [(); 3].map(|()| random.values(wide, 1.0));
        let taps = random.values(wide * kernel, 0.5);
        let w = PleWeights {
            norm_key: &norm_key,
            norm_query: &norm_query,
            norm_conv: &norm_conv,
            taps: &taps,
        };
        let (key, value) = (random.values(TOKENS * wide, 1.0), random.values(TOKENS * width, 1.0));
        let x = random.values(TOKENS * wide, 1.0);
        compare(|cpu, windows| {
            let mut state = cpu.new_ple_state(&shape, 2, 0).unwrap();
            let mut results = Vec::new();
            for window in windows {
                let (key, value) = (rows(&key, window), rows(&value, window));
                let mut x = rows(&x, window);
                let input = PleInput { key: &key, value: &value, state: &mut state };
                cpu.ple_mix(&shape, &w, window, input, &mut x);
                results.extend(x);
            }
            results.extend(cpu.export_ple(&state, 1));
            results
        });
    }
}

#[test]
fn writes_to_the_streams() {
    let shape = HcShape { streams: 4, width: 1030, eps: 1e-6 };
    let mut random = Random::new(4);
    let weights = random.values(TOKENS * 4, 1.0);
    let (y, x) = (random.values(TOKENS * 1030, 1.0), random.values(TOKENS * 4120, 1.0));
    compare(|cpu, windows| {
        let inject = |window: &Window| {
            let mut x = rows(&x, window);
            let (weights, y) = (rows(&weights, window), rows(&y, window));
            cpu.hc_inject(&shape, &weights, &y, window.rows(), &mut x);
            x
        };
        windows.iter().flat_map(inject).collect()
    });
}
