//! Attention over the chosen positions.
//!
//! A row's positions are cut into splits, which few rows give to workgroups of their own, to be
//! merged by a second kernel; many rows have enough workgroups without that, and each takes all
//! splits of a row. Both do the same steps in the same order.

use super::layout::Layout;
use super::{Constants, QsaKernel, QsaState, check_appended, end, runs};
use crate::buffer::{GpuBuffer, Slice};
use crate::device::Gpu;
use crate::formats::UNIT;
use crate::kernel::Kernel;
use crate::params::params;
use crate::qsa::angles::AnglesView;
use crate::qsa::select::Selection;
use crate::recorder::{Call, MAX_GRID};
use crate::scratch::Scratch;
use crate::shader::{Binding, Shader, read, write};
use kernels::qsa::AttendQuery;
use kernels::{KvType, QsaShape, Window};

/// Threads of a workgroup.
const THREADS: u32 = 256;

/// Threads that merge the splits of a head.
const MERGE_THREADS: u32 = 64;

/// Positions that are scored at once.
const TILE: u32 = 32;

/// Most splits of a row.
const MAX_SPLITS: u32 = 128;

/// From so many rows on a workgroup takes all splits of a row.
const MANY_ROWS: usize = 32;

/// Most query heads of a workgroup: each thread has a sum of each.
const MAX_TOGETHER: u32 = 16;

/// Workgroup memory that is used, where there is as much.
const MEMORY: u32 = 32 << 10;

params! {
    /// What attention is told.
    AttendParams {
        /// Runs with rows.
        runs: u32,
        /// Rows of the window.
        rows: u32,
        /// Whether all rows attend all that they see.
        everything: u32,
        /// Words of a row of the selection.
        selection_stride: u32,
        /// Splits of a row that there is room for.
        splits: u32,
        /// Pairs of a position in the table of angles.
        angle_stride: u32,
        /// 1 by the root of the width of a head.
        scale: f32,
        /// Epsilon of the norm.
        eps: f32,
    }
}

/// The attention kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attend {
    pub(crate) layout: Layout,
    /// Query heads of a workgroup.
    pub(crate) together: u32,
    /// Whether it takes all splits of a row.
    pub(crate) whole: bool,
}

/// The runs of a window and what its rows see, as both kernels read them.
fn seen_bindings(layout: &Layout) -> ([Binding; 2], Constants) {
    let bindings = [read("selection", "u32"), read("runs", "vec4<u32>")];
    let constants = vec![
        ("TILE", TILE),
        ("MAX_SPLITS", MAX_SPLITS),
        ("KV_HEADS", layout.kv_heads),
        ("GROUP", layout.group),
        ("HEAD", layout.head),
        ("UNITS", layout.units()),
        // No block is asked for in a dense layer, but shaders do not divide by zero.
        ("BLOCK", layout.block.max(1)),
    ];
    (bindings, constants)
}

impl Attend {
    /// As many query heads as workgroup memory of `bytes` holds, evenly.
    pub(super) fn new(layout: Layout, whole: bool, bytes: u32) -> Self {
        let head = 16 * layout.units() + 4 * (THREADS + TILE + 7);
        let most = (bytes.min(MEMORY) - 4 * TILE) / head;
        let parts = layout.group.div_ceil(most.clamp(1, MAX_TOGETHER));
        Self { layout, together: layout.group.div_ceil(parts), whole }
    }

    /// Workgroups for the heads of a row.
    pub(super) fn parts(&self) -> u32 {
        self.layout.kv_heads * self.layout.group.div_ceil(self.together)
    }

    pub(super) fn shader(&self) -> Shader {
        let layout = &self.layout;
        let (element, words, load) = match layout.kv {
            KvType::F32 => ("vec4<f32>", 4, include_str!("../../shaders/qsa_load_f32.wgsl")),
            KvType::F16 => ("vec2<u32>", 2, include_str!("../../shaders/qsa_load_f16.wgsl")),
            KvType::Q8_0 => ("u32", 1, include_str!("../../shaders/qsa_load_q8_0.wgsl")),
        };
        let (seen, mut constants) = seen_bindings(layout);
        constants.extend([
            ("THREADS", THREADS),
            ("PAIRS", layout.pairs),
            ("HEAD_ELEMENTS", layout.head_words() / words),
            ("TOGETHER", self.together),
            ("WHOLE", u32::from(self.whole)),
        ]);
        let (out, store) = if self.whole {
            ("u32", include_str!("../../shaders/qsa_attend_whole.wgsl"))
        } else {
            ("vec4<f32>", include_str!("../../shaders/qsa_attend_part.wgsl"))
        };
        let mut bindings = vec![
            write("out", out),
            read("cache", element),
            read("q", "f32"),
            read("norm", "f32"),
            read("angles", "vec2<f32>"),
        ];
        bindings.extend(seen);
        let sources = [
            include_str!("../../shaders/math.wgsl"),
            include_str!("../../shaders/qsa_norm.wgsl"),
            include_str!("../../shaders/qsa_runs.wgsl"),
            include_str!("../../shaders/qsa_seen.wgsl"),
            include_str!("../../shaders/qsa_merge.wgsl"),
            load,
            include_str!("../../shaders/qsa_attend.wgsl"),
            store,
        ];
        let family = format!("qsa_attend {}", layout.kv);
        Shader::new::<AttendParams>(&family, &constants, bindings, &sources)
    }
}

pub(super) fn merge_shader(layout: &Layout, codes: bool) -> Shader {
    let (seen, mut constants) = seen_bindings(layout);
    constants.extend([("THREADS", MERGE_THREADS), ("HEADS", layout.kv_heads * layout.group)]);
    let mut bindings = vec![write("o", "u32"), read("parts", "vec4<f32>"), read("q", "f32")];
    bindings.extend(seen);
    let mut sources = vec![
        include_str!("../../shaders/math.wgsl"),
        include_str!("../../shaders/qsa_runs.wgsl"),
        include_str!("../../shaders/qsa_seen.wgsl"),
        include_str!("../../shaders/qsa_merge.wgsl"),
        include_str!("../../shaders/qsa_merge_parts.wgsl"),
    ];
    if !codes {
        sources.push(include_str!("../../shaders/qsa_no_codes.wgsl"));
        return Shader::new::<AttendParams>("qsa_merge", &constants, bindings, &sources);
    }
    // Runs are constants, which are bound last.
    let runs = bindings.pop();
    bindings.extend([write("codes", "u32"), write("scales", "vec2<u32>")]);
    bindings.extend(runs);
    sources.push(include_str!("../../shaders/qsa_codes.wgsl"));
    sources.push(include_str!("../../shaders/codes.wgsl"));
    Shader::new::<AttendParams>("qsa_merge_codes", &constants, bindings, &sources)
}

/// Whether the threads that merge a head can leave it in 8 bits.
fn leaves_codes(layout: &Layout) -> bool {
    layout.head.is_multiple_of(UNIT as u32) && layout.units() <= MERGE_THREADS
}

/// Splits of a row with so many positions, as the shaders cut them.
fn splits(count: usize) -> usize {
    let mut size = TILE as usize;
    while count.div_ceil(size) > MAX_SPLITS as usize {
        size *= 2;
    }
    count.div_ceil(size)
}

/// A call of both kernels, with the buffers and parameters that they share.
#[derive(Clone, Copy)]
struct Parts<'a> {
    query: &'a AttendQuery<'a, GpuBuffer, GpuBuffer, Selection>,
    state: &'a QsaState,
    angles: &'a AnglesView,
    selection: Slice<'a>,
    params: AttendParams,
}

impl Gpu {
    /// `None` if memory is short, which is kept as a fault.
    pub(super) fn attend(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        (query, state): (&AttendQuery<'_, GpuBuffer, GpuBuffer, Selection>, &QsaState),
        o: &GpuBuffer,
    ) -> Option<()> {
        check_appended(window, state);
        let (layout, rows, selection) = (&state.layout, window.rows(), query.selection);
        let width = (layout.kv_heads * layout.group * layout.head) as usize;
        assert_eq!(selection.rows(), rows, "a selection of another window");
        assert!(query.q.len() >= 2 * rows * width, "queries and gates of {rows} rows");
        assert!(o.len() >= rows * width, "no room for {rows} rows");
        assert!(query.norm.len() >= layout.head as usize, "a short norm");
        assert!(rows <= MAX_GRID as usize, "{rows} rows");
        if rows == 0 {
            return Some(());
        }
        let angles = self.angles(shape, end(window))?;
        // Where everything is attended no choice is read: any buffer will do.
        let everything = selection.everything();
        let chosen = if everything { &*angles.buffer } else { selection.buffer()? };
        let params = AttendParams {
            runs: 0,
            rows: rows as u32,
            everything: u32::from(everything),
            selection_stride: if everything { 0 } else { selection.stride() as u32 },
            splits: (0..rows).map(|row| splits(selection.most(row))).max().unwrap_or(0) as u32,
            angle_stride: angles.stride,
            scale: (1.0 / (shape.head_dim as f64).sqrt()) as f32,
            eps: shape.eps,
        };
        let selection = chosen.all();
        let parts = Parts { query, state, angles: &angles, selection, params };
        if rows < MANY_ROWS {
            self.attend_parts(window, parts, o)
        } else {
            self.attend_whole(window, parts, o)
        }
    }

    /// A split for each workgroup, and the merge.
    fn attend_parts(&mut self, window: &Window, parts: Parts<'_>, o: &GpuBuffer) -> Option<()> {
        let Parts { query, state, selection, mut params, .. } = parts;
        let layout = &state.layout;
        let (heads, units) = ((layout.kv_heads * layout.group) as usize, layout.units() as usize);
        let (rows, splits) = (params.rows as usize, params.splits as usize);
        let len = rows * splits * heads * 4 * (units + 1);
        let sums = self.scratch(Scratch::Sums, len)?;
        let (words, runs) = runs(window, state);
        let constants = Some(self.recorder.constants(&words)?);
        params.runs = runs;
        let attend = Attend::new(*layout, false, self.recorder.workgroup_memory());
        let (cache, angles) = (state.buffers.as_ref()?.kv.all(), parts.angles.buffer.all());
        let slices = [sums.all(), cache, query.q.all(), query.norm.all(), angles, selection];
        let kernel = Kernel::Qsa(QsaKernel::Attend(attend));
        let grid = [params.splits, attend.parts(), params.rows];
        self.recorder.dispatch(&Call { kernel, buffers: &slices, constants, grid }, &params);
        let grid = [heads as u32, params.rows, 1];
        let slices = [o.all(), sums.all(), query.q.all(), selection];
        let (head, len) = (layout.head as usize, rows * heads * layout.head as usize);
        if leaves_codes(layout)
            && let Some([codes, scales]) = self.codes_for(o, len, head)
        {
            let [o_all, sums, q, selection] = slices;
            let slices = [o_all, sums, q, selection, codes.all(), scales.all()];
            let kernel = Kernel::Qsa(QsaKernel::MergeCodes(*layout));
            self.recorder.dispatch(&Call { kernel, buffers: &slices, constants, grid }, &params);
            self.note_codes(o, len);
            return Some(());
        }
        let kernel = Kernel::Qsa(QsaKernel::Merge(*layout));
        self.recorder.dispatch(&Call { kernel, buffers: &slices, constants, grid }, &params);
        Some(())
    }

    /// All splits of a row for each workgroup.
    fn attend_whole(&mut self, window: &Window, parts: Parts<'_>, o: &GpuBuffer) -> Option<()> {
        let Parts { query, state, selection, mut params, .. } = parts;
        let (words, runs) = runs(window, state);
        let constants = Some(self.recorder.constants(&words)?);
        params.runs = runs;
        let attend = Attend::new(state.layout, true, self.recorder.workgroup_memory());
        let (cache, angles) = (state.buffers.as_ref()?.kv.all(), parts.angles.buffer.all());
        let slices = [o.all(), cache, query.q.all(), query.norm.all(), angles, selection];
        let kernel = Kernel::Qsa(QsaKernel::Attend(attend));
        let grid = [1, attend.parts(), params.rows];
        self.recorder.dispatch(&Call { kernel, buffers: &slices, constants, grid }, &params);
        Some(())
    }
}
