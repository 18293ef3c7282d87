//! The Markdown tables.

use super::{CHUNK, Drift};
use crate::texts::Text;
use cpu::Isa;
use kernels::{Activations, KvType};
use lab::divergence::{Divergence, Summary};
use model::{HyperParams, LayerKind};

fn name(activations: Activations) -> &'static str {
    match activations {
        Activations::F32 => "f32",
        Activations::Int8 => "int8",
    }
}

pub(crate) fn fixtures_heading(model: &str) {
    println!("{model}, against the f32 logits in its fixtures:\n");
    println!(
        "| activations | prompt | tokens | mean KL | max KL | same top | largest difference |"
    );
    println!("|---|---|---|---|---|---|---|");
}

pub(crate) fn fixture(activations: Activations, prompt: &str, rows: &[Divergence]) {
    let Summary { positions, mean, max, same_top, largest, .. } = Summary::of(rows);
    let activations = name(activations);
    print!("| {activations} | {prompt} | {positions} | {mean:.1e} | {max:.1e} ");
    println!("| {same_top:.4} | {largest:.1e} |");
}

/// One row per text, and one for all of them.
pub(crate) fn texts(heading: &str, texts: &[Text], drifts: &[Drift]) {
    println!("\n{heading}:\n");
    println!("| text | tokens | mean KL | p99 | max | same top | perplexity, f32 | ratio |");
    println!("|---|---|---|---|---|---|---|---|");
    for (Text { name, .. }, drift) in texts.iter().zip(drifts) {
        text(name, &drift.positions);
    }
    let all: Vec<Divergence> = drifts.iter().flat_map(|d| &d.positions).copied().collect();
    text("all", &all);
}

fn text(name: &str, rows: &[Divergence]) {
    let Summary { positions, mean, mean_error, p99, max, same_top, .. } = Summary::of(rows);
    let Summary { perplexity, ratio, ratio_error, .. } = Summary::of(rows);
    let mean = format!("{mean:.2e} +- {mean_error:.1e}");
    print!("| {name} | {positions} | {mean} | {p99:.2e} | {max:.2e} | {same_top:.4} ");
    println!("| {perplexity:.2} | {ratio:.4} +- {ratio_error:.4} |");
}

/// What a table of rounded keys and values is of.
pub(crate) fn kv_heading(kv: KvType, activations: Activations) -> String {
    format!("keys and values in {kv} against f32, {} activations", name(activations))
}

/// Bytes that a token takes in the caches of the model's attention layers.
pub(crate) fn kv_sizes(hp: &HyperParams) {
    println!("\nBytes of a token in the caches of all attention layers:\n");
    println!("| type | keys and values | index keys, raw and pooled (f32) |");
    println!("|---|---|---|");
    let blocks = hp.layers.iter().filter_map(|kind| match kind {
        LayerKind::Attention { block } => Some(*block),
        LayerKind::Gdn => None,
    });
    let blocks: Vec<usize> = blocks.collect();
    let raw = size_of::<f32>() * hp.indexer.head_dim;
    let index = blocks.iter().filter(|&&block| block > 0).map(|block| raw + raw / block);
    let index: usize = index.sum();
    for kv in KvType::ALL {
        let bytes = 2 * kv.bytes(hp.attn.kv_heads * hp.attn.head_dim) * blocks.len();
        println!("| {kv} | {bytes} | {index} |");
    }
}

/// One row per window: all texts at these positions, and their states at the window's end.
pub(crate) fn positions(drifts: &[Drift]) {
    println!("\nThe same over position, all texts together:\n");
    println!("| positions | mean KL | p99 | max | same top | state difference |");
    println!("|---|---|---|---|---|---|");
    let windows = drifts.iter().map(|d| d.states.len()).min().unwrap_or(0);
    for w in 0..windows {
        let window = |d: &Drift| d.positions.chunks(CHUNK).nth(w).unwrap_or(&[]).to_vec();
        let rows: Vec<Divergence> = drifts.iter().flat_map(window).collect();
        let Summary { mean, mean_error, p99, max, same_top, .. } = Summary::of(&rows);
        let state = drifts.iter().map(|d| d.states[w]).sum::<f64>() / drifts.len() as f64;
        let (first, last) = (w * CHUNK, (w + 1) * CHUNK - 1);
        let mean = format!("{mean:.2e} +- {mean_error:.1e}");
        print!("| {first} to {last} | {mean} | {p99:.2e} | {max:.2e} | {same_top:.4} ");
        println!("| {state:.2e} |");
    }
}

pub(crate) fn instruction_sets_heading(widest: Isa) {
    println!("\nInstruction sets against {}, all texts together:\n", widest.name());
    println!(
        "| activations | instruction set | mean KL | max KL | same top | largest difference |"
    );
    println!("|---|---|---|---|---|---|");
}

pub(crate) fn instruction_set(isa: Isa, activations: Activations, rows: &[Divergence]) {
    let Summary { mean, max, same_top, largest, .. } = Summary::of(rows);
    let (isa, activations) = (isa.name(), name(activations));
    println!("| {activations} | {isa} | {mean:.1e} | {max:.1e} | {same_top:.4} | {largest:.1e} |");
}
