//! Reading the JSON files of a folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Error;

/// Largest file. The tokenizer of the large model has 13 MB.
const MAX_BYTES: u64 = 256 << 20;

/// A JSON file.
///
/// # Errors
/// [`Error::Read`], [`Error::Malformed`].
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let malformed = |reason| Error::Malformed { path: path.to_owned(), reason };
    let bytes = fs::metadata(path).map_err(failed)?.len();
    if bytes > MAX_BYTES {
        return Err(malformed(format!("{bytes} bytes are too many")));
    }
    let text = fs::read(path).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|error| malformed(error.to_string()))
}

/// A JSON file, if there is one.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_if_there<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    match read(path) {
        Err(Error::Read { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// A JSON object and the file it is from, with getters that name both.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) path: PathBuf,
    pub(crate) map: Map<String, Value>,
}

impl Object {
    /// A value; null counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// What is wrong with a key.
    pub(crate) fn wrong(&self, key: &str, expected: &str) -> Error {
        let reason = match self.get(key) {
            Some(found) => format!("{key} is {}, {expected}", shortened(found)),
            None => format!("{key} is missing; {expected}"),
        };
        Error::Malformed { path: self.path.clone(), reason }
    }

    /// A number that fits the integers of a model file.
    pub(crate) fn number(&self, key: &str) -> Result<u32, Error> {
        self.number_if_there(key)?.ok_or_else(|| self.wrong(key, "a number is needed"))
    }

    /// A number, if there is one.
    pub(crate) fn number_if_there(&self, key: &str) -> Result<Option<u32>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.map(Some).ok_or_else(|| self.wrong(key, "it should be a number below 2^32"))
    }

    /// A fraction, if there is one.
    pub(crate) fn float_if_there(&self, key: &str) -> Result<Option<f64>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| self.wrong(key, "it should be a number"))
    }

    /// An object inside.
    pub(crate) fn object_if_there(&self, key: &str) -> Result<Option<Object>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(map)) => {
                Ok(Some(Object { path: self.path.clone(), map: map.clone() }))
            }
            Some(_) => Err(self.wrong(key, "it should be an object")),
        }
    }

    /// Numbers, if there are any; a single number counts as a list of one.
    pub(crate) fn numbers_if_there(&self, key: &str) -> Result<Option<Vec<u32>>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let single = std::slice::from_ref(value);
        let items = value.as_array().map_or(single, Vec::as_slice);
        let number = |item: &Value| item.as_u64().and_then(|number| u32::try_from(number).ok());
        let numbers: Option<Vec<u32>> = items.iter().map(number).collect();
        numbers.map(Some).ok_or_else(|| self.wrong(key, "it should be a list of numbers"))
    }

    /// Refuses a value other than the one that models of this kind have; absent is fine.
    pub(crate) fn only(&self, key: &str, expected: &Value) -> Result<(), Error> {
        match self.get(key) {
            Some(found) if found != expected => {
                Err(self.wrong(key, &format!("only {expected} is supported")))
            }
            _ => Ok(()),
        }
    }
}

/// A value for a message.
fn shortened(value: &Value) -> String {
    const SHOWN: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
