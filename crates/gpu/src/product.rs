//! The product of a matrix with rows of activations: one kernel template for matrices and experts,
//! with f32 or 8-bit activations.
//!
//! A call of a kernel costs more than many a product takes, so products of few rows that follow
//! each other and need nothing of each other share a call (`waiting`): each is a *segment* of the
//! kernel, with the text that it would have alone (`text`).

mod convolution;
mod expert_sum;
mod ready;
#[cfg(test)]
mod tests;
mod text;
mod waiting;

pub(crate) use convolution::{Conv, Convolution};
pub(crate) use expert_sum::{Downs, ExpertSum};
pub(crate) use ready::{Inputs, QuantisedRows, Ready};
pub(crate) use waiting::{CallLimits, Products, Waiting};

use crate::buffer::{GpuBuffer, Held};
use crate::device::Gpu;
use crate::formats::{Book, Format, Values};
use crate::matrix::{Matrix, Part};
use crate::shader::Shader;
use crate::tile::{Tile, Width};
use kernels::Activations;
use std::collections::BTreeSet;
use waiting::{Source, Work, kernel_of};

/// Most products that share a call.
pub(crate) const MAX_SEGMENTS: usize = 5;

/// A product kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Product {
    pub(crate) rows: RowsOf,
    pub(crate) width: Width,
    /// The first is there.
    pub(crate) segments: [Option<Segment>; MAX_SEGMENTS],
    /// Residual streams that take the result of the only segment; 0 if it is only stored.
    pub(crate) streams: u32,
    /// What takes up the results of one of several segments.
    pub(crate) conv: Option<Conv>,
}

/// One of the products of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Segment {
    pub(crate) format: Format,
    pub(crate) activations: Path,
    pub(crate) tile: Tile,
}

/// What activations a kernel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Path {
    Float,
    Int8,
}

/// Which rows of activations go with which matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RowsOf {
    /// All with one.
    Window,
    /// Each pair with its expert's.
    Experts,
}

impl Product {
    pub(crate) fn shader(self) -> Shader {
        text::shader(&self)
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().flatten()
    }

    /// Tables of the formats, each once.
    fn books(&self) -> BTreeSet<Book> {
        self.segments().map(|s| s.format.layout().book).filter(|&b| b != Book::None).collect()
    }

    fn family(&self) -> String {
        let rows = match self.rows {
            RowsOf::Window => "matrix",
            RowsOf::Experts => "experts",
        };
        let kernel = match self.width {
            Width::Few(_) => "few",
            Width::Many(_) => "many",
        };
        let subgroups = self.threads() / 32;
        let mut further = String::new();
        if self.streams > 0 {
            further = format!(" STREAMS={}", self.streams);
        } else if let Some(Conv { segment, taps, slot_len }) = self.conv {
            further = format!(" CONV={segment} KERNEL={taps} SLOT={slot_len}");
        }
        format!("{rows} {kernel} T={} S={subgroups}{further}", self.width.tokens())
    }

    /// Threads of a workgroup, which are the same for all segments.
    fn threads(&self) -> u32 {
        match self.width {
            Width::Few(_) => 32 * self.segments().map(|s| s.tile.subgroups).max().unwrap_or(1),
            Width::Many(_) => 128,
        }
    }

    /// Storage buffers, as many as the text declares.
    pub(crate) fn bindings(&self) -> usize {
        let has = |path| self.segments().any(|segment| segment.activations == path);
        let inputs = usize::from(has(Path::Float)) + 2 * usize::from(has(Path::Int8));
        let plan = if self.rows == RowsOf::Experts { 2 } else { 0 };
        let injection = if self.streams > 0 { 2 } else { 0 };
        let conv = if self.conv.is_some() { Convolution::BINDINGS } else { 0 };
        3 * self.segments().count() + inputs + self.books().len() + plan + injection + conv
    }

    /// Bytes of workgroup memory.
    fn workgroup_bytes(&self) -> u32 {
        let sums = self.segments().map(|s| s.tile.rows * self.width.tokens()).max().unwrap_or(1);
        let words: usize = self.books().iter().map(|book| book.len()).sum();
        let tokens = self.width.tokens();
        let convolved = |s: &Segment| self.width.weight_rows(s.tile) as u32 * tokens;
        let conv = self.conv.map_or(0, |_| self.segments().map(convolved).max().unwrap_or(0));
        4 * (self.threads() * sums + words as u32 + conv)
    }
}

/// Pairs of a plan, for a product with experts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pairs<'a> {
    pub(crate) tiles: &'a GpuBuffer,
    pub(crate) order: &'a GpuBuffer,
    /// Tiles that there may be.
    pub(crate) tile_count: usize,
    /// Pairs of a tile, at most, and how they are multiplied.
    pub(crate) width: Width,
    pub(crate) pairs_per_x: usize,
    /// Rows of the window.
    pub(crate) rows: usize,
}

impl Gpu {
    /// What products with `matrix` read.
    pub(crate) fn path(&self, matrix: &Matrix) -> Path {
        let int8 = matrix.activations == Activations::Int8 && self.activations == Activations::Int8;
        let codes = matrix.format.layout().values.has_codes();
        if int8 && codes { Path::Int8 } else { Path::Float }
    }

    /// `y[row] = matrix x[row]`; `y` rows have `n_out` values.
    pub(crate) fn product(&mut self, matrix: &Matrix, x: &Ready, rows: usize, y: &GpuBuffer) {
        assert!(y.len() >= rows * matrix.n_out, "{rows} rows of {} results", matrix.n_out);
        let width = match matrix.format.layout().values {
            Values::Float => Width::of_floats(rows, matrix.n_out),
            _ => Width::of_rows(rows),
        };
        let tiles = rows.div_ceil(width.tokens() as usize);
        for part in &matrix.parts {
            let work = Work {
                weight_rows: part.rows as u32,
                y_first: part.first_row as u32,
                ..self.work(matrix, part)
            };
            let source =
                Source { rows: RowsOf::Window, window_rows: rows, width, tiles, plan: None };
            self.add_product((matrix, part), (x, source), work, y);
        }
    }

    /// The same for each pair of a plan with its expert's matrix; results at the pair's place.
    pub(crate) fn expert_product(
        &mut self,
        matrix: &Matrix,
        x: &Ready,
        pairs: Pairs<'_>,
        y: &GpuBuffer,
    ) {
        for part in &matrix.parts {
            let first = (part.first_row / matrix.n_out) as u32;
            let count = (part.rows / matrix.n_out) as u32;
            assert!(first + count <= 0xffff, "{count} experts");
            let work = Work {
                weight_rows: matrix.n_out as u32,
                experts: first | count << 16,
                pairs_per_x: pairs.pairs_per_x as u32,
                ..self.work(matrix, part)
            };
            let plan = Some([Held::new(pairs.tiles), Held::new(pairs.order)]);
            let (rows, window_rows) = (RowsOf::Experts, pairs.rows);
            let (width, tiles) = (pairs.width, pairs.tile_count);
            let source = Source { rows, window_rows, width, tiles, plan };
            self.add_product((matrix, part), (x, source), work, y);
        }
    }

    fn work(&self, matrix: &Matrix, part: &Part) -> Work {
        let [a, b, c, d, e] = part.planes.places;
        Work {
            units: matrix.units() as u32,
            y_width: matrix.n_out as u32,
            stride: part.planes.stride,
            a,
            b,
            c,
            d,
            e,
            ..bytemuck::Zeroable::zeroed()
        }
    }

    fn add_product(
        &mut self,
        (matrix, part): (&Matrix, &Part),
        (x, source): (&Ready, Source),
        work: Work,
        y: &GpuBuffer,
    ) {
        let format = matrix.format;
        let table = match format.layout().book {
            Book::None => None,
            book => match self.book(book) {
                Some(words) => Some((book, Held::new(&words))),
                None => return,
            },
        };
        let segment = |tile| Segment { format, activations: x.path(), tile };
        let built_in = Tile::built_in(matrix.units(), matrix.n_out, matrix.experts);
        let few = self.forced_few.unwrap_or_else(|| matrix.tiles.get(source.window_rows));
        let chosen = segment(self.forced_tile.unwrap_or_else(|| few.applied(built_in)));
        let segment = if source.fits(chosen) { chosen } else { segment(built_in) };
        let waiting = Waiting {
            segment,
            source,
            weights: Held::new(&part.buffer),
            input: x.inputs.clone(),
            table,
            y: Held::new(y),
            work,
        };
        y.touch();
        self.recorder.add_product(waiting);
    }
}
