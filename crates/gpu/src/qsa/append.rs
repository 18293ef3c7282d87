//! Keys and values of a window into the cache: one kernel, a workgroup for each row and head.

use super::layout::Layout;
use super::{Constants, QsaKernel, QsaState, end, runs};
use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use crate::kernel::Kernel;
use crate::params::params;
use crate::recorder::{Call, spread};
use crate::shader::{Shader, read, write};
use kernels::{KvType, QsaKeys, QsaShape, Window};

const THREADS: u32 = 64;

params! {
    /// What the kernel is told.
    AppendParams {
        /// Rows of the window.
        rows: u32,
        /// Runs with rows.
        runs: u32,
        /// Pairs of a position in the table of angles.
        angle_stride: u32,
        /// The first pair of an index head in it.
        index_angle: u32,
        /// Epsilon of the norms.
        eps: f32,
        /// Workgroups along the first axis of the grid.
        grid: u32,
    }
}

pub(crate) fn shader(layout: &Layout) -> Shader {
    let indexed = layout.block > 0;
    let mut constants: Constants = vec![
        ("THREADS", THREADS),
        ("WIDTH", 4 * layout.units().max(layout.index_units())),
        ("KV_HEADS", layout.kv_heads),
        ("HEAD", layout.head),
        ("UNITS", layout.units()),
        ("PAIRS", layout.pairs),
        ("HEAD_WORDS", layout.head_words()),
        ("INDEXED", u32::from(indexed)),
    ];
    let mut bindings = vec![write("cache", "u32")];
    if indexed {
        bindings.push(write("keys", "f32"));
    }
    bindings.extend([read("k", "f32"), read("v", "f32"), read("k_norm", "f32")]);
    if indexed {
        bindings.extend([read("raw", "f32"), read("index_norm", "f32")]);
        constants.extend([
            ("BLOCK", layout.block),
            ("INDEX", layout.index),
            ("INDEX_UNITS", layout.index_units()),
            ("INDEX_PAIRS", layout.index_pairs),
        ]);
    }
    bindings.extend([read("angles", "vec2<f32>"), read("runs", "vec4<u32>")]);
    let index = if indexed {
        include_str!("../../shaders/qsa_append_index.wgsl")
    } else {
        include_str!("../../shaders/qsa_append_dense.wgsl")
    };
    let half = include_str!("../../shaders/qsa_half.wgsl");
    let store = match layout.kv {
        KvType::F32 => ["", include_str!("../../shaders/qsa_store_f32.wgsl")],
        KvType::F16 => [half, include_str!("../../shaders/qsa_store_f16.wgsl")],
        KvType::Q8_0 => [half, include_str!("../../shaders/qsa_store_q8_0.wgsl")],
    };
    let sources = [
        include_str!("../../shaders/qsa_norm.wgsl"),
        include_str!("../../shaders/qsa_runs.wgsl"),
        include_str!("../../shaders/qsa_append.wgsl"),
        index,
        store[0],
        store[1],
    ];
    let family = format!("qsa_append {}", layout.kv);
    Shader::new::<AppendParams>(&family, &constants, bindings, &sources)
}

impl Gpu {
    /// `None` if memory is short, which is kept as a fault.
    pub(super) fn append(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        keys: &QsaKeys<'_, GpuBuffer, GpuBuffer>,
        state: &mut QsaState,
    ) -> Option<()> {
        let (layout, rows) = (state.layout, window.rows());
        check(&layout, rows, keys);
        for run in window.runs().iter().filter(|run| run.len > 0) {
            // Nothing where room was made before, as it should be.
            let made = state.reserve(&mut self.recorder, run.slot, run.first_pos + run.len);
            made.map_err(|error| self.recorder.faults.add(error)).ok()?;
            state.extend(run);
        }
        let angles = self.angles(shape, end(window))?;
        let (words, runs) = runs(window, state);
        let constants = Some(self.recorder.constants(&words)?);
        let buffers = state.buffers.as_ref()?;
        let mut slices = vec![buffers.kv.all()];
        let mut behind = vec![keys.k.all(), keys.v.all(), keys.k_norm.all()];
        if let (Some((raw, norm)), true) = (keys.index, layout.block > 0) {
            slices.push(buffers.index.all());
            behind.extend([raw.all(), norm.all()]);
        }
        slices.extend(behind);
        slices.push(angles.buffer.all());
        let items = rows * (layout.kv_heads as usize + usize::from(layout.block > 0));
        let grid = spread(items);
        let params = AppendParams {
            rows: rows as u32,
            runs,
            angle_stride: angles.stride,
            index_angle: angles.index_first,
            eps: shape.eps,
            grid: grid[0],
        };
        let kernel = Kernel::Qsa(QsaKernel::Append(layout));
        self.recorder.dispatch(&Call { kernel, buffers: &slices, constants, grid }, &params);
        Some(())
    }
}

/// What the kernel relies on.
fn check(layout: &Layout, rows: usize, keys: &QsaKeys<'_, GpuBuffer, GpuBuffer>) {
    let width = rows * layout.kv_dim();
    assert!(keys.k.len() >= width && keys.v.len() >= width, "keys and values of {rows} rows");
    assert!(keys.k_norm.len() >= layout.head as usize, "a short norm");
    assert_eq!(keys.index.is_some(), layout.block > 0, "index keys where there are blocks");
    if let Some((raw, norm)) = keys.index {
        assert!(raw.len() >= rows * layout.index as usize, "index keys of {rows} rows");
        assert!(norm.len() >= layout.index as usize, "a short norm");
    }
}
