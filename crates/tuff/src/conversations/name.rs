//! Names of conversations, which become names of files on any system.

use std::fmt;
use std::str::FromStr;

/// Bytes that a name may have: with what is added to it, a file name on every system.
const MAX_BYTES: usize = 64;

/// What Windows takes for a device, whatever ending follows.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// A name that a file can have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(String);

impl Name {
    /// As it was given.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(name: &str) -> Result<Name, String> {
        if name.is_empty() {
            return Err("a conversation needs a name".to_owned());
        }
        if name.len() > MAX_BYTES {
            let bytes = name.len();
            return Err(format!("it has {bytes} bytes; {MAX_BYTES} are the most"));
        }
        let allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
        if let Some(other) = name.chars().find(|&c| !allowed(c)) {
            return Err(format!(
                "it holds {other:?}; letters, digits, spaces and - _ . may be used"
            ));
        }
        if name.starts_with(['.', '-', ' ']) || name.ends_with(['.', ' ']) {
            return Err(
                "it must not begin with a dot, hyphen or space, nor end with a dot or space"
                    .to_owned(),
            );
        }
        let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
        let port = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
        let numbered = port.is_some_and(|rest| rest.chars().count() == 1 && is_digit(rest));
        if numbered || DEVICES.contains(&stem.as_str()) {
            return Err("Windows keeps this name for a device; choose another".to_owned());
        }
        Ok(Name(name.to_owned()))
    }
}

/// The raised digits count, too.
fn is_digit(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit() || matches!(c, '\u{b9}' | '\u{b2}' | '\u{b3}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_every_system_can_have() {
        let long = "a".repeat(64);
        for name in ["a", "my holiday", "v1.2_b-c", "\u{4f60}\u{597d}", "console", "com10", &long] {
            assert_eq!(name.parse::<Name>().unwrap().as_str(), name);
        }
        let longer = "\u{e9}".repeat(33);
        let bad = [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a\\b",
            "/etc/passwd",
            "C:x",
            "a\0b",
            "a\nb",
            "-rf",
            " a",
            "a ",
            "a.",
            ".hidden",
            "con",
            "Con.txt",
            "NUL",
            "com1",
            "LPT9.x",
            "com\u{b9}",
            "nul .a",
            "a*b",
            "a?",
            "~",
            "$HOME",
            "a\u{202e}b",
            &longer,
        ];
        for name in bad {
            let reason = name.parse::<Name>().unwrap_err();
            assert!(!reason.is_empty() && !reason.contains('\n'), "{name:?}");
        }
    }
}
