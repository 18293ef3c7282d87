//! Why a folder cannot be converted.

use std::fmt;
use std::path::PathBuf;

use crate::transform;

/// Tensors named in a message before a count stands for the rest.
const NAMED: usize = 4;

/// Anything that keeps a folder from becoming a model file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading the weights or writing the file failed.
    #[error(transparent)]
    Transform(#[from] transform::Error),
    /// A file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file is not what its name says.
    #[error("{}: {reason}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, where, and what to do.
        reason: String,
    },
    /// The folder holds no weights.
    #[error("{} holds no .safetensors file", .folder.display())]
    NoWeights {
        /// The folder.
        folder: PathBuf,
    },
    /// Files that the index names are not there.
    #[error("{} of the {count} files of weights are missing: {}; fetch them", .missing.len(),
        some_of(.missing))]
    MissingShards {
        /// Their names.
        missing: Vec<String>,
        /// Files that the index names.
        count: usize,
    },
    /// Tensors are absent, or of another shape or type than the configuration says.
    #[error("{}", faulty(.0))]
    Tensors(Vec<Fault>),
    /// Tensors that no part of a model is made of.
    #[error(
        "nothing is known about {} of the tensors: {}; leave them out with --ignore PATTERN if \
         they are not needed",
        .0.len(),
        some_of(.0)
    )]
    Unknown(Vec<String>),
    /// The configuration describes no model that can be written.
    #[error("{}: {source}", .path.display())]
    Model {
        /// The configuration.
        path: PathBuf,
        /// What is wrong.
        source: model::Error,
    },
    /// There is no tokenizer.
    #[error(
        "{} is not there; fetch it, or make a model without vocabulary with --no-tokenizer",
        .path.display()
    )]
    NoTokenizer {
        /// Where it would be.
        path: PathBuf,
    },
    /// The vocabulary is not one that the model file can carry.
    #[error("{}: {source}", .path.display())]
    Tokenizer {
        /// The tokenizer.
        path: PathBuf,
        /// What is wrong.
        source: model::tokenizer::TokenizerError,
    },
}

/// What is wrong with a tensor of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The name in the folder.
    pub tensor: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// How a tensor is not what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It is not there.
    Missing {
        /// The shape it should have.
        expected: Vec<u64>,
    },
    /// It has another shape.
    Shape {
        /// The shape it should have; dimensions of 1 do not matter.
        expected: Vec<u64>,
        /// The shape it has.
        found: Vec<u64>,
    },
    /// It has a type that cannot be read here.
    Type {
        /// The types it may have.
        expected: &'static str,
        /// The type it has.
        found: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.tensor;
        match &self.problem {
            Problem::Missing { expected } => write!(f, "{name} {expected:?} is missing"),
            Problem::Shape { expected, found } => {
                write!(f, "{name} is {found:?} where the configuration asks for {expected:?}")
            }
            Problem::Type { expected, found } => {
                write!(f, "{name} is {found} and should be {expected}")
            }
        }
    }
}

fn faulty(faults: &[Fault]) -> String {
    let shown: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let noun = if faults.len() == 1 { "tensor is" } else { "tensors are" };
    format!("{} {noun} missing or not as config.json says: {}", faults.len(), some_of(&shown))
}

fn some_of(names: &[String]) -> String {
    let named = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    match names.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}
