//! The GPU as a device: its memory and its pending work.

#[cfg(test)]
mod tests;

use crate::NAME;
use crate::adapter::{GpuOptions, open, title};
use crate::buffer::GpuBuffer;
use crate::fault::Faults;
use crate::formats::{Book, Format};
use crate::lists::Route;
use crate::matrix::Matrix;
use crate::moe::Plan;
use crate::product::QuantisedRows;
use crate::profile::KernelTime;
use crate::qsa::{Angles, AnglesKey, QsaState, Selection};
use crate::recorder::Recorder;
use crate::scratch::Scratch;
use crate::split::Host;
use crate::states::{GdnState, PleState};
use crate::tile::{FewTile, Tile};
use kernels::tiles::TileTable;
use kernels::{Activations, Device, Error, GdnShape, KvType, PleShape, QsaShape, Weight};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A GPU with the kernels that were compiled for it.
#[derive(Debug)]
pub struct Gpu {
    pub(crate) recorder: Recorder,
    pub(crate) activations: Activations,
    /// Those that an audit found, for matrices that are loaded from now on.
    pub(crate) tiles: TileTable,
    /// In place of what a matrix's table says.
    pub(crate) forced_few: Option<FewTile>,
    /// For every product, in place of the one that is built in.
    pub(crate) forced_tile: Option<Tile>,
    /// Most bytes of a weight in one buffer, if less than the device allows.
    pub(crate) part_limit: u64,
    pub(crate) scratch: FxHashMap<Scratch, Arc<GpuBuffer>>,
    pub(crate) books: FxHashMap<Book, Arc<GpuBuffer>>,
    pub(crate) quantised: QuantisedRows,
    pub(crate) angles: HashMap<AnglesKey, Angles>,
    /// Where experts are multiplied that are not here.
    pub(crate) host: Host,
    title: String,
}

impl Gpu {
    /// Opens a GPU.
    ///
    /// # Errors
    /// [`Error::NoDevice`] saying what was found and why it does not do.
    pub fn new(options: &GpuOptions) -> Result<Self, Error> {
        let faults = Faults::default();
        let opened = open(options, &faults)?;
        let recorder = Recorder::new(opened.device, opened.queue, faults, options.route())?;
        // Apple's GPUs have no product of packed bytes: it would be made of many operations.
        let metal = opened.info.backend == wgpu::Backend::Metal;
        let default = if metal { Activations::F32 } else { Activations::Int8 };
        Ok(Self {
            recorder,
            activations: options.activations.unwrap_or(default),
            tiles: TileTable::default(),
            forced_few: None,
            forced_tile: None,
            part_limit: u64::MAX,
            scratch: FxHashMap::default(),
            books: FxHashMap::default(),
            quantised: QuantisedRows::default(),
            angles: HashMap::new(),
            host: Host::default(),
            title: title(&opened.info),
        })
    }

    /// After a fault what is kept between windows may not be what it should: it is made anew.
    fn forget_after<T>(&mut self, done: &Result<T, Error>) {
        if done.is_err() {
            self.angles.clear();
            self.quantised = QuantisedRows::default();
        }
    }

    /// Name of the GPU, its interface and its driver.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// From now on every call of a kernel is timed by itself, or no longer; what was found so far,
    /// by the kernels' names. Nothing is found on a device without a clock that can be read.
    pub fn profile(&mut self, on: bool) -> BTreeMap<String, KernelTime> {
        self.recorder.profile(on)
    }

    /// Seconds that were spent waiting for the GPU so far; the rest of a window is recording.
    pub fn waited(&self) -> f64 {
        self.recorder.waited()
    }

    /// How kernels get to the GPU.
    pub fn route(&self) -> Route {
        self.recorder.route()
    }

    /// Calls of kernels so far.
    pub fn calls(&self) -> u64 {
        self.recorder.calls()
    }
}

impl Device for Gpu {
    type Buffer = GpuBuffer;
    type Matrix = Matrix;
    type Vector = GpuBuffer;
    type Plan = Plan;
    type Selection = Selection;
    type GdnState = GdnState;
    type QsaState = QsaState;
    type PleState = PleState;

    fn name(&self) -> &'static str {
        NAME
    }

    fn memory_used(&self) -> Option<u64> {
        Some(self.recorder.allocator.used())
    }

    fn alloc(&mut self, len: usize) -> Result<GpuBuffer, Error> {
        self.recorder.allocator.storage(len, "activations")
    }

    fn upload(&mut self, values: &[f32], buffer: &mut GpuBuffer) {
        self.recorder.upload(bytemuck::cast_slice(values), buffer, 0);
    }

    fn download(&mut self, buffer: &GpuBuffer, out: &mut [f32]) -> Result<(), Error> {
        let done = self.recorder.download(buffer, bytemuck::cast_slice_mut(out));
        self.forget_after(&done);
        done
    }

    fn finish(&mut self) -> Result<Option<f64>, Error> {
        let finished = self.recorder.finish();
        self.forget_after(&finished);
        finished.map(Some)
    }

    fn load_matrix(&mut self, weight: &Weight, activations: Activations) -> Result<Matrix, Error> {
        self.load(weight, activations)
    }

    /// The others are multiplied by the processors.
    fn load_experts(
        &mut self,
        weight: &Weight,
        activations: Activations,
        held: &[bool],
    ) -> Result<Matrix, Error> {
        self.load_divided(weight, activations, held)
    }

    /// The table stays where it is; its rows are decoded when they are gathered.
    fn load_table(&mut self, weight: &Weight) -> Result<Matrix, Error> {
        self.host_table(weight)
    }

    fn load_vector(&mut self, weight: &Weight) -> Result<GpuBuffer, Error> {
        if Format::of(weight.ty()).is_none() {
            let (name, ty) = (weight.name().to_owned(), weight.ty());
            return Err(Error::UnsupportedFormat { name, ty, device: NAME });
        }
        let values = weight.decode();
        let buffer = self.recorder.allocator.storage(values.len(), "small weights")?;
        self.recorder.upload(bytemuck::cast_slice(&values), &buffer, 0);
        Ok(buffer)
    }

    fn new_plan(&mut self) -> Plan {
        Plan::default()
    }

    fn new_selection(&mut self) -> Selection {
        Selection::default()
    }

    fn new_gdn_state(
        &mut self,
        shape: &GdnShape,
        slots: usize,
        deferred: usize,
    ) -> Result<GdnState, Error> {
        GdnState::new(&self.recorder.allocator, shape, slots, deferred)
    }

    fn new_qsa_state(
        &mut self,
        shape: &QsaShape,
        slots: usize,
        context: usize,
        kv: KvType,
    ) -> Result<QsaState, Error> {
        QsaState::new(shape, slots, context, kv)
    }

    fn new_ple_state(
        &mut self,
        shape: &PleShape,
        slots: usize,
        deferred: usize,
    ) -> Result<PleState, Error> {
        PleState::new(&self.recorder.allocator, shape, slots, deferred)
    }

    fn reset_gdn(&mut self, state: &mut GdnState, slot: usize) {
        state.reset(&mut self.recorder, slot);
    }

    fn reserve_qsa(
        &mut self,
        _: &QsaShape,
        state: &mut QsaState,
        slot: usize,
        len: usize,
    ) -> Result<(), Error> {
        state.reserve(&mut self.recorder, slot, len)
    }

    fn reset_qsa(&mut self, state: &mut QsaState, slot: usize) {
        state.reset(slot);
    }

    fn reset_ple(&mut self, state: &mut PleState, slot: usize) {
        state.reset(&mut self.recorder, slot);
    }
}
