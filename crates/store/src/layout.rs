//! Where the experts lie in the model's files.

use crate::StoreError;
use std::path::PathBuf;

/// One matrix of every expert of a layer, one after the other in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Which of the files.
    pub file: usize,
    /// Where the first expert begins.
    pub offset: u64,
    /// Bytes of an expert.
    pub expert_bytes: usize,
}

/// The matrices of a layer's experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrices {
    /// Gate, up and down.
    Separate([Stack; 3]),
    /// Gate and up in one matrix, half of the rows each; down.
    Fused([Stack; 2]),
}

impl Matrices {
    /// The stacks, whichever they are.
    pub fn stacks(&self) -> &[Stack] {
        match self {
            Self::Separate(stacks) => stacks,
            Self::Fused(stacks) => stacks,
        }
    }
}

/// A layer's experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerLayout {
    /// How many there are.
    pub experts: usize,
    /// Their matrices.
    pub matrices: Matrices,
}

/// All experts of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The model's files.
    pub files: Vec<PathBuf>,
    /// The layers in order.
    pub layers: Vec<LayerLayout>,
}

impl LayerLayout {
    /// Bytes of one expert.
    pub fn expert_bytes(&self) -> usize {
        self.matrices.stacks().iter().map(|stack| stack.expert_bytes).sum()
    }
}

impl Layout {
    /// Bytes of all experts.
    pub fn bytes(&self) -> u64 {
        self.layers.iter().map(|layer| (layer.experts * layer.expert_bytes()) as u64).sum()
    }

    /// Checks that every stack is in a file, and that no place overflows.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let fault = |what: String| Err(StoreError::Layout { what });
        for (n, layer) in self.layers.iter().enumerate() {
            for stack in layer.matrices.stacks() {
                if stack.file >= self.files.len() {
                    return fault(format!("layer {n} is in file {}", stack.file));
                }
                let bytes = (layer.experts as u64).checked_mul(stack.expert_bytes as u64);
                if stack.expert_bytes == 0
                    || bytes.and_then(|bytes| stack.offset.checked_add(bytes)).is_none()
                {
                    return fault(format!("layer {n} has experts of {} bytes", stack.expert_bytes));
                }
            }
        }
        Ok(())
    }
}
