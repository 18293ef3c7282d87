//! From metadata to [`PleParams`]: the keys of the hashed n-gram features.

use crate::error::Error;
use crate::hparams::PleParams;
use crate::keys::{Blocks, Keys, full, missing};
use crate::sizes::{MAX_HEAD_DIM, MAX_HEADS, MAX_KERNEL, MAX_NGRAM};

/// Keys of which any one says that a file means to describe n-gram features.
const GROUP: [&str; 4] =
    ["ple.layers", "ple.ngram_size", "ple.head_vocab_sizes", "ple.layer_multipliers"];

/// Reads the `ple.*` group; None if the file has none of it or lists no layer.
pub(crate) fn read_ple(keys: &Keys<'_>, blocks: Blocks) -> Result<Option<PleParams>, Error> {
    if !GROUP.iter().any(|key| keys.has(key)) {
        return Ok(None);
    }
    let Some(layer) = read_layer(keys, blocks)? else { return Ok(None) };
    let ngram = keys.required("ple.ngram_size", 2..=MAX_NGRAM)?;
    let heads_per_ngram = keys.required("ple.heads_per_ngram", 1..=MAX_HEADS)?;
    let heads = (ngram - 1) * heads_per_ngram;
    let eos = read_id(keys, "ple.eos_token_id")?.ok_or_else(|| missing("ple.eos_token_id"))?;
    let ple = PleParams {
        layer,
        ngram,
        heads_per_ngram,
        conv_kernel: keys.required("ple.conv_kernel", 1..=MAX_KERNEL)?,
        dilation: ngram,
        row_width: keys.required("embedding_length_per_layer_input", 1..=MAX_HEAD_DIM)?,
        eos,
        image: read_id(keys, "ple.image_token_id")?.unwrap_or(eos),
        multipliers: keys.u64s("ple.layer_multipliers", ngram)?,
        offsets: keys.u64s("ple.head_offsets", heads)?,
        sizes: keys.u64s("ple.head_vocab_sizes", heads)?,
    };
    check_heads(&ple)?;
    Ok(Some(ple))
}

/// The one layer that owns the features; None if the list is empty.
fn read_layer(keys: &Keys<'_>, blocks: Blocks) -> Result<Option<usize>, Error> {
    let key = "ple.layers";
    let layers = keys.integers(key)?.ok_or_else(|| missing(key))?;
    let layer = match layers.as_slice() {
        [] => return Ok(None),
        [layer] => *layer,
        several => {
            return Err(Error::Unsupported {
                what: format!("a model with {} PLE layers (ple.layers)", several.len()),
                hint: "only one layer may own n-gram features".to_owned(),
            });
        }
    };
    match usize::try_from(layer) {
        Ok(layer) if layer < blocks.trunk => Ok(Some(layer)),
        _ => {
            let expected = format!("the trunk has layers 0 to {}", blocks.trunk - 1);
            Err(Error::value(full(key), layer, expected))
        }
    }
}

fn read_id(keys: &Keys<'_>, key: &str) -> Result<Option<u32>, Error> {
    // The range of `optional` keeps the number inside u32.
    let id = keys.optional(key, 0..=u32::MAX as usize)?;
    Ok(id.and_then(|id| u32::try_from(id).ok()))
}

/// Sizes divide a hash, and the end of each head must be a row number.
fn check_heads(ple: &PleParams) -> Result<(), Error> {
    for (head, (offset, size)) in ple.offsets.iter().zip(&ple.sizes).enumerate() {
        let sizes = full("ple.head_vocab_sizes");
        if *size == 0 {
            let expected = format!("head {head} must have at least one row");
            return Err(Error::value(sizes, size, expected));
        }
        if offset.checked_add(*size).is_none() {
            let expected = format!("head {head} starts at row {offset}, so its end overflows");
            return Err(Error::value(sizes, size, expected));
        }
    }
    Ok(())
}
