//! The plan for people: a table of what takes how much where, and what that comes to.

use engine::EngineConfig;
use engine::memory::{MemoryPlan, Placement, Size};

use crate::args::Chosen;
use crate::memory::Planned;
use crate::model_file::ModelFile;
use crate::table::{Side, table};
use crate::units;

/// Something that takes memory.
struct Row {
    what: String,
    bytes: u64,
    home: String,
}

/// Where the model's parts live.
#[derive(Clone, Copy)]
struct Homes {
    /// What every token needs.
    weights: &'static str,
    states: &'static str,
}

/// The whole report; `placed` is where the routed experts live, if everything fits.
pub(super) fn text(file: &ModelFile, planned: &Planned, placed: Option<Placement>) -> String {
    let EngineConfig { slots, context, chunk, kv, .. } = planned.plan.config;
    let slots = units::count(slots, "slot");
    let sizes = format!("{slots} of {context} tokens, keys and values in {kv}, chunks of {chunk}");
    let rows = rows(planned, placed);
    let cells = |row: &Row| vec![row.what.clone(), Size(row.bytes).to_string(), row.home.clone()];
    let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let columns = [("what", Side::Left), ("takes", Side::Right), ("where", Side::Left)];
    let mut text = format!("{}: {sizes}\n\n{}\n", file.name(), table(&columns, &cells));
    for line in limits(planned, placed) {
        text += &format!("{line}\n");
    }
    text + &verdict(planned, placed) + "\n"
}

/// What takes memory.
fn rows(planned: &Planned, placed: Option<Placement>) -> Vec<Row> {
    let MemoryPlan { weights, states, buffers, divided, table_cache, program, config } =
        &planned.plan;
    let homes = match planned.on {
        Chosen::Gpu => Homes { weights: "GPU", states: "GPU" },
        // As --repack says and memory allows, which is looked at weight by weight at load.
        Chosen::Cpu if placed == Some(Placement::Mapped) => {
            Homes { weights: "mapped file, or copied to RAM", states: "RAM" }
        }
        Chosen::Cpu | Chosen::Reference => Homes { weights: "mapped file", states: "RAM" },
    };
    let experts = match placed {
        Some(Placement::Stored { cache_bytes }) => format!("file; {} in RAM", Size(cache_bytes)),
        Some(Placement::Split { device_bytes, cache_bytes }) => {
            let beside = match cache_bytes {
                Some(bytes) => format!("file, {} in RAM", Size(bytes)),
                None => "mapped file".to_owned(),
            };
            format!("{} on GPU; {beside}", Size(device_bytes))
        }
        // In their formats of the file: what the least is stands in the error.
        None if planned.on != Chosen::Gpu => "file, in part in RAM".to_owned(),
        None => "GPU, or in part beside it".to_owned(),
        _ => homes.weights.to_owned(),
    };
    let row = |what: &str, bytes: u64, home: &str| {
        let (what, home) = (what.to_owned(), home.to_owned());
        Row { what, bytes, home }
    };
    let divided = if is_split(placed) { *divided } else { 0 };
    let of_slots = |what: &str| match config.slots {
        1 => what.to_owned(),
        slots => format!("{what}, {slots} slots"),
    };
    let mut rows = vec![
        row("dense weights", weights.dense, homes.weights),
        row("norms and taps, decoded", weights.vectors, homes.states),
        row(&of_slots("recurrent states"), states.recurrent, homes.states),
        row(&of_slots("keys and values"), states.keys_values, homes.states),
        row(&of_slots("index keys"), states.index_keys, homes.states),
        row(&of_slots("drafting block's states"), states.drafting, homes.states),
        row("buffers of a window", *buffers, homes.states),
        row("buffers beside the GPU", divided, "RAM"),
        row("n-gram rows kept", *table_cache, "RAM"),
        row("program and vocabulary", *program, "RAM"),
        row("routed experts", weights.experts.bytes, &experts),
        row("n-gram table", weights.table, "file, read on demand"),
    ];
    rows.retain(|row| row.bytes > 0);
    rows
}

/// What there is, and what is needed of it.
fn limits(planned: &Planned, placed: Option<Placement>) -> Vec<String> {
    let plan = &planned.plan;
    let ram = match planned.ram {
        Some(limit) => limit.to_string(),
        None => "not limited, as the system does not say what is free".to_owned(),
    };
    let mut lines = Vec::new();
    match planned.on {
        Chosen::Gpu => {
            let vram = match planned.vram {
                Some(limit) => limit.to_string(),
                None => "what the GPU gives".to_owned(),
            };
            let (all, least) = (Size(plan.on_device()), Size(plan.smallest_on_device()));
            lines.push(format!("GPU:     {vram}; {all} needed, {least} without routed experts"));
            lines.push(format!("memory:  {ram}; {} needed", Size(beside(plan, placed))));
        }
        Chosen::Cpu | Chosen::Reference => {
            lines.push(format!("memory:  {ram}"));
            let (fixed, whole) = (Size(plan.fixed()), Size(plan.whole()));
            lines.push(format!("needed:  {fixed} without routed experts, {whole} with all"));
            lines.extend(room_for_experts(planned));
        }
    }
    let room = planned.room;
    let found = [("system", room.free), ("container", room.container), ("ulimit", room.process)];
    let found = found.iter().filter_map(|(name, bytes)| Some((name, (*bytes)?)));
    let found: Vec<String> = found.map(|(name, bytes)| format!("{name} {}", Size(bytes))).collect();
    if !found.is_empty() {
        lines.push(format!("left:    {}", found.join(", ")));
    }
    lines
}

/// Whether experts are on the GPU and beside it.
fn is_split(placed: Option<Placement>) -> bool {
    matches!(placed, Some(Placement::Split { .. }))
}

/// Bytes of memory that are needed beside a GPU, or used where not all experts have room there.
pub(super) fn beside(plan: &MemoryPlan, placed: Option<Placement>) -> u64 {
    let fixed = plan.beside_device();
    match placed {
        Some(Placement::Split { device_bytes, cache_bytes }) => {
            let experts = cache_bytes.unwrap_or_else(|| plan.weights.experts.beside(device_bytes));
            fixed.saturating_add(plan.divided).saturating_add(experts)
        }
        _ => fixed,
    }
}

/// What the limit leaves for experts.
fn room_for_experts(planned: &Planned) -> Option<String> {
    let limit = planned.ram?.bytes;
    let left = limit.checked_sub(planned.plan.fixed())?;
    let experts = &planned.plan.weights.experts;
    let count = experts.count();
    // What is mapped needs no room between experts.
    let held = if limit >= planned.plan.whole() { count } else { experts.held(left) };
    let share = units::percent(held as f64 / count.max(1) as f64);
    let (held, count) = (units::grouped(held), units::grouped(count));
    Some(format!("experts: {} left for {held} of {count} ({share})", Size(left)))
}

/// What that comes to.
pub(super) fn verdict(planned: &Planned, placed: Option<Placement>) -> String {
    let Some(placed) = placed else { return "The model does not fit.".to_owned() };
    match placed {
        Placement::Mapped => "Everything fits: the model runs from memory.".to_owned(),
        Placement::Split { device_bytes, cache_bytes } => {
            let experts = &planned.plan.weights.experts;
            let held = experts.held_on_device(device_bytes);
            let share = units::percent(held as f64 / experts.count().max(1) as f64);
            let others = match cache_bytes {
                Some(_) => "read from the file when they are used",
                None => "in memory",
            };
            format!(
                "What every token needs fits on the GPU, and {share} of the experts; the others are \
                 {others}, and the processors multiply them."
            )
        }
        Placement::Stored { cache_bytes } => {
            let experts = &planned.plan.weights.experts;
            let share = experts.held(cache_bytes) as f64 / experts.count().max(1) as f64;
            format!(
                "What every token needs fits, and {} of the experts; the others are read from the \
                 file when they are used.",
                units::percent(share)
            )
        }
        Placement::Device if planned.vram.is_none() => {
            "Whether it fits, the GPU says when it is loaded; --vram sets a limit.".to_owned()
        }
        Placement::Device => "Everything fits on the GPU.".to_owned(),
    }
}
