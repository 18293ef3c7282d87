//! Family `mtp`: one kernel, a workgroup for each half of a row.

use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use crate::kernel::Kernel;
use crate::params::params;
use crate::recorder::{Call, spread};
use crate::shader::{Shader, read, write};
use kernels::mtp::{MtpNorms, NormExtent};
use kernels::{HcShape, Mtp};

const THREADS: u32 = 256;

params! {
    /// What the kernel of the drafting block's input is told.
    MtpParams {
        /// Width of a stream.
        width: u32,
        /// Streams of a row.
        streams: u32,
        /// Rows times streams times 2.
        halves: u32,
        /// Whether the norm is taken over all streams together.
        whole: u32,
        /// Epsilon of the norm.
        eps: f32,
        /// Workgroups along the first axis of the grid.
        grid: u32,
    }
}

/// The shader of the input.
pub(crate) fn mtp_input_shader() -> Shader {
    let bindings = vec![
        write("out", "f32"),
        read("e", "f32"),
        read("x", "f32"),
        read("e_norm", "f32"),
        read("x_norm", "f32"),
    ];
    let sources = [include_str!("../shaders/mtp_input.wgsl")];
    Shader::new::<MtpParams>("mtp_input", &[("THREADS", THREADS)], bindings, &sources)
}

impl Mtp for Gpu {
    fn mtp_input(
        &mut self,
        shape: &HcShape,
        norms: &MtpNorms<'_, GpuBuffer>,
        (e, x): (&GpuBuffer, &GpuBuffer),
        rows: usize,
        out: &mut GpuBuffer,
    ) {
        let HcShape { streams, width, eps } = *shape;
        assert!(e.len() >= rows * width, "{rows} embeddings of {width}");
        assert!(x.len() >= rows * streams * width, "{rows} rows of {streams} streams");
        assert!(out.len() >= rows * streams * 2 * width, "no room for {rows} rows");
        let (e_norm, x_norm) = (norms.embedding, norms.streams);
        assert!(e_norm.len() >= width && x_norm.len() >= streams * width, "short norms");
        let halves = rows * streams * 2;
        let grid = spread(halves);
        let params = MtpParams {
            width: width as u32,
            streams: streams as u32,
            halves: halves as u32,
            whole: u32::from(norms.extent == NormExtent::Whole),
            eps,
            grid: grid[0],
        };
        let buffers = [out.all(), e.all(), x.all(), e_norm.all(), x_norm.all()];
        let call = Call { kernel: Kernel::MtpInput, buffers: &buffers, constants: None, grid };
        self.recorder.dispatch(&call, &params);
    }
}
