//! The tensors as tables: each, or grouped by what they are for.

use std::collections::HashMap;

use gguf::{TensorInfo, TensorType};
use model::Role;

use super::report::{Report, Row};
use super::text::escaped;
use crate::units;

/// Longest name shown in full, in characters: that of the format.
const NAME_CHARS: usize = 63;

/// Every tensor.
pub(crate) fn each(report: &Report<'_>) -> Vec<Vec<String>> {
    let header = ["name", "role", "type", "shape", "bytes"].map(str::to_owned).to_vec();
    let rows = report.tensors.iter().map(|row| {
        vec![
            escaped(&row.info.name, NAME_CHARS),
            row.role.map_or("-", Role::short_name).to_owned(),
            row.info.ty.to_string(),
            shape(&row.info.dims),
            units::grouped(row.info.bytes),
        ]
    });
    std::iter::once(header).chain(rows).collect()
}

/// Tensors that differ only in their layer.
struct Kind<'a> {
    pattern: String,
    first: &'a Row<'a>,
    count: usize,
    types: Vec<TensorType>,
    same_shape: bool,
    bytes: u64,
}

/// One line for the tensors of all layers.
pub(crate) fn kinds(report: &Report<'_>) -> Vec<Vec<String>> {
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    let mut places = HashMap::new();
    for row in &report.tensors {
        let place = *places.entry(pattern(&row.info.name)).or_insert(kinds.len());
        if place == kinds.len() {
            kinds.push(Kind::new(row));
        }
        kinds[place].add(row.info);
    }
    let header = ["name", "count", "type", "shape", "bytes"].map(str::to_owned).to_vec();
    let rows = kinds.iter().map(Kind::row);
    if kinds.is_empty() { Vec::new() } else { std::iter::once(header).chain(rows).collect() }
}

impl<'a> Kind<'a> {
    fn new(first: &'a Row<'a>) -> Kind<'a> {
        let pattern = pattern(&first.info.name);
        Kind { pattern, first, count: 0, types: Vec::new(), same_shape: true, bytes: 0 }
    }

    fn add(&mut self, info: &TensorInfo) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(info.bytes);
        self.same_shape &= info.dims == self.first.info.dims;
        if !self.types.contains(&info.ty) {
            self.types.push(info.ty);
        }
    }

    fn row(&self) -> Vec<String> {
        let types: Vec<&str> = self.types.iter().map(|ty| ty.name()).collect();
        let shape = if self.same_shape { shape(&self.first.info.dims) } else { "various".into() };
        vec![
            escaped(&self.pattern, NAME_CHARS),
            self.count.to_string(),
            types.join(" "),
            shape,
            units::grouped(self.bytes),
        ]
    }
}

/// A tensor's name with N for the number of its layer.
fn pattern(name: &str) -> String {
    let rest = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    match rest {
        Some((layer, rest)) if !layer.is_empty() && layer.bytes().all(|b| b.is_ascii_digit()) => {
            format!("blk.N.{rest}")
        }
        _ => name.to_owned(),
    }
}

fn shape(dims: &[u64]) -> String {
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    if dims.is_empty() { "scalar".to_owned() } else { dims.join(" x ") }
}
