//! Weights that are read as windows want them: the routed experts and the n-gram table of a
//! checkpoint whose files are larger than the memory.

use crate::{EngineConfig, Error};
use kernels::stored::{ExpertSource, StoredExperts};
use model::{Checkpoint, ExpertStacks, Moe, Mtp, Purpose, Role, Tensor};
use std::path::Path;
use std::sync::Arc;
use store::{
    Counters, Disk, ExpertStore, FileDisk, LayerLayout, Layout, Matrices, Profile, Stack,
    StoreError, StoreOptions, TableLayout, TableStore, Way,
};

/// How weights are read that are not kept in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// Bytes for experts in memory; `None` leaves them to the mapped file.
    pub experts: Option<u64>,
    /// Bytes for rows of the n-gram table in memory.
    pub table: u64,
    /// Reads under way at once, at most.
    pub threads: usize,
    /// How bytes come from the disk.
    pub way: Way,
    /// Whether likely experts of the next layer are read ahead.
    pub ahead: Ahead,
}

/// Whether experts are read before a window has chosen them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Only when they are chosen.
    Never,
    /// Those that the next layer's router would choose from this layer's input.
    NextLayer,
}

impl Default for StoreSettings {
    fn default() -> Self {
        let (threads, way, ahead) = (8, Way::Direct, Ahead::NextLayer);
        Self { experts: None, table: 16 << 20, threads, way, ahead }
    }
}

/// What opens a file as a source of bytes.
pub type OpenDisk<'a> = dyn Fn(&Path) -> Result<Box<dyn Disk>, StoreError> + 'a;

/// The stores of a model that runs.
#[derive(Clone, Debug)]
pub struct Stores {
    experts: Option<Arc<ExpertStore>>,
    table: Option<Arc<TableStore>>,
    settings: StoreSettings,
    /// Of the checkpoint's weights, whatever the device and its settings.
    model: u64,
}

impl Stores {
    /// Opens the files of `checkpoint`; the experts of its drafting block are the last layer, if it
    /// is to be loaded.
    ///
    /// # Errors
    /// When a file cannot be opened or the memory is too small.
    pub fn open(
        checkpoint: &Checkpoint,
        block: DraftingBlock,
        settings: StoreSettings,
    ) -> Result<Self, Error> {
        let disk = |path: &Path| -> Result<Box<dyn Disk>, StoreError> {
            Ok(Box::new(FileDisk::open(path, settings.way)?))
        };
        Self::open_on(checkpoint, block, settings, &disk)
    }

    /// As [`Stores::open`], with `disk` to open a file: for tests with disks that fail.
    ///
    /// # Errors
    /// As [`Stores::open`].
    pub fn open_on(
        checkpoint: &Checkpoint,
        block: DraftingBlock,
        settings: StoreSettings,
        disk: &OpenDisk<'_>,
    ) -> Result<Self, Error> {
        let StoreSettings { experts, table, threads, .. } = settings;
        let used = checkpoint.hp.moe.used;
        let experts = match experts {
            Some(bytes) => {
                let options = StoreOptions { bytes, used, threads };
                let layout = layout(checkpoint, block)?;
                let disks = layout.files.iter().map(|path| disk(path)).collect::<Result<_, _>>()?;
                Some(Arc::new(ExpertStore::new(&layout, disks, options)?))
            }
            None => None,
        };
        let table = match &checkpoint.ngram {
            Some(tensor) => {
                let layout = table_layout(checkpoint, tensor)?;
                let disk = disk(&layout.path)?;
                Some(Arc::new(TableStore::new(&layout, disk, (table, threads))?))
            }
            None => None,
        };
        let model = crate::split::number(checkpoint);
        Ok(Self { experts, table, settings, model })
    }

    /// The experts, if they are read.
    pub fn experts(&self) -> Option<&ExpertStore> {
        self.experts.as_deref()
    }

    /// The n-gram table, if the model has one.
    pub fn table(&self) -> Option<&Arc<TableStore>> {
        self.table.as_ref()
    }

    /// How they were opened.
    pub fn settings(&self) -> StoreSettings {
        self.settings
    }

    /// What was done for experts so far.
    pub fn counters(&self) -> Counters {
        self.experts.as_ref().map(|experts| experts.counters()).unwrap_or_default()
    }

    /// Begins to read what earlier runs wanted most, as a file that [`Stores::save_profile`] wrote
    /// has it. Returns whether it is one of this model.
    ///
    /// # Errors
    /// When there is a file that cannot be read.
    pub fn warm(&self, path: &Path) -> Result<bool, Error> {
        if !path.exists() {
            return Ok(false);
        }
        let profile = Profile::load(path)?;
        match &self.experts {
            Some(experts) if profile.model == self.model => {
                experts.warm(&profile);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Writes how often experts were wanted, with what a file there says of earlier runs.
    ///
    /// # Errors
    /// When it cannot be written; a file that was there is as it was.
    pub fn save_profile(&self, path: &Path) -> Result<(), Error> {
        let Some(experts) = &self.experts else { return Ok(()) };
        let mut profile = experts.profile(self.model);
        if let Ok(earlier) = Profile::load(path) {
            profile.add_earlier(&earlier);
        }
        Ok(profile.save(path)?)
    }

    /// The experts of a layer, for a device.
    pub(crate) fn layer(&self, layer: usize) -> Option<StoredExperts> {
        let source: Arc<dyn ExpertSource> = self.experts.clone()?;
        Some(StoredExperts { source, layer })
    }

    /// Whether likely experts are read ahead.
    pub(crate) fn looks_ahead(&self) -> bool {
        self.experts.is_some() && self.settings.ahead == Ahead::NextLayer
    }

    /// Whether another handle reads from them, as an engine has.
    pub fn in_use(&self) -> bool {
        let count = self.experts.as_ref().map(Arc::strong_count);
        let table = self.table.as_ref().map(Arc::strong_count);
        count.max(table).is_some_and(|count| count > 1)
    }

    /// A name for files about this model's weights.
    pub fn model(&self) -> u64 {
        self.model
    }
}

/// Keeps the weights in memory that every token needs, where the system allows: all but the experts
/// and the n-gram table, which stores read. Those of a separate file of the drafting block are left
/// out.
///
/// # Errors
/// When the system does not allow it.
pub fn lock_dense(checkpoint: &Checkpoint, block: DraftingBlock) -> Result<gguf::Locked, Error> {
    let tensors = match (block, &checkpoint.mtp_file) {
        (DraftingBlock::Loaded, None) => checkpoint.tensors(),
        _ => checkpoint.trunk_tensors(),
    };
    let dense = tensors.into_iter().filter(|tensor| {
        tensor.role.purpose() != Purpose::Experts && tensor.role != Role::NgramTable
    });
    Ok(checkpoint.file.lock(dense.filter_map(|tensor| checkpoint.file.tensor(&tensor.name)))?)
}

/// Whether an engine has the drafting block of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftingBlock {
    /// It drafts with it.
    Loaded,
    /// It leaves it in the file.
    Left,
}

impl DraftingBlock {
    /// Of an engine of these sizes.
    pub fn of(config: &EngineConfig) -> Self {
        if config.mtp.is_some() { Self::Loaded } else { Self::Left }
    }

    /// The block of a checkpoint that has one, if it is loaded.
    pub(crate) fn filter(self, checkpoint: &Checkpoint) -> Option<&Mtp> {
        checkpoint.mtp.as_ref().filter(|_| self == Self::Loaded)
    }
}

/// Where the experts of a checkpoint lie.
///
/// # Errors
/// [`Error::NotInFile`] when the checkpoint was not read from files.
pub fn layout(checkpoint: &Checkpoint, block: DraftingBlock) -> Result<Layout, Error> {
    let mut files = checkpoint.file.parts().to_vec();
    let mut layers = Vec::new();
    for layer in &checkpoint.layers {
        layers.push(layer_layout(&checkpoint.file, 0, &layer.moe)?);
    }
    if let Some(mtp) = block.filter(checkpoint) {
        let (file, first) = match &checkpoint.mtp_file {
            Some(own) => (own, files.len()),
            None => (&checkpoint.file, 0),
        };
        layers.push(layer_layout(file, first, &mtp.layer.moe)?);
        if let Some(own) = &checkpoint.mtp_file {
            files.extend_from_slice(own.parts());
        }
    }
    Ok(Layout { files, layers })
}

/// Of a layer in `file`, whose first part is number `first` of all files.
fn layer_layout(file: &gguf::Gguf, first: usize, moe: &Moe) -> Result<LayerLayout, Error> {
    let stack = |tensor: &Tensor| -> Result<Stack, Error> {
        let (part, offset) = place(file, tensor)?;
        let expert_bytes = tensor.bytes.len() / tensor.experts.max(1);
        Ok(Stack { file: first + part, offset, expert_bytes })
    };
    let matrices = match &moe.experts {
        ExpertStacks::Separate { gate, up } => {
            Matrices::Separate([stack(gate)?, stack(up)?, stack(&moe.down)?])
        }
        ExpertStacks::Fused(both) => Matrices::Fused([stack(both)?, stack(&moe.down)?]),
    };
    Ok(LayerLayout { experts: moe.down.experts, matrices })
}

fn table_layout(checkpoint: &Checkpoint, table: &Tensor) -> Result<TableLayout, Error> {
    let (part, offset) = place(&checkpoint.file, table)?;
    let rows = table.n_out as u64;
    let row_bytes = table.bytes.len() / table.n_out.max(1);
    Ok(TableLayout { path: checkpoint.file.parts()[part].clone(), offset, row_bytes, rows })
}

/// Part and first byte of a tensor.
fn place(file: &gguf::Gguf, tensor: &Tensor) -> Result<(usize, u64), Error> {
    let info = file.tensor(&tensor.name);
    let info = info.ok_or_else(|| Error::NotInFile { name: tensor.name.clone() })?;
    Ok((info.part, file.file_offset(info)))
}
