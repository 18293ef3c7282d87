//! What needs a look inside: workgroup memory, and windows whose scores are taken in parts.

use super::attend::Attend;
use super::layout::Layout;
use super::{QsaKernel, QsaState, Selection};
use crate::testing::gpu;
use crate::{Gpu, GpuBuffer};
use kernels::host::KvSlot;
use kernels::qsa::IndexQuery;
use kernels::rope::RopeScaling;
use kernels::{Device, KvType, Qsa, QsaShape, Window};
use lab::Random;
use naga::AddressSpace;

fn shape() -> QsaShape {
    QsaShape {
        heads: 2,
        kv_heads: 1,
        head_dim: 4,
        rope_dims: 2,
        rope_base: 1e4,
        rope_scaling: RopeScaling::None,
        index_heads: 2,
        index_dim: 6,
        budget: 12,
        block: 3,
        eps: 1e-6,
    }
}

/// Bytes of workgroup memory of a kernel.
fn memory(kernel: QsaKernel) -> u32 {
    let module = naga::front::wgsl::parse_str(&kernel.shader().text).unwrap();
    let globals = module.global_variables.iter().map(|(_, variable)| variable);
    let shared = globals.filter(|variable| variable.space == AddressSpace::WorkGroup);
    shared.map(|variable| module.types[variable.ty].inner.size(module.to_ctx())).sum()
}

#[test]
fn kernels_keep_to_the_workgroup_memory_that_there_is() {
    let of = |heads, kv_heads, head_dim, (index_heads, index_dim)| {
        let shape = QsaShape { heads, kv_heads, head_dim, index_heads, index_dim, ..shape() };
        Layout::new(&shape, KvType::F32).unwrap()
    };
    // The model's, the widest that is taken, and many narrow heads.
    let wide = of(8, 1, 1024, (3, 512));
    for layout in [of(24, 2, 256, (4, 128)), wide, of(64, 1, 4, (64, 4))] {
        for bytes in [16 << 10, 32 << 10, 227 << 10] {
            let attend = QsaKernel::Attend(Attend::new(layout, true, bytes));
            let taken = memory(attend);
            assert!(taken <= bytes.min(32 << 10), "{taken} of {bytes} bytes: {layout:?}");
        }
        let others =
            [QsaKernel::Append(layout), QsaKernel::Score(layout), QsaKernel::Merge(layout)];
        for kernel in others.into_iter().chain([QsaKernel::Choose(4)]) {
            assert!(memory(kernel) <= 16 << 10, "{kernel:?}");
        }
    }
    // All query heads of a key head of the model fit into 32 KiB together.
    let model = Attend::new(of(24, 2, 256, (4, 128)), false, 48 << 10);
    assert_eq!((model.together, model.parts()), (12, 2));
}

fn upload(gpu: &mut Gpu, values: &[f32]) -> GpuBuffer {
    let mut buffer = gpu.alloc(values.len()).unwrap();
    gpu.upload(values, &mut buffer);
    buffer
}

/// Two slots whose caches are random, and the queries of a window over both.
fn filled(gpu: &mut Gpu) -> (QsaState, Window, GpuBuffer, GpuBuffer) {
    let shape = shape();
    let mut random = Random::new(1);
    let mut state = gpu.new_qsa_state(&shape, 2, 1000, KvType::F32).unwrap();
    for slot in 0..2 {
        let mut values = |len: usize| random.values(len, 1.0);
        let cache = KvSlot {
            k: values(60 * shape.kv_dim()),
            v: values(60 * shape.kv_dim()),
            index: values(60 * shape.index_dim),
            blocks: values(20 * shape.index_dim),
        };
        gpu.import_qsa_rows(&shape, &mut state, slot, (0, &cache)).unwrap();
    }
    let mut window = Window::new();
    window.push(1, 5, 50);
    window.push(0, 30, 7);
    let q = upload(gpu, &random.values(57 * shape.index_heads * shape.index_dim, 1.0));
    let norm = upload(gpu, &[1.0; 6]);
    (state, window, q, norm)
}

#[test]
fn scores_that_are_taken_in_parts_give_the_same_choice() {
    let Some(mut gpu) = gpu() else { return };
    let (state, window, q, norm) = filled(&mut gpu);
    let query = IndexQuery { q: &q, norm: &norm };
    let mut choose = |most: usize| {
        let mut selection = Selection::default();
        selection.start(&shape(), &window, false);
        gpu.select(&shape(), &window, (&query, &state), &mut selection, most).unwrap();
        gpu.selected_blocks(&selection)
    };
    let whole = choose(1 << 20);
    assert_eq!(whole.len(), 57);
    assert!(whole[10..].iter().all(|blocks| blocks.len() == 4));
    for most in [1, 100, 333] {
        assert_eq!(choose(most), whole, "{most} scores at a time");
    }
}
