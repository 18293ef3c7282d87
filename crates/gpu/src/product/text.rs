//! The text of product kernels: one piece per product that shares the call, with names of its own.

use super::{Conv, Path, Product, RowsOf, Segment};
use crate::formats::{Book, Values};
use crate::shader::{Binding, Shader, read, write};
use crate::tile::{UNROLL, Width};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Words in front of the segments of a call's parameters.
pub(super) const HEAD_WORDS: usize = 4;

/// Words of a segment's parameters.
pub(super) const SEGMENT_WORDS: usize = 12;

/// The parameters, as `Params` of `product/mod.rs` lays them out.
pub(super) const PARAMS: &str = "\
struct Segment {
    // Units of a weight row.
    units: u32,
    // Weight rows, of one expert.
    weight_rows: u32,
    // Values of an output row, and the first of these weight rows.
    y_width: u32,
    y_first: u32,
    // First expert in the low half, their number in the high one.
    experts: u32,
    // Pairs that share a row of activations.
    pairs_per_x: u32,
    // Planes, in words, and from one code plane to the next.
    a: u32,
    b: u32,
    c: u32,
    d: u32,
    e: u32,
    stride: u32,
}
";

/// Names of bindings that each segment has for itself.
const OWN: [&str; 3] = ["w", "w4", "y"];

/// Names that belong to a format's table; segments of one table share it.
const TABLE: [&str; 4] = ["book", "book_source", "fetch_book", "BOOK"];

/// Text and bindings of a kernel.
pub(super) fn shader(kernel: &Product) -> Shader {
    let mut name = kernel.family();
    let mut text = format!("const T: u32 = {}u;\n{PARAMS}", kernel.width.tokens());
    text.push_str("struct Params { tokens: u32, grid: u32, tiles: u32, runs: u32, ");
    let segments: Vec<&Segment> = kernel.segments().collect();
    for index in 0..segments.len() {
        let _ = write!(text, "s{index}: Segment, ");
    }
    text.push_str("}\nvar<immediate> p: Params;\n");
    let mut bindings = Vec::new();
    for index in 0..segments.len() {
        let [w, w4, y] = own_names(index);
        bindings.extend([read(w, "u32"), read(w4, "vec4<u32>"), write(y, "f32")]);
    }
    let has = |path| segments.iter().any(|segment| segment.activations == path);
    if has(Path::Int8) {
        bindings.extend([read("codes", "vec4<u32>"), read("scales", "vec2<u32>")]);
    }
    if has(Path::Float) {
        bindings.push(read("x", "vec4<f32>"));
    }
    for book in kernel.books() {
        bindings.push(table_binding(book, kernel.width));
    }
    if kernel.rows == RowsOf::Experts {
        bindings.extend([read("tiles", "vec4<u32>"), read("order", "u32")]);
    }
    if kernel.streams > 0 {
        bindings.extend([read("gains", "f32"), write("streams", "f32")]);
        let _ = writeln!(text, "const STREAMS: u32 = {}u;", kernel.streams);
    }
    if kernel.conv.is_some() {
        bindings.extend([write("convolved_rows", "f32"), write("state", "f32")]);
        bindings.extend([read("taps", "f32"), read("runs", "u32")]);
        text.push_str(include_str!("../../shaders/math.wgsl"));
        text.push_str(include_str!("../../shaders/runs.wgsl"));
    }
    Shader::declare(&mut text, &bindings);
    let mut tables = BTreeSet::new();
    for (index, segment) in segments.iter().enumerate() {
        let _ = write!(name, " + {}", segment.name());
        let book = segment.format.layout().book;
        if tables.insert(book) {
            text.push_str(&table(book, kernel.width));
        }
        text.push_str(&piece(kernel, segment, index));
    }
    text.push_str(&main(kernel, segments.len()));
    let params = 4 * (HEAD_WORDS + SEGMENT_WORDS * segments.len()) as u32;
    Shader { name, bindings, params, text }
}

/// The binding of a table. Few rows bring it to workgroup memory, in vectors.
pub(super) fn table_binding(book: Book, width: Width) -> Binding {
    let ty = if matches!(width, Width::Few(_)) { "vec4<u32>" } else { "u32" };
    read(book_binding(book, width), ty)
}

/// Where the words of a table come from.
fn book_binding(book: Book, width: Width) -> &'static str {
    match (book, width) {
        (Book::None, _) => "none",
        (Book::Iq4, Width::Few(_)) => "book_source_iq4",
        (Book::Iq4, Width::Many(_)) => "book_iq4",
        (Book::Iq3S, Width::Few(_)) => "book_source_iq3s",
        (Book::Iq3S, Width::Many(_)) => "book_iq3s",
        (Book::Iq3Xxs, Width::Few(_)) => "book_source_iq3xxs",
        (Book::Iq3Xxs, Width::Many(_)) => "book_iq3xxs",
        (Book::Iq2S, Width::Few(_)) => "book_source_iq2s",
        (Book::Iq2S, Width::Many(_)) => "book_iq2s",
    }
}

pub(super) fn suffix(book: Book) -> &'static str {
    match book {
        Book::None => "none",
        Book::Iq4 => "iq4",
        Book::Iq3S => "iq3s",
        Book::Iq3Xxs => "iq3xxs",
        Book::Iq2S => "iq2s",
    }
}

/// The table and what fetches it.
pub(super) fn table(book: Book, width: Width) -> String {
    let text = match (book, width) {
        (_, Width::Many(_)) => return String::new(),
        (Book::None, Width::Few(_)) => include_str!("../../shaders/no_book.wgsl").to_owned(),
        (book, Width::Few(_)) => {
            let words = book.len();
            format!("const BOOK: u32 = {words}u;\n{}", include_str!("../../shaders/book.wgsl"))
        }
    };
    let names = TABLE.iter().map(|&name| (name, format!("{name}_{}", suffix(book)))).collect();
    renamed(&text, &names)
}

/// The text of one segment; everything that it defines has its number in the name.
fn piece(kernel: &Product, segment: &Segment, index: usize) -> String {
    let mut text = segment_text(segment, &segment.constants(kernel.width));
    text.push_str(match kernel.rows {
        RowsOf::Window => include_str!("../../shaders/product_rows.wgsl"),
        RowsOf::Experts => include_str!("../../shaders/product_experts.wgsl"),
    });
    if let Width::Few(_) = kernel.width {
        text.push_str(&tail(kernel, index));
        text.push_str(include_str!("../../shaders/product.wgsl"));
    } else {
        text.push_str(include_str!("../../shaders/product_many.wgsl"));
    }
    numbered(&text, segment, index, &OWN)
}

/// Constants, and how a lane reads and multiplies a unit.
pub(super) fn segment_text(segment: &Segment, constants: &[(&str, u32)]) -> String {
    let layout = segment.format.layout();
    let mut text = String::new();
    let halves = matches!(layout.values, Values::ScaledHalves | Values::AffineHalves);
    let affine = matches!(layout.values, Values::Affine | Values::AffineHalves);
    let more = [("HALVES", u32::from(halves)), ("AFFINE", u32::from(affine))];
    for (constant, value) in constants.iter().chain(&more) {
        let _ = writeln!(text, "const {constant}: u32 = {value}u;");
    }
    layout.source.iter().for_each(|source| text.push_str(source));
    text.push_str(match (segment.activations, layout.values.has_codes()) {
        (Path::Int8, _) => include_str!("../../shaders/add_int8.wgsl"),
        (Path::Float, true) => include_str!("../../shaders/add_coded.wgsl"),
        (Path::Float, false) => include_str!("../../shaders/add_float.wgsl"),
    });
    text
}

/// A segment's text with its number behind what it defines and behind the names `own`.
pub(super) fn numbered(
    text: &str,
    segment: &Segment,
    index: usize,
    own: &[&'static str],
) -> String {
    let book = segment.format.layout().book;
    let mut names: BTreeMap<&str, String> =
        defined(text).into_iter().map(|name| (name, format!("{name}_{index}"))).collect();
    names.extend(own.iter().map(|&name| (name, format!("{name}_{index}"))));
    names.extend(TABLE.iter().map(|&name| (name, format!("{name}_{}", suffix(book)))));
    names.insert("p", format!("p.s{index}"));
    names.insert("call", "p".to_owned());
    renamed(text, &names)
}

/// What becomes of a segment's results.
fn tail(kernel: &Product, index: usize) -> String {
    let no_finish = include_str!("../../shaders/no_finish.wgsl");
    match kernel.conv {
        Some(Conv { segment, taps, slot_len }) if segment as usize == index => {
            let constants = [("KERNEL", taps), ("DILATION", 1), ("SLOT_LEN", slot_len)];
            let constants = constants.map(|(name, n)| format!("const {name}: u32 = {n}u;\n"));
            let columns = include_str!("../../shaders/columns.wgsl");
            constants.concat() + columns + include_str!("../../shaders/leave_convolved.wgsl")
        }
        _ if kernel.streams > 0 => {
            include_str!("../../shaders/leave_injected.wgsl").to_owned() + no_finish
        }
        _ => include_str!("../../shaders/leave.wgsl").to_owned() + no_finish,
    }
}

fn own_names(index: usize) -> [&'static str; 3] {
    match index {
        0 => ["w_0", "w4_0", "y_0"],
        1 => ["w_1", "w4_1", "y_1"],
        2 => ["w_2", "w4_2", "y_2"],
        3 => ["w_3", "w4_3", "y_3"],
        _ => ["w_4", "w4_4", "y_4"],
    }
}

/// Workgroups go to the segments in turn.
fn main(kernel: &Product, segments: usize) -> String {
    let mut text = String::new();
    if let Width::Few(_) = kernel.width {
        let sums = kernel.segments().map(|s| s.tile.rows * kernel.width.tokens()).max();
        let partials = kernel.threads() * sums.unwrap_or(1);
        let _ = writeln!(text, "var<workgroup> partials: array<f32, {partials}u>;");
    }
    let _ = write!(
        text,
        "@compute @workgroup_size({}u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {{
    var index = group.x + group.y * p.grid;
",
        kernel.threads()
    );
    for k in 0..segments {
        let _ = write!(
            text,
            "    let blocks_{k} = (p.s{k}.weight_rows + BLOCK_{k} - 1u) / BLOCK_{k};
    if index < blocks_{k} * p.tiles {{
        product_{k}(index % blocks_{k}, index / blocks_{k}, thread);
        return;
    }}
    index -= blocks_{k} * p.tiles;
"
        );
    }
    text.push_str("}\n");
    text
}

/// Names that `text` defines outside of functions.
fn defined(text: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut depth = 0usize;
    // Of a variable the name comes behind its address space: `var<workgroup> name`.
    let mut in_variable = false;
    let mut before = "";
    for token in Tokens(text).filter(|token| !token.trim().is_empty()) {
        match token {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "var" => in_variable = true,
            ":" | ";" => in_variable = false,
            _ if depth > 0 => {}
            _ if matches!(before, "fn" | "struct" | "const") || in_variable && before == ">" => {
                names.insert(token);
            }
            _ => {}
        }
        before = token;
    }
    names
}

/// `text` with these names replaced, but for those of fields.
pub(super) fn renamed(text: &str, names: &BTreeMap<&str, String>) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let mut before = "";
    for token in Tokens(text) {
        match names.get(token) {
            Some(name) if before != "." => out.push_str(name),
            _ => out.push_str(token),
        }
        before = token;
    }
    out
}

/// Words, line comments, and single other characters of a text.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let first = self.0.chars().next()?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = if self.0.starts_with("//") {
            self.0.find('\n')
        } else if is_word(first) {
            self.0.find(|c| !is_word(c))
        } else {
            Some(first.len_utf8())
        };
        let (token, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        Some(token)
    }
}

impl Segment {
    pub(super) fn name(&self) -> String {
        let path = match self.activations {
            Path::Int8 => "int8",
            Path::Float => "f32",
        };
        let tile = self.tile;
        format!("{} {path} L={} R={} K={}", self.format.name(), tile.lanes, tile.rows, tile.splits)
    }

    fn constants(&self, width: Width) -> Vec<(&'static str, u32)> {
        let lanes = self.tile.all_lanes();
        let block = width.weight_rows(self.tile) as u32;
        match width {
            Width::Few(_) => {
                let threads = 32 * self.tile.subgroups;
                vec![
                    ("LANES", lanes),
                    ("R", self.tile.rows),
                    ("THREADS", threads),
                    ("U", UNROLL),
                    ("BLOCK", block),
                ]
            }
            Width::Many(_) => {
                let (rows, of_thread) = width.of_thread();
                vec![("LANES", lanes), ("RT", rows), ("TT", of_thread), ("BLOCK", block)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_piece_defines_gets_its_number_and_fields_keep_their_names() {
        let text = "// y here\nconst A: u32 = 1u;\nstruct S { y: u32 }\nvar<workgroup> v: array<S, A>;\n\
                    fn f(i: u32) -> u32 { let y = v[i].y; return y + A; }\n";
        let names = defined(text);
        assert_eq!(names.iter().copied().collect::<Vec<_>>(), ["A", "S", "f", "v"]);
        let names = names.into_iter().map(|name| (name, format!("{name}_3"))).collect();
        let want = "// y here\nconst A_3: u32 = 1u;\nstruct S_3 { y: u32 }\n\
                    var<workgroup> v_3: array<S_3, A_3>;\n\
                    fn f_3(i: u32) -> u32 { let y = v_3[i].y; return y + A_3; }\n";
        assert_eq!(renamed(text, &names), want);
    }
}
