//! The memory plan of a model where it is to run, under the limits that are set or found.

use engine::memory::{MemoryLimit, MemoryPlan, Placement, Size};
use engine::store::Profile;
use engine::{DraftingBlock, EngineConfig, ExpertSplit};
use kernels::host::MemoryRoom;
use model::{Checkpoint, Purpose, Tensor};

use crate::args::{Chosen, DeviceArgs};
use crate::error::Error;

/// What is needed, what may be taken, and where.
#[derive(Debug)]
pub(crate) struct Planned {
    /// What is needed, in the formats of the place where it runs.
    pub(crate) plan: MemoryPlan,
    /// Where the model runs.
    pub(crate) on: Chosen,
    /// What the system leaves.
    pub(crate) room: MemoryRoom,
    /// What may be taken of memory.
    pub(crate) ram: Option<MemoryLimit>,
    /// What may be taken of the GPU's memory; `None` where only the GPU itself knows.
    pub(crate) vram: Option<MemoryLimit>,
}

impl Planned {
    /// The plan for an engine of these sizes.
    ///
    /// # Errors
    /// [`Error::Engine`] for sizes that the model does not have.
    pub(crate) fn new(
        checkpoint: &Checkpoint,
        device: &DeviceArgs,
        config: &EngineConfig,
    ) -> Result<Planned, Error> {
        let (on, room) = (device.backend(), MemoryRoom::now());
        let (plan, mapped) = match on {
            Chosen::Gpu => (MemoryPlan::with_sizes(checkpoint, config, &on_gpu)?, 0),
            Chosen::Cpu | Chosen::Reference => {
                let plan = MemoryPlan::new(checkpoint, config)?;
                let mapped = plan.weights.dense;
                (plan, mapped)
            }
        };
        let ram = MemoryLimit::resolve(device.memory.ram(), &room, mapped);
        let vram = device.memory.vram();
        let mut planned = Planned { plan, on, room, ram, vram };
        let taken = planned.saved_states(device.memory.saved_states());
        planned.ram = ram.map(|ram| MemoryLimit { bytes: ram.bytes - taken.min(ram.bytes), ..ram });
        Ok(planned)
    }

    /// Of the `asked` bytes for saved states of earlier texts, those that they may take.
    fn saved_states(&self, asked: u64) -> u64 {
        match self.on {
            Chosen::Gpu => self.plan.saved_states_beside(self.vram, self.ram, asked),
            Chosen::Cpu | Chosen::Reference => self.plan.saved_states(self.ram, asked),
        }
    }

    /// Where the routed experts live.
    ///
    /// # Errors
    /// [`Error::Engine`] with the smallest setting that would do, if it does not fit.
    pub(crate) fn place(&self) -> Result<Placement, Error> {
        Ok(match self.on {
            Chosen::Gpu => self.plan.place_on_device(self.vram, self.ram)?,
            Chosen::Cpu | Chosen::Reference => self.plan.place(self.ram)?,
        })
    }
}

/// Bytes of a tensor on the GPU. Vectors are decoded there, which the plan counts by itself.
fn on_gpu(tensor: &Tensor) -> u64 {
    if tensor.role.purpose() == Purpose::Vector {
        return 0;
    }
    let rows = tensor.n_out.saturating_mul(tensor.experts);
    // A type without a kernel there is refused when it is loaded.
    gpu::weight_bytes(tensor.ty, tensor.n_in, rows).unwrap_or(tensor.bytes.len() as u64)
}

/// Of the `mib` MiB for saved states of earlier texts, the bytes that are left for them beside the
/// model. The model is to be loaded with [`DeviceArgs::with_saved_states`] then.
///
/// # Errors
/// [`Error::Engine`] for sizes that the model does not have.
pub(crate) fn saved_states(
    checkpoint: &Checkpoint,
    device: &DeviceArgs,
    config: &EngineConfig,
    mib: u32,
) -> Result<u64, Error> {
    let asked = u64::from(mib) << 20;
    let given = Planned::new(checkpoint, device, config)?.saved_states(asked);
    if given < asked {
        tracing::info!("prompt cache: {} of {}, for lack of memory", Size(given), Size(asked));
    }
    Ok(given)
}

/// Where a model's weights will live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The experts.
    pub(crate) placement: Placement,
    /// Bytes of rows of the n-gram table that are kept, where the rest of it is left in the file;
    /// always where experts are.
    pub(crate) table: Option<u64>,
}

impl Placed {
    /// Whether the GPU holds a part of the experts.
    pub(crate) fn is_split(&self) -> bool {
        self.placement.device_bytes().is_some()
    }
}

/// Looks where a model's weights will live, before it is loaded.
///
/// # Errors
/// [`Error::Engine`] with the smallest setting that would do, if it does not fit.
pub(crate) fn placement(
    checkpoint: &Checkpoint,
    device: &DeviceArgs,
    config: &EngineConfig,
) -> Result<Placed, Error> {
    let planned = Planned::new(checkpoint, device, config)?;
    if planned.on == Chosen::Gpu && !config.dials.is_exact() {
        let what = "--prefer-resident and --window-experts";
        return Err(Error::Refused(format!("{what} need --backend cpu: a GPU chooses by itself")));
    }
    let placement = planned.place()?;
    let plan = &planned.plan;
    let all = &plan.weights.experts;
    let stored = |bytes| format!("{} for {} of {}", Size(bytes), all.held(bytes), all.count());
    let experts = match placement {
        Placement::Device => "all experts on the GPU".to_owned(),
        Placement::Mapped => "all experts".to_owned(),
        Placement::Stored { cache_bytes } => format!("{} experts", stored(cache_bytes)),
        Placement::Split { device_bytes, cache_bytes } => {
            let beside = cache_bytes.map_or("others in memory".to_owned(), |bytes| {
                format!("others read from the file, with {} in memory", stored(bytes))
            });
            format!("{} for experts on the GPU, {beside}", Size(device_bytes))
        }
    };
    let (need, limit) = match placement {
        Placement::Device => (plan.on_device(), planned.vram),
        Placement::Split { .. } => (plan.smallest_on_device(), planned.vram),
        Placement::Mapped | Placement::Stored { .. } => (plan.fixed(), planned.ram),
    };
    let limit = limit.map_or("no limit".to_owned(), |limit| format!("at most {limit}"));
    tracing::info!("memory: {} and {experts}; {limit}", Size(need));
    // The table counts for nothing in the plan: it is read, or lies in memory that nothing else
    // needs.
    let with_table = plan.whole().saturating_add(plan.weights.table);
    let apart = match placement {
        Placement::Mapped => planned.ram.is_some_and(|ram| ram.bytes < with_table),
        _ => placement.cache_bytes().is_some(),
    };
    Ok(Placed { placement, table: apart.then_some(plan.table_cache) })
}

/// Which experts the GPU holds, where it does not hold all of them: those that earlier runs wanted
/// most come first, if `hot` tells them.
pub(crate) fn split(
    checkpoint: &Checkpoint,
    config: &EngineConfig,
    placed: &Placed,
    hot: Option<&Profile>,
) -> Option<ExpertSplit> {
    let bytes = placed.placement.device_bytes()?;
    let split = ExpertSplit::new(checkpoint, DraftingBlock::of(config), (bytes, &on_gpu), hot);
    let (held, count) = (split.held(), split.count());
    let why = if hot.is_some() { ", those that earlier runs wanted most" } else { "" };
    tracing::info!("experts: {held} of {count} on the GPU{why}; {} beside it", count - held);
    Some(split)
}
