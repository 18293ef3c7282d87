//! A row's bits do not depend on its company, nor on what the memory held before.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::qsa::*;
use common::*;
use gpu::Gpu;
use kernels::host::KvSlot;
use kernels::{Device, KvType, QsaShape};

/// What a text of some length leaves behind: each row's bits and blocks, and the cache.
#[derive(PartialEq)]
struct Trace {
    o: Vec<Vec<u32>>,
    blocks: Vec<Vec<u32>>,
    cache: [Vec<u32>; 4],
}

fn cache_bits(slot: &KvSlot) -> [Vec<u32>; 4] {
    [&slot.k, &slot.v, &slot.index, &slot.blocks].map(|values| bits(values))
}

/// Runs the text through slot `slot` of a layer in windows of these lengths.
fn trace(gpu: &mut Gpu, layer: &mut Layer<Gpu>, slot: usize, text: &Text, lens: &[usize]) -> Trace {
    let (mut o, mut blocks, mut first) = (Vec::new(), Vec::new(), 0);
    for &len in lens {
        let rows = layer.step(gpu, &[Part { slot, text, first, len }]);
        o.extend(rows.o.iter().map(|row| bits(row)));
        blocks.extend(rows.blocks);
        first += len;
    }
    let cache = cache_bits(&layer.export(gpu, slot));
    Trace { o, blocks, cache }
}

fn assert_same(found: &Trace, want: &Trace, name: &str) {
    for (row, (f, w)) in found.o.iter().zip(&want.o).enumerate() {
        assert!(f == w, "{name}: row {row}");
    }
    assert_eq!(found.blocks, want.blocks, "{name}");
    assert!(found.cache == want.cache, "{name}: caches differ");
}

/// Heads that fill threads and heads that do not, with and without an indexer. The budget needs
/// more than one split.
fn shapes() -> [(QsaShape, KvType); 3] {
    let wide =
        QsaShape { heads: 5, kv_heads: 1, head_dim: 256, index_dim: 16, budget: 72, ..SMALL };
    let odd = QsaShape { budget: 72, ..ODD };
    [(wide, KvType::Q8_0), (odd, KvType::F16), (dense(odd), KvType::F32)]
}

const LEN: usize = 104;

#[test]
fn bits_do_not_depend_on_the_window() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    for (shape, kv) in shapes() {
        let text = Text::new(&shape, 11, LEN);
        let mut run = |lens: &[usize]| {
            assert_eq!(lens.iter().sum::<usize>(), LEN);
            let mut layer = Layer::new(gpu, shape, kv, 2);
            trace(gpu, &mut layer, 1, &text, lens)
        };
        let want = run(&[1; LEN]);
        let mixed = [1, 2, 3, 4, 5, 6, 7, 8, 31, 32, 5];
        for lens in [&[LEN][..], &[33, 2, 33, 36], &mixed] {
            assert_same(&run(lens), &want, &format!("{kv}, block {}, {lens:?}", shape.block));
        }
    }
}

#[test]
fn bits_do_not_depend_on_other_slots_nor_on_how_the_cache_grew() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    for (shape, kv) in shapes() {
        let text = Text::new(&shape, 11, LEN);
        let mut alone = Layer::new(gpu, shape, kv, 1);
        gpu.reserve_qsa(&shape, &mut alone.state, 0, 1000).unwrap();
        let want = trace(gpu, &mut alone, 0, &text, &[1; LEN]);

        // Three slots at other lengths in a window; the longest makes the buffers grow.
        let others = [Text::new(&shape, 12, 300), Text::new(&shape, 13, 300)];
        let mut layer = Layer::new(gpu, shape, kv, 3);
        let (mut o, mut blocks, mut first, mut long) = (Vec::new(), Vec::new(), 0, 0);
        for len in [40, 3, 1, 1, 20, 39] {
            let rows = layer.step(
                gpu,
                &[
                    Part { slot: 2, text: &others[0], first: long, len: 45 },
                    Part { slot: 1, text: &text, first, len },
                    Part { slot: 0, text: &others[1], first: first / 2, len: 1 + len / 2 },
                ],
            );
            o.extend(rows.o[45..][..len].iter().map(|row| bits(row)));
            blocks.extend(rows.blocks[45..][..len].to_vec());
            (first, long) = (first + len, long + 45);
        }
        let cache = cache_bits(&layer.export(gpu, 1));
        assert_same(&Trace { o, blocks, cache }, &want, &format!("{kv}, block {}", shape.block));
        // A slot whose sequence is gone makes room; the others stay.
        gpu.reset_qsa(&mut layer.state, 2);
        gpu.reserve_qsa(&shape, &mut layer.state, 0, 3000).unwrap();
        assert!(cache_bits(&layer.export(gpu, 1)) == want.cache, "{kv}: a slot was lost");
        assert_eq!(layer.export(gpu, 2).k.len(), 0);
    }
}

#[test]
fn a_cache_that_was_cut_goes_on_as_if_it_had_never_been_longer() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    for (shape, kv) in shapes() {
        let (text, wrong) = (Text::new(&shape, 11, LEN), Text::new(&shape, 99, LEN));
        let mut layer = Layer::new(gpu, shape, kv, 1);
        let want = trace(gpu, &mut layer, 0, &text, &[50, 54]);

        let mut layer = Layer::new(gpu, shape, kv, 1);
        let (mut o, mut blocks) = (Vec::new(), Vec::new());
        // Each window is first run with another text, and longer.
        for (first, len) in [(0, 1), (1, 6), (7, 1), (8, 35), (43, 2), (45, 59)] {
            let part = |text, len| [Part { slot: 0, text, first, len }];
            layer.step(gpu, &part(&wrong, (len + 9).min(LEN - first)));
            let rows = layer.step(gpu, &part(&text, len));
            o.extend(rows.o.iter().map(|row| bits(row)));
            blocks.extend(rows.blocks);
        }
        let cache = cache_bits(&layer.export(gpu, 0));
        assert_same(&Trace { o, blocks, cache }, &want, &format!("{kv}, block {}", shape.block));
    }
}

/// The cache and the buffers between the kernels hold NaN wherever a sequence does not.
#[test]
fn fault_042_memory_full_of_nan_gives_the_same_bits() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    for (shape, kv) in shapes() {
        let text = Text::new(&shape, 11, LEN);
        let lens = [1, 2, 40, 3, 1, 57];
        let mut clean = Layer::new(gpu, shape, kv, 1);
        let want = trace(gpu, &mut clean, 0, &text, &lens);

        let nan = text.nan();
        let mut layer = Layer::new(gpu, shape, kv, 1);
        // NaN in the buffers between the kernels too, for few rows and for many.
        for (first, len) in [(0, LEN), (LEN - 20, 20)] {
            let rows = layer.step(gpu, &[Part { slot: 0, text: &nan, first, len }]);
            assert!(rows.o.iter().flatten().all(|x| x.is_nan()), "{kv}: a NaN was hidden");
        }
        assert!(layer.export(gpu, 0).v.iter().all(|x| x.is_nan()));
        let found = trace(gpu, &mut layer, 0, &text, &lens);
        assert_same(&found, &want, &format!("{kv}, block {}", shape.block));
    }
}

#[test]
fn long_rows_have_the_same_bits_alone_and_among_many() {
    let Some(mut gpu) = shared_gpu() else { return };
    let gpu = &mut *gpu;
    // More positions than there are tiles of 32 in 128 splits: splits get longer at 4097.
    let shape = dense(QsaShape { heads: 2, kv_heads: 1, head_dim: 8, ..SMALL });
    let text = Text::new(&shape, 5, 4120);
    let mut layer = Layer::new(gpu, shape, KvType::F16, 1);
    layer.append(gpu, &[Part { slot: 0, text: &text, first: 0, len: 4120 }]);
    let part = |first, len| [Part { slot: 0, text: &text, first, len }];
    let many = layer.attend(gpu, &part(4080, 40));
    for row in [0, 15, 16, 17, 39] {
        let one = layer.attend(gpu, &part(4080 + row, 1));
        assert_eq!(bits(&one.o[0]), bits(&many.o[row]), "row {row}");
    }
}
