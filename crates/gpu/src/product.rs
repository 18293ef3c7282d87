//! The product of a matrix with rows of activations: one kernel template for matrices and experts,
//! with f32 or 8-bit activations.

#[cfg(test)]
mod tests;

use crate::buffer::{GpuBuffer, Slice};
use crate::device::Gpu;
use crate::elementwise::Elementwise;
use crate::formats::{Book, Format, UNIT, Values};
use crate::kernel::Kernel;
use crate::matrix::{Matrix, Part};
use crate::params::params;
use crate::recorder::{Call, MAX_GRID, spread};
use crate::scratch::Scratch;
use crate::shader::{Shader, read, write};
use crate::tile::{Tile, UNROLL, Width};
use kernels::Activations;
use std::sync::Arc;

params! {
    /// What a product is told; planes and rows are those of a part of the weight.
    ProductParams {
        /// Units of a weight row.
        units: u32,
        /// Weight rows, of one expert.
        weight_rows: u32,
        /// Rows of activations, where all are multiplied by one matrix.
        tokens: u32,
        /// Values of an output row.
        y_width: u32,
        /// First output value of these weight rows.
        y_first: u32,
        /// Workgroups along the first axis of the grid.
        grid: u32,
        /// First tile of this call.
        first_tile: u32,
        /// First expert.
        first_expert: u32,
        /// Experts.
        part_experts: u32,
        /// Pairs that share a row of activations.
        pairs_per_x: u32,
        /// Planes, in words.
        a: u32,
        /// Second plane.
        b: u32,
        /// Third plane.
        c: u32,
        /// Fourth plane.
        d: u32,
        /// Fifth plane.
        e: u32,
        /// From one code plane to the next.
        stride: u32,
    }
}

/// A product kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Product {
    pub(crate) format: Format,
    pub(crate) activations: Path,
    pub(crate) rows: RowsOf,
    pub(crate) tile: Tile,
    pub(crate) width: Width,
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
        let layout = self.format.layout();
        let halves = matches!(layout.values, Values::ScaledHalves | Values::AffineHalves);
        let affine = matches!(layout.values, Values::Affine | Values::AffineHalves);
        let mut constants = self.constants();
        constants.extend([("HALVES", u32::from(halves)), ("AFFINE", u32::from(affine))]);
        let mut bindings = vec![read("w", "u32"), read("w4", "vec4<u32>"), write("y", "f32")];
        let mut sources = layout.source.to_vec();
        let path = match self.activations {
            Path::Int8 => {
                bindings.extend([read("codes", "vec4<u32>"), read("scales", "vec2<u32>")]);
                sources.push(include_str!("../shaders/add_int8.wgsl"));
                "int8"
            }
            Path::Float => {
                bindings.push(read("x", "vec4<f32>"));
                sources.push(if layout.values.has_codes() {
                    include_str!("../shaders/add_coded.wgsl")
                } else {
                    include_str!("../shaders/add_float.wgsl")
                });
                "f32"
            }
        };
        let few = matches!(self.width, Width::Few(_));
        match (layout.book, few) {
            (Book::None, true) => sources.push(include_str!("../shaders/no_book.wgsl")),
            (Book::None, false) => {}
            // Many lookups: the table comes to workgroup memory first.
            (book, true) => {
                constants.push(("BOOK", book.words().len() as u32));
                bindings.push(read("book_source", "u32"));
                sources.push(include_str!("../shaders/book.wgsl"));
            }
            (_, false) => bindings.push(read("book", "u32")),
        }
        let rows = match self.rows {
            RowsOf::Window => {
                sources.push(include_str!("../shaders/product_rows.wgsl"));
                "matrix"
            }
            RowsOf::Experts => {
                bindings.extend([read("tiles", "vec4<u32>"), read("order", "u32")]);
                sources.push(include_str!("../shaders/product_experts.wgsl"));
                "experts"
            }
        };
        let kernel = match self.width {
            Width::Few(_) => {
                sources.push(include_str!("../shaders/product.wgsl"));
                "few"
            }
            Width::Many(_) => {
                sources.push(include_str!("../shaders/product_many.wgsl"));
                "many"
            }
        };
        let family = format!("{rows} {} {path} {kernel}", self.format.name());
        Shader::new::<ProductParams>(&family, &constants, bindings, &sources)
    }

    fn constants(self) -> Vec<(&'static str, u32)> {
        let Tile { lanes, rows, subgroups, splits } = self.tile;
        let tokens = ("T", self.width.tokens());
        match self.width {
            Width::Few(_) => {
                let shape = [("L", lanes), ("R", rows), ("S", subgroups), ("K", splits)];
                shape.into_iter().chain([tokens, ("U", UNROLL)]).collect()
            }
            Width::Many(_) => {
                let (rows, of_thread) = self.width.of_thread();
                vec![("LANES", self.tile.all_lanes()), ("RT", rows), ("TT", of_thread), tokens]
            }
        }
    }
}

/// Activations as a product reads them.
#[derive(Clone, Debug)]
pub(crate) enum Ready<'a> {
    Float(&'a GpuBuffer),
    Padded(Arc<GpuBuffer>),
    Int8 { codes: Arc<GpuBuffer>, scales: Arc<GpuBuffer> },
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
}

impl Gpu {
    /// Brings `rows` rows of activations to the form that a product with `matrix` reads; `None` if
    /// memory is short, which is kept as a fault.
    pub(crate) fn ready<'a>(
        &mut self,
        matrix: &Matrix,
        x: &'a GpuBuffer,
        rows: usize,
    ) -> Option<Ready<'a>> {
        let n_in = matrix.n_in;
        assert!(x.len() >= rows * n_in, "{rows} rows of {n_in} in {} values", x.len());
        let units = matrix.units();
        match self.path(matrix) {
            Path::Int8 => {
                let codes = self.scratch(Scratch::Codes, rows * units * 8)?;
                let scales = self.scratch(Scratch::Scales, rows * units * 2)?;
                let buffers = [codes.all(), scales.all(), x.all()];
                self.elementwise(Elementwise::Quantise, &buffers, None, (1, rows * units, 0));
                Some(Ready::Int8 { codes, scales })
            }
            Path::Float if n_in.is_multiple_of(UNIT) => Some(Ready::Float(x)),
            Path::Float => {
                let padded = self.scratch(Scratch::Padded, rows * units * UNIT)?;
                let shape = (rows, units * UNIT, n_in);
                self.elementwise(Elementwise::Pad, &[padded.all(), x.all()], None, shape);
                Some(Ready::Padded(padded))
            }
        }
    }

    /// What products with `matrix` read.
    pub(crate) fn path(&self, matrix: &Matrix) -> Path {
        let int8 = matrix.activations == Activations::Int8 && self.activations == Activations::Int8;
        let codes = matrix.format.layout().values.has_codes();
        if int8 && codes { Path::Int8 } else { Path::Float }
    }

    /// `y[row] = matrix x[row]`; `y` rows have `n_out` values.
    pub(crate) fn product(&mut self, matrix: &Matrix, x: &Ready<'_>, rows: usize, y: &GpuBuffer) {
        assert!(y.len() >= rows * matrix.n_out, "{rows} rows of {} results", matrix.n_out);
        for part in &matrix.parts {
            let width = Width::of_rows(rows);
            let params = ProductParams {
                weight_rows: part.rows as u32,
                y_first: part.first_row as u32,
                tokens: rows as u32,
                ..self.params(matrix, part)
            };
            let tiles = rows.div_ceil(width.tokens() as usize);
            self.dispatch_product(matrix, (x, None, width), (part, y), params, tiles);
        }
    }

    /// The same for each pair of a plan with its expert's matrix; results at the pair's place.
    pub(crate) fn expert_product(
        &mut self,
        matrix: &Matrix,
        x: &Ready<'_>,
        pairs: Pairs<'_>,
        y: &GpuBuffer,
    ) {
        for part in &matrix.parts {
            let params = ProductParams {
                weight_rows: matrix.n_out as u32,
                first_expert: (part.first_row / matrix.n_out) as u32,
                part_experts: (part.rows / matrix.n_out) as u32,
                pairs_per_x: pairs.pairs_per_x as u32,
                ..self.params(matrix, part)
            };
            let input = (x, Some(pairs), pairs.width);
            self.dispatch_product(matrix, input, (part, y), params, pairs.tile_count);
        }
    }

    fn params(&self, matrix: &Matrix, part: &Part) -> ProductParams {
        let [a, b, c, d, e] = part.planes.places;
        ProductParams {
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

    fn dispatch_product(
        &mut self,
        matrix: &Matrix,
        (x, pairs, width): (&Ready<'_>, Option<Pairs<'_>>, Width),
        (part, y): (&Part, &GpuBuffer),
        mut params: ProductParams,
        tiles: usize,
    ) {
        let format = matrix.format;
        let book = match format.layout().book {
            Book::None => None,
            book => match self.book(book) {
                Some(words) => Some(words),
                None => return,
            },
        };
        let mut buffers: Vec<Slice<'_>> = vec![part.buffer.all(), part.buffer.all(), y.all()];
        let activations = match x {
            Ready::Float(x) => {
                buffers.push(x.all());
                Path::Float
            }
            Ready::Padded(x) => {
                buffers.push(x.all());
                Path::Float
            }
            Ready::Int8 { codes, scales } => {
                buffers.extend([codes.all(), scales.all()]);
                Path::Int8
            }
        };
        buffers.extend(book.iter().map(|words| words.all()));
        let rows = match &pairs {
            None => RowsOf::Window,
            Some(pairs) => {
                buffers.extend([pairs.tiles.all(), pairs.order.all()]);
                RowsOf::Experts
            }
        };
        let built_in = || Tile::built_in(matrix.units(), matrix.n_out);
        let tile = self.forced_tile.unwrap_or_else(built_in);
        let product = Product { format, activations, rows, tile, width };
        let count = (params.weight_rows as usize).div_ceil(width.weight_rows(tile));
        let [columns, lines, _] = spread(count);
        params.grid = columns;
        let kernel = Kernel::Product(product);
        for first in (0..tiles).step_by(MAX_GRID as usize) {
            params.first_tile = first as u32;
            let grid = [columns, lines, (tiles - first).min(MAX_GRID as usize) as u32];
            let call = Call { kernel, buffers: &buffers, constants: None, grid };
            self.recorder.dispatch(&call, &params);
        }
    }
}
