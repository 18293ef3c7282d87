//! What a model and an engine of some sizes take of memory, known before anything is loaded.
//!
//! - `weights`: what of the file has to be held, and what can be read when it is needed.
//! - `states`: what sequences take, with caches that are full.
//! - `buffers`: what a window takes.
//! - `limit`: how much may be taken, and who says so.
//! - `place`: what that comes to: where the routed experts live, or an error with what would do.
//!
//! Everything follows from the tensors' sizes and the settings; no weight is looked at.

mod buffers;
mod limit;
mod place;
mod states;
mod weights;

pub use limit::{LimitSource, MemoryLimit, Ram};
pub use place::{Needed, Placement, Shortfall};
pub use states::StateBytes;
pub(crate) use weights::expert as expert_bytes;
pub use weights::{ExpertBytes, WeightBytes};

use crate::{EngineConfig, Error};
use model::{Checkpoint, HyperParams, Tensor};
use std::fmt;

/// Rows of the n-gram table that were read are kept up to so many bytes.
const MOST_TABLE_CACHE: u64 = 64 << 20;

/// Bytes that the program takes without any model: its code, threads, allocator.
const PROGRAM: u64 = 48 << 20;

/// Bytes that the vocabulary takes for each token: names, merges and the tables to find them by.
/// One of 248,320 tokens takes 126 MB at most, while it is read.
const PER_TOKEN: u64 = 512;

/// Bytes of memory that a model takes, by what for.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryPlan {
    /// Of the weights.
    pub weights: WeightBytes,
    /// Of the states of all slots.
    pub states: StateBytes,
    /// Activations of the longest window, logits, and what kernels work in.
    pub buffers: u64,
    /// What the processors take of memory besides if a device leaves experts to them.
    pub divided: u64,
    /// Rows of the n-gram table that are kept once they were read.
    pub table_cache: u64,
    /// The program itself, with vocabulary and chat template.
    pub program: u64,
    /// The sizes that this is for.
    pub config: EngineConfig,
}

impl MemoryPlan {
    /// The plan for weights as they lie in the file.
    ///
    /// # Errors
    /// [`Error::BadSetting`], [`Error::ContextTooLong`].
    pub fn new(checkpoint: &Checkpoint, config: &EngineConfig) -> Result<Self, Error> {
        Self::with_sizes(checkpoint, config, &|tensor| tensor.bytes.len() as u64)
    }

    /// The plan for a device on which a tensor takes the bytes that `size` says.
    ///
    /// # Errors
    /// As for [`MemoryPlan::new`].
    pub fn with_sizes(
        checkpoint: &Checkpoint,
        config: &EngineConfig,
        size: &dyn Fn(&Tensor) -> u64,
    ) -> Result<Self, Error> {
        config.check()?;
        crate::capacity::check_reach(&checkpoint.hp, config)?;
        let has_block = config.mtp.is_some() && checkpoint.mtp.is_some();
        let hp = &HyperParams { mtp_layers: usize::from(has_block), ..checkpoint.hp.clone() };
        let weights = WeightBytes::of(checkpoint, has_block, size);
        Ok(Self {
            states: StateBytes::of(checkpoint, hp, config),
            buffers: buffers::bytes(hp, config),
            divided: buffers::divided(hp, config),
            table_cache: weights.table.min(MOST_TABLE_CACHE),
            program: PROGRAM + PER_TOKEN * hp.vocab as u64,
            weights,
            config: *config,
        })
    }

    /// Bytes that are needed whatever experts are held: all but those, and the n-gram table.
    pub fn fixed(&self) -> u64 {
        let WeightBytes { dense, vectors, .. } = self.weights;
        sum([dense, vectors, self.states.all(), self.buffers, self.table_cache, self.program])
    }

    /// Bytes with all experts in memory.
    pub fn whole(&self) -> u64 {
        self.fixed().saturating_add(self.weights.experts.bytes)
    }

    /// The fewest bytes that the model runs with.
    pub fn smallest(&self) -> u64 {
        self.fixed().saturating_add(self.weights.experts.least)
    }

    /// Bytes on a device that holds everything but the n-gram table.
    pub fn on_device(&self) -> u64 {
        let WeightBytes { dense, vectors, experts, .. } = &self.weights;
        sum([*dense, *vectors, experts.bytes, self.states.all(), self.buffers])
    }

    /// Bytes on a device without any routed expert: the fewest that it works with.
    pub fn smallest_on_device(&self) -> u64 {
        self.on_device().saturating_sub(self.weights.experts.bytes)
    }

    /// Bytes of memory beside such a device.
    pub fn beside_device(&self) -> u64 {
        sum([self.table_cache, self.program])
    }
}

fn sum<const N: usize>(parts: [u64; N]) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

/// The product of sizes, at most what a number holds.
fn product<const N: usize>(factors: [usize; N]) -> u64 {
    factors.into_iter().fold(1, |product: u64, factor| product.saturating_mul(factor as u64))
}

/// Bytes as people read memory: `1.50 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut value, mut unit) = (self.0 as f64, "B");
        for next in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
            // What would be rounded to 1024 of a unit is 1 of the next.
            if value < 1023.5 {
                break;
            }
            (value, unit) = (value / 1024.0, next);
        }
        let decimals = match value {
            _ if unit == "B" => 0,
            value if value < 9.995 => 2,
            value if value < 99.95 => 1,
            _ => 0,
        };
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_and_a_unit() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10 << 20, "10.0 MiB"),
            ((1 << 30) - 1, "1.00 GiB"),
            (3 << 29, "1.50 GiB"),
            (200 << 30, "200 GiB"),
            (u64::MAX, "16384 PiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(Size(bytes).to_string(), text);
        }
        assert_eq!(format!("{:>9}", Size(1024)), " 1.00 KiB");
    }

    #[test]
    fn sums_and_products_end_at_the_largest_number() {
        assert_eq!(sum([u64::MAX, 1, 2]), u64::MAX);
        assert_eq!(product([usize::MAX, usize::MAX, 4]), u64::MAX);
        assert_eq!(product([3, 0, usize::MAX]), 0);
    }
}
