//! Weight rows decoded to f32.

use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use crate::formats::{Book, Format, Values};
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::params::params;
use crate::recorder::{Call, spread};
use crate::shader::{Shader, read, write};

const THREADS: usize = 64;

params! {
    /// What decoding is told.
    DecodeParams {
        /// Rows to decode.
        count: u32,
        /// Copies of each.
        copies: u32,
        /// Units of a weight row.
        units: u32,
        /// Values of a weight row.
        n_in: u32,
        /// First row of this part of the weight.
        first_row: u32,
        /// Its rows.
        part_rows: u32,
        /// Workgroups along the first axis of the grid.
        grid: u32,
        /// Zero.
        zero: u32,
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

/// The kernel that decodes rows of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DecodeRows(pub(crate) Format);

impl DecodeRows {
    pub(crate) fn shader(self) -> Shader {
        let layout = self.0.layout();
        let affine = matches!(layout.values, Values::Affine | Values::AffineHalves);
        let constants = [("THREADS", THREADS as u32), ("AFFINE", u32::from(affine))];
        let mut bindings = vec![read("w", "u32"), read("w4", "vec4<u32>"), write("out", "f32")];
        if layout.book != Book::None {
            bindings.push(read("book", "u32"));
        }
        bindings.push(read("rows", "u32"));
        let mut sources = layout.source.to_vec();
        sources.push(if layout.values.has_codes() {
            include_str!("../shaders/values_coded.wgsl")
        } else {
            include_str!("../shaders/values_float.wgsl")
        });
        sources.push(include_str!("../shaders/decode_rows.wgsl"));
        let family = format!("decode_rows {}", self.0.name());
        Shader::new::<DecodeParams>(&family, &constants, bindings, &sources)
    }
}

impl Gpu {
    /// `out[i, copy] = row rows[i] of matrix` (over all experts) for each of some copies.
    ///
    /// # Panics
    /// If the matrix has no such row, or `out` is too small.
    pub(crate) fn decode_rows(
        &mut self,
        matrix: &Matrix,
        rows: &[u32],
        copies: usize,
        out: &GpuBuffer,
    ) {
        assert!(matrix.table.is_none(), "{} is a table", matrix.name);
        assert!(matrix.divided.is_none(), "{} is not all here", matrix.name);
        let all = matrix.n_out * matrix.experts;
        assert!(rows.iter().all(|&row| (row as usize) < all), "a row past the end of {all}");
        assert!(out.len() >= rows.len() * copies * matrix.n_in, "decoded rows past the end");
        let book = match matrix.format.layout().book {
            Book::None => None,
            book => match self.book(book) {
                Some(words) => Some(words),
                None => return,
            },
        };
        for part in &matrix.parts {
            let Some(constants) = self.recorder.constants(rows) else { return };
            let mut buffers = vec![part.buffer.all(), part.buffer.all(), out.all()];
            buffers.extend(book.iter().map(|words| words.all()));
            let grid = spread((rows.len() * matrix.units()).div_ceil(THREADS));
            let [a, b, c, d, e] = part.planes.places;
            let params = DecodeParams {
                count: rows.len() as u32,
                copies: copies as u32,
                units: matrix.units() as u32,
                n_in: matrix.n_in as u32,
                first_row: part.first_row as u32,
                part_rows: part.rows as u32,
                grid: grid[0],
                zero: 0,
                a,
                b,
                c,
                d,
                e,
                stride: part.planes.stride,
            };
            let kernel = Kernel::DecodeRows(DecodeRows(matrix.format));
            let call = Call { kernel, buffers: &buffers, constants: Some(constants), grid };
            self.recorder.dispatch(&call, &params);
        }
    }
}
