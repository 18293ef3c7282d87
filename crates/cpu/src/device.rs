//! The CPU as a device: buffers and states in host memory, weights in the mapped file.

use crate::Isa;
use crate::int8::{ActBlock, Int8Kernels, Product};
use crate::interleaved::{Copies, Interleave, Interleaved};
use crate::ops::angles::Angles;
use crate::pool::Pool;
use crate::simd::{Decode, Kernels};
use crate::tiles::{CpuTile, MatrixTiles};
use gguf::TensorType;
use kernels::stored::TakenExpert;
use kernels::tiles::TileTable;
use kernels::{Activations, Device, Error, Weight};
use std::sync::Arc;

/// How the CPU is used.
#[derive(Clone, Copy, Debug)]
pub struct CpuOptions {
    /// Threads, the caller's included; 0 means one per physical core.
    pub threads: usize,
    /// Instruction set; falls back to the widest that the processor has.
    pub isa: Isa,
    /// The least precision of activations, also where a matrix would allow less.
    pub activations: Activations,
    /// Which weights are kept a second time, in the order in which they are read.
    pub interleave: Interleave,
}

impl Default for CpuOptions {
    fn default() -> Self {
        Self {
            threads: 0,
            isa: Isa::detect(),
            activations: Activations::Int8,
            interleave: Interleave::Nothing,
        }
    }
}

/// The CPU backend.
#[derive(Debug)]
pub struct Cpu {
    pub(crate) pool: Pool,
    pub(crate) simd: Kernels,
    pub(crate) int8: Int8Kernels,
    pub(crate) work: Work,
    /// Tiles that were found to be better than those built in.
    pub(crate) tiles: TileTable,
    /// The tile of every product, while they are compared.
    pub(crate) forced: Option<CpuTile>,
    /// The first fault since somebody asked.
    pub(crate) fault: Option<Error>,
    isa: Isa,
    activations: Activations,
    pub(crate) copies: Copies,
}

/// Intermediate values inside one operation, kept between calls.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) a: Vec<f32>,
    pub(crate) b: Vec<f32>,
    pub(crate) c: Vec<f32>,
    /// Quantised activations of the running product.
    pub(crate) acts: Vec<ActBlock>,
    /// Those of an expert's second product, while the first's are still wanted.
    pub(crate) hidden_acts: Vec<ActBlock>,
    /// Pairs of the experts at hand.
    pub(crate) pairs: Vec<u32>,
    /// Experts that were taken from a store.
    pub(crate) taken: Vec<TakenExpert>,
    /// 0, 1, 2, ...: the rows of a product that takes them all.
    pub(crate) row_numbers: Vec<u32>,
    /// Rotations of attention heads and of index heads.
    pub(crate) angles: Angles,
    pub(crate) index_angles: Angles,
}

/// The first `len` values of a work vector, which grows as needed and is not cleared.
pub(crate) fn room<T: Clone + Default>(work: &mut Vec<T>, len: usize) -> &mut [T] {
    if work.len() < len {
        work.resize(len, T::default());
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
    /// Where its activations may be brought to 8 bits.
    pub(crate) int8: Option<Product>,
    pub(crate) tiles: MatrixTiles,
    /// All rows in [`Order::InTurn`], of whole panels.
    interleaved: Option<Arc<Interleaved>>,
}

/// How rows lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// One after the other, as in the file.
    Rows,
    /// As [`Product::interleave`] arranges them.
    InTurn,
}

/// Rows of a matrix as they are encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoded<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) n_in: usize,
    pub(crate) row_bytes: usize,
    pub(crate) ty: TensorType,
    pub(crate) decoder: Decode,
    pub(crate) order: Order,
}

impl<'a> Encoded<'a> {
    /// `count` rows from row `first`, both multiples of a panel's rows where they lie in turn.
    pub(crate) fn part(self, first: usize, count: usize) -> Self {
        let bytes = &self.bytes[first * self.row_bytes..(first + count) * self.row_bytes];
        Self { bytes, ..self }
    }
}

impl CpuMatrix {
    /// All rows, over all experts, as products with 8-bit activations read them best.
    pub(crate) fn encoded(&self) -> Encoded<'_> {
        match &self.interleaved {
            Some(own) => Encoded { order: Order::InTurn, ..self.encoded_as(own.bytes()) },
            None => self.in_file(),
        }
    }

    /// The same of a stack of which experts are taken, or halves of them: in turn if these are whole
    /// panels. (A stack of one expert may be none, and is a matrix to those who load it.)
    pub(crate) fn encoded_stack(&self) -> Encoded<'_> {
        let rows = self.int8.as_ref().map_or(1, Product::panel_rows);
        if self.weight.n_out().is_multiple_of(2 * rows) { self.encoded() } else { self.in_file() }
    }

    /// All rows, over all experts, one after the other.
    pub(crate) fn in_file(&self) -> Encoded<'_> {
        self.encoded_as(self.weight.bytes())
    }

    /// Rows of this format and width that may lie elsewhere.
    pub(crate) fn encoded_as<'a>(&self, bytes: &'a [u8]) -> Encoded<'a> {
        let Self { weight, decoder, .. } = self;
        let (n_in, row_bytes, ty) = (weight.n_in(), weight.row_bytes(), weight.ty());
        let order = Order::Rows;
        Encoded { bytes, n_in, row_bytes, ty, decoder: *decoder, order }
    }
}

impl Cpu {
    /// Starts the threads.
    pub fn new(options: CpuOptions) -> Self {
        let threads = match options.threads {
            0 => crate::cores::physical(),
            n => n,
        };
        let available = Isa::available();
        let isa = if available.contains(&options.isa) { options.isa } else { Isa::detect() };
        Self {
            pool: Pool::new(threads),
            simd: Kernels::new(isa),
            int8: Int8Kernels::new(isa),
            work: Work::default(),
            tiles: TileTable::default(),
            forced: None,
            fault: None,
            isa,
            activations: options.activations,
            copies: Copies::new(options.interleave),
        }
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
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

    fn check(&mut self) -> Result<(), Error> {
        self.fault.take().map_or(Ok(()), Err)
    }

    fn load_matrix(
        &mut self,
        weight: &Weight,
        activations: Activations,
    ) -> Result<CpuMatrix, Error> {
        let mut matrix = self.load_unread(weight, activations)?;
        if let Some(product) = &matrix.int8 {
            matrix.interleaved = self.copies.make(weight, product, &mut self.pool).map(Arc::new);
        }
        Ok(matrix)
    }

    fn spare_memory(&mut self) {
        self.copies.spare_memory();
    }

    fn load_unread(
        &mut self,
        weight: &Weight,
        activations: Activations,
    ) -> Result<CpuMatrix, Error> {
        match self.simd.decoder(weight.ty()) {
            Some(decoder) => {
                let allowed = [activations, self.activations] == [Activations::Int8; 2];
                let int8 = if allowed { self.int8.product(weight.ty()) } else { None };
                let used = if int8.is_some() { Activations::Int8 } else { Activations::F32 };
                let tiles = MatrixTiles::new(&self.tiles, weight, used);
                let weight = weight.clone();
                Ok(CpuMatrix { weight, decoder, int8, tiles, interleaved: None })
            }
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
