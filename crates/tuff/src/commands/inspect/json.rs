//! The report as JSON.

use gguf::{Array, Value as Meta};
use model::{HyperParams, LayerKind, Role};
use serde_json::{Map, Value, json};

use super::check::{BadTensor, Checked};
use super::report::{PartSize, Report, Row, bits_per_weight};

/// Longest array that is written in full.
const FULL: usize = 64;
/// Elements shown of a longer one.
const FIRST: usize = 8;

/// The whole report.
pub(crate) fn report(report: &Report<'_>, checked: Option<&Checked>) -> Value {
    let gguf = &report.file.gguf;
    let metadata = gguf.metadata().iter().map(|(key, value)| (key.to_owned(), meta(value)));
    let files: Vec<String> = gguf.parts().iter().map(|p| p.display().to_string()).collect();
    let bytes = report.bytes();
    let mut json = json!({
        "files": files,
        "file_bytes": gguf.file_bytes(),
        "version": gguf.version(),
        "alignment": gguf.alignment(),
        "summary": report.summary,
        "drafting_block": report.has_drafting_block(),
        "weights": report.weights(),
        "weight_bytes": bytes,
        "bits_per_weight": bits_per_weight(bytes, report.weights()),
        "metadata": metadata.collect::<Map<_, _>>(),
        "hyper_parameters": report.hp.as_ref().map(hyper_parameters),
        "tensors": report.tensors.iter().map(tensor).collect::<Vec<_>>(),
        "parts": report.parts.iter().map(|size| part(size, bytes)).collect::<Vec<_>>(),
        "warnings": report.warnings,
        "faults": report.faults,
    });
    if let Some(checked) = checked {
        json["check"] = json!({
            "tensors": checked.tensors,
            "skipped": checked.skipped,
            "bad": checked.bad.iter().map(bad).collect::<Vec<_>>(),
        });
    }
    json
}

fn tensor(row: &Row<'_>) -> Value {
    json!({
        "name": row.info.name,
        "role": row.role.map(Role::short_name),
        "part": row.part.map(|part| part.name()),
        "type": row.info.ty.name(),
        "shape": row.info.dims,
        "bytes": row.info.bytes,
        "file": row.info.part,
        "offset": row.info.offset,
    })
}

fn part(size: &PartSize, total: u64) -> Value {
    let share = if total == 0 { 0.0 } else { size.bytes as f64 / total as f64 };
    json!({
        "part": size.name(),
        "tensors": size.tensors,
        "weights": size.weights,
        "bytes": size.bytes,
        "share": share,
        "bits_per_weight": bits_per_weight(size.bytes, size.weights),
    })
}

fn bad(bad: &BadTensor) -> Value {
    json!({
        "tensor": bad.name,
        "rows": bad.rows,
        "bad_rows": bad.bad_rows,
        "first": {"row": bad.first_row, "block": bad.block, "field": bad.field},
    })
}

fn hyper_parameters(hp: &HyperParams) -> Value {
    let kinds: Vec<Value> = hp.layers.iter().map(|kind| layer(*kind)).collect();
    let (attn, indexer, gdn, moe) = (&hp.attn, &hp.indexer, &hp.gdn, &hp.moe);
    json!({
        "layers": kinds,
        "mtp_layers": hp.mtp_layers,
        "embd": hp.embd,
        "vocab": hp.vocab,
        "context": hp.context,
        "rms_eps": hp.rms_eps,
        "attention": {
            "heads": attn.heads,
            "kv_heads": attn.kv_heads,
            "head_dim": attn.head_dim,
            "rope_dims": attn.rope_dims,
            "rope_base": attn.rope_base,
            "rope_sections": attn.rope_sections,
        },
        "indexer": {
            "heads": indexer.heads,
            "head_dim": indexer.head_dim,
            "budget": indexer.budget,
        },
        "gdn": {
            "key_heads": gdn.key_heads,
            "value_heads": gdn.value_heads,
            "head_dim": gdn.head_dim,
            "conv_kernel": gdn.conv_kernel,
        },
        "moe": {
            "experts": moe.experts,
            "used": moe.used,
            "expert_ff": moe.expert_ff,
            "shared_ff": moe.shared_ff,
        },
        "hyper_connections": {"streams": hp.hc.streams, "rank": hp.hc.rank},
        "ngram": hp.ple.as_ref().map(|ple| json!({
            "layer": ple.layer,
            "ngram": ple.ngram,
            "heads_per_ngram": ple.heads_per_ngram,
            "conv_kernel": ple.conv_kernel,
            "dilation": ple.dilation,
            "row_width": ple.row_width,
            "rows": ple.rows_needed(),
        })),
        "sampling": hp.sampling.map(|sampling| json!({
            "temperature": sampling.temp,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
        })),
        "fixed_state_bytes": hp.fixed_state_bytes(),
        "deferred_row_bytes": hp.deferred_row_bytes(),
        "kv_bytes_per_token": hp.kv_bytes_per_token(size_of::<f32>()),
    })
}

fn layer(kind: LayerKind) -> Value {
    match kind {
        LayerKind::Gdn => Value::from("gdn"),
        LayerKind::Attention { block: 0 } => Value::from("attention"),
        LayerKind::Attention { block } => json!({"sparse_attention": {"block": block}}),
    }
}

/// A metadata value; numbers that JSON lacks become strings.
fn meta(value: &Meta) -> Value {
    match value {
        Meta::Str(text) => Value::from(text.as_str()),
        Meta::Bool(flag) => Value::from(*flag),
        Meta::F32(number) => float(f64::from(*number)),
        Meta::F64(number) => float(*number),
        Meta::Array(array) => list(array),
        other => other.as_integer().map_or(Value::Null, integer),
    }
}

fn list(array: &Array) -> Value {
    let shown = if array.len() <= FULL { array.len() } else { FIRST };
    let items = elements(array, shown);
    if shown == array.len() {
        return Value::from(items);
    }
    json!({"array": array.element_type().name(), "length": array.len(), "first": items})
}

/// The first elements of an array.
fn elements(array: &Array, count: usize) -> Vec<Value> {
    match array {
        Array::Str(items) => items.iter().take(count).map(|s| Value::from(s.as_str())).collect(),
        Array::Bool(items) => items.iter().take(count).map(|&b| Value::from(b)).collect(),
        Array::F32(items) => items.iter().take(count).map(|&v| float(f64::from(v))).collect(),
        Array::F64(items) => items.iter().take(count).map(|&v| float(v)).collect(),
        other => other.integers().into_iter().flatten().take(count).map(integer).collect(),
    }
}

fn integer(number: i128) -> Value {
    let signed = i64::try_from(number).map(Value::from);
    signed.or_else(|_| u64::try_from(number).map(Value::from)).unwrap_or(Value::Null)
}

fn float(number: f64) -> Value {
    if number.is_finite() { Value::from(number) } else { Value::from(number.to_string()) }
}
