//! Products that wait for others to share their call.

use super::text::{HEAD_WORDS, SEGMENT_WORDS};
use super::{Conv, Convolution, Inputs, MAX_SEGMENTS, Product, RowsOf, Segment};
use crate::buffer::Held;
use crate::formats::Book;
use crate::kernel::Kernel;
use crate::open::{Injection, SharedCall};
use crate::recorder::spread;
use crate::tile::Width;
use bytemuck::{Pod, Zeroable};

/// Bytes of workgroup memory that every device has.
pub(super) const WORKGROUP_BYTES: u32 = 16 << 10;

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
        let alone =
            Product { rows: self.rows, width: self.width, segments, streams: 0, conv: None };
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
    pub(super) fn reads(&self) -> impl Iterator<Item = &Held> {
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

impl CallLimits {
    pub(super) fn allow(self, kernel: &Product) -> bool {
        kernel.bindings() <= self.bindings
            && 4 * (HEAD_WORDS + SEGMENT_WORDS * kernel.segments().count()) <= self.params
            && kernel.workgroup_bytes() <= WORKGROUP_BYTES
    }
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
        limits.allow(&kernel_of(self.0.iter().chain([next]), 0, None))
    }

    pub(crate) fn push(&mut self, next: Waiting) {
        self.0.push(next);
    }

    /// Whether the streams can take the result of a product: of one alone that makes all of it.
    pub(crate) fn takes(&self, injection: &Injection, limits: CallLimits) -> bool {
        let [one] = &self.0[..] else { return false };
        let Source { rows, window_rows, width, .. } = one.source;
        let all = (one.work.y_first, one.work.weight_rows) == (0, one.work.y_width)
            && (rows, window_rows) == (RowsOf::Window, injection.rows)
            && one.work.y_width as usize == injection.width;
        let apart = injection.is_apart() && one.reads().all(|read| *read != injection.x);
        let kernel = kernel_of(self.0.iter(), injection.streams, None);
        let few = matches!(width, Width::Few(_)) && limits.allow(&kernel);
        all && apart && few && one.y == injection.y
    }

    /// The call that does all of them; `None` if there are none.
    pub(crate) fn take(
        &mut self,
        injection: Option<Injection>,
        convolution: Option<Convolution>,
    ) -> Option<SharedCall> {
        let waiting = std::mem::take(&mut self.0);
        (!waiting.is_empty()).then(|| call(&waiting, injection, convolution))
    }

    pub(crate) fn waiting(&self) -> &[Waiting] {
        &self.0
    }

    /// The only one, which no longer waits; `None` if there are more or none.
    pub(crate) fn take_only(&mut self) -> Option<Waiting> {
        if self.0.len() == 1 { self.0.pop() } else { None }
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
pub(super) fn kernel_of<'a>(
    all: impl Iterator<Item = &'a Waiting>,
    streams: u32,
    conv: Option<Conv>,
) -> Product {
    let (rows, width) = (RowsOf::Window, Width::Few(1));
    let mut kernel = Product { rows, width, segments: [None; MAX_SEGMENTS], streams, conv };
    for (slot, one) in kernel.segments.iter_mut().zip(all) {
        *slot = Some(one.segment);
        (kernel.rows, kernel.width) = (one.source.rows, one.source.width);
    }
    kernel
}

/// Buffers in the order of the bindings in `text`.
fn call(
    all: &[Waiting],
    injection: Option<Injection>,
    convolution: Option<Convolution>,
) -> SharedCall {
    let streams = injection.as_ref().map_or(0, |injection| injection.streams);
    let kernel = kernel_of(all.iter(), streams, convolution.as_ref().map(|asked| asked.conv));
    let mut buffers = Vec::with_capacity(kernel.bindings());
    let mut params = Vec::with_capacity(HEAD_WORDS + SEGMENT_WORDS * all.len());
    params.resize(HEAD_WORDS, 0);
    let mut groups = 0;
    let (mut int8, mut float) = (None, None);
    let mut tables: Vec<&(Book, Held)> = all.iter().flat_map(|one| &one.table).collect();
    tables.sort_by_key(|(book, _)| *book);
    tables.dedup_by_key(|(book, _)| *book);
    for one in all {
        buffers.extend([one.weights.clone(), one.weights.clone(), one.y.clone()]);
        let words: [u32; SEGMENT_WORDS] = bytemuck::cast(one.work);
        params.extend(words);
        match &one.input {
            Inputs::Float(x) => float = Some(x),
            Inputs::Int8 { codes, scales } => int8 = Some([codes, scales]),
        }
        let Source { width, window_rows, tiles, .. } = one.source;
        let blocks = (one.work.weight_rows as usize).div_ceil(width.weight_rows(one.segment.tile));
        groups += blocks * tiles;
        (params[0], params[2]) = (window_rows as u32, tiles as u32);
    }
    buffers.extend(int8.into_iter().flatten().chain(float).cloned());
    buffers.extend(tables.into_iter().map(|(_, words)| words.clone()));
    let plan = all.last().and_then(|one| one.source.plan.as_ref());
    buffers.extend(plan.into_iter().flatten().cloned());
    buffers.extend(injection.into_iter().flat_map(Injection::buffers));
    let grid = spread(groups);
    params[1] = grid[0];
    let mut constants = None;
    if let Some(Convolution { others, runs, .. }) = convolution {
        buffers.extend(others);
        constants = Some(runs.0);
        params[3] = runs.1;
    }
    SharedCall { kernel: Kernel::Product(kernel), buffers, constants, params, grid }
}
