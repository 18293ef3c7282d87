//! Where the routed experts live, under a limit.

use super::{LimitSource, MemoryLimit, MemoryPlan, Size, StateBytes, WeightBytes};
use crate::{EngineConfig, Error};
use kernels::KvType;
use std::fmt;

/// Where the routed experts live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the mapped file, as all weights: there is memory for all of them.
    Mapped,
    /// In the file, and as many as there is room for in memory.
    Stored {
        /// Bytes for experts.
        cache_bytes: u64,
    },
}

/// Of what a limit leaves above the least that a model runs with, the part of saved states.
const STATES_SHARE: u64 = 8;

impl MemoryPlan {
    /// Of the `asked` bytes for saved states of earlier texts, those that they may take beside
    /// weights in memory or in a store: what is left where everything fits, and an eighth of what is
    /// not needed for any token where experts are read, of which more would be read otherwise.
    pub fn saved_states(&self, limit: Option<MemoryLimit>, asked: u64) -> u64 {
        let Some(MemoryLimit { bytes, .. }) = limit else { return asked };
        let left = match bytes.checked_sub(self.whole()) {
            Some(left) => left,
            None => bytes.saturating_sub(self.smallest()) / STATES_SHARE,
        };
        asked.min(left)
    }

    /// Where the routed experts live if so much memory may be taken.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`] if what is needed for any token does not fit.
    pub fn place(&self, limit: Option<MemoryLimit>) -> Result<Placement, Error> {
        let Some(limit) = limit.filter(|limit| limit.bytes < self.whole()) else {
            return Ok(Placement::Mapped);
        };
        match limit.bytes.checked_sub(self.fixed()) {
            Some(cache_bytes) if cache_bytes >= self.weights.experts.least => {
                Ok(Placement::Stored { cache_bytes })
            }
            _ => Err(self.shortfall(limit, "--ram", self.smallest())),
        }
    }

    /// Whether everything fits on a device that may take so much, and what stays beside it.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`].
    pub fn check_device(
        &self,
        device: Option<MemoryLimit>,
        host: Option<MemoryLimit>,
    ) -> Result<(), Error> {
        let sides = [(device, "--vram", self.on_device()), (host, "--ram", self.beside_device())];
        for (limit, option, need) in sides {
            if let Some(limit) = limit.filter(|limit| limit.bytes < need) {
                return Err(self.shortfall(limit, option, need));
            }
        }
        Ok(())
    }

    fn shortfall(&self, limit: MemoryLimit, option: &'static str, need: u64) -> Error {
        Error::MemoryLimit(Box::new(Shortfall { plan: self.clone(), limit, option, need }))
    }
}

/// A limit that is too low, and what would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortfall {
    /// What takes how much.
    pub plan: MemoryPlan,
    /// What may be taken.
    pub limit: MemoryLimit,
    /// The setting of the limit.
    pub option: &'static str,
    /// The lowest limit that would do, in bytes.
    pub need: u64,
}

impl Shortfall {
    /// The lowest setting that would do: whole MiB, as the option takes them.
    pub fn setting(&self) -> String {
        format!("{} {}M", self.option, self.need.div_ceil(1 << 20))
    }

    /// The longest context with which all else would fit; `None` if none is that short.
    pub fn context(&self) -> Option<usize> {
        let StateBytes { keys_values, index_keys, .. } = self.plan.states;
        let context = self.plan.config.context;
        let per_token = (keys_values.saturating_add(index_keys) / context as u64).max(1);
        let over = self.need.saturating_sub(self.limit.bytes).div_ceil(per_token);
        context.checked_sub(usize::try_from(over).ok()?).filter(|&context| context > 0)
    }

    /// What is needed for what.
    fn parts(&self) -> Vec<(u64, String)> {
        let MemoryPlan { weights, states, buffers, table_cache, program, config } = &self.plan;
        let WeightBytes { dense, vectors, experts, .. } = weights;
        let EngineConfig { slots, context, chunk, .. } = config;
        let sequences = match slots {
            1 => "a sequence".to_owned(),
            slots => format!("{slots} sequences"),
        };
        let on_device = self.option == "--vram";
        let experts = if on_device { experts.bytes } else { experts.least };
        let for_experts = if on_device { "experts" } else { "the experts of a token" };
        let mut parts = vec![
            (dense.saturating_add(*vectors), "dense weights".to_owned()),
            (states.all(), format!("states of {sequences} of {context} tokens")),
            (*buffers, format!("buffers for windows of {chunk}")),
            (experts, for_experts.to_owned()),
        ];
        if !on_device {
            parts.push((program.saturating_add(*table_cache), "the program".to_owned()));
        }
        parts
    }

    /// What would do, and settings that need less.
    fn advice(&self) -> String {
        let EngineConfig { slots, kv, .. } = self.plan.config;
        let mut advice = match self.limit.source {
            LimitSource::Setting => format!("{} would do", self.setting()),
            // A larger setting finds no more memory than there is.
            _ => format!("{} would do if there were so much", self.setting()),
        };
        let mut others = String::new();
        match self.context() {
            Some(context) => advice += &format!(", and so would --ctx {context}"),
            None => others += "a shorter --ctx, ",
        }
        if slots > 1 {
            others += "fewer --slots, ";
        }
        if kv != KvType::Q8_0 {
            others += "--kv q8_0, ";
        }
        format!("{advice}; less is needed with {others}a smaller --chunk")
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (need, limit) = (Size(self.need), Size(self.limit.bytes));
        let memory = if self.option == "--vram" { "of the GPU's memory" } else { "of memory" };
        write!(f, "the model needs {need} {memory} and may take {limit}")?;
        write!(f, " ({})", self.limit.source.why())?;
        let parts = self.parts();
        let parts: Vec<String> =
            parts.iter().map(|(bytes, what)| format!("{} {what}", Size(*bytes))).collect();
        write!(f, ": {}; {}", parts.join(", "), self.advice())
    }
}
