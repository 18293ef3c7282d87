//! Which routed experts a device holds that has no room for all of them.
//!
//! The device and whoever multiplies the others round differently. So the choice is made once,
//! before a model is loaded, and is a part of what tells engines apart whose states may be
//! exchanged: what is cached, and what a text wants, never changes it.

use crate::fingerprint::{self, Fingerprint};
use crate::memory::expert_bytes;
use crate::stores::DraftingBlock;
use model::{Checkpoint, Moe, Tensor};
use std::fmt;
use store::Profile;

/// Experts of every layer, in the device's own memory or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpertSplit {
    /// By layer and expert; the drafting block is the last layer, if it is loaded.
    layers: Vec<Vec<bool>>,
}

impl ExpertSplit {
    /// As many experts as fit into `bytes`, with tensors of a size that `size` says: those that
    /// earlier runs wanted most, if there is a list of the same model, then the first ones of every
    /// layer.
    pub fn new(
        checkpoint: &Checkpoint,
        block: DraftingBlock,
        (bytes, size): (u64, &dyn Fn(&Tensor) -> u64),
        hot: Option<&Profile>,
    ) -> Self {
        let layers = layers(checkpoint, block);
        let sizes: Vec<u64> = layers.iter().map(|moe| expert_bytes(moe, size)).collect();
        let counts: Vec<usize> = layers.iter().map(|moe| moe.down.experts).collect();
        let mut held: Vec<Vec<bool>> = counts.iter().map(|&count| vec![false; count]).collect();
        let mut left = bytes;
        for (layer, expert) in order(&counts, hot.filter(|hot| hot.model == number(checkpoint))) {
            if sizes[layer] <= left && !held[layer][expert] {
                left -= sizes[layer];
                held[layer][expert] = true;
            }
        }
        Self { layers: held }
    }

    /// Experts that the device holds.
    pub fn held(&self) -> usize {
        self.layers.iter().flatten().filter(|held| **held).count()
    }

    /// All experts.
    pub fn count(&self) -> usize {
        self.layers.iter().map(Vec::len).sum()
    }

    /// Which experts of a layer the device holds.
    pub(crate) fn layer(&self, layer: usize) -> Option<&[bool]> {
        self.layers.get(layer).map(Vec::as_slice)
    }
}

/// For a fingerprint: which experts are held, and nothing else.
impl fmt::Display for ExpertSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut print = Fingerprint::new();
        for layer in &self.layers {
            print.add_number(layer.len());
            layer.iter().for_each(|&held| print.add(&[u8::from(held)]));
        }
        write!(f, "split {:016x}", print.number())
    }
}

/// A name for files about the weights of a model, whatever the device and its settings.
pub fn number(checkpoint: &Checkpoint) -> u64 {
    fingerprint::of_model(checkpoint, "experts").number()
}

fn layers(checkpoint: &Checkpoint, block: DraftingBlock) -> Vec<&Moe> {
    let drafting = block.filter(checkpoint).map(|mtp| &mtp.layer);
    checkpoint.layers.iter().chain(drafting).map(|layer| &layer.moe).collect()
}

/// Layers and experts in the order in which there is to be room for them.
fn order(counts: &[usize], hot: Option<&Profile>) -> Vec<(usize, usize)> {
    let all: Vec<(usize, usize)> =
        counts.iter().enumerate().flat_map(|(n, &count)| (0..count).map(move |e| (n, e))).collect();
    // A list that was made without the drafting block, or with it, is of use for the others.
    let hot = hot.iter().flat_map(|hot| hot.hottest());
    let mut order: Vec<_> = hot.filter_map(|number| all.get(number as usize).copied()).collect();
    let most = counts.iter().copied().max().unwrap_or(0);
    let evenly = (0..most).flat_map(|e| (0..counts.len()).map(move |n| (n, e)));
    order.extend(evenly.filter(|&(n, e)| e < counts[n]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_come_first_and_then_the_first_of_every_layer() {
        let evenly = [(0, 0), (1, 0), (0, 1), (1, 1), (1, 2)];
        assert_eq!(order(&[2, 3], None), evenly);
        // The last number is of no layer here.
        let hot = Profile { model: 1, uses: vec![0, 2, 0, 9, 0, 7] };
        let found = order(&[2, 3], Some(&hot));
        assert_eq!(found[..2], [(1, 1), (0, 1)]);
        assert_eq!(found[2..], evenly);
    }

    #[test]
    fn splits_are_told_apart() {
        let of = |layers: &[&[bool]]| {
            let layers = layers.iter().map(|layer| layer.to_vec()).collect();
            ExpertSplit { layers }.to_string()
        };
        let one = of(&[&[true, false], &[true]]);
        assert_eq!(one, of(&[&[true, false], &[true]]));
        for other in [&[&[true, true][..], &[false]][..], &[&[true], &[false, true]], &[&[true]]] {
            assert_ne!(one, of(other));
        }
    }
}
