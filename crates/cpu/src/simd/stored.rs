//! Floats as they lie in a file, read straight into vectors.

use super::lanes::Lanes;
use gguf::TensorType;
use quant::{BF16, F16, F32, Half};

/// A float type of files.
pub(crate) trait Stored {
    /// Bytes of a value.
    const BYTES: usize;

    /// As many values from `p` as a vector holds.
    ///
    /// # Safety
    /// As for [`Lanes::load`], for that many bytes at any alignment.
    unsafe fn load<L: Lanes>(p: *const u8) -> L::V;

    /// The value of [`Stored::BYTES`] bytes.
    fn value(bytes: &[u8]) -> f32;
}

/// The float types that products read without decoding them first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredType {
    F32,
    F16,
    BF16,
}

impl StoredType {
    /// The float type of a tensor; `None` for blocks.
    pub(crate) fn of(ty: TensorType) -> Option<Self> {
        match ty {
            TensorType::F32 => Some(Self::F32),
            TensorType::F16 => Some(Self::F16),
            TensorType::BF16 => Some(Self::BF16),
            _ => None,
        }
    }
}

impl Stored for F32 {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::V {
        // SAFETY: passed on.
        unsafe { L::load(p.cast()) }
    }

    #[inline(always)]
    fn value(bytes: &[u8]) -> f32 {
        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

impl Stored for F16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::V {
        // SAFETY: passed on.
        unsafe { L::load_f16(p.cast()) }
    }

    #[inline(always)]
    fn value(bytes: &[u8]) -> f32 {
        Half::from_bits(u16::from_le_bytes([bytes[0], bytes[1]])).to_f32()
    }
}

impl Stored for BF16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::V {
        // SAFETY: passed on.
        unsafe { L::load_bf16(p.cast()) }
    }

    #[inline(always)]
    fn value(bytes: &[u8]) -> f32 {
        f32::from_le_bytes([0, 0, bytes[0], bytes[1]])
    }
}
