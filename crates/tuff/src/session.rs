//! A model that is ready to run: the engine on the backend that was asked for.

use std::ops::ControlFlow;

use cpu::Cpu;
use engine::cache::{FolderError, FromFolder, Keep, Owner, Saved, StateCache, StateFolder};
use engine::speculation::{Drafter, SpecMode};
use engine::store::Counters;
use engine::{
    Engine, EngineConfig, Event, Feed, Generator, LogitCounts, Request, Stores, Summary,
    WeightHomes,
};
use gpu::Gpu;
use kernels::Backend;
use kernels::reference::Reference;
use lab::kld::Predictor;
use lab::routes::Router;
use model::tokenizer::Tokenizer;
use model::{Checkpoint, DraftVocab};

use crate::args::{Chosen, DeviceArgs, Drafting, SpecArgs};
use crate::draft_vocab_file;
use crate::error::Error;
use crate::memory;
use crate::progress::{Progress, Show, Unit};
use crate::stored;
use crate::units;

/// Bytes of weights that are loaded before their file's pages are given back.
const RELEASE_EVERY: u64 = 128 << 20;

/// The only slot of the engine here.
pub(crate) const SLOT: usize = 0;

/// The engine, on any backend, and who drafts for it.
#[derive(Debug)]
pub(crate) enum Session {
    /// On all processors.
    Cpu(Box<Engine<Cpu>>, Box<Drafter>),
    /// On a GPU.
    Gpu(Box<Engine<Gpu>>, Box<Drafter>),
    /// In plain code.
    Reference(Box<Engine<Reference>>, Box<Drafter>),
}

impl Session {
    /// Loads a model that drafts nothing.
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub(crate) fn load(
        checkpoint: &Checkpoint,
        device: &DeviceArgs,
        config: EngineConfig,
        show: Show,
    ) -> Result<Session, Error> {
        Self::load_with(checkpoint, device, config, (None, show))
    }

    /// Loads a model, and what drafts for it.
    ///
    /// # Errors
    /// [`Error::Engine`]; a list of tokens to draft that cannot be read.
    pub(crate) fn load_with(
        checkpoint: &Checkpoint,
        device: &DeviceArgs,
        config: EngineConfig,
        (spec, show): (Option<&SpecArgs>, Show),
    ) -> Result<Session, Error> {
        let config = spec.map_or(config, |spec| spec.drafting().extend(config));
        // Read before the model is loaded: a bad list is told at once.
        let vocab = spec.map(|spec| read_draft_vocab(checkpoint, &spec.drafting())).transpose()?;
        let drafts = (spec.map_or(SpecMode::Off, SpecArgs::mode), vocab.flatten());
        if device.backend() == Chosen::Gpu {
            let loaded = device.new_gpu().and_then(|gpu| {
                let mut engine = load(gpu, checkpoint, config, (device, show))?;
                let drafter = drafter(&mut engine, checkpoint, drafts.clone())?;
                Ok(Session::Gpu(Box::new(engine), Box::new(drafter)))
            });
            match loaded {
                Ok(session) => return Ok(session),
                Err(Error::Engine(error)) if device.may_change() => {
                    DeviceArgs::take_cpu(&error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(match device.backend() {
            Chosen::Cpu | Chosen::Gpu => {
                let cpu = device.new_cpu();
                tracing::info!("cpu: {} threads, {}", cpu.threads(), cpu.isa().name());
                let mut engine = load(cpu, checkpoint, config, (device, show))?;
                let drafter = drafter(&mut engine, checkpoint, drafts)?;
                Session::Cpu(Box::new(engine), Box::new(drafter))
            }
            Chosen::Reference => {
                let mut engine = load(Reference, checkpoint, config, (device, show))?;
                let drafter = drafter(&mut engine, checkpoint, drafts)?;
                Session::Reference(Box::new(engine), Box::new(drafter))
            }
        })
    }

    /// Sizes of the engine.
    pub(crate) fn config(&self) -> &EngineConfig {
        match self {
            Session::Cpu(engine, _) => engine.config(),
            Session::Gpu(engine, _) => engine.config(),
            Session::Reference(engine, _) => engine.config(),
        }
    }

    /// What was read of experts so far, if any are.
    pub(crate) fn reads(&self) -> Option<Counters> {
        let stores = match self {
            Session::Cpu(engine, _) => engine.stores(),
            Session::Gpu(engine, _) => engine.stores(),
            Session::Reference(engine, _) => engine.stores(),
        };
        stores.map(Stores::counters)
    }

    /// Runs one window; see [`Engine::forward`].
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub(crate) fn forward(&mut self, feed: Feed<'_>) -> Result<Vec<f32>, Error> {
        let logits = match self {
            Session::Cpu(engine, _) => engine.forward(&[feed]),
            Session::Gpu(engine, _) => engine.forward(&[feed]),
            Session::Reference(engine, _) => engine.forward(&[feed]),
        };
        Ok(logits?)
    }

    /// The engine, for measuring what it predicts.
    pub(crate) fn predictor(&mut self) -> &mut dyn Predictor {
        match self {
            Session::Cpu(engine, _) => &mut **engine,
            Session::Gpu(engine, _) => &mut **engine,
            Session::Reference(engine, _) => &mut **engine,
        }
    }

    /// The engine, for recording its routes.
    pub(crate) fn router(&mut self) -> &mut dyn Router {
        match self {
            Session::Cpu(engine, _) => &mut **engine,
            Session::Gpu(engine, _) => &mut **engine,
            Session::Reference(engine, _) => &mut **engine,
        }
    }

    /// Generates text, with a cache if there is one; see [`Generator::generate_cached`].
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub(crate) fn generate(
        &mut self,
        tokenizer: &Tokenizer,
        request: &Request<'_>,
        keep: Option<Keep<'_>>,
        sink: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Summary, Error> {
        let summary = match self {
            Session::Cpu(engine, proposer) => {
                let proposer = &mut **proposer;
                let mut generator = Generator { engine, slot: SLOT, tokenizer, proposer };
                generator.generate_cached(request, keep, sink)
            }
            Session::Gpu(engine, proposer) => {
                let proposer = &mut **proposer;
                let mut generator = Generator { engine, slot: SLOT, tokenizer, proposer };
                let summary = generator.generate_cached(request, keep, sink);
                let LogitCounts { lists, whole } = engine.logit_counts();
                tracing::info!("logits: {lists} rows as lists of the largest, {whole} as a whole");
                summary
            }
            Session::Reference(engine, proposer) => {
                let proposer = &mut **proposer;
                let mut generator = Generator { engine, slot: SLOT, tokenizer, proposer };
                generator.generate_cached(request, keep, sink)
            }
        };
        Ok(summary?)
    }
}

/// States on disk.
impl Session {
    /// Fetches the longest saved beginning of a prompt; see [`Engine::recall_saved`].
    ///
    /// # Errors
    /// [`FolderError`].
    pub(crate) fn recall_saved(
        &mut self,
        folder: &mut StateFolder,
        prompt: &[u32],
    ) -> Result<FromFolder, FolderError> {
        match self {
            Session::Cpu(engine, _) => engine.recall_saved(SLOT, folder, prompt),
            Session::Gpu(engine, _) => engine.recall_saved(SLOT, folder, prompt),
            Session::Reference(engine, _) => engine.recall_saved(SLOT, folder, prompt),
        }
    }

    /// Saves the state that a text goes on from; see [`Engine::save_for`].
    ///
    /// # Errors
    /// [`FolderError`].
    pub(crate) fn save_for(
        &mut self,
        to: (&mut StateFolder, Owner),
        next: &[u32],
        cache: Option<&mut StateCache>,
    ) -> Result<Saved, FolderError> {
        match self {
            Session::Cpu(engine, _) => engine.save_for(SLOT, to, next, cache),
            Session::Gpu(engine, _) => engine.save_for(SLOT, to, next, cache),
            Session::Reference(engine, _) => engine.save_for(SLOT, to, next, cache),
        }
    }
}

/// Who drafts in this mode, from a list of tokens if there is one.
fn drafter<B: Backend>(
    engine: &mut Engine<B>,
    checkpoint: &Checkpoint,
    (mode, vocab): (SpecMode, Option<DraftVocab>),
) -> Result<Drafter, Error> {
    load_draft_vocab(engine, checkpoint, vocab)?;
    Ok(Drafter::new(mode, engine))
}

/// Reads the list of tokens to draft, if there is one.
///
/// # Errors
/// A list that cannot be read.
pub(crate) fn read_draft_vocab(
    checkpoint: &Checkpoint,
    drafting: &Drafting<'_>,
) -> Result<Option<DraftVocab>, Error> {
    let path = drafting.draft_vocab();
    path.map(|path| draft_vocab_file::read(path, checkpoint.hp.vocab)).transpose()
}

/// Loads the list of tokens to draft, if there is one.
///
/// # Errors
/// [`Error::Engine`].
pub(crate) fn load_draft_vocab<B: Backend>(
    engine: &mut Engine<B>,
    checkpoint: &Checkpoint,
    vocab: Option<DraftVocab>,
) -> Result<(), Error> {
    let Some(vocab) = vocab else { return Ok(()) };
    let count = vocab.len();
    let bytes = engine.load_draft_vocab(checkpoint, vocab)?;
    tracing::info!("draft head of {count} tokens, {}", units::bytes(bytes as u64));
    Ok(())
}

/// Loads a model onto a backend and shows how far it is, if it fits into the memory that it may
/// take.
///
/// # Errors
/// [`Error::Engine`].
pub(crate) fn load<B: Backend>(
    backend: B,
    checkpoint: &Checkpoint,
    config: EngineConfig,
    (device, show): (&DeviceArgs, Show),
) -> Result<Engine<B>, Error> {
    let placed = memory::placement(checkpoint, device, &config)?;
    let hot = if placed.is_split() { stored::hottest(checkpoint) } else { None };
    let split = memory::split(checkpoint, &config, &placed, hot.as_ref());
    let stores = stored::open(checkpoint, device, &config, &placed)?;
    let tensors = match config.mtp {
        Some(_) => checkpoint.tensors(),
        None => checkpoint.trunk_tensors(),
    };
    let total = tensors.iter().map(|tensor| tensor.bytes.len() as u64).sum();
    let mut progress = Progress::new(show, "loading", Unit::Bytes);
    let mut released = 0;
    let mut show = |done: u64| {
        progress.set(done, total);
        // What was copied is not to lie in memory twice until the last weight is loaded.
        if device.repacks() && done - released > RELEASE_EVERY {
            checkpoint.file.release();
            released = done;
        }
    };
    let homes = WeightHomes { stores, split };
    let engine = Engine::with_homes(backend, checkpoint, config, homes, &mut show)?;
    progress.clear();
    if device.repacks() {
        checkpoint.file.release();
        if let Some(file) = &checkpoint.mtp_file {
            file.release();
        }
    }
    if let Some(stores) = engine.stores().filter(|_| !placed.is_split()) {
        stored::warm(stores);
    }
    let EngineConfig { context, chunk, .. } = config;
    tracing::info!("loaded {}: context {context}, chunk {chunk}", units::bytes(total));
    Ok(engine)
}
