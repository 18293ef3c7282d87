//! The sum of a row's experts, which the residual streams may take at once.

use crate::buffer::Held;
use crate::kernel::Kernel;
use crate::open::SharedCall;
use crate::params::params;
use crate::recorder::spread;
use crate::shader::{Shader, read, write};

/// Threads of a workgroup: few, so that one row has many.
const THREADS: usize = 64;

params! {
    /// What the kernel is told.
    CombineParams {
        /// Rows of the window.
        rows: u32,
        /// Values of a row.
        y_width: u32,
        /// Workgroups along the first axis of the grid.
        grid: u32,
    }
}

/// The weighted sum of the chosen experts and of the shared one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Combine {
    /// Experts of a row.
    pub(crate) used: u32,
    /// Residual streams that take the sum; 0 if it is only stored.
    pub(crate) streams: u32,
}

impl Combine {
    pub(crate) fn shader(self) -> Shader {
        let mut bindings = vec![
            write("y", "f32"),
            read("shared_y", "f32"),
            read("part", "f32"),
            read("weights", "f32"),
            read("gate", "f32"),
        ];
        let mut leave = include_str!("../shaders/leave.wgsl");
        if self.streams > 0 {
            bindings.extend([read("gains", "f32"), write("streams", "f32")]);
            leave = include_str!("../shaders/leave_injected.wgsl");
        }
        let constants =
            [("THREADS", THREADS as u32), ("USED", self.used), ("STREAMS", self.streams)];
        let sources =
            [include_str!("../shaders/math.wgsl"), leave, include_str!("../shaders/combine.wgsl")];
        Shader::new::<CombineParams>("combine", &constants, bindings, &sources)
    }

    /// The call for `rows` rows of `width` values; `buffers` as the kernel binds them.
    pub(crate) fn call(self, buffers: Vec<Held>, (rows, width): (usize, usize)) -> SharedCall {
        let grid = spread((rows * width).div_ceil(THREADS));
        let params = vec![rows as u32, width as u32, grid[0]];
        SharedCall { kernel: Kernel::Combine(self), buffers, constants: None, params, grid }
    }
}
