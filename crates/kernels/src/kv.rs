//! How cached keys and values are stored.

use gguf::TensorType;
use std::fmt;
use std::str::FromStr;

/// The type in which attention keeps keys and values. Rows are rounded when they are appended, and
/// whoever attends them reads what is stored: a result does not depend on when that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvType {
    /// As they are.
    #[default]
    F32,
    /// Rounded to nearest, ties to even; beyond 65504 infinite.
    F16,
    /// 8 bits per value and an f16 scale per 32 values of a head, the block of [`quant::Q8_0`].
    Q8_0,
}

impl KvType {
    /// All types.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Q8_0];

    /// Name in options and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
        }
    }

    /// The format of a stored row.
    pub const fn tensor_type(self) -> TensorType {
        match self {
            Self::F32 => TensorType::F32,
            Self::F16 => TensorType::F16,
            Self::Q8_0 => TensorType::Q8_0,
        }
    }

    /// Values that are stored together; heads must be a multiple of it.
    pub const fn block(self) -> usize {
        self.tensor_type().block_elements()
    }

    /// Bytes of `values` values, a multiple of [`KvType::block`].
    pub const fn bytes(self, values: usize) -> usize {
        values / self.block() * self.tensor_type().block_bytes()
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use f32, f16 or q8_0")]
pub struct UnknownKvType;

impl FromStr for KvType {
    type Err = UnknownKvType;

    fn from_str(name: &str) -> Result<Self, UnknownKvType> {
        Self::ALL.into_iter().find(|ty| ty.name() == name).ok_or(UnknownKvType)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes() {
        for ty in KvType::ALL {
            assert_eq!(ty.name().parse(), Ok(ty));
        }
        assert_eq!("q4_0".parse::<KvType>(), Err(UnknownKvType));
        assert_eq!(KvType::ALL.map(|ty| ty.bytes(64)), [256, 128, 68]);
    }
}
