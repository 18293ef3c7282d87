//! The CPU as a device: buffers and states in host memory, weights in the mapped file.

use crate::Isa;
use crate::ops::angles::Angles;
use crate::pool::Pool;
use crate::simd::{Decode, Kernels};
use kernels::{Activations, Device, Error, Weight};

/// How the CPU is used.
#[derive(Clone, Copy, Debug)]
pub struct CpuOptions {
    /// Threads, the caller's included; 0 means one per physical core.
    pub threads: usize,
    /// Instruction set; falls back to what the processor has.
    pub isa: Isa,
}

impl Default for CpuOptions {
    fn default() -> Self {
        Self { threads: 0, isa: Isa::detect() }
    }
}

/// The CPU backend.
#[derive(Debug)]
pub struct Cpu {
    pub(crate) pool: Pool,
    pub(crate) simd: Kernels,
    pub(crate) work: Work,
}

/// Intermediate values inside one operation, kept between calls.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) a: Vec<f32>,
    pub(crate) b: Vec<f32>,
    pub(crate) c: Vec<f32>,
    /// Rotations of attention heads and of index heads.
    pub(crate) angles: Angles,
    pub(crate) index_angles: Angles,
}

/// The first `len` values of a work vector, which grows as needed and is not cleared.
pub(crate) fn room(work: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if work.len() < len {
        work.resize(len, 0.0);
    }
    &mut work[..len]
}

/// As [`room`], beginning at a cache line, where vectors do not straddle two.
pub(crate) fn aligned_room(work: &mut Vec<f32>, len: usize) -> &mut [f32] {
    const LINE: usize = 64;
    const SPARE: usize = LINE / size_of::<f32>() - 1;
    let work = room(work, len + SPARE);
    let skip = work.as_ptr().align_offset(LINE).min(SPARE);
    &mut work[skip..skip + len]
}

/// A matrix or expert stack in its file's bytes, with the decoder of its format.
#[derive(Clone, Debug)]
pub struct CpuMatrix {
    pub(crate) weight: Weight,
    pub(crate) decoder: Decode,
}

impl Cpu {
    /// Starts the threads.
    pub fn new(options: CpuOptions) -> Self {
        let threads = match options.threads {
            0 => crate::cores::physical(),
            n => n,
        };
        Self { pool: Pool::new(threads), simd: Kernels::new(options.isa), work: Work::default() }
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.simd.isa()
    }

    /// Threads in use, the caller's included.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }
}

impl Device for Cpu {
    type Matrix = CpuMatrix;

    kernels::host_memory!();

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn load_matrix(&mut self, weight: &Weight, _: Activations) -> Result<CpuMatrix, Error> {
        match self.simd.decoder(weight.ty()) {
            Some(decoder) => Ok(CpuMatrix { weight: weight.clone(), decoder }),
            None => Err(Error::UnsupportedFormat {
                name: weight.name().to_owned(),
                ty: weight.ty(),
                device: "cpu",
            }),
        }
    }

    fn load_vector(&mut self, weight: &Weight) -> Result<Vec<f32>, Error> {
        self.load_matrix(weight, Activations::F32).map(|matrix| matrix.weight.decode())
    }
}
