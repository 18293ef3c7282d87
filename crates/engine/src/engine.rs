//! The engine: a loaded model, its slots, and windows over them.

use crate::capacity::{DeviceMemory, check_context, token_bytes};
use crate::fingerprint::{self, Fingerprint};
use crate::forward::Pass;
use crate::layers::Routing;
use crate::logits::{LogitCounts, LogitRows};
use crate::mtp::Mtp;
use crate::probe::{NoProbe, Probe};
use crate::reads::WeightReads;
use crate::sampling::Short;
use crate::scratch::Scratch;
use crate::slots::Slots;
use crate::split::ExpertSplit;
use crate::stores::Stores;
use crate::weights::{LoadOptions, MtpWeights, Weights};
use crate::{EngineConfig, Error, Feed, Want};
use kernels::moe::MoeChoice;
use kernels::stored::TableSource as _;
use kernels::{Backend, Commit, Window};
use model::Checkpoint;
use model::HyperParams;
use model::ngram;
use std::time::Instant;

/// A loaded model with its slots.
pub struct Engine<B: Backend> {
    pub(crate) backend: B,
    pub(crate) hp: HyperParams,
    pub(crate) weights: Weights<B>,
    pub(crate) slots: Slots<B>,
    pub(crate) scratch: Scratch<B>,
    pub(crate) mtp: Option<Mtp<B>>,
    pub(crate) config: EngineConfig,
    pub(crate) window: Window,
    /// Of the model and whatever else a state depends on.
    pub(crate) fingerprint: Fingerprint,
    pub(crate) stores: Option<Stores>,
    pub(crate) reads: WeightReads,
    /// Bytes of the device's own memory that were taken once the weights were loaded.
    loaded: u64,
    pub(crate) tokens: Vec<u32>,
    /// Ids before and in the feed that is being arranged.
    pub(crate) before: Vec<u32>,
    pub(crate) ngrams: Vec<u64>,
    pub(crate) row_ids: Vec<u64>,
    /// Tokens of draft steps since the last window of each slot, where something is read ahead.
    pub(crate) drafted: Vec<Vec<u32>>,
    wanted: Vec<usize>,
    /// What is drawn from each wanted row, where it needs only the largest logits.
    draws: Vec<Option<Short>>,
    /// Kept for the next window that wants whole rows, without their values.
    whole_rows: LogitRows,
    logit_counts: LogitCounts,
}

/// Where weights are, of a model that is not all in the device's memory.
#[derive(Clone, Debug, Default)]
pub struct WeightHomes {
    /// What is read as it is wanted. Not a bit of a result differs by it.
    pub stores: Option<Stores>,
    /// Which experts the device holds, if not all: results are those of this split.
    pub split: Option<ExpertSplit>,
}

impl<B: Backend> std::fmt::Debug for Engine<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("backend", &self.backend.name())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl<B: Backend> Engine<B> {
    /// Loads `checkpoint` onto `backend`; `progress` is told the bytes loaded so far.
    ///
    /// # Errors
    /// When a size is zero, the context is longer than the model or memory allows, heads do not fit
    /// the type of keys and values, a weight's format has no kernel, or memory is short.
    pub fn new(
        backend: B,
        checkpoint: &Checkpoint,
        config: EngineConfig,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        Self::with_homes(backend, checkpoint, config, WeightHomes::default(), progress)
    }

    /// As [`Engine::new`], with weights where `homes` says.
    ///
    /// # Errors
    /// As for [`Engine::new`].
    pub fn with_homes(
        mut backend: B,
        checkpoint: &Checkpoint,
        config: EngineConfig,
        homes: WeightHomes,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        config.check()?;
        check_context(&checkpoint.hp, &config)?;
        let mut hp = checkpoint.hp.clone();
        let WeightHomes { stores, split } = homes;
        let (rope_scaling, split) = (config.rope_scaling, split.as_ref());
        let options = LoadOptions { rope_scaling, stores: stores.as_ref(), split };
        if stores.as_ref().is_some_and(|stores| stores.layer(0).is_some()) {
            backend.spare_memory();
        }
        let (weights, done) = Weights::load(&mut backend, checkpoint, options, progress)?;
        let block = match config.mtp {
            Some(extent) => {
                let how = (extent, options);
                MtpWeights::load(&mut backend, checkpoint, how, (done, progress))?
            }
            None => None,
        };
        let loaded = backend.memory_used().unwrap_or(0);
        hp.mtp_layers = usize::from(block.is_some());
        let EngineConfig { mtp, kv, rope_scaling, dials, .. } = config;
        let mut settings = format!("{} {mtp:?} {kv} {rope_scaling:?}", backend.name());
        if !dials.is_exact() {
            settings.push_str(&format!(" {dials:?}"));
        }
        if let Some(split) = split {
            settings.push_str(&format!(" {split}"));
        }
        let fingerprint = fingerprint::of_model(checkpoint, &settings);
        let slots = Slots::new(&mut backend, &weights, &config)?;
        let mtp = block.map(|block| Mtp::new(&mut backend, block, &hp, &config)).transpose()?;
        let rows = mtp.as_ref().map_or(config.chunk, Mtp::most_rows);
        let scratch = Scratch::new(&mut backend, &hp, rows)?;
        Ok(Self {
            backend,
            hp,
            weights,
            slots,
            scratch,
            mtp,
            config,
            window: Window::new(),
            fingerprint,
            stores,
            reads: WeightReads::default(),
            loaded,
            tokens: Vec::new(),
            before: Vec::new(),
            ngrams: Vec::new(),
            row_ids: Vec::new(),
            drafted: vec![Vec::new(); config.slots],
            wanted: Vec::new(),
            draws: Vec::new(),
            whole_rows: LogitRows::default(),
            logit_counts: LogitCounts::default(),
        })
    }

    /// Hyper-parameters of the model.
    pub fn hyper_params(&self) -> &HyperParams {
        &self.hp
    }

    /// Bytes that a token takes in the caches of its slot, see [`crate::token_bytes`].
    pub fn cache_bytes_per_token(&self) -> u64 {
        token_bytes(&self.hp, &self.config)
    }

    /// Sizes of the engine.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Tells models, and the settings that their results depend on here, apart: of the device only
    /// the kind counts. Nothing can rely on it against somebody who wants two to be alike.
    pub fn fingerprint(&self) -> u64 {
        u64::from_le_bytes(self.fingerprint.to_bytes())
    }

    /// Name of the backend.
    pub fn backend_name(&self) -> &'static str {
        self.backend.name()
    }

    /// What is read as it is wanted, if anything is.
    pub fn stores(&self) -> Option<&Stores> {
        self.stores.as_ref()
    }

    /// Weights that windows and drafts had to read so far, and the time that they took.
    pub fn weight_reads(&self) -> WeightReads {
        self.reads
    }

    /// What is taken of the device's memory; `None` for a device that works in the host's.
    pub fn device_memory(&self) -> Option<DeviceMemory> {
        let used = self.backend.memory_used()?;
        Some(DeviceMemory { used, weights: self.loaded.min(used) })
    }

    /// The backend, for what the engine does not ask of it.
    pub fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Tokens that `slot` has processed.
    ///
    /// # Errors
    /// [`Error::NoSlot`].
    pub fn history(&self, slot: usize) -> Result<&[u32], Error> {
        self.check_slot(slot)?;
        Ok(self.slots.tokens(slot))
    }

    /// Whether a device fault left `slot` unusable until it is reset.
    ///
    /// # Errors
    /// [`Error::NoSlot`].
    pub fn is_broken(&self, slot: usize) -> Result<bool, Error> {
        self.check_slot(slot)?;
        Ok(self.slots.is_broken(slot))
    }

    /// Makes `slot` a fresh sequence.
    ///
    /// # Errors
    /// [`Error::NoSlot`].
    pub fn reset(&mut self, slot: usize) -> Result<(), Error> {
        self.check_slot(slot)?;
        self.slots.reset(&mut self.backend, slot);
        if let Some(mtp) = &mut self.mtp {
            mtp.reset(&mut self.backend, slot);
        }
        Ok(())
    }

    /// Runs one window: each slot's next tokens, in any mix of slots. Returns the wanted logits,
    /// `[wanted rows, vocab]` in the order of the feeds.
    ///
    /// Everything is checked before any state changes; a slot that an error names is as it was,
    /// except after a device fault, which leaves the window's slots unusable until reset.
    ///
    /// # Errors
    /// On unusable feeds, a full context, caches that outgrow the memory, or a device fault.
    pub fn forward(&mut self, feeds: &[Feed<'_>]) -> Result<Vec<f32>, Error> {
        self.forward_probed(feeds, &mut NoProbe)
    }

    /// As [`Engine::forward`], with the logits in place of what `logits` held: nothing is allocated
    /// where its room and the engine's is enough.
    ///
    /// # Errors
    /// As for [`Engine::forward`]; `logits` is empty then.
    pub fn forward_into(&mut self, feeds: &[Feed<'_>], logits: &mut Vec<f32>) -> Result<(), Error> {
        self.forward_whole(feeds, &mut NoProbe, logits)
    }

    /// As [`Engine::forward_into`], for draws: of a feed whose draws need no more, the rows may be
    /// lists of the largest logits. `draws` has an entry for each feed.
    ///
    /// # Errors
    /// As for [`Engine::forward`]; there are no rows then.
    pub(crate) fn forward_rows(
        &mut self,
        feeds: &[Feed<'_>],
        draws: &[Option<Short>],
        rows: &mut LogitRows,
    ) -> Result<(), Error> {
        self.window((feeds, draws), &mut NoProbe, rows)
    }

    /// How many rows of logits went to the host, and how.
    pub fn logit_counts(&self) -> LogitCounts {
        self.logit_counts
    }

    /// As [`Engine::forward`], showing intermediate values to `probe`.
    ///
    /// # Errors
    /// As for [`Engine::forward`].
    pub fn forward_probed(
        &mut self,
        feeds: &[Feed<'_>],
        probe: &mut dyn Probe,
    ) -> Result<Vec<f32>, Error> {
        let mut logits = Vec::new();
        self.forward_whole(feeds, probe, &mut logits)?;
        Ok(logits)
    }

    fn forward_whole(
        &mut self,
        feeds: &[Feed<'_>],
        probe: &mut dyn Probe,
        logits: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let mut rows = std::mem::take(&mut self.whole_rows);
        std::mem::swap(&mut rows.all, logits);
        let result = self.window((feeds, &[]), probe, &mut rows);
        std::mem::swap(&mut rows.all, logits);
        self.whole_rows = rows;
        result
    }

    fn window(
        &mut self,
        (feeds, draws): (&[Feed<'_>], &[Option<Short>]),
        probe: &mut dyn Probe,
        logits: &mut LogitRows,
    ) -> Result<(), Error> {
        logits.clear();
        self.check_feeds(feeds)?;
        let started = Instant::now();
        for feed in feeds {
            let more = feed.tokens.len();
            self.slots.reserve(&mut self.backend, &self.weights, feed.slot, more)?;
            if let Some(mtp) = &mut self.mtp {
                let len = self.slots.tokens(feed.slot).len() + more;
                mtp.reserve(&mut self.backend, feed.slot, len)?;
            }
        }
        self.arrange(feeds);
        self.draws.clear();
        for (i, feed) in feeds.iter().enumerate() {
            let draw = draws.get(i).copied().flatten();
            self.draws.extend(std::iter::repeat_n(draw, feed.wanted_rows()));
        }
        if let Some(table) = self.stores.as_ref().and_then(Stores::table) {
            table.expect(&self.ngrams);
        }
        let result = self.run(probe, logits).and_then(|()| self.keep_streams(feeds));
        if result.is_err() {
            logits.clear();
        }
        for feed in feeds {
            match result {
                Ok(()) => self.slots.advance(feed.slot, feed.tokens, feed.commit),
                Err(_) => self.slots.set_broken(feed.slot),
            }
        }
        self.reads.time += started.elapsed();
        result
    }

    /// Feeds `tokens` to `slot` in chunks. Returns the wanted logits of all of them.
    ///
    /// # Errors
    /// As for [`Engine::forward`]; the context is checked for all tokens before the first chunk.
    pub fn prefill(&mut self, slot: usize, tokens: &[u32], want: Want) -> Result<Vec<f32>, Error> {
        self.check_feed(&Feed::new(slot, tokens, want))?;
        let mut logits = Vec::new();
        let mut rest = tokens;
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(rest.len().min(self.config.chunk));
            rest = after;
            let want = match want {
                Want::Last if !rest.is_empty() => Want::Nothing,
                other => other,
            };
            logits.extend(self.forward(&[Feed::new(slot, chunk, want)])?);
        }
        Ok(logits)
    }

    /// Decides about the tokens that a deferred feed put on trial: the first `count` of them become
    /// a part of the sequence, the others never were. No state is copied for it: the slot's next
    /// window enters the accepted tokens first.
    ///
    /// # Errors
    /// [`Error::NoSlot`]; [`Error::BadDecision`] for more tokens than there are on trial.
    pub fn decide(&mut self, slot: usize, count: usize) -> Result<(), Error> {
        self.check_slot(slot)?;
        let on_trial = self.slots.on_trial(slot);
        if count > on_trial {
            return Err(Error::BadDecision { slot, count, on_trial });
        }
        self.slots.decide(slot, count);
        if let Some(mtp) = &mut self.mtp {
            mtp.decide(slot, count);
        }
        Ok(())
    }

    /// Lays out window, tokens, table rows and wanted rows of checked feeds.
    fn arrange(&mut self, feeds: &[Feed<'_>]) {
        self.window.clear();
        self.tokens.clear();
        self.ngrams.clear();
        self.wanted.clear();
        for feed in feeds {
            self.drafted[feed.slot].clear();
            let history = self.slots.tokens(feed.slot);
            let (row, len) = (self.window.rows(), feed.tokens.len());
            self.window.push_run(self.slots.run(feed.slot, row, len, feed.commit));
            self.tokens.extend_from_slice(feed.tokens);
            let rows = self.window.rows();
            match feed.want {
                Want::Nothing => {}
                Want::Last => self.wanted.push(rows - 1),
                Want::All => self.wanted.extend(rows - feed.tokens.len()..rows),
            }
            let Some(ple) = &self.hp.ple else { continue };
            // The hash looks back over at most `ngram - 1` ids: of the history, then of the feed.
            self.before.clear();
            self.before.extend(&history[history.len().saturating_sub(ple.ngram)..]);
            for &token in feed.tokens {
                ngram::rows(ple, &ngram::context(ple, &self.before, token), &mut self.row_ids);
                self.ngrams.extend_from_slice(&self.row_ids);
                self.before.push(token);
            }
        }
    }

    fn run(&mut self, probe: &mut dyn Probe, logits: &mut LogitRows) -> Result<(), Error> {
        let mut pass = Pass {
            backend: &mut self.backend,
            weights: &self.weights,
            routing: routing(&self.hp, &self.config),
            slots: &mut self.slots,
            scratch: &mut self.scratch,
            window: &self.window,
            reads: &mut self.reads,
        };
        let result = pass
            .trunk(&self.tokens, &self.ngrams, probe)
            .and_then(|()| pass.head((&self.wanted, &self.draws), self.hp.vocab, logits));
        self.logit_counts.add(logits);
        // Asked in any case, so that no later window is told of this one's fault.
        let fault = self.backend.check();
        result.and(fault.map_err(Error::from))
    }

    pub(crate) fn check_slot(&self, slot: usize) -> Result<(), Error> {
        let slots = self.slots.count();
        if slot < slots { Ok(()) } else { Err(Error::NoSlot { slot, slots }) }
    }

    fn check_feed(&self, feed: &Feed<'_>) -> Result<(), Error> {
        self.check_slot(feed.slot)?;
        if self.slots.is_broken(feed.slot) {
            return Err(Error::SlotBroken { slot: feed.slot });
        }
        if self.slots.on_trial(feed.slot) > 0 {
            return Err(Error::Undecided { slot: feed.slot });
        }
        if feed.tokens.is_empty() {
            return Err(Error::NoTokens);
        }
        let (rows, limit) = (feed.tokens.len(), self.config.deferred);
        if feed.commit == Commit::Deferred && rows > limit {
            return Err(Error::TooManyDeferred { rows, limit });
        }
        let vocab = self.hp.vocab;
        if let Some(&token) = feed.tokens.iter().find(|&&t| t as usize >= vocab) {
            return Err(Error::TokenOutOfRange { token, vocab });
        }
        let tokens = self.slots.tokens(feed.slot).len() + feed.tokens.len();
        let context = self.config.context;
        if tokens > context { Err(Error::ContextFull { tokens, context }) } else { Ok(()) }
    }

    fn check_feeds(&self, feeds: &[Feed<'_>]) -> Result<(), Error> {
        if feeds.is_empty() {
            return Err(Error::NoTokens);
        }
        for (i, feed) in feeds.iter().enumerate() {
            self.check_feed(feed)?;
            if feeds[..i].iter().any(|other| other.slot == feed.slot) {
                return Err(Error::SlotTwice { slot: feed.slot });
            }
        }
        let rows = feeds.iter().map(|f| f.tokens.len()).sum();
        let limit = self.config.chunk;
        if rows > limit { Err(Error::WindowTooLong { rows, limit }) } else { Ok(()) }
    }
}

/// How experts are chosen.
pub(crate) fn routing(hp: &HyperParams, config: &EngineConfig) -> Routing {
    let choice = MoeChoice { experts: hp.moe.experts, used: hp.moe.used };
    Routing { choice, dials: config.dials }
}
