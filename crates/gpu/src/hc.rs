//! Family `hc`. A read of few rows is two dispatches: `down` with all that belongs to streams, and
//! `up` with gates and mix. Many rows go through kernels for many, with the same bits.
//! Streams that are no whole units, and ranks beyond reason, take a plain route of their own.

#[cfg(test)]
mod tests;

use crate::buffer::{GpuBuffer, Held, Slice};
use crate::device::Gpu;
use crate::formats::{Book, UNIT};
use crate::hc_kernels::{
    DOWN_LANES, DOWN_MANY, HcKernel, HcParams, HcStep, MOST_RANK, MOST_TOKENS, THREADS, down_stage,
    up_columns, up_lanes, up_tokens,
};
use crate::kernel::Kernel;
use crate::matrix::{Decoded, Matrix, Part};
use crate::open::Injection;
use crate::product::{Inputs, Ready};
use crate::recorder::{Call, MAX_GRID, spread};
use crate::scratch::Scratch;
use crate::tile::{Tile, Width};
use kernels::hc::HcRead;
use kernels::{Hc, HcShape, HcWeights};
use std::sync::{Arc, PoisonError};

/// Weight rows of a workgroup of the first step.
const DOWN_ROWS: usize = 128 / DOWN_LANES as usize;

/// What the steps of a read share.
struct Read<'a> {
    shape: HcShape,
    w: &'a HcWeights<'a, Matrix, GpuBuffer>,
    x: &'a GpuBuffer,
    rows: usize,
    u: &'a GpuBuffer,
    weights: &'a GpuBuffer,
    /// Decoded; any buffer where there is none.
    inject: Slice<'a>,
    /// Products with `down`, then sums of streams.
    part: Arc<GpuBuffer>,
    params: HcParams,
    split: bool,
}

impl Read<'_> {
    fn kernel(&self, step: HcStep) -> Kernel {
        let streams = self.shape.streams as u32;
        let (inject, split) = (self.w.inject.is_some(), self.split);
        Kernel::Hc(HcKernel { step, streams, inject, split })
    }

    fn wide(&self) -> usize {
        self.shape.streams * self.shape.width
    }
}

/// Whether `down` is multiplied stream by stream: a matter of the weights, not of the window.
fn is_split(shape: &HcShape, w: &HcWeights<'_, Matrix, GpuBuffer>) -> bool {
    let whole = shape.width.is_multiple_of(UNIT) && w.down.n_out <= MOST_RANK;
    whole && w.down.parts.len() == 1 && w.up.parts.len() == 1
}

impl Hc for Gpu {
    fn hc_read(
        &mut self,
        shape: &HcShape,
        w: &HcWeights<'_, Matrix, GpuBuffer>,
        x: &GpuBuffer,
        rows: usize,
        out: HcRead<'_, GpuBuffer>,
    ) {
        self.recorder.submit_much();
        // A lack of memory is kept as a fault.
        let _ = self.read_streams(shape, w, (x, rows), &out);
    }

    fn hc_inject(
        &mut self,
        shape: &HcShape,
        weights: &GpuBuffer,
        y: &GpuBuffer,
        rows: usize,
        x: &mut GpuBuffer,
    ) {
        let HcShape { streams, width, .. } = *shape;
        let len = rows * streams * width;
        assert!(x.len() >= len && y.len() >= rows * width, "{rows} rows of {width} values");
        assert!(weights.len() >= rows * streams, "weights of {rows} rows");
        x.touch();
        let (streams, x_held) = (streams as u32, Held::new(x));
        let (gains, y_held) = (Held::new(weights), Held::new(y));
        let injection = Injection { streams, rows, width, gains, y: y_held, x: x_held };
        if self.recorder.inject(&injection) {
            return;
        }
        let kernel = HcKernel { step: HcStep::Inject, streams, inject: true, split: true };
        let grid = spread(len.div_ceil(THREADS));
        let params = HcParams {
            rows: rows as u32,
            width: width as u32,
            grid: grid[0],
            ..bytemuck::Zeroable::zeroed()
        };
        let buffers = [x.all(), weights.all(), y.all()];
        let kernel = Kernel::Hc(kernel);
        self.recorder.dispatch(&Call { kernel, buffers: &buffers, constants: None, grid }, &params);
    }
}

impl Gpu {
    fn read_streams(
        &mut self,
        shape: &HcShape,
        w: &HcWeights<'_, Matrix, GpuBuffer>,
        (x, rows): (&GpuBuffer, usize),
        out: &HcRead<'_, GpuBuffer>,
    ) -> Option<()> {
        let HcShape { streams, width, eps } = *shape;
        let (wide, rank) = (streams * width, w.down.n_out);
        assert!(x.len() >= rows * wide && out.u.len() >= rows * width, "{rows} rows of {wide}");
        assert_eq!((w.down.n_in, w.up.n_in, w.up.n_out), (wide, rank, wide), "{}", w.down.name);
        assert!(w.norm.len() >= wide, "a norm of {wide} values");
        if let Some(inject) = w.inject {
            assert_eq!((inject.n_in, inject.n_out), (wide, streams), "{}", inject.name);
            assert!(out.weights.len() >= rows * streams, "weights of {rows} rows");
        }
        let split = is_split(shape, w);
        let side_at = rows * rank * if split { streams } else { 1 };
        let part = self.scratch(Scratch::HcPart, side_at + rows * streams * (1 + streams))?;
        let decoded = match w.inject {
            Some(inject) => Some(self.decoded(inject)?),
            None => None,
        };
        let params = HcParams {
            rows: rows as u32,
            width: width as u32,
            rank: rank as u32,
            units: (width / UNIT) as u32,
            side_at: side_at as u32,
            eps,
            by_width: 1.0 / width as f32,
            ..bytemuck::Zeroable::zeroed()
        };
        let inject = decoded.as_ref().map_or(w.norm.all(), |values| values.all());
        let (u, weights) = (&*out.u, &*out.weights);
        let read = Read { shape: *shape, w, x, rows, u, weights, inject, part, params, split };
        match Width::of_rows(rows) {
            _ if !split => self.read_plainly(&read),
            Width::Few(_) => self.read_few(&read),
            Width::Many(_) => self.read_many(&read),
        }
    }

    fn read_few(&mut self, read: &Read<'_>) -> Option<()> {
        let Read { shape, w, x, rows, part, params, inject, .. } = read;
        let (weight, format) = (&w.down.parts[0], w.down.format);
        let (tokens, units) = ((*rows).clamp(1, MOST_TOKENS), shape.width / UNIT);
        let stage = down_stage(units, tokens, self.recorder.workgroup_memory());
        let (tokens_u32, units) = (tokens as u32, units as u32);
        let kernel = read.kernel(HcStep::Down { format, tokens: tokens_u32, units, stage });
        let blocks = w.down.n_out.div_ceil(DOWN_ROWS) + tokens;
        let grid = [blocks as u32, shape.streams as u32, rows.div_ceil(tokens) as u32];
        let (w_all, norm) = (weight.buffer.all(), w.norm.all());
        let book = self.book_of(w.down)?;
        let mut buffers = vec![part.all(), w_all, w_all, x.all(), norm, *inject];
        buffers.extend(book.iter().map(|book| book.all()));
        let call = Call { kernel, buffers: &buffers, constants: None, grid };
        self.recorder.dispatch(&call, &with_planes(*params, weight));
        self.up_few(read)
    }

    fn up_few(&mut self, read: &Read<'_>) -> Option<()> {
        let Read { shape, w, x, rows, part, params, u, .. } = read;
        let HcShape { streams, width, .. } = *shape;
        let (weight, format, units) = (&w.up.parts[0], w.up.format, w.up.units());
        let tokens = up_tokens(*rows, units, streams).max(1);
        let columns = up_columns(streams, up_lanes(units));
        let book = self.book_of(w.up)?;
        // With a table there may be too many buffers.
        let whole = columns.is_multiple_of(UNIT) && book.is_none();
        let left = if whole { self.codes_for(u, rows * width, width) } else { None };
        let (rank, codes) = (params.rank, left.is_some());
        let kernel = read.kernel(HcStep::Up { format, tokens: tokens as u32, rank, codes });
        let blocks = width.div_ceil(columns) + usize::from(w.inject.is_some());
        let grid = [blocks as u32, 1, rows.div_ceil(tokens) as u32];
        let w_all = weight.buffer.all();
        let (u_all, weights) = (u.all(), read.weights.all());
        let mut buffers = vec![u_all, weights, w_all, w_all, part.all(), x.all(), w.norm.all()];
        buffers.extend(book.iter().map(|book| book.all()));
        buffers.extend(left.iter().flatten().map(|codes| codes.all()));
        let call = Call { kernel, buffers: &buffers, constants: None, grid };
        self.recorder.dispatch(&call, &with_planes(*params, weight));
        if codes {
            self.note_codes(u, rows * width);
        }
        Some(())
    }

    fn read_many(&mut self, read: &Read<'_>) -> Option<()> {
        let Read { shape, w, rows, .. } = read;
        self.side(read);
        self.down_many(read)?;
        let units = w.up.units();
        let low = self.low(read, units * UNIT)?;
        let gates = self.scratch(Scratch::HcGates, rows * shape.streams * shape.width)?;
        // The lanes of the kernel for few rows.
        let tile = Tile { lanes: up_lanes(units), rows: 1, subgroups: 4, splits: 1 };
        let forced = self.forced_tile.replace(tile);
        let low = Ready { inputs: Inputs::Float(Held::new(&low)) };
        self.product(w.up, &low, *rows, &gates);
        self.forced_tile = forced;
        self.mix(read, &gates);
        Some(())
    }

    fn read_plainly(&mut self, read: &Read<'_>) -> Option<()> {
        let Read { w, x, rows, part, .. } = read;
        self.side(read);
        let normed = self.scratch(Scratch::HcNormed, rows * read.wide())?;
        let buffers = [normed.all(), part.all(), x.all(), w.norm.all()];
        self.by_values(read, (HcStep::Norm, read.params), &buffers, rows * read.wide());
        let n = self.ready(w.down, &normed, *rows)?;
        self.product(w.down, &n, *rows, part);
        let low = self.low(read, w.up.n_in)?;
        let gates = self.scratch(Scratch::HcGates, rows * read.wide())?;
        let low = self.ready(w.up, &low, *rows)?;
        self.product(w.up, &low, *rows, &gates);
        self.mix(read, &gates);
        Some(())
    }

    fn side(&mut self, read: &Read<'_>) {
        let buffers = [read.part.all(), read.x.all(), read.w.norm.all(), read.inject];
        let kernel = read.kernel(HcStep::Side);
        let mut params = read.params;
        for first in (0..read.rows).step_by(MAX_GRID as usize) {
            params.first_row = first as u32;
            let rows = (read.rows - first).min(MAX_GRID as usize) as u32;
            let grid = [rows, read.shape.streams as u32, 1];
            let call = Call { kernel, buffers: &buffers, constants: None, grid };
            self.recorder.dispatch(&call, &params);
        }
    }

    fn down_many(&mut self, read: &Read<'_>) -> Option<()> {
        let Read { shape, w, x, rows, part, params, inject, .. } = read;
        let weight = &w.down.parts[0];
        let book = self.book_of(w.down)?;
        let w_all = weight.buffer.all();
        let mut buffers = vec![part.all(), w_all, w_all, x.all(), w.norm.all(), *inject];
        buffers.extend(book.iter().map(|book| book.all()));
        let columns = w.down.n_out.div_ceil(DOWN_MANY) as u32;
        let grid = [columns, shape.streams as u32, rows.div_ceil(DOWN_MANY) as u32];
        let kernel = read.kernel(HcStep::DownMany(w.down.format));
        let call = Call { kernel, buffers: &buffers, constants: None, grid };
        self.recorder.dispatch(&call, &with_planes(*params, weight));
        Some(())
    }

    /// Low values in rows of `pitch`.
    fn low(&mut self, read: &Read<'_>, pitch: usize) -> Option<Arc<GpuBuffer>> {
        let low = self.scratch(Scratch::HcLow, read.rows * pitch)?;
        let params = HcParams { pitch: pitch as u32, ..read.params };
        let buffers = [low.all(), read.part.all()];
        self.by_values(read, (HcStep::Low, params), &buffers, read.rows * pitch);
        Some(low)
    }

    fn mix(&mut self, read: &Read<'_>, gates: &GpuBuffer) {
        let Read { shape, w, x, part, u, weights, .. } = read;
        let norm = w.norm.all();
        let buffers = [u.all(), weights.all(), part.all(), gates.all(), x.all(), norm];
        let count = read.rows * shape.width.max(shape.streams);
        self.by_values(read, (HcStep::Mix, read.params), &buffers, count);
    }

    fn by_values(
        &mut self,
        read: &Read<'_>,
        (step, mut params): (HcStep, HcParams),
        buffers: &[Slice<'_>],
        count: usize,
    ) {
        let grid = spread(count.div_ceil(THREADS));
        params.grid = grid[0];
        let kernel = read.kernel(step);
        self.recorder.dispatch(&Call { kernel, buffers, constants: None, grid }, &params);
    }

    /// The table of a matrix's format, if it has one; `None` if memory is short.
    fn book_of(&mut self, matrix: &Matrix) -> Option<Option<Arc<GpuBuffer>>> {
        match matrix.format.layout().book {
            Book::None => Some(None),
            book => self.book(book).map(Some),
        }
    }

    /// A small matrix as f32, made when first asked for and kept with it.
    fn decoded(&mut self, matrix: &Matrix) -> Option<Arc<GpuBuffer>> {
        let faults = self.recorder.faults.reported();
        let kept = || matrix.decoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(decoded) = kept().as_ref().filter(|decoded| decoded.faults == faults) {
            return Some(decoded.values.clone());
        }
        let len = matrix.n_in * matrix.n_out;
        let values = Arc::new(self.kept_alloc(len, "decoded small weights")?);
        let rows: Vec<u32> = (0..matrix.n_out as u32).collect();
        self.decode_rows(matrix, &rows, 1, &values);
        // What went wrong is reported, and then they are made anew.
        *kept() = Some(Decoded { values: values.clone(), faults });
        Some(values)
    }
}

fn with_planes(params: HcParams, part: &Part) -> HcParams {
    let [a, b, c, d, e] = part.planes.places;
    HcParams { a, b, c, d, e, stride: part.planes.stride, ..params }
}
