//! JSON as Python's `json.dumps(ensure_ascii=False)` writes it, which is what the model was
//! trained on: `", "` and `": "` between parts, keys in order, no escapes beyond JSON's own.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Writes a value; with an indent, one part per line.
pub(super) fn write(
    value: &minijinja::Value,
    indent: Option<usize>,
    output: &mut impl Write,
) -> serde_json::Result<()> {
    let style = Python { indent, depth: 0, filled: false };
    value.serialize(&mut Serializer::with_formatter(output, style))
}

/// The style of Python's `json` module.
struct Python {
    indent: Option<usize>,
    depth: usize,
    /// Whether the list or object that ends next has parts.
    filled: bool,
}

impl Python {
    fn begin<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        writer.write_all(bracket)
    }

    fn part<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(if self.indent.is_some() { b"," } else { b", " })?;
        }
        self.line(writer)
    }

    fn end<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.filled {
            self.line(writer)?;
        }
        self.filled = true;
        writer.write_all(bracket)
    }

    fn line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        let Some(indent) = self.indent else { return Ok(()) };
        writer.write_all(b"\n")?;
        for _ in 0..self.depth.saturating_mul(indent) {
            writer.write_all(b" ")?;
        }
        Ok(())
    }
}

impl Formatter for Python {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.part(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.part(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}

/// A finite number as Python's `repr` writes it: shortest digits that read back the same, with
/// an exponent below 1e-4 and from 1e16 on.
fn float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..16).contains(&exponent) {
        let plain = value.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumps(text: &str, indent: Option<usize>) -> String {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        let mut output = Vec::new();
        write(&minijinja::Value::from(minijinja::value::Serde(value)), indent, &mut output)
            .unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn parts_keys_and_text_are_as_python_writes_them() {
        let text = r#"{"z": [1, -2, true, null, {}], "a": "<\u00e9>&'\u0001\n\"\\\u007f"}"#;
        let expected = "{\"z\": [1, -2, true, null, {}], \
                        \"a\": \"<\u{e9}>&'\\u0001\\n\\\"\\\\\u{7f}\"}";
        assert_eq!(dumps(text, None), expected);
        assert_eq!(dumps("[]", None), "[]");
        assert_eq!(dumps("18446744073709551615", None), "18446744073709551615");
    }

    #[test]
    fn indented_parts_have_a_line_each() {
        let expected = "{\n  \"a\": [\n    1,\n    []\n  ],\n  \"b\": {}\n}";
        assert_eq!(dumps(r#"{"a": [1, []], "b": {}}"#, Some(2)), expected);
        assert_eq!(dumps("[1, [2]]", Some(0)), "[\n1,\n[\n2\n]\n]");
    }

    #[test]
    fn floats_are_as_python_writes_them() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123_456_789.25, "123456789.25"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (-1.25e300, "-1.25e+300"),
            (5e-324, "5e-324"),
        ];
        for (value, text) in cases {
            assert_eq!(float(value), text);
        }
    }
}
