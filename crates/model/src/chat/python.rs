//! String methods and filters that templates expect to behave as in Python, where the template
//! engine's own differ.

use std::borrow::Cow;

use minijinja::value::{ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Which ends of a text are stripped.
#[derive(Clone, Copy)]
enum Ends {
    Start,
    Both,
    End,
}

/// Methods of Python's types that the template engine does not know.
pub(super) fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return unknown_method_callback(state, value, name, args);
    };
    match name {
        "strip" => strip_method(text, args, Ends::Both),
        "lstrip" => strip_method(text, args, Ends::Start),
        "rstrip" => strip_method(text, args, Ends::End),
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        _ => unknown_method_callback(state, value, name, args),
    }
}

/// The filter `trim`.
#[allow(clippy::needless_pass_by_value, reason = "The engine passes converted arguments by value")]
pub(super) fn trim(text: Cow<'_, str>, chars: Option<&str>) -> String {
    strip(&text, chars, Ends::Both).to_owned()
}

/// The filter `items`, with the words of Jinja2 for what has none.
pub(super) fn items(value: &Value) -> Result<Value, Error> {
    if matches!(value.kind(), ValueKind::Map | ValueKind::Undefined) {
        return minijinja::filters::items(value);
    }
    Err(Error::new(ErrorKind::InvalidOperation, "Can only get item pairs from a mapping."))
}

fn strip_method(text: &str, args: &[Value], ends: Ends) -> Result<Value, Error> {
    let (chars,): (Option<&str>,) = from_args(args)?;
    Ok(Value::from(strip(text, chars, ends)))
}

fn strip<'a>(text: &'a str, chars: Option<&str>, ends: Ends) -> &'a str {
    let stripped = |c: char| match chars {
        Some(chars) => chars.contains(c),
        None => is_space(c),
    };
    match ends {
        Ends::Start => text.trim_start_matches(stripped),
        Ends::Both => text.trim_matches(stripped),
        Ends::End => text.trim_end_matches(stripped),
    }
}

/// Python counts four separators of ASCII as whitespace that Unicode does not.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripping_follows_python() {
        assert_eq!(strip("\u{1f} \u{a0}x\u{3000}\n", None, Ends::Both), "x");
        assert_eq!(strip("\u{200b}x", None, Ends::Both), "\u{200b}x");
        assert_eq!(strip("\n\nx\n", Some("\n"), Ends::Start), "x\n");
        assert_eq!(strip("xyabyx", Some("xy"), Ends::End), "xyab");
    }
}
