//! Kernels that work value by value.

use crate::buffer::Slice;
use crate::device::Gpu;
use crate::kernel::Kernel;
use crate::params::params;
use crate::recorder::{Call, spread};
use crate::shader::{Binding, Shader, read, write};

/// Threads of a workgroup.
const THREADS: usize = 256;

params! {
    /// What an elementwise kernel is told.
    ElementwiseParams {
        /// Values of a row of the output.
        width: u32,
        /// Rows of the output.
        rows: u32,
        /// A third size, where the kernel has one.
        first: u32,
        /// Workgroups along the first axis of the grid.
        grid: u32,
    }
}

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Elementwise {
    /// `a = silu(a) * b`.
    Swiglu,
    /// `out = silu(x) * up`.
    SwigluPair,
    /// `out[row] = silu(x[row][..width]) * x[row][width..]`.
    SwigluRows,
    /// The three of them in vectors of four, with the result in 8 bits as well.
    SwigluCodes,
    /// Likewise.
    SwigluPairCodes,
    /// Likewise.
    SwigluRowsCodes,
    /// `out[first + row] = x[rows[row]]`.
    GatherRows,
    /// `out[rows[row]] = x[row]`.
    ScatterRows,
    /// `out[row] = x[row]`, with zeros up to `width`; `first` is the width of x.
    Pad,
    /// Vectors of x as codes and scales; `width` is their number.
    Quantise,
}

impl Elementwise {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: &[Self] = &[
        Self::Swiglu,
        Self::SwigluPair,
        Self::SwigluRows,
        Self::SwigluCodes,
        Self::SwigluPairCodes,
        Self::SwigluRowsCodes,
        Self::GatherRows,
        Self::ScatterRows,
        Self::Pad,
        Self::Quantise,
    ];

    pub(crate) fn shader(self) -> Shader {
        let (out, x) = (write("out", "f32"), read("x", "f32"));
        let (family, bindings, source) = match self {
            Self::Swiglu => ("swiglu", vec![out, x], include_str!("../shaders/swiglu.wgsl")),
            Self::SwigluPair => (
                "swiglu_pair",
                vec![out, x, read("up", "f32")],
                include_str!("../shaders/swiglu_pair.wgsl"),
            ),
            Self::SwigluRows => {
                ("swiglu_rows", vec![out, x], include_str!("../shaders/swiglu_rows.wgsl"))
            }
            Self::GatherRows => (
                "gather_rows",
                vec![out, x, read("rows", "u32")],
                include_str!("../shaders/gather_rows.wgsl"),
            ),
            Self::ScatterRows => (
                "scatter_rows",
                vec![out, x, read("rows", "u32")],
                include_str!("../shaders/scatter_rows.wgsl"),
            ),
            Self::Pad => ("pad", vec![out, x], include_str!("../shaders/pad.wgsl")),
            Self::Quantise => (
                "quantise",
                vec![write("codes", "u32"), write("scales", "vec2<u32>"), read("x", "vec4<f32>")],
                include_str!("../shaders/quantise.wgsl"),
            ),
            Self::SwigluCodes => (
                "swiglu_codes",
                with_codes(&["x"]),
                include_str!("../shaders/swiglu_from_out.wgsl"),
            ),
            Self::SwigluPairCodes => (
                "swiglu_pair_codes",
                with_codes(&["x", "up"]),
                include_str!("../shaders/swiglu_from_two.wgsl"),
            ),
            Self::SwigluRowsCodes => (
                "swiglu_rows_codes",
                with_codes(&["x"]),
                include_str!("../shaders/swiglu_from_rows.wgsl"),
            ),
        };
        let mut sources = vec![include_str!("../shaders/math.wgsl"), source];
        match self {
            Self::Quantise => sources.push(include_str!("../shaders/codes.wgsl")),
            Self::SwigluCodes | Self::SwigluPairCodes | Self::SwigluRowsCodes => sources.extend([
                include_str!("../shaders/swiglu_codes.wgsl"),
                include_str!("../shaders/codes.wgsl"),
                include_str!("../shaders/swiglu_codes_main.wgsl"),
            ]),
            _ => {}
        }
        let constants = [("THREADS", THREADS as u32)];
        Shader::new::<ElementwiseParams>(family, &constants, bindings, &sources)
    }
}

/// Bindings of a kernel whose result goes to 8 bits as well.
fn with_codes(inputs: &[&'static str]) -> Vec<Binding> {
    let out = [write("out", "vec4<f32>"), write("codes", "u32"), write("scales", "vec2<u32>")];
    out.into_iter().chain(inputs.iter().map(|&name| read(name, "vec4<f32>"))).collect()
}

impl Gpu {
    /// Runs an elementwise kernel over `rows` rows of `width` values; `first` is a third size,
    /// where the kernel has one.
    pub(crate) fn elementwise(
        &mut self,
        kernel: Elementwise,
        buffers: &[Slice<'_>],
        host_rows: Option<&[u32]>,
        (rows, width, first): (usize, usize, usize),
    ) {
        let constants = match host_rows {
            None => None,
            Some(rows) => match self.recorder.constants(rows) {
                Some(place) => Some(place),
                None => return,
            },
        };
        let grid = spread((rows * width).div_ceil(THREADS));
        let params = ElementwiseParams {
            width: width as u32,
            rows: rows as u32,
            first: first as u32,
            grid: grid[0],
        };
        let kernel = Kernel::Elementwise(kernel);
        self.recorder.dispatch(&Call { kernel, buffers, constants, grid }, &params);
    }
}
