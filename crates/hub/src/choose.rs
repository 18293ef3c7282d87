//! Which files of a repository make a model, and which model is meant.

use crate::{Error, ModelName};
use std::collections::BTreeMap;

const ENDING: &str = ".gguf";

/// A model: a file, or all parts of a split one in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The file's name without folder, part and ending.
    pub name: String,
    /// Its files, by their path in the repository.
    pub files: Vec<String>,
}

/// The models among the files of a repository, by name. Split models that lack parts are none, nor
/// are files of image encoders, which go beside a model.
pub fn models(files: &[String]) -> Vec<Model> {
    let mut found: BTreeMap<(String, usize), Vec<(usize, String)>> = BTreeMap::new();
    for file in files {
        let Some(stem) = file.strip_suffix(ENDING) else { continue };
        let name = stem.rsplit('/').next().unwrap_or(stem);
        if name.to_ascii_lowercase().contains("mmproj") {
            continue;
        }
        let (stem, part, of) = split(stem).unwrap_or((stem, 1, 1));
        found.entry((stem.to_owned(), of)).or_default().push((part, file.clone()));
    }
    let whole = found.into_iter().filter_map(|((stem, of), mut parts)| {
        parts.sort();
        let complete = parts.iter().map(|(part, _)| *part).eq(1..=of);
        let name = stem.rsplit('/').next().unwrap_or(&stem).to_owned();
        complete.then(|| Model { name, files: parts.into_iter().map(|(_, file)| file).collect() })
    });
    whole.collect()
}

/// Takes `-00002-of-00003` off a name: what is left, the part, and how many there are.
fn split(stem: &str) -> Option<(&str, usize, usize)> {
    const DIGITS: usize = 5;
    let (rest, of) = stem.rsplit_once("-of-")?;
    let (stem, part) = rest.rsplit_once('-')?;
    let number = |text: &str| {
        let digits = text.len() == DIGITS && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|_| digits)
    };
    Some((stem, number(part)?, number(of)?))
}

/// The model that is meant.
///
/// # Errors
/// [`Error::NoModel`]; [`Error::Choice`] with what there is if none fits, or several do.
pub fn choose(name: &ModelName, files: &[String]) -> Result<Model, Error> {
    let all = models(files);
    let there: Vec<String> = all.iter().map(|model| model.name.clone()).collect();
    let repo = name.repo.clone();
    if all.is_empty() {
        return Err(Error::NoModel { repo });
    }
    let fits = |model: &Model| name.quant.as_ref().is_none_or(|quant| has(&model.name, quant));
    let mut fitting: Vec<Model> = all.into_iter().filter(fits).collect();
    match (fitting.len(), &name.quant) {
        (1, _) => Ok(fitting.remove(0)),
        (0, quant) => {
            let quant = quant.as_deref().unwrap_or_default();
            Err(Error::Choice { repo, reason: format!("no file is {quant:?}"), there })
        }
        (_, None) => {
            let reason = "it has several models; add :QUANT to choose one".to_owned();
            Err(Error::Choice { repo, reason, there })
        }
        (_, Some(quant)) => {
            let reason = format!("several files are {quant:?}; write more of the name");
            let there = fitting.into_iter().map(|model| model.name).collect();
            Err(Error::Choice { repo, reason, there })
        }
    }
}

/// Whether a file's name has `quant` as a word of its own, whatever the case: `Q4_K` is not in
/// `model-Q4_K_M`.
fn has(name: &str, quant: &str) -> bool {
    let (name, quant) = (name.to_ascii_lowercase(), quant.to_ascii_lowercase());
    let part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name == quant
        || name.match_indices(&quant).any(|(at, _)| {
            let before = name.as_bytes()[..at].last();
            let after = name.as_bytes().get(at + quant.len());
            !before.is_some_and(|byte| part(*byte)) && !after.is_some_and(|byte| part(*byte))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn chosen(name: &str, all: &[String]) -> Result<Vec<String>, String> {
        let name = name.parse().unwrap();
        choose(&name, all).map(|model| model.files).map_err(|error| error.to_string())
    }

    #[test]
    fn a_quant_is_chosen_by_its_name_and_split_files_belong_together() {
        let all = files(&[
            "README.md",
            "m-Q4_K_M.gguf",
            "m-Q4_K.gguf",
            "m-UD-Q4_K_XL.gguf",
            "mmproj-m-f16.gguf",
            "BF16/m-BF16-00002-of-00002.gguf",
            "BF16/m-BF16-00001-of-00002.gguf",
            "m-Q8_0-00001-of-00002.gguf",
        ]);
        assert_eq!(chosen("a/b:q4_k", &all).unwrap(), ["m-Q4_K.gguf"]);
        assert_eq!(chosen("a/b:Q4_K_M", &all).unwrap(), ["m-Q4_K_M.gguf"]);
        assert_eq!(chosen("a/b:UD-Q4_K_XL", &all).unwrap(), ["m-UD-Q4_K_XL.gguf"]);
        let parts = ["BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"];
        assert_eq!(chosen("a/b:bf16", &all).unwrap(), parts);
        let told = chosen("a/b:Q8_0", &all).unwrap_err();
        assert!(told.contains("no file is \"Q8_0\"; there are: "), "{told}");
        assert!(told.contains("m-Q4_K_M") && !told.contains("mmproj"), "{told}");
        assert!(chosen("a/b", &all).unwrap_err().contains("add :QUANT"));
        assert!(chosen("a/b:m", &all).unwrap_err().contains("several files are"));
        assert_eq!(chosen("a/b", &files(&["one.gguf"])).unwrap(), ["one.gguf"]);
        assert!(chosen("a/b", &files(&["x.bin"])).unwrap_err().contains("no GGUF file"));
    }
}
