//! The Markdown tables.

use super::{CHUNK, Drift};
use crate::texts::Text;
use cpu::Isa;
use kernels::Activations;
use lab::divergence::{Divergence, Summary};

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
pub(crate) fn texts(texts: &[Text], drifts: &[Drift]) {
    println!("\nint8 against f32 activations:\n");
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
