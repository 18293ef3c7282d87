//! Matrix times rows, with 8-bit or f32 activations.

use super::rows::{RowTasks, TokenRows, rows_times};
use crate::device::{Cpu, CpuMatrix, room};
use crate::int8::{
    ActBlock, Acts, CHUNK, Int8Kernels, Load, PanelRows, PanelTasks, Product, Scratch,
};
use crate::pool::Pool;
use crate::share::Shared;
use kernels::Gemv;
use std::cell::RefCell;

/// Values that are quantised by the caller alone: less work than starting the other threads.
const SERIAL_VALUES: usize = 32 * 1024;

thread_local! {
    /// Panel and sums of the running task.
    pub(super) static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Quantises `rows` rows of `n_in` values; the blocks are kept in `work`.
pub(super) fn quantise<'a>(
    pool: &mut Pool,
    int8: Int8Kernels,
    (x, rows): (&[f32], usize),
    n_in: usize,
    work: &'a mut Vec<ActBlock>,
) -> Acts<'a> {
    quantise_some(pool, int8, (x, rows), n_in, (rows, |t| t), work)
}

/// As [`quantise`], of `count` different rows only, number `i` of which is row `number(i)`; the
/// others stay as they are.
pub(super) fn quantise_some<'a>(
    pool: &mut Pool,
    int8: Int8Kernels,
    (x, rows): (&[f32], usize),
    n_in: usize,
    (count, number): (usize, impl Fn(usize) -> usize + Sync),
    work: &'a mut Vec<ActBlock>,
) -> Acts<'a> {
    let blocks = room(work, rows * n_in.div_ceil(CHUNK));
    let out = Shared::new(blocks);
    let row = |i: usize| {
        let t = number(i);
        for (c, values) in x[t * n_in..][..n_in].chunks(CHUNK).enumerate() {
            // SAFETY: a row's blocks are written by its task alone.
            let block = unsafe { out.slice(c * rows + t..c * rows + t + 1) };
            int8.quantise(values, &mut block[0]);
        }
    };
    if count * n_in <= SERIAL_VALUES {
        (0..count).for_each(row);
    } else {
        pool.run(count, &row);
    }
    Acts { blocks, rows }
}

/// Copies a few values; a panel's most often, for which a call would take longer than the copy.
#[inline(always)]
pub(super) fn copy_short(from: &[f32], to: &mut [f32]) {
    match (<&[f32; 32]>::try_from(from), <&mut [f32; 32]>::try_from(&mut *to)) {
        (Ok(from), Ok(to)) => *to = *from,
        _ => to.copy_from_slice(from),
    }
}

/// The numbers below `count`.
pub(super) fn numbers(work: &mut Vec<u32>, count: usize) -> &[u32] {
    while work.len() < count {
        work.push(work.len() as u32);
    }
    &work[..count]
}

impl Cpu {
    /// `y[t] = w x[t]` for row-major `x` `[rows, n_in]` and `y` `[rows, n_out]`.
    pub(crate) fn multiply(&mut self, w: &CpuMatrix, x: &[f32], rows: usize, y: &mut [f32]) {
        assert_eq!(w.weight.experts(), 1, "{} is an expert stack", w.weight.name());
        match &w.int8 {
            Some(product) => self.multiply_int8(w, product, x, rows, y),
            None => self.multiply_f32(w, x, rows, y),
        }
    }

    fn multiply_int8(
        &mut self,
        w: &CpuMatrix,
        product: &Product,
        x: &[f32],
        rows: usize,
        y: &mut [f32],
    ) {
        let (n_in, n_out) = (w.weight.n_in(), w.weight.n_out());
        let Self { pool, work, int8, forced, .. } = self;
        let acts = quantise(pool, *int8, (x, rows), n_in, &mut work.acts);
        let tokens = numbers(&mut work.row_numbers, rows);
        let load = Load { matrices: 1, threads: pool.threads(), tile: w.tile(*forced, rows) };
        let tasks = PanelTasks::new(product, (n_out, n_in), rows, load);
        let out = Shared::new(&mut y[..rows * n_out]);
        pool.run(tasks.count(), &|task| {
            SCRATCH.with_borrow_mut(|scratch| {
                for panel in tasks.panels(task) {
                    let stride = product.panel(w.encoded(), panel, &acts, tokens, (scratch, 0));
                    let PanelRows { first, last, .. } = panel;
                    let (sums, _) = scratch.sums_mut();
                    for (t, sums) in sums.chunks_exact(stride).take(rows).enumerate() {
                        // SAFETY: a weight row belongs to one task.
                        let y = unsafe { out.slice(t * n_out + first..t * n_out + last) };
                        copy_short(&sums[..last - first], y);
                    }
                }
            });
        });
    }

    fn multiply_f32(&mut self, w: &CpuMatrix, x: &[f32], rows: usize, y: &mut [f32]) {
        let (n_in, n_out) = (w.weight.n_in(), w.weight.n_out());
        let Self { pool, work, simd, forced, .. } = self;
        let tasks = RowTasks { rows: n_out, each: w.tile(*forced, rows).task_rows() };
        let tokens = numbers(&mut work.row_numbers, rows);
        let x = TokenRows { values: x, width: n_in, tokens };
        let out = Shared::new(&mut y[..rows * n_out]);
        pool.run(tasks.count(), &|task| {
            rows_times(simd, w.in_file(), tasks.range(task), x, |t, row, value| {
                // SAFETY: a weight row belongs to one task.
                unsafe { out.set(t * n_out + row, value) }
            });
        });
    }
}

impl Gemv for Cpu {
    fn matmul(&mut self, w: &CpuMatrix, x: &Vec<f32>, rows: usize, y: &mut Vec<f32>) {
        self.multiply(w, x, rows, y);
    }
}
