//! The fixture models in engines on the GPU, and what the manifest says of them.

#[path = "../../../engine/tests/common/fixtures.rs"]
mod fixtures;

use super::{gpu_with, shared_gpu_with};
use engine::{Engine, EngineConfig, NormExtent};
pub(crate) use fixtures::*;
use gguf::Gguf;
use gpu::Gpu;
use kernels::Activations;
use model::Checkpoint;

/// A fixture model; the one that has a drafting block in a second file comes with it.
pub(crate) fn checkpoint(name: &str) -> Checkpoint {
    let open = |name: &str| Gguf::open(fixture(&format!("{name}.gguf"))).unwrap();
    match name {
        "tiny-f32" => Checkpoint::load_with_mtp(&open("tiny-f32"), &open("tiny-f32-mtp")).unwrap(),
        _ => Checkpoint::load(&open(name)).unwrap(),
    }
}

/// Whether all texts are wanted. A software renderer takes some 40 ms for a token of these models,
/// so without `TUFF_GPU_FULL` a few that meet every kernel must do.
pub(crate) fn full() -> bool {
    std::env::var_os("TUFF_GPU_FULL").is_some()
}

/// Sizes that do for every test.
pub(crate) fn sizes() -> EngineConfig {
    EngineConfig {
        slots: 3,
        context: 512,
        chunk: 256,
        deferred: 9,
        mtp: Some(NormExtent::Whole),
        ..EngineConfig::default()
    }
}

/// Lends the shared GPU for these activations to an engine, if there is one: what was compiled for
/// other engines is there for this one.
pub(crate) fn with_engine(
    activations: Activations,
    checkpoint: &Checkpoint,
    config: EngineConfig,
    test: impl FnOnce(&mut Engine<Gpu>),
) {
    let Some(mut shared) = shared_gpu_with(activations) else { return };
    let Some(mut lent) = gpu_with(activations) else { return };
    std::mem::swap(&mut lent, &mut shared);
    let mut engine = Engine::new(lent, checkpoint, config, &mut |_| {}).unwrap();
    test(&mut engine);
    std::mem::swap(engine.backend_mut(), &mut shared);
}
