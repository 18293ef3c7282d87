//! A model that is ready to run: the engine on the backend that was asked for.

use std::ops::ControlFlow;

use cpu::Cpu;
use engine::{Engine, EngineConfig, Event, Feed, Request, Summary};
use kernels::Backend;
use kernels::reference::Reference;
use model::Checkpoint;
use model::tokenizer::Tokenizer;

use crate::args::{BackendName, DeviceArgs};
use crate::error::Error;
use crate::progress::{Progress, Show, Unit};
use crate::units;

/// The only slot of the engine here.
pub(crate) const SLOT: usize = 0;

/// The engine, on either backend.
#[derive(Debug)]
pub(crate) enum Session {
    /// On all processors.
    Cpu(Box<Engine<Cpu>>),
    /// In plain code.
    Reference(Box<Engine<Reference>>),
}

impl Session {
    /// Loads a model.
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub(crate) fn load(
        checkpoint: &Checkpoint,
        device: &DeviceArgs,
        config: EngineConfig,
        show: Show,
    ) -> Result<Session, Error> {
        Ok(match device.backend {
            BackendName::Cpu => {
                let cpu = Cpu::new(device.cpu_options());
                tracing::info!("cpu: {} threads, {}", cpu.threads(), cpu.isa().name());
                Session::Cpu(Box::new(load(cpu, checkpoint, config, show)?))
            }
            BackendName::Reference => {
                Session::Reference(Box::new(load(Reference, checkpoint, config, show)?))
            }
        })
    }

    /// Sizes of the engine.
    pub(crate) fn config(&self) -> &EngineConfig {
        match self {
            Session::Cpu(engine) => engine.config(),
            Session::Reference(engine) => engine.config(),
        }
    }

    /// Runs one window; see [`Engine::forward`].
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub(crate) fn forward(&mut self, feed: Feed<'_>) -> Result<Vec<f32>, Error> {
        let logits = match self {
            Session::Cpu(engine) => engine.forward(&[feed]),
            Session::Reference(engine) => engine.forward(&[feed]),
        };
        Ok(logits?)
    }

    /// Generates text; see [`engine::generate`].
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub(crate) fn generate(
        &mut self,
        tokenizer: &Tokenizer,
        request: &Request<'_>,
        sink: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Summary, Error> {
        let summary = match self {
            Session::Cpu(on) => engine::generate(on, SLOT, tokenizer, request, sink),
            Session::Reference(on) => engine::generate(on, SLOT, tokenizer, request, sink),
        };
        Ok(summary?)
    }
}

/// Loads a model onto a backend and shows how far it is.
///
/// # Errors
/// [`Error::Engine`].
pub(crate) fn load<B: Backend>(
    backend: B,
    checkpoint: &Checkpoint,
    config: EngineConfig,
    show: Show,
) -> Result<Engine<B>, Error> {
    let tensors = checkpoint.trunk_tensors();
    let total = tensors.iter().map(|tensor| tensor.bytes.len() as u64).sum();
    let mut progress = Progress::new(show, "loading", Unit::Bytes);
    let engine = Engine::new(backend, checkpoint, config, &mut |done| progress.set(done, total))?;
    progress.clear();
    let EngineConfig { context, chunk, .. } = config;
    tracing::info!("loaded {}: context {context}, chunk {chunk}", units::bytes(total));
    Ok(engine)
}
