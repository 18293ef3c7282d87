//! What a model is called: `OWNER/REPO` or `OWNER/REPO:QUANT`.

use crate::Error;
use std::fmt;
use std::str::FromStr;

/// Longest part of a name in bytes.
const MAX_PART: usize = 96;

/// The name of a model on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// The repository, as in `owner/repo`.
    pub repo: String,
    /// Which of its files, as in `Q4_K_M`.
    pub quant: Option<String>,
}

impl FromStr for ModelName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::Name { name: text.chars().take(200).collect() };
        let (repo, quant) = match text.split_once(':') {
            Some((repo, quant)) => (repo, Some(quant)),
            None => (text, None),
        };
        let (owner, name) = repo.split_once('/').ok_or_else(bad)?;
        if [owner, name].into_iter().chain(quant).all(is_part) {
            Ok(Self { repo: repo.to_owned(), quant: quant.map(str::to_owned) })
        } else {
            Err(bad())
        }
    }
}

/// Letters, digits and `-_.`, neither beginning nor ending with a dot or a dash: never a path.
fn is_part(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let edge = |c: char| c == '.' || c == '-';
    !text.is_empty()
        && text.len() <= MAX_PART
        && text.chars().all(allowed)
        && !text.starts_with(edge)
        && !text.ends_with(edge)
        && !text.contains("--")
        && !text.contains("..")
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repo)?;
        self.quant.as_ref().map_or(Ok(()), |quant| write!(f, ":{quant}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_never_paths() {
        let name: ModelName = "org/Model-1.5_x:Q4_K_M".parse().unwrap();
        assert_eq!(
            (name.repo.as_str(), name.quant.as_deref()),
            ("org/Model-1.5_x", Some("Q4_K_M"))
        );
        assert_eq!(name.to_string(), "org/Model-1.5_x:Q4_K_M");
        for bad in [
            "", "x", "/", "a/", "/b", "a/b/c", "../b", "a/..", "a/b:", "a/b:../c", "a\\b/c",
            "a/b c", "./model", "a/.b", "C:/x", "a/b:c:d", "a/\u{e9}", "a--b/c",
        ] {
            assert!(bad.parse::<ModelName>().is_err(), "{bad}");
        }
        assert!(format!("a/{}", "x".repeat(97)).parse::<ModelName>().is_err());
    }
}
