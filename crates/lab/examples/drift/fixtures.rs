//! The fixture model with quantised weights, against logits that others computed in f32.

use super::{Error, Way, engine, tables};
use engine::Want;
use lab::divergence::Divergence;
use model::Checkpoint;
use serde_json::Value;
use std::path::Path;

const MODEL: &str = "quantmix";

/// Prints a row for every prompt and way.
pub(crate) fn against_reference(ways: &[Way]) -> Result<(), Error> {
    let folder = super::texts::root().join("fixtures/qwen4exp");
    let checkpoint = Checkpoint::load(&gguf::Gguf::open(folder.join(format!("{MODEL}.gguf")))?)?;
    tables::fixtures_heading(MODEL);
    for &way in ways {
        let mut engine = engine(&checkpoint, way, 512)?;
        let mut all = Vec::new();
        for (name, tokens) in prompts(&folder)? {
            engine.reset(0)?;
            let found = engine.prefill(0, &tokens, Want::All)?;
            let expected = std::fs::read(folder.join(format!("{MODEL}.{name}.logits.f32")))?;
            let expected = expected.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b));
            let expected: Vec<f32> = expected.collect();
            let vocab = checkpoint.hp.vocab;
            let rows = found.chunks_exact(vocab).zip(expected.chunks_exact(vocab));
            let rows: Vec<Divergence> = rows.map(|(a, b)| Divergence::of(a, b, None)).collect();
            tables::fixture(way.activations, &name, &rows);
            all.extend(rows);
        }
        tables::fixture(way.activations, "all", &all);
    }
    Ok(())
}

/// Names and tokens of the model's prompts.
fn prompts(folder: &Path) -> Result<Vec<(String, Vec<u32>)>, Error> {
    let manifest: Value = serde_json::from_slice(&std::fs::read(folder.join("manifest.json"))?)?;
    let models = manifest["models"].as_array().ok_or("the manifest lists models")?;
    let model = models.iter().find(|m| m["file"] == format!("{MODEL}.gguf"));
    let prompts = model.and_then(|m| m["prompts"].as_object()).ok_or("the model has prompts")?;
    let tokens = |prompt: &Value| serde_json::from_value(prompt["tokens"].clone());
    prompts.iter().map(|(name, prompt)| Ok((name.clone(), tokens(prompt)?))).collect()
}
