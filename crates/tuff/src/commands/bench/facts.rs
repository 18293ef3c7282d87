//! What was measured, and on what: the head of the report.

use std::collections::HashMap;

use cpu::Cpu;
use gguf::TensorType;
use model::Checkpoint;

use crate::model_file::ModelFile;
use crate::{gpu_device, units};

/// What computes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    pub(super) backend: &'static str,
    /// Instruction set of the kernels, where there is a choice; of a GPU its name.
    pub(super) isa: Option<&'static str>,
    /// None where the work is not done by threads.
    pub(super) threads: usize,
}

impl Machine {
    pub(super) fn cpu(cpu: &Cpu) -> Machine {
        Machine { backend: "cpu", isa: Some(cpu.isa().name()), threads: cpu.threads() }
    }

    /// The GPU that was opened.
    pub(super) fn gpu() -> Machine {
        Machine { backend: "gpu", isa: Some(gpu_device::title()), threads: 0 }
    }

    pub(super) fn reference() -> Machine {
        Machine { backend: "reference", isa: None, threads: 1 }
    }

    /// `cpu, avx2, 2 threads`.
    pub(super) fn in_words(&self) -> String {
        let isa = self.isa.map_or(String::new(), |isa| format!(", {isa}"));
        let threads = match self.threads {
            0 => String::new(),
            count => format!(", {}", units::count(count, "thread")),
        };
        format!("{}{isa}{threads}", self.backend)
    }
}

/// A block format and how much of the model is in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Format {
    pub(super) ty: TensorType,
    pub(super) weights: u64,
    pub(super) bytes: u64,
}

/// Model, machine and program.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) version: &'static str,
    /// The file's name without folders.
    pub(super) file: String,
    pub(super) file_bytes: u64,
    /// All that is computed with; the MTP block does not take part.
    pub(super) weights: u64,
    pub(super) weight_bytes: u64,
    /// The format of the most bytes first.
    pub(super) formats: Vec<Format>,
    pub(super) machine: Machine,
}

impl Facts {
    pub(super) fn new(file: &ModelFile, checkpoint: &Checkpoint, machine: Machine) -> Facts {
        let formats = formats(checkpoint);
        Facts {
            version: env!("CARGO_PKG_VERSION"),
            file: file.name(),
            file_bytes: file.gguf.file_bytes(),
            weights: formats.iter().map(|format| format.weights).sum(),
            weight_bytes: formats.iter().map(|format| format.bytes).sum(),
            formats,
            machine,
        }
    }
}

fn formats(checkpoint: &Checkpoint) -> Vec<Format> {
    let mut formats: Vec<Format> = Vec::new();
    let mut places = HashMap::new();
    for tensor in checkpoint.trunk_tensors() {
        let place = *places.entry(tensor.ty).or_insert(formats.len());
        if place == formats.len() {
            formats.push(Format { ty: tensor.ty, weights: 0, bytes: 0 });
        }
        let format = &mut formats[place];
        format.weights += tensor.n_in as u64 * tensor.n_out as u64 * tensor.experts as u64;
        format.bytes += tensor.bytes.len() as u64;
    }
    formats.sort_by_key(|format| std::cmp::Reverse(format.bytes));
    formats
}
