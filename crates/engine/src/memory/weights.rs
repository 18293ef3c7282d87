//! What weights take.

use crate::stores::{DraftingBlock, layout};
use model::{Checkpoint, ExpertStacks, Layer, Moe, Purpose, Role, Tensor};
use store::ExpertStore;

/// Bytes of a model's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightBytes {
    /// What every token needs: all but routed experts and the n-gram table.
    pub dense: u64,
    /// Norms, taps and such once more, decoded to f32.
    pub vectors: u64,
    /// Routed experts.
    pub experts: ExpertBytes,
    /// The n-gram table, of which single rows are read from the file.
    pub table: u64,
}

/// Bytes of the routed experts; an expert is its gate, up and down matrices in one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertBytes {
    /// Layers that have experts, the drafting block's among them.
    pub layers: usize,
    /// Experts of a layer.
    pub per_layer: usize,
    /// Experts of a layer that a token uses.
    pub used: usize,
    /// Bytes of all experts of all layers.
    pub bytes: u64,
    /// The same as they lie in the file.
    pub in_file: u64,
    /// Bytes of the largest expert: layers may have other formats.
    pub largest: u64,
    /// Bytes of the smallest store of experts that works: for those of a token that are multiplied
    /// with, and as many that are read meanwhile, of every size that experts have.
    pub least: u64,
    /// Bytes of a store that holds all.
    pub stored: u64,
}

impl WeightBytes {
    /// Of the trunk, and of the drafting block if it is loaded; a tensor takes what `size` says.
    pub(super) fn of(
        checkpoint: &Checkpoint,
        has_block: bool,
        size: &dyn Fn(&Tensor) -> u64,
    ) -> Self {
        let tensors = if has_block { checkpoint.tensors() } else { checkpoint.trunk_tensors() };
        let total = |wanted: &dyn Fn(Role) -> bool| -> u64 {
            tensors.iter().filter(|tensor| wanted(tensor.role)).map(|tensor| size(tensor)).sum()
        };
        let is_expert = |role: Role| role.purpose() == Purpose::Experts;
        let vectors = tensors.iter().filter(|tensor| tensor.role.purpose() == Purpose::Vector);
        let values: usize = vectors.map(|tensor| tensor.n_in * tensor.n_out).sum();
        let block = checkpoint.mtp.iter().filter(|_| has_block).map(|mtp| &mtp.layer);
        let layers: Vec<&Layer> = checkpoint.layers.iter().chain(block).collect();
        let drafting = if has_block { DraftingBlock::Loaded } else { DraftingBlock::Left };
        // A checkpoint in no file is all in memory, and nothing of it is read.
        let (least, stored) = match layout(checkpoint, drafting) {
            Ok(layout) => {
                let least = ExpertStore::least(&layout, checkpoint.hp.moe.used);
                (least, ExpertStore::most(&layout))
            }
            Err(_) => (total(&is_expert), total(&is_expert)),
        };
        let expert_tensors = tensors.iter().filter(|tensor| is_expert(tensor.role));
        let in_file = expert_tensors.map(|tensor| tensor.bytes.len() as u64).sum();
        let largest = layers.iter().map(|layer| expert(&layer.moe, size)).max().unwrap_or(0);
        Self {
            dense: total(&|role| !is_expert(role) && role != Role::NgramTable),
            vectors: (values * size_of::<f32>()) as u64,
            experts: ExpertBytes {
                layers: layers.len(),
                per_layer: checkpoint.hp.moe.experts,
                used: checkpoint.hp.moe.used,
                bytes: total(&is_expert),
                in_file,
                largest,
                least,
                stored,
            },
            table: checkpoint.ngram.as_ref().map_or(0, |table| table.bytes.len() as u64),
        }
    }
}

/// Bytes of one expert of a layer.
pub(crate) fn expert(moe: &Moe, size: &dyn Fn(&Tensor) -> u64) -> u64 {
    let one = |stack: &Tensor| size(stack).div_ceil(stack.experts.max(1) as u64);
    let inner = match &moe.experts {
        ExpertStacks::Separate { gate, up } => one(gate) + one(up),
        ExpertStacks::Fused(both) => one(both),
    };
    inner + one(&moe.down)
}

impl ExpertBytes {
    /// Experts of all layers.
    pub fn count(&self) -> u64 {
        (self.layers * self.per_layer) as u64
    }

    /// About how many experts a device holds in so many bytes.
    pub fn held_on_device(&self, device_bytes: u64) -> u64 {
        let share = device_bytes as f64 / self.bytes.max(1) as f64;
        (self.count() as f64 * share.min(1.0)) as u64
    }

    /// About how many bytes of the file those experts have that a device does not hold in so many
    /// bytes, and at least as many.
    pub fn beside(&self, device_bytes: u64) -> u64 {
        let others = 1.0 - (device_bytes as f64 / self.bytes.max(1) as f64).min(1.0);
        let bytes = (self.in_file as f64 * others) as u64;
        // Of every layer less than one expert's room may be left on the device.
        let more = self.largest.saturating_mul(self.layers as u64);
        bytes.saturating_add(more).min(self.in_file)
    }

    /// About how many experts a store of so many bytes holds.
    pub fn held(&self, cache_bytes: u64) -> u64 {
        let share = cache_bytes as f64 / self.stored.max(1) as f64;
        (self.count() as f64 * share.min(1.0)) as u64
    }
}
