//! Down projections of a row's experts and of the shared one, summed up in the call that makes them.
//! Values have the bits of the products and of the sum alone.

use super::text::{HEAD_WORDS, PARAMS, numbered, renamed, segment_text, table, table_binding};
use super::waiting::{WORKGROUP_BYTES, Waiting};
use super::{CallLimits, Inputs, Path, RowsOf, Segment};
use crate::formats::Book;
use crate::kernel::Kernel;
use crate::open::{Combination, Injection, SharedCall};
use crate::shader::{Binding, Shader, read, write};
use crate::tile::Width;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Most rows that are worth it: each reads its experts for itself.
const MOST_ROWS: usize = 4;

/// Experts whose units a lane asks for before it needs the first.
const BATCH: u32 = 5;

/// Names that each of the two has for itself.
const OWN: [&str; 5] = ["w", "w4", "codes", "scales", "x"];

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExpertSum {
    /// Of the routed experts, and of the shared one.
    pub(crate) segments: [Segment; 2],
    /// Units of their rows.
    pub(crate) units: [u32; 2],
    /// Experts of a row.
    pub(crate) used: u32,
    /// Residual streams that take the sum; 0 if it is only stored.
    pub(crate) streams: u32,
}

impl ExpertSum {
    fn books(&self) -> BTreeSet<Book> {
        self.segments.iter().map(|segment| segment.format.layout().book).collect()
    }

    fn threads(&self) -> u32 {
        32 * self.segments[0].tile.subgroups
    }

    fn lanes(&self) -> u32 {
        self.segments[0].tile.all_lanes()
    }

    fn fits(&self, limits: CallLimits) -> bool {
        let words: usize = self.books().iter().map(|book| book.len()).sum();
        let sums = (self.threads() + self.threads() / self.lanes()) * (self.used + 1);
        // Streams may be added to it.
        self.bindings().len() + 2 <= limits.bindings && 4 * (sums + words as u32) <= WORKGROUP_BYTES
    }

    fn bindings(&self) -> Vec<Binding> {
        const NAMES: [[&str; 5]; 2] = [
            ["w_0", "w4_0", "codes_0", "scales_0", "x_0"],
            ["w_1", "w4_1", "codes_1", "scales_1", "x_1"],
        ];
        let mut all = vec![write("y", "f32"), write("part", "f32"), write("shared_y", "f32")];
        all.extend([read("experts", "u32"), read("weights", "f32"), read("gate", "f32")]);
        for (segment, [w, w4, codes, scales, x]) in self.segments.iter().zip(NAMES) {
            all.extend([read(w, "u32"), read(w4, "vec4<u32>")]);
            match segment.activations {
                Path::Int8 => all.extend([read(codes, "vec4<u32>"), read(scales, "vec2<u32>")]),
                Path::Float => all.push(read(x, "vec4<f32>")),
            }
        }
        let books = self.books().into_iter().filter(|&book| book != Book::None);
        all.extend(books.map(|book| table_binding(book, Width::Few(1))));
        if self.streams > 0 {
            all.extend([read("gains", "f32"), write("streams", "f32")]);
        }
        all
    }

    pub(crate) fn shader(self) -> Shader {
        let Self { units, used, streams, .. } = self;
        let mut name = format!("expert_sum USED={used} STREAMS={streams}");
        let mut text = format!(
            "{PARAMS}struct Params {{ tokens: u32, grid: u32, tiles: u32, runs: u32, \
             s0: Segment, s1: Segment, }}\nvar<immediate> p: Params;\n"
        );
        let constants = [
            ("THREADS", self.threads()),
            ("LANES", self.lanes()),
            ("USED", used),
            ("STREAMS", streams),
        ];
        for (constant, value) in constants {
            let _ = writeln!(text, "const {constant}: u32 = {value}u;");
        }
        let bindings = self.bindings();
        Shader::declare(&mut text, &bindings);
        let mut fetches = String::new();
        for book in self.books() {
            let call = renamed("fetch_book", &BTreeMap::from([("fetch_book", table_name(book))]));
            let _ = writeln!(fetches, "    {call}(thread, THREADS);");
            text.push_str(&table(book, Width::Few(1)));
        }
        let _ = write!(text, "fn fetch_books(thread: u32) {{\n{fetches}}}\n");
        for (index, segment) in self.segments.iter().enumerate() {
            let _ = write!(name, " + {} UNITS={}", segment.name(), units[index]);
            text.push_str(&self.piece(index));
        }
        text.push_str(include_str!("../../shaders/math.wgsl"));
        let leave = match streams {
            0 => include_str!("../../shaders/leave.wgsl"),
            _ => include_str!("../../shaders/leave_injected.wgsl"),
        };
        text.push_str(&renamed(leave, &BTreeMap::from([("p", "p.s0".to_owned())])));
        text.push_str(include_str!("../../shaders/expert_sum.wgsl"));
        let params = 4 * HEAD_WORDS as u32 + 2 * size_of::<super::waiting::Work>() as u32;
        Shader { name, bindings, params, text }
    }

    /// The lanes of one of the two.
    fn piece(&self, index: usize) -> String {
        let segment = &self.segments[index];
        let (count, first) = [(self.used, 0), (1, self.used)][index];
        let matrix = ["experts[row * COUNT + j]", "0u"][index];
        let most = if segment.activations == Path::Int8 { BATCH } else { 1 };
        let batch = count.div_ceil(count.div_ceil(most));
        let constants =
            [("UNITS", self.units[index]), ("COUNT", count), ("FIRST", first), ("BATCH", batch)];
        let mut text = segment_text(segment, &constants);
        let _ = writeln!(text, "fn matrix_of(row: u32, j: u32) -> u32 {{ return {matrix}; }}");
        text.push_str(include_str!("../../shaders/expert_sum_lanes.wgsl"));
        numbered(&text, segment, index, &OWN)
    }
}

fn table_name(book: Book) -> String {
    format!("fetch_book_{}", super::text::suffix(book))
}

/// Products with the routed experts and, behind them, with the shared one.
#[derive(Debug)]
pub(crate) struct Downs {
    routed: Waiting,
    shared: Waiting,
}

impl Downs {
    /// Whether `shared` can wait beside products with experts for the sum of both.
    pub(crate) fn can_be(routed: &Waiting, shared: &Waiting) -> bool {
        let few = |one: &Waiting| matches!(one.source.width, Width::Few(_));
        let rows = routed.source.window_rows;
        let one = (routed.work.pairs_per_x, routed.work.experts & 0xffff) == (1, 0);
        let whole = (shared.work.y_first, shared.work.weight_rows) == (0, shared.work.y_width)
            && shared.work.y_width == routed.work.y_width;
        (routed.source.rows, shared.source.rows) == (RowsOf::Experts, RowsOf::Window)
            && (one && whole && few(routed) && few(shared))
            && rows <= MOST_ROWS
            && rows == shared.source.window_rows
            && routed.segment.tile.all_lanes() == shared.segment.tile.all_lanes()
            && routed.segment.tile.subgroups == shared.segment.tile.subgroups
            && routed.y != shared.y
            && shared.reads().all(|read| *read != routed.y)
            && routed.reads().all(|read| *read != shared.y)
    }

    pub(crate) fn new(routed: Waiting, shared: Waiting) -> Self {
        Self { routed, shared }
    }

    /// Apart again, in their order.
    pub(crate) fn apart(self) -> [Waiting; 2] {
        [self.routed, self.shared]
    }

    /// Whether `sum` is that of these results.
    pub(crate) fn takes(&self, sum: &Combination, limits: CallLimits) -> bool {
        let Self { routed, shared } = self;
        let [y, shared_y, part, ..] = &sum.buffers;
        let same = *shared_y == shared.y
            && *part == routed.y
            && routed.source.plan.as_ref() == Some(&sum.tiles_and_order);
        let sizes =
            (sum.rows, sum.width) == (routed.source.window_rows, routed.work.y_width as usize);
        let apart = [routed, shared].iter().all(|one| one.reads().all(|read| read != y));
        same && sizes && apart && self.kernel(sum.used, 0).fits(limits)
    }

    fn kernel(&self, used: u32, streams: u32) -> ExpertSum {
        let Self { routed, shared } = self;
        let (segments, units) =
            ([routed.segment, shared.segment], [routed.work.units, shared.work.units]);
        ExpertSum { segments, units, used, streams }
    }

    /// The call that makes all of it.
    pub(crate) fn call(self, sum: Combination, injection: Option<Injection>) -> SharedCall {
        let streams = injection.as_ref().map_or(0, |injection| injection.streams);
        let kernel = self.kernel(sum.used, streams);
        let [y, shared_y, part, weights, gate] = sum.buffers;
        let mut buffers = vec![y, part, shared_y, sum.experts, weights, gate];
        let mut params = vec![0u32; HEAD_WORDS];
        let mut tables = BTreeMap::new();
        let Self { routed, shared } = self;
        for one in [routed, shared] {
            buffers.extend([one.weights.clone(), one.weights]);
            match one.input {
                Inputs::Int8 { codes, scales } => buffers.extend([codes, scales]),
                Inputs::Float(x) => buffers.push(x),
            }
            params.extend(bytemuck::cast_slice::<_, u32>(&[one.work]));
            tables.extend(one.table);
        }
        buffers.extend(tables.into_values());
        buffers.extend(injection.into_iter().flat_map(Injection::buffers));
        params[0] = sum.rows as u32;
        let groups = (kernel.threads() / kernel.lanes()) as usize;
        let grid = [sum.width.div_ceil(groups) as u32, sum.rows as u32, 1];
        let kernel = Kernel::ExpertSum(kernel);
        SharedCall { kernel, buffers, constants: None, params, grid }
    }
}
