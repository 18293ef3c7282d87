//! Buffers of any device: uploading inputs, and outputs that start full of a poison.

use gguf::TensorType;
use kernels::weight::WeightShape;
use kernels::{Backend, Error, Weight};

/// What outputs hold before an operation: a NaN that no arithmetic produces by itself.
pub(crate) const POISON: f32 = f32::from_bits(0x7FC0_1AB5);

/// Values after the end of an output that nothing may write.
pub(crate) const GUARD: usize = 16;

pub(crate) fn is_poison(value: f32) -> bool {
    value.to_bits() == POISON.to_bits()
}

/// A buffer with these values.
pub(crate) fn upload<B: Backend>(backend: &mut B, values: &[f32]) -> Result<B::Buffer, Error> {
    let mut buffer = backend.alloc(values.len())?;
    backend.upload(values, &mut buffer);
    Ok(buffer)
}

/// A poisoned buffer of `len` values and the guard.
pub(crate) fn poisoned<B: Backend>(backend: &mut B, len: usize) -> Result<B::Buffer, Error> {
    upload(backend, &vec![POISON; len + GUARD])
}

/// A small weight of these values.
pub(crate) fn vector<B: Backend>(backend: &mut B, values: &[f32]) -> Result<B::Vector, Error> {
    backend.load_vector(&f32_weight(values.len(), values)?)
}

/// A matrix of f32 values with rows of `n_in`.
pub(crate) fn f32_weight(n_in: usize, values: &[f32]) -> Result<Weight, Error> {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let shape = WeightShape { n_in, n_out: values.len() / n_in, experts: 1 };
    Weight::new("values", TensorType::F32, shape, bytes.into())
}

/// What an operation left in an output.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Name in messages.
    pub(crate) what: &'static str,
    /// Values per row.
    pub(crate) width: usize,
    /// The values, the guard apart.
    pub(crate) values: Vec<f32>,
    /// What stood after them; empty for a result that is not in a buffer.
    pub(crate) guard: Vec<f32>,
}

impl Output {
    /// A result that is not in a buffer.
    pub(crate) fn new(what: &'static str, width: usize, values: Vec<f32>) -> Self {
        Self { what, width, values, guard: Vec::new() }
    }

    /// `len` values and the guard of a [`poisoned`] buffer.
    pub(crate) fn fetch<B: Backend>(
        backend: &mut B,
        buffer: &B::Buffer,
        (what, width, len): (&'static str, usize, usize),
    ) -> Result<Self, Error> {
        let mut values = vec![0.0; len + GUARD];
        backend.download(buffer, &mut values)?;
        let guard = values.split_off(len);
        Ok(Self { what, width, values, guard })
    }
}
