//! From `tokenizer.json` and `tokenizer_config.json` to the tokenizer keys of a model file.

use std::fs;
use std::path::Path;

use gguf::{Array, Metadata};
use model::tokenizer::Tokenizer;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Error;
use super::config::Config;
use super::json::{self, Object};

/// The pre-tokenizer that the files' name `qwen35` stands for.
const PATTERN: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
    r"|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+",
    r"|\s+(?!\S)",
    r"|\s+",
);

/// Token types of a file.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

#[derive(Debug, Deserialize)]
struct TokenizerFile {
    #[serde(default)]
    added_tokens: Vec<Added>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    model: Bpe,
}

#[derive(Debug, Deserialize)]
struct Added {
    id: usize,
    content: String,
    #[serde(default)]
    special: bool,
}

#[derive(Debug, Deserialize)]
struct Bpe {
    r#type: String,
    vocab: Map<String, Value>,
    merges: Vec<Merge>,
}

/// Two spellings of the same.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Merge {
    Joined(String),
    Pair(String, String),
}

/// Adds the vocabulary of a folder, and its chat template. `size` is the number of rows of the
/// embedding; those without a token are marked unused.
///
/// # Errors
/// [`Error::NoTokenizer`], [`Error::Read`]; [`Error::Malformed`], also for a tokenizer of another
/// kind; [`Error::Tokenizer`] for a vocabulary that contradicts itself.
pub(crate) fn add(
    meta: &mut Metadata,
    folder: &Path,
    config: &Config,
    size: usize,
) -> Result<(), Error> {
    let path = folder.join("tokenizer.json");
    let Some(file) = json::read_if_there::<TokenizerFile>(&path)? else {
        return Err(Error::NoTokenizer { path });
    };
    let malformed = |reason| Error::Malformed { path: path.clone(), reason };
    check_kind(&file).map_err(malformed)?;
    let (tokens, types) = tokens(&file, size).map_err(malformed)?;
    let merges = file.model.merges.into_iter().map(|merge| match merge {
        Merge::Joined(text) => text,
        Merge::Pair(left, right) => format!("{left} {right}"),
    });
    let settings = folder.join("tokenizer_config.json");
    let settings =
        Object { map: json::read_if_there(&settings)?.unwrap_or_default(), path: settings };
    let ids = [
        ("bos", id(&settings, "bos_token", &tokens)?.or(config.token("bos_token_id")?)),
        ("eos", id(&settings, "eos_token", &tokens)?.or(config.token("eos_token_id")?)),
        ("padding", id(&settings, "pad_token", &tokens)?.or(config.token("pad_token_id")?)),
    ];
    meta.insert("tokenizer.ggml.model", "gpt2");
    meta.insert("tokenizer.ggml.pre", "qwen35");
    meta.insert("tokenizer.ggml.tokens", Array::Str(tokens));
    meta.insert("tokenizer.ggml.token_type", Array::I32(types));
    meta.insert("tokenizer.ggml.merges", Array::Str(merges.collect()));
    for (name, id) in ids.into_iter().filter_map(|(name, id)| Some((name, id?))) {
        meta.insert(format!("tokenizer.ggml.{name}_token_id"), id);
    }
    let bos = settings.get("add_bos_token").and_then(Value::as_bool).unwrap_or(false);
    meta.insert("tokenizer.ggml.add_bos_token", bos);
    if let Some(template) = chat_template(folder, &settings)? {
        meta.insert("tokenizer.chat_template", template.as_str());
    }
    Tokenizer::from_metadata(meta).map_err(|source| Error::Tokenizer { path, source })?;
    Ok(())
}

/// Only one kind can be named in a model file.
fn check_kind(file: &TokenizerFile) -> Result<(), String> {
    if file.model.r#type != "BPE" {
        return Err(format!("the model is {:?}, only BPE is supported", file.model.r#type));
    }
    let normalizer = file.normalizer.as_ref().and_then(|n| n.get("type")).and_then(Value::as_str);
    if normalizer != Some("NFC") {
        return Err("the normalizer is not NFC, which is the only supported one".to_owned());
    }
    let mut patterns = Vec::new();
    find_patterns(file.pre_tokenizer.as_ref(), &mut patterns);
    if patterns != [PATTERN] {
        return Err(format!(
            "the pre_tokenizer splits by {patterns:?}, only the pattern of qwen35 is supported"
        ));
    }
    Ok(())
}

/// The patterns of a pre-tokenizer, or of those that it is a sequence of.
fn find_patterns<'a>(pre_tokenizer: Option<&'a Value>, found: &mut Vec<&'a str>) {
    let Some(pre_tokenizer) = pre_tokenizer else { return };
    if let Some(parts) = pre_tokenizer.get("pretokenizers").and_then(Value::as_array) {
        // No deeper: a sequence holds no sequences.
        let patterns = parts.iter().filter_map(|part| part.get("pattern"));
        found.extend(patterns.filter_map(|pattern| pattern.get("Regex")?.as_str()));
    }
    found.extend(pre_tokenizer.get("pattern").and_then(|p| p.get("Regex")?.as_str()));
}

/// Texts and types by id.
fn tokens(file: &TokenizerFile, size: usize) -> Result<(Vec<String>, Vec<i32>), String> {
    let mut tokens: Vec<String> = (0..size).map(|id| format!("[PAD{id}]")).collect();
    let mut types = vec![UNUSED; size];
    let mut put = |text: &str, id: usize, ty: i32| {
        let (Some(token), Some(kind)) = (tokens.get_mut(id), types.get_mut(id)) else {
            return Err(format!("token {text:?} has the id {id}, the embedding has {size} rows"));
        };
        (*token, *kind) = (text.to_owned(), ty);
        Ok(())
    };
    for (text, id) in &file.model.vocab {
        let number = id.as_u64().and_then(|id| usize::try_from(id).ok());
        let id = number.ok_or_else(|| format!("token {text:?} has the id {id}"))?;
        put(text, id, NORMAL)?;
    }
    for added in &file.added_tokens {
        let ty = if added.special { CONTROL } else { USER_DEFINED };
        put(&added.content, added.id, ty)?;
    }
    Ok((tokens, types))
}

/// The id of a token that the settings name by its text.
fn id(settings: &Object, name: &str, tokens: &[String]) -> Result<Option<u32>, Error> {
    let text = match settings.get(name) {
        Some(Value::String(text)) => text,
        Some(Value::Object(token)) => match token.get("content") {
            Some(Value::String(text)) => text,
            _ => return Err(settings.wrong(name, "it should be a token")),
        },
        Some(_) => return Err(settings.wrong(name, "it should be a token")),
        None => return Ok(None),
    };
    match tokens.iter().position(|token| token == text) {
        // There are at most as many as an embedding has rows.
        Some(id) => Ok(u32::try_from(id).ok()),
        None => Err(settings.wrong(name, "tokenizer.json does not have it")),
    }
}

/// The template: a file of its own, or among the settings.
fn chat_template(folder: &Path, settings: &Object) -> Result<Option<String>, Error> {
    let path = folder.join("chat_template.jinja");
    match fs::read_to_string(&path) {
        Ok(text) => return Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(source) => return Err(Error::Read { path, source }),
    }
    let name = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some("default");
    let template = match settings.get("chat_template") {
        Some(Value::Array(several)) => {
            several.iter().find(|e| name(e)).and_then(|e| e.get("template"))
        }
        single => single,
    };
    match template {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(settings.wrong("chat_template", "it should be a text")),
    }
}
