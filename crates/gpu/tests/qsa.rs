//! Sparse attention beside the reference.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::qsa::*;
use common::*;
use gpu::Gpu;
use kernels::host::KvSlot;
use kernels::reference::Reference;
use kernels::rope::RopeScaling;
use kernels::{Device, Error, KvType, Qsa, QsaShape};

/// The same text in a cache of the reference and in one of the GPU, which it is put into from the
/// reference: what is attended is the same to the bit then.
fn both(
    gpu: &mut Gpu,
    shape: QsaShape,
    kv: KvType,
    text: &Text,
    len: usize,
) -> (Layer<Reference>, Layer<Gpu>) {
    let mut want = Layer::new(&mut Reference, shape, kv, 1);
    let mut found = Layer::new(gpu, shape, kv, 1);
    want.append(&mut Reference, &[Part { slot: 0, text, first: 0, len }]);
    let cache = want.export(&mut Reference, 0);
    gpu.import_qsa_rows(&shape, &mut found.state, 0, (0, &cache)).unwrap();
    assert_same(&cache, &found.export(gpu, 0));
    (want, found)
}

fn parts(slot: &KvSlot) -> [Vec<u32>; 4] {
    [&slot.k, &slot.v, &slot.index, &slot.blocks].map(|values| bits(values))
}

fn assert_same(a: &KvSlot, b: &KvSlot) {
    assert!(parts(a) == parts(b), "caches differ");
}

/// Choice and attention of some rows beside the reference.
fn compare(gpu: &mut Gpu, shape: QsaShape, kv: KvType, len: usize, windows: &[(usize, usize)]) {
    let text = Text::new(&shape, len as u64, len);
    let (mut want, mut found) = both(gpu, shape, kv, &text, len);
    let cache = want.export(&mut Reference, 0);
    for &(first, len) in windows {
        let part = [Part { slot: 0, text: &text, first, len }];
        let want = want.attend(&mut Reference, &part);
        let found = found.attend(gpu, &part);
        for row in 0..len {
            let name = format!("{kv}, block {}, position {}", shape.block, first + row);
            let same = want.blocks[row] == found.blocks[row];
            if !same {
                let scores = scores(&shape, &text, first + row, &cache.blocks);
                assert_near_ties(&scores, (&want.blocks[row], &found.blocks[row]), &name);
                continue;
            }
            for (f, w) in found.o[row].iter().zip(&want.o[row]) {
                // Scores and weights are sums of up to 256 products in f32, their exponent errs by
                // some 1e-6; values are at most 2.
                assert!((f - w).abs() <= 2e-5, "{name}: {f} for {w}");
            }
        }
    }
}

/// Blocks that only one of two choices has must have nearly equal scores.
fn assert_near_ties(scores: &[f64], (want, found): (&[u32], &[u32]), name: &str) {
    assert_eq!(want.len(), found.len(), "{name}");
    let only = |a: &[u32], b: &[u32]| -> Vec<f64> {
        a.iter().filter(|block| !b.contains(block)).map(|&block| scores[block as usize]).collect()
    };
    for a in only(want, found) {
        for b in only(found, want) {
            assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0), "{name}: {a} and {b} are no tie");
        }
    }
}

#[test]
fn keys_and_values_are_stored_as_in_the_reference() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    for kv in KvType::ALL {
        for shape in [SMALL, REAL, ODD, dense(SMALL), QsaShape { rope_dims: 16, ..SMALL }] {
            if !shape.head_dim.is_multiple_of(kv.block()) {
                continue;
            }
            let text = Text::new(&shape, 7, 23);
            let mut want = Layer::new(&mut Reference, shape, kv, 3);
            let mut found = Layer::new(gpu, shape, kv, 3);
            for (first, len) in [(0, 3), (3, 1), (4, 1), (5, 18)] {
                let part = [Part { slot: 1, text: &text, first, len }];
                want.append(&mut Reference, &part);
                found.append(gpu, &part);
            }
            let (want, found) = (want.export(&mut Reference, 1), found.export(gpu, 1));
            // Norm and rotation in f32: some units in the last place. Stored in fewer bits a value
            // may go to the other neighbour; of f16 they are 2^-10 apart, of blocks of 8 bits a
            // 127th of the largest value.
            let largest = want.k.iter().chain(&want.v).fold(0f32, |m, x| m.max(x.abs()));
            let step = match kv {
                KvType::F32 => 2e-6 * largest,
                KvType::F16 => largest / 512.0,
                KvType::Q8_0 => largest / 126.0,
            };
            near(&found.k, &want.k, step);
            near(&found.v, &want.v, step);
            assert_eq!(bits(&found.index), bits(&want.index), "raw keys are stored as they come");
            near(&found.blocks, &want.blocks, 5e-6);
            if kv != KvType::Q8_0 {
                assert_eq!(bits(&found.v), bits(&want.v), "{kv} values are rounded exactly");
            }
            let differ = found.k.iter().zip(&want.k).filter(|(f, w)| f != w).count();
            let rounded = kv != KvType::F32;
            assert!(!rounded || differ * 20 < found.k.len(), "{kv}: {differ} keys differ");
        }
    }
}

fn near(found: &[f32], want: &[f32], bound: f32) {
    assert_eq!(found.len(), want.len());
    let worst = found.iter().zip(want).map(|(f, w)| (f - w).abs()).fold(0.0, f32::max);
    assert!(worst <= bound, "{worst} of {bound}");
}

#[test]
fn f16_values_are_rounded_as_the_host_does() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    let shape = dense(QsaShape { head_dim: 64, kv_heads: 1, heads: 1, ..SMALL });
    let mut text = Text::new(&shape, 3, 9);
    let edges = [
        0.0,
        -0.0,
        65504.0,
        65519.9,
        65520.0,
        7e4,
        -1e30,
        6.1e-5,
        6.0975e-5,
        6.103_515_6e-5,
        5.96e-8,
        2.98e-8,
        2.980_232_2e-8,
        2.980_233e-8,
        1e-9,
        1.0 + 1.0 / 2048.0,
        1.0 + 3.0 / 2048.0,
        3e-6,
        f32::INFINITY,
        f32::NEG_INFINITY,
    ];
    text.v[..edges.len()].copy_from_slice(&edges);
    let part = [Part { slot: 0, text: &text, first: 0, len: 9 }];
    let mut want = Layer::new(&mut Reference, shape, KvType::F16, 1);
    let mut found = Layer::new(gpu, shape, KvType::F16, 1);
    want.append(&mut Reference, &part);
    found.append(gpu, &part);
    let (want, found) = (want.export(&mut Reference, 0).v, found.export(gpu, 0).v);
    assert_eq!(bits(&found), bits(&want));
}

#[test]
fn what_is_not_finite_shows() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    for kv in KvType::ALL {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut text = Text::new(&SMALL, 5, 6);
            text.v[2 * SMALL.kv_dim() + 40] = bad;
            let mut layer = Layer::new(gpu, SMALL, kv, 1);
            let rows = layer.step(gpu, &[Part { slot: 0, text: &text, first: 0, len: 6 }]);
            let cache = layer.export(gpu, 0);
            assert!(!cache.v[2 * SMALL.kv_dim() + 40].is_finite(), "{kv}");
            assert!(cache.v[..2 * SMALL.kv_dim()].iter().all(|x| x.is_finite()), "{kv}");
            let finite: Vec<bool> =
                rows.o.iter().map(|o| o.iter().all(|x| x.is_finite())).collect();
            assert_eq!(finite, [true, true, false, false, false, false], "{kv} {bad}");
        }
    }
}

#[test]
fn choice_and_attention_agree_with_the_reference() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    let around = [(0, 1), (2, 1), (3, 2), (0, 6), (46, 9), (40, 40), (110, 9), (118, 1)];
    for kv in KvType::ALL {
        compare(gpu, SMALL, kv, 119, &around);
    }
    compare(gpu, QsaShape { rope_dims: 16, ..SMALL }, KvType::F32, 119, &around);
    let yarn = QsaShape { rope_scaling: RopeScaling::yarn(2.0, 64), ..SMALL };
    compare(gpu, yarn, KvType::F16, 119, &around);
    compare(gpu, dense(SMALL), KvType::Q8_0, 119, &around);
    compare(gpu, ODD, KvType::F16, 119, &around);
    compare(gpu, dense(ODD), KvType::F32, 119, &around);
    // No block fits the budget: the tail alone, and where there is none nothing.
    let tail = QsaShape { budget: 3, ..SMALL };
    let text = Text::new(&tail, 1, 10);
    let (_, mut found) = both(gpu, tail, KvType::F32, &text, 10);
    let rows = found.attend(gpu, &[Part { slot: 0, text: &text, first: 6, len: 3 }]);
    let nan: Vec<bool> = rows.o.iter().map(|o| o.iter().all(|x| x.is_nan())).collect();
    assert_eq!(nan, [false, true, false]);
    compare(gpu, tail, KvType::F32, 10, &[(0, 3), (4, 3), (8, 2)]);
}

#[test]
fn the_real_shape_agrees_with_the_reference() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    for kv in KvType::ALL {
        compare(gpu, REAL, kv, 70, &[(0, 1), (2, 3), (50, 2), (36, 33)]);
    }
    let full = QsaShape { budget: 2048, ..REAL };
    compare(gpu, full, KvType::F16, 2060, &[(2050, 4), (2059, 1)]);
}

#[test]
fn a_long_dense_cache_is_cut_into_longer_splits() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    let shape = dense(QsaShape { heads: 2, kv_heads: 1, head_dim: 8, ..SMALL });
    compare(gpu, shape, KvType::F32, 8200, &[(4094, 3), (8196, 4)]);
}

/// Pooled keys of a cache that give the scores a test wants.
fn with_scores(
    gpu: &mut Gpu,
    shape: QsaShape,
    blocks: usize,
    key: impl Fn(usize) -> f32,
) -> Layer<Gpu> {
    let mut layer = Layer::new(gpu, shape, KvType::F32, 1);
    let rows = blocks * shape.block;
    let pooled = (0..blocks).flat_map(|b| vec![key(b); shape.index_dim]).collect();
    let cache = KvSlot {
        k: vec![0.5; rows * shape.kv_dim()],
        v: vec![0.25; rows * shape.kv_dim()],
        index: vec![0.0; rows * shape.index_dim],
        blocks: pooled,
    };
    gpu.import_qsa_rows(&shape, &mut layer.state, 0, (0, &cache)).unwrap();
    layer
}

/// A shape whose scores are products with one value, and a text whose queries are 1.
fn plain(blocks: usize) -> (QsaShape, Text) {
    let shape = QsaShape {
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        rope_dims: 0,
        index_heads: 1,
        index_dim: 1,
        budget: 2048,
        ..SMALL
    };
    let mut text = Text::new(&shape, 1, blocks * 4);
    text.index_q.fill(1.0);
    (shape, text)
}

#[test]
fn fault_043_equal_or_crowded_scores_keep_exactly_k_lowest_blocks() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    let blocks = 3100;
    let (shape, text) = plain(blocks);
    let last = [Part { slot: 0, text: &text, first: 4 * blocks - 1, len: 1 }];
    for equal in [0.0, -0.0, -1.0, 1.0, f32::INFINITY] {
        let mut layer = with_scores(gpu, shape, blocks, |_| equal);
        let rows = layer.attend(gpu, &last);
        assert_eq!(rows.blocks[0], (0..512).collect::<Vec<u32>>(), "{equal}");
    }
    // One bit apart, all in a bin of the first digits: every seventh is the largest.
    let near = |b: usize| f32::from_bits(0x3f80_0000 + (b % 7) as u32);
    let mut layer = with_scores(gpu, shape, blocks, near);
    let mut want: Vec<u32> = (0..blocks as u32).collect();
    want.sort_by_key(|&b| (6 - b % 7, b));
    want.truncate(512);
    want.sort_unstable();
    assert_eq!(layer.attend(gpu, &last).blocks[0], want);
    // Falling and rising scores.
    let mut layer = with_scores(gpu, shape, blocks, |b| 1.0 / (b + 1) as f32);
    assert_eq!(layer.attend(gpu, &last).blocks[0], (0..512).collect::<Vec<u32>>());
    let mut layer = with_scores(gpu, shape, blocks, |b| b as f32);
    let top: Vec<u32> = (blocks as u32 - 512..blocks as u32).collect();
    assert_eq!(layer.attend(gpu, &last).blocks[0], top);
}

#[test]
fn fault_133_a_nan_score_is_no_choice() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    let (shape, text) = plain(600);
    let key = |b: usize| if b == 599 { f32::NAN } else { b as f32 };
    let mut layer = with_scores(gpu, shape, 600, key);
    // The last block is complete for the last row alone.
    let rows = layer.attend(gpu, &[Part { slot: 0, text: &text, first: 2397, len: 3 }]);
    assert_eq!(rows.blocks.iter().map(Vec::len).collect::<Vec<_>>(), [512, 512, 0]);
    assert!(rows.o[1].iter().all(|x| x.is_finite()) && rows.o[2].iter().all(|x| x.is_nan()));
    // Within the budget nothing is chosen by score.
    let shape = QsaShape { budget: 2400, ..shape };
    let mut layer = with_scores(gpu, shape, 600, key);
    let rows = layer.attend(gpu, &[Part { slot: 0, text: &text, first: 2397, len: 3 }]);
    assert_eq!(rows.blocks[2].len(), 600);
    assert!(rows.o[2].iter().all(|x| x.is_finite()));
}

#[test]
fn fault_044_a_cache_that_no_index_reaches_is_refused_and_the_cache_stays() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    let shape = QsaShape { budget: 2048, ..REAL };
    for kv in KvType::ALL {
        let mut state = gpu.new_qsa_state(&shape, 2, usize::MAX, kv).unwrap();
        let text = Text::new(&shape, 1, 3);
        let mut layer = Layer::new(gpu, shape, kv, 1);
        layer.append(gpu, &[Part { slot: 0, text: &text, first: 0, len: 3 }]);
        let cache = layer.export(gpu, 0);
        gpu.import_qsa_rows(&shape, &mut state, 1, (0, &cache)).unwrap();
        for len in [1 << 24, 1 << 32, usize::MAX / 2, usize::MAX] {
            for slot in [0, 1] {
                let error = gpu.reserve_qsa(&shape, &mut state, slot, len).unwrap_err();
                assert!(matches!(error, Error::OutOfMemory { .. }), "{len}: {error}");
                assert_same(&gpu.export_qsa(&state, 1), &cache);
            }
        }
    }
}

#[test]
fn pieces_go_out_and_in_wherever_the_cut_is_and_wrong_ones_are_refused() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    for (shape, kv) in [(SMALL, KvType::Q8_0), (ODD, KvType::F16), (dense(ODD), KvType::F32)] {
        let text = Text::new(&shape, 9, 23);
        let mut layer = Layer::new(gpu, shape, kv, 2);
        layer.append(gpu, &[Part { slot: 1, text: &text, first: 0, len: 23 }]);
        let whole = layer.export(gpu, 1);
        for cuts in [&[0, 23][..], &[0, 8, 16, 23], &[0, 1, 7, 7, 19, 20, 23]] {
            let mut to = Layer::new(gpu, shape, kv, 1);
            let mut host = Layer::new(&mut Reference, shape, kv, 1);
            for cut in cuts.windows(2) {
                let piece = gpu.export_qsa_rows(&shape, &layer.state, 1, cut[0]..cut[1]);
                gpu.import_qsa_rows(&shape, &mut to.state, 0, (cut[0], &piece)).unwrap();
                let into = &mut host.state;
                Reference.import_qsa_rows(&shape, into, 0, (cut[0], &piece)).unwrap();
            }
            assert_same(&to.export(gpu, 0), &whole);
            assert_same(&host.export(&mut Reference, 0), &whole);
        }
        let good = gpu.export_qsa_rows(&shape, &layer.state, 1, 6..10);
        let long = gpu.export_qsa_rows(&shape, &layer.state, 1, 0..23);
        let with = |change: fn(&mut KvSlot)| {
            let mut piece = good.clone();
            change(&mut piece);
            piece
        };
        let wrong = [
            (6, with(|piece| piece.k.truncate(1))),
            (6, with(|piece| piece.v.push(0.0))),
            (6, with(|piece| piece.index.push(0.0))),
            (6, with(|piece| piece.blocks.push(0.0))),
            (24, good.clone()),
            (usize::MAX, good.clone()),
        ];
        for (i, (at, piece)) in wrong.iter().enumerate() {
            let result = gpu.import_qsa_rows(&shape, &mut layer.state, 1, (*at, piece));
            assert!(matches!(result, Err(Error::StateSize { .. })), "case {i}: {result:?}");
            assert_same(&layer.export(gpu, 1), &whole);
        }
        let mut tight = gpu.new_qsa_state(&shape, 1, 20, kv).unwrap();
        let result = gpu.import_qsa_rows(&shape, &mut tight, 0, (0, &long));
        assert!(matches!(result, Err(Error::StateSize { .. })), "{result:?}");
    }
}

#[test]
fn shapes_that_no_kernel_takes_are_refused() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    let wide = QsaShape { head_dim: 1 << 20, ..SMALL };
    let error = gpu.new_qsa_state(&wide, 1, 100, KvType::F32).unwrap_err();
    assert!(error.to_string().contains("1048576 values of a head"), "{error}");
    let ragged = QsaShape { head_dim: 48, ..SMALL };
    let error = gpu.new_qsa_state(&ragged, 1, 100, KvType::Q8_0).unwrap_err();
    assert!(matches!(error, Error::KvWidth { .. }), "{error}");
}
