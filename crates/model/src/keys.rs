//! Typed access to the `qwen4exp.*` keys of a file: presence, range and per-layer arrays.
//!
//! A number is accepted in any integer type. Nothing is divided by or allocated from a number
//! before its range is checked here.

use std::ops::RangeInclusive;

use gguf::{Array, Metadata, Value};

use crate::error::Error;

/// The architecture's name, which is also the prefix of its keys.
pub(crate) const ARCHITECTURE: &str = "qwen4exp";

/// The keys of one file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys<'a> {
    meta: &'a Metadata,
}

/// How many blocks a file counts: per-layer arrays may cover the trunk alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Trunk layers and MTP block together.
    pub(crate) all: usize,
    /// Trunk layers.
    pub(crate) trunk: usize,
}

/// The full key of a short one.
pub(crate) fn full(key: &str) -> String {
    format!("{ARCHITECTURE}.{key}")
}

fn kind_error(key: &str, found: &Value, expected: &str) -> Error {
    Error::value(full(key), found.describe(), expected)
}

impl<'a> Keys<'a> {
    /// The keys of a file that says it is qwen4exp.
    pub(crate) fn new(meta: &'a Metadata) -> Result<Self, Error> {
        match meta.get_str("general.architecture")? {
            Some(ARCHITECTURE) => Ok(Self { meta }),
            found => Err(Error::Architecture { found: found.unwrap_or_default().to_owned() }),
        }
    }

    fn value(&self, key: &str) -> Option<&'a Value> {
        self.meta.get(&full(key))
    }

    /// Whether the file has the key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// A number in `range`, or None if the key is absent.
    pub(crate) fn optional(
        &self,
        key: &str,
        range: RangeInclusive<usize>,
    ) -> Result<Option<usize>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let number =
            value.as_integer().ok_or_else(|| kind_error(key, value, "must be an integer"))?;
        in_range(key, number, &range).map(Some)
    }

    /// A number in `range`.
    pub(crate) fn required(&self, key: &str, range: RangeInclusive<usize>) -> Result<usize, Error> {
        self.optional(key, range)?.ok_or_else(|| missing(key))
    }

    /// A finite float in `range`.
    pub(crate) fn float(&self, key: &str, range: RangeInclusive<f32>) -> Result<f32, Error> {
        let found = self.meta.get_f32(&full(key))?.ok_or_else(|| missing(key))?;
        if range.contains(&found) {
            return Ok(found);
        }
        let expected = format!("must be from {} to {}", range.start(), range.end());
        Err(Error::value(full(key), found, expected))
    }

    /// The numbers of an array, or None if the key is absent.
    pub(crate) fn integers(&self, key: &str) -> Result<Option<Vec<i128>>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let wrong = || kind_error(key, value, "must be an array of integers");
        let items = value.as_array().and_then(Array::integers).ok_or_else(wrong)?;
        Ok(Some(items.collect()))
    }

    /// Unsigned 64-bit numbers, `len` of them.
    pub(crate) fn u64s(&self, key: &str, len: usize) -> Result<Vec<u64>, Error> {
        let items = self.integers(key)?.ok_or_else(|| missing(key))?;
        if items.len() != len {
            let found = format!("an array of {}", items.len());
            return Err(Error::value(full(key), found, format!("must hold {len} numbers")));
        }
        let number = |item: i128| u64::try_from(item).ok();
        let numbers: Option<Vec<_>> = items.into_iter().map(number).collect();
        numbers.ok_or_else(|| {
            Error::value(full(key), "an array with a negative number", "none may be negative")
        })
    }

    /// One number per layer in `range`, from an array over the trunk or over all blocks; what an
    /// array over the trunk leaves out is None. None if the key is absent.
    pub(crate) fn per_layer(
        &self,
        key: &str,
        blocks: Blocks,
        range: RangeInclusive<usize>,
    ) -> Result<Option<Vec<Option<usize>>>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let items: Vec<i128> = match value.as_array() {
            Some(Array::Bool(flags)) => flags.iter().map(|flag| i128::from(*flag)).collect(),
            _ => self.integers(key)?.unwrap_or_default(),
        };
        if items.len() != blocks.all && items.len() != blocks.trunk {
            return Err(length_error(key, items.len(), blocks));
        }
        let number = |item: i128| in_range(key, item, &range);
        let numbers: Result<Vec<_>, _> = items.into_iter().map(number).collect();
        let mut numbers: Vec<_> = numbers?.into_iter().map(Some).collect();
        numbers.resize(blocks.all, None);
        Ok(Some(numbers))
    }

    /// A number that is the same in all layers of `used`, written once or once per layer; entries
    /// of other layers do not matter. Taken from the first layer used; `used` has `blocks.all`
    /// entries.
    pub(crate) fn uniform(
        &self,
        key: &str,
        blocks: Blocks,
        used: &[bool],
        range: RangeInclusive<usize>,
    ) -> Result<usize, Error> {
        if self.value(key).is_none_or(|value| value.as_array().is_none()) {
            return self.required(key, range);
        }
        let entries = self.per_layer(key, blocks, 0..=*range.end())?.unwrap_or_default();
        let mut entries = entries.iter().zip(used).filter(|(_, used)| **used);
        let mut entries = entries.by_ref().filter_map(|(entry, _)| *entry);
        let first = entries.next().unwrap_or(*range.start());
        match entries.find(|entry| *entry != first) {
            None => in_range(key, first as i128, &range),
            Some(other) => Err(Error::value(
                full(key),
                format!("an array that holds {first} and {other}"),
                "layers of different sizes are not supported",
            )),
        }
    }
}

pub(crate) fn missing(key: &str) -> Error {
    Error::MissingKey { key: full(key) }
}

fn length_error(key: &str, found: usize, blocks: Blocks) -> Error {
    let expected = if blocks.all == blocks.trunk {
        format!("must hold one entry for each of the {} blocks", blocks.all)
    } else {
        format!("must hold {} entries, or {} without the MTP block", blocks.all, blocks.trunk)
    };
    Error::value(full(key), format!("an array of {found}"), expected)
}

fn in_range(key: &str, number: i128, range: &RangeInclusive<usize>) -> Result<usize, Error> {
    match usize::try_from(number) {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => {
            let expected = format!("must be from {} to {}", range.start(), range.end());
            Err(Error::value(full(key), number, expected))
        }
    }
}
