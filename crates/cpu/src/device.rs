//! The CPU as a device: buffers and states in host memory, weights in the mapped file.

use crate::Isa;
use crate::pool::Pool;
use crate::simd::{Decode, Kernels};
use kernels::host::{GdnState, Plan, PleState, QsaState, Selection};
use kernels::{Device, Error, GdnShape, PleShape, QsaShape, Weight};

/// How the CPU is used.
#[derive(Clone, Copy, Debug)]
pub struct CpuOptions {
    /// Threads, the caller's included; 0 means one per available processor.
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
    pub(crate) angles: Vec<(f32, f32)>,
}

/// The first `len` values of a work vector, which grows as needed and is not cleared.
pub(crate) fn room(work: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if work.len() < len {
        work.resize(len, 0.0);
    }
    &mut work[..len]
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
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
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
    type Buffer = Vec<f32>;
    type Matrix = CpuMatrix;
    type Vector = Vec<f32>;
    type Plan = Plan;
    type Selection = Selection;
    type GdnState = GdnState;
    type QsaState = QsaState;
    type PleState = PleState;

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn alloc(&mut self, len: usize) -> Result<Vec<f32>, Error> {
        kernels::host::zeroed(len, "activations")
    }

    fn upload(&mut self, values: &[f32], buffer: &mut Vec<f32>) {
        buffer[..values.len()].copy_from_slice(values);
    }

    fn download(&mut self, buffer: &Vec<f32>, out: &mut [f32]) -> Result<(), Error> {
        out.copy_from_slice(&buffer[..out.len()]);
        Ok(())
    }

    fn load_matrix(&mut self, weight: &Weight) -> Result<CpuMatrix, Error> {
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
        self.load_matrix(weight).map(|matrix| matrix.weight.decode())
    }

    fn new_plan(&mut self) -> Plan {
        Plan::default()
    }

    fn new_selection(&mut self) -> Selection {
        Selection::default()
    }

    fn new_gdn_state(&mut self, shape: &GdnShape, slots: usize) -> Result<GdnState, Error> {
        GdnState::new(shape, slots)
    }

    fn new_qsa_state(
        &mut self,
        _shape: &QsaShape,
        slots: usize,
        context: usize,
    ) -> Result<QsaState, Error> {
        Ok(QsaState::new(slots, context))
    }

    fn new_ple_state(&mut self, shape: &PleShape, slots: usize) -> Result<PleState, Error> {
        PleState::new(shape, slots)
    }

    fn reset_gdn(&mut self, state: &mut GdnState, slot: usize) {
        state.reset(slot);
    }

    fn reserve_qsa(
        &mut self,
        shape: &QsaShape,
        state: &mut QsaState,
        slot: usize,
        len: usize,
    ) -> Result<(), Error> {
        state.reserve(shape, slot, len)
    }

    fn reset_qsa(&mut self, state: &mut QsaState, slot: usize) {
        state.reset(slot);
    }

    fn reset_ple(&mut self, state: &mut PleState, slot: usize) {
        state.reset(slot);
    }
}
