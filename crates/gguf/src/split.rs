//! Split models: part names, the three split keys, and whether the parts fit together.
//!
//! The other parts are looked for beside the opened file, by the pattern of its own name. No
//! name ever comes from metadata.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::error::{Error, SplitFault};
use crate::metadata::Metadata;

pub(crate) const NO_KEY: &str = "split.no";
/// Metadata key: the number of files of a split model.
pub const COUNT_KEY: &str = "split.count";
pub(crate) const TOTAL_KEY: &str = "split.tensors.count";

const DIGITS: usize = 5;
const SUFFIX_BYTES: usize = "-00001-of-00002.gguf".len();

/// A file name of the form `PREFIX-00001-of-00002.gguf`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartName {
    pub(crate) prefix: OsString,
    /// Number of parts.
    pub(crate) count: u32,
    /// Number of the part, from 1.
    pub(crate) number: u32,
}

impl PartName {
    /// Recognises the pattern.
    pub(crate) fn parse(name: &OsStr) -> Option<PartName> {
        let bytes = name.as_encoded_bytes();
        let prefix_bytes = bytes.len().checked_sub(SUFFIX_BYTES)?;
        let suffix = &bytes[prefix_bytes..];
        let rest = suffix.strip_prefix(b"-")?;
        let (number, rest) = digits(rest)?;
        let (count, rest) = digits(rest.strip_prefix(b"-of-")?)?;
        if rest != b".gguf" || number == 0 || number > count {
            return None;
        }
        Some(PartName { prefix: prefix_of(name, prefix_bytes)?, count, number })
    }

    /// The file name of another part of the same model.
    pub(crate) fn sibling(&self, number: u32) -> OsString {
        file_name(&self.prefix, number, self.count)
    }
}

/// The name of part `number` (from 1) of `count`.
pub(crate) fn file_name(prefix: &OsStr, number: u32, count: u32) -> OsString {
    let mut name = prefix.to_owned();
    name.push(format!("-{number:0DIGITS$}-of-{count:0DIGITS$}.gguf"));
    name
}

/// The paths of a model of `count` files: `target` itself for one, otherwise
/// `PREFIX-00001-of-0000N.gguf` and so on beside it. The prefix is the target's name without such
/// an ending, or without `.gguf`.
pub fn split_paths(target: &Path, count: u16) -> Vec<PathBuf> {
    if count < 2 {
        return vec![target.to_owned()];
    }
    let name = target.file_name().unwrap_or_default();
    let plain = || match target.extension() {
        Some(extension) if extension == "gguf" => target.file_stem().unwrap_or(name).to_owned(),
        _ => name.to_owned(),
    };
    let prefix = PartName::parse(name).map_or_else(plain, |name| name.prefix);
    let numbers = 1..=u32::from(count);
    numbers.map(|n| target.with_file_name(file_name(&prefix, n, u32::from(count)))).collect()
}

fn digits(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = bytes.split_first_chunk::<DIGITS>()?;
    let mut number = 0;
    for digit in digits {
        number = number * 10 + u32::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    Some((number, rest))
}

#[cfg(unix)]
fn prefix_of(name: &OsStr, bytes: usize) -> Option<OsString> {
    use std::os::unix::ffi::OsStrExt;
    Some(OsStr::from_bytes(name.as_bytes().get(..bytes)?).to_owned())
}

/// Names that are not Unicode (unpaired surrogates) are not recognised here.
#[cfg(not(unix))]
fn prefix_of(name: &OsStr, bytes: usize) -> Option<OsString> {
    Some(name.to_str()?.get(..bytes)?.into())
}

/// What a part says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SplitKeys {
    /// Number of the part, from 0.
    pub(crate) no: u16,
    pub(crate) count: u16,
    /// Tensors of the whole model.
    pub(crate) total: Option<u64>,
}

impl SplitKeys {
    /// Reads the keys. `None` for a file that is not split: a count of 0 or 1, or none.
    pub(crate) fn read(path: &Path, metadata: &Metadata) -> Result<Option<SplitKeys>, Error> {
        let count: Option<u16> = metadata.integer(COUNT_KEY, "an integer (u16)")?;
        let no: Option<u16> = metadata.integer(NO_KEY, "an integer (u16)")?;
        let total = metadata.get_u64(TOTAL_KEY)?;
        match (count, no) {
            (None | Some(0), _) => Ok(None),
            (Some(count), Some(no)) if no >= count => {
                Err(Error::split(path, SplitFault::NumberBeyondCount { no, count }))
            }
            (Some(1), _) => Ok(None),
            (Some(count), Some(no)) => Ok(Some(SplitKeys { no, count, total })),
            (Some(_), None) => Err(Error::split(path, SplitFault::MissingKey { key: NO_KEY })),
        }
    }

    /// Compares the keys of a part with its name.
    pub(crate) fn check_name(&self, path: &Path, name: &PartName) -> Result<(), Error> {
        let &SplitKeys { no, count, .. } = self;
        if u32::from(count) != name.count {
            let expected = name.count;
            return Err(Error::split(path, SplitFault::Count { expected, found: count }));
        }
        if u32::from(no) + 1 != name.number {
            // The name's number is at most the count, which has just been seen to fit.
            let expected = (name.number - 1) as u16;
            return Err(Error::split(path, SplitFault::Number { expected, found: no }));
        }
        Ok(())
    }
}

/// The paths of all parts of the model that the opened file is part of, in order.
pub(crate) fn part_paths(path: &Path, keys: &SplitKeys) -> Result<Vec<PathBuf>, Error> {
    let Some(name) = path.file_name().and_then(PartName::parse) else {
        let &SplitKeys { no, count, .. } = keys;
        return Err(Error::split(path, SplitFault::Name { no, count }));
    };
    keys.check_name(path, &name)?;
    let paths: Vec<PathBuf> =
        (1..=name.count).map(|number| path.with_file_name(name.sibling(number))).collect();
    let missing: Vec<PathBuf> = paths.iter().filter(|path| !path.is_file()).cloned().collect();
    if !missing.is_empty() {
        return Err(Error::split(path, SplitFault::MissingParts { missing, count: keys.count }));
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str) -> Option<(String, u32, u32)> {
        let name = PartName::parse(OsStr::new(name))?;
        Some((name.prefix.into_string().unwrap(), name.number, name.count))
    }

    #[test]
    fn part_names() {
        assert_eq!(parse("m-00002-of-00004.gguf"), Some(("m".to_owned(), 2, 4)));
        assert_eq!(parse("-00001-of-00001.gguf"), Some((String::new(), 1, 1)));
        assert_eq!(parse("a-00001-of-00002-00001-of-00003.gguf").unwrap().1, 1);
        for name in [
            "m.gguf",
            "m-0001-of-00004.gguf",
            "m-00000-of-00004.gguf",
            "m-00005-of-00004.gguf",
            "m-00001-of-00004.GGUF",
            "m-0000a-of-00004.gguf",
            "m-+0001-of-00004.gguf",
            "m_00001-of-00004.gguf",
            "00001-of-00004.gguf",
            "",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn paths_of_a_target() {
        let paths = |target: &str, count| {
            let paths = split_paths(Path::new(target), count);
            paths.iter().map(|path| path.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let both = ["a/m-00001-of-00002.gguf", "a/m-00002-of-00002.gguf"];
        assert_eq!(paths("a/m.gguf", 2), both);
        assert_eq!(paths("a/m", 2), both);
        assert_eq!(paths("a/m-00003-of-00007.gguf", 2), both);
        assert_eq!(paths("a/m.v2", 2)[0], "a/m.v2-00001-of-00002.gguf");
        assert_eq!(paths("a/m.gguf", 1), ["a/m.gguf"]);
    }

    #[test]
    fn siblings_keep_the_prefix() {
        let name = PartName::parse(OsStr::new("mod\u{e8}le-00002-of-00012.gguf")).unwrap();
        assert_eq!(name.sibling(11), OsStr::new("mod\u{e8}le-00011-of-00012.gguf"));
    }

    #[test]
    fn parts_of_a_path_without_a_folder_are_beside_it() {
        let keys = SplitKeys { no: 1, count: 2, total: None };
        let error = part_paths(Path::new("none-00002-of-00002.gguf"), &keys).unwrap_err();
        let Error::Split { fault, .. } = error else { panic!("{error}") };
        let expected = ["none-00001-of-00002.gguf", "none-00002-of-00002.gguf"];
        let missing = expected.map(PathBuf::from).to_vec();
        assert_eq!(*fault, SplitFault::MissingParts { missing, count: 2 });
    }

    #[cfg(unix)]
    #[test]
    fn prefixes_need_not_be_unicode() {
        use std::os::unix::ffi::OsStrExt;
        let name = PartName::parse(OsStr::from_bytes(b"\xff\xfe-00001-of-00002.gguf")).unwrap();
        assert_eq!(name.sibling(2).as_bytes(), b"\xff\xfe-00002-of-00002.gguf");
    }
}
