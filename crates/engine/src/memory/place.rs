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
    /// All on a device that has memory of its own.
    Device,
    /// Some on such a device, the others beside it.
    Split {
        /// Bytes for experts on the device.
        device_bytes: u64,
        /// Bytes of memory for the others, as in [`Placement::Stored`]; `None` is for all of them
        /// in the mapped file.
        cache_bytes: Option<u64>,
    },
}

impl Placement {
    /// Bytes of memory for experts that are read as they are wanted, if any are.
    pub fn cache_bytes(self) -> Option<u64> {
        match self {
            Self::Stored { cache_bytes } => Some(cache_bytes),
            Self::Split { cache_bytes, .. } => cache_bytes,
            Self::Mapped | Self::Device => None,
        }
    }

    /// Bytes for experts on a device that does not hold all of them.
    pub fn device_bytes(self) -> Option<u64> {
        match self {
            Self::Split { device_bytes, .. } => Some(device_bytes),
            Self::Mapped | Self::Stored { .. } | Self::Device => None,
        }
    }
}

/// Of what a limit leaves above the least that a model runs with, the part of saved states.
const STATES_SHARE: u64 = 8;

impl MemoryPlan {
    /// Of the `asked` bytes for saved states of earlier texts, those that they may take beside
    /// weights in memory or in a store: what is left where everything fits, and an eighth of what
    /// is not needed for any token where experts are read, of which more would be read otherwise.
    pub fn saved_states(&self, limit: Option<MemoryLimit>, asked: u64) -> u64 {
        let Some(MemoryLimit { bytes, .. }) = limit else { return asked };
        let left = match bytes.checked_sub(self.whole()) {
            Some(left) => left,
            None => bytes.saturating_sub(self.smallest()) / STATES_SHARE,
        };
        asked.min(left)
    }

    /// As [`MemoryPlan::saved_states`], beside a device that may take so much.
    pub fn saved_states_beside(
        &self,
        device: Option<MemoryLimit>,
        host: Option<MemoryLimit>,
        asked: u64,
    ) -> u64 {
        let Some(MemoryLimit { bytes, .. }) = host else { return asked };
        let fixed = self.beside_device().saturating_add(self.divided);
        let left = match self.place_on_device(device, host) {
            Ok(Placement::Split { cache_bytes: Some(cache_bytes), .. }) => {
                cache_bytes.saturating_sub(self.weights.experts.least) / STATES_SHARE
            }
            Ok(Placement::Split { device_bytes, .. }) => {
                let others = self.weights.experts.beside(device_bytes);
                bytes.saturating_sub(fixed.saturating_add(others))
            }
            _ => bytes.saturating_sub(self.beside_device()),
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
            _ => Err(self.shortfall(limit, Needed::Host, self.smallest())),
        }
    }

    /// Where the routed experts live with a device that has memory of its own, if so much may be
    /// taken of that and of the host's. What every token needs is all on the device.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`].
    pub fn place_on_device(
        &self,
        device: Option<MemoryLimit>,
        host: Option<MemoryLimit>,
    ) -> Result<Placement, Error> {
        let check = |limit: Option<MemoryLimit>, needed, bytes| match limit {
            Some(limit) if limit.bytes < bytes => Err(self.shortfall(limit, needed, bytes)),
            _ => Ok(()),
        };
        check(device, Needed::Device, self.smallest_on_device())?;
        let Some(device) = device.filter(|device| device.bytes < self.on_device()) else {
            check(host, Needed::Beside, self.beside_device())?;
            return Ok(Placement::Device);
        };
        let device_bytes = device.bytes - self.smallest_on_device();
        let experts = &self.weights.experts;
        let fixed = self.beside_device().saturating_add(self.divided);
        let others = experts.beside(device_bytes);
        let cache_bytes = match host {
            Some(host) if host.bytes < fixed.saturating_add(others) => {
                let least = fixed.saturating_add(experts.least.min(others));
                check(Some(host), Needed::Divided, least)?;
                Some(host.bytes - fixed)
            }
            _ => None,
        };
        Ok(Placement::Split { device_bytes, cache_bytes })
    }

    fn shortfall(&self, limit: MemoryLimit, needed: Needed, need: u64) -> Error {
        Error::MemoryLimit(Box::new(Shortfall { plan: self.clone(), limit, needed, need }))
    }
}

/// Which memory is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// That of the host, where the model runs.
    Host,
    /// That of the device.
    Device,
    /// That of the host beside a device that holds the model.
    Beside,
    /// That of the host beside a device that leaves experts to it.
    Divided,
}

impl Needed {
    /// The option that limits it.
    pub fn option(self) -> &'static str {
        match self {
            Self::Device => "--vram",
            Self::Host | Self::Beside | Self::Divided => "--ram",
        }
    }
}

/// A limit that is too low, and what would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortfall {
    /// What takes how much.
    pub plan: MemoryPlan,
    /// What may be taken.
    pub limit: MemoryLimit,
    /// Which memory it is.
    pub needed: Needed,
    /// The lowest limit that would do, in bytes.
    pub need: u64,
}

impl Shortfall {
    /// The lowest setting that would do: whole MiB, as the option takes them.
    pub fn setting(&self) -> String {
        format!("{} {}M", self.needed.option(), self.need.div_ceil(1 << 20))
    }

    /// The longest context with which all else would fit; `None` if none is that short, or the
    /// context is of no matter.
    pub fn context(&self) -> Option<usize> {
        if matches!(self.needed, Needed::Beside | Needed::Divided) {
            return None;
        }
        let StateBytes { keys_values, index_keys, .. } = self.plan.states;
        let context = self.plan.config.context;
        let per_token = (keys_values.saturating_add(index_keys) / context as u64).max(1);
        let over = self.need.saturating_sub(self.limit.bytes).div_ceil(per_token);
        context.checked_sub(usize::try_from(over).ok()?).filter(|&context| context > 0)
    }

    /// What is needed for what.
    fn parts(&self) -> Vec<(u64, String)> {
        let MemoryPlan { weights, states, buffers: window, divided, table_cache, program, config } =
            &self.plan;
        let WeightBytes { dense, vectors, experts, .. } = weights;
        let EngineConfig { slots, context, chunk, .. } = config;
        let sequences = match slots {
            1 => "a sequence".to_owned(),
            slots => format!("{slots} sequences"),
        };
        let dense = (dense.saturating_add(*vectors), "dense weights".to_owned());
        let states = (states.all(), format!("states of {sequences} of {context} tokens"));
        let buffers = |bytes| (bytes, format!("buffers for windows of {chunk}"));
        let experts = (experts.least, "the experts of a token".to_owned());
        let program = (program.saturating_add(*table_cache), "the program".to_owned());
        match self.needed {
            Needed::Host => vec![dense, states, buffers(*window), experts, program],
            Needed::Device => vec![dense, states, buffers(*window)],
            Needed::Beside => vec![program],
            Needed::Divided => {
                let rest = self.need.saturating_sub(program.0.saturating_add(*divided));
                vec![buffers(*divided), (rest, "experts beside the GPU".to_owned()), program]
            }
        }
    }

    /// What would do, and settings that need less.
    fn advice(&self) -> String {
        let EngineConfig { slots, kv, .. } = self.plan.config;
        let mut advice = match self.limit.source {
            LimitSource::Setting => format!("{} would do", self.setting()),
            // A larger setting finds no more memory than there is.
            _ => format!("{} would do if there were so much", self.setting()),
        };
        match self.needed {
            Needed::Host | Needed::Device => {}
            Needed::Beside => return advice,
            Needed::Divided => return advice + "; less is needed with a smaller --chunk",
        }
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
        let memory =
            if self.needed == Needed::Device { "of the GPU's memory" } else { "of memory" };
        write!(f, "the model needs {need} {memory} and may take {limit}")?;
        write!(f, " ({})", self.limit.source.why())?;
        let parts = self.parts();
        let parts: Vec<String> =
            parts.iter().map(|(bytes, what)| format!("{} {what}", Size(*bytes))).collect();
        write!(f, ": {}; {}", parts.join(", "), self.advice())
    }
}
