//! Which parts of a template's source it writes out: its plain text and its string constants,
//! except constants that it only looks for in messages.
//!
//! This is a scan, not a parser. Should it misread a template, a token of the template becomes
//! text or is not found in a message; text of a message never becomes a token.

use std::ops::Range;

/// Methods and filters whose first argument is looked for in a text, not written.
const LOOKING: [&str; 15] = [
    "count",
    "endswith",
    "find",
    "index",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rsplit",
    "rstrip",
    "split",
    "startswith",
    "strip",
];

/// The written parts of a source, as byte ranges in order.
pub(super) fn written(source: &str) -> Vec<Range<usize>> {
    let mut scan = Scan { source, at: 0, parts: Vec::new() };
    while scan.at < source.len() {
        scan.plain_text();
        scan.tag();
    }
    scan.parts
}

struct Scan<'a> {
    source: &'a str,
    at: usize,
    parts: Vec<Range<usize>>,
}

impl Scan<'_> {
    fn rest(&self) -> &str {
        &self.source[self.at..]
    }

    fn write_to(&mut self, end: usize) {
        self.parts.push(self.at..end);
        self.at = end;
    }

    /// Text up to the next tag.
    fn plain_text(&mut self) {
        let tags = ["{{", "{%", "{#"];
        let next = tags.iter().filter_map(|tag| self.rest().find(tag)).min();
        self.write_to(next.map_or(self.source.len(), |n| self.at + n));
    }

    fn tag(&mut self) {
        let rest = self.rest();
        if rest.starts_with("{#") {
            self.at = rest.find("#}").map_or(self.source.len(), |n| self.at + n + 2);
        } else if is_block(rest, "raw") {
            self.expression();
            self.raw_text();
        } else if !rest.is_empty() {
            self.expression();
        }
    }

    /// Text in which nothing is a tag but `endraw`.
    fn raw_text(&mut self) {
        let blocks = self.rest().match_indices("{%").map(|(n, _)| self.at + n);
        let end = { blocks }.find(|&n| is_block(&self.source[n..], "endraw"));
        self.write_to(end.unwrap_or(self.source.len()));
    }

    /// From the start of a tag to behind its end.
    fn expression(&mut self) {
        let bytes = self.source.as_bytes();
        self.at += 2;
        let mut braces = 0usize;
        while let Some(&byte) = bytes.get(self.at) {
            match (byte, bytes.get(self.at + 1)) {
                (b'\'' | b'"', _) => {
                    self.constant(byte);
                    continue;
                }
                (b'%', Some(b'}')) => break,
                (b'}', Some(b'}')) if braces == 0 => break,
                (b'{', _) => braces += 1,
                (b'}', _) => braces = braces.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
        }
        self.at = (self.at + 2).min(self.source.len());
    }

    /// A string constant, from its opening quote to behind its closing one.
    fn constant(&mut self, quote: u8) {
        let before = self.at;
        let mut escaped = false;
        let closes = |&byte: &u8| {
            let closes = byte == quote && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        };
        let length = self.source.as_bytes()[before + 1..].iter().position(closes);
        let end = length.map_or(self.source.len(), |n| before + 1 + n);
        let after = (end + 1).min(self.source.len());
        if !is_looked_for(&self.source[..before], &self.source[after..]) {
            self.parts.push(before + 1..end);
        }
        self.at = after;
    }
}

/// Whether a source begins with the tag of this block.
fn is_block(source: &str, name: &str) -> bool {
    let Some(inside) = source.strip_prefix("{%") else { return false };
    let inside = inside.trim_start_matches(['-', '+']).trim_start();
    inside.strip_prefix(name).is_some_and(|rest| !rest.starts_with(is_name))
}

/// Whether a constant between these parts of a source is compared with text or searched for.
fn is_looked_for(before: &str, after: &str) -> bool {
    let (before, after) = (before.trim_end(), after.trim_start());
    let compares = |op| before.ends_with(op) || after.starts_with(op);
    let negated = after.strip_prefix("not").map_or(after, str::trim_start);
    compares("==")
        || compares("!=")
        || begins_with_in(negated)
        || last_name(before) == "in"
        || before.strip_suffix('(').is_some_and(|call| LOOKING.contains(&last_name(call)))
}

fn begins_with_in(source: &str) -> bool {
    source.strip_prefix("in").is_some_and(|rest| !rest.starts_with(is_name))
}

/// The name at the end of a source, empty if there is none.
fn last_name(source: &str) -> &str {
    let source = source.trim_end();
    &source[source.trim_end_matches(is_name).len()..]
}

fn is_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        written(source).into_iter().map(|part| &source[part]).filter(|t| !t.is_empty()).collect()
    }

    #[test]
    fn plain_text_and_constants_are_written() {
        assert_eq!(texts("a{{ 'b' ~ \"c'd\" }}e{# 'f' #}g"), ["a", "b", "c'd", "e", "g"]);
        assert_eq!(texts("{%- set x = 'a\\'b' -%}c"), ["a\\'b", "c"]);
        assert_eq!(texts("{{ {'a': {'b': 1}}}}c{{ 'd' }}"), ["a", "b", "c", "d"]);
        assert_eq!(texts("{% raw %}{{ 'a' }}{%- endraw %}b"), ["{{ 'a' }}", "b"]);
        assert_eq!(texts("{{ x <think> y }}"), [""; 0]);
    }

    #[test]
    fn constants_that_are_looked_for_are_not_written() {
        let looking = [
            "{% if '<a>' in x %}",
            "{% if '<a>' not in x %}",
            "{% if x == '<a>' %}",
            "{% if '<a>' != x %}",
            "{{ x.startswith('<a>') }}",
            "{{ x.split( '<a>' )[0].rstrip('<b>') }}",
            "{{ x|replace('<a>', y) }}",
            "{% if x in '<a>' %}",
        ];
        for source in looking {
            assert_eq!(texts(source), [""; 0], "{source}");
        }
        assert_eq!(texts("{{ x.replace('<a>', '<b>') }}"), ["<b>"]);
        assert_eq!(texts("{{ '<a>' if x == '<b>' else '<c>' }}"), ["<a>", "<c>"]);
        assert_eq!(texts("{{ '<a>' + index }}"), ["<a>"]);
        assert_eq!(texts("{{ raise_exception('<a>') }}"), ["<a>"]);
    }

    #[test]
    fn unfinished_sources_end_the_scan() {
        for source in ["{{", "{{ 'a", "{% raw %}x", "{#", "{{ 'a\\", "{", "{%", "{{ '\u{e9}"] {
            written(source);
        }
    }
}
