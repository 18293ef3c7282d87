//! Weights that are read as they are wanted, of models larger than the memory: opening them, and
//! what is kept of them until the program ends and after.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use engine::memory::Size;
use engine::store::{Counters, Profile};
use engine::{DraftingBlock, EngineConfig, StoreSettings, Stores};
use model::Checkpoint;

use crate::args::DeviceArgs;
use crate::error::Error;
use crate::memory::Placed;
use crate::{cache_folder, units};

/// What lasts as long as the program.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Held {
    stores: Stores,
    /// Where the list of the hottest experts is kept.
    list: Option<PathBuf>,
    /// Dense weights that other programs cannot drive out of memory.
    _locked: Option<gguf::Locked>,
}

/// Opens what is not held in memory, if anything is: experts that do not all fit, an n-gram table
/// that does not fit beside the rest.
///
/// # Errors
/// [`Error::Engine`] when the model's files cannot be read.
pub(crate) fn open(
    checkpoint: &Checkpoint,
    device: &DeviceArgs,
    config: &EngineConfig,
    placed: &Placed,
) -> Result<Option<Stores>, Error> {
    let Some(table) = placed.table else { return Ok(None) };
    let experts = placed.placement.cache_bytes();
    // An engine that is gone needs its memory no more, which was not counted again.
    finish_unused();
    let block = DraftingBlock::of(config);
    let defaults = StoreSettings { experts, table, ..StoreSettings::default() };
    let stores = Stores::open(checkpoint, block, device.memory.store(defaults))?;
    // Beside a GPU the dense weights are not here, and a store sees nothing of the use of experts
    // that are there: its list would not be one of the hottest.
    let alone = stores.experts().is_some() && !placed.is_split();
    // Copies are not the file's pages, which nothing reads any more.
    let locked = if alone && !device.copies_dense() { lock(checkpoint, block) } else { None };
    let list = if alone { list(stores.model()) } else { None };
    let held = Held { stores: stores.clone(), list, _locked: locked };
    HELD.lock().unwrap_or_else(PoisonError::into_inner).push(held);
    Ok(Some(stores))
}

/// Begins to read the experts that earlier runs used most. Once the engine has looked whether its
/// own memory is there: what is read now is memory taken.
pub(crate) fn warm(stores: &Stores) {
    let Some(path) = stores.experts().and_then(|_| list(stores.model())) else { return };
    match stores.warm(&path) {
        Ok(true) => tracing::info!("reading the experts of earlier runs: {}", path.display()),
        Ok(false) => {}
        Err(error) => tracing::warn!("{error}; a new one is made"),
    }
}

/// Keeps the dense weights in memory; where the system does not allow it they may be slow at times.
fn lock(checkpoint: &Checkpoint, block: DraftingBlock) -> Option<gguf::Locked> {
    match engine::lock_dense(checkpoint, block) {
        Ok(locked) => {
            tracing::info!("{} of dense weights locked in memory", Size(locked.bytes()));
            Some(locked)
        }
        Err(error) => {
            tracing::info!("dense weights are not locked in memory: {error}");
            None
        }
    }
}

/// The list of the hottest experts that earlier runs left of this model, if there is one.
pub(crate) fn hottest(checkpoint: &Checkpoint) -> Option<Profile> {
    let path = list(engine::model_number(checkpoint))?;
    match path.exists().then(|| Profile::load(&path))? {
        Ok(profile) => Some(profile),
        Err(error) => {
            tracing::warn!("{error}; the first experts of every layer are taken");
            None
        }
    }
}

/// Where the list of the hottest experts of a model lies, beside what else can be found out again.
fn list(model: u64) -> Option<PathBuf> {
    let folder = cache_folder::of("experts").ok()?;
    Some(folder.join(format!("{model:016x}.hot")))
}

/// Saves what was learned, before the program ends. That it cannot be saved costs time at the next
/// start and nothing else.
pub(crate) fn finish() {
    save(std::mem::take(&mut *HELD.lock().unwrap_or_else(PoisonError::into_inner)));
}

/// Saves what was learned for engines that are gone, and gives their memory back.
fn finish_unused() {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let (used, unused) = std::mem::take(&mut *held).into_iter().partition(|h| h.stores.in_use());
    *held = used;
    save(unused);
}

fn save(held: Vec<Held>) {
    for Held { stores, list, .. } in held {
        let Some(path) = list else { continue };
        if stores.counters().wanted == 0 {
            continue;
        }
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let saved = folder.map_err(|error| error.to_string());
        let saved = saved.and_then(|()| stores.save_profile(&path).map_err(|e| e.to_string()));
        if let Err(error) = saved {
            tracing::warn!("the list of the most used experts is not saved: {error}");
        }
    }
}

/// What stores did for `tokens` tokens, in a line.
pub(crate) fn line(counters: &Counters, tokens: usize) -> Option<String> {
    let per_token = units::bytes(counters.bytes / tokens.max(1) as u64);
    Some(format!("{}, {per_token} a token", since_start(counters)?))
}

/// What stores did so far, in a line.
pub(crate) fn since_start(counters: &Counters) -> Option<String> {
    let hits = counters.hit_rate()?;
    let speed = counters
        .bandwidth()
        .map_or(String::new(), |bandwidth| format!(" at {}/s", units::bytes(bandwidth as u64)));
    let ahead = match counters.expected {
        0 => String::new(),
        expected => format!(
            ", {:.0} % of those read ahead in vain",
            100.0 * counters.in_vain as f64 / expected as f64
        ),
    };
    Some(format!(
        "experts: {:.1} % in memory when wanted{ahead}; waited {:.1} s; read {}{speed}",
        100.0 * hits,
        counters.waiting.as_secs_f64(),
        units::bytes(counters.bytes)
    ))
}
