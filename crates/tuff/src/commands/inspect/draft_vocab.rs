//! What a draft vocabulary holds, and how much of a text it has.

use std::fmt::Write;
use std::path::Path;

use lab::draft_vocab::{Contents, TokenCounts};
use model::DraftVocab;
use model::tokenizer::{SpecialTokens, Tokenizer};

use crate::args::read_file;
use crate::columns::columns;
use crate::commands::{draft_vocab::of_vocabulary, tokenize::quoted};
use crate::draft_vocab_file;
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::units;

/// Tokens shown of those that a text has and the draft vocabulary has not.
const MISSING: usize = 20;

/// The report of a draft vocabulary for a model.
///
/// # Errors
/// A file without a usable tokenizer; an unreadable list or text.
pub(crate) fn report(file: &ModelFile, list: &Path, text: Option<&Path>) -> Result<String, Error> {
    let tokenizer = file.tokenizer()?;
    let vocab = draft_vocab_file::read(list, tokenizer.vocab_size())?;
    let mut report = format!("{}: {}\n\n", list.display(), of_vocabulary(&tokenizer, &vocab));
    for line in columns(&kinds(&tokenizer, &vocab)) {
        let _ = writeln!(report, "  {line}");
    }
    if let Some(path) = text {
        let counts = count(&tokenizer, path)?;
        report += &covered(path, &tokenizer, &vocab, &counts);
    }
    Ok(report)
}

fn count(tokenizer: &Tokenizer, path: &Path) -> Result<TokenCounts, Error> {
    let text = read_file(path)?;
    let ids = tokenizer.encode(&text, SpecialTokens::Parse).map_err(Error::Tokenizer)?;
    let mut counts = TokenCounts::new(tokenizer.vocab_size());
    counts.add(&ids);
    Ok(counts)
}

/// One row per kind of token and per script.
fn kinds(tokenizer: &Tokenizer, vocab: &DraftVocab) -> Vec<Vec<String>> {
    let contents = Contents::new(tokenizer, vocab);
    let all = Contents::all(tokenizer);
    let mut rows = vec![["tokens", "ids", "share", "in the model"].map(str::to_owned).to_vec()];
    let mut push = |name: &str, ids: usize, all: usize| {
        let share = units::percent(ids as f64 / vocab.len() as f64);
        let (ids, all) = (units::grouped(ids as u64), units::grouped(all as u64));
        rows.push(vec![name.to_owned(), ids, share, all]);
    };
    push("control", contents.control, all.control);
    push("user-defined", contents.user_defined, all.user_defined);
    push("single bytes", contents.bytes, all.bytes);
    if contents.unused > 0 {
        push("unused", contents.unused, all.unused);
    }
    for (script, ids) in &contents.scripts {
        let same = all.scripts.iter().find(|(name, _)| name == script);
        push(script, *ids, same.map_or(0, |(_, count)| *count));
    }
    rows
}

/// How much of a text is inside, and what is missing most.
fn covered(path: &Path, tokenizer: &Tokenizer, vocab: &DraftVocab, counts: &TokenCounts) -> String {
    let (tokens, inside) = (counts.total(), units::percent(counts.coverage(vocab)));
    let tokens = units::count(tokens as usize, "token");
    let mut report = format!("\n{}: {tokens}, {inside} in the draft vocabulary\n", path.display());
    let missing: Vec<_> = counts.missing(vocab).collect();
    if missing.is_empty() {
        return report;
    }
    let kinds = units::count(missing.len(), "token");
    let _ = writeln!(report, "{kinds} of it missing, the most frequent:\n");
    let mut rows = vec![["id", "times", "text"].map(str::to_owned).to_vec()];
    rows.extend(missing.iter().take(MISSING).map(|missing| {
        let piece = quoted(tokenizer.token_bytes(missing.id).unwrap_or_default());
        vec![missing.id.to_string(), units::grouped(missing.count), piece]
    }));
    for line in columns(&rows) {
        let _ = writeln!(report, "  {line}");
    }
    report
}
