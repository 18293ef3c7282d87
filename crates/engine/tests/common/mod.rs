//! The fixture models: loading them, and what the manifest says of them.
#![allow(dead_code, reason = "every test file uses its own part")]

pub(crate) mod counting;
pub(crate) mod fixtures;
pub(crate) mod jobs;
pub(crate) mod turns;

use cpu::{Cpu, CpuOptions, Isa};
use engine::{Engine, EngineConfig};
pub(crate) use fixtures::*;
use kernels::{Activations, Backend};
use model::Checkpoint;

pub(crate) fn checkpoint(name: &str) -> Checkpoint {
    let file = gguf::Gguf::open(fixture(&format!("{name}.gguf"))).unwrap();
    Checkpoint::load(&file).unwrap()
}

pub(crate) fn config(slots: usize, chunk: usize) -> EngineConfig {
    EngineConfig { slots, context: 512, chunk, ..EngineConfig::default() }
}

pub(crate) fn engine_on<B: Backend>(backend: B, model: &str, config: EngineConfig) -> Engine<B> {
    Engine::new(backend, &checkpoint(model), config, &mut |_| {}).unwrap()
}

pub(crate) fn cpu(threads: usize, isa: Isa) -> Cpu {
    Cpu::new(CpuOptions { threads, isa, ..CpuOptions::default() })
}

/// The CPU with activations kept in f32, whatever the weights' format.
pub(crate) fn exact_cpu(threads: usize, isa: Isa) -> Cpu {
    let activations = Activations::F32;
    Cpu::new(CpuOptions { threads, isa, activations, ..CpuOptions::default() })
}

pub(crate) fn cpu_engine(model: &str, config: EngineConfig) -> Engine<Cpu> {
    engine_on(cpu(2, Isa::detect()), model, config)
}
