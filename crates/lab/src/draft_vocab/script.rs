//! Writing systems, and which tokens are written in them.

use std::str::FromStr;

use unicode_script::{Script, UnicodeScript};

use super::fragment::completions;

/// Names for what is usually wanted together; all other names are Unicode's.
const GROUPS: [(&str, &[Script]); 2] =
    [("cjk", &[Script::Han, Script::Bopomofo]), ("kana", &[Script::Hiragana, Script::Katakana])];

/// Some writing systems. What all of them share (digits, punctuation, blanks, symbols) always
/// counts as written in them.
///
/// Read from names with commas: `latin,cjk,kana`. A name is `cjk` (Han and Bopomofo), `kana`
/// (Hiragana and Katakana) or a script's name in Unicode, in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scripts(Vec<Script>);

/// A name that no script has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no script {name:?}; there are latin, cjk, kana, hangul, cyrillic, greek, arabic, \
     hebrew, devanagari, thai and all others of Unicode, separated by commas"
)]
pub struct UnknownScript {
    /// The name.
    pub name: String,
}

impl FromStr for Scripts {
    type Err = UnknownScript;

    fn from_str(names: &str) -> Result<Self, UnknownScript> {
        let mut scripts = Vec::new();
        for name in names.split(',').map(str::trim) {
            let lower = name.to_lowercase();
            match GROUPS.iter().find(|(group, _)| *group == lower) {
                Some((_, group)) => scripts.extend_from_slice(group),
                None => scripts.push(
                    by_name(&lower)
                        .ok_or_else(|| UnknownScript { name: name.chars().take(40).collect() })?,
                ),
            }
        }
        Ok(Self(scripts))
    }
}

/// The script of a name in small letters: Unicode capitalises each part.
fn by_name(lower: &str) -> Option<Script> {
    let capitalised = lower.split(['_', '-', ' ']).map(|part| {
        let mut chars = part.chars();
        chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
    });
    let name = capitalised.collect::<Vec<String>>().join("_");
    // Characters without a script are no script.
    Script::from_full_name(&name).filter(|&script| script != Script::Unknown)
}

impl Scripts {
    /// Whether a token of these bytes is written in these scripts. It may end within a character
    /// that can be; a token that begins within a character is not.
    pub(super) fn cover(&self, bytes: &[u8]) -> bool {
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            let last = chunks.peek().is_none();
            let (whole, rest) = (chunk.valid(), chunk.invalid());
            let rest_fits = rest.is_empty() || (last && self.has_any_with(rest));
            if !rest_fits || !whole.chars().all(|c| self.has(c)) {
                return false;
            }
        }
        true
    }

    /// Whether any character that begins with these bytes is written in these scripts.
    fn has_any_with(&self, begun: &[u8]) -> bool {
        completions(begun).filter_map(char::from_u32).any(|c| self.has(c))
    }

    fn has(&self, c: char) -> bool {
        let script = c.script();
        is_shared(script) || self.0.contains(&script)
    }
}

/// True for characters that scripts have in common, and marks that take the script of their base.
fn is_shared(script: Script) -> bool {
    matches!(script, Script::Common | Script::Inherited)
}

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Only what scripts share.
    Shared,
    /// In one script.
    In(Script),
    /// In several.
    Mixed,
    /// With a part of a character.
    Fragment,
}

impl Written {
    /// Of a token's bytes.
    pub(super) fn of(bytes: &[u8]) -> Written {
        let Ok(text) = std::str::from_utf8(bytes) else { return Written::Fragment };
        let mut own = text.chars().map(|c| c.script()).filter(|&script| !is_shared(script));
        match own.next() {
            None => Written::Shared,
            Some(first) if own.all(|script| script == first) => Written::In(first),
            Some(_) => Written::Mixed,
        }
    }

    /// For reports.
    pub(super) fn name(self) -> String {
        match self {
            Written::Shared => "common to all scripts".to_owned(),
            Written::In(script) => script.full_name().to_lowercase(),
            Written::Mixed => "several scripts".to_owned(),
            Written::Fragment => "parts of characters".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripts(names: &str) -> Scripts {
        names.parse().unwrap()
    }

    #[test]
    fn names_are_unicodes_or_of_groups_in_any_case() {
        assert_eq!(scripts("latin").0, [Script::Latin]);
        assert_eq!(scripts("Latin, CJK").0, [Script::Latin, Script::Han, Script::Bopomofo]);
        assert_eq!(scripts("kana").0, [Script::Hiragana, Script::Katakana]);
        let listed = "cyrillic,greek,arabic,hebrew,devanagari,hangul,thai,han,old_italic,nko";
        assert_eq!(scripts(listed).0.len(), 10);
        for unknown in ["klingon", "", "latin,,cjk", "latin cjk", "unknown"] {
            let error = unknown.parse::<Scripts>().unwrap_err();
            assert!(error.to_string().contains("latin, cjk"), "{error}");
        }
    }

    #[test]
    fn tokens_are_judged_by_their_characters() {
        let latin = scripts("latin");
        for text in ["Hello", " na\u{ef}ve", "e\u{301}", "123", "{\n\t", "->", " \u{1f642}", ""] {
            assert!(latin.cover(text.as_bytes()), "{text:?}");
        }
        for text in ["\u{4f60}", "\u{43f}", "a\u{4f60}", " \u{3b1}"] {
            assert!(!latin.cover(text.as_bytes()), "{text:?}");
        }
        assert!(scripts("cjk").cover("\u{4f60}\u{3002}".as_bytes()));
        assert!(!scripts("cjk").cover("\u{4f60}a".as_bytes()));
        assert!(scripts("cjk,latin").cover("\u{4f60}a".as_bytes()));
    }

    #[test]
    fn parts_of_characters_count_as_what_they_can_become() {
        let (latin, cjk) = (scripts("latin"), scripts("cjk"));
        // The beginning of U+4F60, after a whole character too; of an emoji; of U+00E9.
        assert!(cjk.cover(b"\xE4\xBD") && cjk.cover("\u{4f60}\u{4f60}".as_bytes().split_at(5).0));
        assert!(!latin.cover(b"\xE4\xBD"));
        assert!(latin.cover(b" \xF0\x9F\x99") && latin.cover(b"a\xC3"));
        // An end, and a beginning that is not continued.
        assert!(!cjk.cover(b"\xBD\xA0") && !cjk.cover(b"\xE4\xBDa"));
    }

    #[test]
    fn texts_are_sorted_by_script() {
        let of = |text: &str| Written::of(text.as_bytes());
        assert_eq!(of(" 12!"), Written::Shared);
        assert_eq!(of(" Hello!"), Written::In(Script::Latin));
        assert_eq!(of("a\u{43f}"), Written::Mixed);
        assert_eq!(Written::of(b"\xE4"), Written::Fragment);
        assert_eq!(of("\u{4f60}").name(), "han");
    }
}
