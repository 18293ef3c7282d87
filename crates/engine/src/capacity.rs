//! Which contexts can be held: by the model, and by memory. Both are asked before anything is
//! loaded.

use crate::shapes::qsa_shape;
use crate::{EngineConfig, Error};
use kernels::QsaShape;
use kernels::host::available_memory;
use kernels::rope::RopeScaling;
use model::{HyperParams, LayerKind};

/// Bytes that a token of a sequence takes in the caches of all attention layers.
pub fn token_bytes(hp: &HyperParams, config: &EngineConfig) -> u64 {
    let mtp = (config.mtp.is_some() && hp.mtp_layers > 0)
        .then_some(LayerKind::Attention { block: hp.mtp_block });
    let kinds = hp.layers.iter().copied().chain(mtp);
    let attention = kinds.filter(|kind| *kind != LayerKind::Gdn);
    let of_layer = |shape: QsaShape| {
        let raw = (size_of::<f32>() * shape.index_dim) as u64;
        let index = raw.checked_div(shape.block as u64).map_or(0, |pooled| raw + pooled);
        2 * config.kv.bytes(shape.kv_dim()) as u64 + index
    };
    attention.map(|kind| of_layer(qsa_shape(hp, kind, RopeScaling::None))).sum()
}

/// What an engine takes of the memory of a device that has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Bytes in all.
    pub used: u64,
    /// Of these, bytes that the weights took, as the device lays them out.
    pub weights: u64,
}

/// Refuses a context that the model does not reach, or that memory could not hold even if the model
/// itself took none. (Its file is mapped: what it takes can be given back.)
pub(crate) fn check_context(hp: &HyperParams, config: &EngineConfig) -> Result<(), Error> {
    check_reach(hp, config)?;
    let Some(available) = available_memory() else { return Ok(()) };
    check_memory(config, token_bytes(hp, config), available)
}

/// Refuses a context that the model does not reach.
pub(crate) fn check_reach(hp: &HyperParams, config: &EngineConfig) -> Result<(), Error> {
    let (context, limit) = (config.context, config.rope_scaling.reach(hp.context));
    if context > limit {
        let scale = context.div_ceil(hp.context.max(1));
        return Err(Error::ContextTooLong { context, limit, scale });
    }
    Ok(())
}

fn check_memory(config: &EngineConfig, token_bytes: u64, available: u64) -> Result<(), Error> {
    let EngineConfig { context, slots, .. } = *config;
    let per_position = token_bytes.saturating_mul(slots as u64);
    let bytes = per_position.saturating_mul(context as u64);
    match available.checked_div(per_position) {
        Some(fits) if bytes > available => {
            Err(Error::ContextMemory { context, slots, bytes, fits })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_that_memory_cannot_hold_is_refused_with_what_would_fit() {
        let config = EngineConfig { slots: 2, context: 1000, ..EngineConfig::default() };
        assert!(check_memory(&config, 512, 2 * 512 * 1000).is_ok());
        let result = check_memory(&config, 512, 2 * 512 * 999 + 17);
        let Err(Error::ContextMemory { context: 1000, slots: 2, bytes, fits: 999 }) = result else {
            panic!("{result:?}");
        };
        assert_eq!(bytes, 1_024_000);
        assert!(check_memory(&config, 0, 0).is_ok());
        assert!(check_memory(&config, u64::MAX, 1 << 40).is_err());
    }
}
