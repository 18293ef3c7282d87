//! Family `gemv`.

use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use crate::matrix::Matrix;
use kernels::Gemv;

impl Gemv for Gpu {
    fn matmul(&mut self, w: &Matrix, x: &GpuBuffer, rows: usize, y: &mut GpuBuffer) {
        assert_eq!(w.experts, 1, "{} is an expert stack", w.name);
        if let Some(x) = self.ready(w, x, rows) {
            self.product(w, &x, rows, y);
        }
    }
}
