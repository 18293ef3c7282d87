//! Products that wait for others to share their call.

use super::text::{HEAD_WORDS, SEGMENT_WORDS};
use super::{Inputs, MAX_SEGMENTS, Product, RowsOf, Segment};
use crate::buffer::{Held, Slice};
use crate::formats::Book;
use crate::recorder::spread;
use crate::tile::Width;
use bytemuck::{Pod, Zeroable};

/// Bytes of workgroup memory that every device has.
const WORKGROUP_BYTES: u32 = 16 << 10;

/// Parameters of a segment, as the text of product kernels declares them.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Work {
    pub(super) units: u32,
    pub(super) weight_rows: u32,
    pub(super) y_width: u32,
    pub(super) y_first: u32,
    pub(super) experts: u32,
    pub(super) pairs_per_x: u32,
    pub(super) a: u32,
    pub(super) b: u32,
    pub(super) c: u32,
    pub(super) d: u32,
    pub(super) e: u32,
    pub(super) stride: u32,
}

/// Where rows of activations come from, and how many at once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    pub(super) rows: RowsOf,
    /// Rows of the window.
    pub(super) window_rows: usize,
    pub(super) width: Width,
    /// Tiles of rows.
    pub(super) tiles: usize,
    /// Tiles and order of a plan.
    pub(super) plan: Option<[Held; 2]>,
}

impl Source {
    /// Whether a kernel of this product alone has workgroup memory enough.
    pub(super) fn fits(&self, segment: Segment) -> bool {
        let segments = [Some(segment), None, None, None, None];
        let alone = Product { rows: self.rows, width: self.width, segments };
        matches!(self.width, Width::Many(_)) || alone.workgroup_bytes() <= WORKGROUP_BYTES
    }
}

/// A product that was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(super) segment: Segment,
    pub(super) source: Source,
    pub(super) weights: Held,
    pub(super) input: Inputs,
    pub(super) table: Option<(Book, Held)>,
    pub(super) y: Held,
    pub(super) work: Work,
}

impl Waiting {
    /// Buffers that it reads, but for weights and tables, which nothing writes.
    fn reads(&self) -> impl Iterator<Item = &Held> {
        let input = match &self.input {
            Inputs::Float(x) => [Some(x), None],
            Inputs::Int8 { codes, scales } => [Some(codes), Some(scales)],
        };
        input.into_iter().flatten().chain(self.source.plan.iter().flatten())
    }
}

/// What a call of a product kernel may take on this device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLimits {
    /// Storage buffers.
    pub(crate) bindings: usize,
    /// Bytes of parameters.
    pub(crate) params: usize,
}

/// A call of a product kernel.
#[derive(Debug)]
pub(crate) struct SharedCall<'a> {
    pub(crate) kernel: Product,
    pub(crate) buffers: Vec<Slice<'a>>,
    pub(crate) params: Vec<u32>,
    pub(crate) grid: [u32; 3],
}

/// Products that are alike enough to share a call.
#[derive(Debug, Default)]
pub(crate) struct Products(Vec<Waiting>);

impl Products {
    /// Whether `next` can join those that wait.
    pub(crate) fn accept(&self, next: &Waiting, limits: CallLimits) -> bool {
        let Some(first) = self.0.first() else { return true };
        let few = matches!(next.source.width, Width::Few(_));
        let alike = next.source == first.source
            && next.segment.tile.subgroups == first.segment.tile.subgroups;
        if !few || !alike || self.0.len() == MAX_SEGMENTS {
            return false;
        }
        // Nobody reads what another one writes, nor writes where another one does.
        let apart = self.0.iter().all(|other| {
            other.y != next.y
                && next.reads().all(|read| *read != other.y)
                && other.reads().all(|read| *read != next.y)
                && same_kind_same_input(&other.input, &next.input)
        });
        apart && self.fits(next, limits)
    }

    /// Whether a call of all of them is within the limits of the device.
    fn fits(&self, next: &Waiting, limits: CallLimits) -> bool {
        let kernel = kernel(self.0.iter().chain([next]));
        kernel.bindings() <= limits.bindings
            && 4 * (HEAD_WORDS + SEGMENT_WORDS * (self.0.len() + 1)) <= limits.params
            && kernel.workgroup_bytes() <= WORKGROUP_BYTES
    }

    pub(crate) fn push(&mut self, next: Waiting) {
        self.0.push(next);
    }

    /// All of them; `None` if there are none. They come back with [`Products::give_back`] when
    /// their call is recorded.
    pub(crate) fn take(&mut self) -> Option<Vec<Waiting>> {
        (!self.0.is_empty()).then(|| std::mem::take(&mut self.0))
    }

    /// Takes back what was taken, whose room is used again.
    pub(crate) fn give_back(&mut self, mut done: Vec<Waiting>) {
        done.clear();
        self.0 = done;
    }
}

/// Kernels have one f32 input and one of 8 bits.
fn same_kind_same_input(a: &Inputs, b: &Inputs) -> bool {
    match (a, b) {
        (Inputs::Float(a), Inputs::Float(b)) => a == b,
        (Inputs::Int8 { codes: a, .. }, Inputs::Int8 { codes: b, .. }) => a == b,
        _ => true,
    }
}

/// The kernel of some products that are alike.
fn kernel<'a>(all: impl Iterator<Item = &'a Waiting>) -> Product {
    let mut kernel =
        Product { rows: RowsOf::Window, width: Width::Few(1), segments: [None; MAX_SEGMENTS] };
    for (slot, one) in kernel.segments.iter_mut().zip(all) {
        *slot = Some(one.segment);
        (kernel.rows, kernel.width) = (one.source.rows, one.source.width);
    }
    kernel
}

/// The call that does all of them, which are alike. Buffers are in the order of the bindings in
/// `text`.
pub(crate) fn call(all: &[Waiting]) -> SharedCall<'_> {
    let kernel = kernel(all.iter());
    let mut buffers = Vec::with_capacity(kernel.bindings());
    let mut params = Vec::with_capacity(HEAD_WORDS + SEGMENT_WORDS * all.len());
    params.resize(HEAD_WORDS, 0);
    let mut groups = 0;
    let (mut int8, mut float, mut plan) = (None, None, None);
    let mut tables: Vec<(Book, Slice<'_>)> = Vec::new();
    for one in all {
        buffers.extend([&one.weights, &one.weights, &one.y].map(Held::slice));
        let words: [u32; SEGMENT_WORDS] = bytemuck::cast(one.work);
        params.extend(words);
        match &one.input {
            Inputs::Float(x) => float = Some(x.slice()),
            Inputs::Int8 { codes, scales } => int8 = Some([codes.slice(), scales.slice()]),
        }
        tables.extend(one.table.iter().map(|(book, words)| (*book, words.slice())));
        plan = one.source.plan.as_ref();
        let Source { width, window_rows, tiles, .. } = one.source;
        let blocks = (one.work.weight_rows as usize).div_ceil(width.weight_rows(one.segment.tile));
        groups += blocks * tiles;
        (params[0], params[2]) = (window_rows as u32, tiles as u32);
    }
    buffers.extend(int8.into_iter().flatten());
    buffers.extend(float);
    tables.sort_by_key(|(book, _)| *book);
    tables.dedup_by_key(|(book, _)| *book);
    buffers.extend(tables.into_iter().map(|(_, words)| words));
    buffers.extend(plan.into_iter().flatten().map(Held::slice));
    let grid = spread(groups);
    params[1] = grid[0];
    SharedCall { kernel, buffers, params, grid }
}
