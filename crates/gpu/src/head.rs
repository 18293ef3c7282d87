//! Family `head`.

use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use crate::elementwise::Elementwise;
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::params::params;
use crate::recorder::Call;
use crate::scratch::Scratch;
use crate::shader::{Shader, read, write};
use kernels::head::Best;
use kernels::{Error, Head};

const THREADS: u32 = 256;

params! {
    /// What the choice of the best token is told.
    ArgmaxParams {
        /// Values of a row.
        width: u32,
    }
}

/// The shader of the best token.
pub(crate) fn argmax_shader() -> Shader {
    let bindings = vec![write("out", "u32"), read("x", "u32")];
    let sources = [include_str!("../shaders/order.wgsl"), include_str!("../shaders/argmax.wgsl")];
    Shader::new::<ArgmaxParams>("argmax", &[("THREADS", THREADS)], bindings, &sources)
}

impl Head for Gpu {
    fn embed(&mut self, table: &Matrix, tokens: &[u32], streams: usize, x: &mut GpuBuffer) {
        self.recorder.begin_window();
        self.decode_rows(table, tokens, streams, x);
    }

    fn gather_rows(
        &mut self,
        x: &GpuBuffer,
        rows: &[usize],
        width: usize,
        (out, first): (&mut GpuBuffer, usize),
    ) {
        assert!(rows.iter().all(|row| (row + 1) * width <= x.len()), "a row past the end");
        assert!((first + rows.len()) * width <= out.len(), "no room for {} rows", rows.len());
        let words: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
        let buffers = [out.all(), x.all()];
        let shape = (rows.len(), width, first);
        self.elementwise(Elementwise::GatherRows, &buffers, Some(&words), shape);
    }

    fn best(
        &mut self,
        logits: &GpuBuffer,
        rows: usize,
        width: usize,
    ) -> Result<Vec<Option<Best>>, Error> {
        self.best_of_rows(logits, rows, width)
    }

    /// A fault of the device gives `None` for every row, and is reported by the next download.
    fn argmax(&mut self, logits: &GpuBuffer, rows: usize, width: usize) -> Vec<Option<u32>> {
        assert!(logits.len() >= rows * width, "{rows} rows of {width} logits");
        let mut found = vec![u32::MAX; rows];
        let Some(indices) = self.scratch(Scratch::Indices, rows) else { return vec![None; rows] };
        let grid = [rows as u32, u32::from(width > 0), 1];
        let buffers = [indices.all(), logits.all()];
        let call = Call { kernel: Kernel::Argmax, buffers: &buffers, constants: None, grid };
        self.recorder.dispatch(&call, &ArgmaxParams { width: width as u32 });
        if let Err(error) = self.recorder.download(&indices, &mut found) {
            self.recorder.faults.add(error);
            return vec![None; rows];
        }
        found.into_iter().map(|index| (index != u32::MAX).then_some(index)).collect()
    }
}
