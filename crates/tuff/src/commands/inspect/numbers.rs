//! The hyper-parameters in words.

use engine::speculation::MAX_DEPTH;
use kernels::KvType;
use model::{HyperParams, LayerKind};

use crate::columns::columns;
use crate::units;

/// One line for each family of numbers; `drafts` is what the file has to draft with.
pub(crate) fn hyper_parameters(hp: &HyperParams, drafts: &str) -> Vec<String> {
    let (attn, gdn, moe) = (&hp.attn, &hp.gdn, &hp.moe);
    let rows = [
        ("layers", layers(hp)),
        ("drafts", drafts.to_owned()),
        ("width", format!("{} in {} streams, mixer rank {}", hp.embd, hp.hc.streams, hp.hc.rank)),
        ("vocabulary", if hp.vocab == 0 { "unknown".to_owned() } else { hp.vocab.to_string() }),
        ("context", format!("{} tokens", hp.context)),
        (
            "attention",
            format!(
                "{} query heads, {} key/value heads of {}; {} features rotated, base {}",
                attn.heads, attn.kv_heads, attn.head_dim, attn.rope_dims, attn.rope_base
            ),
        ),
        ("indexer", indexer(hp)),
        (
            "Gated DeltaNet",
            format!(
                "{} key heads, {} value heads of {}; convolution of {} taps",
                gdn.key_heads, gdn.value_heads, gdn.head_dim, gdn.conv_kernel
            ),
        ),
        (
            "experts",
            format!(
                "{} of width {}, {} used per token, and one shared of width {}",
                moe.experts, moe.expert_ff, moe.used, moe.shared_ff
            ),
        ),
        ("n-grams", ngrams(hp)),
        ("sampling", sampling(hp)),
        (
            "state",
            format!(
                "{} per sequence, and {} per token for keys and values in f16; with drafts {} more \
                 per sequence",
                units::bytes(hp.fixed_state_bytes()),
                units::bytes(hp.kv_bytes_per_token(KvType::F16.bytes(1))),
                units::bytes((MAX_DEPTH as u64 + 1) * hp.deferred_row_bytes())
            ),
        ),
    ];
    columns(&rows.map(|(name, value)| vec![name.to_owned(), value]))
}

fn layers(hp: &HyperParams) -> String {
    let dense = |kind: &&LayerKind| matches!(kind, LayerKind::Attention { block: 0 });
    let dense = hp.layers.iter().filter(dense).count();
    let counts = [
        (hp.gdn_layers(), "Gated DeltaNet"),
        (hp.sparse_layers(), "sparse attention"),
        (dense, "dense attention"),
        (hp.mtp_layers, "MTP block"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let kinds: Vec<String> = counts.map(|(count, kind)| format!("{count} {kind}")).collect();
    format!("{}: {}", hp.layers.len() + hp.mtp_layers, kinds.join(", "))
}

fn indexer(hp: &HyperParams) -> String {
    let block = hp.layers.iter().find_map(|kind| match kind {
        LayerKind::Attention { block } if *block > 0 => Some(*block),
        _ => None,
    });
    match block {
        None => "none".to_owned(),
        Some(block) => format!(
            "{} heads of {}; budget of {} tokens in blocks of {block}",
            hp.indexer.heads, hp.indexer.head_dim, hp.indexer.budget
        ),
    }
}

fn ngrams(hp: &HyperParams) -> String {
    let Some(ple) = &hp.ple else { return "none".to_owned() };
    format!(
        "layer {}, up to {} tokens, {} heads each, {} rows of {}",
        ple.layer,
        ple.ngram,
        ple.heads_per_ngram,
        ple.rows_needed(),
        ple.row_width
    )
}

fn sampling(hp: &HyperParams) -> String {
    let Some(found) = hp.sampling else { return "no advice in the file".to_owned() };
    let named = [
        ("temperature", found.temp.map(|value| value.to_string())),
        ("top-k", found.top_k.map(|value| value.to_string())),
        ("top-p", found.top_p.map(|value| value.to_string())),
    ];
    let named = named.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?)));
    named.collect::<Vec<_>>().join(", ")
}
