//! The report for people.

use std::fmt::Write;

use gguf::{Array, Value};

use super::check::Checked;
use super::report::{Report, bits_per_weight};
use super::{numbers, tensors};
use crate::columns::columns;
use crate::units;

/// Longest string shown in full, in characters.
const STRING_CHARS: usize = 80;
/// Array elements shown.
const ELEMENTS: usize = 6;
/// Longest array element shown in full, in characters.
const ELEMENT_CHARS: usize = 16;

/// The whole report.
pub(crate) fn report(report: &Report<'_>, every: bool, checked: Option<&Checked>) -> String {
    let mut text = header(report);
    section(&mut text, "Metadata", &metadata(report));
    if let Some(hp) = &report.hp {
        section(&mut text, "Hyper-parameters", &numbers::hyper_parameters(hp, drafts(report)));
    }
    let rows = if every { tensors::each(report) } else { tensors::kinds(report) };
    let title = if every { "Tensors" } else { "Kinds of tensors (--tensors lists each)" };
    section(&mut text, title, &columns(&rows));
    section(&mut text, "Bytes by part", &columns(&parts(report)));
    if let Some(checked) = checked {
        section(&mut text, "Check of all blocks", &check(checked));
    }
    section(&mut text, "Warnings", &report.warnings);
    section(&mut text, "Faults", &report.faults);
    text
}

/// What drafts can come from.
fn drafts(report: &Report<'_>) -> &'static str {
    match (report.has_drafting_block(), report.tensors.is_empty()) {
        (true, _) => "this file has a drafting block (MTP)",
        (false, true) => "no drafting block, as there are no tensors",
        (false, false) => {
            "no drafting block (MTP) in this file; --mtp can name one, --spec lookup needs none"
        }
    }
}

fn header(report: &Report<'_>) -> String {
    let gguf = &report.file.gguf;
    let (weights, bytes) = (report.weights(), report.bytes());
    let files = match gguf.parts().len() {
        1 => String::new(),
        count => format!(" in {count} files"),
    };
    let mut text = format!("{}: {}\n", report.file.path.display(), report.summary);
    let _ = writeln!(
        text,
        "GGUF version {}, {}{files}; {}, {} weights, {:.2} bits per weight",
        gguf.version(),
        units::bytes(gguf.file_bytes()),
        units::count(gguf.tensors().len(), "tensor"),
        units::weights(weights),
        bits_per_weight(bytes, weights),
    );
    text
}

/// A title and indented lines; nothing without lines.
fn section(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}");
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
}

fn metadata(report: &Report<'_>) -> Vec<String> {
    let rows = report.file.gguf.metadata().iter();
    let rows: Vec<_> = rows.map(|(key, value)| vec![escaped(key, 200), shown(value)]).collect();
    columns(&rows)
}

fn shown(value: &Value) -> String {
    match value {
        Value::Str(text) => quoted(text, STRING_CHARS),
        Value::Bool(flag) => flag.to_string(),
        Value::F32(number) => number.to_string(),
        Value::F64(number) => number.to_string(),
        Value::Array(array) => list(array),
        other => other.as_integer().map(|number| number.to_string()).unwrap_or_default(),
    }
}

fn list(array: &Array) -> String {
    let items: Vec<String> = match array {
        Array::Str(items) => {
            items.iter().take(ELEMENTS).map(|item| quoted(item, ELEMENT_CHARS)).collect()
        }
        Array::Bool(items) => items.iter().take(ELEMENTS).map(bool::to_string).collect(),
        Array::F32(items) => items.iter().take(ELEMENTS).map(f32::to_string).collect(),
        Array::F64(items) => items.iter().take(ELEMENTS).map(f64::to_string).collect(),
        other => {
            let integers = other.integers().into_iter().flatten();
            integers.take(ELEMENTS * 2).map(|number| number.to_string()).collect()
        }
    };
    let (count, kind) = (array.len(), array.element_type());
    let more = if count > items.len() { ", ..." } else { "" };
    format!("[{}{more}]  ({count} x {kind})", items.join(", "))
}

fn quoted(text: &str, limit: usize) -> String {
    let more = match text.chars().nth(limit) {
        Some(_) if limit >= STRING_CHARS => {
            format!("...  ({} bytes)", units::grouped(text.len() as u64))
        }
        Some(_) => "...".to_owned(),
        None => String::new(),
    };
    format!("\"{}\"{more}", escaped(text, limit))
}

/// The beginning of a text, control characters escaped.
pub(crate) fn escaped(text: &str, limit: usize) -> String {
    text.chars().take(limit).flat_map(char::escape_debug).collect()
}

fn parts(report: &Report<'_>) -> Vec<Vec<String>> {
    let total = report.bytes();
    let row = |name: &str, tensors: usize, bytes: u64, weights: u64| {
        let share = if total == 0 { 0.0 } else { bytes as f64 * 100.0 / total as f64 };
        vec![
            name.to_owned(),
            tensors.to_string(),
            units::grouped(bytes),
            format!("{share:.1} %"),
            format!("{:.2}", bits_per_weight(bytes, weights)),
        ]
    };
    if report.parts.is_empty() {
        return Vec::new();
    }
    let header = ["part", "tensors", "bytes", "share", "bits per weight"].map(str::to_owned);
    let mut rows = vec![header.to_vec()];
    for part in &report.parts {
        rows.push(row(part.name(), part.tensors, part.bytes, part.weights));
    }
    rows.push(row("all", report.tensors.len(), total, report.weights()));
    rows
}

fn check(checked: &Checked) -> Vec<String> {
    let mut lines: Vec<String> = checked.bad.iter().map(ToString::to_string).collect();
    let skipped = match checked.skipped {
        0 => String::new(),
        count => format!(", {count} of other types skipped"),
    };
    let (tensors, bad) = (units::count(checked.tensors, "tensor"), checked.bad.len());
    lines.push(format!("{tensors} checked{skipped}, {bad} bad"));
    lines
}
