//! The texts: files of the repository, and a story that the model tells itself.

use super::Error;
use cpu::Cpu;
use engine::speculation::NoDrafts;
use engine::{Engine, Generator, Request, SamplingParams};
use gguf::Gguf;
use model::tokenizer::{SpecialTokens, Tokenizer};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Files of the repository that seldom change.
const FILES: [&str; 3] = ["LICENSE-APACHE", "models/sample/README.md", "docs/qwen4exp.md"];

pub(crate) struct Text {
    pub(crate) name: String,
    pub(crate) tokens: Vec<u32>,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The first `count` tokens of each of `files`; without files, of [`FILES`] and a story.
pub(crate) fn read(
    file: &Gguf,
    files: &[PathBuf],
    count: usize,
    engine: &mut Engine<Cpu>,
) -> Result<Vec<Text>, Error> {
    let tokenizer = Tokenizer::from_metadata(file.metadata())?;
    let from_file = |name: String, path: &Path| -> Result<Text, Error> {
        let text = std::fs::read_to_string(path)?;
        let mut tokens = tokenizer.encode(&text, SpecialTokens::AsText)?;
        tokens.truncate(count);
        Ok(Text { name, tokens })
    };
    if !files.is_empty() {
        return files.iter().map(|path| from_file(path.display().to_string(), path)).collect();
    }
    let mut texts = Vec::new();
    for name in FILES {
        texts.push(from_file(name.to_owned(), &root().join(name))?);
    }
    let tokens = story(&tokenizer, count, engine)?;
    texts.push(Text { name: "story by the model itself".to_owned(), tokens });
    Ok(texts)
}

/// Drawn at temperature 1 from the model as `engine` computes it; it never ends by itself.
fn story(tokenizer: &Tokenizer, count: usize, engine: &mut Engine<Cpu>) -> Result<Vec<u32>, Error> {
    let prompt = tokenizer.encode("Once upon a time", SpecialTokens::AsText)?;
    let logit_bias = tokenizer.stop_ids().iter().map(|&id| (id, -1e9)).collect();
    let sampling = SamplingParams { temperature: 1.0, seed: 1, logit_bias, ..Default::default() };
    let max_tokens = Some(count.saturating_sub(prompt.len()));
    let request = Request { prompt: &prompt, max_tokens, sampling, ..Request::default() };
    let mut generator = Generator { engine, slot: 0, tokenizer, proposer: &mut NoDrafts };
    let told = generator.generate(&request, &mut |_| ControlFlow::Continue(()))?;
    Ok([prompt, told.tokens].concat())
}
