//! The plan as JSON: bytes, all of them.

use engine::memory::{MemoryLimit, MemoryPlan, Placement};
use serde_json::{Value, json};

use super::report::{beside, verdict};
use crate::args::Chosen;
use crate::memory::Planned;
use crate::model_file::ModelFile;

/// The whole plan; `placed` is where the routed experts live, if everything fits.
pub(super) fn report(file: &ModelFile, planned: &Planned, placed: Option<Placement>) -> Value {
    let MemoryPlan { weights, states, buffers, table_cache, program, config, .. } = &planned.plan;
    let (plan, experts, room) = (&planned.plan, &weights.experts, &planned.room);
    let on_gpu = planned.on == Chosen::Gpu;
    json!({
        "model": file.path.display().to_string(),
        "backend": match planned.on {
            Chosen::Cpu => "cpu",
            Chosen::Gpu => "gpu",
            Chosen::Reference => "reference",
        },
        "slots": config.slots,
        "context": config.context,
        "chunk": config.chunk,
        "kv": config.kv.name(),
        "drafting_block": config.mtp.is_some() && states.drafting > 0,
        "dense": weights.dense,
        "vectors": weights.vectors,
        "experts": {
            "bytes": experts.bytes,
            "layers": experts.layers,
            "per_layer": experts.per_layer,
            "used": experts.used,
            "count": experts.count(),
            "largest": experts.largest,
            "least": experts.least,
        },
        "table": weights.table,
        "states": {
            "recurrent": states.recurrent,
            "keys_values": states.keys_values,
            "index_keys": states.index_keys,
            "drafting": states.drafting,
        },
        "buffers": buffers,
        "table_cache": table_cache,
        "program": program,
        "ram": if on_gpu {
            json!({"needed": beside(plan, placed), "limit": limit(planned.ram)})
        } else {
            json!({
                "fixed": plan.fixed(),
                "smallest": plan.smallest(),
                "whole": plan.whole(),
                "limit": limit(planned.ram),
            })
        },
        "vram": on_gpu.then(|| {
            json!({
                "needed": plan.on_device(),
                "smallest": plan.smallest_on_device(),
                "limit": limit(planned.vram),
            })
        }),
        "room": {"system": room.free, "container": room.container, "ulimit": room.process},
        "placement": placed.map(|placed| placement(plan, placed)),
        "fits": placed.is_some(),
        "verdict": verdict(planned, placed),
    })
}

fn limit(limit: Option<MemoryLimit>) -> Value {
    limit.map_or(
        Value::Null,
        |MemoryLimit { bytes, source }| json!({"bytes": bytes, "source": source.name()}),
    )
}

fn placement(plan: &MemoryPlan, placed: Placement) -> Value {
    let experts = &plan.weights.experts;
    match placed {
        Placement::Device => json!({"experts": "gpu", "held": experts.count()}),
        Placement::Mapped => json!({"experts": "mapped", "held": experts.count()}),
        Placement::Split { device_bytes, cache_bytes } => json!({
            "experts": "split",
            "device_bytes": device_bytes,
            "held": experts.held_on_device(device_bytes),
            "cache_bytes": cache_bytes,
        }),
        Placement::Stored { cache_bytes } => json!({
            "experts": "stored",
            "cache_bytes": cache_bytes,
            "held": experts.held(cache_bytes),
        }),
    }
}
