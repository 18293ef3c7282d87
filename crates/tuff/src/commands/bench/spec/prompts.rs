//! What the texts begin with.

use model::tokenizer::{SpecialTokens, Tokenizer};

use super::DraftArgs;
use crate::args::read_file;
use crate::error::Error;

/// Beginnings after which drafts of the sample model are mostly, often and seldom right: a story as
/// it knows many, German, of which it knows little and repeats itself, and free prose.
const BUILT_IN: [(&str, &str); 3] = [
    ("easy", "Once upon a time"),
    ("mixed", "Der Hund ist ein Haustier. Er"),
    ("hard", "The history of the city begins in the year"),
];

/// The beginning of a text.
#[derive(Debug, Clone)]
pub(super) struct Prompt {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) ids: Vec<u32>,
}

impl Prompt {
    fn new(name: String, text: String, tokenizer: &Tokenizer) -> Result<Prompt, Error> {
        let mut ids: Vec<u32> =
            tokenizer.bos_id().filter(|_| tokenizer.add_bos()).into_iter().collect();
        ids.extend(tokenizer.encode(&text, SpecialTokens::Parse).map_err(Error::Tokenizer)?);
        if ids.is_empty() {
            return Err(Error::Refused(format!("{name} is empty: a text needs a beginning")));
        }
        Ok(Prompt { name, text, ids })
    }
}

/// The beginnings that are asked for, otherwise those built in.
///
/// # Errors
/// A file that cannot be read; [`Error::Refused`] for an empty text.
pub(super) fn prompts(args: &DraftArgs, tokenizer: &Tokenizer) -> Result<Vec<Prompt>, Error> {
    let prompt = |name: &str, text: &str| Prompt::new(name.to_owned(), text.to_owned(), tokenizer);
    if args.spec_prompt.is_empty() && args.spec_file.is_empty() {
        return BUILT_IN.iter().map(|(name, text)| prompt(name, text)).collect();
    }
    let mut prompts = Vec::with_capacity(args.spec_prompt.len() + args.spec_file.len());
    for (place, text) in args.spec_prompt.iter().enumerate() {
        prompts.push(prompt(&format!("prompt {}", place + 1), text)?);
    }
    for path in &args.spec_file {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        prompts.push(prompt(&name, &read_file(path)?)?);
    }
    Ok(prompts)
}
