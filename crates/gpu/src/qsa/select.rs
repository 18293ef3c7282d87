//! The choice of blocks: scores, then the best of each row. Nothing is read back.
//!
//! A row that sees no more blocks than it may keep has no choice to make; a window of such rows
//! costs no kernel.

use super::layout::Layout;
use super::{Constants, QsaKernel, QsaState, check_appended, end, runs};
use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use crate::kernel::Kernel;
use crate::params::params;
use crate::recorder::{Call, MAX_GRID};
use crate::scratch::Scratch;
use crate::shader::{Shader, read, write};
use kernels::qsa::IndexQuery;
use kernels::{QsaShape, Window};
use std::ops::Range;

/// Blocks that a workgroup scores.
const SCORE_THREADS: u32 = 64;

/// Threads that choose for a row.
const CHOOSE_THREADS: u32 = 256;

/// Rows that are scored together.
const TILE_ROWS: usize = 4;

/// Bytes of the index heads in workgroup memory.
const HEAD_BYTES: u32 = 8 << 10;

/// Most scores of a call; a larger window is taken in parts.
pub(super) const MAX_SCORES: usize = 16 << 20;

/// Marks of a row in place of a number of blocks; shaders know them too.
const EVERYTHING: u32 = u32::MAX;
const NOTHING: u32 = u32::MAX - 1;

params! {
    /// What the scores' kernel is told.
    ScoreParams {
        /// Scores of a row.
        stride: u32,
        /// The first row that is scored.
        first_row: u32,
        /// Blocks that a row may keep.
        keep: u32,
        /// Pairs of a position in the table of angles.
        angle_stride: u32,
        /// The first pair of an index head in it.
        index_angle: u32,
        /// 1 by the root of the width of an index head.
        scale: f32,
        /// Epsilon of the norm.
        eps: f32,
    }
}

params! {
    /// What the choice is told.
    ChooseParams {
        /// Scores of a row.
        stride: u32,
        /// The first row that is chosen for.
        first_row: u32,
        /// Runs with rows.
        runs: u32,
        /// Blocks that a row may keep.
        keep: u32,
        /// Words of a row of the selection.
        selection_stride: u32,
    }
}

pub(super) fn score_shader(layout: &Layout) -> Shader {
    let head_bytes = 16 * 4 * layout.index_units();
    let constants: Constants = vec![
        ("THREADS", SCORE_THREADS),
        ("INDEX", layout.index),
        ("INDEX_UNITS", layout.index_units()),
        ("INDEX_HEADS", layout.index_heads),
        ("INDEX_PAIRS", layout.index_pairs),
        ("BLOCK", layout.block),
        ("TOGETHER", (HEAD_BYTES / head_bytes).clamp(1, layout.index_heads.min(8))),
    ];
    let bindings = vec![
        write("scores", "u32"),
        read("keys", "vec4<f32>"),
        read("q", "f32"),
        read("norm", "f32"),
        read("angles", "vec2<f32>"),
        read("tiles", "vec4<u32>"),
    ];
    let sources = [
        include_str!("../../shaders/order.wgsl"),
        include_str!("../../shaders/qsa_norm.wgsl"),
        include_str!("../../shaders/qsa_score.wgsl"),
    ];
    Shader::new::<ScoreParams>("qsa_score", &constants, bindings, &sources)
}

pub(super) fn choose_shader(block: u32) -> Shader {
    let constants = [("THREADS", CHOOSE_THREADS), ("BLOCK", block)];
    let bindings =
        vec![write("selection", "u32"), read("scores", "u32"), read("runs", "vec4<u32>")];
    let sources = [
        include_str!("../../shaders/order.wgsl"),
        include_str!("../../shaders/qsa_runs.wgsl"),
        include_str!("../../shaders/sum_up_to.wgsl"),
        include_str!("../../shaders/qsa_choose.wgsl"),
    ];
    Shader::new::<ChooseParams>("qsa_choose", &constants, bindings, &sources)
}

/// The cache positions that each row of a window attends.
#[derive(Debug, Default)]
pub struct Selection {
    /// Position of each row.
    rows: Vec<usize>,
    block: usize,
    keep: usize,
    /// Whether every row attends all that it sees; then there is nothing on the device.
    everything: bool,
    /// `[rows, 1 + keep]`: the number of blocks or a mark, then the blocks, rising.
    buffer: Option<GpuBuffer>,
}

impl Selection {
    /// Begins a window, in which all rows attend everything if `dense`.
    pub(super) fn start(&mut self, shape: &QsaShape, window: &Window, dense: bool) {
        self.rows.clear();
        self.rows.extend(window.iter().map(|(_, _, pos)| pos));
        (self.block, self.keep) = (shape.block, shape.max_blocks());
        self.everything = dense || self.rows.iter().all(|&pos| self.complete(pos) <= self.keep);
    }

    /// Whether every row attends all that it sees.
    pub(super) fn everything(&self) -> bool {
        self.everything
    }

    /// Forgets what is on the device.
    pub(super) fn forget(&mut self) {
        self.buffer = None;
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Words of a row.
    pub(super) fn stride(&self) -> usize {
        1 + self.keep
    }

    /// What is on the device; `None` where nothing is, or memory was short.
    pub(super) fn buffer(&self) -> Option<&GpuBuffer> {
        self.buffer.as_ref()
    }

    /// Most positions of a row at `pos`: all of them, unless a score is NaN.
    pub(super) fn most(&self, row: usize) -> usize {
        let (pos, complete) = (self.rows[row], self.complete(self.rows[row]));
        if self.everything || complete <= self.keep {
            return pos + 1;
        }
        self.keep * self.block + (pos + 1) % self.block
    }

    /// Complete blocks that a row at `pos` sees.
    fn complete(&self, pos: usize) -> usize {
        (pos + 1).checked_div(self.block).unwrap_or(0)
    }

    /// The blocks of a row of the buffer.
    fn blocks(&self, row: usize, words: &[u32]) -> Vec<u32> {
        match words[0] {
            EVERYTHING => (0..self.complete(self.rows[row]) as u32).collect(),
            NOTHING => Vec::new(),
            count => words[1..][..count as usize].to_vec(),
        }
    }
}

/// Rows `rows` of a window as tiles of up to [`TILE_ROWS`] rows of one run.
fn tiles(window: &Window, state: &QsaState, rows: &Range<usize>) -> Vec<u32> {
    let mut words = Vec::new();
    for run in window.runs() {
        let block_first = state.slot(run.slot).block_first();
        let (start, end) = (run.first_row.max(rows.start), (run.first_row + run.len).min(rows.end));
        let mut row = start;
        while row < end {
            let count = TILE_ROWS.min(end - row);
            words.extend([row, count, run.pos(row), block_first].map(|x| x as u32));
            row += count;
        }
    }
    words
}

impl Gpu {
    /// In parts of no more than `most` scores, or one row. `None` if memory is short, which is kept
    /// as a fault.
    pub(super) fn select(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        (query, state): (&IndexQuery<'_, GpuBuffer, GpuBuffer>, &QsaState),
        selection: &mut Selection,
        most: usize,
    ) -> Option<()> {
        check_appended(window, state);
        let (layout, rows) = (state.layout, window.rows());
        let width = (layout.index_heads * layout.index) as usize;
        assert!(layout.block > 0, "an indexer in a dense layer");
        assert!(query.q.len() >= rows * width, "index queries of {rows} rows");
        assert!(query.norm.len() >= layout.index as usize, "a short norm");
        let words = rows * selection.stride();
        if selection.buffer.as_ref().is_none_or(|buffer| buffer.len() < words) {
            selection.buffer = None;
            selection.buffer = Some(self.kept_alloc(words, "selected blocks")?);
        }
        let stride = end(window) / shape.block;
        let batch = (most / stride).clamp(1, MAX_GRID as usize);
        for first in (0..rows).step_by(batch) {
            let part = first..rows.min(first + batch);
            self.score(shape, window, (query, state), &part)?;
            self.choose(window, state, selection, (&part, stride))?;
        }
        Some(())
    }

    fn score(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        (query, state): (&IndexQuery<'_, GpuBuffer, GpuBuffer>, &QsaState),
        rows: &Range<usize>,
    ) -> Option<()> {
        let stride = end(window) / shape.block;
        let angles = self.angles(shape, end(window))?;
        let scores = self.scratch(Scratch::Scores, rows.len() * stride)?;
        let tiles = tiles(window, state, rows);
        let grid = [(stride as u32).div_ceil(SCORE_THREADS), tiles.len() as u32 / 4, 1];
        let constants = Some(self.recorder.constants(&tiles)?);
        let keys = &state.buffers.as_ref()?.index;
        let params = ScoreParams {
            stride: stride as u32,
            first_row: rows.start as u32,
            keep: shape.max_blocks() as u32,
            angle_stride: angles.stride,
            index_angle: angles.index_first,
            scale: (1.0 / (shape.index_dim as f64).sqrt()) as f32,
            eps: shape.eps,
        };
        let (q, norm) = (query.q.all(), query.norm.all());
        let slices = [scores.all(), keys.all(), q, norm, angles.buffer.all()];
        let kernel = Kernel::Qsa(QsaKernel::Score(state.layout));
        self.recorder.dispatch(&Call { kernel, buffers: &slices, constants, grid }, &params);
        Some(())
    }

    fn choose(
        &mut self,
        window: &Window,
        state: &QsaState,
        selection: &Selection,
        (rows, stride): (&Range<usize>, usize),
    ) -> Option<()> {
        let scores = self.scratch(Scratch::Scores, rows.len() * stride)?;
        let (words, runs) = runs(window, state);
        let constants = Some(self.recorder.constants(&words)?);
        let params = ChooseParams {
            stride: stride as u32,
            first_row: rows.start as u32,
            runs,
            keep: selection.keep as u32,
            selection_stride: selection.stride() as u32,
        };
        let slices = [selection.buffer()?.all(), scores.all()];
        let kernel = Kernel::Qsa(QsaKernel::Choose(state.layout.block));
        let grid = [rows.len() as u32, 1, 1];
        self.recorder.dispatch(&Call { kernel, buffers: &slices, constants, grid }, &params);
        Some(())
    }

    /// The blocks of every row; empty where the device failed, which is kept as a fault.
    pub(super) fn chosen_blocks(&mut self, selection: &Selection) -> Vec<Vec<u32>> {
        let (rows, stride) = (selection.rows(), selection.stride());
        if selection.everything {
            let all = |row| selection.blocks(row, &[EVERYTHING]);
            return (0..rows).map(all).collect();
        }
        let Some(buffer) = selection.buffer() else { return vec![Vec::new(); rows] };
        let mut words = vec![NOTHING; rows * stride];
        if let Err(error) = self.recorder.download(buffer, &mut words) {
            self.recorder.faults.add(error);
            return vec![Vec::new(); rows];
        }
        (0..rows).map(|row| selection.blocks(row, &words[row * stride..])).collect()
    }
}
