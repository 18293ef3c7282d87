//! How far 8-bit activations, the type of cached keys and values, and other instruction sets move
//! what a model predicts: the tables of docs/numerics.md.
//!
//! `cargo run --release -p lab --example drift [-- MODEL]`

mod fixtures;
mod tables;
mod texts;

use clap::Parser;
use cpu::{Cpu, CpuOptions, Isa};
use engine::{Engine, EngineConfig, Feed, Want};
use kernels::{Activations, KvType};
use lab::divergence::Divergence;
use model::Checkpoint;
use std::path::PathBuf;
use texts::Text;

/// What any part may end with.
type Error = Box<dyn std::error::Error>;

/// Tokens of a window, and of a row of the table over positions.
const CHUNK: usize = 64;

#[derive(Parser)]
struct Args {
    /// GGUF file; the sample model when left out.
    model: Option<PathBuf>,
    /// Text files; some of the repository's when left out.
    #[arg(long)]
    text: Vec<PathBuf>,
    /// Tokens of each text.
    #[arg(long, default_value_t = 1024)]
    tokens: usize,
    /// Only the table of 8-bit against f32 activations.
    #[arg(long)]
    brief: bool,
    /// Only the table of types of keys and values.
    #[arg(long)]
    kv: bool,
}

/// How a model is computed.
#[derive(Clone, Copy)]
struct Way {
    isa: Isa,
    activations: Activations,
    kv: KvType,
}

/// A model computed one way.
fn engine(checkpoint: &Checkpoint, way: Way, context: usize) -> Result<Engine<Cpu>, Error> {
    let Way { isa, activations, kv } = way;
    let cpu = Cpu::new(CpuOptions { isa, activations, ..CpuOptions::default() });
    let config = EngineConfig { slots: 1, context, chunk: CHUNK, kv, ..EngineConfig::default() };
    Ok(Engine::new(cpu, checkpoint, config, &mut |_| {})?)
}

/// The next window of slot 0, all its logits.
fn forward(engine: &mut Engine<Cpu>, tokens: &[u32]) -> Result<Vec<f32>, Error> {
    Ok(engine.forward(&[Feed::new(0, tokens, Want::All)])?)
}

/// Divergence at every position, and how far the states are apart after every window.
struct Drift {
    positions: Vec<Divergence>,
    states: Vec<f64>,
}

/// Feeds `tokens` to both engines, window by window.
fn drift(
    [found, expected]: [&mut Engine<Cpu>; 2],
    checkpoint: &Checkpoint,
    tokens: &[u32],
) -> Result<Drift, Error> {
    let vocab = checkpoint.hp.vocab;
    let mut drift = Drift { positions: Vec::new(), states: Vec::new() };
    found.reset(0)?;
    expected.reset(0)?;
    for window in tokens.chunks(CHUNK) {
        let (a, b) = (forward(found, window)?, forward(expected, window)?);
        for (a, b) in a.chunks_exact(vocab).zip(b.chunks_exact(vocab)) {
            let next = tokens.get(drift.positions.len() + 1).copied();
            drift.positions.push(Divergence::of(a, b, next));
        }
        drift.states.push(state_difference([found, expected], checkpoint.layers.len())?);
    }
    Ok(drift)
}

/// The same for each of `texts`.
fn drifts(
    [found, expected]: [&mut Engine<Cpu>; 2],
    checkpoint: &Checkpoint,
    texts: &[Text],
) -> Result<Vec<Drift>, Error> {
    let of_text = |text: &Text| drift([&mut *found, &mut *expected], checkpoint, &text.tokens);
    texts.iter().map(of_text).collect()
}

/// Rounded keys and values against f32, with both kinds of activations.
fn keys_and_values(
    checkpoint: &Checkpoint,
    exact: Way,
    texts: &[Text],
    context: usize,
) -> Result<(), Error> {
    tables::kv_sizes(&checkpoint.hp);
    for activations in [Activations::F32, Activations::Int8] {
        let base = Way { activations, ..exact };
        for kv in [KvType::F16, KvType::Q8_0] {
            let mut found = engine(checkpoint, Way { kv, ..base }, context)?;
            let mut expected = engine(checkpoint, base, context)?;
            let drifts = drifts([&mut found, &mut expected], checkpoint, texts)?;
            tables::texts(&tables::kv_heading(kv, activations), texts, &drifts);
        }
    }
    Ok(())
}

/// Norm of the difference of the delta-rule states of all layers, relative to their norm.
fn state_difference([found, expected]: [&mut Engine<Cpu>; 2], layers: usize) -> Result<f64, Error> {
    let (mut difference, mut norm) = (0.0, 0.0);
    for layer in 0..layers {
        if let (Some(a), Some(b)) = (found.export_gdn(layer, 0)?, expected.export_gdn(layer, 0)?) {
            for (a, b) in a.s.iter().zip(&b.s) {
                difference += f64::from(a - b).powi(2);
                norm += f64::from(*b).powi(2);
            }
        }
    }
    Ok((difference / norm).sqrt())
}

fn main() -> Result<(), Error> {
    let args = Args::parse();
    let exact = Way { isa: Isa::detect(), activations: Activations::F32, kv: KvType::F32 };
    let rounded = Way { activations: Activations::Int8, ..exact };
    if args.model.is_none() && !args.kv {
        fixtures::against_reference(&[exact, rounded])?;
    }
    let path = args.model.unwrap_or_else(|| texts::root().join("models/sample/sample.gguf"));
    let file = gguf::Gguf::open(&path)?;
    let checkpoint = Checkpoint::load(&file)?;
    let mut base = engine(&checkpoint, exact, args.tokens)?;
    let texts = texts::read(&file, &args.text, args.tokens, &mut base)?;

    if args.kv {
        return keys_and_values(&checkpoint, exact, &texts, args.tokens);
    }
    let mut found = engine(&checkpoint, rounded, args.tokens)?;
    let drifts = drifts([&mut found, &mut base], &checkpoint, &texts)?;
    tables::texts("int8 against f32 activations", &texts, &drifts);
    if args.brief {
        return Ok(());
    }
    tables::positions(&drifts);
    keys_and_values(&checkpoint, exact, &texts, args.tokens)?;

    tables::instruction_sets_heading(exact.isa);
    for activations in [Activations::F32, Activations::Int8] {
        let widest = Way { activations, ..exact };
        for isa in Isa::available().into_iter().filter(|&isa| isa != widest.isa) {
            let mut ways = [
                engine(&checkpoint, Way { isa, ..widest }, args.tokens)?,
                engine(&checkpoint, widest, args.tokens)?,
            ];
            let mut all = Vec::new();
            for Text { tokens, .. } in &texts {
                let [a, b] = &mut ways;
                all.extend(drift([a, b], &checkpoint, tokens)?.positions);
            }
            tables::instruction_set(isa, activations, &all);
        }
    }
    Ok(())
}
