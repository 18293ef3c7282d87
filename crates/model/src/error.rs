//! What can be wrong with a model file once it is a well-formed GGUF.

use std::fmt;
use std::ops::RangeInclusive;

use crate::role::Shape;

/// Why a GGUF file is not a qwen4exp model that can be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The container could not be read, or a key has the wrong type.
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    /// The file is for another architecture.
    #[error(
        "this is a model of architecture {found:?}; only \"qwen4exp\" can be run \
         (key general.architecture)"
    )]
    Architecture {
        /// The architecture's name, empty if the key is absent.
        found: String,
    },
    /// A key without which the model cannot be understood.
    #[error("metadata key {key} is missing; convert the model again with a current converter")]
    MissingKey {
        /// The full key.
        key: String,
    },
    /// A number out of range, or one that contradicts another.
    #[error("{key} is {found}, but {expected}")]
    Value {
        /// The full key or the name of the field.
        key: String,
        /// What the file says.
        found: String,
        /// What it must be, as the end of a sentence.
        expected: String,
    },
    /// Something well-formed that this engine does not do.
    #[error("{what} is not supported: {hint}")]
    Unsupported {
        /// What was found.
        what: String,
        /// What to do instead.
        hint: String,
    },
    /// Tensors that are missing, have the wrong shape or cannot be decoded; all of them.
    #[error("{0}")]
    Tensors(TensorFaults),
    /// A file that holds an MTP block and no trunk was opened as a model.
    #[error(
        "this file holds only the MTP block of a {layers}-layer model; \
         open the model itself and give this file as its MTP file"
    )]
    MtpOnly {
        /// Trunk layers of the model it belongs to.
        layers: usize,
    },
    /// A separate MTP file belongs to a model of other dimensions.
    #[error("the MTP file does not fit this model: {}", .0.join("; "))]
    MtpMismatch(
        /// One difference each, with both numbers.
        Vec<String>,
    ),
}

impl Error {
    /// A [`Error::Value`]; `expected` ends the sentence "KEY is FOUND, but ...".
    pub(crate) fn value(
        key: impl Into<String>,
        found: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::Value { key: key.into(), found: found.to_string(), expected: expected.into() }
    }

    /// Refuses a number outside `range`.
    pub(crate) fn check_range(
        key: &str,
        found: u64,
        range: RangeInclusive<u64>,
    ) -> Result<(), Self> {
        if range.contains(&found) {
            return Ok(());
        }
        let expected = format!("must be from {} to {}", range.start(), range.end());
        Err(Self::value(key, found, expected))
    }
}

/// Every tensor of a file that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorFaults(
    /// The faults, in the order in which the model's tensors are looked up.
    pub Vec<TensorFault>,
);

/// One tensor that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorFault {
    /// The tensor's name.
    pub name: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The file has no tensor of this name.
    Missing {
        /// The shape that the metadata asks for.
        expected: Shape,
    },
    /// The dimensions are not the ones that the metadata asks for.
    Shape {
        /// The shape that the metadata asks for.
        expected: Shape,
        /// The dimensions in the file.
        found: Vec<u64>,
    },
    /// The format cannot serve here.
    Format {
        /// The format's name.
        found: String,
        /// What is accepted.
        expected: &'static str,
    },
}

impl fmt::Display for TensorFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        let (noun, verb) = if count == 1 { ("tensor", "is") } else { ("tensors", "are") };
        write!(f, "{count} {noun} {verb} missing or not as the metadata says ")?;
        write!(f, "(the file is incomplete, or made for other code; fetch or convert it again):")?;
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl fmt::Display for TensorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        match &self.problem {
            Problem::Missing { expected } => write!(f, "missing, expected shape {expected}"),
            Problem::Shape { expected, found } => {
                write!(f, "expected shape {expected}, found {}", Dims(found))
            }
            Problem::Format { found, expected } => {
                write!(f, "format {found} cannot be used here, expected {expected}")
            }
        }
    }
}

/// Dimensions in GGUF order, as `{2560, 640, 512}`.
pub(crate) struct Dims<'a>(pub(crate) &'a [u64]);

impl fmt::Display for Dims<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<_> = self.0.iter().map(u64::to_string).collect();
        write!(f, "{{{}}}", dims.join(", "))
    }
}
