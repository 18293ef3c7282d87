//! Family `qsa`: the cache, the choice of blocks, attention.
//!
//! - `layout`: how keys and values lie, and what shaders know of a layer's shape.
//! - `cache`: the caches of all slots; `transfer`: their way to the host and back.
//! - `angles`: cosines and sines of all positions.
//! - `append`, `select`, `attend`: the steps of a layer.

mod angles;
mod append;
mod attend;
mod cache;
mod layout;
mod select;
#[cfg(test)]
mod tests;
mod transfer;

pub(crate) use angles::{Angles, AnglesKey};
pub use cache::QsaState;
pub use select::Selection;

use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use crate::shader::Shader;
use attend::{Attend, merge_shader};
use kernels::host::KvSlot;
use kernels::qsa::{AttendQuery, IndexQuery};
use kernels::{Error, Qsa, QsaKeys, QsaShape, Window};
use layout::Layout;
use select::{MAX_SCORES, choose_shader, score_shader};
use std::ops::Range;

/// A kernel of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum QsaKernel {
    /// Keys and values into the cache.
    Append(Layout),
    /// Scores of blocks.
    Score(Layout),
    /// The best blocks of each row; blocks have so many tokens.
    Choose(u32),
    /// Attention over the chosen positions, or over a part of them.
    Attend(Attend),
    /// The parts together.
    Merge(Layout),
    /// The same with the result in 8 bits as well.
    MergeCodes(Layout),
}

impl QsaKernel {
    pub(crate) fn shader(self) -> Shader {
        match self {
            Self::Append(layout) => append::shader(&layout),
            Self::Score(layout) => score_shader(&layout),
            Self::Choose(block) => choose_shader(block),
            Self::Attend(attend) => attend.shader(),
            Self::Merge(layout) => merge_shader(&layout, false),
            Self::MergeCodes(layout) => merge_shader(&layout, true),
        }
    }

    /// Of every type of cache, with and without an indexer.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<Self> {
        use kernels::KvType;
        let mut all = vec![Self::Choose(4)];
        for kv in KvType::ALL {
            let sparse = Layout {
                kv,
                kv_heads: 2,
                group: 12,
                head: 256,
                pairs: 32,
                block: 4,
                index: 128,
                index_heads: 4,
                index_pairs: 32,
            };
            let dense = Layout { block: 0, index: 0, index_heads: 0, index_pairs: 0, ..sparse };
            all.push(Self::Score(sparse));
            for layout in [sparse, dense] {
                all.extend([Self::Append(layout), Self::Merge(layout), Self::MergeCodes(layout)]);
                for whole in [false, true] {
                    all.push(Self::Attend(Attend { layout, together: 6, whole }));
                }
            }
        }
        // Merging and scores do not depend on the type of the cache.
        let mut seen = std::collections::HashSet::new();
        all.retain(|kernel| seen.insert(kernel.shader().name));
        all
    }
}

/// Constants of a shader, by name.
type Constants = Vec<(&'static str, u32)>;

/// The runs of a window with rows, as shaders read them, and their number.
fn runs(window: &Window, state: &QsaState) -> (Vec<u32>, u32) {
    let mut words = Vec::new();
    for run in window.runs().iter().filter(|run| run.len > 0) {
        let slot = state.slot(run.slot);
        let places = [run.first_row, run.first_pos, slot.kv_first, slot.index_first];
        words.extend(places.into_iter().chain([slot.block_first(), 0, 0, 0]).map(|x| x as u32));
    }
    let count = words.len() as u32 / 8;
    (words, count)
}

/// # Panics
/// If a cache lacks rows of the window: kernels read them unchecked.
fn check_appended(window: &Window, state: &QsaState) {
    for run in window.runs().iter().filter(|run| run.len > 0) {
        let (held, end) = (state.slot(run.slot).len, run.first_pos + run.len);
        assert!(held >= end, "slot {} holds {held} of {end} tokens", run.slot);
    }
}

/// One past the last position of a window.
fn end(window: &Window) -> usize {
    window.runs().iter().map(|run| run.first_pos + run.len).max().unwrap_or(0)
}

impl Qsa for Gpu {
    fn qsa_append(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        keys: QsaKeys<'_, GpuBuffer, GpuBuffer>,
        state: &mut QsaState,
    ) {
        self.append(shape, window, &keys, state);
    }

    fn qsa_select(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        query: Option<IndexQuery<'_, GpuBuffer, GpuBuffer>>,
        state: &QsaState,
        selection: &mut Selection,
    ) {
        selection.start(shape, window, query.is_none());
        // A lack of memory is kept as a fault; what is computed with the selection is void then.
        if let Some(query) = query
            && !selection.everything()
            && self.select(shape, window, (&query, state), selection, MAX_SCORES).is_none()
        {
            selection.forget();
        }
    }

    fn qsa_attend(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        query: AttendQuery<'_, GpuBuffer, GpuBuffer, Selection>,
        state: &QsaState,
        o: &mut GpuBuffer,
    ) {
        self.attend(shape, window, (&query, state), o);
    }

    /// A fault of the device gives empty rows, and is reported by the next download.
    fn selected_blocks(&mut self, selection: &Selection) -> Vec<Vec<u32>> {
        self.chosen_blocks(selection)
    }

    /// A fault of the device gives an empty slot, and is reported by the next download.
    fn export_qsa(&mut self, state: &QsaState, slot: usize) -> KvSlot {
        self.export_rows(state, slot, 0..state.slot(slot).len)
    }

    /// A fault of the device gives an empty slot, and is reported by the next download.
    fn export_qsa_rows(
        &mut self,
        _: &QsaShape,
        state: &QsaState,
        slot: usize,
        rows: Range<usize>,
    ) -> KvSlot {
        self.export_rows(state, slot, rows)
    }

    fn import_qsa_rows(
        &mut self,
        _: &QsaShape,
        state: &mut QsaState,
        slot: usize,
        piece: (usize, &KvSlot),
    ) -> Result<(), Error> {
        self.import_rows(state, slot, piece)
    }
}
